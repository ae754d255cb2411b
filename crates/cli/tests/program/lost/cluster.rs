//! A cluster's layout brought by `layout push`, lost on one node or on all, and recovered.

use std::time::{Duration, Instant};

use keyfold_core::admin::{home, witness};
use keyfold_core::slot::Slot;
use keyfold_testkit::cluster::{Cluster, Options, slot_of};
use keyfold_testkit::servers::newest_and_others;
use keyfold_testkit::{Binary, Value, Wire, found};
use tempfile::TempDir;

use super::stage::Ran;
use crate::serve::keyfold::{self, Keyfold};

const LAYOUT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";
const WITH_CARTS: &str = "cluster = true\n[[namespace]]\nkeys = 'cart:{id:int}'\nbucket = { count = 1 }\n\
     [[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";
const OTHER: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 3 }\n";
const SPAN: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n";
const KEYS: usize = 300;

struct Stage {
    cluster: Cluster,
    dir: TempDir,
}

impl Stage {
    fn plain(binary: &Binary, options: &Options) -> Self {
        Self { cluster: Cluster::start(binary, 3, 0, options).unwrap(), dir: TempDir::new().unwrap() }
    }

    /// A cluster with folded keys, and no keyfold before it any more.
    fn folded(binary: &Binary, options: &Options) -> Self {
        let stage = Self::plain(binary, options);
        stage.push(LAYOUT).assert(0, &["1 new"]);
        let keyfold = stage.serve();
        let mut wire = keyfold.connect();
        for id in 0..KEYS {
            let (key, value) = (format!("user:{id}"), format!("value {id}"));
            assert_eq!(wire.call(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap(), b"+OK\r\n");
        }
        stage
    }

    fn file(&self, text: &str) -> String {
        let path = self.dir.path().join(text.replace(|c: char| !c.is_alphanumeric(), "-"));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn run(&self, args: &[&str]) -> Ran {
        let (code, stdout, stderr) = keyfold::run(args);
        Ran { code, stdout, stderr }
    }

    fn push(&self, layout: &str) -> Ran {
        self.run(&["layout", "push", &self.file(layout), "--upstream", &self.cluster.url(1)])
    }

    fn recover(&self, args: &[&str]) -> Ran {
        self.run(&[&["layout", "recover", &self.cluster.url(2)], args].concat())
    }

    fn serve(&self) -> Keyfold {
        Keyfold::serve(&["--upstream", &self.cluster.url(0)])
    }

    fn at(&self, slot: Slot, command: &[&[u8]]) -> Value {
        let owner = self.cluster.owner(slot.number()).unwrap();
        self.cluster.node(owner).call_bytes(command).unwrap()
    }

    /// Removes all that keyfold keeps for itself of the layout.
    fn lose_all(&self) {
        for key in ["keyfold:{home}:layout", "keyfold:{home}:layout:copy"] {
            self.at(home(), &[b"DEL", key.as_bytes()]);
        }
        witness::slots().for_each(|slot| drop(self.at(slot, &[b"DEL", &witness::key(slot)])));
    }

    fn register(&self) -> Option<Vec<u8>> {
        self.at(home(), &[b"GET", b"keyfold:{home}:layout"]).bytes().map(<[u8]>::to_vec)
    }

    /// All keys but those that this node had, through a keyfold.
    #[track_caller]
    fn assert_all_there(&self, but: Option<usize>) {
        let keyfold = self.serve();
        let mut wire = keyfold.connect();
        let mut seen = 0;
        for id in 0..KEYS {
            let key = format!("user:{id}");
            if but.is_some_and(|node| self.cluster.owner(slot_of(key.as_bytes())).unwrap() == node) {
                continue;
            }
            let value = format!("value {id}");
            let expected = format!("${}\r\n{value}\r\n", value.len());
            assert_eq!(wire.call(&[b"GET", key.as_bytes()]).unwrap(), expected.as_bytes(), "{key}");
            seen += 1;
        }
        assert!(seen > KEYS / 3);
    }
}

#[test]
fn a_layout_is_pushed_by_any_node_and_keyfolds_that_serve_take_it_up() {
    for binary in newest_and_others().0 {
        let stage = Stage::plain(&binary, &Options::default());
        let keyfold = stage.serve();
        let mut wire = keyfold.connect();
        stage.push(SPAN).assert(1, &["`cluster = true`"]);
        wire.call(&[b"SET", b"user:7", b"x"]).unwrap();
        let here = stage.cluster.node(stage.cluster.owner(slot_of(b"user:7")).unwrap()).address().to_string();
        stage.push(LAYOUT).assert(1, &["such as \"user:7\"", &here]);
        wire.call(&[b"DEL", b"user:7"]).unwrap();
        assert_eq!(stage.register(), None, "nothing is written");

        stage.push(LAYOUT).assert(0, &["change number 2 of the layout stored", "1 new, 0 changed"]);
        wire.call(&[b"SET", b"user:7", b"x"]).unwrap();
        let plain = stage.cluster.client().call(b"user:7", &[b"EXISTS", b"user:7"]).unwrap();
        assert_eq!(plain, Value::Integer(0), "it is folded");
        stage.push(LAYOUT).assert(0, &["change number 2 of the layout, as the server has it"]);
        let report =
            stage.run(&["layout", "push", &stage.file(WITH_CARTS), "--upstream", &stage.cluster.url(2), "--json"]);
        let report: serde_json::Value = serde_json::from_str(&report.assert(0, &[]).stdout).unwrap();
        assert_eq!((&report["epoch"], &report["added"][0]), (&4.into(), &"cart:{id:int}".into()), "{report:#}");
        assert_eq!(wire.call(&[b"GET", b"user:7"]).unwrap(), b"$1\r\nx\r\n");
        stage
            .recover(&["--dry-run"])
            .assert(0, &["witness in slot 2048", "change number 4, 2 namespaces", "in force and complete"]);
    }
}

#[test]
fn witnesses_restore_what_the_homes_node_lost_with_its_keys() {
    for binary in newest_and_others().0 {
        let stage = Stage::folded(&binary, &Options::default());
        let at_home = stage.cluster.owner(home().number()).unwrap();
        stage.cluster.node(at_home).call(&["FLUSHALL", "SYNC"]).unwrap();
        stage.recover(&["--dry-run"]).assert(0, &["it is gone", "witnesses know of a newer layout", "--dry-run"]);
        assert_eq!(stage.register(), None, "a dry run changes nothing");
        stage
            .recover(&[])
            .assert(0, &["witnesses know of a newer layout", "moved 0 keys; change number 4, 1 namespace"]);
        stage.assert_all_there(Some(at_home));
        stage.recover(&[]).assert(0, &["in force and complete"]);
    }
}

#[test]
fn a_witness_that_knows_more_than_the_home_is_united_with_it() {
    let stage = Stage::folded(&found().pop().unwrap(), &Options::default());
    // The change to another layout was cut off before the home heard of it.
    let before = stage.register().unwrap();
    stage.push(WITH_CARTS).assert(0, &["change number 4 of the layout"]);
    let after = stage.register().unwrap();
    let changing = [&b"changing a7 2 4\n"[..], &after].concat();
    for key in ["keyfold:{home}:layout", "keyfold:{home}:layout:copy"] {
        stage.at(home(), &[b"SET", key.as_bytes(), &before]);
    }
    let mut words = [Some(changing), Some(before), Some(b"damaged".to_vec()), None].into_iter();
    for slot in witness::slots() {
        match words.next().flatten() {
            Some(word) => stage.at(slot, &[b"SET", &witness::key(slot), &word]),
            None => stage.at(slot, &[b"DEL", &witness::key(slot)]),
        };
    }
    let says = [
        "change number 4 was under way",
        "change number 2, 1 namespace",
        "it can't be read",
        "it is gone",
        "2 namespaces",
    ];
    stage.recover(&[]).assert(0, &says);
    stage.assert_all_there(None);
    let text = stage.register().unwrap();
    for slot in witness::slots() {
        assert_eq!(stage.at(slot, &[b"GET", &witness::key(slot)]).bytes(), Some(&text[..]), "{slot}");
    }
}

#[test]
fn nobody_starts_from_nothing_over_a_clusters_folded_keys() {
    let stage = Stage::folded(&found().pop().unwrap(), &Options::default());
    stage.lose_all();
    let url = stage.cluster.url(0);
    let (own, other) = (stage.file(LAYOUT), stage.file(OTHER));
    for args in [
        &["serve", "--listen", "127.0.0.1:0", "--upstream", &url][..],
        &["serve", "--listen", "127.0.0.1:0", "--upstream", &url, "--layout", &other],
        &["layout", "push", &other, "--upstream", &url],
        &["layout", "recover", &url, "--layout", &other],
        &["layout", "recover", &url],
    ] {
        stage.run(args).assert(1, &["the cluster of", "holds folded keys", "such as \"~", "keyfold layout recover"]);
        assert_eq!(stage.register(), None, "nothing is written");
    }
    stage.recover(&["--layout", &own]).assert(0, &["the layout given accounts for all", "moved 0 keys"]);
    stage.assert_all_there(None);

    // Where there are no keys either, there is nothing to recover.
    let empty = Stage::plain(&found().pop().unwrap(), &Options::default());
    empty.recover(&[]).assert(0, &["there is no layout, and nothing that one would be missed for"]);
}

#[test]
fn a_keyfold_that_serves_puts_back_what_its_cluster_lost() {
    let stage = Stage::folded(&found().pop().unwrap(), &Options::default());
    let keyfold = stage.serve();
    let mut wire: Wire = keyfold.connect();
    wire.call(&[b"PING"]).unwrap();
    stage.lose_all();
    // It looks where the keys lie, and settles what it has put back.
    let since = Instant::now();
    let is_settled = |text: Vec<u8>| !String::from_utf8_lossy(&text).contains("put_back");
    while !stage.register().is_some_and(is_settled) {
        assert!(since.elapsed() < Duration::from_secs(60), "it stays in doubt");
        std::thread::sleep(Duration::from_millis(50));
    }
    let report = stage.recover(&["--json"]);
    let report: serde_json::Value = serde_json::from_str(&report.assert(0, &[]).stdout).unwrap();
    assert_eq!((&report["source"], &report["in_doubt"]), (&"in force".into(), &false.into()), "{report:#}");
    assert!(report["epoch"].as_u64().unwrap() >= 4, "{report:#}");
    assert_eq!(wire.call(&[b"GET", b"user:42"]).unwrap(), b"$8\r\nvalue 42\r\n");
}

#[test]
fn a_primary_that_is_away_is_named_and_nothing_is_changed() {
    let options = Options { node_timeout: Duration::from_secs(60), ..Options::default() };
    let mut stage = Stage::folded(&found().pop().unwrap(), &options);
    let other = (0..3).find(|node| *node != 1 && *node != stage.cluster.owner(home().number()).unwrap()).unwrap();
    let address = stage.cluster.node(other).address().to_string();
    stage.cluster.kill(other).unwrap();
    let before = stage.register();
    let url = stage.cluster.url(1);
    let with_carts = stage.file(WITH_CARTS);
    for args in [
        &["layout", "push", &with_carts, "--upstream", &url][..],
        &["layout", "recover", &url],
        &["layout", "recover", &url, "--dry-run"],
    ] {
        stage.run(args).assert(1, &[&address]);
    }
    assert_eq!(stage.register(), before);
    // Who only looks what is in force needs no more than the home.
    stage
        .run(&["layout", "push", &stage.file(LAYOUT), "--upstream", &url])
        .assert(0, &["as the server has it", &address]);
}
