//! Reads a bucket in pieces.
//!
//! A bucket is small as long as keys are spread by its placement's rule; but whoever chooses keys may fill one with
//! as many as he likes. So no walk opens a bucket by HGETALL: HSCAN gives a small one, which is listpack-encoded,
//! whole in one step, and a large one in steps that hold the server up for no longer.

use crate::resp::{Reply, write_command};
use crate::walk::read_page;

/// Fields of a hashtable-encoded bucket in one step, about. A listpack-encoded one comes whole whatever this says.
const FIELDS_AT_ONCE: &[u8] = b"1000";

/// Appends the next step; it has one reply. The first cursor is `0`.
pub(crate) fn send_step(bucket: &[u8], cursor: &[u8], wire: &mut Vec<u8>) {
    write_command(wire, &[b"HSCAN", bucket, cursor, b"COUNT", FIELDS_AT_ONCE]);
}

/// A field and its stored value.
type Pair<'r> = (&'r [u8], &'r [u8]);

/// The next cursor, `0` at the end, and the fields with their stored values; none for what is no such reply. A field
/// may come twice, as SCAN's keys may.
pub(crate) fn read_step(reply: Reply<'_>) -> Option<(&[u8], impl Iterator<Item = Pair<'_>>)> {
    let (cursor, mut fields) = read_page(reply)?;
    let pairs = std::iter::from_fn(move || match (fields.next(), fields.next()) {
        (Some(Reply::Bulk(field)), Some(Reply::Bulk(stored))) => Some((field, stored)),
        _ => None,
    });
    Some((cursor, pairs))
}
