//! CLUSTER as keyfold answers it, beside what a cluster's node answers.

use std::sync::Arc;

use keyfold_core::cluster::{Announced, Endpoint, Front};
use keyfold_testkit::cluster::{Options, slot_of};
use keyfold_testkit::{Cluster, Value};

use crate::driver::{layout, text};
use crate::{Driver, each, found, found_with_redis_7};

/// What a reply is made of, names of fields included, and strings as how long they are.
fn shape(value: &Value) -> String {
    match value {
        Value::Array(elements) => format!("[{}]", elements.iter().map(shape).collect::<Vec<_>>().join(" ")),
        Value::Map(pairs) => {
            let pair = |(name, value): &(Value, Value)| format!("{}={}", text(name), shape(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(" "))
        }
        Value::Integer(_) => "int".to_owned(),
        Value::Bulk(text) if text.len() == 40 => "id".to_owned(),
        Value::Bulk(_) => "text".to_owned(),
        other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
    }
}

fn announced(cluster: &Cluster) -> Front {
    let endpoints: Vec<Endpoint> =
        cluster.nodes().iter().map(|node| node.address().to_string().parse().unwrap()).collect();
    Front { before_cluster: true, announced: Some(Arc::new(Announced::new(&endpoints, 0).unwrap())) }
}

#[test]
fn keyfolds_answer_as_a_clusters_nodes_do() {
    each(&found_with_redis_7(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::new(&cluster, &layout, announced(&cluster));
        let name = binary.name();
        for protocol in ["2", "3"] {
            let mut node = cluster.node(0).connect().unwrap();
            node.call(&[b"HELLO", protocol.as_bytes()]).unwrap();
            let hello = driver.raw(&[b"HELLO", protocol.as_bytes()]);
            assert!(String::from_utf8_lossy(&hello).contains("mode\r\n$7\r\ncluster\r\n"), "{name}");
            for what in ["SLOTS", "SHARDS", "NODES", "INFO", "MYID", "KEYSLOT a"] {
                let command = format!("CLUSTER {what}");
                let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
                let ours = driver.ask(&command);
                assert_eq!(shape(&ours), shape(&node.ask(&args).unwrap()), "{name} RESP{protocol} {command}");
            }
            let fields = |info: &Value| {
                text(info).lines().map(|line| line.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
            };
            let (ours, theirs) =
                (fields(&driver.ask("CLUSTER INFO")), fields(&node.ask(&[b"CLUSTER", b"INFO"]).unwrap()));
            for field in [
                "cluster_state",
                "cluster_slots_assigned",
                "cluster_known_nodes",
                "cluster_size",
                "cluster_current_epoch",
            ] {
                assert!(ours.contains(&field.to_owned()) && theirs.contains(&field.to_owned()), "{name}: {field}");
            }
        }
    });
}

#[test]
fn nodes_read_as_a_clusters_own() {
    let binary = found().remove(0);
    let cluster = Cluster::start(&binary, 3, 0, &Options::default()).unwrap();
    let layout = layout();
    let mut driver = Driver::new(&cluster, &layout, announced(&cluster));
    let nodes = keyfold_testkit::cluster::read(&text(&driver.ask("CLUSTER NODES"))).unwrap();
    assert_eq!(nodes.len(), 3);
    assert!(nodes.iter().filter(|node| node.is("myself")).count() == 1 && nodes.iter().all(|node| node.is("master")));
    assert_eq!(nodes.iter().map(|node| node.owns(5461)).collect::<Vec<_>>(), [false, true, false]);
    let myself = text(&driver.ask("CLUSTER MYID"));
    assert_eq!(nodes[0].id, myself);
    assert_eq!(driver.ask(&format!("CLUSTER REPLICAS {myself}")), Value::Array(vec![]));
    assert_eq!(driver.ask(&format!("CLUSTER COUNT-FAILURE-REPORTS {myself}")), Value::Integer(0));
    assert_eq!(driver.ask("CLUSTER REPLICAS x"), Value::Error(b"ERR Unknown node x".to_vec()));
    for command in ["READONLY", "READWRITE", "ASKING"] {
        assert_eq!(driver.raw(&[command.as_bytes()]), b"+OK\r\n");
    }
    for command in ["RESET", "FORGET x", "ADDSLOTS 1", "MEET a 1", "SETSLOT 1 STABLE", "FAILOVER", "FLUSHSLOTS"] {
        let refused = driver.ask(&format!("CLUSTER {command}"));
        assert!(format!("{refused:?}").contains("not supported through the proxy"), "{command}: {refused:?}");
    }
    assert!(format!("{:?}", driver.ask("CLUSTERSCAN 0")).contains("not supported through the proxy"));
    let info = text(&driver.ask("INFO server"));
    assert!(info.contains("redis_mode:cluster\r\n"), "{info}");
}

#[test]
fn keys_of_a_slot_are_logical() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::new(&cluster, &layout, announced(&cluster));
        let slot = slot_of(b"t");
        let folded: Vec<String> =
            (0..).map(|id| format!("n:{id}")).filter(|key| slot_of(key.as_bytes()) == slot).take(3).collect();
        for key in folded.iter().map(String::as_str).chain(["{t}:1", "elsewhere"]) {
            driver.raw(&[b"SET", key.as_bytes(), b"v"]);
        }
        assert_eq!(driver.ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), Value::Integer(4), "{}", binary.name());
        let keys = driver.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
        let mut keys: Vec<String> = keys.elements().unwrap().iter().map(text).collect();
        keys.sort();
        let mut expected = folded.clone();
        expected.push("{t}:1".to_owned());
        expected.sort();
        assert_eq!(keys, expected, "{}", binary.name());
        assert_eq!(driver.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 2")).elements().unwrap().len(), 2);
        assert_eq!(driver.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 0")).elements().unwrap().len(), 0);
        for (command, error) in [
            ("COUNTKEYSINSLOT 16384", "ERR Invalid slot"),
            ("COUNTKEYSINSLOT x", "ERR value is not an integer or out of range"),
            ("GETKEYSINSLOT 1 -1", "ERR Invalid slot or number of keys"),
        ] {
            assert_eq!(driver.ask(&format!("CLUSTER {command}")), Value::Error(error.into()), "{command}");
        }
    });
}

/// A node that has all slots stands for a single server.
#[test]
fn keys_of_a_slot_are_logical_before_one_server_too() {
    let binary = found().remove(0);
    let cluster = Cluster::start(&binary, 1, 0, &Options::default()).unwrap();
    let layout = layout();
    let mut driver = Driver::new(&cluster, &layout, Front { before_cluster: false, ..announced(&cluster) });
    for id in 0..3000 {
        driver.raw(&[b"SET", format!("n:{id}").as_bytes(), b"v"]);
    }
    let slot = slot_of(b"n:1");
    let mut expected: Vec<String> =
        (0..3000).map(|id| format!("n:{id}")).filter(|key| slot_of(key.as_bytes()) == slot).collect();
    let number = Value::Integer(i64::try_from(expected.len()).unwrap());
    assert_eq!(driver.ask(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), number);
    let keys = driver.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
    let mut keys: Vec<String> = keys.elements().unwrap().iter().map(text).collect();
    keys.sort();
    expected.sort();
    assert_eq!(keys, expected);
    assert_eq!(driver.ask(&format!("CLUSTER GETKEYSINSLOT {slot} 1")).elements().unwrap().len(), 1);
}

#[test]
fn who_is_told_of_no_cluster_sees_none() {
    let binary = found().remove(0);
    let cluster = Cluster::start(&binary, 1, 0, &Options::default()).unwrap();
    let layout = layout();
    let mut driver = Driver::plain(&cluster, &layout);
    for command in ["CLUSTER SLOTS", "CLUSTER INFO", "CLUSTER MYID", "READONLY", "READWRITE", "ASKING", "CLUSTERSCAN 0"]
    {
        assert_eq!(
            driver.ask(command),
            Value::Error(b"ERR This instance has cluster support disabled".to_vec()),
            "{command}"
        );
    }
    driver.ask("MULTI");
    assert!(driver.ask("SCAN 0").is_error());
}
