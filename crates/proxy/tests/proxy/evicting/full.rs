//! Where nothing may leave, writes are refused as a server does it whose memory is full, and it ends when there is room.

use keyfold_testkit::{Wire, found};

use super::{MB, cached, change, write};
use crate::stage::{call, eventually};

const KEPT: &str = r#"
    [[namespace]]
    keys = "user:{id:int}"
    bucket = { span = 64 }
    evict = false
"#;

/// Asks in turn; all answers.
fn ask(wire: &mut Wire, commands: &[&str]) -> Vec<String> {
    commands.iter().map(|command| call(wire, command)).collect()
}

#[test]
fn writes_are_refused_as_by_a_full_server_and_reads_go_on() {
    for binary in found() {
        let stage = cached(&binary, KEPT, 4 * MB);
        let mut wire = stage.connect();
        write(&mut wire, "user", 0..20_000, 50);
        change(&stage, KEPT, &(stage.empty + MB).to_string());
        // A server that is full, and says what it says.
        let plain = binary.start(&["--maxmemory-policy", "noeviction"]).unwrap();
        let mut oracle = plain.connect().unwrap();
        ask(&mut oracle, &["SET user:1 v", "SET user:2 v", "CONFIG SET maxmemory 1"]);
        eventually("writes are refused", || call(&mut wire, "SET user:1 v").starts_with("-OOM"));
        call(&mut wire, "DEL user:1");
        call(&mut oracle, "DEL user:1");
        for command in [
            "SET user:1 v",
            "APPEND user:1 v",
            "INCR user:9",
            "MSET user:1 a user:5 b",
            "SETEX user:1 10 v",
            "GETSET user:1 v",
            "SET plain v",
            "STRLEN user:1",
            "EXISTS user:1",
            "TTL user:1",
            "EXPIRE user:1 100",
            "DEL user:1",
            "GET user:1",
            "MULTI",
            "GET user:1",
            "EXEC",
            "MULTI",
            "SET user:1 v",
            "GET user:1",
            "EXEC",
            "GET user:1",
        ] {
            assert_eq!(call(&mut wire, command), call(&mut oracle, command), "{command} on {}", binary.name());
        }
        assert!(stage.proxy.cache().refused() >= 8);
        // Removals make room.
        let ids: Vec<String> = (0..20_000).map(|id| format!("user:{id}")).collect();
        for some in ids.chunks(500) {
            call(&mut wire, &format!("DEL {}", some.join(" ")));
        }
        change(&stage, KEPT, &stage.mark.to_string());
        eventually("there is room", || call(&mut wire, "SET user:1 v") == "+OK\r\n");
        assert_eq!(stage.evicted(), 0);
    }
}

#[test]
fn a_transaction_that_was_queued_before_is_refused_as_by_a_full_server() {
    let binary = found().pop().unwrap();
    let stage = cached(&binary, KEPT, 4 * MB);
    let plain = binary.start(&["--maxmemory-policy", "noeviction"]).unwrap();
    let (mut wire, mut oracle) = (stage.connect(), plain.connect().unwrap());
    write(&mut wire, "user", 0..20_000, 50);
    let queued = ["MULTI", "SET user:1 changed", "EXEC"];
    assert_eq!(ask(&mut wire, &queued[..2]), ask(&mut oracle, &queued[..2]));
    change(&stage, KEPT, &(stage.empty + MB).to_string());
    call(&mut plain.connect().unwrap(), "CONFIG SET maxmemory 1");
    eventually("writes are refused", || call(&mut stage.connect(), "SET user:1 v").starts_with("-OOM"));
    assert_eq!(call(&mut wire, "EXEC"), call(&mut oracle, "EXEC"));
}
