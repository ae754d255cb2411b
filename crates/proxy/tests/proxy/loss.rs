//! The server goes, and comes back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use keyfold_testkit::Wire;

use crate::stage::{Stage, address, call, commands, config_for, eventually, stage, start_server};

/// What one client has seen.
#[derive(Default)]
struct Seen {
    values: AtomicUsize,
    errors: AtomicUsize,
}

/// Sets and reads a key of its own, again and again; no answer may be another client's, or an older one's.
fn run_client(wire: &mut Wire, client: usize, seen: &Seen, over: &AtomicBool) {
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        round += 1;
        let value = format!("value-{client}-{round}");
        let request = [format!("SET key:{client} {value}"), format!("GET key:{client}"), format!("ECHO {value}")];
        wire.send_bytes(&commands(&request.each_ref().map(String::as_str))).unwrap();
        let bulk = format!("${}\r\n{value}\r\n", value.len());
        let answers = [(); 3].map(|()| String::from_utf8(wire.reply().unwrap()).unwrap());
        let set = answers[0] == "+OK\r\n";
        for (answer, right) in answers.iter().zip(["+OK\r\n", &bulk, &bulk]) {
            if answer == right {
                seen.values.fetch_add(1, Ordering::Relaxed);
            } else if answer.starts_with("-ERR keyfold: the ") {
                seen.errors.fetch_add(1, Ordering::Relaxed);
            } else {
                // A SET that failed, or whose server is gone since, leaves nothing or what was there before.
                assert!(answer == "$-1\r\n" || (!set && answer.contains(&format!("value-{client}-"))), "{answer}");
            }
        }
    }
}

#[test]
fn no_wrong_answer_while_the_server_dies_and_comes_back() {
    let Stage { proxy, server } = stage();
    let port = server.port().to_string();
    let over = AtomicBool::new(false);
    let seen: Vec<_> = (0..20).map(|_| Seen::default()).collect();
    thread::scope(|scope| {
        for (client, seen) in seen.iter().enumerate() {
            let (mut wire, over) = (Wire::connect(address(&proxy)).unwrap(), &over);
            scope.spawn(move || run_client(&mut wire, client, seen, over));
        }
        let all = |count: &dyn Fn(&Seen) -> usize, more: usize| seen.iter().all(|seen| count(seen) > more);
        let mut server = Some(server);
        for life in 1..=3 {
            eventually("every client gets values", || all(&|seen| seen.values.load(Ordering::Relaxed), life * 300));
            drop(server.take());
            let errors: Vec<_> = seen.iter().map(|seen| seen.errors.load(Ordering::Relaxed)).collect();
            eventually("every client is told", || {
                seen.iter().zip(&errors).all(|(seen, before)| seen.errors.load(Ordering::Relaxed) > *before)
            });
            server = Some(start_server(&["--port", &port]));
            let values: Vec<_> = seen.iter().map(|seen| seen.values.load(Ordering::Relaxed)).collect();
            eventually("every client gets values again", || {
                seen.iter().zip(&values).all(|(seen, before)| seen.values.load(Ordering::Relaxed) > *before + 30)
            });
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn the_error_says_what_is_wrong_and_what_comes_next() {
    let Stage { proxy, server } = stage();
    let url = server.url();
    drop(server);
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    let error = call(&mut wire, "GET a");
    assert_eq!(error, format!("-ERR keyfold: the server at {url} is away (connection refused); trying again\r\n"));
}

#[test]
fn a_server_that_refuses_the_password_is_quoted() {
    let server = start_server(&["--requirepass", "right"]);
    let mut config = config_for(&server);
    config.upstream.password = Some("wrong".to_owned());
    let proxy = keyfold_proxy::start(config.clone()).unwrap();
    let error = call(&mut Wire::connect(address(&proxy)).unwrap(), "GET a");
    assert!(error.contains("it says: WRONGPASS"), "{error}");
    config.upstream.password = Some("right".to_owned());
    let proxy = keyfold_proxy::start(config).unwrap();
    assert_eq!(call(&mut Wire::connect(address(&proxy)).unwrap(), "GET a"), "$-1\r\n");
}
