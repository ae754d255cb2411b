//! A client that wants no answer by CLIENT REPLY gets none, and the next request its own, whatever goes wrong.

use keyfold_proxy::start;
use keyfold_testkit::Wire;

use crate::relay::Relay;
use crate::stage::{address, call, commands, config_behind, eventually, stage, start_server};

/// Sends commands of which those with an answer are answered so, in this order; an error by its beginning.
fn converse(wire: &mut Wire, texts: &[&str], answers: &[&str]) {
    wire.send_bytes(&commands(texts)).unwrap();
    for expected in answers {
        let answer = String::from_utf8(wire.reply().unwrap()).unwrap();
        assert!(answer.starts_with(expected), "{texts:?}: {answer} instead of {expected}");
    }
}

const AWAY: &str = "-ERR keyfold: the server at ";
const LOST: &str = "-ERR keyfold: the connection to the server at ";

#[test]
fn silence_holds_while_the_server_is_away() {
    let stage = stage();
    let mut wire = stage.connect();
    let id = call(&mut wire, "CLIENT ID");
    assert_eq!(call(&mut wire, "GET a"), "$-1\r\n");
    drop(stage.server);
    eventually("the server is away", || call(&mut wire, "GET a").starts_with(AWAY));
    converse(&mut wire, &["CLIENT REPLY SKIP", "GET a", "CLIENT ID"], &[&id]);
    converse(&mut wire, &["CLIENT REPLY SKIP", "GET a", "GET a", "CLIENT ID"], &[AWAY, &id]);
    converse(&mut wire, &["CLIENT REPLY SKIP", "BLPOP list 0", "SUBSCRIBE news", "CLIENT ID"], &[AWAY, &id]);
    converse(&mut wire, &["CLIENT REPLY OFF", "GET a", "WATCH a", "CLIENT REPLY ON", "CLIENT ID"], &["+OK", &id]);
    converse(
        &mut wire,
        &["CLIENT REPLY OFF", "GET a", "CLIENT REPLY SKIP", "CLIENT REPLY ON", "GET a"],
        &["+OK", AWAY],
    );
}

#[test]
fn a_transaction_that_finds_the_server_away_is_over() {
    let stage = stage();
    let mut wire = stage.connect();
    let id = call(&mut wire, "CLIENT ID");
    drop(stage.server);
    eventually("the server is away", || call(&mut wire, "GET a").starts_with(AWAY));
    converse(&mut wire, &["MULTI", "SET a 1", "EXEC", "CLIENT ID"], &["+OK", "+QUEUED", AWAY, &id]);
    // What the server couldn't be asked about isn't queued, and the rest isn't carried out without it.
    let asks = ["MULTI", "NOSUCH a", "EXEC", "CLIENT ID"];
    converse(&mut wire, &asks, &["+OK", AWAY, "-EXECABORT", &id]);
}

#[test]
fn silence_holds_where_a_connection_is_lost_with_requests_under_way() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let proxy = start(config_behind(&relay, &server)).unwrap();
    let mut wire = Wire::connect(address(&proxy)).unwrap();
    let id = call(&mut wire, "CLIENT ID");
    let cases: [(&[&str], &[&str]); 3] = [
        (&["CLIENT REPLY SKIP", "GET skipped", "GET asked", "CLIENT ID"], &[LOST, &id]),
        (&["CLIENT REPLY OFF", "GET off", "CLIENT REPLY ON", "GET asked", "CLIENT ID"], &["+OK", LOST, &id]),
        (&["GET first", "CLIENT REPLY SKIP", "INCR skipped", "GET asked", "CLIENT ID"], &[LOST, LOST, &id]),
    ];
    for (requests, answers) in cases {
        eventually("there is a connection", || call(&mut wire, "GET mark") == "$-1\r\n");
        let line = relay.line_that_said("mark").unwrap();
        line.freeze();
        wire.send_bytes(&commands(requests)).unwrap();
        eventually("all is sent", || line.has_said("asked"));
        line.cut();
        converse(&mut wire, &[], answers);
    }
}
