//! The layout in use: its change under load, and the sweep of what it left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use keyfold_core::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_testkit::Wire;

use super::relay::{Ending, Relay};
use super::stage::{Stage, address, call, change_layout, config_behind, eventually, serve, stage_with, start_server};

const USERS: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";
const SESSIONS: &str = "[[namespace]]\nkeys = \"sess:{id:int}\"\nbucket = { count = 16 }\n";

fn folded(text: &str) -> Stage {
    let layout = Layout::parse_file(text).unwrap();
    stage_with(|config| {
        config.layout = layout.into();
        config.sweep.pause = Duration::from_millis(50);
    })
}

fn ask(stage: &Stage, commands: &[&[&str]]) -> Vec<String> {
    let mut wire = stage.connect();
    let ask = |command: &&[&str]| {
        let args: Vec<&[u8]> = command.iter().map(|arg| arg.as_bytes()).collect();
        wire.call(&args).unwrap().escape_ascii().to_string()
    };
    commands.iter().map(ask).collect()
}

#[test]
fn a_new_namespace_is_served_without_a_restart() {
    let stage = folded(USERS);
    assert_eq!(ask(&stage, &[&["SET", "user:1", "a"], &["SET", "sess:1", "b"], &["DEL", "sess:1"]])[1], "+OK\\r\\n");
    let file = LayoutFile::parse(&format!("{USERS}{SESSIONS}")).unwrap();
    let next = Layout::merge(Some(&stage.proxy.layout()), &file).unwrap().layout;

    let mut server = stage.server.connect().unwrap();
    change_layout(&stage.server, &stage.proxy.layout(), &next);
    eventually("the layout is adopted", || stage.proxy.layout().epoch() == next.epoch());

    assert_eq!(ask(&stage, &[&["GET", "user:1"], &["SET", "sess:1", "b"], &["GET", "sess:1"]])[2], "$1\\r\\nb\\r\\n");
    assert_eq!(server.call(&[b"EXISTS", b"sess:1"]).unwrap(), b":0\r\n", "it lies in a bucket");
    assert_eq!(stage.proxy.namespaces().len(), 2);
}

#[test]
fn a_layout_under_which_keys_would_be_lost_is_not_served() {
    let stage = folded(USERS);
    ask(&stage, &[&["SET", "user:1", "a"]]);
    let other = USERS.replace("64", "128");
    let stored = Layout::parse_file(&other).unwrap().to_stored().replace("epoch = 1", "epoch = 9");
    stage.server.put_in_force(&Layout::from_stored(&stored).unwrap()).unwrap();
    eventually("the layout of before is put forward", || {
        assert_eq!(ask(&stage, &[&["GET", "user:1"]]), ["$1\\r\\na\\r\\n"]);
        stage.proxy.layout().epoch().0 > 9
    });
    assert_eq!(ask(&stage, &[&["GET", "user:1"]]), ["$1\\r\\na\\r\\n"]);
}

/// Clients are held back for a layout that can't be served, as long as a request is under way; and then it is gone again.
#[test]
fn who_was_held_back_for_nothing_goes_on() {
    let server = start_server(&[]);
    let relay = Relay::to(&server);
    let mut config = config_behind(&relay, &server);
    config.layout = Layout::parse_file(USERS).unwrap().into();
    let proxy = serve(&server, config);
    // Each has another worker, and with it another connection to the server.
    let [mut stuck, mut other] = [(); 2].map(|()| Wire::connect(address(&proxy)).unwrap());
    for wire in [&mut stuck, &mut other] {
        assert_eq!(call(wire, "SET user:5 here"), "+OK\r\n");
    }
    relay.end_at("never-answered", Ending::Frozen);
    stuck.send(&[b"GET", b"never-answered"]).unwrap();
    eventually("it is under way", || relay.has_ended());

    let mut direct = server.connect().unwrap();
    let mut put = |layout: &[u8]| {
        let args: [&[u8]; 5] = [b"MSET", b"keyfold:{home}:layout", layout, b"keyfold:{home}:layout:copy", layout];
        assert_eq!(direct.call(&args).unwrap(), b"+OK\r\n");
    };
    let layout = proxy.layout().to_stored();
    put(layout.replace("version = 2", "version = 99").as_bytes());
    other.set_timeout(Duration::from_millis(200)).unwrap();
    eventually("it is held back", || {
        other.send(&[b"GET", b"user:5"]).unwrap();
        other.reply().is_err()
    });
    put(layout.as_bytes());
    other.set_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(other.reply().unwrap(), b"$4\r\nhere\r\n");
    relay.line_that_said("never-answered").unwrap().cut();
    assert!(stuck.reply().unwrap().starts_with(b"-ERR keyfold: the connection to the server"));
}

/// It may be the only one that saw the newest layout.
#[test]
fn what_was_lost_is_not_put_back_past_a_keyfold_that_says_nothing() {
    let stage = folded(USERS);
    let (mut direct, mut silent) = (stage.server.connect().unwrap(), stage.server.connect().unwrap());
    let mut client = stage.connect();
    assert_eq!(call(&mut client, "SET user:1 a"), "+OK\r\n");
    assert_eq!(call(&mut silent, "CLIENT SETNAME keyfold:00ff"), "+OK\r\n");
    direct.call(&[b"DEL", LAYOUT_KEY, COPY_KEY]).unwrap();
    let mut tries = BTreeSet::new();
    eventually("it is tried again", || {
        let announced = direct.ask(&[b"GET", CHANGE_KEY]).unwrap();
        let text = String::from_utf8_lossy(announced.bytes().unwrap_or_default()).into_owned();
        tries.extend(text.split(' ').nth(1).map(str::to_owned));
        tries.len() > 1
    });
    assert_eq!(call(&mut direct, "EXISTS keyfold:{home}:layout"), ":0\r\n");
    assert_eq!(call(&mut silent, "PING"), "+PONG\r\n", "its connection is not closed");
    assert_eq!(call(&mut client, "GET user:1"), "$1\r\na\r\n", "who was served is served");
    drop(silent);
    eventually("it is put back", || call(&mut direct, "EXISTS keyfold:{home}:layout") == ":1\r\n");
    assert_eq!(call(&mut client, "GET user:1"), "$1\r\na\r\n");
}

#[test]
fn a_transaction_is_carried_out_by_the_layout_of_its_exec() {
    let stage = folded(USERS);
    let mut wire = stage.connect();
    wire.call(&[b"MULTI"]).unwrap();
    assert_eq!(wire.call(&[b"SET", b"sess:1", b"kept"]).unwrap(), b"+QUEUED\r\n");
    let file = LayoutFile::parse(&format!("{USERS}{SESSIONS}")).unwrap();
    let next = Layout::merge(Some(&stage.proxy.layout()), &file).unwrap().layout;
    change_layout(&stage.server, &stage.proxy.layout(), &next);
    eventually("the layout is adopted", || stage.proxy.layout().epoch() == next.epoch());
    assert_eq!(wire.call(&[b"EXEC"]).unwrap(), b"*1\r\n+OK\r\n");
    assert_eq!(wire.call(&[b"GET", b"sess:1"]).unwrap(), b"$4\r\nkept\r\n");
    assert_eq!(stage.server.connect().unwrap().call(&[b"EXISTS", b"sess:1"]).unwrap(), b":0\r\n");
}

#[test]
fn what_has_expired_is_removed_and_its_spilled_value_with_it() {
    let stage = folded(USERS);
    let long = "x".repeat(1000);
    let set = ask(
        &stage,
        &[
            &["SET", "user:1", "short", "PX", "20"],
            &["SET", "user:2", &long, "PX", "20"],
            &["SET", "user:3", "stays", "PX", "1000000"],
            &["SET", "user:4", &long],
        ],
    );
    assert!(set.iter().all(|reply| reply == "+OK\\r\\n"), "{set:?}");
    let mut server = stage.server.connect().unwrap();
    // The bucket, the long value that stays, and the sweeper's lease.
    eventually("expired fields are gone", || server.call(&[b"HLEN", b"~WOgb:0"]).unwrap() == b":2\r\n");
    eventually("its spilled value is gone", || server.call(&[b"KEYS", b"~WOgb!*"]).unwrap().starts_with(b"*1\r\n"));
    assert_eq!(
        ask(&stage, &[&["GET", "user:3"], &["STRLEN", "user:4"], &["DBSIZE"]]),
        ["$5\\r\\nstays\\r\\n", ":1000\\r\\n", ":2\\r\\n"]
    );
}

#[test]
fn a_spilled_value_that_was_replaced_is_retired() {
    let stage = folded(USERS);
    let long = "x".repeat(1000);
    ask(&stage, &[&["SET", "user:1", &long]]);
    // Past the proxy, as one that has never seen a long value would: the pointer is gone, the value remains.
    let mut server = stage.server.connect().unwrap();
    server.call(&[b"HSET", b"~WOgb:0", b"1", b"short"]).unwrap();
    eventually("it is given a time to live", || {
        server.call(&[b"EVAL", b"return redis.call('PTTL', redis.call('KEYS', '~WOgb!*')[1])", b"0"]).unwrap()
            != b":-1\r\n"
    });
    assert_eq!(ask(&stage, &[&["GET", "user:1"]]), ["$5\\r\\nshort\\r\\n"]);
}
