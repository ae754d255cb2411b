//! A set or hash that lies in parts and leaves, with all of these: memory has room again at once.

use crate::collection::parts::Header;
use crate::exchange::{Env, Script};
use crate::layout::{Layout, NamespaceIndex};
use crate::notify::{Event, Notices};
use crate::placement::name::PartName;
use crate::record::part_name;
use crate::resp::write_command;
use crate::sweep::Field;

const EVICT: Script =
    Script { source: include_str!("evict_parts.lua"), sha: b"221e99b01f2b3835f46cfe2f13f9ada527808c64" };

/// So many parts are removed at once: some milliseconds of the server's time. Those of a larger one are left to the sweep.
const MOST_PARTS: &[u8] = b"10000";

/// What a member takes, about: a server packs short ones, and those that are too long have an entry of a table each.
const INTEGER_BYTES: u64 = 5;
const TEXT_BYTES: u64 = 32;
const OUTLIER_BYTES: u64 = 192;

/// One that leaves.
#[derive(Debug)]
pub(super) struct ColdParts {
    pub(super) namespace: NamespaceIndex,
    bucket: Vec<u8>,
    field: Vec<u8>,
    /// What the field held when it was looked at.
    stored: Vec<u8>,
    /// The name that says whose the parts are, with which all of theirs begin.
    owner: Vec<u8>,
    /// Channels and messages: what is published.
    told: Vec<[Vec<u8>; 2]>,
    /// About what it takes.
    pub(super) bytes: usize,
    pub(super) is_new: bool,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It has changed, and stays.
    Not,
    /// With all its parts.
    Whole,
    /// Its parts are still there.
    ButItsParts,
}

/// What all members take, about, by the header.
pub(super) fn bytes_of(header: &[u8]) -> usize {
    let Some(header) = Header::decode(header) else { return 0 };
    let each = [INTEGER_BYTES, TEXT_BYTES, OUTLIER_BYTES];
    let bytes = header.classes.iter().zip(each).map(|(class, bytes)| class.count.saturating_mul(bytes));
    usize::try_from(bytes.fold(0, u64::saturating_add)).unwrap_or(usize::MAX)
}

impl ColdParts {
    /// That which a field points to by this nonce; none where that is none of keyfold's buckets.
    pub(super) fn of(
        found: &Field<'_>,
        nonce: u64,
        (bytes, is_new): (usize, bool),
        notices: Option<Notices>,
        env: &Env<'_>,
    ) -> Option<Self> {
        let owner = part_name(Layout::origin_of(found.bucket)?, nonce, PartName::Owner);
        let key =
            notices.and_then(|notices| Some((notices, env.layout.key_of(found.namespace, found.bucket, found.field)?)));
        Some(Self {
            namespace: found.namespace,
            bucket: found.bucket.to_vec(),
            field: found.field.to_vec(),
            stored: found.stored.to_vec(),
            owner,
            told: key.map_or_else(Vec::new, |(notices, key)| notices.messages(&key, Event::Evicted).collect()),
            bytes,
            is_new,
        })
    }

    /// Appends the call that removes it; it has one reply.
    pub(super) fn send(&self, wire: &mut Vec<u8>) {
        let mut args: Vec<&[u8]> =
            vec![b"EVALSHA", EVICT.sha, b"1", &self.bucket, &self.field, &self.stored, &self.owner];
        args.push(MOST_PARTS);
        args.extend(self.told.iter().flatten().map(Vec::as_slice));
        write_command(wire, &args);
    }

    /// Appends the command that makes the server know the script of [`Self::send`]; it has one reply.
    pub(super) fn send_load(wire: &mut Vec<u8>) {
        EVICT.send_load(wire);
    }

    /// What came of it, by the integer that answers; the sweep is told of what stays behind.
    pub(super) fn gone(&self, answer: i64, env: &Env<'_>) -> Gone {
        match answer {
            0 => Gone::Not,
            1 => Gone::Whole,
            _ => {
                env.stats.sweep().abandoned.note(self.owner.clone());
                Gone::ButItsParts
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::parts::{ClassSize, Form};

    #[test]
    fn the_script_is_known_by_its_hash() {
        EVICT.assert_sha();
    }

    #[test]
    fn what_it_takes_is_told_by_its_header() {
        let mut header = Header::new(Form::Fields, 7);
        assert_eq!(bytes_of(&header.encode()), 0);
        header.classes = [1000, 100, 10].map(|count| ClassSize { depth: 3, count });
        assert_eq!(bytes_of(&header.encode()), 5000 + 3200 + 1920);
        header.classes[2].count = (1 << 40) - 1;
        assert!(bytes_of(&header.encode()) > 1 << 47);
        assert_eq!(bytes_of(b"no header"), 0);
    }
}
