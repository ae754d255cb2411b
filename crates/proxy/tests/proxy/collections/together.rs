//! Requests on one large set or hash that a client sends at once go to the server in a few calls, and are answered one by one in
//! their order as by a plain server, a full one too.

use keyfold_core::resp::write_command;
use keyfold_testkit::compare::{Compare, Queue};
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Wire, found};

use super::LAYOUT;
use crate::stage::{address, call, proxy_before};

type Request = Vec<Vec<u8>>;

fn request(text: &str) -> Request {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// The answers to what is sent at once.
fn at_once(wire: &mut Wire, requests: &[Request]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for request in requests {
        write_command(&mut bytes, &request.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    wire.send_bytes(&bytes).unwrap();
    requests.iter().map(|_| wire.reply().unwrap()).collect()
}

fn add_many(key: &str, from: u64) -> Request {
    let words = (from..from + 1500).map(|number| match key.starts_with("sess") {
        true => format!("f{number} {number}"),
        false => number.to_string(),
    });
    let command = if key.starts_with("sess") { "HSET" } else { "SADD" };
    request(&format!("{command} {key} {}", words.collect::<Vec<_>>().join(" ")))
}

fn random_request(random: &mut Random) -> Request {
    let number = random.below(2000);
    let text = ["short", "a-text-that-is-longer-than-parts-of-texts-take-it-is-more-than-sixty-four-bytes"];
    let (text, field) = (text[usize::from(random.below(4) == 0)], format!("f{number}"));
    request(&match random.below(60) {
        0..8 => format!("SADD tags:1 {number}"),
        8..11 => format!("SADD tags:1 {text}{number} {number} x"),
        11..19 => format!("SISMEMBER tags:1 {number}"),
        19..21 => format!("SMISMEMBER tags:1 {number} {text}{number} 7"),
        21..28 => format!("SREM tags:1 {number} {text}{number}"),
        28..30 => "SCARD tags:1".to_owned(),
        30..35 => format!("HSET sess:1 {field} {text}"),
        35..40 => format!("HGET sess:1 {field}"),
        40..43 => format!("HDEL sess:1 {field} f1"),
        43..46 => format!("HINCRBY sess:1 {field} 3"),
        46 => format!("HINCRBYFLOAT sess:1 {field} 0.5"),
        47 => format!("HSETNX sess:1 {field} {text}"),
        48 => format!("HMGET sess:1 {field} f2 none"),
        49 => format!("HSTRLEN sess:1 {field}"),
        50 => format!("HEXISTS sess:1 {field}"),
        51 => "HLEN sess:1".to_owned(),
        52 => format!("HMSET sess:1 {field} 9 f3 {number}"),
        53 => "SMEMBERS tags:1".to_owned(),
        54 => "HGETALL sess:1".to_owned(),
        55 => format!("SISMEMBER tags:2 {number}"),
        56 => format!("SMOVE tags:1 tags:2 {number}"),
        57 => "GET tags:1".to_owned(),
        58 => ["DEL tags:1", "DEL sess:1", "RENAME tags:1 tags:9", "EXPIRE sess:1 900"]
            [usize::try_from(number).unwrap() % 4]
            .to_owned(),
        _ => return add_many(["tags:1", "sess:1"][usize::try_from(number).unwrap() % 2], number),
    })
}

fn calls_of_scripts(server: &Server) -> u64 {
    let stats = call(&mut server.connect().unwrap(), "INFO commandstats");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
    line.map_or(0, |calls| calls.parse().unwrap())
}

#[test]
fn they_are_answered_as_if_each_had_waited() {
    for (seed, binary) in (1..).zip(found()) {
        let (plain, server) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
        let proxy = proxy_before(&server, LAYOUT);
        let mut random = Random::new(seed);
        let (mut beside, mut direct) = (plain.connect().unwrap(), server.connect().unwrap());
        let (mut expects, mut client) = (plain.connect().unwrap(), Wire::connect(address(&proxy)).unwrap());
        let mut queue = Queue::default();
        for round in 0..60 {
            let is_full = round % 4 == 3;
            if round == 0 || is_full {
                let many = [add_many("tags:1", 0), add_many("sess:1", 0)];
                assert_eq!(at_once(&mut expects, &many), at_once(&mut client, &many));
            }
            for wire in [&mut beside, &mut direct] {
                call(wire, &format!("CONFIG SET maxmemory {}", u8::from(is_full)));
            }
            let mut requests: Vec<Request> = (0..100).map(|_| random_request(&mut random)).collect();
            // Where keyfold needs room and a plain server none, or the other way round: HSETNX writes nothing where there is a field.
            let differs =
                |request: &Request| matches!(request[0].as_slice(), b"RENAME" | b"SMOVE" | b"EXPIRE" | b"HSETNX");
            requests.retain(|request| !is_full || !differs(request));
            let (expected, found) = (at_once(&mut expects, &requests), at_once(&mut client, &requests));
            for (at, request) in requests.iter().enumerate() {
                let agree = queue.agree(request, Compare::of(request), &expected[at], &found[at], 500);
                let [expected, found] =
                    [&expected[at], &found[at]].map(|answer| answer[..answer.len().min(80)].escape_ascii());
                let words = request.iter().take(4).map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>();
                assert!(
                    agree,
                    "{}, round {round}, {at}: {}: {found} instead of {expected}",
                    server.name(),
                    words.join(" ")
                );
            }
        }
    }
}

#[test]
fn one_call_carries_many_of_them_out() {
    for binary in found() {
        let server = binary.start(&[]).unwrap();
        let proxy = proxy_before(&server, LAYOUT);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        at_once(&mut client, &[add_many("tags:1", 0)]);
        at_once(&mut client, &[request("SISMEMBER tags:1 1")]);
        let before = calls_of_scripts(&server);
        let requests: Vec<Request> =
            (0..320).map(|number| request(&format!("{} tags:1 {number}", ["SADD", "SISMEMBER"][number % 2]))).collect();
        at_once(&mut client, &requests);
        let calls = calls_of_scripts(&server) - before;
        assert!(calls < 100, "{}: {calls} calls for 320 requests", server.name());
    }
}
