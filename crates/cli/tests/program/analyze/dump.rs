//! Dumps are looked at as the servers that wrote them: the same families, numbers and advice.

use std::cell::RefCell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use keyfold_testkit::patience::wait_for;
use keyfold_testkit::{Server, Wire, found};
use serde_json::Value;

use super::{command, family, fill, json, on_every_server, run, words};
use crate::fold::stage::Stage;

/// How far a family's bytes may be from those of the live walk, in percent.
const WITHIN_PERCENT: f64 = 1.0;

fn ask(wire: &mut Wire, text: &str) -> String {
    let args = words(text);
    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let reply = wire.ask(&args).unwrap();
    assert!(!reply.is_error(), "{text}: {reply:?}");
    String::from_utf8_lossy(reply.bytes().unwrap_or_default()).into_owned()
}

/// The dump that a server writes now.
fn saved(server: &Server) -> PathBuf {
    let mut wire = server.connect().unwrap();
    ask(&mut wire, "SAVE");
    let setting = |wire: &mut Wire, name: &[u8]| {
        let reply = wire.ask(&[b"CONFIG", b"GET", name]).unwrap();
        String::from_utf8(reply.elements().unwrap()[1].bytes().unwrap().to_vec()).unwrap()
    };
    Path::new(&setting(&mut wire, b"dir")).join(setting(&mut wire, b"dbfilename"))
}

/// What a dump doesn't tell: the allocator that the server is built with.
fn quantum(server: &Server) -> String {
    let stats = ask(&mut server.connect().unwrap(), "MEMORY MALLOC-STATS");
    let quantum = stats.lines().find_map(|line| line.trim().strip_prefix("Quantum size:")).map_or("8", str::trim);
    format!("jemalloc-quantum={quantum}")
}

/// Families of all types and encodings, some of which expire. Of sets and sorted sets there are many: how high nodes are, and
/// which members of a table lie in it without an entry of their own, is chance,
/// and a server looks at five of each only.
fn fill_families(server: &Server) {
    let mut wire = server.connect().unwrap();
    let long = "what is longer than forty-four bytes lies apart from its object ".replace(' ', "-");
    fill(&mut wire, (0..4000).map(|i| words(&format!("SET counter:{i} {}", i * 31))));
    fill(&mut wire, (0..3000).map(|i| words(&format!("SET token:{:016x} token-{i} PX 86400000", i * 7919))));
    fill(&mut wire, (0..2000).map(|i| words(&format!("SET page:{i}:html {long}{i}"))));
    fill(&mut wire, (0..1000).map(|i| words(&format!("HSET user:{i} name n{i} visits {i} mail m{i}@example.org"))));
    fill(&mut wire, (0..8000).map(|i| words(&format!("HSET bucket:{} {i} {}", i / 100, i * 3))));
    fill(&mut wire, (0..11_000).map(|i| words(&format!("HSET wide:{} field:{i} {long}", i / 1100))));
    fill(&mut wire, (0..6000).map(|i| words(&format!("SADD ids:{} {}", i / 20, i * 7))));
    fill(&mut wire, (0..6000).map(|i| words(&format!("SADD tags:{} tag-{i}", i / 20))));
    fill(&mut wire, (0..9000).map(|i| words(&format!("SADD followers:{} {long}{:05}", i / 15, i))));
    fill(&mut wire, (0..4000).map(|i| words(&format!("ZADD scores:{} {i} p-{i}", i / 20))));
    fill(&mut wire, (0..9000).map(|i| words(&format!("ZADD ranking:{} {i}.5 {long}{:05}", i / 30, i))));
    fill(&mut wire, (0..4000).map(|i| words(&format!("RPUSH jobs:{} job-{i}", i / 20))));
    fill(&mut wire, (0..500).map(|i| words(&format!("PEXPIRE jobs:{i} 86400000"))));
    // A table that grew has both its halves until it has been read for a while; a dump has none of that.
    fill(&mut wire, (0..6000).map(|i| words(&format!("SISMEMBER tags:{} x", i / 20))));
    fill(&mut wire, (0..12_000).map(|i| words(&format!("HEXISTS wide:{} x", i % 10))));
    fill(&mut wire, (0..12_000).map(|i| words(&format!("SISMEMBER followers:{} x", i % 600))));
    fill(&mut wire, (0..12_000).map(|i| words(&format!("ZSCORE ranking:{} x", i % 300))));
}

#[test]
fn a_dump_has_the_families_numbers_and_advice_of_the_live_walk() {
    let all_off = RefCell::new(Vec::new());
    on_every_server(|server, url| {
        fill_families(server);
        let (dump, assumed) = (saved(server), quantum(server));
        let (dump, name) = (dump.to_str().unwrap(), server.name());
        let live = json(&[url]);
        let read = json(&[dump, "--assume", &assumed]);
        assert_eq!(read["server"], live["server"]);
        let (all, of_dump) = (live["families"].as_array().unwrap(), read["families"].as_array().unwrap());
        assert!(all.len() >= 12 && all.len() == of_dump.len(), "{name}: {} and {}", all.len(), of_dump.len());
        for one in all {
            let template = one["keys"].as_str().unwrap();
            let other = family(&read, template);
            for same in ["count", "advice", "ttl_share", "stored", "value_bytes", "elements"] {
                assert_eq!(one[same], other[same], "{name}: {same} of {template}");
            }
            // Two ways may be about as good as each other: which is chosen depends on how fast codecs were just then.
            let chosen = |family: &Value| family["fold"]["chosen"]["bytes"].as_f64();
            match (chosen(one), chosen(other)) {
                (Some(live), Some(read)) => {
                    assert!((read / live - 1.0).abs() < 0.15, "{name}: {template} {} {}", one["fold"], other["fold"]);
                }
                (live, read) => assert_eq!(live, read, "{name}: {template}"),
            }
            let percent = (other["bytes"].as_f64().unwrap() / one["bytes"].as_f64().unwrap() - 1.0) * 100.0;
            eprintln!("{name}: {template} {percent:+.2} %");
            if percent.abs() > WITHIN_PERCENT {
                all_off.borrow_mut().push(format!("{name}: {template} {percent:+.2} %"));
            }
        }
        let total = |report: &Value| report["memory"]["model_bytes"].as_f64().unwrap();
        assert!((total(&read) / total(&live) - 1.0).abs() * 100.0 < WITHIN_PERCENT, "{name}");
        assert_eq!((&read["memory"]["measured_bytes"], &read["walk"]["complete"]), (&Value::Null, &true.into()));
        assert_eq!(read["walk"]["keys"], live["walk"]["keys"]);
    });
    let all_off = all_off.into_inner();
    assert!(all_off.is_empty(), "{all_off:#?}");
}

#[test]
fn a_plan_from_a_dump_is_that_of_the_live_walk() {
    let server = found().pop().unwrap().start(&[]).unwrap();
    let mut wire = server.connect().unwrap();
    fill(&mut wire, (0..12_000).map(|i| words(&format!("SET user:{i}:logins {}", i * 31))));
    let page =
        |i: i32| format!("{{\"id\":{i},\"title\":\"Title-of-{i}\",\"state\":\"published\",\"views\":{}}}", i * 37);
    fill(&mut wire, (0..4000).map(|i| words(&format!("SET page:{i} {}", page(i)))));
    let (dump, dir) = (saved(&server), tempfile::tempdir().unwrap());
    let layout = |from: &[&str], name: &str| {
        let out = dir.path().join(name);
        let mut plan = Command::new(env!("CARGO_BIN_EXE_keyfold"));
        plan.arg("plan").args(from).args(["--out", out.to_str().unwrap()]).env_remove("KEYFOLD_UPSTREAM");
        let output = plan.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(out).unwrap();
        text.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let live = layout(&[&server.url()], "live.toml");
    let read = layout(&[dump.to_str().unwrap(), "--assume", &quantum(&server)], "dump.toml");
    assert!(live.iter().any(|line| line.contains("codec")), "{live:?}");
    assert_eq!(live, read);
}

#[test]
fn what_is_cut_off_or_changed_is_reported_as_far_as_it_was_read() {
    let server = found().remove(0).start(&[]).unwrap();
    let mut wire = server.connect().unwrap();
    fill(&mut wire, (0..5000).map(|i| words(&format!("SET user:{i} {}", i * 31))));
    let bytes = fs::read(saved(&server)).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dump.rdb");
    let of = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        run(&[path.to_str().unwrap()])
    };
    let (code, out, err) = of(&bytes[..bytes.len() / 2]);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(out.contains("user:{id:int}") && out.contains("of about 5,000 were looked at"), "{out}");
    assert!(err.contains("it was cut off"), "{err}");
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() ^= 1;
    let (code, out, err) = of(&changed);
    assert!(code == Some(1) && out.contains("user:{id:int}") && err.contains("checksum"), "{out}{err}");
    let (code, out, err) = of(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n");
    assert!(code == Some(1) && out.is_empty() && err.contains("append-only file"), "{out}{err}");
    let (code, _, err) = of(b"REDIS0099\xfe\x00\x1e\x01a\x01b");
    assert!(code == Some(1) && err.contains("in format 99") && err.contains("type 30"), "{err}");
    let (code, _, err) = run(&["no-such-file.rdb"]);
    assert!(code == Some(2) && err.contains("can't read the dump"), "{err}");
}

#[test]
fn a_dump_may_be_packed_or_come_by_standard_input() {
    let server = found().remove(0).start(&[]).unwrap();
    let mut wire = server.connect().unwrap();
    fill(&mut wire, (0..3000).map(|i| words(&format!("SET user:{i} {}", i * 31))));
    fill(&mut wire, std::iter::once(words("SELECT 3")).chain((0..500).map(|i| words(&format!("SET other:{i} {i}")))));
    let path = saved(&server);
    let bytes = fs::read(&path).unwrap();
    let count = |report: &Value, keys: &str| family(report, keys)["count"].clone();
    let whole = json(&[path.to_str().unwrap()]);
    assert_eq!((count(&whole, "user:{id:int}"), count(&whole, "other:{id:int}")), (3000.0.into(), 500.0.into()));
    let third = json(&[path.to_str().unwrap(), "--database", "3"]);
    assert_eq!((count(&third, "other:{id:int}"), &third["walk"]["keys"]), (500.0.into(), &500.into()));
    let sampled = json(&[path.to_str().unwrap(), "--sample", "700"]);
    assert_eq!((&sampled["walk"]["keys"], &sampled["walk"]["seen"]), (&3500.into(), &700.into()));
    assert_eq!(sampled["walk"]["sampled"], true);

    let dir = tempfile::tempdir().unwrap();
    let packed = dir.path().join("dump.rdb.gz");
    let mut gzip = flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    gzip.finish().unwrap();
    assert_eq!(count(&json(&[packed.to_str().unwrap()]), "user:{id:int}"), 3000.0);

    let mut child = command(&["-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(count(&report, "user:{id:int}"), 3000.0);
    assert!(report["notes"].to_string().contains("goes by once"), "{}", report["notes"]);
}

#[test]
fn what_had_expired_when_the_dump_was_written_is_left_out() {
    let server = found().remove(0).start(&[]).unwrap();
    let mut wire = server.connect().unwrap();
    fill(&mut wire, (0..300).map(|i| words(&format!("SET there:{i} {i} PX 86400000"))));
    fill(&mut wire, (0..300).map(|i| words(&format!("SET stays:{i} {i}"))));
    let path = saved(&server);
    let report = json(&[path.to_str().unwrap()]);
    assert_eq!((&report["dump"]["expired"], &family(&report, "there:{id:int}")["ttl_share"]), (&0.into(), &1.0.into()));
    let now = report["dump"]["written_at"].as_i64().unwrap();
    // A dump of a time at which they had expired.
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(5).position(|five| five == b"ctime").unwrap() + 5;
    assert_eq!(bytes[at], 0xc2, "an integer of 32 bits");
    let later = i32::try_from(now + 2 * 86_400).unwrap();
    bytes[at + 1..at + 5].copy_from_slice(&later.to_le_bytes());
    // No checksum is one that isn't compared.
    let end = bytes.len() - 8;
    bytes[end..].fill(0);
    let dir = tempfile::tempdir().unwrap();
    let changed = dir.path().join("later.rdb");
    fs::write(&changed, &bytes).unwrap();
    let report = json(&[changed.to_str().unwrap()]);
    assert_eq!(report["dump"]["expired"], 300);
    assert_eq!((&report["walk"]["keys"], report["families"].as_array().unwrap().len()), (&300.into(), 1));
}

#[test]
fn what_is_folded_in_a_dump_is_its_namespace() {
    let Some(stage) = Stage::newest(&[]) else { return };
    fill(&mut stage.connect(), (0..12_000).map(|id| words(&format!("SET user:{id}:logins {}", id * 31))));
    stage.fold("[[namespace]]\nkeys = 'user:{id:int}:logins'\nbucket = { span = 128 }\n", &[]).assert_code(0);
    fill(&mut stage.connect(), (0..2000).map(|id| words(&format!("SET cart:{id} {id}"))));
    let path = saved(&stage.server);
    let report = json(&[path.to_str().unwrap(), "--assume", &quantum(&stage.server)]);
    let folded = &report["folded"][0];
    assert_eq!((&folded["keys"], &folded["count"]), (&"user:{id:int}:logins".into(), &12_000.0.into()), "{folded:#}");
    assert_eq!(report["walk"]["logical_keys"], 14_000);
    let names: Vec<_> = report["families"].as_array().unwrap().iter().map(|one| &one["keys"]).collect();
    assert_eq!(names, ["cart:{id:int}"]);
    let live = json(&[&stage.server.url()]);
    let bytes = |report: &Value| report["folded"][0]["bytes"].as_f64().unwrap();
    assert!((bytes(&report) / bytes(&live) - 1.0).abs() * 100.0 < WITHIN_PERCENT, "{report:#}");

    let stdin = fs::File::open(&path).unwrap();
    let output = command(&["-"]).stdin(stdin).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && err.contains("save the dump to a file"), "{err}");
}

#[test]
fn a_replica_is_looked_at_as_its_primary_is_at_the_pace_that_is_asked_for() {
    let binary = found().pop().unwrap();
    let (primary, replica) = (binary.start(&[]).unwrap(), binary.start(&[]).unwrap());
    fill(&mut primary.connect().unwrap(), (0..1500).map(|i| words(&format!("SET user:{i} {}", i * 31))));
    let mut wire = replica.connect().unwrap();
    ask(&mut wire, &format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    let all_there = || match wire.ask(&[b"DBSIZE"]).unwrap().integer() {
        Some(1500) => Ok(()),
        other => Err(format!("{other:?} keys")),
    };
    wait_for("the replica", Duration::from_secs(60), all_there).unwrap();
    let started = Instant::now();
    let report = json(&[&replica.url(), "--max-ops", "5000", "--no-values"]);
    assert_eq!(family(&report, "user:{id:int}")["count"], 1500.0);
    let commands = report["walk"]["commands"].as_f64().unwrap();
    assert!(commands > 4000.0 && started.elapsed().as_secs_f64() > commands / 5000.0 - 0.3, "{commands}");
}
