//! A value that expires between being read and being written is gone: nobody brings it back.

use keyfold_core::access::Users;
use keyfold_core::exchange::{Env, Exchange, Io, ServerInfo, Step};
use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_core::resp::{Read, RequestReader};
use keyfold_core::session::{Begun, Peer, Session};
use keyfold_core::stats::Stats;
use keyfold_testkit::model::{Connection, FakeServer};

const NOW_MS: i64 = 1_763_000_000_000;

/// Runs a command; after its first round trip the server's clock jumps to `then_ms`.
fn run(server: &mut FakeServer, layout: &Layout, command: &str, then_ms: i64) -> Vec<u8> {
    run_all(server, layout, &[command], 1, then_ms).0
}

/// Runs the commands of one client; after so many round trips of the last the server's clock jumps to `then_ms`. The
/// last answer, and how many round trips it took.
fn run_all(
    server: &mut FakeServer,
    layout: &Layout,
    commands: &[&str],
    jump_after: usize,
    then_ms: i64,
) -> (Vec<u8>, usize) {
    let (stats, users) = (Stats::new(layout.namespaces().len()), Users::open());
    let info = ServerInfo { name: "redis".to_owned(), version: "7.0.15".to_owned() };
    let mut env = Env {
        now_ms: NOW_MS,
        nonces: &mut || 1,
        server: &info,
        layout,
        stats: &stats,
        users: &users,
        tracking: None,
        cache: None,
        cluster: None,
        newest_commands: true,
        encoded: None,
        is_followed: false,
        is_read: false,
    };
    let mut session = Session::new(Peer::default(), &std::sync::Arc::default(), &env);
    let mut connection = Connection::default();
    let (mut wire, mut answer, mut trips) = (Vec::new(), Vec::new(), 0);
    for command in commands {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        answer.clear();
        trips = 0;
        let plan = session.plan(&args, &env);
        let begun = session.begin(&plan, &args, None, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
        let Begun::Sent { mut exchange, .. } = begun else { continue };
        while !wire.is_empty() {
            round_trip(server, &mut connection, &mut exchange, &mut env, &mut wire, &mut answer);
            trips += 1;
            if trips == jump_after && Some(command) == commands.last() {
                server.advance_to(then_ms);
                env.now_ms = then_ms;
            }
        }
    }
    (answer, trips)
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

#[test]
fn a_transaction_revives_nothing_whenever_the_time_runs_out() {
    let file = LayoutFile::parse("[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 128 }\n").unwrap();
    let layout = Layout::merge(None, &file).unwrap().layout;
    let expiry = NOW_MS + 100;
    for queued in ["persist user:7", "pexpire user:7 60000", "getex user:7 persist"] {
        let transaction = ["set user:7 v px 100", "multi", queued, "set plain written", "exec"];
        let mut in_time = false;
        for jump_after in 1..10 {
            let mut server = FakeServer::new(NOW_MS);
            let (answer, trips) = run_all(&mut server, &layout, &transaction, jump_after, expiry + 1);
            in_time = trips <= jump_after;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let lives_on = server.fields().all(|(_, _, stored)| !Frame::decode(stored).unwrap().expired(expiry + 1));
            assert_eq!(lives_on, in_time, "{queued}, late after {jump_after} round trips: {answer}");
            assert!(answer.ends_with("+OK\r\n"), "{answer}");
            if in_time {
                break;
            }
        }
        assert!(in_time, "{queued} is carried out where there is time");
    }
}

#[test]
fn what_only_our_clock_has_for_expired_is_not_written_over() {
    let file = LayoutFile::parse("[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 128 }\n").unwrap();
    let layout = Layout::merge(None, &file).unwrap().layout;
    let mut writes = 0;
    for command in ["setnx user:7 w", "set user:7 w nx", "append user:7 w"] {
        let mut server = FakeServer::new(NOW_MS);
        run(&mut server, &layout, "set user:7 v px 100", NOW_MS);
        let field = server.fields().map(|(_, _, value)| value.to_vec()).collect::<Vec<_>>();
        let (stats, users) = (Stats::new(layout.namespaces().len()), Users::open());
        let info = ServerInfo { name: "redis".to_owned(), version: "7.0.15".to_owned() };
        let ahead_ms = NOW_MS + 3_600_000;
        let mut env = Env {
            now_ms: ahead_ms,
            nonces: &mut || 1,
            server: &info,
            layout: &layout,
            stats: &stats,
            users: &users,
            tracking: None,
            cache: None,
            cluster: None,
            newest_commands: true,
            encoded: None,
            is_followed: false,
            is_read: false,
        };
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut session = Session::new(Peer::default(), &std::sync::Arc::default(), &env);
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let plan = session.plan(&args, &env);
        let begun = session.begin(&plan, &args, None, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
        let Begun::Sent { mut exchange, .. } = begun else { panic!("{command} is sent") };
        let mut connection = Connection::default();
        for _ in 0..8 {
            round_trip(&mut server, &mut connection, &mut exchange, &mut env, &mut wire, &mut answer);
            writes += 1;
            let now = server.fields().map(|(_, _, value)| value.to_vec()).collect::<Vec<_>>();
            assert_eq!(now, field, "{command} leaves what the server has for alive");
        }
        // Once our clock is right again the command is carried out as it should.
        env.now_ms = NOW_MS;
        while !wire.is_empty() {
            round_trip(&mut server, &mut connection, &mut exchange, &mut env, &mut wire, &mut answer);
        }
        let expected: &[u8] = if command.starts_with("append") { b":2\r\n" } else { b":0\r\n" };
        assert!(answer == expected || answer == b"$-1\r\n", "{command}: {}", answer.escape_ascii());
    }
    assert!(writes > 0);
}
