//! Other commands over all slots.

use std::collections::BTreeSet;

use keyfold_testkit::cluster::{Options, slot_of};
use keyfold_testkit::{Cluster, Value};

use crate::driver::{layout, text};
use crate::{Driver, each, found};

#[test]
fn the_keyspace_of_a_cluster_is_one() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let name = binary.name();
        assert_eq!(driver.ask("RANDOMKEY"), Value::Nil, "{name}");
        assert_eq!(driver.ask("DBSIZE"), Value::Integer(0));
        assert_eq!(driver.ask("KEYS *"), Value::Array(vec![]));
        // One key on one node.
        driver.ask("SET n:1 x");
        for _ in 0..20 {
            assert_eq!(text(&driver.ask("RANDOMKEY")), "n:1", "{name}");
        }
        let mut keys = BTreeSet::from(["n:1".to_owned()]);
        for id in 2..300 {
            let key = if id % 2 == 0 { format!("n:{id}") } else { format!("{{p{}}}:{id}", id % 7) };
            driver.raw(&[b"SET", key.as_bytes(), b"v"]);
            keys.insert(key);
        }
        assert_eq!(driver.ask("DBSIZE"), Value::Integer(299), "{name}");
        let listed: Vec<String> = driver.ask("KEYS *").elements().unwrap().iter().map(text).collect();
        assert_eq!(listed.len(), 299, "{name}: each once");
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), keys);
        assert_eq!(driver.ask("KEYS n:29?").elements().unwrap().len(), 5);
        let drawn: BTreeSet<String> = (0..100).map(|_| text(&driver.ask("RANDOMKEY"))).collect();
        assert!(drawn.len() > 20 && drawn.is_subset(&keys), "{name}: {drawn:?}");
        let owners: BTreeSet<usize> = drawn.iter().map(|key| cluster.owner(slot_of(key.as_bytes())).unwrap()).collect();
        assert_eq!(owners.len(), 3, "{name}: of all nodes");
        let info = text(&driver.ask("INFO"));
        assert!(info.contains("cluster_enabled:0\r\n") && info.contains("_mode:standalone\r\n"), "{info}");
        assert!(info.contains("db0:keys=299,"), "{info}");
    });
}

/// While a slot moves, its keys are those of both nodes.
#[test]
fn a_slot_on_its_way_is_one() {
    each(&found(), |binary| {
        let cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        let layout = layout();
        let mut driver = Driver::plain(&cluster, &layout);
        let slot = slot_of(b"t");
        for number in 0..50 {
            driver.raw(&[b"SET", format!("{{t}}:{number}").as_bytes(), b"v"]);
        }
        let folded = (0..).map(|id| format!("n:{id}")).find(|key| slot_of(key.as_bytes()) == slot).unwrap();
        driver.raw(&[b"SET", folded.as_bytes(), b"v"]);
        let target = (cluster.owner(slot).unwrap() + 1) % 3;
        let resharding = cluster.begin_reshard(slot, target).unwrap();
        for moved in [0, 10, 30, 100] {
            cluster.move_keys(resharding, moved).unwrap();
            assert_eq!(driver.ask("DBSIZE"), Value::Integer(51), "{} {moved}", binary.name());
            assert_eq!(driver.ask("KEYS *").elements().unwrap().len(), 51, "{} {moved}", binary.name());
        }
        cluster.finish_reshard(resharding).unwrap();
        assert_eq!(driver.ask("DBSIZE"), Value::Integer(51));
    });
}
