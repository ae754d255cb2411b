//! Every accepted request is answered, also while the proxy stops.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use keyfold_proxy::start;
use keyfold_testkit::Wire;

use crate::stage::{Stage, address, call, commands, config_for, eventually, stage, start_server};

const CLIENTS: usize = 20;
const DEPTH: usize = 50;

/// Counts a key of its own up until the proxy closes; how many answers came.
fn count_up(mut wire: Wire, client: usize, answered: &AtomicUsize) -> usize {
    let request = commands(&[&format!("INCR count:{client}")]).repeat(DEPTH);
    let mut count = 0;
    while wire.send_bytes(&request).is_ok() {
        for _ in 0..DEPTH {
            let Ok(reply) = wire.reply() else { return count };
            count += 1;
            assert_eq!(reply, format!(":{count}\r\n").as_bytes());
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }
    count
}

#[test]
fn what_was_done_was_answered() {
    let Stage { proxy, server } = stage();
    let answered = AtomicUsize::new(0);
    let counts = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (wire, answered) = (Wire::connect(address(&proxy)).unwrap(), &answered);
                scope.spawn(move || count_up(wire, client, answered))
            })
            .collect();
        eventually("the load runs", || answered.load(Ordering::Relaxed) > CLIENTS * DEPTH * 5);
        proxy.stop();
        proxy.join().unwrap();
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let mut direct = server.connect().unwrap();
    for (client, count) in counts.into_iter().enumerate() {
        let text = count.to_string();
        // A client that had no turn before the end has no key.
        let held = if count == 0 { "$-1\r\n".to_owned() } else { format!("${}\r\n{text}\r\n", text.len()) };
        assert_eq!(call(&mut direct, &format!("GET count:{client}")), held);
    }
}

#[test]
fn a_blocked_client_does_not_hold_up_the_end() {
    let Stage { proxy, server } = stage();
    let mut blocked = Wire::connect(address(&proxy)).unwrap();
    blocked.send_bytes(&commands(&["BLPOP list 0"])).unwrap();
    eventually("it is blocked", || call(&mut server.connect().unwrap(), "INFO clients").contains("blocked_clients:1"));
    proxy.stop();
    proxy.join().unwrap();
    assert!(blocked.reply().unwrap().starts_with(b"-ERR keyfold: the connection to the server"));
    assert!(blocked.is_closed().unwrap());
}

#[test]
fn without_a_limit_requests_are_waited_for() {
    let server = start_server(&[]);
    let mut config = config_for(&server);
    config.timeouts.shutdown = Duration::ZERO;
    let proxy = start(config).unwrap();
    let mut client = Wire::connect(address(&proxy)).unwrap();
    assert_eq!(call(&mut client, "SET a 1"), "+OK\r\n");
    assert_eq!(call(&mut server.connect().unwrap(), "CLIENT PAUSE 500 ALL"), "+OK\r\n");
    let before = proxy.totals().requests;
    client.send_bytes(&commands(&["INCR a"])).unwrap();
    eventually("it is under way", || proxy.totals().requests > before);
    proxy.stop();
    assert_eq!(client.reply().unwrap(), b":2\r\n");
    proxy.join().unwrap();
}

#[test]
fn nobody_comes_in_any_more() {
    let Stage { proxy, server: _server } = stage();
    let mut idle = Wire::connect(address(&proxy)).unwrap();
    assert_eq!(call(&mut idle, "PING"), "+PONG\r\n");
    let address = address(&proxy);
    proxy.stop();
    assert!(idle.is_closed().unwrap());
    proxy.join().unwrap();
    assert!(Wire::connect(address).is_err());
}
