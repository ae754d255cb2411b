//! One key's way through an import: which command comes next, and what its answer means.
//!
//! ```text
//! Write ──there already──▶ Value ──────────────────────────────────▶ Expiry ──the same──▶ as it was
//!   │  ▲               └─▶ Elements, or Members ──▶ Beside ──────────▶
//!   │  └─ payload refused
//!   ▼ written                       what differs at any of these is a conflict
//! ```
//!
//! A payload is first written as the dump has it, which the server takes as it is where it is of no older version. One that it refuses
//! is written once more in the form that every server reads.

use std::borrow::Cow;
use std::collections::HashSet;

use anyhow::bail;
use keyfold_core::collection::{CollectionKind, FieldExpiryForm};
use keyfold_core::resp::Reply;
use keyfold_rdb::portable;

use crate::records::{Content, Other, Packed, Record, content};

/// How far an expiry may be off where the server says only what is left.
const PTTL_TOLERANCE_MS: u64 = 1000;

/// Errors after which no other key fares better.
const FATAL: [&str; 10] =
    ["OOM", "READONLY", "NOPERM", "NOAUTH", "MISCONF", "LOADING", "NOREPLICAS", "MASTERDOWN", "BUSY", "CLUSTERDOWN"];

/// Members that one SSCAN or HSCAN looks at.
const MEMBERS_AT_ONCE: &[u8] = b"1000";

/// The longest argument that servers take, where `proto-max-bulk-len` isn't set.
const LONGEST_PAYLOAD: usize = 512 << 20;

/// What the server is like, or the one of a cluster's nodes that has least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) has_pexpiretime: bool,
    pub(super) has_field_expiry: bool,
    pub(super) field_expiry_form: FieldExpiryForm,
}

/// A record and where it comes from.
pub(super) struct Item {
    pub(super) line: u64,
    pub(super) record: Record,
    /// What it takes in memory as it was read, about.
    pub(super) bytes: usize,
    /// Whether its payload is in the form that every server reads, as far as there is one.
    is_portable: bool,
}

impl Item {
    pub(super) fn new(line: u64, record: Record) -> Self {
        let content = match &record.content {
            Content::String(value) => value.len(),
            Content::Other(other) | Content::Packed(Packed { other, .. }) => other.dump.len(),
        };
        let bytes = record.key.len() + content;
        Self { line, record, bytes, is_portable: false }
    }

    /// What RESTORE takes; none for strings.
    fn payload(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.record.content {
            Content::String(_) => None,
            Content::Other(other) | Content::Packed(Packed { other, .. }) => Some(&mut other.dump),
        }
    }

    /// Brings its payload into the form that every server reads, in which a compressed one is many times as long; false where that was
    /// tried, or there is none.
    pub(super) fn make_portable(&mut self, target: Target) -> bool {
        if std::mem::replace(&mut self.is_portable, true) {
            return false;
        }
        let Some(payload) = self.payload() else { return false };
        let other = portable(payload, target.field_expiry_form);
        // A server closes the connection over a longer argument.
        let Some(other) = other.filter(|other| other != payload && other.len() <= LONGEST_PAYLOAD) else {
            return false;
        };
        let bytes = other.len();
        *payload = other;
        self.bytes = self.record.key.len() + bytes;
        true
    }

    /// Why the server refuses it for good, which said this.
    pub(super) fn reason(&mut self, error: String, target: Target) -> String {
        let of_fields = self.payload().and_then(|payload| FieldExpiryForm::of_payload(payload));
        if of_fields.is_none() || target.has_field_expiry || error.starts_with("ERR keyfold:") {
            return error;
        }
        "fields of it expire, which a server of this version has in folded hashes only: give it a namespace of the type hash".to_owned()
    }
}

/// What is asked of the server for one key.
pub(super) enum Task {
    /// In a dry run: is it there?
    Exists(Item),
    /// Write it, if absent or in any case.
    Write(Item),
    /// It is there: with this value?
    Value(Item),
    /// It is there: with these elements?
    Elements(Item),
    /// The same of a set or hash with more than can be read as a whole: its members, walked over.
    Members(Item, Members),
    /// It is there with these elements: do its fields expire when they should, has the stream these groups?
    Beside(Item),
    /// It is there with this value: until when?
    Expiry(Item),
}

/// A walk over members, and those that it has come by.
pub(super) struct Members {
    cursor: Vec<u8>,
    digests: HashSet<u128>,
}

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// It was there, the same.
    Same,
    /// It is there and holds something else.
    Conflict(&'static str),
    /// The server, or the core, refuses it.
    Refused(String),
}

/// How a task goes on.
pub(super) enum Fate {
    Ask(Task),
    /// The server refused to write it, with this error. It may take it in another form ([`Item::make_portable`]).
    Refused(Item, String),
    Settled(Item, Outcome),
}

impl Task {
    pub(super) fn item(&self) -> &Item {
        match self {
            Self::Exists(item)
            | Self::Write(item)
            | Self::Value(item)
            | Self::Elements(item)
            | Self::Members(item, _)
            | Self::Beside(item)
            | Self::Expiry(item) => item,
        }
    }

    /// The logical command.
    pub(super) fn command(&self, replace: bool, target: Target) -> Vec<Cow<'_, [u8]>> {
        let record = &self.item().record;
        let key = record.key.as_slice();
        let command =
            |args: &[&'static [u8]]| -> Vec<Cow<'_, [u8]>> { args.iter().map(|arg| Cow::Borrowed(*arg)).collect() };
        let mut args = match self {
            Self::Exists(_) => command(&[b"EXISTS"]),
            Self::Value(_) => command(&[b"GET"]),
            Self::Expiry(_) if target.has_pexpiretime => command(&[b"PEXPIRETIME"]),
            Self::Expiry(_) => command(&[b"PTTL"]),
            Self::Elements(_) => {
                let words = content::read_command(record.content.kind(), key).unwrap_or_else(|| vec![b"DUMP", key]);
                return words.into_iter().map(Cow::Borrowed).collect();
            }
            Self::Members(item, Members { cursor, .. }) => {
                let walk: &[u8] = if item.record.content.kind() == "set" { b"SSCAN" } else { b"HSCAN" };
                return [walk, key, cursor, b"COUNT", MEMBERS_AT_ONCE].map(Cow::Borrowed).to_vec();
            }
            Self::Beside(_) => command(&[b"DUMP"]),
            Self::Write(_) => return write(record, replace),
        };
        args.push(Cow::Borrowed(key));
        args
    }

    /// Takes the answer.
    ///
    /// # Errors
    /// What makes it useless to go on.
    pub(super) fn take(self, answer: &[u8], now_ms: i64, target: Target) -> anyhow::Result<Fate> {
        let reply = Reply::parse(answer)?;
        if let Reply::Error(error) = reply {
            return self.take_error(error);
        }
        Ok(match self {
            Self::Exists(item) => {
                let there = reply == Reply::Integer(1);
                let outcome = if there { Outcome::Conflict("exists") } else { Outcome::Written };
                Fate::Settled(item, outcome)
            }
            Self::Write(item) if reply == Reply::Nil => Fate::Ask(Self::Value(item)),
            Self::Write(item) => Fate::Settled(item, Outcome::Written),
            // Deleted or expired since: written now, if nothing else comes between.
            Self::Value(item) if reply == Reply::Nil => Fate::Ask(Self::Write(item)),
            Self::Value(item) => match (&item.record.content, reply) {
                (Content::String(value), Reply::Bulk(there)) if value == there => Fate::Ask(Self::Expiry(item)),
                _ => Fate::Settled(item, Outcome::Conflict("has another value")),
            },
            Self::Elements(item) if same_elements(&item.record.content, answer, now_ms) => {
                Fate::Ask(Self::after_elements(item))
            }
            Self::Elements(item) => Fate::Settled(item, Outcome::Conflict("has other elements")),
            Self::Members(item, members) => Self::take_members(item, members, reply, now_ms)?,
            Self::Beside(item) if reply == Reply::Nil => Fate::Ask(Self::Write(item)),
            Self::Beside(item) => match reply {
                Reply::Bulk(there) if same_beside(&item.record.content, there, now_ms) => Fate::Ask(Self::Expiry(item)),
                _ if item.record.content.kind() == "stream" => {
                    Fate::Settled(item, Outcome::Conflict("has other consumer groups"))
                }
                _ => Fate::Settled(item, Outcome::Conflict("has fields with another expiry")),
            },
            Self::Expiry(item) => {
                let at = match reply {
                    Reply::Integer(at) if at >= 0 => Some(if target.has_pexpiretime { at } else { now_ms + at }),
                    _ => None,
                };
                let tolerance_ms = if target.has_pexpiretime { 0 } else { PTTL_TOLERANCE_MS };
                let same = crate::records::compare::same_expiry(item.record.expires_at_ms, at, tolerance_ms);
                Fate::Settled(item, if same { Outcome::Same } else { Outcome::Conflict("has another expiry") })
            }
        })
    }

    /// What comes once the elements are known to be the same.
    fn after_elements(item: Item) -> Self {
        match item.record.content.kind() {
            "hash" | "stream" => Self::Beside(item),
            _ => Self::Expiry(item),
        }
    }

    fn take_members(item: Item, mut members: Members, reply: Reply<'_>, now_ms: i64) -> anyhow::Result<Fate> {
        let kind = item.record.content.kind();
        let step = CollectionKind::of_name(kind.as_bytes()).and_then(|kind| {
            let Reply::Array(mut step) = reply else { return None };
            let (Some(Reply::Bulk(cursor)), Some(Reply::Array(elements))) = (step.next(), step.next()) else {
                return None;
            };
            Some((cursor.to_vec(), content::digests(kind, elements)?))
        });
        let Some((cursor, digests)) = step else { bail!("the walk over a {kind} was answered with something else") };
        members.digests.extend(digests);
        if cursor != b"0" {
            return Ok(Fate::Ask(Self::Members(item, Members { cursor, ..members })));
        }
        let sum = members.digests.into_iter().fold(0, u128::wrapping_add);
        Ok(match elements_digest(&item.record.content, now_ms) {
            // So large a one has no fields that expire.
            Some(digest) if digest == sum && !has_field_expiry(&item.record.content) => Fate::Ask(Self::Expiry(item)),
            _ => Fate::Settled(item, Outcome::Conflict("has other elements")),
        })
    }

    fn take_error(self, error: &[u8]) -> anyhow::Result<Fate> {
        let text = String::from_utf8_lossy(error).into_owned();
        let code = text.split(' ').next().unwrap_or_default();
        if FATAL.contains(&code) {
            bail!("the server refused \"{}\": {text}", self.item().record.key.escape_ascii());
        }
        Ok(match (self, code) {
            (Self::Write(item), "BUSYKEY") => Fate::Ask(Self::Elements(item)),
            (Self::Value(item) | Self::Elements(item) | Self::Members(item, _), "WRONGTYPE") => {
                Fate::Settled(item, Outcome::Conflict("has another type"))
            }
            (Self::Elements(item), _) if text.starts_with("ERR keyfold:") && is_walked(&item.record.content) => {
                Fate::Ask(Self::Members(item, Members { cursor: b"0".to_vec(), digests: HashSet::new() }))
            }
            (Self::Write(item), _) => Fate::Refused(item, text),
            (task, _) => Fate::Settled(task.into_item(), Outcome::Refused(text)),
        })
    }

    fn into_item(self) -> Item {
        match self {
            Self::Exists(item)
            | Self::Write(item)
            | Self::Value(item)
            | Self::Elements(item)
            | Self::Members(item, _)
            | Self::Beside(item)
            | Self::Expiry(item) => item,
        }
    }
}

fn write(record: &Record, replace: bool) -> Vec<Cow<'_, [u8]>> {
    let word = |word: &'static [u8]| Cow::Borrowed(word);
    let at = record.expires_at_ms.map(|at| Cow::Owned(at.to_string().into_bytes()));
    match &record.content {
        Content::String(value) => {
            let mut args = vec![word(b"SET"), Cow::Borrowed(record.key.as_slice()), Cow::Borrowed(value.as_slice())];
            if let Some(at) = at {
                args.extend([word(b"PXAT"), at]);
            }
            args.extend((!replace).then(|| word(b"NX")));
            args
        }
        Content::Other(Other { dump, .. }) | Content::Packed(Packed { other: Other { dump, .. }, .. }) => {
            let until = [at.clone().unwrap_or(word(b"0")), Cow::Borrowed(dump.as_slice())];
            let mut args = vec![word(b"RESTORE"), Cow::Borrowed(record.key.as_slice())];
            args.extend(until);
            args.extend(at.is_some().then(|| word(b"ABSTTL")));
            args.extend(replace.then(|| word(b"REPLACE")));
            args
        }
    }
}

fn same_elements(content: &Content, answer: &[u8], now_ms: i64) -> bool {
    let Content::Other(Other { kind, dump, .. }) = content else { return false };
    let Some(digest) = elements_digest(content, now_ms) else {
        return Reply::parse(answer).is_ok_and(|reply| reply.bytes() == Some(dump));
    };
    Reply::parse(answer).is_ok_and(|elements| content::digest(kind, elements) == Some(digest))
}

/// The digest of the elements that live; none where they aren't known.
fn elements_digest(content: &Content, now_ms: i64) -> Option<u128> {
    let Content::Other(Other { dump, digest, .. }) = content else { return None };
    content::digest_by_expiries(dump, now_ms).or(*digest)
}

/// Whether what DUMP gave of a key with the same elements also holds the same beside them.
fn same_beside(content: &Content, there: &[u8], now_ms: i64) -> bool {
    let Content::Other(other) = content else { return false };
    let there =
        Content::Other(Other { dump: there.to_vec(), digest: elements_digest(content, now_ms), ..other.clone() });
    let all = |content| content::living(content, now_ms).map(|living| living.digest);
    all(content) == all(&there)
}

fn is_walked(content: &Content) -> bool {
    CollectionKind::of_name(content.kind().as_bytes()).is_some()
}

fn has_field_expiry(content: &Content) -> bool {
    matches!(content, Content::Other(other) if FieldExpiryForm::of_payload(&other.dump).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Target =
        Target { has_pexpiretime: true, has_field_expiry: false, field_expiry_form: FieldExpiryForm::Redis };

    fn item(value: &str, expires_at_ms: Option<i64>) -> Item {
        let content = Content::String(value.into());
        Item::new(1, Record { database: 0, key: b"k".to_vec(), content, expires_at_ms })
    }

    fn command(task: &Task, replace: bool) -> String {
        let words: Vec<_> = task.command(replace, TARGET).iter().map(|arg| arg.escape_ascii().to_string()).collect();
        words.join(" ")
    }

    fn outcome(task: Task, answer: &[u8]) -> Option<Outcome> {
        match task.take(answer, 0, TARGET).unwrap() {
            Fate::Settled(_, outcome) => Some(outcome),
            Fate::Ask(_) | Fate::Refused(..) => None,
        }
    }

    #[test]
    fn commands() {
        assert_eq!(command(&Task::Write(item("v", None)), false), "SET k v NX");
        assert_eq!(command(&Task::Write(item("v", Some(5))), true), "SET k v PXAT 5");
        assert_eq!(command(&Task::Expiry(item("v", None)), false), "PEXPIRETIME k");
        let other = Other { kind: "list".to_owned(), dump: b"d".to_vec(), digest: Some(1) };
        let record = |expires_at_ms| Record {
            database: 0,
            key: b"k".to_vec(),
            content: Content::Other(other.clone()),
            expires_at_ms,
        };
        let task = |at| Task::Write(Item::new(1, record(at)));
        assert_eq!(command(&task(None), false), "RESTORE k 0 d");
        assert_eq!(command(&task(Some(7)), true), "RESTORE k 7 d ABSTTL REPLACE");
        assert_eq!(command(&Task::Elements(Item::new(1, record(None))), false), "LRANGE k 0 -1");
    }

    #[test]
    fn what_is_there_already_is_compared() {
        assert_eq!(outcome(Task::Write(item("v", None)), b"+OK\r\n"), Some(Outcome::Written));
        assert_eq!(outcome(Task::Write(item("v", None)), b"$-1\r\n"), None);
        assert_eq!(outcome(Task::Value(item("v", None)), b"$1\r\nv\r\n"), None);
        assert_eq!(outcome(Task::Value(item("v", None)), b"$1\r\nw\r\n"), Some(Outcome::Conflict("has another value")));
        assert_eq!(outcome(Task::Expiry(item("v", None)), b":-1\r\n"), Some(Outcome::Same));
        assert_eq!(outcome(Task::Expiry(item("v", Some(5))), b":5\r\n"), Some(Outcome::Same));
        assert_eq!(outcome(Task::Expiry(item("v", Some(5))), b":6\r\n"), Some(Outcome::Conflict("has another expiry")));
    }

    #[test]
    fn a_full_server_ends_the_import() {
        assert!(Task::Write(item("v", None)).take(b"-OOM command not allowed\r\n", 0, TARGET).is_err());
        let refused = Task::Write(item("v", None)).take(b"-ERR keyfold: no\r\n", 0, TARGET).unwrap();
        assert!(matches!(refused, Fate::Refused(_, error) if error == "ERR keyfold: no"));
    }

    #[test]
    fn a_payload_that_is_refused_is_written_in_the_plainest_form_once() {
        // A list as Redis 7 has it: pieces, of which this one is a listpack of "a".
        let mut packed = keyfold_core::payload::PayloadWriter::new(18);
        [1, 2].into_iter().for_each(|length| packed.length(length));
        packed.text(&[10, 0, 0, 0, 1, 0, 0x81, b'a', 2, 0xff]);
        let other = Other { kind: "list".to_owned(), dump: packed.finish(80), digest: None };
        let record = Record { database: 0, key: b"k".to_vec(), content: Content::Other(other), expires_at_ms: None };
        let refusal = b"-ERR DUMP payload version or checksum are wrong\r\n";
        let refused = |task: Task| match task.take(refusal, 0, TARGET).unwrap() {
            Fate::Refused(item, error) => (item, error),
            _ => panic!("it isn't refused"),
        };
        let (mut item, _) = refused(Task::Write(Item::new(1, record)));
        assert!(item.make_portable(TARGET));
        let again = Task::Write(item);
        let mut plain = keyfold_core::payload::PayloadWriter::new(1);
        plain.length(1);
        plain.text(b"a");
        let plain = plain.finish(9);
        assert_eq!(again.command(false, TARGET)[3], plain);
        let text = String::from_utf8_lossy(&refusal[1..refusal.len() - 2]).into_owned();
        assert_eq!(again.item().bytes, 1 + plain.len(), "what it takes now");
        let (mut item, error) = refused(again);
        assert!(!item.make_portable(TARGET), "once is enough");
        assert_eq!(item.reason(error, TARGET), text);
    }
}
