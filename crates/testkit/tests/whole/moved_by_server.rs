//! Keys that a mover has the server move by itself lie where and as keyfold would have written them, and come back as they
//! were.

use std::mem;

use keyfold_core::drive::{Context, Conversations, Outside};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::layout::{Layout, LayoutFile, Located};
use keyfold_core::mover::{Moved, Mover};
use keyfold_testkit::{Server, Wire, found};

const LAYOUT: &str = "[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 32 }\n\n\
                      [[namespace]]\nkeys = 'w:{word}'\nbucket = { count = 3 }\nvalue_limit = 40\n";

/// The time for keyfold: a server's clock is behind it.
const NOW_MS: i64 = 1_800_000_000_000;

/// What a server says of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: i64,
}

fn values() -> Vec<Vec<u8>> {
    let texts = [
        "",
        "a",
        "12",
        "-5",
        "007",
        "-0",
        "0",
        "1e3",
        "0x10",
        "inf",
        "nan",
        " 1",
        "1 ",
        "999999999999999",
        "-1000000000000000",
        "9007199254740993",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "12.50",
        "127",
        "128",
        "-128",
        "-129",
        "32768",
        "2147483648",
        "140737488355328",
        "-140737488355329",
    ];
    let mut values: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    values.extend((0..=255).map(|byte| vec![byte]));
    values.extend((0..=33).map(|byte| [&[byte][..], b"\0more\xff"].concat()));
    values.extend([38, 39, 40, 41, 57, 58, 59, 63, 64, 65, 1000, 20_000].map(|len| vec![b'x'; len]));
    values.extend([39, 40, 63, 64].map(|len| vec![b'\x01'; len]));
    values
}

/// Never, within the frame's short form, at its edges, and beyond.
const EXPIRIES_MS: [i64; 5] = [-1, 2_500_000_000_000, 2_677_348_427_775, 2_677_348_427_776, 9_000_000_000_000];

fn records() -> Vec<Record> {
    let mut records = Vec::new();
    for expires_at_ms in EXPIRIES_MS {
        for value in values() {
            let number = records.len();
            let key = if number.is_multiple_of(2) { format!("n:{number}") } else { format!("w:\u{1}{number}\"é") };
            records.push(Record { key: key.into_bytes(), value, expires_at_ms });
        }
    }
    records
}

fn write(wire: &mut Wire, record: &Record) {
    let Record { key, value, expires_at_ms } = record;
    assert_eq!(wire.call(&[b"SET", key, value]).unwrap(), b"+OK\r\n");
    if *expires_at_ms >= 0 {
        assert_eq!(wire.call(&[b"PEXPIREAT", key, expires_at_ms.to_string().as_bytes()]).unwrap(), b":1\r\n");
    }
}

fn read(wire: &mut Wire, key: &[u8]) -> Record {
    let value = wire.ask(&[b"GET", key]).unwrap().bytes().map_or_else(|| b"none".to_vec(), <[u8]>::to_vec);
    let expires_at_ms = wire.ask(&[b"PEXPIRETIME", key]).unwrap().integer().unwrap();
    Record { key: key.to_vec(), value, expires_at_ms }
}

fn run_mover(layout: &Layout, server: &Server) -> Moved {
    run_mover_at(layout, server, |_| NOW_MS)
}

/// The same, by a clock that may change from step to step.
fn run_mover_at(layout: &Layout, server: &Server, now_ms: impl Fn(usize) -> i64) -> Moved {
    let context = Context::new(layout, info(server));
    let (mut wire, mut mover, mut nonce) = (server.connect().unwrap(), Mover::new(b"*"), 0);
    for step in 0.. {
        let mut nonces = || {
            nonce += 1;
            nonce
        };
        let mut env = context.env(now_ms(step), &mut nonces);
        let mut commands = Vec::new();
        let Some(count) = mover.next(&mut env, &mut commands) else { return mover.moved().clone() };
        let mut batches = vec![count];
        while batches.len() < 3 && mover.next_ahead(&env, &mut commands) {
            batches.push(1);
        }
        wire.send_bytes(&commands).unwrap();
        for count in batches {
            let replies: Vec<_> = (0..count).map(|_| wire.reply().unwrap()).collect();
            mover.handle_replies(&replies, &mut env).unwrap();
        }
    }
    unreachable!("a move ends")
}

fn info(server: &Server) -> ServerInfo {
    ServerInfo { name: server.flavor().name().to_owned(), version: server.version().to_string() }
}

/// What lies in the field of a key.
fn stored(wire: &mut Wire, layout: &Layout, key: &[u8]) -> Option<Vec<u8>> {
    let Located::Placed(place) = layout.locate(key) else { panic!("it is folded") };
    let stored = wire.ask(&[b"HGET", &place.physical, &place.field]).unwrap();
    stored.bytes().map(<[u8]>::to_vec)
}

/// Writes a key as keyfold does.
fn write_folded(conversations: &mut Conversations<'_, ()>, wire: &mut Wire, record: &Record, nonce: u64) {
    let at = record.expires_at_ms.to_string();
    let mut command: Vec<&[u8]> = vec![b"SET", &record.key, &record.value];
    if record.expires_at_ms >= 0 {
        command.extend([&b"PXAT"[..], at.as_bytes()]);
    }
    ask_keyfold(conversations, wire, &command, &mut Outside { now_ms: NOW_MS, nonces: &mut || nonce });
}

/// What keyfold answers.
fn ask_keyfold(
    conversations: &mut Conversations<'_, ()>,
    wire: &mut Wire,
    command: &[&[u8]],
    outside: &mut Outside<'_>,
) -> Vec<u8> {
    conversations.begin(command, (), outside).unwrap();
    loop {
        if let Some(((), answer)) = conversations.poll_answer() {
            return answer;
        }
        let commands = mem::take(conversations.wire());
        wire.send_bytes(&commands).unwrap();
        conversations.handle_reply(&wire.reply().unwrap(), outside).unwrap();
    }
}

#[test]
fn keys_moved_by_the_server_itself_lie_as_keyfold_writes_them() {
    let plain = Layout::default();
    let to = plain.plan_fold(&LayoutFile::parse(LAYOUT).unwrap()).unwrap();
    let folded = to.layout.settled(&to.moving);
    let all: Vec<_> = folded.iter().map(|(index, _)| index).collect();
    let back = folded.plan_unfold(&all).unwrap();
    let records = records();
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let mut wire = server.connect().unwrap();
        records.iter().for_each(|record| write(&mut wire, record));
        wire.call(&[b"RPUSH", b"n:1000001", b"element"]).unwrap();
        // What a key has in both places is somebody's mistake, and stays.
        let Located::Placed(place) = folded.locate(b"n:1000003") else { panic!("it is folded") };
        wire.call(&[b"SET", b"n:1000003", b"old"]).unwrap();
        wire.call(&[b"HSET", &place.physical, &place.field, b"new"]).unwrap();

        let moved = run_mover(&to.layout, &server);
        assert_eq!((moved.moved, moved.left_count), (records.len() as u64, 2), "{}: {:?}", binary.name(), moved.left);
        // The server read most of them itself.
        let read_one_by_one = commands_of(&mut wire, "get");
        assert!(read_one_by_one < records.len() as u64, "{read_one_by_one} of {}", records.len());

        let mut conversations = Conversations::new(Context::without_data(&folded, info(&server)));
        for (nonce, record) in (1..).zip(&records) {
            let by_server = stored(&mut wire, &folded, &record.key).unwrap_or_else(|| panic!("{record:?} is gone"));
            write_folded(&mut conversations, &mut wire, record, nonce << 32);
            let by_keyfold = stored(&mut wire, &folded, &record.key).unwrap();
            let is_spill = |stored: &[u8]| matches!(stored.first(), Some(8..=10));
            if !is_spill(&by_server) || !is_spill(&by_keyfold) {
                assert_eq!(by_server.escape_ascii().to_string(), by_keyfold.escape_ascii().to_string(), "{record:?}");
            }
        }

        let moved = run_mover(&back.layout, &server);
        assert_eq!((moved.moved, moved.left_count), (records.len() as u64, 1), "{:?}", moved.left);
        for record in &records {
            assert_eq!(read(&mut wire, &record.key), *record, "{}", binary.name());
        }
        assert_eq!(wire.call(&[b"LRANGE", b"n:1000001", b"0", b"-1"]).unwrap(), b"*1\r\n$7\r\nelement\r\n");
    }
}

/// How often a server carried out a command.
fn commands_of(wire: &mut Wire, command: &str) -> u64 {
    let stats = wire.ask(&[b"INFO", b"commandstats"]).unwrap();
    let stats = String::from_utf8_lossy(stats.bytes().unwrap()).into_owned();
    let counts = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    counts.and_then(|counts| counts.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// A mover whose clock is ahead, or whose server's clock is put back on the way, drops no field that has time left.
#[test]
fn a_field_that_only_the_mover_has_for_expired_is_moved() {
    let layout =
        |span: u32| format!("[[namespace]]\nkeys = 'h:{{id:int}}'\ntype = 'hash'\nbucket = {{ span = {span} }}\n");
    let plan = |of: &Layout, span| of.plan_fold(&LayoutFile::parse(&layout(span)).unwrap()).unwrap();
    let before = plan(&Layout::default(), 32);
    let before = before.layout.settled(&before.moving);
    let to = plan(&before, 16);
    let after = to.layout.settled(&to.moving);
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let mut wire = server.connect().unwrap();
        let time = wire.ask(&[b"TIME"]).unwrap();
        let seconds: i64 = str::from_utf8(time.elements().unwrap()[0].bytes().unwrap()).unwrap().parse().unwrap();
        assert!(seconds * 1000 < NOW_MS, "the server's clock is behind");
        let in_time = seconds * 1000;
        let outside = &mut Outside { now_ms: in_time, nonces: &mut || 1 };
        let expiry = (in_time + 1_000_000).to_string();
        let mut conversations = Conversations::new(Context::without_data(&before, info(&server)));
        let mut ask = |command: &str| {
            let command: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            ask_keyfold(&mut conversations, &mut wire, &command, outside)
        };
        assert_eq!(ask("HSET h:1 f v g w"), b":2\r\n");
        assert_eq!(ask(&format!("HPEXPIREAT h:1 {expiry} FIELDS 1 f")), b"*1\r\n:1\r\n");
        assert_eq!(ask("HSET h:2 f v"), b":1\r\n");
        assert_eq!(ask(&format!("HPEXPIREAT h:2 {expiry} FIELDS 1 f")), b"*1\r\n:1\r\n");

        let moved = run_mover_at(&to.layout, &server, |step| if step < 50 { NOW_MS } else { in_time });
        assert_eq!((moved.moved, moved.left_count, moved.expired), (2, 0, 0), "{}: {:?}", binary.name(), moved.left);
        let mut conversations = Conversations::new(Context::without_data(&after, info(&server)));
        for (key, fields) in [("h:1", 2), ("h:2", 1)] {
            let said = ask_keyfold(&mut conversations, &mut wire, &[b"HLEN", key.as_bytes()], outside);
            assert_eq!(said, format!(":{fields}\r\n").as_bytes(), "{}: {key}", binary.name());
        }
    }
}
