//! Clients that go halfway.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use keyfold_core::resp::write_command;
use keyfold_proxy::Handle;
use keyfold_testkit::Wire;

use crate::stage::{address, call, commands, eventually, proxy_before, stage, start_server};

/// All that a client is answered that says no more than this.
fn told_half_closed(proxy: &Handle, asked: &[u8]) -> String {
    let mut client = TcpStream::connect(address(proxy)).unwrap();
    client.write_all(asked).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut told = String::new();
    client.read_to_string(&mut told).unwrap();
    told
}

#[test]
fn a_half_closed_client_gets_its_answers() {
    let stage = stage();
    let mut asked = commands(&["SET a 1", "INCR a", "GET a"]);
    asked.extend(b"*2\r\n$3\r\nGET\r\n$1");
    assert_eq!(told_half_closed(&stage.proxy, &asked), "+OK\r\n:2\r\n$1\r\n2\r\n");
}

/// Commands that take several round trips on a connection of the client's own are carried through.
#[test]
fn a_half_closed_client_gets_the_answers_of_all_steps() {
    let server = start_server(&[]);
    let proxy = proxy_before(&server, "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n");
    let script = "return redis.call('INCR', KEYS[1])";
    for (asked, last) in [
        (vec!["MULTI", "INCR user:1", "APPEND user:1 x", "EXEC"], "*2\r\n:1\r\n:2\r\n"),
        (vec!["WATCH user:2", "MULTI", "SET user:2 a", "EXEC"], "*1\r\n+OK\r\n"),
        (vec!["WATCH user:3"], "+OK\r\n"),
    ] {
        for round in 0..20 {
            Wire::connect(address(&proxy)).unwrap().call(&[b"DEL", b"user:1", b"user:2"]).unwrap();
            let told = told_half_closed(&proxy, &commands(&asked));
            assert!(told.ends_with(last), "{asked:?}, round {round}: {told}");
        }
    }
    for number in 0..20 {
        // A script that the server doesn't know yet is sent once more with its text.
        let mut asked = Vec::new();
        let text = format!("{script} + {number}");
        write_command(&mut asked, &[b"EVAL", text.as_bytes(), b"1", format!("user:{}", 10 + number).as_bytes()]);
        assert_eq!(told_half_closed(&proxy, &asked), format!(":{}\r\n", 1 + number));
    }
}

#[test]
fn a_half_closed_client_that_is_blocked_hears_nothing_as_of_a_server() {
    let stage = stage();
    for at in [address(&stage.proxy), stage.server.address()] {
        let mut client = TcpStream::connect(at).unwrap();
        client.write_all(&commands(&["SET a 1", "BLPOP nobody:pushes 0"])).unwrap();
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK\r\n");
        client.shutdown(Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(rest.escape_ascii().to_string(), "");
    }
    eventually("nobody is blocked any more", || {
        call(&mut stage.server.connect().unwrap(), "INFO clients").contains("blocked_clients:0")
    });
}

#[test]
fn what_a_vanished_client_asked_for_reaches_nobody_else() {
    let stage = stage();
    let mut stays = stage.connect();
    for n in 0..200 {
        let mut goes = stage.connect();
        let request = commands(&["GET stolen", &format!("SET gone:{n} {n}"), "GET stolen"]);
        goes.send_bytes(&request.repeat(20)).unwrap();
        drop(goes);
        let key = format!("stays:{n}");
        assert_eq!(call(&mut stays, &format!("SET {key} {n}")), "+OK\r\n");
        assert_eq!(call(&mut stays, &format!("GET {key}")), format!("${}\r\n{n}\r\n", n.to_string().len()));
    }
    eventually("only one client is left", || stage.proxy.totals().clients == 1);
    // What was asked before the client went has been done.
    eventually("the last request of the last client is done", || call(&mut stays, "EXISTS gone:199") == ":1\r\n");
}
