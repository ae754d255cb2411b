//! `keyfold status` as a process, before real servers.

use keyfold_testkit::{Cluster, Subject, Wire, cluster, found};
use serde_json::Value;

use crate::fold::stage::{Stage, ok, on_every_server};

const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";

const TAGS: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 64 }\n";

const KEYS: u32 = 60_000;

fn status(stage: &Stage) -> Value {
    let ran = stage.run(&["status", &stage.server.url(), "--json"]);
    serde_json::from_str(&ran.assert_code(0).stdout).unwrap()
}

fn used_memory(stage: &Stage) -> f64 {
    // What the server keeps of each command's latencies.
    ok(&mut stage.connect(), &[b"CONFIG", b"RESETSTAT"]);
    let info = stage.connect().ask(&[b"INFO", b"memory"]).unwrap();
    let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
    info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap().parse().unwrap()
}

fn add_tags(wire: &mut Wire, id: u32, members: u32) {
    let members: Vec<String> = (0..members).map(|number| format!("member{number}")).collect();
    let words: Vec<&[u8]> = members.iter().map(|member| member.as_bytes()).collect();
    wire.call(&[&[b"SADD", format!("tags:{id}").as_bytes()], &words[..]].concat()).unwrap();
}

/// What a fold has a server take less, and what `status` says then.
fn saved_by_fold(stage: &Stage, layout: &str) -> (f64, Value) {
    let before = used_memory(stage);
    stage.fold(layout, &[]).assert_code(0);
    (before - used_memory(stage), status(stage))
}

#[test]
fn what_folding_saves_is_what_the_server_takes_less() {
    on_every_server(&[], |stage| {
        let mut wire = stage.connect();
        for id in 0..KEYS {
            ok(&mut wire, &[b"SET", format!("user:{id}").as_bytes(), format!("name of {id}").as_bytes()]);
        }
        assert_eq!(status(stage)["epoch"], Value::Null);
        stage.run(&["status", &stage.server.url()]).assert_code(0).assert_says("keyfold has folded nothing here");
        let (saved, now) = saved_by_fold(stage, LAYOUT);
        let said = now["saved_bytes"].as_f64().unwrap();
        // Of so few keys the server's own table is a good part, which grows and shrinks in steps of two.
        assert!((said / saved - 1.0).abs() < 0.25, "{}: {said} said, {saved} saved", stage.server.name());
        let namespace = &now["namespaces"][0];
        assert_eq!(
            (&namespace["keys"], &namespace["count"]),
            (&"user:{id:int}".into(), &f64::from(KEYS).into()),
            "{now:#}"
        );
        assert!(now["open_moves"].as_array().unwrap().is_empty() && now["keyfolds"].as_array().unwrap().is_empty());
        assert!(now["memory"]["rss_bytes"].as_u64() > Some(0));

        let proxy = Subject::beside(&stage.server).unwrap();
        let now = status(stage);
        assert_eq!(now["keyfolds"].as_array().unwrap().len(), 1, "{now:#}");
        assert!(now["keyfolds"][0]["connections"].as_u64() > Some(0), "{now:#}");
        let shown = stage.run(&["status", &stage.server.url()]);
        shown.assert_code(0).assert_says("keyfold:").assert_says("none open").assert_says("less than as plain keys");
        drop(proxy);
    });
}

/// Neither does a large value hold the server up, nor do plain keys crowd out what is folded.
#[test]
fn large_values_are_not_read_and_few_keys_are_found_among_many() {
    const TAGS: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\n";
    const SETS: u32 = 150;
    on_every_server(&[], |stage| {
        let mut wire = stage.connect();
        (0..SETS).for_each(|id| add_tags(&mut wire, id, if id < 10 { 600 } else { 5 }));
        stage.fold(&format!("{LAYOUT}{TAGS}"), &[]).assert_code(0);
        for id in 0..30_000 {
            ok(&mut wire, &[b"SET", format!("plain:{id}").as_bytes(), b"value"]);
        }
        for number in (0..20_000).map(|number| number.to_string()) {
            wire.send(&[b"RPUSH", b"list", number.as_bytes()]).unwrap();
            wire.send(&[b"ZADD", b"scores", number.as_bytes(), number.as_bytes()]).unwrap();
            wire.reply().unwrap();
            wire.reply().unwrap();
        }
        ok(&mut wire, &[b"CONFIG", b"RESETSTAT"]);
        let now = status(stage);
        let stats = wire.ask(&[b"INFO", b"commandstats"]).unwrap();
        let stats = String::from_utf8_lossy(stats.bytes().unwrap()).into_owned();
        for read in ["lrange", "zrange"] {
            assert!(!stats.contains(&format!("cmdstat_{read}:")), "{}: {stats}", stage.server.name());
        }
        assert!(
            now["saved_bytes"].as_f64() > Some(0.0) && now["not_counted"].as_array().unwrap().is_empty(),
            "{now:#}"
        );
        let tags = &now["namespaces"][0];
        assert_eq!(tags["keys"], "tags:{id:int}", "{now:#}");
        let (count, plain) = (tags["count"].as_f64().unwrap(), tags["plain_bytes_per_key"].as_f64().unwrap());
        // Of some ten buckets a sample has more or less than its share.
        assert!((10.0..3.0 * f64::from(SETS)).contains(&count), "{now:#}");
        // Ten of 600 members at 40 to 80 bytes each, among small ones.
        assert!((1000.0..10_000.0).contains(&plain), "{now:#}");
    });
}

/// A sample is enough before members of all are drawn that it came by: those are the large ones.
#[test]
fn a_few_large_sets_count_for_what_they_are_among_many_small_ones() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut wire = stage.connect();
    let empty = used_memory(&stage);
    for id in 0..16_000_u32 {
        add_tags(&mut wire, id, if id % 160 == 7 { 3000 } else { 3 });
    }
    let plain = used_memory(&stage) - empty;
    let (saved, now) = saved_by_fold(&stage, TAGS);
    let tags = &now["namespaces"][0];
    let said = tags["plain_bytes_per_key"].as_f64().unwrap() * 16_000.0;
    // Some fifty large ones are met: half of these more or less is rare.
    assert!((said / plain - 1.0).abs() < 0.4, "{said} said, {plain} taken: {now:#}");
    let said = now["saved_bytes"].as_f64().unwrap();
    assert!((said / saved - 1.0).abs() < 0.5, "{said} said, {saved} saved: {now:#}");
}

/// All lie in parts, and whether one of the three is among those whose members are drawn is chance.
#[test]
fn three_large_sets_are_most_of_what_is_there() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut wire = stage.connect();
    for id in 0..1500_u32 {
        add_tags(&mut wire, id, if id % 500 == 7 { 30_000 } else { 100 });
    }
    let (saved, now) = saved_by_fold(&stage, TAGS);
    let said = now["saved_bytes"].as_f64().unwrap();
    assert!((said / saved - 1.0).abs() < 0.25, "{said} said, {saved} saved: {now:#}");
}

/// One database after the other would have the first speak for all.
#[test]
fn each_database_counts_for_the_keys_that_it_has() {
    let Some(stage) = Stage::newest(&[]) else { return };
    let mut wire = stage.connect();
    for (database, members) in [(b"0", 3), (b"1", 400)] {
        ok(&mut wire, &[b"SELECT", database]);
        (0..3000).for_each(|id| add_tags(&mut wire, id, members));
    }
    let (saved, now) = saved_by_fold(&stage, TAGS);
    let said = now["saved_bytes"].as_f64().unwrap();
    assert!((said / saved - 1.0).abs() < 0.15, "{said} said, {saved} saved: {now:#}");
}

#[test]
fn a_cluster_is_added_up() {
    let cluster = Cluster::start(&found().pop().unwrap(), 3, 0, &cluster::Options::default()).unwrap();
    let stage = Stage::newest(&[]).unwrap();
    let ran = stage.run(&["status", &cluster.url(0)]);
    ran.assert_code(0).assert_says("a cluster of 3 primary nodes").assert_says("nothing: no key is folded");
}
