//! Members of a set or hash that lies in parts: one call of a script for each command, whatever the size of the collection.
//!
//! | command | what the script is asked for | with hints, of one and of several |
//! | --- | --- | --- |
//! | SADD | `ADD` | `a`, `add` |
//! | HSET, HMSET | `ADD` | `f`, `add` |
//! | SREM, HDEL | `REMOVE` | `r`, `remove` |
//! | HSETNX | `NEW` | `n` |
//! | HINCRBY, HINCRBYFLOAT | by their names | `i`, `d` |
//! | SISMEMBER, SMISMEMBER, HEXISTS | `HAS` | `h`, `has` |
//! | HGET, HMGET | `GET` | `g`, `get` |
//! | HSTRLEN | `LENGTH` | `l`, `length` |
//! | SPOP | `TAKE` | |
//! | SRANDMEMBER, HRANDFIELD | `DRAW` | |
//! | SSCAN, HSCAN | `WALK` | |
//! | SMEMBERS, HGETALL, HKEYS, HVALS; what works on all members | `ALL` | |
//! | SCARD, HLEN, where the header doesn't say it | `COUNT` | |
//! | for a mover: to bring members out of the remainder, and there | `DRAIN`, `FILL` | |
//!
//! A command goes to the script once its header was seen, or at once where the key was found in parts before. What the script
//! declines is worked out, as if there were none. Hints say in which part a member lies, as far as that was learned from answers before
//! (`crates/core/src/stats/in_parts.rs`): the script need not ask the directory then. Most of a call's time goes into its beginning:
//! commands on a few members that follow one another on a connection are joined to one call ([`Joining`](crate::drive::Joining)), and
//! requests for the same key need not wait for each other there.

use std::sync::LazyLock;

use crate::collection::parts::{Header, Limits, Remainder, WHY_DAMAGED};
use crate::collection::{Collection, CollectionKind};
use crate::command;
use crate::exchange::batch::Commands;
use crate::exchange::script::Script;
use crate::frame::{Body, Frame};
use crate::layout::{Layout, Place};
use crate::record::{FEWEST_IN_PARTS, part_head};
use crate::resp::{Elements, Reply, array_head, write_command};

mod call;

pub(crate) use call::{Asker, PartsCall};

/// A collection in parts that has more members is not worked on as a whole.
const MOST_MEMBERS: u64 = 1 << 20;

const SCRIPT: Script = Script { source: include_str!("parts.lua"), sha: b"41a73682b128fb7bbbb011bfb20421a851e0b756" };

/// What calls begin with behind the number of words, as [`write_command`](crate::resp::write_command) writes it.
pub(crate) const CALL: &[u8] = b"$7\r\nEVALSHA\r\n$40\r\n41a73682b128fb7bbbb011bfb20421a851e0b756\r\n";

/// How many words follow that in all calls on one field that may be joined: how many keys there are, the key, and what
/// [`begin`] writes behind it.
pub(crate) const SHARED_WORDS: u32 = 11;

/// The limits, as the script takes them.
static LIMITS: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let Limits { longest, integers, texts } = Limits::DEFAULT;
    [longest, integers, texts, FEWEST_IN_PARTS / 2].map(|limit| limit.to_string().into_bytes())
});

/// What the script answers where it has done nothing.
const UNSURE: &[u8] = b"+?\r\n";

/// What an answer stands behind that comes with better hints.
const HINTED: &[u8] = b"+~\r\n";

/// What the script says of parts that aren't as their header says.
const DAMAGED: &[u8] = b"+damaged\r\n";

/// The arguments of a call behind the script, up to what it is asked for: on this field of a bucket, where this was seen, with hints of the
/// parts of this nonce.
fn begin<'a>(
    bucket: &'a [u8],
    field: &'a [u8],
    head: &'a [u8],
    is_shared: bool,
    seen: &'a [u8],
    nonce: &'a [u8],
) -> [&'a [u8]; 11] {
    let [longest, integers, texts, fewest] = &*LIMITS;
    let shared: &[u8] = if is_shared { b"+" } else { b"-" };
    [b"1", bucket, shared, field, head, longest, integers, texts, fewest, seen, nonce]
}

/// A call that asks for all members, where there are not more.
fn ask_for_all<'a>(bucket: &'a [u8], field: &'a [u8], head: &'a [u8], seen: &'a [u8], most: &'a [u8]) -> Vec<&'a [u8]> {
    let mut args: Vec<&[u8]> = vec![b"EVAL", SCRIPT.source.as_bytes()];
    args.extend(begin(bucket, field, head, false, seen, b""));
    args.extend([&b"ALL"[..], b"1", most]);
    args
}

/// The answer of SCARD or HLEN by a header; none for other commands, for the other type's, and where members lie elsewhere too.
pub(super) fn count_of(args: &[&[u8]], header: &Header) -> Option<i64> {
    let is_whole = header.remainder == Remainder::None;
    (is_whole && counted_by(args) == Some(header.form.kind())).then(|| i64::try_from(header.len()).unwrap_or(i64::MAX))
}

/// Of which type a command counts the members, where it is SCARD or HLEN.
fn counted_by(args: &[&[u8]]) -> Option<CollectionKind> {
    match command::table().lookup(args[0])?.name {
        "scard" => Some(CollectionKind::Set),
        "hlen" => Some(CollectionKind::Hash),
        _ => None,
    }
}

/// Asks for all members of the collection in this place, where this was stored.
pub(super) fn send_all(place: &Place, key: &[u8], stored: &[u8], commands: &mut Commands) {
    let (head, most) = (part_head(place.origin), MOST_MEMBERS.to_string());
    let seen = [stored, key].concat();
    commands.push(&ask_for_all(&place.physical, &place.field, &head, &seen, most.as_bytes()));
}

/// The command that reads all members of the collection in parts in this field of a bucket, for tools.
pub fn read_parts_command(bucket: &[u8], field: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (head, most) = (part_head(Layout::origin_of(bucket)?), i64::MAX.to_string());
    let args = ask_for_all(bucket, field, &head, b"", most.as_bytes());
    Some(args.into_iter().map(<[u8]>::to_vec).collect())
}

/// A call that brings up to so many members of the remainder to where they belong. It answers how many are left.
pub(crate) fn send_drain(place: &Place, most: u64, is_known: bool, wire: &mut Vec<u8>) {
    send_move(place, is_known, &[b"DRAIN", b"1", most.to_string().as_bytes()], wire);
}

/// A call that brings so many members out of their parts, and some more, from this place in their directory on. It answers where it goes
/// on, and how many are left.
pub(crate) fn send_fill(place: &Place, most: u64, position: u64, is_known: bool, wire: &mut Vec<u8>) {
    let [most, position] = [most, position].map(|number| number.to_string());
    send_move(place, is_known, &[b"FILL", b"2", most.as_bytes(), position.as_bytes()], wire);
}

fn send_move(place: &Place, is_known: bool, words: &[&[u8]], wire: &mut Vec<u8>) {
    let head = part_head(place.origin);
    let script: [&[u8]; 2] = if is_known { [b"EVALSHA", SCRIPT.sha] } else { [b"EVAL", SCRIPT.source.as_bytes()] };
    let begun = begin(&place.physical, &place.field, &head, false, b"", b"");
    write_command(wire, &[&script[..], &begun, words].concat());
}

/// The text of the script on members in parts, for tools that call it by its hash.
pub const PARTS_SCRIPT: &str = SCRIPT.source;

/// The command that asks whether this member is in the collection in parts in this field of a bucket, for tools; the server has to have
/// the script.
pub fn find_in_parts_command(bucket: &[u8], field: &[u8], member: &[u8]) -> Option<Vec<Vec<u8>>> {
    call_by_hash(bucket, field, &[b"HAS", b"1", member])
}

/// A call on the collection in parts in this field of a bucket, of the script that the server has.
fn call_by_hash(bucket: &[u8], field: &[u8], words: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let head = part_head(Layout::origin_of(bucket)?);
    let begun = begin(bucket, field, &head, false, b"", b"");
    Some([&[b"EVALSHA", SCRIPT.sha][..], &begun, words].concat().into_iter().map(<[u8]>::to_vec).collect())
}

/// The command that draws so many members, or fields with their values, of the collection in parts in this field of a bucket, some of them
/// perhaps more than once, for tools; the server has to have the script.
pub fn draw_from_parts_command(bucket: &[u8], field: &[u8], kind: CollectionKind, count: u64) -> Option<Vec<Vec<u8>>> {
    let with_values: &[u8] = if kind == CollectionKind::Hash { b"1" } else { b"0" };
    call_by_hash(bucket, field, &[b"DRAW", b"4", b"1", count.to_string().as_bytes(), b"1", with_values])
}

/// What a command that reads all members finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InParts {
    /// All members, and what is stored in the field by now.
    All {
        /// The field's bytes.
        stored: Vec<u8>,
        /// The members.
        collection: Collection,
    },
    /// It doesn't lie in parts any more, or has expired.
    Changed,
    /// It is too large, or the parts are damaged.
    Unreadable {
        /// The field's bytes; empty where they weren't said.
        stored: Vec<u8>,
        /// Which of both, in a few words.
        why: String,
    },
}

/// The same as it came.
enum Parts<'a> {
    Whole { stored: &'a [u8], parts: Vec<Elements<'a>> },
    Changed,
    Unreadable { stored: &'a [u8], why: String },
}

impl<'a> Parts<'a> {
    /// Reads the reply, where each member is so many texts; none where it is none.
    fn read(reply: Reply<'a>, kind: CollectionKind, texts_each: usize) -> Option<Self> {
        let mut found = match reply {
            Reply::Simple(b"?") => return Some(Self::Changed),
            Reply::Simple(b"damaged") => return Some(Self::Unreadable { stored: b"", why: WHY_DAMAGED.to_owned() }),
            Reply::Array(found) => found,
            _ => return None,
        };
        let stored = found.next().and_then(Reply::bytes)?;
        let (texts, state) = (found.next()?, found.next());
        let parts = match Count::read(stored, texts, state, texts_each)? {
            Count::Whole(texts) => {
                let arrays = found.map(|part| match part {
                    Reply::Array(part) => Some(part),
                    _ => None,
                });
                let parts = arrays.collect::<Option<Vec<_>>>()?;
                (parts.iter().map(Elements::len).sum::<usize>() == texts).then_some(parts)?
            }
            Count::TooMany(count) => {
                let why = format!(
                    "it is a {kind} of {count} members, and keyfold works on {MOST_MEMBERS} at most as a whole"
                );
                return Some(Self::Unreadable { stored, why });
            }
            Count::Damaged { counted, found } => {
                let why = format!(
                    "its header counts {counted} members, and its parts have {found}; were some removed past keyfold, or evicted?",
                );
                return Some(Self::Unreadable { stored, why });
            }
        };
        Some(Self::Whole { stored, parts })
    }
}

/// What stands before the parts.
enum Count {
    /// So many texts follow.
    Whole(usize),
    /// So many members do not.
    TooMany(i64),
    /// The header counts others than there are.
    Damaged { counted: u64, found: u64 },
}

impl Count {
    /// Reads what the field has, the number behind it, and what stands behind that.
    fn read(stored: &[u8], number: Reply<'_>, state: Option<Reply<'_>>, texts_each: usize) -> Option<Self> {
        let header = match Frame::decode(stored) {
            Ok(Frame { body: Body::Parts { header, .. }, .. }) => Header::decode(header)?,
            _ => return None,
        };
        let Reply::Integer(number) = number else { return None };
        let is_by_header = match state {
            None => return Some(Self::TooMany(number)),
            Some(Reply::Simple(b"replaced")) => false,
            Some(Reply::Simple(b"whole")) => header.remainder == Remainder::None,
            Some(_) => return None,
        };
        let texts = usize::try_from(number).ok()?;
        let found = (texts / texts_each) as u64;
        Some(match is_by_header && found != header.len() {
            true => Self::Damaged { counted: header.len(), found },
            false => Self::Whole(texts),
        })
    }
}

/// How many texts a reply has whose parts are still to come, and where these begin; none where they aren't what an answer needs.
fn begin_parts(input: &[u8], texts_each: usize) -> Option<(usize, usize)> {
    let (head, elements) = array_head(input).ok()??;
    let mut begin = Elements::of(elements.min(3), input.get(head..)?);
    let (stored, number, state) = (begin.next()?.bytes()?, begin.next()?, begin.next()?);
    match Count::read(stored, number, Some(state), texts_each)? {
        Count::Whole(texts) => Some((texts, input.len() - begin.raw().len())),
        Count::TooMany(_) | Count::Damaged { .. } => None,
    }
}

/// Reads the reply to it; none where it is none.
pub fn read_parts(reply: Reply<'_>, kind: CollectionKind) -> Option<InParts> {
    Some(match Parts::read(reply, kind, kind.texts_each())? {
        Parts::Changed => InParts::Changed,
        Parts::Unreadable { stored, why } => InParts::Unreadable { stored: stored.to_vec(), why },
        Parts::Whole { stored, parts } => {
            let texts = parts.into_iter().flatten().map(|text| Some(text.bytes()?.to_vec()));
            let collection = Collection::of_texts(kind, texts.collect::<Option<_>>()?);
            InParts::All { stored: stored.to_vec(), collection }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_scripts() {
        SCRIPT.assert_sha();
        let mut begun = Vec::new();
        write_command(&mut begun, &[b"EVALSHA", SCRIPT.sha]);
        assert_eq!(begun.strip_prefix(b"*2\r\n"), Some(CALL));
        assert_eq!(begin(b"", b"", b"", true, b"", b"").len(), SHARED_WORDS as usize);
    }
}
