//! What DUMP gave of one key, in the form that every server reads.
//!
//! A server refuses payloads of versions after its own, and those of the other project's newer servers: forms that it doesn't know
//! could be among them. Here values are taken apart and written as the plainest form of their type, which is known to all.

use keyfold_core::collection::{Collection, Field, FieldExpiryForm, Hash};
use keyfold_core::payload::{OLDEST_VERSION, PayloadReader, PayloadWriter};

use crate::input::Input;
use crate::value::{EachOfStream, Kind, OfStream, TIME_BYTES, Value, number};

/// From this version on payloads are Valkey's.
const VALKEY_SINCE: u16 = 80;
/// That of Redis 7.0.
const STREAM_2_VERSION: u16 = 10;

/// One member, entry or field, whole.
struct Member {
    name: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<i64>,
}

/// The same value as a payload that servers of any version and project take. Two forms are not known to all: a hash's whose fields
/// expire, written as `form` says, and a stream's, known since Redis 7.0 but for those of before it.
///
/// None where it is damaged, a module's, or of a type that isn't known.
pub fn portable(payload: &[u8], form: FieldExpiryForm) -> Option<Vec<u8>> {
    let PayloadReader { kind, version, rest } = PayloadReader::open(payload)?;
    if is_stream(kind) {
        return stream(kind, rest);
    }
    let (value, members) = read(kind, version, rest)?;
    let kind = match value {
        Value::String(text) => {
            let mut out = PayloadWriter::new(number::STRING);
            out.text(text.whole()?);
            return Some(out.finish(OLDEST_VERSION));
        }
        Value::Collection(collection) => collection.kind,
    };
    match kind {
        Kind::List => {
            let mut out = PayloadWriter::new(number::LIST);
            out.length(members.len() as u64);
            members.iter().for_each(|member| out.text(&member.name));
            Some(out.finish(OLDEST_VERSION))
        }
        Kind::SortedSet => {
            let mut out = PayloadWriter::new(number::SORTED_SET);
            out.length(members.len() as u64);
            for Member { name, value, .. } in &members {
                let score: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
                out.text(name);
                out.raw(&score.to_le_bytes());
            }
            Some(out.finish(OLDEST_VERSION))
        }
        Kind::Set => Some(Collection::Set(members.into_iter().map(|member| member.name).collect()).payload(form)),
        Kind::Hash => Some(Collection::Hash(hash_of(members)).payload(form)),
        Kind::Stream | Kind::Module => None,
    }
}

/// The hash that a payload holds in one of the forms in which fields expire; none where it holds anything else, or is damaged.
pub fn expiring_hash(payload: &[u8]) -> Option<Hash> {
    let forms = [number::HASH_WITH_EXPIRIES, number::HASH_METADATA, number::HASH_LISTPACK_EX];
    let payload = PayloadReader::open(payload).filter(|payload| forms.contains(&payload.kind))?;
    let (_, members) = read(payload.kind, payload.version, payload.rest)?;
    Some(hash_of(members))
}

/// Says what the stream of a payload has beside its entries, in pieces that are the same in every server's form of it: its last
/// identifier, its groups, their consumers, and what those were given and have not acknowledged. Left out are what not every form has:
/// how many entries there ever were, and when consumers were seen.
///
/// None where it is no stream, or damaged.
pub fn stream_groups(payload: &[u8], say: &mut dyn FnMut(&[&[u8]])) -> Option<()> {
    let PayloadReader { kind, rest, .. } = PayloadReader::open(payload).filter(|payload| is_stream(payload.kind))?;
    read_stream(kind, rest, &mut |part| match part {
        OfStream::LastId(ms, number) => say(&[b"last", &ms.to_be_bytes(), &number.to_be_bytes()]),
        OfStream::Group { name, last_id: (ms, number) } => {
            say(&[b"group", &name.head, &ms.to_be_bytes(), &number.to_be_bytes()]);
        }
        OfStream::Delivered { id, at_ms, times } => {
            say(&[b"delivered", &id, &at_ms.to_be_bytes(), &times.to_be_bytes()]);
        }
        OfStream::Consumer(name) => say(&[b"consumer", &name.head]),
        OfStream::Owns(id) => say(&[b"owns", &id]),
        OfStream::ActiveTime { .. } => {}
    })
}

fn hash_of(members: Vec<Member>) -> Hash {
    let field = |Member { name, value, expires_at_ms }| (name, Field { value, expires_at_ms });
    members.into_iter().map(field).collect()
}

/// The value behind a payload's type, and its elements.
fn read(kind: u8, version: u16, bytes: &[u8]) -> Option<(Value, Vec<Member>)> {
    let mut members = Vec::new();
    let mut input = Input::of_value(bytes);
    let value = input.value(kind, version >= VALKEY_SINCE, usize::MAX, &mut |element| {
        let value = element.value.map(|value| value.to_bytes()).unwrap_or_default();
        members.push(Member { name: element.name.to_bytes(), value, expires_at_ms: element.expires_at_ms });
    });
    Some((value.ok().filter(|_| input.at() == bytes.len() as u64)?, members))
}

fn is_stream(kind: u8) -> bool {
    matches!(kind, number::STREAM | number::STREAM_2 | number::STREAM_3)
}

fn read_stream(kind: u8, bytes: &[u8], each: EachOfStream<'_>) -> Option<()> {
    let mut input = Input::of_value(bytes);
    input.stream(kind, each).ok().filter(|_| input.at() == bytes.len() as u64).map(drop)
}

/// A stream in the form of Redis 7.0, without when a consumer last got something, or in that of before it: how many entries there ever
/// were isn't known then.
fn stream(kind: u8, bytes: &[u8]) -> Option<Vec<u8>> {
    let (wanted, version) =
        if kind == number::STREAM { (kind, OLDEST_VERSION) } else { (number::STREAM_2, STREAM_2_VERSION) };
    let mut active_times = Vec::new();
    read_stream(kind, bytes, &mut |part| {
        if let OfStream::ActiveTime { at } = part {
            active_times.push(at);
        }
    })?;
    let mut out = PayloadWriter::new(wanted);
    let mut from = 0;
    for at in active_times {
        out.raw(&bytes[from..usize::try_from(at).ok()?]);
        from = usize::try_from(at + TIME_BYTES).ok()?;
    }
    out.raw(&bytes[from..]);
    Some(out.finish(version))
}
