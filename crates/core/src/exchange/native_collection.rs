//! Sets and hashes that lie under keys of their own, as the server has them: read whole, and written.
//!
//! Folded collections meet them where a command names keys of both kinds, and where keys are moved. What is read is known again
//! by its DUMP, which says every member and every field's expiry.

use crate::collection::{Collection, CollectionKind, Field, MOST_MEMBERS, field_expiry};
use crate::command;
use crate::exchange::batch::Commands;
use crate::exchange::key::Found;
use crate::exchange::reply_kind::Refusal;
use crate::exchange::script::CompareAndSet;
use crate::exchange::{Env, failure};
use crate::resp::{Reply, write_command};

const READ: &str = include_str!("native_collection.lua");

const COMMAND: &str = include_str!("native_command.lua");

/// What that script answers where it has done nothing.
pub(super) const NOT_THERE: &[u8] = b"+?\r\n";

/// While its key is being moved, one of more members is the server's affair: to read it for each command takes too long. The mover need not
/// find a moment in which nobody writes it, as it becomes part of what it is moved to at once.
pub(super) const FEW_MEMBERS: u64 = 512;

/// Words of a command that a script hands on: Lua takes some thousands at once.
const MOST_WORDS: usize = 4000;

/// Members, or fields and values, that one command brings: a script's call takes some thousands of arguments at most.
const AT_ONCE: usize = 2000;

/// Which commands tell a server's expiries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    /// PEXPIRETIME, which is exact.
    pub(super) has_pexpiretime: bool,
    /// HPEXPIRETIME.
    pub(super) has_field_expiry: bool,
    /// One that has more members is not read.
    pub(super) most: u64,
}

impl Reading {
    pub(super) fn of(env: &Env<'_>) -> Self {
        let has_field_expiry = env.dialect().has_field_expiry();
        Self { has_pexpiretime: env.server.major() >= 7, has_field_expiry, most: MOST_MEMBERS }
    }

    /// Asks for a key with all that it holds.
    pub(super) fn send(self, name: &[u8], commands: &mut Commands) {
        let expiry: &[u8] = if self.has_pexpiretime { b"PEXPIRETIME" } else { b"PTTL" };
        let fields: &[u8] = if self.has_field_expiry { b"1" } else { b"0" };
        let most = self.most.to_string();
        commands.push(&[b"EVAL", READ.as_bytes(), b"1", name, expiry, fields, most.as_bytes()]);
    }

    /// What the server has said.
    pub(super) fn read(self, raw: &[u8], now_ms: i64) -> Result<Found, Refusal> {
        let Ok(Reply::Array(mut parts)) = Reply::parse(raw) else { return Err(Refusal::of(raw)) };
        let kind = parts.next().and_then(Reply::bytes).ok_or(Refusal::Unexpected)?;
        let expiry = parts.next().and_then(time).ok_or(Refusal::Unexpected)?;
        let is_there = kind != b"none";
        let expiry_is_exact = self.has_pexpiretime;
        let expires_at_ms =
            (is_there && expiry >= 0).then_some(if expiry_is_exact { expiry } else { now_ms.saturating_add(expiry) });
        let (value, members) = match parts.next() {
            Some(Reply::Integer(members)) => (None, Some(members)),
            value => (value.and_then(Reply::bytes).map(<[u8]>::to_vec), None),
        };
        if let Some(members) = members {
            return Ok(Found::TooMany { kind: kind.to_vec(), why: too_many(kind, members), expires_at_ms });
        }
        let Some(known) = CollectionKind::of_name(kind) else {
            let kind = kind.to_vec();
            return Ok(match is_there {
                true => Found::Native { kind, value, expires_at_ms, expiry_is_exact },
                false => Found::Nothing,
            });
        };
        let (Some(payload), Some(members)) = (value, parts.next().and_then(Reply::texts)) else {
            return Err(Refusal::Unexpected);
        };
        let collection = match known {
            CollectionKind::Set => Collection::Set(members.into_iter().collect()),
            CollectionKind::Hash => Collection::Hash(fields(members, parts.next()).into_iter().collect()),
        };
        Ok(Found::Collection { payload, collection, expires_at_ms, expiry_is_exact })
    }
}

/// Has the server carry out a command on the set or hash that lies under this name and was left out for its members. It has one
/// reply. None where it can't.
pub(super) fn send_command(
    name: &[u8],
    (kind, most): (CollectionKind, u64),
    args: &[&[u8]],
    env: &Env<'_>,
    wire: &mut Vec<u8>,
) -> Option<()> {
    let is_known = command::table().resolve(args).is_some_and(|command| command.server_has(args, env.dialect()));
    if !is_known || args.len() > MOST_WORDS {
        return None;
    }
    let count: &[u8] = match kind {
        CollectionKind::Set => b"SCARD",
        CollectionKind::Hash => b"HLEN",
    };
    let most = most.to_string();
    let head: [&[u8]; 6] = [b"EVAL", COMMAND.as_bytes(), b"1", name, count, most.as_bytes()];
    write_command(wire, &[&head, args].concat());
    Some(())
}

/// Why one is not worked on here.
fn too_many(kind: &[u8], members: i64) -> String {
    format!("it is a {} of {members} members, and keyfold works on {MOST_MEMBERS} at most", kind.escape_ascii())
}

/// A time as the script writes it. One beyond all integers is the last of them, which Lua rounds up.
fn time(reply: Reply<'_>) -> Option<i64> {
    let text = std::str::from_utf8(reply.bytes()?).ok()?;
    let is_beyond = || text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty();
    text.parse().ok().or_else(|| is_beyond().then_some(i64::MAX))
}

/// Names and values that follow one another, and when each field expires.
fn fields(texts: Vec<Vec<u8>>, expiries: Option<Reply<'_>>) -> Vec<(Vec<u8>, Field)> {
    let expiries: Vec<i64> = match expiries {
        Some(Reply::Array(expiries)) => expiries.filter_map(time).collect(),
        _ => Vec::new(),
    };
    let mut texts = texts.into_iter();
    let (mut found, mut index) = (Vec::new(), 0);
    while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
        let expires_at_ms = expiries.get(index).copied().and_then(field_expiry);
        found.push((name, Field { value, expires_at_ms }));
        index += 1;
    }
    found
}

/// Adds what gives a key of its own these members, whatever was there.
///
/// # Errors
/// The error reply, where fields expire and the server behind has no such fields.
pub(super) fn write(
    writes: &mut CompareAndSet,
    name: &[u8],
    collection: &Collection,
    expires_at_ms: Option<i64>,
    env: &Env<'_>,
) -> Result<(), String> {
    let expiring = match collection {
        Collection::Hash(hash) => hash.iter().any(|(_, field)| field.expires_at_ms.is_some()),
        Collection::Set(_) => false,
    };
    if expiring && !env.dialect().has_field_expiry() {
        return Err(failure(name, "its fields expire, which this server can't do in a hash of its own"));
    }
    writes.write(&[b"UNLINK", name]);
    add(name, collection, |args| writes.write(args));
    if let Collection::Hash(hash) = collection {
        for (field, Field { expires_at_ms, .. }) in hash.iter() {
            if let Some(at) = expires_at_ms {
                writes.write(&[b"HPEXPIREAT", name, at.to_string().as_bytes(), b"FIELDS", b"1", field]);
            }
        }
    }
    if let Some(at) = expires_at_ms {
        writes.write(&[b"PEXPIREAT", name, at.to_string().as_bytes()]);
    }
    Ok(())
}

/// The commands that add these members to a key; no field expires by them.
pub(super) fn add(name: &[u8], collection: &Collection, mut send: impl FnMut(&[&[u8]])) {
    let (command, texts): (&[u8], Vec<&[u8]>) = match collection {
        Collection::Set(set) => (b"SADD", set.iter().collect()),
        Collection::Hash(hash) => {
            (b"HSET", hash.iter().flat_map(|(name, field)| [name, field.value.as_slice()]).collect())
        }
    };
    for some in texts.chunks(AT_ONCE) {
        send(&[&[command, name], some].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::EXPIRES_NOW_MS;

    #[test]
    fn a_field_that_is_shown_in_the_millisecond_of_its_expiry_has_expired() {
        let names = ["a", "1", "b", "2", "c", "3"].map(|text| text.as_bytes().to_vec()).to_vec();
        let times = b"*3\r\n$2\r\n-2\r\n$2\r\n-1\r\n$13\r\n2000000000000\r\n";
        let read = fields(names, Some(Reply::parse(times).unwrap()));
        let expiries: Vec<_> = read.iter().map(|(_, field)| field.expires_at_ms).collect();
        assert_eq!(expiries, [Some(EXPIRES_NOW_MS), None, Some(2_000_000_000_000)]);
    }
}
