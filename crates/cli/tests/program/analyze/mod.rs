//! `keyfold analyze` as a process, on real servers.

mod cache;
mod cluster;
mod dump;
mod dump_size;
mod folded;
mod page;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use keyfold_testkit::{Server, Wire, found};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.arg("analyze").args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Its code, and what it printed.
fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = command(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(args: &[&str]) -> Value {
    let (code, stdout, stderr) = run(&[args, &["--json"]].concat());
    assert_eq!(code, Some(0), "{stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// The family of this template.
fn family<'a>(report: &'a Value, keys: &str) -> &'a Value {
    let families = report["families"].as_array().unwrap();
    families.iter().find(|family| family["keys"] == keys).unwrap_or_else(|| panic!("no {keys} in {report:#}"))
}

/// Sends commands in one go.
fn fill(wire: &mut Wire, commands: impl Iterator<Item = Vec<Vec<u8>>>) {
    let commands: Vec<_> = commands.collect();
    for chunk in commands.chunks(500) {
        for command in chunk {
            let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
            wire.send(&args).unwrap();
        }
        for _ in chunk {
            wire.reply().unwrap();
        }
    }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

/// Counters and sessions, hand-made buckets, large sets, and one key of each other type.
fn fill_mixed(server: &Server) {
    let mut wire = server.connect().unwrap();
    fill(&mut wire, (0..12_000).map(|i| words(&format!("SET user:{i}:logins {}", i * 31))));
    fill(
        &mut wire,
        (0..3000).map(|i| {
            words(&format!("SET session:00000000-0000-4000-8000-{:012x} token-of-24-letters-xxx PX 86400000", i * 7919))
        }),
    );
    fill(&mut wire, (0..3000).map(|i| words(&format!("HSET mediabucket:{} {i} {}", i / 100, i * 3))));
    fill(&mut wire, (0..1500).map(|i| words(&format!("SADD followers:{} member-{i}", i % 2))));
    let others = ["LPUSH jobs a b", "ZADD rank 1 a", "XADD events * f v", "HSET config name x"];
    fill(&mut wire, others.iter().map(|command| words(command)));
}

fn on_every_server(body: impl Fn(&Server, &str)) {
    let servers = found();
    assert!(!servers.is_empty(), "there is no server to test with");
    for binary in servers {
        let server = binary.start(&[]).unwrap();
        body(&server, &server.url());
    }
}

#[test]
fn families_bytes_and_advice_on_every_server() {
    on_every_server(|server, url| {
        fill_mixed(server);
        let report = json(&[url]);
        let users = family(&report, "user:{id:int}:logins");
        assert_eq!((&users["count"], &users["advice"]), (&12_000.0.into(), &"fold".into()), "{}", server.name());
        let (now, after) = (users["bytes"].as_f64().unwrap(), users["after_bytes"].as_f64().unwrap());
        assert!(now > 3.0 * after, "{}: {now} to {after}", server.name());
        let sessions = family(&report, "session:{id:uuid}");
        assert_eq!((&sessions["ttl_share"], &sessions["value_bytes"]["median"]), (&1.0.into(), &23.0.into()));
        let buckets = family(&report, "mediabucket:{id:int}");
        let why = buckets["why"].as_str().unwrap();
        assert!(buckets["advice"] == "leave" && why.contains("made by hand"), "{why}");
        let memory = &report["memory"];
        let (measured, model) = (memory["measured_bytes"].as_f64().unwrap(), memory["model_bytes"].as_f64().unwrap());
        let off = (model / measured - 1.0).abs();
        // Of some MB, the little that no account names is still a few in a hundred.
        assert!(off < 0.05, "{}: model {model}, measured {measured}", server.name());
        assert!(memory["after_bytes"].as_f64().unwrap() < model);
        assert!(report["server"].as_str().unwrap().len() > 5);
    });
}

#[test]
fn what_analyze_advises_is_what_plan_writes() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    fill_mixed(&server);
    let mut wire = server.connect().unwrap();
    for (name, keys) in [("alpha", 150), ("beta", 120), ("gamma", 90), ("delta", 20)] {
        fill(
            &mut wire,
            (0..keys).map(|i| words(&format!("SET {name}:{:08x}-aaaa-4bbb-8ccc-000000000000 {i}", i * 7919))),
        );
    }
    let report = json(&[&server.url()]);
    let plan = Command::new(env!("CARGO_BIN_EXE_keyfold")).args(["plan", &server.url(), "--json"]).output().unwrap();
    let plan: Value = serde_json::from_slice(&plan.stdout).unwrap();
    let families = plan["families"].as_array().unwrap();
    assert!(families.len() > 4, "{plan:#}");
    for planned in families {
        let keys = planned["keys"].as_str().unwrap();
        let advised = family(&report, keys);
        // What settings of the server save, a layout can't say: its reasons do.
        if advised["advice"] == "set" {
            assert!(planned["advice"] == "leave" && planned["notes"].to_string().contains("CONFIG SET"), "{planned:#}");
            continue;
        }
        assert_eq!(advised["advice"], planned["advice"], "{keys}: {advised:#}");
        if planned["advice"] != "leave" {
            assert_eq!(advised["fold"]["placement"], planned["placement"], "{keys}");
        }
    }
}

#[test]
fn a_sample_says_how_far_off_it_may_be() {
    let server = found()[0].start(&[]).unwrap();
    fill_mixed(&server);
    let report = json(&[&server.url(), "--sample", "4000"]);
    let seen = report["walk"]["seen"].as_u64().unwrap();
    assert!((4000..6000).contains(&seen), "{seen}");
    let users = family(&report, "user:{id:int}:logins");
    let (count, within) = (users["count"].as_f64().unwrap(), users["count_within"].as_f64().unwrap());
    assert!(within > 0.0 && (count - 12_000.0).abs() < 3.0 * within, "{count} ± {within}");
}

#[test]
fn what_a_user_may_not_ask_is_named_and_done_without() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    fill_mixed(&server);
    let mut admin = server.connect().unwrap();
    let user = "ACL SETUSER reader on >secret ~* &* +@all -memory -object -config -get";
    assert_eq!(admin.call(&words(user).iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap(), b"+OK\r\n");
    let url = server.url().replace("redis://", "redis://reader:secret@");
    let report = json(&[&url]);
    let denied: Vec<_> =
        report["walk"]["denied"].as_array().unwrap().iter().map(|one| one["command"].as_str().unwrap()).collect();
    assert!(denied.contains(&"OBJECT") && denied.contains(&"MEMORY"), "{denied:?}");
    let users = family(&report, "user:{id:int}:logins");
    assert_eq!((&users["count"], &users["advice"]), (&12_000.0.into(), &"fold".into()));
    admin.call(&[b"ACL", b"SETUSER", b"part", b"on", b">secret", b"~user:*", b"+@all"]).unwrap();
    let report = json(&[&server.url().replace("redis://", "redis://part:secret@")]);
    let users = family(&report, "user:{id:int}:logins");
    assert_eq!(users["advice"], "fold", "{users:#}");
    assert_eq!(report["walk"]["denied"][0]["command"], "some keys");
    let (code, _, stderr) = run(&[&server.url().replace("redis://", "redis://reader:wrong@")]);
    assert!(code == Some(1) && stderr.contains("user"), "{stderr}");
}

#[test]
fn odd_keyspaces() {
    on_every_server(|server, url| {
        let empty = json(&[url]);
        assert_eq!((empty["families"].as_array().unwrap().len(), &empty["walk"]["seen"]), (0, &0.into()));
        let mut wire = server.connect().unwrap();
        for key in [&b"\xff\xfe\x00key"[..], b"", b"{", b"}}{", b":::", &[b'k'; 100_000]] {
            wire.call(&[b"SET", key, b"v"]).unwrap();
        }
        wire.call(&[b"SELECT", b"7"]).unwrap();
        wire.call(&[b"SET", b"seven", b"7"]).unwrap();
        let report = json(&[url]);
        assert_eq!(report["walk"]["seen"], 7, "{}", server.name());
        assert_eq!(json(&[url, "--database", "7"])["walk"]["seen"], 1);
        let (code, stdout, _) = run(&[url]);
        assert!(code == Some(0) && stdout.contains("7 keys"), "{stdout}");
    });
}

#[test]
fn what_is_no_server_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let (code, _, stderr) = run(&[&format!("redis://{address}")]);
    answering.join().unwrap();
    assert!(code == Some(1) && stderr.contains("error:"), "{stderr}");
    let (code, _, stderr) = run(&["redis://127.0.0.1:1"]);
    assert!(code == Some(1) && stderr.contains("is a server running there?"), "{stderr}");
}

#[test]
fn ctrl_c_and_a_lost_server_leave_what_was_seen() {
    for kills_server in [false, true] {
        let server = found().pop().unwrap().start(&[]).unwrap();
        fill_mixed(&server);
        let mut command = command(&[&server.url(), "--max-ops", "4000", "--json"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The walk has begun once the server has answered SCAN.
        let mut wire = server.connect().unwrap();
        loop {
            let stats = wire.ask(&[b"INFO", b"commandstats"]).unwrap();
            let stats = String::from_utf8_lossy(stats.bytes().unwrap()).into_owned();
            let calls = stats
                .lines()
                .find_map(|line| line.strip_prefix("cmdstat_pttl:calls=")?.split(',').next()?.parse().ok());
            if calls.is_some_and(|calls: u64| calls > 200) {
                break;
            }
            std::thread::yield_now();
        }
        if kills_server {
            kill_process(Pid::from_raw(server.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
        } else {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(i32::from(kills_server)), "{stderr}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let seen = report["walk"]["seen"].as_u64().unwrap();
        assert!(seen > 0 && seen < 15_000 && report["walk"]["complete"] == false, "{report:#}");
        assert_eq!(stderr.contains("ended early"), kills_server, "{stderr}");
    }
}
