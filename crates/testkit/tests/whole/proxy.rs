//! The `keyfold` program in front of every server found, compared with that server without it.

use keyfold_core::layout::Layout;
use keyfold_testkit::coded::{Pair, store, train};
use keyfold_testkit::conformance::{self, CODED_LAYOUT, LAYOUT, POOLS};
use keyfold_testkit::differential::{self, Behind, CalledAs, Options, ScriptOptions, Stage, Way, is_later};
use keyfold_testkit::{Binary, Server, Sides, Subject, Wire, found};

/// Steps of the conversations that differ, as docs/differences.md says: the case, and the step.
const KNOWN: &[(&str, &str)] = &[
    ("an expired key is absent to every command", "DBSIZE"),
    ("WATCH", "EXEC"),
    ("SELECT inside a transaction", "SELECT 1"),
];

/// What servers after Redis 7.0 say otherwise.
const KNOWN_LATER: &[(&str, &str)] = &[("OBJECT", "OBJECT ENCODING"), ("text after a quote", "x1 raw")];

#[test]
fn every_conversation_is_the_plain_servers() {
    found().iter().for_each(|binary| converse(binary, LAYOUT));
}

#[test]
fn every_conversation_on_compressed_values_is_too() {
    let binaries = found();
    // What differs between versions is not in how values are stored.
    let ends = [binaries.first(), binaries.last().filter(|_| binaries.len() > 1)];
    ends.into_iter().flatten().for_each(|binary| converse(binary, CODED_LAYOUT));
}

#[test]
fn what_codecs_learnt_does_not_show() {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let servers = [(); 2].map(|()| binary.start(&[]).expect("it starts"));
    let trained = trained();
    assert!(trained.dictionaries().len() > 1, "something was learnt");
    store(&trained, &mut servers[1].connect().expect("it listens")).expect("it is stored");
    let subject = Subject::beside(&servers[1]).expect("keyfold serves");
    let sides = Sides { plain: servers[0].address(), subject: subject.address() };
    let (count, differences) = conformance::run_all(sides, "compressible");
    assert!(count > 0 && differences.is_empty(), "{differences:#?}");
}

/// The coded layout with dictionaries of values such as the conversations have.
fn trained() -> Layout {
    let record = |number: usize| {
        let key = (POOLS[number % POOLS.len()].key)(number / POOLS.len());
        let mixed = number * 2_654_435_761 % 1_000_003;
        let value = format!("abcabcabd{mixed}defdefg{mixed}abcabcabd").repeat(1 + number % 4);
        (key, value.into_bytes())
    };
    let records: Vec<(Vec<u8>, Vec<u8>)> = (0..4000).map(record).collect();
    let pairs: Vec<Pair<'_>> = records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    let (learn, judge) = pairs.split_at(3500);
    train(&Layout::parse_file(CODED_LAYOUT).expect("the layout is right"), learn, judge, 1_000_000)
}

fn converse(binary: &Binary, layout: &str) {
    let (_servers, _subject, sides) = start(binary, layout);
    let (count, differences) = conformance::run_all(sides, "");
    let differences = differences.iter().map(ToString::to_string);
    let shown: Vec<String> = differences.filter(|difference| !is_known(difference, binary)).collect();
    assert!(count > 1000 && shown.is_empty(), "{}, {} of {count}:\n{}", binary.name(), shown.len(), shown.join("\n"));
}

#[test]
fn random_commands_get_the_plain_servers_answers() {
    for (seed, binary) in (1..).zip(found()) {
        for coded in [false, true] {
            let stage = Stage::start(&binary, Behind::Server, coded).expect("both sides start");
            let options = Options { seed, commands: 40_000, later: is_later(&binary), ..Options::default() };
            if let Err(failure) = differential::run(stage.sides(), &options, |_| {}) {
                panic!("{}: {failure}", binary.name());
            }
        }
    }
}

#[test]
fn subscribers_hear_of_folded_keys_what_the_plain_server_tells() {
    for (seed, binary) in (1..).zip(found()) {
        for coded in [false, true] {
            let stage = Stage::start(&binary, Behind::Server, coded).expect("both sides start");
            let later = is_later(&binary);
            let options = Options { seed, commands: 6_000, later, notifications: true, ..Options::default() };
            if let Err(failure) = differential::run(stage.sides(), &options, |_| {}) {
                panic!("{}: {failure}", binary.name());
            }
            let options = ScriptOptions { notifications: true, ..ScriptOptions::new(Behind::Server, seed, 500) };
            let run = differential::run_scripts(stage.sides(), &options, |_| {});
            if let Err(failure) = run {
                panic!("{}: {failure}", binary.name());
            }
        }
    }
}

#[test]
fn random_scripts_get_the_plain_servers_answers() {
    for (seed, binary) in (1..).zip(found()) {
        for coded in [false, true] {
            let stage = Stage::start(&binary, Behind::Server, coded).expect("both sides start");
            compare_scripts(&binary, &stage, seed);
        }
    }
}

#[test]
fn random_scripts_find_keys_that_are_on_the_move() {
    let binaries = found();
    let ends = [binaries.first(), binaries.last().filter(|_| binaries.len() > 1)];
    for (seed, binary) in (1..).zip(ends.into_iter().flatten()) {
        for way in Way::ALL {
            compare_scripts(binary, &Stage::moving(binary, way).expect("both sides start"), seed);
        }
    }
}

fn compare_scripts(binary: &Binary, stage: &Stage, seed: u64) {
    for called_as in [CalledAs::Scripts, CalledAs::Functions] {
        let former = stage.former();
        let options = ScriptOptions { former, called_as, ..ScriptOptions::new(Behind::Server, seed, 1_000) };
        if let Err(failure) = differential::run_scripts(stage.sides(), &options, |_| {}) {
            panic!("{}: {failure}", binary.name());
        }
    }
}

#[test]
fn scripts_outlive_what_a_server_forgets() {
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let (servers, _subject, sides) = start(&binary, LAYOUT);
    let mut client = Wire::connect(sides.subject).expect("it listens");
    let mut ask = |args: &[&[u8]]| client.ask(args).expect("it answers");
    let loaded = ask(&[b"SCRIPT", b"LOAD", b"return redis.call('INCR', KEYS[1])"]);
    let sha = loaded.bytes().expect("it is loaded").to_vec();
    let call: [&[u8]; 4] = [b"EVALSHA", &sha, b"1", b"user:1:logins"];
    for round in 1..4 {
        assert_eq!(ask(&call).integer(), Some(round));
        let mut server = servers[1].connect().expect("it listens");
        server.ask(&[b"SCRIPT", b"FLUSH"]).expect("it answers");
    }
    assert_eq!(ask(&[b"GET", b"user:1:logins"]).bytes(), Some(&b"3"[..]));
    ask(&[b"SCRIPT", b"FLUSH"]);
    assert!(ask(&call).is_error(), "what the client had forgotten is");
}

/// Each value and expiry has one form, whoever writes it: by a command, by the scripts on fields, or past them.
#[test]
fn scripts_store_values_as_commands_do() {
    const BY_FIELD: &[u8] = b"return redis.call('SET', KEYS[1], ARGV[1], 'PXAT', ARGV[2])";
    const BY_SERVER: &[u8] = b"redis.call('DEL', KEYS[1]) redis.call('APPEND', KEYS[1], ARGV[1]) \
        redis.call('BITFIELD', KEYS[1], 'INCRBY', 'u1', 0, 0) return redis.call('PEXPIREAT', KEYS[1], ARGV[2])";
    let binary = found().pop().expect("no redis-server or valkey-server; run scripts/ensure-server");
    let (servers, _subject, sides) = start(&binary, LAYOUT);
    let mut client = Wire::connect(sides.subject).expect("it listens");
    let mut server = servers[1].connect().expect("it listens");
    let mut stored = || {
        let found = server.ask(&[b"KEYS", b"~*"]).expect("it answers");
        let [bucket] = found.elements().expect("there are keys") else { panic!("one bucket: {found:?}") };
        server.call(&[b"HGETALL", bucket.bytes().expect("a key is a string")]).expect("it answers")
    };
    let values: [&[u8]; 18] = [
        b"a",
        b"\x01x",
        b"0",
        b"-0",
        b"007",
        b"127",
        b"-129",
        b"8388608",
        b"140737488355327",
        b"-140737488355329",
        b"999999999999999",
        b"-1000000000000000",
        b"36028797018963968",
        b"9223372036854775807",
        b"-9223372036854775808",
        b"9223372036854775808",
        b"+5",
        &[b'x'; 55],
    ];
    // The last that takes five bytes, the first that takes eight, and the last that Lua has.
    for at in ["2677348427775", "2677348427776", "9007199254740991"] {
        for value in values {
            client.call(&[b"SET", b"user:1:logins", value, b"PXAT", at.as_bytes()]).expect("it answers");
            let by_command = stored();
            for script in [BY_FIELD, BY_SERVER] {
                let reply = client.ask(&[b"EVAL", script, b"1", b"user:1:logins", value, at.as_bytes()]);
                assert!(!reply.expect("it answers").is_error());
                assert_eq!(stored(), by_command, "{} until {at}", value.escape_ascii());
            }
        }
    }
}

/// A plain server, and another with keyfold in front.
fn start(binary: &Binary, layout: &str) -> ([Server; 2], Subject, Sides) {
    let servers = [(); 2].map(|()| binary.start(&[]).expect("it starts"));
    let subject = Subject::start(&servers[1], layout).expect("keyfold serves");
    let sides = Sides { plain: servers[0].address(), subject: subject.address() };
    (servers, subject, sides)
}

/// The head of a difference names the case, then the step.
fn is_known(difference: &str, binary: &Binary) -> bool {
    let head = difference.lines().next().unwrap_or_default();
    let later = if is_later(binary) { KNOWN_LATER } else { &[] };
    KNOWN.iter().chain(later).any(|(case, step)| head.starts_with(case) && head.contains(step))
}
