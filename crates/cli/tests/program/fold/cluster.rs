//! Moves over the nodes of a cluster: while slots move, primaries fail over, and the tool is killed.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use keyfold_testkit::cluster::{Cluster, Failover, Options, key_in, slot_of};
use keyfold_testkit::load::{Client, Counters, Held, Load};
use keyfold_testkit::servers::{each, newest_and_others};
use keyfold_testkit::{Subject, Value, Wire, found};

use super::cluster_stage::{ClusterStage, Keyspace, LAYOUT, OTHER_LAYOUT, assert_same_keys};
use super::proxies::check;
use super::stage::finish;

const CLIENTS: u64 = 4;
const KEYS: u64 = 60;

fn three_primaries(node_timeout: Duration) -> Options {
    Options { node_timeout, ..Options::default() }
}

#[test]
fn folded_folded_again_and_unfolded_a_cluster_is_the_same() {
    each(&newest_and_others().0, |binary| {
        let what = binary.name();
        let stage = ClusterStage::start(binary, &Options::default());
        stage.fill(300);
        let before = stage.keyspace();
        stage.fold(LAYOUT, &["--dry-run"]).assert_code(0).assert_says("user:{id:int}");
        assert_same_keys(&before, &stage.keyspace(), &format!("{what}: a dry run"));
        stage.fold(LAYOUT, &[]).assert_code(0);
        stage.verify();
        stage.fold(LAYOUT, &[]).assert_code(0).assert_says("everything lies where the layout says");
        for layout in [OTHER_LAYOUT, LAYOUT] {
            stage.fold(layout, &[]).assert_code(0);
            stage.verify();
        }
        stage.unfold(&["--clean"]).assert_code(0).assert_says("removed the layout");
        assert_same_keys(&before, &stage.keyspace(), &what);
        assert_eq!(stage.own_keys(), [""; 0], "{what}");
    });
}

#[test]
fn values_of_a_cluster_are_stored_by_another_codec() {
    let stage = ClusterStage::start(&found().pop().unwrap(), &Options::default());
    stage.fill(300);
    let before = stage.keyspace();
    let layout = |codec: &str| {
        let rest = format!("bucket = {{ count = 1 }}\nvalue_limit = 2000\ncodec = '{codec}'\n");
        format!("cluster = true\n[[namespace]]\nkeys = 'page:{{path}}'\n{rest}")
    };
    stage.fold(&layout("zstd"), &["--raise-limits"]).assert_code(0).assert_says("set hash-max-listpack-value 2000");
    let url = stage.url();
    stage.run(&["train", &url, "--namespace", "page:{path}", "--codec", "fsst", "--force"]).assert_code(0);
    stage.run(&["recode", &url]).assert_code(0).assert_says("stored");
    stage.verify();
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same_keys(&before, &stage.keyspace(), "recoded");
    assert_eq!(stage.own_keys(), [""; 0]);
}

#[test]
fn what_does_not_keep_to_slots_is_refused() {
    let stage = ClusterStage::start(&found().pop().unwrap(), &Options::default());
    stage.fill(3);
    let span = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n";
    stage.fold(span, &[]).assert_code(1).assert_says("cluster = true");
    assert_eq!(stage.own_keys(), [""; 0]);
}

fn clients() -> Vec<Client> {
    let counters = Counters::new((0..4).map(|id| format!("user:{}", 900_000 + id).into_bytes()));
    let keys = |client: u64| {
        (0..KEYS).flat_map(move |id| {
            let number = client * KEYS + id;
            let held = |of: &str| Some(Held { value: ClusterStage::value(of, number).into(), expires_at_ms: None });
            [
                (format!("user:{number}").into_bytes(), held("user")),
                (format!("page:{number}").into_bytes(), held("page")),
            ]
        })
    };
    (0..CLIENTS).map(|client| Client::new(client, keys(client), &counters)).collect()
}

/// Slots move key by key, both ways and with a stop half-way, and one primary hands over to its replica.
fn stir(cluster: &Cluster, round: u64) {
    for id in 0..6 {
        let slot = slot_of(format!("user:{}", round * 31 + id).as_bytes());
        let owner = cluster.owner(slot).unwrap();
        let target = cluster.primaries().unwrap().into_iter().find(|node| *node != owner).unwrap();
        let resharding = cluster.begin_reshard(slot, target).unwrap();
        cluster.move_keys(resharding, 1).unwrap();
        thread::sleep(Duration::from_millis(50));
        if id % 2 == 0 {
            cluster.finish_reshard(resharding).unwrap();
        } else {
            cluster.take_back_reshard(resharding).unwrap();
        }
    }
    let primary = cluster.owner(slot_of(key_in(100, "any").as_bytes())).unwrap();
    let replica = cluster.replicas_of(primary).unwrap()[0];
    cluster.fail_over(replica, Failover::Clean).unwrap();
}

fn under_load(stage: &ClusterStage, rounds: u64) {
    stage.fill(3000);
    let proxies: Vec<Subject> = (0..2).map(|_| Subject::before_cluster(&stage.cluster).unwrap()).collect();
    let addresses: Vec<SocketAddr> = proxies.iter().map(Subject::address).collect();
    let load = Load::start(clients(), &addresses, Some(Duration::from_millis(1)));
    for round in 0..rounds {
        let layout = [LAYOUT, OTHER_LAYOUT][usize::from(round % 2 == 1)];
        let mut killed = stage.begin_fold(layout, &["--max-ops", "20000"]);
        thread::sleep(Duration::from_millis(700 + 300 * round));
        killed.kill().unwrap();
        killed.wait().unwrap();
        let folding = stage.begin_fold(layout, &["--max-ops", "20000"]);
        stir(&stage.cluster, round);
        if finish(folding).code != Some(0) {
            // A primary handed over in the very moment of a look or a change.
            stage.fold(layout, &[]).assert_code(0);
        }
        stage.verify();
    }
    stage.unfold(&[]).assert_code(0);
    let report = check(load, addresses[0]);
    assert!(report.wrong.is_empty(), "{}\n{}", report.wrong.join("\n"), proxies[0].log());
    assert!(report.answers > 1000, "{report:?}");
    stage.verify();
}

#[test]
fn no_answer_is_wrong_while_keys_and_slots_move_and_primaries_hand_over() {
    under_load(&ClusterStage::start(&found().pop().unwrap(), &Options::default()), 1);
}

#[test]
#[ignore = "takes minutes"]
fn on_every_server_no_answer_is_wrong_while_keys_and_slots_move() {
    for binary in found() {
        under_load(&ClusterStage::start(&binary, &Options::default()), 4);
    }
}

/// A replica that stood still takes over: its shard is as it was before most of the move.
fn set_back(stage: &mut ClusterStage) {
    stage.fill(3000);
    let before = stage.keyspace();
    let cluster = &mut stage.cluster;
    let primary = cluster.owner(100).unwrap();
    let replica = cluster.replicas_of(primary).unwrap()[0];
    let folding = stage.begin_fold(LAYOUT, &["--max-ops", "15000"]);
    thread::sleep(Duration::from_millis(600));
    let cluster = &mut stage.cluster;
    cluster.freeze(replica).unwrap();
    thread::sleep(Duration::from_millis(600));
    cluster.kill(primary).unwrap();
    cluster.wake(replica).unwrap();
    assert_eq!(cluster.wait_for_successor(primary).unwrap(), replica);
    cluster.restart(primary).unwrap();
    cluster.wait_until_settled().unwrap();
    let ran = finish(folding);
    if ran.code != Some(0) {
        stage.fold(LAYOUT, &[]).assert_code(0);
    }
    stage.verify();
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same_keys(&before, &stage.keyspace(), "set back");
}

#[test]
fn a_shard_that_is_set_back_in_the_midst_of_a_move_loses_nothing() {
    let binary = found().pop().unwrap();
    set_back(&mut ClusterStage::start(&binary, &three_primaries(Duration::from_secs(3))));
}

#[test]
#[ignore = "takes minutes"]
fn on_every_server_a_shard_that_is_set_back_loses_nothing() {
    for binary in found() {
        set_back(&mut ClusterStage::start(&binary, &three_primaries(Duration::from_secs(3))));
    }
}

#[test]
#[ignore = "waits for as long as a move waits"]
fn a_move_is_not_settled_before_all_replicas_have_it() {
    let mut stage = ClusterStage::start(&found().pop().unwrap(), &three_primaries(Duration::from_secs(600)));
    stage.fill(100);
    let before = stage.keyspace();
    let primary = stage.cluster.owner(100).unwrap();
    let replica = stage.cluster.replicas_of(primary).unwrap()[0];
    stage.cluster.freeze(replica).unwrap();
    stage.fold(LAYOUT, &[]).assert_code(1).assert_says("away");
    stage.cluster.wake(replica).unwrap();
    stage.cluster.wait_until_settled().unwrap();
    stage.fold(LAYOUT, &[]).assert_code(0);
    stage.unfold(&["--clean"]).assert_code(0);
    assert_same_keys(&before, &stage.keyspace(), "set back");
}

/// Sets of many members are moved in steps. The slots of some are moved to other nodes when the mover was killed half-way.
#[test]
fn large_sets_that_are_half_way_go_with_their_slots() {
    const SETS: u64 = 6;
    const MEMBERS: usize = 3000;
    let stage = ClusterStage::start(&found().pop().unwrap(), &Options::default());
    let keys: Vec<String> = (1..=SETS).map(|id| format!("tags:{id}")).collect();
    let mut client = stage.cluster.client();
    let mut ask = |words: &[&str]| {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        client.call(words[1], &words).unwrap()
    };
    for (key, first) in keys.iter().flat_map(|key| (0..MEMBERS).step_by(500).map(move |first| (key, first))) {
        let members: Vec<String> = (first..first + 500).map(|number| format!("{key}-{number}")).collect();
        ask(&[&["SADD", key], &members.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat());
    }
    let before = stage.keyspace();
    let layout = "cluster = true\n[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { count = 1 }\n";
    let half_way = || stage.own_keys().into_iter().filter(|name| name.ends_with('r') && name.contains('|')).count();
    let mut killed = stage.begin_fold(layout, &["--max-ops", "5000"]);
    while half_way() == 0 {
        assert!(killed.try_wait().unwrap().is_none(), "it ended before it was seen half-way");
    }
    thread::sleep(Duration::from_millis(300));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_ne!(half_way(), 0);
    for key in &keys {
        let owner = stage.cluster.owner(slot_of(key.as_bytes())).unwrap();
        let target = stage.cluster.primaries().unwrap().into_iter().find(|node| *node != owner).unwrap();
        let resharding = stage.cluster.begin_reshard(slot_of(key.as_bytes()), target).unwrap();
        stage.cluster.move_keys(resharding, usize::MAX).unwrap();
        stage.cluster.finish_reshard(resharding).unwrap();
    }
    let proxy = Subject::before_cluster(&stage.cluster).unwrap();
    let mut client = Wire::connect(proxy.address()).unwrap();
    let mut seen = |words: &[&str]| client.ask(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>()).unwrap();
    let mut check = |what: &str| {
        for key in &keys {
            let [first, last] = [0, MEMBERS - 1].map(|number| format!("{key}-{number}"));
            assert_eq!(seen(&["SCARD", key]), Value::Integer(MEMBERS as i64), "{what}: {key}");
            assert_eq!(seen(&["SADD", key, &first, &last, "new"]), Value::Integer(1), "{what}: {key}");
            assert_eq!(seen(&["SREM", key, "new", "never"]), Value::Integer(1), "{what}: {key}");
            let Value::Array(all) = seen(&["SMEMBERS", key]) else { panic!("{what}: SMEMBERS answers an array") };
            assert_eq!(all.len(), MEMBERS, "{what}: {key}");
        }
    };
    check("half-way");
    stage.fold(layout, &[]).assert_code(0);
    assert_eq!(half_way(), 0);
    check("folded");
    stage.verify();
    stage.unfold(&["--clean"]).assert_code(0);
    drop(proxy);
    let names = |keyspace: &Keyspace| keyspace.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&stage.keyspace()), names(&before));
    for key in &keys {
        assert_eq!(format!("{:?}", ask(&["SCARD", key])), format!("{:?}", Value::Integer(MEMBERS as i64)), "{key}");
    }
}
