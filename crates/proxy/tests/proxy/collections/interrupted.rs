//! A write reads a collection, and writes it anew. What if the connection is lost between the two, or behind the second?

use keyfold_proxy::config::Timeouts;
use keyfold_proxy::{Handle, start};
use keyfold_testkit::{Server, Wire};

use super::LAYOUT;
use crate::relay::{Ending, Relay};
use crate::stage::{address, call, commands, config_behind, eventually, start_server};
use keyfold_core::layout::Layout;

fn relayed() -> (Server, Relay, Handle) {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.layout = Layout::parse_file(LAYOUT).unwrap().into();
    config.timeouts = Timeouts::default();
    // With one connection for all it is known which one is lost.
    config.threads = Some(1.try_into().unwrap());
    server.put_in_force(&config.layout).unwrap();
    (server, relay, start(config).unwrap())
}

/// Asks until keyfold has a connection again.
fn ask(proxy: &Handle, text: &str) -> String {
    let mut said = String::new();
    eventually("it is answered", || {
        said = call(&mut Wire::connect(address(proxy)).unwrap(), text);
        !said.starts_with("-ERR keyfold: ")
    });
    said
}

/// Writes, each with the keys that it reads: what is to be read of them before, and after.
const WRITES: [(&str, &str, &str, &str); 4] = [
    ("SADD tags:1 b", "SCARD tags:1", ":1\r\n", ":2\r\n"),
    ("HSET sess:1 f 2 g 3", "HMGET sess:1 f g", "*2\r\n$1\r\n1\r\n$-1\r\n", "*2\r\n$1\r\n2\r\n$1\r\n3\r\n"),
    ("HDEL sess:1 f", "EXISTS sess:1", ":1\r\n", ":0\r\n"),
    ("SMOVE tags:1 plain a", "EXISTS tags:1 plain plain", ":1\r\n", ":2\r\n"),
];

#[test]
fn what_was_cut_between_read_and_write_is_as_before_or_whole() {
    let (_server, relay, proxy) = relayed();
    // The script is there, so that one call of it says all.
    ask(&proxy, "SADD tags:9 x");
    for (write, read, before, after) in WRITES {
        for ending in [Ending::Unheard, Ending::Unanswered] {
            ask(&proxy, "DEL tags:1 sess:1 sess:2 plain");
            ask(&proxy, "SADD tags:1 a");
            ask(&proxy, "HSET sess:1 f 1");
            let mut client = Wire::connect(address(&proxy)).unwrap();
            relay.end_at("EVALSHA", ending);
            let said = call(&mut client, write);
            assert!(relay.has_ended(), "{write} is one read and one write: {said}");
            assert!(said.starts_with("-ERR keyfold: ") && said.contains("may or may not"), "{write}: {said}");
            if ending == Ending::Unheard {
                assert_eq!(ask(&proxy, read), before, "{write}");
            } else {
                // The server may carry it out a moment later.
                eventually("it is done", || ask(&proxy, read) == after);
            }
        }
    }
}

#[test]
fn what_froze_between_read_and_write_is_given_up_and_nobody_waits_for_it() {
    let (_server, relay, proxy) = relayed();
    ask(&proxy, "SADD tags:1 a");
    ask(&proxy, "HSET sess:1 f 1");
    let [mut one, mut other] = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
    relay.end_at("EVALSHA", Ending::Frozen);
    one.send_bytes(&commands(&["SADD tags:1 b", "SCARD tags:1"])).unwrap();
    let said = String::from_utf8(one.reply().unwrap()).unwrap();
    assert!(said.contains("may or may not have been carried out"), "{said}");
    one.reply().unwrap();
    assert_eq!(ask(&proxy, "SADD tags:1 c"), ":1\r\n");
    assert_eq!(ask(&proxy, "SMEMBERS tags:1"), "*2\r\n$1\r\na\r\n$1\r\nc\r\n");
    eventually("others go on", || call(&mut other, "HINCRBY sess:1 f 0") == ":1\r\n");
}

#[test]
fn clients_that_go_halfway_leave_whole_members_and_no_transaction() {
    let (_server, _relay, proxy) = relayed();
    let requests: Vec<String> = (0..200).map(|at| format!("SADD tags:1 {at}")).collect();
    let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
    for cut in [1, 40, 1000] {
        let mut client = Wire::connect(address(&proxy)).unwrap();
        let bytes = commands(&requests);
        client.send_bytes(&bytes[..bytes.len() - cut]).unwrap();
        drop(client);
        let mut client = Wire::connect(address(&proxy)).unwrap();
        client.send_bytes(&commands(&["MULTI", "SADD tags:1 never", "HSET sess:1 never x"])).unwrap();
        drop(client);
    }
    let mut client = Wire::connect(address(&proxy)).unwrap();
    eventually("nothing is under way any more", || {
        let before = call(&mut client, "SMEMBERS tags:1");
        std::thread::sleep(std::time::Duration::from_millis(50));
        before == call(&mut client, "SMEMBERS tags:1")
    });
    let said = call(&mut client, "SMEMBERS tags:1");
    let mut members: Vec<usize> = said.split("\r\n").skip(2).step_by(2).map(|text| text.parse().unwrap()).collect();
    members.sort_unstable();
    // Each client's requests are carried out in their order, and none that didn't come whole.
    assert_eq!(members, (0..members.len()).collect::<Vec<_>>());
    assert!(members.len() < 200, "{}", members.len());
    assert_eq!(call(&mut client, &format!("SADD tags:1 {} never", members.len())), ":2\r\n");
    assert_eq!(call(&mut client, "EXISTS sess:1"), ":0\r\n");
}
