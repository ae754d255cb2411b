//! Large requests and answers hold up their own client alone, and are held by nobody in between.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use keyfold_core::layout::Layout;
use keyfold_proxy::start;
use keyfold_testkit::Wire;

use crate::relay::Relay;
use crate::stage::{Stage, address, call, commands, config_behind, stage, stage_with, start_server};

const MEGABYTE: usize = 1 << 20;

#[test]
fn large_answers_come_whole_and_in_their_order() {
    let stage = stage();
    let mut direct = stage.server.connect().unwrap();
    direct.call(&[b"SET", b"big", &b"\r\n$3\r\nx".repeat(MEGABYTE / 8)]).unwrap();
    for n in 0..3 {
        direct.call(&[b"RPUSH", b"list", &vec![b'a' + n; MEGABYTE], b"", b"short"]).unwrap();
        direct.call(&[b"HSET", b"hash", &[b'a' + n], &vec![b'x'; 100_000]]).unwrap();
    }
    let requests = ["GET big", "LRANGE list 0 -1", "GET none", "HGETALL hash", "HELLO 3", "HGETALL hash", "GET big"];
    let mut wire = stage.connect();
    let id = call(&mut wire, "CLIENT ID");
    for _ in 0..3 {
        for request in requests {
            wire.send_bytes(&commands(&[request, "CLIENT ID", "ECHO between"])).unwrap();
        }
        for request in requests {
            let expected = direct.call(&request.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap();
            let answer = wire.reply().unwrap();
            assert!(answer == expected || request.starts_with("HELLO"), "{request}: {} bytes", answer.len());
            assert_eq!(wire.reply().unwrap(), id.as_bytes());
            assert_eq!(wire.reply().unwrap(), b"$7\r\nbetween\r\n");
        }
    }
}

#[test]
fn an_answer_that_waits_behind_a_large_one_does_not_hold_it_up() {
    let stage = stage();
    let (value, name) = (vec![b'x'; 20 * MEGABYTE], vec![b'n'; 2 * MEGABYTE]);
    stage.server.connect().unwrap().call(&[b"SET", b"large", &value]).unwrap();
    let mut wire = stage.connect();
    assert_eq!(wire.call(&[b"CLIENT", b"SETNAME", &name]).unwrap(), b"+OK\r\n");
    for _ in 0..2 {
        wire.send_bytes(&commands(&["GET large", "CLIENT GETNAME"])).unwrap();
        assert!(wire.reply().unwrap().ends_with(b"xx\r\n"));
        assert!(wire.reply().unwrap().ends_with(b"nn\r\n"));
    }
}

#[test]
fn large_requests_and_answers_travel_by_themselves() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.threads = Some(1.try_into().unwrap());
    let proxy = start(config).unwrap();
    let [mut small, mut writer, mut reader] = [(); 3].map(|()| Wire::connect(address(&proxy)).unwrap());
    call(&mut small, "GET shared");
    let shared = relay.line_that_said("shared").unwrap();
    let travels_apart = |words: &str| !Arc::ptr_eq(&relay.line_that_said(words).unwrap(), &shared);

    let value = "x".repeat(20 * MEGABYTE);
    assert_eq!(call(&mut writer, "SET written:small x"), "+OK\r\n");
    assert_eq!(call(&mut writer, &format!("SET written:large {value}")), "+OK\r\n");
    assert!(!travels_apart("written:small") && travels_apart("written:large"));
    assert_eq!(call(&mut writer, "GET written:small"), "$1\r\nx\r\n");

    // What a command brings isn't known before; after a large answer the next ones are taken for large.
    assert_eq!(call(&mut reader, "STRLEN read:first"), ":0\r\n");
    call(&mut reader, "GET written:large");
    assert_eq!(call(&mut reader, "STRLEN read:next"), ":0\r\n");
    assert!(!travels_apart("read:first") && travels_apart("read:next"));
}

/// A connection of its own speaks one protocol: another takes its place, which leaves no answer behind.
#[test]
fn large_answers_come_whole_where_the_protocol_changes_between_them() {
    let stage = stage();
    let value = vec![b'x'; 3 * MEGABYTE];
    stage.server.connect().unwrap().call(&[b"SET", b"large", &value]).unwrap();
    let mut client = stage.connect();
    client.call(&[b"GET", b"large"]).unwrap();
    for _ in 0..5 {
        client.send_bytes(&commands(&["GET large", "HELLO 3", "GET large", "RESET", "GET large", "HELLO 2"])).unwrap();
        for is_large in [true, false, true, false, true, false] {
            let reply = client.reply().unwrap();
            assert_eq!(reply.len() > value.len(), is_large, "{}", reply[..reply.len().min(60)].escape_ascii());
        }
    }
}

#[test]
fn a_client_whose_answer_is_cut_off_is_closed() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let proxy = start(config_behind(&relay, &server)).unwrap();
    let value = vec![b'x'; 40 * MEGABYTE];
    server.connect().unwrap().call(&[b"SET", b"large", &value]).unwrap();
    let mut client = TcpStream::connect(address(&proxy)).unwrap();
    // After the first the client has a connection to itself, which brings no more than the client takes.
    client.write_all(&commands(&["GET large"])).unwrap();
    client.read_exact(&mut vec![0; format!("${}\r\n\r\n", value.len()).len() + value.len()]).unwrap();
    client.write_all(&commands(&["GET large"])).unwrap();
    client.read_exact(&mut [0; 100_000]).unwrap();
    relay.line_that_said("large").unwrap().cut();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < value.len() - 100_000 && rest.iter().all(|byte| *byte == b'x'), "{} bytes", rest.len());
}

/// Keys of `user:` in buckets of a hundred ids.
fn folded() -> Stage {
    let layout = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 100 }\n";
    stage_with(|config| config.layout = Arc::new(Layout::parse_file(layout).unwrap()))
}

/// What is done once a key must not be done once a pair of keys: this would take minutes.
#[test]
fn a_hundred_thousand_folded_keys_in_one_command() {
    const KEYS: usize = 100_000;
    let stage = folded();
    let mut wire = stage.connect();
    wire.set_timeout(Duration::from_secs(60)).unwrap();
    let names: Vec<String> = (0..KEYS).map(|id| format!("user:{id}")).collect();
    let pairs = names.iter().flat_map(|name| [name.as_bytes(), b"1"]);
    let msetnx: Vec<&[u8]> = [&b"MSETNX"[..]].into_iter().chain(pairs).collect();
    assert_eq!(wire.call(&msetnx).unwrap(), b":1\r\n");
    assert_eq!(wire.call(&msetnx).unwrap(), b":0\r\n");
    let all = |command: &'static str| -> Vec<&[u8]> {
        [command.as_bytes()].into_iter().chain(names.iter().map(String::as_bytes)).collect()
    };
    let values = [format!("*{KEYS}\r\n").as_bytes(), &b"$1\r\n1\r\n".repeat(KEYS)].concat();
    assert_eq!(wire.call(&all("MGET")).unwrap(), values);
    assert_eq!(wire.call(&all("DEL")).unwrap(), format!(":{KEYS}\r\n").as_bytes());
    assert_eq!(wire.call(&all("EXISTS")).unwrap(), b":0\r\n");
}

#[test]
fn a_transaction_on_many_large_values() {
    const KEYS: usize = 2000;
    let stage = folded();
    let mut wire = stage.connect();
    wire.set_timeout(Duration::from_secs(60)).unwrap();
    let mut all = |command: &dyn Fn(usize) -> String| exec(&mut wire, &(0..KEYS).map(command).collect::<Vec<String>>());
    let answers = |answer: &str| format!("*{KEYS}\r\n{}", answer.repeat(KEYS));
    let value = "v".repeat(17_000);
    assert_eq!(all(&|id| format!("SET user:{id} {value}")), answers("+OK\r\n"));
    assert_eq!(all(&|id| format!("GETRANGE user:{id} 16999 -1")), answers("$1\r\nv\r\n"));
    assert_eq!(all(&|id| format!("SETRANGE user:{id} 16999 w")), answers(":17000\r\n"));
    assert_eq!(all(&|id| format!("GETRANGE user:{id} 16999 -1")), answers("$1\r\nw\r\n"));
    // Some grow, each beyond what is held here.
    let grow = |id: usize| {
        if id.is_multiple_of(100) { format!("SETRANGE user:{id} 300000 x") } else { format!("STRLEN user:{id}") }
    };
    let grown =
        (0..KEYS).map(|id| if id.is_multiple_of(100) { ":300001\r\n" } else { ":17000\r\n" }).collect::<String>();
    assert_eq!(all(&grow), format!("*{KEYS}\r\n{grown}"));
    assert_eq!(all(&|id| format!("DEL user:{id}")), answers(":1\r\n"));
    assert_eq!(all(&|id| format!("SETRANGE user:{id} {} x", if id.is_multiple_of(50) { 300_000 } else { 3 })), {
        format!(
            "*{KEYS}\r\n{}",
            (0..KEYS).map(|id| if id.is_multiple_of(50) { ":300001\r\n" } else { ":4\r\n" }).collect::<String>()
        )
    });
}

/// The commands of a MULTI, one after the other, and EXEC; with EXEC's answer.
fn exec(wire: &mut Wire, queue: &[String]) -> String {
    let lines: Vec<&str> = ["MULTI"].into_iter().chain(queue.iter().map(String::as_str)).chain(["EXEC"]).collect();
    wire.send_bytes(&commands(&lines)).unwrap();
    assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
    queue.iter().for_each(|command| assert_eq!(wire.reply().unwrap(), b"+QUEUED\r\n", "{command}"));
    String::from_utf8(wire.reply().unwrap()).unwrap()
}

/// A server goes through all watched keys for each one more: 20,000 would stop it for two seconds.
#[test]
fn a_transaction_on_more_keys_than_a_server_can_watch() {
    let stage = folded();
    let (server, mut wire) = (start_server(&[]), stage.connect());
    let mut plain = server.connect().unwrap();
    [&mut plain, &mut wire].iter_mut().for_each(|wire| {
        wire.set_timeout(Duration::from_secs(60)).unwrap();
        call(wire, "RPUSH list a b");
    });
    let write = |n: usize| match n % 10 {
        0..6 => format!("SET user:{} {n}", n * 100),
        6 => format!("INCR user:{}", (n - 1) * 100),
        7 => format!("SET plain:{n} {n} EXAT 4000000000"),
        8 => format!("EXPIREAT {} 4000000000", ["none", "user:0", "plain:7"][n / 10 % 3]),
        _ => format!("GET {}", ["none", "user:100"][n / 10 % 2]),
    };
    let read = |n: usize| [format!("GET user:{}", n * 100), format!("EXPIRETIME plain:{n}")][n % 2].clone();
    for command in [&write as &dyn Fn(usize) -> String, &read] {
        let queue: Vec<String> = (0..20_000).map(command).collect();
        assert_eq!(exec(&mut wire, &queue), exec(&mut plain, &queue));
    }
    // Another type under a plain key is the server's to judge.
    let queue: Vec<String> = (0..1000)
        .map(|n| format!("SET user:{} other", n * 100))
        .chain(["EXPIREAT list 4000000000", "GET list", "EXPIRETIME list"].map(str::to_owned))
        .collect();
    assert_eq!(exec(&mut wire, &queue), exec(&mut plain, &queue));
    // With what only the server can do they would have to be watched.
    let mut queue: Vec<String> = (0..5000).map(|n| format!("SET user:{} again", n * 1000)).collect();
    assert!(exec(&mut wire, &queue).starts_with("*5000\r\n+OK\r\n"));
    queue.push("RPUSH list c".to_owned());
    let refused = exec(&mut wire, &queue);
    assert!(
        refused.starts_with("-EXECABORT keyfold: a transaction on folded keys in more than 4096 places"),
        "{refused}"
    );
    assert!(refused.contains("RPUSH too; split it"), "{refused}");
    assert_eq!(call(&mut wire, "LLEN list"), ":2\r\n");
    queue.drain(..4000);
    assert!(exec(&mut wire, &queue).ends_with(":3\r\n"));
}

#[test]
fn a_transaction_that_watches_nothing_comes_all_at_one_moment_all_the_same() {
    let stage = folded();
    let (mut wire, mut other) = (stage.connect(), stage.connect());
    call(&mut wire, "SET user:1 1");
    // A key that the client itself watches.
    assert_eq!(call(&mut wire, "WATCH user:1"), "+OK\r\n");
    call(&mut other, "SET user:1 2");
    assert_eq!(exec(&mut wire, &["SET user:1 3".to_owned(), "SET user:900 3".to_owned()]), "*-1\r\n");
    assert_eq!(call(&mut wire, "MGET user:1 user:900"), "*2\r\n$1\r\n2\r\n$-1\r\n");
    // Its neighbour in the bucket doesn't matter.
    assert_eq!(call(&mut wire, "WATCH user:1"), "+OK\r\n");
    call(&mut other, "SET user:2 2");
    assert_eq!(exec(&mut wire, &["INCR user:1".to_owned(), "GET user:2".to_owned()]), "*2\r\n:3\r\n$1\r\n2\r\n");
    // Nor does it where a value is so long that the server changes it where it lies.
    let long = "x".repeat(20_000);
    assert_eq!(call(&mut wire, &format!("SET user:10 {long}")), "+OK\r\n");
    assert_eq!(call(&mut wire, "WATCH user:1"), "+OK\r\n");
    call(&mut wire, "SET user:2 3");
    assert_eq!(exec(&mut wire, &["APPEND user:10 y".to_owned()]), "*1\r\n:20001\r\n");
    // Many who write to the same keys lose nothing, and see both alike.
    let address = address(&stage.proxy);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                let mut wire = Wire::connect(address).unwrap();
                let queue = ["INCR user:5", "INCR user:5000", "GET user:5", "GET user:5000"].map(str::to_owned);
                for _ in 0..200 {
                    let answer = exec(&mut wire, &queue);
                    let lines: Vec<&str> = answer.lines().collect();
                    assert_eq!(lines[1], lines[2], "{answer}");
                }
            });
        }
    });
    assert_eq!(call(&mut wire, "MGET user:5 user:5000"), "*2\r\n$3\r\n800\r\n$3\r\n800\r\n");
}
