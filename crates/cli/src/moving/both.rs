//! Keys that hold a value in both of their places, before a move turns round.
//!
//! Clients see the value in the new place; the other was written past keyfold. Where the move turns round, the old
//! place becomes the new one, and clients would see another value all at once.

use keyfold_core::layout::{Layout, Located, Namespace, Place, PlaceKind};
use keyfold_core::placement::Placement;
use keyfold_core::resp::{Reply, write_command};

use crate::layout::keys;
use crate::scan::{self, Database};
use crate::server::Server;

/// Keys that are named, of those that were found.
const NAMED: usize = 3;

/// What stands against going from `before` to `planned`.
pub(crate) fn check(server: &mut Server, before: Option<&Layout>, planned: &Layout) -> anyhow::Result<Option<String>> {
    let Some(before) = before.filter(|before| before.moving().any(|namespace| turns(namespace, planned))) else {
        return Ok(None);
    };
    let (mut found, mut names) = (0_u64, Vec::new());
    for Database { number: database, .. } in scan::databases(server)? {
        server.select(database)?;
        let mut cursor: Vec<u8> = b"0".to_vec();
        loop {
            for key in next_in_both(server, before, planned, &mut cursor)? {
                found += 1;
                if names.len() < NAMED {
                    names.push(format!("\"{}\"", key.escape_ascii()));
                }
            }
            if cursor == b"0" {
                break;
            }
        }
    }
    server.select(0)?;
    let names = names.join(", ");
    Ok((found > 0).then(|| {
        format!(
            "{found} of the keys to be taken back were written past keyfold while they were folded, and hold two \
             values: {names}. Clients see the one in the bucket, and would see the other. End the fold first: it takes away what \
             is the same in both. DEL the others on the server itself, not through keyfold, to remove that one"
        )
    }))
}

/// Whether a namespace that is moving from plain is to move back there.
fn turns(namespace: &Namespace, planned: &Layout) -> bool {
    let is_from_plain = namespace.former.as_ref().is_some_and(|former| former.placement == Placement::Plain);
    let after = planned.namespaces().iter().find(|after| after.template.same_shape(&namespace.template));
    is_from_plain
        && namespace.placement != Placement::Plain
        && after.is_some_and(|after| after.placement == Placement::Plain)
}

/// One page of SCAN: the keys in it that hold a value in their bucket as well.
fn next_in_both(
    server: &mut Server,
    before: &Layout,
    planned: &Layout,
    cursor: &mut Vec<u8>,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut wire = Vec::new();
    write_command(&mut wire, &[b"SCAN", cursor, b"MATCH", &keys::pattern_of_moves(before), b"COUNT", b"1000"]);
    let reply = server.exchange(&wire, 1)?.pop().unwrap_or_default();
    let Ok(Reply::Array(mut parts)) = Reply::parse(&reply) else {
        anyhow::bail!("SCAN was refused: {}", String::from_utf8_lossy(&reply).trim_end());
    };
    *cursor = parts.next().and_then(Reply::bytes).unwrap_or(b"0").to_vec();
    wire.clear();
    let mut asked = Vec::new();
    if let Some(Reply::Array(names)) = parts.next() {
        for name in names.filter_map(Reply::bytes) {
            let Some(bucket) = bucket_of(name, before, planned) else { continue };
            write_command(&mut wire, &[b"HEXISTS", &bucket.physical, &bucket.field]);
            asked.push(name.to_vec());
        }
    }
    let replies = server.exchange(&wire, asked.len())?;
    Ok(asked.into_iter().zip(replies).filter(|(_, reply)| reply == b":1\r\n").map(|(key, _)| key).collect())
}

/// The bucket of a plain key whose namespace turns round.
fn bucket_of(key: &[u8], before: &Layout, planned: &Layout) -> Option<Place> {
    let Located::Moving(moving) = before.locate(key) else { return None };
    let new = moving.new.filter(|place| place.kind == PlaceKind::Bucket)?;
    (moving.old.is_none() && turns(before.namespace(moving.namespace), planned)).then_some(new)
}
