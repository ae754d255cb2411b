//! A value that expires between being read and being written is gone: nobody brings it back.

use keyfold_core::access::Users;
use keyfold_core::exchange::{Env, Exchange, Io, ServerInfo, Step};
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_core::resp::{Read, RequestReader};
use keyfold_core::session::{Begun, Peer, Session};
use keyfold_core::stats::Stats;
use keyfold_testkit::model::{Connection, FakeServer};

const NOW_MS: i64 = 1_763_000_000_000;

/// Runs a command; after its first round trip the server's clock jumps to `then_ms`.
fn run(server: &mut FakeServer, layout: &Layout, command: &str, then_ms: i64) -> Vec<u8> {
    let (stats, users) = (Stats::new(layout.namespaces().len()), Users::open());
    let info = ServerInfo { name: "redis".to_owned(), version: "7.0.15".to_owned() };
    let mut env = Env { now_ms: NOW_MS, nonces: &mut || 1, server: &info, layout, stats: &stats, users: &users };
    let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    let (mut wire, mut answer) = (Vec::new(), Vec::new());
    let mut session = Session::new(Peer::default(), &env);
    let plan = session.plan(&args, &env);
    let begun = session.begin(&plan, &args, None, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
    let Begun::Sent { mut exchange, .. } = begun else { panic!("{command} is sent") };
    let mut connection = Connection::default();
    while !wire.is_empty() {
        round_trip(server, &mut connection, &mut exchange, &mut env, &mut wire, &mut answer);
        server.advance_to(then_ms);
        env.now_ms = then_ms;
    }
    answer
}

fn round_trip(
    server: &mut FakeServer,
    connection: &mut Connection,
    exchange: &mut Exchange,
    env: &mut Env<'_>,
    wire: &mut Vec<u8>,
    answer: &mut Vec<u8>,
) {
    let sent = std::mem::take(wire);
    let mut rest = sent.as_slice();
    let mut reader = RequestReader::default();
    while !rest.is_empty() {
        let Ok(Read::Request(end)) = reader.read(rest) else { panic!("no command") };
        let args: Vec<Vec<u8>> = reader.args(rest).iter().map(|arg| arg.to_vec()).collect();
        rest = &rest[end..];
        let reply = server.run(connection, &args);
        if let Step::Done(_) = exchange.handle_reply(&reply, env, &mut Io { wire, answer }) {
            return;
        }
    }
}

#[test]
fn what_expires_meanwhile_is_not_given_more_time() {
    let file = LayoutFile::parse("[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 128 }\n").unwrap();
    let layout = Layout::merge(None, &file).unwrap().layout;
    let expiry = NOW_MS + 100;
    for (command, then_ms, answered) in [
        ("pexpire user:7 60000", expiry, ":1\r\n"),
        ("pexpire user:7 60000", expiry + 1, ":0\r\n"),
        ("persist user:7", expiry + 1, ":0\r\n"),
        ("append user:7 x", expiry, ":2\r\n"),
        ("append user:7 x", expiry + 1, ":1\r\n"),
        ("getex user:7 persist", expiry + 1, "$-1\r\n"),
    ] {
        let mut server = FakeServer::new(NOW_MS);
        run(&mut server, &layout, "set user:7 v px 100", NOW_MS);
        let answer = run(&mut server, &layout, command, then_ms);
        assert_eq!(String::from_utf8_lossy(&answer), answered, "{command} at {then_ms}");
    }
}
