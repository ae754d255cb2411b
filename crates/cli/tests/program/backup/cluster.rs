//! The same before clusters: dumps travel between one server and a cluster, slots on their way included.

use keyfold_core::layout::Layout;
use keyfold_core::resp::write_command;
use keyfold_core::slot::Slot;
use keyfold_testkit::cluster::{Cluster, Options, slot_of};
use keyfold_testkit::servers::newest_and_others;
use serde_json::Value;
use tempfile::TempDir;

use super::program::{Ran, keyfold, keys_in, whole};

/// For one server as for a cluster.
const LAYOUT: &str =
    "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\nvalue_limit = 40\n";
const KEYS: usize = 3000;
const OTHERS: usize = 300;

fn run(args: &[&str], code: i32) -> Ran {
    let ran = keyfold(args);
    assert_eq!(ran.code, Some(code), "{args:?}: {}{}", ran.stdout, ran.stderr);
    ran
}

/// A dump of ints, long values, expiring ones, plain keys and a list.
fn dump(dir: &TempDir) -> String {
    let mut lines = String::new();
    for id in 0..KEYS {
        let value = if id % 50 == 0 { "long ".repeat(20) } else { (id * 7919).to_string() };
        let expiry = if id % 3 == 0 { ",\"expires_at_ms\":2209000000123" } else { "" };
        lines += &format!("{{\"key\":\"user:{id}\",\"value\":\"{value}\"{expiry}}}\n");
    }
    for id in 0..OTHERS {
        lines += &format!("{{\"key\":\"other:{{{}}}:{id}\",\"value\":\"v{id}\"}}\n", id / 10);
    }
    let path = dir.path().join("dump.jsonl");
    std::fs::write(&path, whole(&lines)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Puts the layout where a keyfold would have put it.
fn lay(cluster: &Cluster) {
    let stored = Layout::parse_file(LAYOUT).unwrap().to_stored();
    let keys = ["keyfold:{home}:layout", "keyfold:{home}:layout:copy"];
    let home = cluster.owner(slot_of(keys[0].as_bytes())).unwrap();
    cluster.node(home).call(&["MSET", keys[0], &stored, keys[1], &stored]).unwrap();
}

fn counts(url: &str) -> Value {
    serde_json::from_str(&run(&["verify", url, "--json"], 0).stdout).unwrap()
}

/// A slot that has a bucket and a spilled value: of this user.
const IN_MOTION: &str = "user:50";

#[test]
fn a_dump_goes_into_a_cluster_and_out_of_it() {
    keyfold_testkit::servers::each(&newest_and_others().0, |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let (dir, url) = (TempDir::new().unwrap(), cluster.url(1));
        let (dump, again) = (dump(&dir), dir.path().join("again.jsonl"));
        let again = again.to_str().unwrap();
        lay(&cluster);
        let seeds = url.replace("redis://", "cluster://127.0.0.1:1,");
        run(&["import", &seeds, &dump], 0);
        let told = run(&["import", &url, &dump], 0).stdout;
        assert!(told.contains("3,300 there already, the same"), "{told}");
        let report = counts(&url);
        let namespace = &report["counts"]["namespaces"][0];
        assert_eq!((&namespace["keys"], &report["counts"]["plain"]), (&3000.into(), &300.into()), "{report:#}");
        assert_eq!((&namespace["spilled"], report["nodes"].as_array().unwrap().len()), (&60.into(), 3));
        run(&["verify", &url, "--against", &dump], 0);

        // Half-way: the bucket has gone, the spilled value has not.
        let slot = slot_of(IN_MOTION.as_bytes());
        let target = (cluster.owner(slot).unwrap() + 1) % 3;
        let resharding = cluster.begin_reshard(slot, target).unwrap();
        for moved in 0..3 {
            run(&["verify", &url, "--against", &dump], 0);
            run(&["export", &url, "--out", again, "--force"], 0);
            assert_eq!(keys_in(&std::fs::read_to_string(again).unwrap()), KEYS + OTHERS, "{moved} keys moved");
            if moved == 0 {
                let place: Value = serde_json::from_str(&run(&["where", &url, IN_MOTION, "--json"], 0).stdout).unwrap();
                assert_eq!(place["slot"], slot, "{place:#}");
                assert!(place["slot moves to"].is_string(), "{place:#}");
            }
            cluster.move_keys(resharding, 1).unwrap();
        }
        run(&["import", &url, &dump], 0);
        let place = run(&["where", &url, IN_MOTION], 0).stdout;
        assert!(place.contains(&cluster.node(target).address().to_string()), "{place}");
        assert!(place.contains("spilled"), "{place}");
        cluster.finish_reshard(resharding).unwrap();
        run(&["verify", &url, "--against", again], 0);

        let one = binary.start(&[]).unwrap();
        run(&["import", &one.url(), again], 0);
        run(&["verify", &one.url(), "--against", &dump], 0);
    });
}

#[test]
fn what_lies_on_the_wrong_node_is_found_and_the_node_is_named() {
    let binary = newest_and_others().0.pop().unwrap();
    let cluster = Cluster::start(&binary, 2, 0, &Options::default()).unwrap();
    lay(&cluster);
    let key = "user:7";
    let (slot, owner) = (slot_of(key.as_bytes()), cluster.owner(slot_of(key.as_bytes())).unwrap());
    // A plain key that belongs into a bucket.
    cluster.node(owner).call(&["SET", key, "1"]).unwrap();
    let report: Value = serde_json::from_str(&run(&["verify", &cluster.url(0), "--json"], 3).stdout).unwrap();
    let finding = &report["findings"]["listed"][0];
    assert_eq!(finding["kind"], "hidden-key", "{report:#}");
    assert_eq!(finding["node"], cluster.node(owner).address().to_string(), "{report:#}");

    // A key that came to a node whose import was forgotten.
    cluster.node(owner).call(&["DEL", key]).unwrap();
    let other = 1 - owner;
    let number = slot.to_string();
    cluster.node(other).call(&["CLUSTER", "SETSLOT", &number, "IMPORTING", cluster.node(owner).id()]).unwrap();
    let mut wire = Vec::new();
    write_command(&mut wire, &[b"ASKING"]);
    write_command(&mut wire, &[b"SET", &Slot::of(key.as_bytes()).tag_key(), b"1"]);
    let mut link = cluster.node(other).connect().unwrap();
    link.send_bytes(&wire).unwrap();
    (0..2).for_each(|_| assert_eq!(link.reply().unwrap(), b"+OK\r\n"));
    cluster.node(other).call(&["CLUSTER", "SETSLOT", &number, "STABLE"]).unwrap();
    let report: Value = serde_json::from_str(&run(&["verify", &cluster.url(0), "--json"], 3).stdout).unwrap();
    let finding = &report["findings"]["listed"][0];
    assert_eq!(finding["kind"], "wrong-node", "{report:#}");
    assert_eq!(finding["node"], cluster.node(other).address().to_string(), "{report:#}");
}

trait TagKey {
    fn tag_key(self) -> Vec<u8>;
}

impl TagKey for Slot {
    /// A key of this slot that no namespace has.
    fn tag_key(self) -> Vec<u8> {
        [b"stray:{", self.tag(), b"}"].concat()
    }
}

#[test]
fn what_makes_a_cluster_unfit_is_told_with_a_remedy() {
    let binary = newest_and_others().0.remove(0);
    let one = binary.start(&[]).unwrap();
    let told = run(&["verify", &one.url().replace("redis://", "cluster://")], 1).stderr;
    assert!(told.contains("no node of a cluster") && told.contains(&one.url()), "{told}");

    let options = Options { password: Some("secret".to_owned()), ..Options::default() };
    let cluster = Cluster::start(&binary, 2, 0, &options).unwrap();
    cluster.node(1).call(&["CONFIG", "SET", "requirepass", "other"]).unwrap();
    let told = run(&["verify", &cluster.url(0).replace("redis://", "redis://:secret@")], 1).stderr;
    assert!(told.contains(&cluster.node(1).address().to_string()) && told.contains("same user"), "{told}");
}

#[test]
fn nodes_of_several_releases_are_told() {
    let (newest, others) = newest_and_others();
    let flavor = newest[0].flavor();
    let Some(other) = others.into_iter().rev().find(|other| other.flavor() == flavor) else { return };
    let cluster = Cluster::start_mixed(&[newest[0].clone(), other], 2, &Options::default()).unwrap();
    let told = run(&["verify", &cluster.url(0)], 0).stderr;
    assert!(told.contains("warning: not all nodes are") && told.contains("one release"), "{told}");
}
