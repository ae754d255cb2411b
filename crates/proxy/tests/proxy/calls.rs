//! Writes that look at the old value go to the server as calls of one script, several in one where they follow each other on one
//! bucket, and nobody can tell.

use keyfold_core::layout::Layout;
use keyfold_core::resp::write_command;
use keyfold_testkit::Wire;
use keyfold_testkit::random::Random;

use crate::relay::Relay;
use crate::stage::{Stage, address, call, commands, config_behind, eventually, serve, stage_with, start_server};

/// Values that are longer than this lie elsewhere.
const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 100 }\nvalue_limit = 100\n";

/// Keyfold with one worker, so that its clients share a connection.
fn stage() -> Stage {
    stage_with(|config| {
        config.layout = Layout::parse_file(LAYOUT).unwrap().into();
        config.threads = Some(1.try_into().unwrap());
        config.sweep.fields_per_second = 0;
    })
}

/// How often the server was asked to run the script.
fn calls(stage: &Stage) -> usize {
    let stats = call(&mut stage.server.connect().unwrap(), "INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

fn send(client: &mut Wire, requests: &[Vec<Vec<u8>>]) {
    let mut bytes = Vec::new();
    for request in requests {
        write_command(&mut bytes, &request.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    client.send_bytes(&bytes).unwrap();
}

fn replies(client: &mut Wire, requests: &[Vec<Vec<u8>>]) -> Vec<String> {
    requests.iter().map(|_| client.reply().unwrap().escape_ascii().to_string()).collect()
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_counter_and_its_expiry_are_written_in_one_call() {
    let stage = stage();
    let mut client = stage.connect();
    for text in ["SET user:1 0 EX 1000", "INCR user:1"] {
        call(&mut client, text);
    }
    let before = calls(&stage);
    let texts = ["INCR user:1", "EXPIRE user:1 1000", "SET user:1 7 XX KEEPTTL", "SET user:2 x NX EX 9"].repeat(40);
    client.send_bytes(&commands(&texts)).unwrap();
    for round in 0..40 {
        let answers: Vec<Vec<u8>> = (0..4).map(|_| client.reply().unwrap()).collect();
        let sum: &[u8] = if round == 0 { b":2\r\n" } else { b":8\r\n" };
        let set: &[u8] = if round == 0 { b"+OK\r\n" } else { b"$-1\r\n" };
        assert_eq!(answers, [sum, b":1\r\n", b"+OK\r\n", set]);
    }
    let calls = calls(&stage) - before;
    assert!((10..40).contains(&calls), "{calls} calls of at most 16 requests for 160");
    assert_eq!(call(&mut client, "TTL user:1").len(), ":1000\r\n".len());
}

#[test]
fn clients_that_share_a_connection_share_calls() {
    let stage = stage();
    let mut clients: Vec<Wire> = (0..30).map(|_| stage.connect()).collect();
    for text in ["SET user:1 0 EX 1000", "INCR user:1"] {
        call(&mut clients[0], text);
    }
    let before = calls(&stage);
    let mut sums = Vec::new();
    for _ in 0..40 {
        clients.iter_mut().for_each(|client| client.send_bytes(&commands(&["INCR user:1"])).unwrap());
        sums.extend(clients.iter_mut().map(|client| String::from_utf8(client.reply().unwrap()).unwrap()));
    }
    sums.sort_by_key(|sum| (sum.len(), sum.clone()));
    assert!(sums.iter().enumerate().all(|(nth, sum)| *sum == format!(":{}\r\n", nth + 2)), "each counts once");
    let calls = calls(&stage) - before;
    assert!(calls < 1100, "{calls} calls for 1200 requests");
}

/// A request on one of a few keys, by a script mostly.
fn draw(random: &mut Random, keys: &[usize]) -> Vec<Vec<u8>> {
    let key = format!("user:{}", keys[random.index(keys.len())]);
    let long = "long".repeat(50);
    let nearly = "n".repeat(96);
    let values = ["12", "three", "", "\u{1}x", "-0", "9007199254740990", "9007199254740993", &nearly, &long];
    let value = values[random.index(values.len())];
    let rest = match random.index(36) {
        0..5 => "INCR {}",
        5 => "DECRBY {} 7",
        6 => "INCRBY {} 9007199254740991",
        7 => "INCRBY {} x",
        8 => "EXPIRE {} 1000",
        9 => "EXPIREAT {} 2500000000 GT",
        10 => "EXPIREAT {} 2400000000 LT",
        11 => "PEXPIREAT {} 2450000000000 NX",
        12 => "PERSIST {}",
        13 => "EXPIRE {} -1",
        14 => "GETEX {} EX 3000",
        15 => "GETEX {} PERSIST",
        16 => "GETDEL {}",
        17 => "SETNX {} =",
        18 => "SET {} = NX EX 500",
        19 => "SET {} = XX",
        20 => "SET {} = GET",
        21 => "SET {} = XX GET KEEPTTL",
        22 => "SET {} =",
        23 => "SETEX {} 900 =",
        24 => "GETSET {} =",
        25 => "APPEND {} =",
        26 => "SETRANGE {} 3 =",
        27 => "SETRANGE {} 99 =",
        28 => "SETBIT {} 70 1",
        29 => "SETBIT {} 7999 0",
        30 => "BITFIELD {} INCRBY u8 8 200 OVERFLOW FAIL INCRBY u4 0 9",
        31 => "INCRBYFLOAT {} 0.5",
        32 => "DEL {}",
        33 => "GET {}",
        34 => "STRLEN {}",
        _ => "GETRANGE {} 0 3",
    };
    rest.split(' ').map(|word| word.replace("{}", &key).replace('=', value).into_bytes()).collect()
}

#[test]
fn random_pipelines_on_few_keys_get_what_a_plain_server_answers() {
    let (stage, plain) = (stage(), start_server(&[]));
    let mut random = Random::new(11);
    for protocol in ["HELLO 2", "HELLO 3"] {
        // Those of several clients lie in one bucket, and nobody else's answer depends on them.
        let mut clients = [[1, 2], [3, 4], [5, 101]].map(|keys| (stage.connect(), plain.connect().unwrap(), keys));
        for (folded, direct, _) in &mut clients {
            call(folded, protocol);
            call(direct, protocol);
        }
        for round in 0..150 {
            if round % 20 == 0 {
                call(&mut stage.server.connect().unwrap(), "SCRIPT FLUSH");
            }
            let requests = clients.each_ref().map(|(.., keys)| {
                let count = 1 + random.index(60);
                (0..count).map(|_| draw(&mut random, keys)).collect::<Vec<_>>()
            });
            for ((folded, direct, _), requests) in clients.iter_mut().zip(&requests) {
                send(folded, requests);
                send(direct, requests);
            }
            for ((folded, direct, _), requests) in clients.iter_mut().zip(&requests) {
                let (found, expected) = (replies(folded, requests), replies(direct, requests));
                for (nth, request) in requests.iter().enumerate() {
                    let text = request.join(&b' ').escape_ascii().to_string();
                    assert_eq!(found[nth], expected[nth], "round {round}, {nth}: {text}");
                }
            }
        }
    }
}

/// What a full server refuses, and what it doesn't, is the same however many are in a call.
#[test]
fn a_full_server_refuses_what_it_refuses_alone() {
    let texts = [
        "INCR user:1",
        "GETDEL user:2",
        "SETNX user:3 x",
        "SET user:3 x XX",
        "INCR user:1",
        "GETDEL user:3",
        "SETNX user:3 x",
        "APPEND user:3 x",
        // Some servers refuse these in a MULTI, and they are sent once more.
        "DEL user:4",
        "GET user:4",
        "DEL user:5",
        "GETDEL user:5",
        "MGET user:1 user:6",
        "GETDEL user:6",
        "GETDEL user:1",
    ];
    let [together, alone] = [true, false].map(|together| {
        let stage = stage();
        let mut client = stage.connect();
        for text in ["SET user:1 5 EX 900", "SET user:2 two", "SET user:3 three", "INCR user:1"] {
            call(&mut client, text);
        }
        (4..7).for_each(|id| assert_eq!(call(&mut client, &format!("SET user:{id} {id}")), "+OK\r\n"));
        call(&mut stage.server.connect().unwrap(), "CONFIG SET maxmemory 1");
        if !together {
            return texts.map(|text| call(&mut client, text).escape_default().to_string()).to_vec();
        }
        let requests = texts.map(words);
        send(&mut client, &requests);
        replies(&mut client, &requests)
    });
    assert_eq!(together, alone);
}

/// What waits for another request of its call is answered when the connection is lost, once.
#[test]
fn a_lost_connection_answers_everybody() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.threads = Some(1.try_into().unwrap());
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    let proxy = serve(&server, config);
    let mut client = Wire::connect(address(&proxy)).unwrap();
    for round in 0..4 {
        assert!(call(&mut client, "SET user:1 7 EX 1000").starts_with("+OK"));
        let line = relay.line_that_said("HSET").unwrap();
        line.freeze();
        let texts = ["EXPIRE user:1 100", "APPEND user:1 x", "INCR user:2"].repeat(5);
        client.send_bytes(&commands(&texts)).unwrap();
        eventually("the call is on its way", || line.has_said("APPEND") || line.has_said("SPLICE"));
        line.cut();
        for text in &texts {
            let answer = client.reply().unwrap();
            assert!(answer.starts_with(b"-") || answer.starts_with(b":"), "{round} {text}: {}", answer.escape_ascii());
        }
        eventually("there is another connection", || call(&mut client, "SET user:1 7 EX 1000").starts_with("+OK"));
        assert_eq!(call(&mut client, "GET user:1"), "$1\r\n7\r\n");
    }
}
