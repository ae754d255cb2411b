//! Large requests and answers hold up their own client alone, and are held by nobody in between.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use keyfold_proxy::start;
use keyfold_testkit::Wire;

use crate::relay::Relay;
use crate::stage::{address, call, commands, config_for, stage, start_server};

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
    let mut config = config_for(&server);
    config.upstream = relay.url().parse().unwrap();
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

#[test]
fn a_client_whose_answer_is_cut_off_is_closed() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_for(&server);
    config.upstream = relay.url().parse().unwrap();
    let proxy = start(config).unwrap();
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

/// What is done once a key must not be done once a pair of keys: this would take minutes.
#[test]
fn a_hundred_thousand_folded_keys_in_one_command() {
    const KEYS: usize = 100_000;
    let stage = stage();
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
    let stage = stage();
    let mut wire = stage.connect();
    wire.set_timeout(Duration::from_secs(60)).unwrap();
    let mut all = |command: &dyn Fn(usize) -> String| -> String {
        let queue: Vec<String> = (0..KEYS).map(command).collect();
        let lines: Vec<&str> = ["MULTI"].into_iter().chain(queue.iter().map(String::as_str)).chain(["EXEC"]).collect();
        wire.send_bytes(&commands(&lines)).unwrap();
        assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
        (0..KEYS).for_each(|_| assert_eq!(wire.reply().unwrap(), b"+QUEUED\r\n"));
        String::from_utf8(wire.reply().unwrap()).unwrap()
    };
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
