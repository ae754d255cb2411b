//! Dumps that servers write: all that they hold is read back, and what it takes is what they say.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use keyfold_core::collection::FieldExpiryForm;
use keyfold_core::memory::{Allocator, Family, Model, Server as Which};
use keyfold_rdb::{
    Collection, Dump, DumpError, Form, Kind, Record, Usage, Value, expiring_hash, portable, stream_groups,
};
use keyfold_testkit::reply::Value as Reply;
use keyfold_testkit::servers::each;
use keyfold_testkit::{Binary, Flavor, Server, Wire, found};

const EXPIRES_AT_MS: i64 = 2_000_000_000_000;

/// One of each type, small and large.
const KINDS: usize = 16;

/// A server whose dumps go where it is told.
fn start(binary: &Binary) -> Server {
    let protected = if binary.version().major >= 7 { &["--enable-protected-configs", "yes"][..] } else { &[] };
    binary.start(protected).unwrap()
}

fn ask(wire: &mut Wire, args: &[&str]) -> Reply {
    let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
    wire.ask(&args).unwrap()
}

fn ok(wire: &mut Wire, args: &[&str]) {
    let reply = ask(wire, args);
    assert!(!reply.is_error(), "{args:?}: {reply:?}");
}

/// Fills a server with all types, small and large, strings of all encodings, expiries and two databases.
fn fill(wire: &mut Wire, binary: &Binary) {
    let long = "0123456789abcdef".repeat(20_000);
    let repeated = "x".repeat(5000);
    for (key, value) in [
        ("int", "12345"),
        ("negative", "-7"),
        ("wide", "9007199254740993"),
        ("short", "hello"),
        ("empty", ""),
        ("raw", "a value of more than forty-four bytes, which lies apart from its object"),
        ("compressed", &repeated),
        ("long", &long),
    ] {
        ok(wire, &["SET", key, value]);
    }
    ok(wire, &["SET", "expires", "soon", "PXAT", &EXPIRES_AT_MS.to_string()]);
    let large = "m".repeat(100);
    for element in 0..300 {
        let text = format!("member-{element}-{}", element * 7919);
        let number = (element * 7919).to_string();
        let few = element < 20;
        let mut add = |args: &[&str]| ok(wire, args);
        if few {
            add(&["HSET", "hash:packed", &text, &number]);
            add(&["SADD", "set:packed", &text]);
            add(&["ZADD", "zset:packed", &number, &text]);
            add(&["RPUSH", "list:packed", &text]);
            add(&["XADD", "stream", "*", "field", &text]);
        }
        add(&["SADD", "set:ints", &number]);
        add(&["HSET", "hash:table", &format!("{text}{large}"), &number]);
        add(&["SADD", "set:table", &format!("{text}{large}")]);
        add(&["ZADD", "zset:table", &format!("{element}.5"), &format!("{text}{large}")]);
        add(&["RPUSH", "list:pieces", &format!("{text}{large}")]);
    }
    ok(wire, &["XGROUP", "CREATE", "stream", "group", "0"]);
    ok(wire, &["XREADGROUP", "GROUP", "group", "someone", "COUNT", "5", "STREAMS", "stream", ">"]);
    if fields_expire(binary) {
        for key in ["hash:packed", "hash:table"] {
            ok(wire, &["COPY", key, &format!("{key}:expiring")]);
            let field = ask(wire, &["HRANDFIELD", key]);
            let field = String::from_utf8(field.bytes().unwrap().to_vec()).unwrap();
            ok(wire, &["HPEXPIREAT", &format!("{key}:expiring"), &EXPIRES_AT_MS.to_string(), "FIELDS", "1", &field]);
        }
    }
    if binary.version().major >= 7 {
        ok(wire, &["FUNCTION", "LOAD", "#!lua name=some\nredis.register_function('f', function() return 1 end)"]);
    }
    ok(wire, &["SELECT", "3"]);
    ok(wire, &["SET", "in:three", "3"]);
    ok(wire, &["SELECT", "0"]);
}

/// How far what a value takes may be from what the server says of it.
fn tolerance(name: &str, value: &Collection) -> f64 {
    match (value.kind, value.form) {
        // What knows when its fields expire has that beside them.
        (Kind::Hash, Form::Listpack) if name.ends_with(":expiring") => 0.06,
        // What has just grown has its old half until it has been read for a while, and how high nodes are is chance.
        (_, Form::Table) => 0.09,
        // Of several pieces each is rounded up for itself.
        (Kind::List, Form::Pieces) => 0.03,
        // Groups are left out, and how much room the last piece has is the server's setting.
        (Kind::Stream, _) => 0.7,
        _ => 0.01,
    }
}

/// All records of a file, with what each collection takes by the model.
fn read(path: &Path, which: Which, allocator: Allocator) -> Result<Vec<(Record, u64, u64)>, DumpError> {
    let mut dump = Dump::open(File::open(path)?)?;
    let mut usage = Usage::new(which, &Model::for_server(which).with_allocator(allocator));
    let mut all = Vec::new();
    loop {
        let mut told = 0;
        let next = dump.next(&mut |element| {
            told += 1;
            usage.add(&element);
        })?;
        let Some(record) = next else { return Ok(all) };
        let bytes = match &record.value {
            Value::Collection(value) => usage.take(record.key.len() as u64, value, record.expires_at_ms.is_some()),
            Value::String(_) => 0,
        };
        all.push((record, told, bytes));
    }
}

fn saved(wire: &mut Wire, dir: &Path) -> PathBuf {
    ok(wire, &["CONFIG", "SET", "dir", dir.to_str().unwrap()]);
    ok(wire, &["CONFIG", "SET", "dbfilename", "dump.rdb"]);
    ok(wire, &["SAVE"]);
    dir.join("dump.rdb")
}

#[test]
fn what_a_server_dumps_is_read_back() {
    each(&found(), |binary| {
        let server = start(binary);
        let mut wire = server.connect().unwrap();
        fill(&mut wire, binary);
        let dir = tempfile::tempdir().unwrap();
        let path = saved(&mut wire, dir.path());

        let version = binary.version();
        let which = match binary.flavor() {
            Flavor::Redis => Which::redis(version.major, version.minor),
            Flavor::Valkey => Which::valkey(version.major, version.minor),
        };
        let stats = ask(&mut wire, &["MEMORY", "MALLOC-STATS"]);
        let stats = String::from_utf8_lossy(stats.bytes().unwrap()).into_owned();
        let allocator = Allocator::from_malloc_stats(&stats).unwrap_or_default();
        let all = read(&path, which, allocator).unwrap();

        let dump = Dump::open(File::open(&path).unwrap()).unwrap();
        let head = dump.head();
        assert_eq!(head.is_valkey, which.family == Family::Valkey, "{binary:?}");
        assert_eq!(head.server.as_deref(), Some(version.to_string().as_str()));
        assert!(head.used_memory.is_some_and(|bytes| bytes > 500_000) && head.written_at.is_some());

        let three = all.iter().find(|(record, ..)| record.database == 3).unwrap();
        assert_eq!(three.0.key, b"in:three");
        let of_zero: BTreeMap<_, _> =
            all.iter().filter(|(record, ..)| record.database == 0).map(|one| (one.0.key.clone(), one)).collect();
        assert_eq!(i64::try_from(of_zero.len()).unwrap(), ask(&mut wire, &["DBSIZE"]).integer().unwrap());
        assert!(of_zero.len() > KINDS);
        for (key, (record, told, bytes)) in &of_zero {
            let name = String::from_utf8_lossy(key).into_owned();
            let expires = ask(&mut wire, &["PTTL", &name]).integer().unwrap();
            assert_eq!(record.expires_at_ms, (expires >= 0).then_some(EXPIRES_AT_MS), "{name}");
            match &record.value {
                Value::String(text) => {
                    let held = ask(&mut wire, &["GET", &name]);
                    let held = held.bytes().unwrap();
                    assert_eq!(text.len, held.len() as u64, "{name}");
                    assert_eq!(text.head, held[..text.head.len()], "{name}");
                }
                Value::Collection(value) => {
                    let count = match value.kind {
                        Kind::Hash => "HLEN",
                        Kind::Set => "SCARD",
                        Kind::List => "LLEN",
                        Kind::SortedSet => "ZCARD",
                        Kind::Stream => "XLEN",
                        Kind::Module => unreachable!("{name}"),
                    };
                    let count = ask(&mut wire, &[count, &name]).integer().unwrap();
                    assert_eq!(value.elements, u64::try_from(count).unwrap(), "{name}");
                    assert_eq!(*told, if value.kind == Kind::Stream { 0 } else { value.elements }, "{name}");
                    let encoding = ask(&mut wire, &["OBJECT", "ENCODING", &name]);
                    let encoding = String::from_utf8_lossy(encoding.bytes().unwrap()).into_owned();
                    let form = match encoding.as_str() {
                        "listpack" | "listpackex" => Form::Listpack,
                        "ziplist" => Form::Ziplist,
                        "intset" => Form::Intset,
                        "hashtable" | "skiplist" => Form::Table,
                        _ => Form::Pieces,
                    };
                    // Before 7.2 a short list is one piece of several.
                    let is_short_list = value.kind == Kind::List && value.form == Form::Listpack;
                    assert!(value.form == form || is_short_list, "{binary:?} {name}: {:?}, and {encoding}", value.form);
                    let says = ask(&mut wire, &["MEMORY", "USAGE", &name, "SAMPLES", "0"]).integer().unwrap() as f64;
                    let off = *bytes as f64 / says - 1.0;
                    eprintln!("{} {name}: {bytes}, it says {says}: {:+.1} %", binary.name(), off * 100.0);
                    // scripts/oldest-server brings one without jemalloc.
                    let is_right = off.abs() <= tolerance(&name, value) || !binary.has_redis_7();
                    assert!(is_right, "{binary:?} {name}: {off:+.3}");
                }
            }
        }
    });
}

#[test]
fn a_dump_that_was_changed_or_cut_off_is_said_to_be() {
    let binary = found().remove(0);
    let server = start(&binary);
    let mut wire = server.connect().unwrap();
    fill(&mut wire, &binary);
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(saved(&mut wire, dir.path())).unwrap();
    let try_it = |bytes: &[u8]| -> Result<usize, DumpError> {
        let mut dump = Dump::open(bytes)?;
        let mut count = 0;
        while dump.next(&mut |_| ())?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    assert!(try_it(&bytes).unwrap() > KINDS);
    assert!(matches!(try_it(b"[[namespace]]"), Err(DumpError::NoDump)));
    assert!(matches!(try_it(b"RED"), Err(DumpError::NoDump)));
    // Wherever it ends.
    for end in (9..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        assert!(matches!(try_it(&bytes[..end]), Err(DumpError::CutOff(_))), "cut off at {end} of {}", bytes.len());
    }
    // Whichever byte is another: no panic, and never taken for right.
    for at in (9..bytes.len() - 8).step_by(31) {
        let mut changed = bytes.clone();
        changed[at] ^= 0x41;
        assert!(try_it(&changed).is_err(), "byte {at}");
    }
}

/// The elements of a key, in an order that doesn't depend on how it is stored; and when fields of a hash expire.
fn elements(wire: &mut Wire, name: &str, fields_expire: bool) -> Vec<Reply> {
    let kind = String::from_utf8(ask(wire, &["TYPE", name]).bytes().unwrap().to_vec()).unwrap();
    let mut texts = |args: &[&str]| -> Vec<Reply> { ask(wire, args).elements().unwrap().to_vec() };
    let mut found = match kind.as_str() {
        "list" => return texts(&["LRANGE", name, "0", "-1"]),
        "zset" => {
            // Servers write the same score in different digits.
            let number = |score: &Reply| String::from_utf8_lossy(score.bytes().unwrap()).parse::<f64>().unwrap();
            let found = texts(&["ZRANGE", name, "0", "-1", "WITHSCORES"]);
            let pair = |pair: &[Reply]| [pair[0].clone(), Reply::Integer(number(&pair[1]).to_bits().cast_signed())];
            return found.chunks(2).flat_map(pair).collect();
        }
        "stream" => return [texts(&["XRANGE", name, "-", "+"]), texts(&["XPENDING", name, "group"])].concat(),
        "set" => texts(&["SMEMBERS", name]),
        "hash" => texts(&["HGETALL", name]),
        _ => return vec![ask(wire, &["GET", name])],
    };
    if kind == "hash" && fields_expire {
        let names: Vec<String> =
            found.iter().step_by(2).map(|name| String::from_utf8(name.bytes().unwrap().to_vec()).unwrap()).collect();
        let count = names.len().to_string();
        let args =
            [&["HPEXPIRETIME", name, "FIELDS", &count][..], &names.iter().map(String::as_str).collect::<Vec<_>>()];
        let times = texts(&args.concat());
        found = found.chunks(2).zip(times).map(|(pair, time)| Reply::Array([pair, &[time]].concat())).collect();
    } else if kind == "hash" {
        found = found.chunks(2).map(|pair| Reply::Array(pair.to_vec())).collect();
    }
    found.sort_by_key(|reply| format!("{reply:?}"));
    found
}

fn fields_expire(binary: &Binary) -> bool {
    let (major, minor) = (binary.version().major, binary.version().minor);
    match binary.flavor() {
        Flavor::Redis => (major, minor) >= (7, 4),
        Flavor::Valkey => major >= 9,
    }
}

/// What a payload of a stream says beside its entries.
fn groups_of(payload: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut said = Vec::new();
    stream_groups(payload, &mut |parts| said.push(parts.join(&b' ')))?;
    Some(said)
}

#[test]
fn what_one_server_dumps_all_others_take_once_it_is_portable() {
    let binaries = found();
    for from in &binaries {
        let source = start(from);
        let mut wire = source.connect().unwrap();
        fill(&mut wire, from);
        // What only texts have: a score beyond all, one that no decimal ends, bytes that are none of UTF-8.
        ok(&mut wire, &["ZADD", "zset:odd", "inf", "high", "-inf", "low", "0.1", "tenth", "3", "three"]);
        let bytes: [&[u8]; 4] = [b"RPUSH", b"list:odd", b"\xff\0\r\n", b""];
        assert!(!wire.ask(&bytes).unwrap().is_error());
        ok(&mut wire, &["RPUSH", "list:long", &"x".repeat(200_000), "9223372036854775807", "-1"]);
        ok(&mut wire, &["HSET", "hash:long", "f", &"y".repeat(100_000)]);
        let names = ask(&mut wire, &["KEYS", "*"]).elements().unwrap().to_vec();
        let names: Vec<_> =
            names.iter().map(|name| String::from_utf8(name.bytes().unwrap().to_vec()).unwrap()).collect();
        assert!(names.len() > KINDS + 4);
        for to in &binaries {
            let form = match to.flavor() {
                Flavor::Redis => FieldExpiryForm::Redis,
                Flavor::Valkey => FieldExpiryForm::Valkey,
            };
            let target = start(to);
            let mut other = target.connect().unwrap();
            let mut refused = Vec::new();
            for name in &names {
                let dumped = ask(&mut wire, &["DUMP", name]);
                let payload =
                    portable(dumped.bytes().unwrap(), form).unwrap_or_else(|| panic!("{} {name}", from.name()));
                let restore = other.ask(&[b"RESTORE", name.as_bytes(), b"0", &payload]).unwrap();
                if restore.is_error() {
                    refused.push(name.as_str());
                    continue;
                }
                let both_expire = fields_expire(from) && fields_expire(to);
                let [held, there] = [&mut wire, &mut other].map(|wire| elements(wire, name, both_expire));
                assert_eq!(there, held, "{name} of {} in {}", from.name(), to.name());
                let dumped_there = ask(&mut other, &["DUMP", name]);
                let [held, there] = [&dumped, &dumped_there].map(|dumped| {
                    let payload = dumped.bytes().unwrap();
                    (expiring_hash(payload), groups_of(payload))
                });
                assert_eq!(there, held, "{name} of {} in {}", from.name(), to.name());
                let expiring = held.0.is_some_and(|hash| hash.expiries().eq([EXPIRES_AT_MS]));
                let told = (expiring, held.1.is_some_and(|said| said.len() > 3));
                assert_eq!(told, (name.ends_with(":expiring"), name == "stream"), "{name}");
            }
            let has_none = fields_expire(from) && !fields_expire(to);
            let mut lacking = if has_none { vec!["hash:packed:expiring", "hash:table:expiring"] } else { Vec::new() };
            // Their form is Redis 7.0's, but of what is older yet.
            lacking.extend((from.has_redis_7() && !to.has_redis_7()).then_some("stream"));
            refused.sort_unstable();
            assert_eq!(refused, lacking, "{} to {}", from.name(), to.name());
        }
    }
}

#[test]
fn what_is_damaged_is_not_made_portable() {
    let binary = found().remove(0);
    let server = start(&binary);
    let mut wire = server.connect().unwrap();
    fill(&mut wire, &binary);
    for name in ["hash:packed", "set:ints", "zset:table", "list:pieces", "stream", "compressed"] {
        let dumped = ask(&mut wire, &["DUMP", name]);
        let payload = dumped.bytes().unwrap();
        assert!(portable(payload, FieldExpiryForm::Redis).is_some(), "{name}");
        for at in (0..payload.len()).step_by(1 + payload.len() / 97) {
            let mut other = payload.to_vec();
            other[at] ^= 0x10;
            assert_eq!(portable(&other, FieldExpiryForm::Redis), None, "{name}: byte {at}");
            assert_eq!(portable(&payload[..at], FieldExpiryForm::Redis), None, "{name}: cut at {at}");
        }
    }
}
