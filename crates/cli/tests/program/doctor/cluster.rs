//! The doctor over the nodes of a cluster.

use std::process::Command;

use keyfold_testkit::cluster::{Cluster, Options};
use keyfold_testkit::servers::newest_and_others;
use serde_json::Value;

fn doctor(url: &str) -> (Option<i32>, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_keyfold")).args(["doctor", url, "--json"]).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    (output.status.code(), report.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr))))
}

#[test]
fn each_node_is_looked_at_and_those_unlike_the_others_are_named() {
    for binary in newest_and_others().0 {
        let mut cluster = Cluster::start(&binary, 2, 0, &Options::default()).unwrap();
        let (code, report) = doctor(&cluster.url(0));
        assert_eq!((code, report["nodes"].as_array().unwrap().len()), (Some(0), 2), "{report:#}");
        assert_eq!(report["notes"].as_array().unwrap().len(), 0, "{report:#}");

        // A new node without slots, with lower limits; a slot on its way there, with a key that is a table at its source.
        let idle = cluster.add(&["--hash-max-listpack-value", "32"]).unwrap();
        let mut client = cluster.client();
        let long = "v".repeat(100);
        client.call(b"{hot}:hash", &[b"HSET", b"{hot}:hash", b"f", long.as_bytes()]).unwrap();
        for number in 0..1200 {
            let key = format!("{{hot}}:{number}");
            client.call(key.as_bytes(), &[b"SET", key.as_bytes(), b"1"]).unwrap();
        }
        let slot = keyfold_testkit::cluster::slot_of(b"{hot}");
        let owner = cluster.owner(slot).unwrap();
        let _half_way = cluster.begin_reshard(slot, idle).unwrap();
        let (code, report) = doctor(&cluster.url(1));
        assert_eq!((code, report["nodes"].as_array().unwrap().len()), (Some(3), 3), "{report:#}");
        let notes = report["notes"].to_string();
        let address = |node: usize| cluster.node(node).address().to_string();
        assert!(notes.contains("hash-max-listpack-value is 32") && notes.contains(&address(idle)), "{notes}");
        assert!(notes.contains("on their way") && notes.contains("hash tag {hot}"), "{notes}");
        let nodes = report["nodes"].as_array().unwrap();
        let of =
            |node: usize| nodes.iter().find(|one| one["server"]["url"].to_string().contains(&address(node))).unwrap();
        assert!(of(owner)["problems"].as_u64().unwrap() > 0, "{report:#}");
    }
}
