//! `keyfold analyze` over the nodes of a cluster.

use keyfold_testkit::cluster::{Cluster, Options};
use keyfold_testkit::servers::newest_and_others;
use keyfold_testkit::{Wire, found};

use super::{family, fill, json, run, words};

/// Sessions on every node, each written to the node that has it.
fn fill_sessions(cluster: &Cluster, sessions: u32) {
    let mut of_nodes = vec![Vec::new(); cluster.nodes().len()];
    for number in 0..sessions {
        let key = format!("session:{number}:token");
        let owner = cluster.owner(keyfold_testkit::cluster::slot_of(key.as_bytes())).unwrap();
        of_nodes[owner].push(words(&format!("SET {key} {}", u64::from(number) * 1_000_003)));
    }
    for (node, commands) in of_nodes.into_iter().enumerate() {
        let mut wire: Wire = cluster.node(node).connect().unwrap();
        fill(&mut wire, commands.into_iter());
    }
}

#[test]
fn all_nodes_are_looked_at_and_what_each_has_is_said() {
    for binary in newest_and_others().0 {
        let options = Options { password: Some("secret".to_owned()), ..Options::default() };
        let cluster = Cluster::start(&binary, 3, 0, &options).unwrap();
        fill_sessions(&cluster, 9_000);
        let url = cluster.url(1).replace("redis://", "redis://:secret@");
        let report = json(&[&url]);
        let sessions = family(&report, "session:{id:int}:token");
        assert_eq!(sessions["count"], 9_000.0, "{binary:?}: {report:#}");
        let nodes = report["nodes"].as_array().unwrap();
        let sum = |field: &str| nodes.iter().map(|node| node[field].as_u64().unwrap()).sum::<u64>();
        assert_eq!((nodes.len(), sum("slots"), sum("keys")), (3, 16_384, 9_000));
        assert_eq!(report["memory"]["used_bytes"].as_u64().unwrap(), sum("used_bytes"));
        assert!(nodes.iter().all(|node| node["measured_bytes"].as_u64().unwrap() > 100_000), "{nodes:#?}");
        assert!(!report.to_string().contains("secret"), "no password is shown");
        let (code, stdout, _) = run(&[&url]);
        assert_eq!(code, Some(0));
        assert!(nodes.iter().all(|node| stdout.contains(node["address"].as_str().unwrap())), "{stdout}");
        let seen = json(&[&url, "--sample", "900"])["walk"]["seen"].as_u64().unwrap();
        assert!((900..6000).contains(&seen), "{seen}");
    }
}

#[test]
fn nodes_that_do_not_say_where_they_are_are_sought_beside_the_one_that_was_asked() {
    let binary = found().remove(0);
    let options = Options { endpoint: "unknown-endpoint", ..Options::default() };
    let cluster = Cluster::start(&binary, 2, 0, &options).unwrap();
    fill_sessions(&cluster, 500);
    assert_eq!(json(&[&cluster.url(0)])["walk"]["seen"], 500);
}

#[test]
fn a_cluster_that_is_not_whole_is_refused_with_what_to_do() {
    let binary = found().remove(0);
    let options = Options { args: words_of("--cluster-require-full-coverage no"), ..Options::default() };
    let cluster = Cluster::start(&binary, 2, 0, &options).unwrap();
    for node in cluster.nodes() {
        node.call(&["CLUSTER", "DELSLOTS", "0", "1"]).unwrap();
    }
    let (code, _, stderr) = run(&[&cluster.url(0)]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("redis-cli --cluster"), "{stderr}");
}

fn words_of(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}
