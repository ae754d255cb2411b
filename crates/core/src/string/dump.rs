//! Values as the server writes them to files: DUMP and RESTORE. Redis 7.0 cluster.c.
//!
//! The payload (LZF, a version, a CRC-64) is the server's own. It is made, and read back, by the server, on
//! the scratch key. Without it go DUMP and RESTORE of a hash whose fields expire where the server has no such fields: keyfold
//! takes the payload that it gives, and so does the server's successor.
//!
//! When fields of a hash expire can be asked only by their names. So a payload that may tell of that is restored twice: the
//! first time to learn the names.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use super::space::SCRATCH;
use super::{Call, Entry, Flow, Halt, Held, HelpRequest, Reply, Space, Unread, WhyUnread, not_on_type};
use crate::collection::{Collection, Field, Hash, Set, field_expiry};
use crate::dialect::Dialect;
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::is_word;

/// Members or fields that are named in one command at most.
const AT_ONCE: usize = 1000;

/// The type of a hash that is a listpack, as payloads begin. Those of later numbers tell when fields expire.
const LISTPACK_HASH: u8 = 16;

type Command = Vec<Vec<u8>>;

/// DUMP key: the payload, or nil.
pub(super) fn dump(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let mut commands = match space.held(key) {
        Held::Other(kind) => return Err(not_on_type("DUMP", kind)),
        Held::Unread(Unread { why: WhyUnread::Large, collection: Some(_), .. }) => return Err(Halt::Large),
        Held::Collection(held) => match making(&held.collection, call.dialect) {
            Some(commands) => commands,
            None => {
                answer.bulk(&held.collection.payload(call.dialect.field_expiry_form()));
                return Ok(());
            }
        },
        _ => match space.string(key)? {
            Some(entry) => vec![command(b"SET", &[&entry.value])],
            None => {
                answer.nil();
                return Ok(());
            }
        },
    };
    let Some(replies) = space.help() else {
        commands.extend([command(b"DUMP", &[]), command(b"DEL", &[])]);
        return ask(commands);
    };
    match dumped(replies)? {
        Reply::Bytes(payload) => answer.bulk(&payload),
        // The last field has expired meanwhile.
        Reply::Nil => answer.nil(),
        _ => return Err("ERR keyfold: unexpected reply to DUMP".into()),
    }
    Ok(())
}

/// The commands that make a collection on the scratch key; none where fields expire and the server has no such.
fn making(collection: &Collection, dialect: Dialect<'_>) -> Option<Vec<Command>> {
    match collection {
        Collection::Set(set) => Some(in_chunks(b"SADD", &[], &set.iter().collect::<Vec<_>>())),
        Collection::Hash(hash) if hash.expiries().next().is_some() && !dialect.has_field_expiry() => None,
        Collection::Hash(hash) => {
            let texts: Vec<&[u8]> = hash.iter().flat_map(|(name, field)| [name, &field.value[..]]).collect();
            let mut commands = in_chunks(b"HSET", &[], &texts);
            commands.extend(expiring(hash));
            Some(commands)
        }
    }
}

/// The commands that say when fields expire, those first that expire first.
fn expiring(hash: &Hash) -> Vec<Command> {
    let mut names: BTreeMap<i64, Vec<&[u8]>> = BTreeMap::new();
    for (name, field) in hash.iter() {
        if let Some(at_ms) = field.expires_at_ms {
            names.entry(at_ms).or_default().push(name);
        }
    }
    let expire = |(at_ms, names): (i64, Vec<&[u8]>)| {
        let mut at = itoa::Buffer::new();
        of_fields(b"HPEXPIREAT", &[at.format(at_ms).as_bytes()], &names)
    };
    names.into_iter().flat_map(expire).collect()
}

/// The same command on the scratch key for a thousand texts, and for the next thousand.
fn in_chunks(name: &[u8], before: &[&[u8]], texts: &[&[u8]]) -> Vec<Command> {
    texts.chunks(AT_ONCE).map(|texts| command(name, &[before, texts].concat())).collect()
}

/// The same, as it counts fields: `FIELDS count field …`.
fn of_fields(name: &[u8], before: &[&[u8]], fields: &[&[u8]]) -> Vec<Command> {
    let chunk = |fields: &[&[u8]]| {
        let mut count = itoa::Buffer::new();
        command(name, &[before, &[b"FIELDS", count.format(fields.len()).as_bytes()], fields].concat())
    };
    fields.chunks(AT_ONCE).map(chunk).collect()
}

/// A command on the scratch key.
fn command(name: &[u8], args: &[&[u8]]) -> Command {
    [&[name, SCRATCH], args].concat().into_iter().map(<[u8]>::to_vec).collect()
}

/// The reply to DUMP, which is the last but one; or an error, whichever command it is of.
fn dumped(mut replies: Vec<Reply>) -> Result<Reply, Halt> {
    let error = replies.iter_mut().find_map(|reply| match reply {
        Reply::Error(error) => Some(mem::take(error)),
        _ => None,
    });
    match error {
        Some(error) => Err(Halt::Error(error)),
        None => Ok(replies.into_iter().nth_back(1).unwrap_or(Reply::Nil)),
    }
}

/// RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME seconds | FREQ frequency]: OK.
///
/// How recently or often a folded value was used is not kept; IDLETIME and FREQ are only checked.
///
/// # Errors
/// A payload of another type than a string, a set or a hash is refused.
pub(super) fn restore(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let options = RestoreOptions::parse(call)?;
    if !options.replace && space.exists(key) {
        return Err("BUSYKEY Target key name already exists.".into());
    }
    let ttl = call.integer(2)?;
    if ttl < 0 {
        return Err("ERR Invalid TTL value, must be >= 0".into());
    }
    let value = match unknown_to_server(call) {
        Some(hash) => match Collection::Hash(hash).living(space.now_ms()) {
            Some(living) => Restored::Collection(living),
            None => Restored::Nothing,
        },
        None => match space.help() {
            Some(replies) => restored(replies, call.args[3])?,
            None => return ask(asking(call.args[3])),
        },
    };
    let expires_at_ms = match ttl {
        0 => None,
        at if options.absolute => Some(at),
        // The server's sum wraps: a span beyond the signed 64 bits has already passed.
        span => Some(span.wrapping_add(space.now_ms())),
    };
    if expires_at_ms.is_some_and(|at| at <= space.now_ms()) || matches!(value, Restored::Nothing) {
        if space.exists(key) {
            space.remove(key);
            space.note(Event::Del, key);
        }
    } else {
        if options.replace && space.exists(key) {
            // The server removes it first.
            space.remove(key);
        }
        match value {
            Restored::String(value) => space.put(key, Entry { value, expires_at_ms }),
            Restored::Collection(collection) => space.put_collection(key, collection, expires_at_ms),
            Restored::Nothing => {}
        }
        space.note(Event::Restore, key);
    }
    answer.ok();
    Ok(())
}

/// The hash whose fields expire that a payload holds, where the server can't be asked for it, as it has no such fields.
fn unknown_to_server(call: &Call<'_>) -> Option<Hash> {
    if call.dialect.has_field_expiry() {
        return None;
    }
    let last = call.dialect.last_field_expiry_ms();
    Hash::of_expiring_payload(call.args[3]).filter(|hash| hash.expiries().all(|at_ms| at_ms <= last))
}

/// What a payload held.
enum Restored {
    String(Vec<u8>),
    Collection(Collection),
    /// A hash all of whose fields have expired.
    Nothing,
}

/// The commands that show what a payload holds.
fn asking(payload: &[u8]) -> Vec<Command> {
    let ask = |name: &&[u8]| command(name, &[]);
    let looks: [&[u8]; 5] = [b"TYPE", b"GET", b"SMEMBERS", b"HGETALL", b"DEL"];
    [command(b"RESTORE", &[b"0", payload])].into_iter().chain(looks.iter().map(ask)).collect()
}

/// The value among the replies to [`asking`], or to [`asking_expiries`], which are more.
fn restored(replies: Vec<Reply>, payload: &[u8]) -> Result<Restored, Halt> {
    if replies.len() > asking(payload).len() {
        let hash = expiring_hash(replies)?;
        return Ok(if hash.is_empty() { Restored::Nothing } else { Restored::Collection(Collection::Hash(hash)) });
    }
    let mut replies = replies.into_iter();
    let kind = match (replies.next(), replies.next()) {
        (Some(Reply::Error(error)), _) => return Err(Halt::Error(error)),
        (_, Some(Reply::Bytes(kind))) => kind,
        _ => return Err(unexpected()),
    };
    match (kind.as_slice(), replies.next(), replies.next(), replies.next()) {
        (b"string", Some(Reply::Bytes(value)), ..) => Ok(Restored::String(value)),
        (b"set", _, Some(Reply::List(members)), _) => {
            Ok(Restored::Collection(Collection::Set(texts(members).collect::<Set>())))
        }
        (b"hash", _, _, Some(Reply::List(pairs))) if payload.first().is_some_and(|kind| *kind > LISTPACK_HASH) => {
            let names: Vec<Vec<u8>> = texts(pairs).step_by(2).collect();
            if names.is_empty() {
                return Ok(Restored::Nothing);
            }
            Err(Halt::Ask(HelpRequest { commands: asking_expiries(payload, &names) }))
        }
        (b"hash", _, _, Some(Reply::List(pairs))) => {
            Ok(Restored::Collection(Collection::Hash(fields_of(pairs).collect::<Hash>())))
        }
        (b"string" | b"set" | b"hash" | b"none", ..) => Err(unexpected()),
        _ => Err(not_on_type("RESTORE", &kind)),
    }
}

fn unexpected() -> Halt {
    "ERR keyfold: unexpected reply to RESTORE".into()
}

/// The commands that show what a hash with these fields holds, and when they expire. The names go along by way of a list, as a
/// function that is called again knows nothing but its replies.
fn asking_expiries(payload: &[u8], names: &[Vec<u8>]) -> Vec<Command> {
    let names: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let mut commands = vec![command(b"RESTORE", &[b"0", payload]), command(b"HGETALL", &[])];
    commands.extend(of_fields(b"HPEXPIRETIME", &[], &names));
    commands.push(command(b"DEL", &[]));
    commands.extend(in_chunks(b"RPUSH", &[], &names));
    commands.extend([command(b"LRANGE", &[b"0", b"-1"]), command(b"DEL", &[])]);
    commands
}

/// The hash among the replies to [`asking_expiries`]: the fields of HGETALL, and for each name of LRANGE, in the order of
/// the replies to HPEXPIRETIME, when it expires.
fn expiring_hash(replies: Vec<Reply>) -> Result<Hash, Halt> {
    let (mut pairs, mut times, mut names) = (None, Vec::new(), Vec::new());
    for reply in replies {
        match reply {
            Reply::Error(error) => return Err(Halt::Error(error)),
            Reply::List(found) if pairs.is_none() => pairs = Some(found),
            Reply::List(found) if matches!(found.first(), Some(Reply::Integer(_))) => times.extend(found),
            Reply::List(found) => names = found,
            _ => {}
        }
    }
    let times = times.into_iter().map(|time| match time {
        Reply::Integer(said) => field_expiry(said),
        _ => None,
    });
    let expiries: HashMap<Vec<u8>, Option<i64>> = texts(names).zip(times).collect();
    let with_expiry = |(name, field): (Vec<u8>, Field)| {
        let expires_at_ms = expiries.get(&name).copied().flatten();
        (name, Field { expires_at_ms, ..field })
    };
    Ok(fields_of(pairs.ok_or_else(unexpected)?).map(with_expiry).collect())
}

/// The fields of a reply to HGETALL.
fn fields_of(pairs: Vec<Reply>) -> impl Iterator<Item = (Vec<u8>, Field)> {
    let mut texts = texts(pairs);
    std::iter::from_fn(move || Some((texts.next()?, Field { value: texts.next()?, expires_at_ms: None })))
}

fn texts(replies: Vec<Reply>) -> impl Iterator<Item = Vec<u8>> {
    replies.into_iter().filter_map(|reply| match reply {
        Reply::Bytes(text) => Some(text),
        _ => None,
    })
}

fn ask(commands: Vec<Command>) -> Flow {
    Err(Halt::Ask(HelpRequest { commands }))
}

#[derive(Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
}

impl RestoreOptions {
    fn parse(call: &Call<'_>) -> Result<Self, Halt> {
        let mut options = Self::default();
        let (mut idle, mut frequency) = (false, false);
        let mut at = 4;
        while let Some(&option) = call.args.get(at) {
            let number_follows = at + 1 < call.args.len();
            if is_word(option, "REPLACE") {
                options.replace = true;
            } else if is_word(option, "ABSTTL") {
                options.absolute = true;
            } else if is_word(option, "IDLETIME") && number_follows && !frequency {
                idle = true;
                at += 1;
                check(call.integer(at)? >= 0, "ERR Invalid IDLETIME value, must be >= 0")?;
            } else if is_word(option, "FREQ") && number_follows && !idle {
                frequency = true;
                at += 1;
                let within = (0..=255).contains(&call.integer(at)?);
                check(within, "ERR Invalid FREQ value, must be >= 0 and <= 255")?;
            } else {
                return Err("ERR syntax error".into());
            }
            at += 1;
        }
        Ok(options)
    }
}

fn check(holds: bool, error: &str) -> Flow {
    if holds { Ok(()) } else { Err(error.into()) }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;
    use super::*;
    use crate::collection::FieldExpiryForm;
    use crate::resp::Protocol;
    use crate::server_info::ServerInfo;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn dump_asks_for_the_payload() {
        let mut keys = now_is(1000);
        assert_eq!(keys.run(&["DUMP", "none"]), "$-1\r\n");
        keys.string("k", "v");
        assert_eq!(keys.ask(&["DUMP", "k"]).commands.len(), 3);
        keys.answers(vec![bytes("OK"), bytes("payload"), Reply::Integer(1)]);
        assert_eq!(keys.run(&["DUMP", "k"]), "$7\r\npayload\r\n");
    }

    #[test]
    fn restore_takes_strings_only() {
        let mut keys = now_is(1000);
        keys.answers(vec![bytes("OK"), bytes("string"), bytes("v"), Reply::Integer(1)]);
        assert_eq!(keys.run(&["RESTORE", "k", "500", "payload"]), "+OK\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":500\r\n");
        keys.answers(vec![bytes("OK"), bytes("list"), Reply::Error("WRONGTYPE".to_owned()), Reply::Integer(1)]);
        let refused = "-ERR keyfold: RESTORE of a list on a folded key is not supported\r\n";
        assert_eq!(keys.run(&["RESTORE", "k", "0", "payload", "REPLACE"]), refused);
        keys.answers(vec![Reply::Error("ERR Bad data format".to_owned()), bytes("none"), Reply::Nil]);
        assert_eq!(keys.run(&["RESTORE", "new", "0", "payload"]), "-ERR Bad data format\r\n");
    }

    fn list(texts: &[&str]) -> Reply {
        Reply::List(texts.iter().map(|text| bytes(text)).collect())
    }

    /// The commands of an ask, without the scratch key.
    fn shown(ask: &HelpRequest) -> Vec<String> {
        let show = |command: &Command| {
            assert_eq!(command[1], SCRATCH);
            let words: Vec<String> = command.iter().map(|word| word.escape_ascii().to_string()).collect();
            [&words[..1], &words[2..]].concat().join(" ")
        };
        ask.commands.iter().map(show).collect()
    }

    #[test]
    fn a_collection_is_made_in_commands_of_a_thousand() {
        let mut keys = now_is(1000);
        let members: Vec<String> = (0..2500).map(|number| format!("x{number}")).collect();
        keys.set("k", &members.iter().map(String::as_str).collect::<Vec<_>>());
        let ask = keys.ask(&["DUMP", "k"]);
        let lengths: Vec<usize> = ask.commands.iter().map(Vec::len).collect();
        assert_eq!(lengths, [1002, 1002, 502, 2, 2]);
        keys.answers(vec![Reply::Integer(1), Reply::Error("OOM no".to_owned()), Reply::Nil, Reply::Nil, Reply::Nil]);
        assert_eq!(keys.run(&["DUMP", "k"]), "-OOM no\r\n");
    }

    fn hash() -> Hash {
        [("a", None), ("b", Some(9000)), ("c", Some(5000)), ("d", Some(9000))]
            .map(|(name, expires_at_ms)| (name.as_bytes().to_vec(), Field { value: b"v".to_vec(), expires_at_ms }))
            .into_iter()
            .collect()
    }

    #[test]
    fn fields_expire_in_a_payload_where_the_server_lets_them() {
        for (server, version) in [("redis", "7.2.0"), ("valkey", "8.1.1")] {
            // It has none, and keyfold takes its own all the same.
            let mut keys = now_is(1000).behind(server, version, true);
            keys.hash("k", hash());
            let form = if server == "valkey" { FieldExpiryForm::Valkey } else { FieldExpiryForm::Redis };
            let payload = Collection::Hash(hash()).payload(form);
            let dumped = [format!("${}\r\n", payload.len()).as_bytes(), &payload, b"\r\n"].concat();
            assert_eq!(keys.run_bytes(Protocol::Resp2, &[b"DUMP", b"k"]), dumped);
            assert_eq!(keys.run_bytes(Protocol::Resp2, &[b"RESTORE", b"again", b"0", &payload]), b"+OK\r\n");
            assert_eq!(
                keys.run(&["HPEXPIRETIME", "again", "FIELDS", "3", "a", "b", "c"]),
                "*3\r\n:-1\r\n:9000\r\n:5000\r\n"
            );
        }
        let mut keys = now_is(1000).behind("valkey", "9.0.0", true);
        keys.hash("k", hash());
        let commands =
            ["HSET a v b v c v d v", "HPEXPIREAT 5000 FIELDS 1 c", "HPEXPIREAT 9000 FIELDS 2 b d", "DUMP", "DEL"];
        assert_eq!(shown(&keys.ask(&["DUMP", "k"])), commands);
    }

    #[test]
    fn fields_expire_though_the_server_has_none_that_do() {
        let mut keys = now_is(6000).behind("redis", "7.0.15", true);
        let payload = Collection::Hash(hash()).payload(FieldExpiryForm::Valkey);
        assert_eq!(keys.run_bytes(Protocol::Resp2, &[b"RESTORE", b"k", b"500", &payload]), b"+OK\r\n");
        assert_eq!(keys.run(&["HMGET", "k", "a", "b", "c"]), "*3\r\n$1\r\nv\r\n$1\r\nv\r\n$-1\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":500\r\n");
        // All of its fields have expired, and there is none with that name then.
        let gone: Hash =
            [(b"f".to_vec(), Field { value: b"v".to_vec(), expires_at_ms: Some(5999) })].into_iter().collect();
        let payload = Collection::Hash(gone).payload(FieldExpiryForm::Redis);
        assert_eq!(keys.run_bytes(Protocol::Resp2, &[b"RESTORE", b"k", b"0", &payload, b"REPLACE"]), b"+OK\r\n");
        assert_eq!(keys.run(&["EXISTS", "k"]), ":0\r\n");
        // Beyond what HPEXPIREAT takes the server is asked, and refuses it.
        let late: Hash =
            [(b"f".to_vec(), Field { value: b"v".to_vec(), expires_at_ms: Some(1 << 46) })].into_iter().collect();
        let late = Collection::Hash(late).payload(FieldExpiryForm::Redis);
        let call = |server: &ServerInfo| {
            unknown_to_server(&Call { args: &[b"RESTORE", b"k", b"0", &late], dialect: Dialect::new(server, true) })
                .is_some()
        };
        let server = |name: &str, version: &str| ServerInfo { name: name.to_owned(), version: version.to_owned() };
        assert!(
            call(&server("valkey", "8.1.1")) && !call(&server("valkey", "9.0.0")) && !call(&server("redis", "7.0.15"))
        );
    }

    #[test]
    fn restore_takes_sets_and_hashes() {
        let mut keys = now_is(1000);
        let wrong = || Reply::Error("WRONGTYPE".to_owned());
        let kind = |kind: &str| [bytes("OK"), bytes(kind), wrong()];
        keys.answers([&kind("set")[..], &[list(&["a", "7"]), wrong(), Reply::Integer(1)]].concat());
        assert_eq!(keys.run(&["RESTORE", "s", "500", "\x02payload"]), "+OK\r\n");
        assert_eq!(keys.run(&["SMEMBERS", "s"]), "*2\r\n$1\r\na\r\n$1\r\n7\r\n");
        assert_eq!(keys.run(&["PTTL", "s"]), ":500\r\n");
        keys.answers([&kind("hash")[..], &[wrong(), list(&["f", "v"]), Reply::Integer(1)]].concat());
        assert_eq!(keys.run(&["RESTORE", "s", "0", "\x10payload", "REPLACE"]), "+OK\r\n");
        assert_eq!(keys.run(&["TYPE", "s"]), "+hash\r\n");
    }

    #[test]
    fn when_fields_expire_is_asked_by_their_names() {
        let mut keys = now_is(1000).behind("redis", "8.0.6", true);
        let wrong = || Reply::Error("WRONGTYPE".to_owned());
        let pairs = || list(&["a", "v", "b", "v", "c", "v", "d", "v"]);
        keys.answers(vec![bytes("OK"), bytes("hash"), wrong(), wrong(), pairs(), Reply::Integer(1)]);
        let restore = ["RESTORE", "k", "0", "\x19payload"];
        let commands = [
            "RESTORE 0 \\x19payload",
            "HGETALL",
            "HPEXPIRETIME FIELDS 4 a b c d",
            "DEL",
            "RPUSH a b c d",
            "LRANGE 0 -1",
            "DEL",
        ];
        assert_eq!(shown(&keys.ask(&restore)), commands);
        let times = Reply::List([-1, 9000, 5000, 9000].map(Reply::Integer).to_vec());
        let names = list(&["a", "b", "c", "d"]);
        let one = || Reply::Integer(1);
        keys.answers(vec![bytes("OK"), pairs(), times, one(), one(), names, one()]);
        assert_eq!(keys.run(&restore), "+OK\r\n");
        let ask = shown(&keys.ask(&["DUMP", "k"]));
        assert_eq!(ask[1..3], ["HPEXPIREAT 5000 FIELDS 1 c", "HPEXPIREAT 9000 FIELDS 2 b d"]);
    }

    #[test]
    fn restore_into_the_past_removes() {
        let mut keys = now_is(1000);
        for options in [&["1000", "p", "replace", "ABSTTL"][..], &["9223372036854775807", "p", "replace"]] {
            keys.string("k", "old");
            keys.answers(vec![bytes("OK"), bytes("string"), bytes("v"), Reply::Integer(1)]);
            assert_eq!(keys.run(&[&["RESTORE", "k"], options].concat()), "+OK\r\n");
            assert_eq!(keys.run(&["EXISTS", "k"]), ":0\r\n");
        }
    }

    #[test]
    fn restore_checks_before_it_asks() {
        let mut keys = now_is(1000);
        keys.string("k", "v");
        assert_eq!(keys.run(&["RESTORE", "k", "x", "p"]), "-BUSYKEY Target key name already exists.\r\n");
        assert_eq!(keys.run(&["RESTORE", "new", "-1", "p"]), "-ERR Invalid TTL value, must be >= 0\r\n");
        for (options, error) in [
            (&["idletime", "-1"][..], "-ERR Invalid IDLETIME value, must be >= 0\r\n"),
            (&["FREQ", "256"], "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"),
            (&["FREQ", "1", "IDLETIME", "1"], "-ERR syntax error\r\n"),
            (&["FREQ"], "-ERR syntax error\r\n"),
        ] {
            assert_eq!(keys.run(&[&["RESTORE", "new", "0", "p"], options].concat()), error);
        }
    }
}
