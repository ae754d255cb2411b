//! A layout is put in force on a cluster: members on any node stop or are shut out, witnesses say what is in force, and
//! whatever happens to a node, nothing is half done.
#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking")]

use std::time::Duration;

use keyfold_core::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY, home, witness};
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_server::layout::activate::{activate, settle};
use keyfold_server::layout::stored;
use keyfold_server::{Nodes, Server, Target};
use keyfold_testkit::cluster::{Cluster, Options};
use keyfold_testkit::servers::newest_and_others;
use keyfold_testkit::{Wire, found};

fn target(cluster: &Cluster, node: usize) -> Target {
    Target::from(cluster.url(node).parse::<keyfold_proxy::address::ServerAddress>().unwrap())
}

/// A namespace of this name, after what there is.
fn with(before: Option<&Layout>, name: &str) -> Layout {
    let there = before.map_or_else(String::new, Layout::to_file);
    let text =
        format!("{there}\n[[namespace]]\nkeys = '{name}:{{id:int}}'\ncluster = true\nbucket = {{ count = 4 }}\n");
    Layout::merge(before, &LayoutFile::parse(&text).unwrap()).unwrap().layout
}

/// Puts another namespace in force beside what is, as tools do by way of this node.
fn add(cluster: &Cluster, seed: usize, name: &str) -> anyhow::Result<Layout> {
    let mut nodes = Nodes::connect(&target(cluster, seed))?;
    let before = stored::read(nodes.home())?;
    let layout = with(before.as_ref().map(|stored| &stored.layout), name);
    activate(nodes.home(), before.as_ref(), &layout)
}

fn held(cluster: &Cluster, key: &[u8], slot: u16) -> Option<Vec<u8>> {
    let owner = cluster.owner(slot).unwrap();
    cluster.node(owner).call_bytes(&[b"GET", key]).unwrap().bytes().map(<[u8]>::to_vec)
}

fn in_force(cluster: &Cluster) -> Option<Vec<u8>> {
    held(cluster, LAYOUT_KEY, home().number())
}

fn assert_all_say(cluster: &Cluster, layout: &Layout) {
    let text = Some(layout.to_stored().into_bytes());
    assert_eq!(in_force(cluster), text);
    for slot in witness::slots() {
        assert_eq!(held(cluster, &witness::key(slot), slot.number()), text, "the witness in slot {slot}");
    }
}

fn owner_of_home(cluster: &Cluster) -> usize {
    cluster.owner(home().number()).unwrap()
}

/// A member that never answers, with a connection to this node.
fn silent_member(cluster: &Cluster, node: usize) -> Wire {
    let mut wire = cluster.node(node).connect().unwrap();
    assert_eq!(wire.call(&[b"CLIENT", b"SETNAME", b"keyfold:00ff"]).unwrap(), b"+OK\r\n");
    wire
}

#[test]
fn a_layout_is_put_in_force_from_any_node_and_who_is_silent_is_shut_out_on_all() {
    for binary in newest_and_others().0 {
        let cluster = Cluster::start(&binary, 3, 1, &Options::default()).unwrap();
        let first = add(&cluster, 0, "user").unwrap();
        assert_all_say(&cluster, &first);
        let mut members: Vec<Wire> = (0..6).map(|node| silent_member(&cluster, node)).collect();
        let second = add(&cluster, 1, "cart").unwrap();
        assert_all_say(&cluster, &second);
        assert!(second.epoch() > first.epoch());
        for member in &mut members {
            assert!(member.call(&[b"PING"]).is_err(), "{binary:?}: primaries and replicas close it");
        }
    }
}

#[test]
fn a_primary_that_is_away_stops_a_change_and_is_named() {
    let options = Options { node_timeout: Duration::from_secs(60), ..Options::default() };
    let mut cluster = Cluster::start(&found().remove(0), 3, 0, &options).unwrap();
    let first = add(&cluster, 0, "user").unwrap();
    let at_home = owner_of_home(&cluster);
    let other = (at_home + 1) % 3;
    let mut nodes = Nodes::connect(&target(&cluster, at_home)).unwrap();
    let before = stored::read(nodes.home()).unwrap();
    let address = cluster.node(other).address().to_string();
    cluster.kill(other).unwrap();
    let error = format!("{:#}", activate(nodes.home(), before.as_ref(), &with(Some(&first), "cart")).unwrap_err());
    assert!(error.contains(&address) && error.contains("is away"), "{error}");
    let mut wire = cluster.node(at_home).connect().unwrap();
    assert!(wire.ask(&[b"GET", LAYOUT_KEY]).unwrap().bytes() == Some(first.to_stored().as_bytes()));
    cluster.restart(other).unwrap();
    cluster.wait_until_settled().unwrap();
    let second = add(&cluster, at_home, "cart").unwrap();
    assert_all_say(&cluster, &second);
}

#[test]
fn a_primary_that_dies_during_a_change_leaves_what_was_in_force() {
    let options = Options { node_timeout: Duration::from_secs(60), ..Options::default() };
    let mut cluster = Cluster::start(&found().remove(0), 3, 0, &options).unwrap();
    let first = add(&cluster, 0, "user").unwrap();
    let at_home = owner_of_home(&cluster);
    let other = (at_home + 1) % 3;
    let others: Vec<_> = witness::slots().filter(|slot| cluster.owner(slot.number()).unwrap() != other).collect();
    // Whoever changes the layout waits for this one.
    let mut member = silent_member(&cluster, at_home);
    let (way, after) = (target(&cluster, at_home), with(Some(&first), "cart"));
    let change = std::thread::spawn(move || {
        let mut nodes = Nodes::connect(&way).unwrap();
        let before = stored::read(nodes.home()).unwrap();
        activate(nodes.home(), before.as_ref(), &after).map(drop).map_err(|error| format!("{error:#}"))
    });
    while member.call(&[b"EXISTS", CHANGE_KEY]).unwrap() == b":0\r\n" {}
    cluster.kill(other).unwrap();
    let error = change.join().unwrap().unwrap_err();
    assert!(error.contains(&cluster.node(other).address().to_string()), "{error}");
    let text = Some(first.to_stored().into_bytes());
    let get = |key: &[u8], slot| {
        let node = (0..3).find(|node| *node != other && cluster.node(*node).myself().unwrap().owns(slot)).unwrap();
        cluster.node(node).call_bytes(&[b"GET", key]).unwrap().bytes().map(<[u8]>::to_vec)
    };
    assert_eq!(get(LAYOUT_KEY, home().number()), text);
    for slot in others {
        assert_eq!(get(&witness::key(slot), slot.number()), text, "the witness in slot {slot} is released");
    }
}

#[test]
fn the_homes_slot_goes_to_another_node() {
    for binary in newest_and_others().0 {
        let cluster = Cluster::start(&binary, 3, 0, &Options::default()).unwrap();
        let first = add(&cluster, 0, "user").unwrap();
        let (slot, from) = (home().number(), owner_of_home(&cluster));
        let to = (from + 1) % 3;
        let resharding = cluster.begin_reshard(slot, to).unwrap();
        cluster.move_keys(resharding, 1).unwrap();
        let error = format!("{:#}", add(&cluster, 0, "cart").unwrap_err());
        assert!(error.contains("TRYAGAIN") || error.contains("ASK"), "{binary:?}: {error}");
        while cluster.move_keys(resharding, 100).unwrap() > 0 {}
        cluster.finish_reshard(resharding).unwrap();
        cluster.wait_for_owner(slot, to).unwrap();
        assert_all_say(&cluster, &first);
        let second = add(&cluster, from, "cart").unwrap();
        assert_all_say(&cluster, &second);
    }
}

#[test]
fn the_slot_of_a_witness_that_is_being_moved_holds_up_nothing() {
    let cluster = Cluster::start(&found().remove(0), 3, 0, &Options::default()).unwrap();
    add(&cluster, 0, "user").unwrap();
    let slot = witness::slots().next().unwrap().number();
    let resharding = cluster.begin_reshard(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
    cluster.move_keys(resharding, 100).unwrap();
    let second = add(&cluster, 0, "cart").unwrap();
    cluster.finish_reshard(resharding).unwrap();
    cluster.wait_until_settled().unwrap();
    assert_all_say(&cluster, &second);
}

#[test]
fn a_slot_of_each_node_that_is_being_moved_holds_up_nothing() {
    for binary in newest_and_others().0 {
        let cluster = Cluster::start(&binary, 3, 0, &Options::default()).unwrap();
        add(&cluster, 0, "user").unwrap();
        let begin = |node: usize| {
            let first = *cluster.node(node).myself().unwrap().slots[0].start();
            cluster.begin_reshard(first, (node + 1) % 3).unwrap()
        };
        let on_their_way: Vec<_> = (0..3).map(begin).collect();
        let second = add(&cluster, 0, "cart").unwrap();
        on_their_way.into_iter().for_each(|resharding| cluster.finish_reshard(resharding).unwrap());
        assert_all_say(&cluster, &second);
    }
}

#[test]
fn what_only_witnesses_know_is_put_forward() {
    let cluster = Cluster::start(&found().remove(0), 3, 0, &Options::default()).unwrap();
    let first = add(&cluster, 0, "user").unwrap();
    let second = add(&cluster, 0, "cart").unwrap();
    // The home lost the last change.
    let (at_home, older) = (owner_of_home(&cluster), first.to_stored().into_bytes());
    for key in [LAYOUT_KEY, COPY_KEY] {
        cluster.node(at_home).call_bytes(&[b"SET", key, &older]).unwrap();
    }
    let mut server = Server::connect_to_node(&target(&cluster, at_home)).unwrap();
    let before = stored::read(&mut server).unwrap();
    let refused = activate(&mut server, before.as_ref(), &with(Some(&first), "shop")).unwrap_err().to_string();
    assert!(refused.contains("was set back"), "{refused}");
    settle(&mut server).unwrap();
    let united = stored::read(&mut server).unwrap().unwrap().layout;
    assert!(united.epoch() > second.epoch() && united.namespaces().len() == 2, "{}", united.to_file());
    assert_all_say(&cluster, &united);
    // One that was lost is written again, and nothing is changed.
    let slot = witness::slots().next().unwrap();
    let owner = cluster.owner(slot.number()).unwrap();
    cluster.node(owner).call_bytes(&[b"DEL", &witness::key(slot)]).unwrap();
    settle(&mut server).unwrap();
    assert_all_say(&cluster, &united);
}
