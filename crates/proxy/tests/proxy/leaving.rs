//! Clients that go halfway.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::stage::{address, call, commands, eventually, stage};

#[test]
fn a_half_closed_client_gets_its_answers() {
    let stage = stage();
    let mut client = TcpStream::connect(address(&stage.proxy)).unwrap();
    client.write_all(&commands(&["SET a 1", "INCR a", "GET a"])).unwrap();
    client.write_all(b"*2\r\n$3\r\nGET\r\n$1").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).unwrap();
    assert_eq!(answers, b"+OK\r\n:2\r\n$1\r\n2\r\n");
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
