//! What clients send one after the other on one bucket goes to the server as one command, and nobody can tell.

use keyfold_core::layout::Layout;
use keyfold_core::resp::write_command;
use keyfold_testkit::Wire;
use keyfold_testkit::random::Random;

use crate::relay::Relay;
use crate::stage::{Stage, address, call, commands, config_behind, eventually, serve, stage_with, start_server};

const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 100 }\n";

fn stage() -> Stage {
    stage_with(|config| {
        config.layout = Layout::parse_file(LAYOUT).unwrap().into();
        config.threads = Some(1.try_into().unwrap());
        config.sweep.fields_per_second = 0;
    })
}

/// How often the server carried out a command.
fn calls(stage: &Stage, command: &str) -> u32 {
    let stats = call(&mut stage.server.connect().unwrap(), "INFO commandstats");
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls="))?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

/// The answers to requests that are sent at once, in both protocols.
fn answers(stage: &Stage, texts: &[&str]) -> [Vec<String>; 2] {
    [2, 3].map(|protocol| {
        let mut client = stage.connect();
        call(&mut client, &format!("HELLO {protocol}"));
        client.send_bytes(&commands(texts)).unwrap();
        texts.iter().map(|_| String::from_utf8(client.reply().unwrap()).unwrap()).collect()
    })
}

#[test]
fn neighbours_are_read_and_written_by_one_command() {
    let stage = stage();
    let (hset, hget) = (calls(&stage, "hset"), calls(&stage, "hget"));
    let ids: Vec<u32> = (0..150).collect();
    let set: Vec<String> = ids.iter().map(|id| format!("SET user:{id} value-{id}")).collect();
    let written = answers(&stage, &set.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(written.iter().flatten().all(|answer| answer == "+OK\r\n"), "{written:?}");
    let get: Vec<String> = ids.iter().map(|id| format!("GET user:{id}")).collect();
    for read in answers(&stage, &get.iter().map(String::as_str).collect::<Vec<_>>()) {
        for (id, answer) in ids.iter().zip(read) {
            let value = format!("value-{id}");
            assert_eq!(answer, format!("${}\r\n{value}\r\n", value.len()));
        }
    }
    // Two buckets of 100 and 50, twice: two commands for the first, unless what came was read in parts.
    let (hset, hget) = (calls(&stage, "hset") - hset, calls(&stage, "hget") - hget);
    assert!(hset < 60, "HSET was called {hset} times for 300 keys");
    assert!(hget < 30 && calls(&stage, "hmget") < 30, "{hget} calls of HGET, {} of HMGET", calls(&stage, "hmget"));
}

/// Each answer is what the same requests get one by one.
#[test]
fn whatever_is_between_has_its_place() {
    let texts = [
        "SET user:1 one",
        "SET user:2 2",
        "SET user:3 three PX 100000",
        "GET user:1",
        "GET user:4",
        "INCR user:2",
        "GET user:2",
        "GET user:3",
        "STRLEN user:3",
        "EXISTS user:9",
        "TTL user:1",
        "GET other",
        "GET user:1",
        "SET user:1 uno",
        "SET user:1 eins",
        "GET user:1",
        "DEL user:1",
        "GET user:1",
        "GET user:2",
        "SET user:100 a",
        "SET user:2 b",
        "GET user:100",
        "GET user:2",
        "MGET user:1 user:2",
        "GETRANGE user:3 1 2",
        "GET user:3",
        "PING",
        "GET user:3",
    ];
    let together = answers(&stage(), &texts);
    let one_by_one = stage();
    let alone = [2, 3].map(|protocol| {
        let mut client = one_by_one.connect();
        call(&mut client, &format!("HELLO {protocol}"));
        texts.map(|text| call(&mut client, text)).to_vec()
    });
    assert_eq!(together, alone);
}

#[test]
fn an_error_is_everybodys() {
    let stage = stage();
    let mut direct = stage.server.connect().unwrap();
    call(&mut stage.connect(), "SET user:1 a");
    let keys = call(&mut direct, "KEYS ~*");
    let bucket = keys.lines().nth(2).unwrap();
    call(&mut direct, &format!("DEL {bucket}"));
    call(&mut direct, &format!("LPUSH {bucket} x"));
    let wrong = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    for texts in [
        ["GET user:1", "GET user:2", "GET user:3", "GET user:101"],
        ["SET user:1 a", "SET user:2 b", "SET user:3 c", "SET user:101 d"],
    ] {
        for answers in answers(&stage, &texts) {
            let (wrongs, other) = answers.split_at(3);
            assert!(wrongs.iter().all(|answer| answer == wrong), "{answers:?}");
            assert!(other.iter().all(|answer| !answer.starts_with('-')), "{answers:?}");
        }
    }
    call(&mut direct, "CONFIG SET maxmemory 1");
    call(&mut direct, &format!("DEL {bucket}"));
    for answers in answers(&stage, &["SET user:1 a", "SET user:2 b", "GET user:1", "GET user:2", "PING"]) {
        assert!(answers[..2].iter().all(|answer| answer.starts_with("-OOM ")), "{answers:?}");
        assert!(
            answers[2..4].iter().all(|answer| !answer.starts_with('-')) && answers[4] == "+PONG\r\n",
            "{answers:?}"
        );
    }
}

/// What was joined on a connection that is lost is nothing to the next one: not how many share a reply, and not the bytes.
#[test]
fn a_lost_connection_leaves_nothing_behind() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.threads = Some(1.try_into().unwrap());
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    let proxy = serve(&server, config);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    let pipelines = |round: usize| {
        let set: Vec<String> = (0..7 + round).map(|id| format!("SET user:{id} {round}-{id}")).collect();
        let get: Vec<String> = (0..5 + round).map(|id| format!("GET user:{id}")).collect();
        [set, get].map(|texts| commands(&texts.iter().map(String::as_str).collect::<Vec<_>>()))
    };
    for round in 0..4 {
        let [set, get] = pipelines(round);
        client.send_bytes(&set).unwrap();
        assert!((0..7 + round).all(|_| client.reply().unwrap() == b"+OK\r\n"));
        let line = relay.line_that_said("HSET").unwrap();
        line.freeze();
        // What fills the socket stays with the proxy: half of it is never sent.
        for _ in 0..2000 {
            client.send_bytes(&get).unwrap();
        }
        eventually("the reads are on their way", || line.has_said("HMGET"));
        line.cut();
        for _ in 0..2000 * (5 + round) {
            let answer = client.reply().unwrap();
            assert!(answer.starts_with(b"-") || answer.starts_with(b"$"), "{}", answer.escape_ascii());
        }
        eventually("there is another connection", || call(&mut client, "GET user:1") == format!("$3\r\n{round}-1\r\n"));
        for _ in 0..3 {
            client.send_bytes(&get).unwrap();
            for id in 0..5 + round {
                assert_eq!(client.reply().unwrap(), format!("$3\r\n{round}-{id}\r\n").into_bytes());
            }
        }
    }
}

/// A request on keys that share few buckets, mostly neighbours of each other.
fn draw(random: &mut Random, first: usize, nth: usize) -> Vec<Vec<u8>> {
    let id = if random.chance(70) { first + nth % 40 } else { random.index(300) };
    let key = |id: usize| format!("user:{id}");
    let long = "long".repeat(100);
    let value = ["12", "three", "\u{1}x", &long][random.index(4)];
    let text = match random.index(24) {
        0..8 => format!("GET {}", key(id)),
        8..14 => format!("SET {} {value}", key(id)),
        14 => format!("SET {} {value} EX 1000", key(id)),
        15 => format!("MGET {} {} {} {}", key(id), key(first + 1), key(first), key(id)),
        16 => format!("MGET {} {} other", key(id), key(first + 150)),
        17 => format!("EXISTS {} {} {}", key(id), key(first + 101), key(id)),
        18 => format!("STRLEN {}", key(id)),
        19 => format!("INCR {}", key(id)),
        20 => format!("DEL {}", key(id)),
        21 => format!("APPEND {} +", key(id)),
        22 => format!("SETNX {} {value}", key(id)),
        _ => format!("PERSIST {}", key(id)),
    };
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The replies to requests that are sent at once.
fn replies(client: &mut Wire, requests: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for request in requests {
        write_command(&mut bytes, &request.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    client.send_bytes(&bytes).unwrap();
    requests.iter().map(|_| client.reply().unwrap()).collect()
}

#[test]
fn random_pipelines_get_what_a_plain_server_answers() {
    let (stage, plain) = (
        stage_with(|config| {
            let layout = format!("{LAYOUT}value_limit = 100\n");
            config.layout = Layout::parse_file(&layout).unwrap().into();
        }),
        start_server(&[]),
    );
    let mut random = Random::new(5);
    let (mut folded, mut direct) = (stage.connect(), plain.connect().unwrap());
    for _ in 0..400 {
        let (first, count) = (random.index(150), 1 + random.index(120));
        let requests: Vec<_> = (0..count).map(|nth| draw(&mut random, first, nth)).collect();
        let (found, expected) = (replies(&mut folded, &requests), replies(&mut direct, &requests));
        for ((request, found), expected) in requests.iter().zip(found).zip(expected) {
            let request = request.join(&b' ');
            assert_eq!(
                found.escape_ascii().to_string(),
                expected.escape_ascii().to_string(),
                "{}",
                request.escape_ascii()
            );
        }
    }
}
