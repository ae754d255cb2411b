//! Fields of one bucket that leave, compared and removed in two steps of the server for all of them: most of what leaves.

use crate::exchange::Script;
use crate::layout::NamespaceIndex;
use crate::resp::write_command;
use crate::slot::Slot;
use crate::sweep::Field;

const EVICT: Script = Script { source: include_str!("evict.lua"), sha: b"ecdd81907534532e01a0d855784e3236c7dcc868" };

/// Fields of a bucket with what they held when they were looked at.
#[derive(Debug)]
pub(super) struct ColdFields {
    pub(super) namespace: NamespaceIndex,
    pub(super) bucket: Vec<u8>,
    /// Each field, and what it held.
    fields: Vec<Vec<u8>>,
    /// About what they take together.
    pub(super) bytes: usize,
    /// How many of them are new.
    pub(super) new: u64,
}

impl ColdFields {
    /// The first of a bucket.
    pub(super) fn of(found: &Field<'_>, bytes: usize, is_new: bool) -> Self {
        let (namespace, bucket) = (found.namespace, found.bucket.to_vec());
        let mut cold = Self { namespace, bucket, fields: Vec::new(), bytes: 0, new: 0 };
        cold.add(found, bytes, is_new);
        cold
    }

    /// One more of the same bucket.
    pub(super) fn add(&mut self, found: &Field<'_>, bytes: usize, is_new: bool) {
        self.fields.extend([found.field.to_vec(), found.stored.to_vec()]);
        self.bytes += bytes;
        self.new += u64::from(is_new);
    }

    /// How many they are.
    pub(super) fn count(&self) -> u64 {
        self.fields.len() as u64 / 2
    }

    /// The slot of their bucket.
    pub(super) fn slot(&self) -> Slot {
        Slot::of(&self.bucket)
    }

    /// Appends one call for all of them. It has one reply: how many of each bucket went.
    pub(super) fn send(all: &[Self], wire: &mut Vec<u8>) {
        let buckets = all.len().to_string();
        let counts: Vec<_> = all.iter().map(|cold| cold.count().to_string()).collect();
        let mut args: Vec<&[u8]> = vec![b"EVALSHA", EVICT.sha, buckets.as_bytes()];
        args.extend(all.iter().map(|cold| cold.bucket.as_slice()));
        for (cold, count) in all.iter().zip(&counts) {
            args.push(count.as_bytes());
            args.extend(cold.fields.iter().map(Vec::as_slice));
        }
        write_command(wire, &args);
    }

    /// Appends the command that makes the server know the script of [`Self::send`]; it has one reply.
    pub(super) fn send_load(wire: &mut Vec<u8>) {
        EVICT.send_load(wire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_known_by_its_hash() {
        EVICT.assert_sha();
    }

    #[test]
    fn fields_go_out_by_their_buckets() {
        let found = |bucket, field, stored| Field { namespace: NamespaceIndex(0), bucket, field, stored };
        let mut one = ColdFields::of(&found(b"~a", b"1", b"x"), 10, true);
        one.add(&found(b"~a", b"2", b""), 5, false);
        let other = ColdFields::of(&found(b"~b", b"3", b"y"), 7, false);
        assert_eq!((one.count(), one.bytes, one.new), (2, 15, 1));
        let (mut wire, mut wanted) = (Vec::new(), Vec::new());
        ColdFields::send(&[one, other], &mut wire);
        write_command(
            &mut wanted,
            &[b"EVALSHA", EVICT.sha, b"2", b"~a", b"~b", b"2", b"1", b"x", b"2", b"", b"1", b"3", b"y"],
        );
        assert_eq!(wire, wanted);
    }
}
