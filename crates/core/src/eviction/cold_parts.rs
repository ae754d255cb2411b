//! A set or hash that lies in parts and leaves, with all of these: memory has room again at once.

use crate::collection::parts::{Header, Remainder};
use crate::exchange::{Env, Script};
use crate::layout::{Layout, NamespaceIndex};
use crate::notify::{Event, Notices};
use crate::placement::name::PartName;
use crate::record::part_name;
use crate::resp::{Reply, write_command};
use crate::sweep::Field;

const EVICT: Script =
    Script { source: include_str!("evict_parts.lua"), sha: b"9b265f319731635267b74391226b90d2be9cf765" };

const OUTLIER_BYTES: &str = include_str!("outlier_bytes.lua");

/// So many parts are removed by one call: a millisecond or two of the server's time.
const MOST_PARTS: &[u8] = b"2000";

/// What a member takes, about, as servers pack them.
const INTEGER_BYTES: u64 = 5;
const TEXT_BYTES: u64 = 32;

/// Why something leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Expired,
    /// Worth the least; `is_new` where nothing was known of it.
    Cold {
        is_new: bool,
    },
}

/// What the members of one take, by its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartsBytes {
    /// Of those that are short.
    pub(super) packed: usize,
    /// There are others, or what lies in no part yet, of which the header doesn't tell it.
    pub(super) has_more: bool,
}

impl PartsBytes {
    pub(super) fn of(header: &[u8]) -> Self {
        let Some(header) = Header::decode(header) else { return Self { packed: 0, has_more: false } };
        let [integers, texts, outliers] = header.classes.map(|class| class.count);
        let packed = integers.saturating_mul(INTEGER_BYTES).saturating_add(texts.saturating_mul(TEXT_BYTES));
        let has_more = outliers > 0 || header.remainder != Remainder::None;
        Self { packed: usize::try_from(packed).unwrap_or(usize::MAX), has_more }
    }

    /// Asks how much more it is, by the name that says whose parts they are; it has one reply.
    pub(super) fn ask(owner: &[u8], wire: &mut Vec<u8>) {
        write_command(wire, &[b"EVAL", OUTLIER_BYTES.as_bytes(), b"1", owner]);
    }
}

/// The name that says whose the parts are that a field of this bucket points to by this nonce; none where that is none of keyfold's
/// buckets.
pub(super) fn owner_of(bucket: &[u8], nonce: u64) -> Option<Vec<u8>> {
    Some(part_name(Layout::origin_of(bucket)?, nonce, PartName::Owner))
}

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
    /// When it was over, if that is why.
    expired_at_ms: Option<i64>,
    pub(super) why: Why,
    /// About what is left of it.
    pub(super) bytes: usize,
    /// How far in its directories it has been removed.
    reached: u64,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// It has changed, and stays.
    Not,
    /// So many bytes of it, about; whether that is the first of it, and whether that is all.
    Some { bytes: usize, is_first: bool, is_all: bool },
}

impl ColdParts {
    /// That which a field points to by this nonce; none where that is none of keyfold's buckets.
    pub(super) fn of(
        found: &Field<'_>,
        nonce: u64,
        (why, expired_at_ms): (Why, Option<i64>),
        bytes: usize,
        notices: Option<Notices>,
        env: &Env<'_>,
    ) -> Option<Self> {
        let owner = owner_of(found.bucket, nonce)?;
        let event = if why == Why::Expired { Event::Expired } else { Event::Evicted };
        let key =
            notices.and_then(|notices| Some((notices, env.layout.key_of(found.namespace, found.bucket, found.field)?)));
        Some(Self {
            namespace: found.namespace,
            bucket: found.bucket.to_vec(),
            field: found.field.to_vec(),
            stored: found.stored.to_vec(),
            owner,
            told: key.map_or_else(Vec::new, |(notices, key)| notices.messages(&key, event).collect()),
            expired_at_ms,
            why,
            bytes,
            reached: 0,
        })
    }

    /// Appends the call that removes it, or more of it; it has one reply.
    pub(super) fn send(&self, wire: &mut Vec<u8>) {
        let (reached, expired_at_ms) = (self.reached.to_string(), self.expired_at_ms.map(|at| at.to_string()));
        let mut args: Vec<&[u8]> =
            vec![b"EVALSHA", EVICT.sha, b"1", &self.bucket, &self.field, &self.stored, &self.owner];
        args.extend([MOST_PARTS, reached.as_bytes(), expired_at_ms.as_ref().map_or(b"-", |at| at.as_bytes())]);
        if self.reached == 0 {
            args.extend(self.told.iter().flatten().map(Vec::as_slice));
        }
        write_command(wire, &args);
    }

    /// Appends the command that makes the server know the script of [`Self::send`]; it has one reply.
    pub(super) fn send_load(wire: &mut Vec<u8>) {
        EVICT.send_load(wire);
    }

    /// What came of it, by what answers.
    pub(super) fn take(&mut self, reply: Reply<'_>) -> Gone {
        let Reply::Array(mut numbers) = reply else { return Gone::Not };
        let mut number = || match numbers.next() {
            Some(Reply::Integer(number)) => u64::try_from(number).ok(),
            _ => None,
        };
        let (Some(reached), Some(ends)) = (number(), number()) else { return Gone::Not };
        let (was_at, is_all) = (self.reached, reached >= ends);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "about"
        )]
        let bytes = match is_all {
            true => self.bytes,
            false => {
                let share = reached.saturating_sub(was_at) as f64 / ends.saturating_sub(was_at).max(1) as f64;
                (self.bytes as f64 * share) as usize
            }
        };
        self.reached = reached;
        self.bytes = self.bytes.saturating_sub(bytes);
        Gone::Some { bytes, is_first: was_at == 0, is_all }
    }

    /// Leaves what is left of it to the sweep.
    pub(super) fn leave(self, env: &Env<'_>) {
        env.stats.sweep().abandoned.note(self.owner);
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
    fn what_it_takes_is_told_by_its_header_as_far_as_that_says_it() {
        let mut header = Header::new(Form::Fields, 7);
        let bytes = |header: &Header| {
            let PartsBytes { packed, has_more } = PartsBytes::of(&header.encode());
            (packed, has_more)
        };
        assert_eq!(bytes(&header), (0, false));
        header.classes = [1000, 100, 0].map(|count| ClassSize { depth: 3, count });
        assert_eq!(bytes(&header), (5000 + 3200, false));
        header.classes[2].count = 1;
        assert_eq!(bytes(&header), (5000 + 3200, true));
        header.classes[2].count = 0;
        header.remainder = Remainder::Drains;
        assert!(bytes(&header).1);
        header.classes[1].count = (1 << 40) - 1;
        assert!(bytes(&header).0 > 1 << 44);
        assert_eq!(PartsBytes::of(b"no header"), PartsBytes { packed: 0, has_more: false });
    }
}
