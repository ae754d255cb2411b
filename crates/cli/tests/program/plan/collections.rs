//! Sets and hashes in a plan: folded where that pays, packed by the server's own settings where that does, proved on another server.

use keyfold_core::resp::write_command;
use keyfold_testkit::random::Random;
use serde_json::Value;

use super::codecs::{prove, prove_within};
use super::{BATCH, Server, TempDir, family, out, planned, run, servers, succeed};

/// Sends commands in one go; none of them may fail.
fn send(server: &Server, commands: impl Iterator<Item = Vec<String>>) {
    let mut wire = server.connect().unwrap();
    let commands: Vec<_> = commands.collect();
    for chunk in commands.chunks(BATCH) {
        let mut requests = Vec::new();
        for command in chunk {
            let words: Vec<&[u8]> = command.iter().map(String::as_bytes).collect();
            write_command(&mut requests, &words);
        }
        wire.send_bytes(&requests).unwrap();
        chunk.iter().for_each(|_| assert!(wire.reply().unwrap().starts_with(b":")));
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn letters(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(*random.pick(b"abcdefghijklmnopqrstuvwxyz"))).collect()
}

/// Sessions of five fields, tags of texts, likes of integers, some of which expire.
fn small(server: &Server) {
    let mut random = Random::new(3);
    send(
        server,
        (0..6000).map(|_| {
            let (id, agent, token) = (random.bits(), random.below(70) + 60, (random.bits(), random.bits()));
            let (user, seen) = (random.below(10_000_000), 1_700_000_000 + random.below(10_000_000));
            words(&format!(
                "HSET session:{id:016x} uid {user} agent Mozilla/5.0;Linux;rv:{agent} csrf {:016x}{:016x} seen {seen}",
                token.0, token.1
            ))
        }),
    );
    let mut random = Random::new(4);
    send(
        server,
        (0..4000).map(|id| {
            let tags = (0..5).map(|_| letters(&mut random, 20)).collect::<Vec<_>>().join(" ");
            words(&format!("SADD tags:{id} {tags}"))
        }),
    );
    let mut random = Random::new(5);
    send(
        server,
        (0..8000).map(|id| {
            let likes: Vec<_> = (0..=random.below(9)).map(|_| random.below(100_000_000).to_string()).collect();
            words(&format!("SADD likes:{id} {}", likes.join(" ")))
        }),
    );
    send(server, (0..2000).map(|id| words(&format!("PEXPIRE likes:{} 86400000", id * 4))));
}

#[test]
fn small_ones_are_folded_and_take_what_is_promised() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        small(&server);
        let report = prove(&binary, &server, "sets and hashes", &["--no-values"]);
        for (keys, kind) in [("session:{id:hex}", "hash"), ("tags:{id:int}", "set"), ("likes:{id:int}", "set")] {
            let found = family(&report, keys);
            assert_eq!(found["advice"], "fold", "{report:#}");
            let placement = found["placement"].as_str().unwrap();
            assert!(placement.ends_with(&format!(", type = \"{kind}\"")), "{placement}");
            assert!(!found["alternatives"].to_string().contains("zipped"), "there are no short names of their own");
        }
        let report = prove(&binary, &server, "with codecs", &[]);
        assert_eq!(family(&report, "session:{id:hex}")["codec"]["name"], "fields", "{report:#}");
    }
}

/// That takes more by far where a server has it, and isn't there where the plan is proved.
#[test]
fn a_plan_is_proved_where_single_fields_expire() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        if !server.connect().unwrap().call(&[b"HPTTL", b"none", b"FIELDS", b"1", b"f"]).unwrap().starts_with(b"*") {
            continue;
        }
        send(
            &server,
            (0..8000)
                .map(|id| words(&format!("HSET session:{id} uid {id} ip 10.0.0.{} token {}", id % 250, id * 7919))),
        );
        let mut wire = server.connect().unwrap();
        for id in 0..4000 {
            wire.call(&[b"HEXPIRE", format!("session:{id}").as_bytes(), b"30000", b"FIELDS", b"1", b"token"]).unwrap();
        }
        let report = prove(&binary, &server, "single fields expire", &["--no-values"]);
        assert_eq!(
            report["proof"]["keys_otherwise"].as_u64() > Some(3000),
            binary.name().starts_with("valkey"),
            "{report:#}"
        );
        assert_eq!(family(&report, "session:{id:int}")["advice"], "fold", "{report:#}");
    }
}

/// What is promised of a fold, and what lies in buckets after it, in bytes; its keys are so many then.
#[track_caller]
fn folded_as_planned(server: &Server, kind: &str, keys: u64, more: &[&str]) -> (f64, f64) {
    let dir = TempDir::new().unwrap();
    let (path, name) = out(&dir);
    let (report, text) = planned(server, &path, more);
    assert!(text.contains(&format!("\ntype = \"{kind}\"\n")), "{text}");
    succeed(&["fold", &server.url(), "--layout", &name, "--raise-limits", "--yes", "--json"]);
    let analyzed: Value = serde_json::from_str(&succeed(&["analyze", &server.url(), "--json"])).unwrap();
    let number = |report: &Value, path: &str| report.pointer(path).and_then(Value::as_f64).unwrap();
    assert_eq!(number(&analyzed, "/walk/logical_keys"), keys as f64);
    let folded = analyzed["folded"].as_array().unwrap();
    let taken: f64 = folded.iter().map(|one| one["bytes"].as_f64().unwrap()).sum();
    (number(&report, "/memory/after_bytes"), taken)
}

#[test]
fn the_layout_folds_what_it_was_planned_for() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        small(&server);
        let (promised, taken) = folded_as_planned(&server, "hash", 18_000, &["--no-values"]);
        assert!((promised / taken - 1.0).abs() < 0.02, "{}: {promised} {taken}", binary.name());
    }
}

/// Neither is one of both left out, nor has it the other's members.
#[test]
fn the_same_names_in_two_databases_are_planned_for_what_each_holds() {
    let Some(binary) = servers().into_iter().next() else { return };
    for small_ones_are_moved in [true, false] {
        let server = binary.start(&[]).unwrap();
        let some =
            |members: u64, from: u64| -> Vec<String> { (0..members).map(|at| format!("{}", from + at * 7)).collect() };
        let (first, then) = if small_ones_are_moved { (2, 60) } else { (60, 2) };
        let add =
            |members: u64| move |id: u64| words(&format!("SADD likes:{id} {}", some(members, id * 1000).join(" ")));
        send(&server, (0..4000).map(add(first)));
        send(&server, (0..4000).map(|id| words(&format!("MOVE likes:{id} 1"))));
        send(&server, (0..4000).map(add(then)));
        let report = prove_within(0.03, &binary, &server, "two databases", &["--no-values"]);
        assert_eq!(family(&report, "likes:{id:int}")["advice"], "fold", "{report:#}");
        assert_eq!(report["proof"]["keys"], 8000, "{report:#}");
    }
}

/// Of so many members that a move reads them before it knows that a bucket has room for them as a whole.
#[test]
fn sets_of_some_hundred_members_are_packed_where_a_codec_leaves_little_of_them() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        let mut random = Random::new(27);
        let mut set = |id: u64| {
            let members: Vec<_> = (0..550 + random.below(100)).map(|member| format!("page-{member}")).collect();
            words(&format!("SADD seen:{id} {}", members.join(" ")))
        };
        send(&server, (0..400).map(&mut set));
        let (promised, taken) = folded_as_planned(&server, "set", 400, &[]);
        // In parts each takes some 9 KB.
        assert!(taken < promised * 1.25, "{}: {promised} {taken}", binary.name());
    }
}

/// Followers, of whom some have many, carts of many fields, and rooms of many people. How full tables are, and whether they are being
/// moved to larger ones, depends on how many come at once.
fn large(server: &Server) {
    let mut random = Random::new(8);
    let members = |random: &mut Random, count: u64| -> Vec<String> {
        (0..count).map(|_| random.below(1 << 40).to_string()).collect()
    };
    let add = |id: u64, count: u64, random: &mut Random| {
        let all = members(random, count);
        send(server, all.chunks(500).map(|some| words(&format!("SADD followers:{id} {}", some.join(" ")))));
    };
    for id in 0..300 {
        let count = if id % 20 == 0 { 9000 } else { 1 + random.below(30) };
        add(id, count, &mut random);
    }
    for id in 0..12 {
        let fields: Vec<String> =
            (0..2500).map(|_| format!("item{:07} {}", random.below(10_000_000), random.below(1_000_000))).collect();
        send(server, fields.chunks(250).map(|some| words(&format!("HSET cart:{id} {}", some.join(" ")))));
    }
    for id in 0..20 {
        let texts: Vec<String> = (0..1500).map(|_| letters(&mut random, 24)).collect();
        let room = letters(&mut Random::new(id), 9);
        send(server, texts.chunks(500).map(|some| words(&format!("SADD room:{room} {}", some.join(" ")))));
    }
}

#[test]
fn large_ones_lie_in_parts_and_take_what_is_promised() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        large(&server);
        let report = prove_within(0.05, &binary, &server, "large sets and hashes", &[]);
        for (keys, kind, times) in
            [("followers:{id:int}", "set", 3.0), ("cart:{id:int}", "hash", 2.0), ("room:{", "set", 1.2)]
        {
            let families = report["families"].as_array().unwrap();
            let found = families.iter().find(|one| one["keys"].as_str().unwrap().starts_with(keys)).unwrap();
            assert_eq!(found["advice"], "fold", "{}: {report:#}", binary.name());
            assert!(found["placement"].as_str().unwrap().ends_with(&format!(", type = \"{kind}\"")), "{found:#}");
            assert!(found["notes"].to_string().contains("lie in parts"), "{found:#}");
            let bytes = |of: &str| found[of].as_f64().unwrap();
            assert!(bytes("bytes") / bytes("after_bytes") > times, "{}: {found:#}", binary.name());
        }
    }
}

/// Hashes with a long value, and sets of many integers: hashtables by the server's limits.
fn over_the_limits(server: &Server) {
    let mut random = Random::new(6);
    send(
        server,
        (0..50).map(|id| {
            let ids: Vec<_> = (0..3000).map(|_| random.below(100_000_000).to_string()).collect();
            words(&format!("SADD followers:{id} {}", ids.join(" ")))
        }),
    );
    let mut random = Random::new(7);
    send(
        server,
        (0..400).map(|id| {
            let fields: Vec<_> = (0..60).map(|field| format!("field-{field} {}", letters(&mut random, 90))).collect();
            words(&format!("HSET article:{id} {}", fields.join(" ")))
        }),
    );
}

#[test]
fn of_buckets_made_by_hand_the_way_out_is_said() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        let mut wire = server.connect().unwrap();
        for bucket in 0..40 {
            let fields: Vec<String> = (0..100).map(|id| (bucket * 100 + id).to_string()).collect();
            let words: Vec<&[u8]> = fields.iter().flat_map(|field| [field.as_bytes(), b"12345678"]).collect();
            wire.call(&[&[&b"HSET"[..], format!("mediabucket:{bucket}").as_bytes()], &words[..]].concat()).unwrap();
        }
        let analysis = succeed(&["analyze", &server.url(), "--wide"]);
        assert!(analysis.contains("`keyfold fold --from buckets`"), "{analysis}");
        let (_, plan, _) = run(&["plan", &server.url()]);
        assert!(
            plan.contains("mediabucket:{id:int}: buckets made by hand: hashes of about 100 fields, which are numbers"),
            "{plan}"
        );
        assert!(plan.contains("`keyfold fold --from buckets`"), "{plan}");
    }
}

#[test]
fn hashtables_that_settings_would_pack_take_what_is_said_once_these_are_set() {
    for binary in servers() {
        let server = binary.start(&[]).unwrap();
        over_the_limits(&server);
        let report: Value = serde_json::from_str(&succeed(&["analyze", &server.url(), "--json"])).unwrap();
        assert!(report["notes"].to_string().contains("`keyfold doctor URL --rewrite`"), "{report:#}");
        let mut set = Vec::new();
        for keys in ["followers:{id:int}", "article:{id:int}"] {
            let found = family(&report, keys);
            assert_eq!(found["advice"], "set", "{report:#}");
            assert!(found["why"].as_str().unwrap().starts_with("CONFIG SET "), "{}", found["why"]);
            set.extend(found["remedy"]["settings"].as_array().unwrap().clone());
        }
        let mut wire = server.connect().unwrap();
        wire.call(&[b"FLUSHALL"]).unwrap();
        for setting in &set {
            let (name, needs) = (setting["name"].as_str().unwrap(), setting["needs"].to_string());
            assert_eq!(wire.call(&[b"CONFIG", b"SET", name.as_bytes(), needs.as_bytes()]).unwrap(), b"+OK\r\n");
        }
        over_the_limits(&server);
        let then: Value = serde_json::from_str(&succeed(&["analyze", &server.url(), "--json"])).unwrap();
        for keys in ["followers:{id:int}", "article:{id:int}"] {
            let said = family(&report, keys)["after_bytes"].as_f64().unwrap();
            let (taken, before) = (family(&then, keys)["bytes"].as_f64(), family(&report, keys)["bytes"].as_f64());
            let (taken, before) = (taken.unwrap(), before.unwrap());
            assert!((said / taken - 1.0).abs() < 0.03 && taken < before / 1.15, "{keys}: {said} {taken} {before}");
        }
        let (code, stdout, _) = run(&["plan", &server.url()]);
        assert_eq!(code, Some(0));
        assert!(!stdout.contains("CONFIG SET set-max-intset-entries"), "{stdout}");
    }
}
