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
    run_all(server, layout, &[command], 1, then_ms).answer
}

/// What came of a command.
struct Ran {
    answer: Vec<u8>,
    round_trips: usize,
    /// The names of the commands that the server got.
    sent: Vec<Vec<u8>>,
}

/// Runs the commands of one client; after so many round trips of the last the server's clock jumps to `then_ms`. What came of the last.
fn run_all(server: &mut FakeServer, layout: &Layout, commands: &[&str], jump_after: usize, then_ms: i64) -> Ran {
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
    let mut wire = Vec::new();
    let (mut answer, mut round_trips, mut sent) = (Vec::new(), 0, Vec::new());
    for command in commands {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        (round_trips, sent) = (0, Vec::new());
        answer.clear();
        let plan = session.plan(&args, &env);
        let begun = session.begin(&plan, &args, None, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
        let Begun::Sent { mut exchange, .. } = begun else { continue };
        while !wire.is_empty() {
            sent.extend(round_trip(server, &mut connection, &mut exchange, &mut env, &mut wire, &mut answer));
            round_trips += 1;
            if round_trips == jump_after && Some(command) == commands.last() {
                server.advance_to(then_ms);
                env.now_ms = then_ms;
            }
        }
    }
    Ran { answer, round_trips, sent }
}

/// Has the server carry out what was sent to it; the names of these commands.
fn round_trip(
    server: &mut FakeServer,
    connection: &mut Connection,
    exchange: &mut Exchange,
    env: &mut Env<'_>,
    wire: &mut Vec<u8>,
    answer: &mut Vec<u8>,
) -> Vec<Vec<u8>> {
    let sent = std::mem::take(wire);
    let (mut rest, mut names) = (sent.as_slice(), Vec::new());
    let mut reader = RequestReader::default();
    while !rest.is_empty() {
        let Ok(Read::Request(end)) = reader.read(rest) else { panic!("no command") };
        let args: Vec<Vec<u8>> = reader.args(rest).iter().map(|arg| arg.to_vec()).collect();
        rest = &rest[end..];
        let reply = server.run(connection, &args);
        names.push(args[0].clone());
        if let Step::Done(_) = exchange.handle_reply(&reply, env, &mut Io { wire, answer }) {
            break;
        }
    }
    names
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
            let ran = run_all(&mut server, &layout, &transaction, jump_after, expiry + 1);
            in_time = ran.round_trips <= jump_after;
            let answer = String::from_utf8_lossy(&ran.answer).into_owned();
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
fn a_transaction_that_only_reads_shows_one_moment_and_writes_nothing() {
    let file = LayoutFile::parse("[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 128 }\n").unwrap();
    let layout = Layout::merge(None, &file).unwrap().layout;
    let expiry = NOW_MS + 100;
    let mut seen = Vec::new();
    for jump_after in 1.. {
        let mut server = FakeServer::new(NOW_MS);
        run(&mut server, &layout, "set user:7 v px 100", NOW_MS);
        run(&mut server, &layout, "set plain v px 100", NOW_MS);
        let transaction = ["multi", "get user:7", "get plain", "exec"];
        let ran = run_all(&mut server, &layout, &transaction, jump_after, expiry + 1);
        let writes = ran.sent.iter().filter(|name| [&b"SET"[..], b"PEXPIREAT", b"UNLINK"].contains(&name.as_slice()));
        assert_eq!(writes.count(), 0, "{:?}", ran.sent);
        let both = ["*2\r\n$1\r\nv\r\n$1\r\nv\r\n", "*2\r\n$-1\r\n$-1\r\n"];
        let answer = String::from_utf8(ran.answer).unwrap();
        let there = both.iter().position(|both| *both == answer);
        seen.push(there.unwrap_or_else(|| panic!("late after {jump_after} round trips: {answer}")));
        if ran.round_trips <= jump_after {
            break;
        }
    }
    assert_eq!(seen, [1, 1, 0], "read anew where they have expired before EXEC");
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
