//! A cluster's replicas: reads from them, that nothing is missed by it, and WAIT.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::admin::{COPY_KEY, LAYOUT_KEY, home};
use keyfold_core::cluster::ReadFrom;
use keyfold_core::layout::{Attempt, Layout};
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::cluster::{Cut, Failover, Options, slot_of};
use keyfold_testkit::servers::{Binary, Flavor, Version, each, newest_and_others};
use keyfold_testkit::{Cluster, Wire};

use crate::stage::{address, call, commands, eventually};

const COLLECTIONS: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\nvalue_limit = 64\n\
    [[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { count = 1 }\n\
    [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 1 }\n";

const USERS: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\nvalue_limit = 64\n";

pub(crate) const KEYS: usize = 120;

/// Three primaries, a replica of each, and a proxy; all keys are written, and replicas are read from where they are to be.
fn stage(binary: &Binary, from: ReadFrom) -> (Cluster, Handle) {
    let cluster = Cluster::start(binary, 3, 1, &Options::default()).unwrap();
    let proxy = serve_before(&cluster, from);
    if from != ReadFrom::Primary {
        until_read_from(&proxy, 3);
    }
    (cluster, proxy)
}

/// A proxy before the cluster, through which all keys are written.
pub(crate) fn serve_before(cluster: &Cluster, from: ReadFrom) -> Handle {
    serve_with(USERS, cluster, from)
}

fn serve_with(layout: &str, cluster: &Cluster, from: ReadFrom) -> Handle {
    let layout = Layout::parse_file(layout).unwrap().with_attempt(Attempt(1));
    cluster.put_in_force(&layout).unwrap();
    let mut config = Config::new(cluster.url(0).parse().unwrap(), layout);
    config.listen.push("127.0.0.1:0".parse().unwrap());
    config.read_from = from;
    config.max_replica_lag = Duration::from_secs(5);
    let proxy = start(config).unwrap();
    eventually("it serves", || call(&mut connect(&proxy), "GET user:1") == "$-1\r\n");
    let mut wire = connect(&proxy);
    for id in 0..KEYS {
        assert_eq!(call(&mut wire, &format!("SET user:{id} {}", value(id))), "+OK\r\n");
        assert_eq!(call(&mut wire, &format!("SET plain:{id} {}", value(id))), "+OK\r\n");
    }
    proxy
}

pub(crate) fn connect(proxy: &Handle) -> Wire {
    Wire::connect(address(proxy)).unwrap()
}

/// A key's value: every tenth is spilled.
pub(crate) fn value(id: usize) -> String {
    if id.is_multiple_of(10) { format!("{id:0>100}") } else { format!("v{id}") }
}

pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The lines of INFO on replicas.
pub(crate) fn shown(proxy: &Handle) -> Vec<String> {
    let info = call(&mut connect(proxy), "INFO keyfold");
    info.lines().filter(|line| line.starts_with("keyfold_replica_")).map(str::to_owned).collect()
}

/// Waits until so many replicas are read from, and there are connections to them.
pub(crate) fn until_read_from(proxy: &Handle, replicas: usize) {
    eventually("replicas are read from", || {
        let mut wire = connect(proxy);
        (0..KEYS).for_each(|id| assert_eq!(call(&mut wire, &format!("GET user:{id}")), bulk(&value(id))));
        shown(proxy).iter().filter(|line| !line.contains("unfit=") && !line.contains(",reads=0,")).count() == replicas
    });
}

/// How often a node carried out these commands.
pub(crate) fn calls(cluster: &Cluster, node: usize, commands: &[&str]) -> usize {
    let info = cluster.node(node).text(&["INFO", "commandstats"]).unwrap();
    let of = |command: &&str| {
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))?;
        line.split(',').next()?.parse::<usize>().ok()
    };
    commands.iter().filter_map(of).sum()
}

pub(crate) fn reset_counts(cluster: &Cluster) {
    (0..6).for_each(|node| drop(cluster.node(node).call(&["CONFIG", "RESETSTAT"]).unwrap()));
}

/// Reads all keys at once, then some by commands of many keys.
fn read_each_once(wire: &mut Wire) {
    for id in 0..KEYS {
        wire.send(&[b"GET", format!("user:{id}").as_bytes()]).unwrap();
        wire.send(&[b"STRLEN", format!("plain:{id}").as_bytes()]).unwrap();
    }
    for id in 0..KEYS {
        assert_eq!(String::from_utf8(wire.reply().unwrap()).unwrap(), bulk(&value(id)));
        assert_eq!(String::from_utf8(wire.reply().unwrap()).unwrap(), format!(":{}\r\n", value(id).len()));
    }
    let keys: Vec<String> = (0..20).map(|id| format!("user:{id}")).collect();
    let answer = format!("*20\r\n{}", (0..20).map(|id| bulk(&value(id))).collect::<String>());
    assert_eq!(call(wire, &format!("MGET {}", keys.join(" "))), answer);
    assert_eq!(call(wire, &format!("EXISTS {}", keys.join(" "))), ":20\r\n");
}

#[test]
fn reads_go_to_replicas_and_nothing_else_does() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, ReadFrom::Replica);
        let mut wire = connect(&proxy);
        let reads = ["hget", "hmget", "get", "mget", "strlen", "exists"];
        let at = |nodes: std::ops::Range<usize>| nodes.map(|node| calls(&cluster, node, &reads)).sum::<usize>();
        // A replica that a busy machine keeps from answering in time loses some, but not each time.
        eventually("all reads go to replicas, and none to a primary", || {
            reset_counts(&cluster);
            read_each_once(&mut wire);
            at(3..6) >= 2 * KEYS + 40 && at(0..3) == 0
        });

        // A replica's no is not believed.
        assert_eq!(call(&mut wire, "GET user:5000"), "$-1\r\n");
        assert_eq!(call(&mut wire, "EXISTS user:1 user:5000"), ":1\r\n");
        assert_eq!(call(&mut wire, "MGET plain:1 none"), format!("*2\r\n{}$-1\r\n", bulk("v1")));
        assert!(at(0..3) >= 3, "{} at primaries", at(0..3));

        // Nothing that writes, or reads what another command will compare, goes there.
        for (request, answer) in [
            ("SET user:1 x", "+OK\r\n"),
            ("APPEND user:1 y", ":2\r\n"),
            ("GETEX user:1 EX 100", "$2\r\nxy\r\n"),
            ("GETDEL user:2", "$2\r\nv2\r\n"),
            ("INCR user:2", ":1\r\n"),
            ("SADD set a", ":1\r\n"),
            ("WATCH user:1", "+OK\r\n"),
            ("GET user:1", "$2\r\nxy\r\n"),
            ("MULTI", "+OK\r\n"),
            ("GET user:1", "+QUEUED\r\n"),
            ("EXEC", "*1\r\n$2\r\nxy\r\n"),
            ("DUMP user:5000", "$-1\r\n"),
        ] {
            assert_eq!(call(&mut wire, request), answer, "{request}");
        }
        // A client reads behind its own write what it wrote, where both are under way at once.
        for round in 0..200 {
            wire.send_bytes(&commands(&[&format!("SET user:3 {round}"), "GET user:3"])).unwrap();
            assert_eq!(wire.reply().unwrap(), b"+OK\r\n");
            assert_eq!(String::from_utf8(wire.reply().unwrap()).unwrap(), bulk(&round.to_string()));
        }
        for node in 3..6 {
            let errors = cluster.node(node).text(&["INFO", "errorstats"]).unwrap();
            assert!(!errors.contains("READONLY"), "a write came to a replica: {errors}");
        }
        drop(proxy);
    });
}

/// Reads all keys, over and over, each of which is there all the time.
fn read_all(mut wire: Wire, over: &AtomicBool, answered: &AtomicUsize) {
    while !over.load(Ordering::Relaxed) {
        for id in 0..KEYS {
            assert_eq!(call(&mut wire, &format!("GET user:{id}")), bulk(&value(id)), "user:{id}");
            assert_eq!(call(&mut wire, &format!("GET plain:{id}")), bulk(&value(id)), "plain:{id}");
        }
        let keys = call(&mut wire, "EXISTS user:1 user:2 plain:3 plain:4");
        assert_eq!(keys, ":4\r\n");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `body` while clients read; it is given what waits until each has read all twice.
fn under_readers(proxy: &Handle, body: impl FnOnce(&dyn Fn())) {
    struct SetOnDrop<'a>(&'a AtomicBool);
    impl Drop for SetOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let (over, answered) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; 3]);
    let all_go_on = || {
        let before = answered.each_ref().map(|count| count.load(Ordering::Relaxed));
        let has_gone_on = || answered.iter().zip(&before).all(|(now, before)| now.load(Ordering::Relaxed) > before + 2);
        eventually("every reader goes on", has_gone_on);
    };
    thread::scope(|scope| {
        let _over = SetOnDrop(&over);
        for answered in &answered {
            let (wire, over) = (connect(proxy), &over);
            scope.spawn(move || read_all(wire, over, answered));
        }
        all_go_on();
        body(&all_go_on);
    });
}

#[test]
fn no_key_is_missed_at_a_replica() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, ReadFrom::Replica);
        let (before, read_from) = (proxy.layout().epoch(), || until_read_from(&proxy, 3));
        under_readers(&proxy, |all_go_on| {
            // A slot that is left key by key: the source's replica has lost keys that the target has.
            for id in [1, 2, 3] {
                let slot = slot_of(format!("user:{id}").as_bytes());
                let target = (cluster.owner(slot).unwrap() + 1) % 3;
                let resharding = cluster.begin_reshard(slot, target).unwrap();
                cluster.move_keys(resharding, 1).unwrap();
                all_go_on();
                while cluster.move_keys(resharding, 100).unwrap() > 0 {}
                all_go_on();
                cluster.finish_reshard(resharding).unwrap();
            }
            all_go_on();
            // Another layout in force.
            let owner = cluster.owner(home().number()).unwrap();
            cluster.node(owner).server().connect().unwrap().call(&[b"DEL", LAYOUT_KEY, COPY_KEY]).unwrap();
            eventually("it is put back", || proxy.layout().epoch() > before);
            all_go_on();
            read_from();
            // Primaries and replicas change places.
            cluster.fail_over(3, Failover::Clean).unwrap();
            all_go_on();
            read_from();
        });
    });
}

#[test]
fn a_replica_that_is_unfit_is_left() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, ReadFrom::Replica);
        let why = |text: &str| shown(&proxy).iter().any(|line| line.contains(text));
        under_readers(&proxy, |all_go_on| {
            // It can't come back to its primary, and what it has grows old.
            cluster.node(3).call(&["CONFIG", "SET", "masterauth", "wrong"]).unwrap();
            let lost = |cluster: &Cluster| {
                cluster.node(3).text(&["INFO", "replication"]).unwrap().contains("link_status:down")
            };
            (0..3).for_each(|node| drop(cluster.node(node).call(&["CLIENT", "KILL", "TYPE", "replica"]).unwrap()));
            eventually("its link is down", || lost(&cluster));
            eventually("it is said", || why("unfit=it is not connected to its primary"));
            all_go_on();
            cluster.node(3).call(&["CONFIG", "SET", "masterauth", ""]).unwrap();
            until_read_from(&proxy, 3);

            cluster.freeze(4).unwrap();
            let since = Instant::now();
            all_go_on();
            assert!(since.elapsed() < Duration::from_secs(20), "{:?} while a replica was frozen", since.elapsed());
            eventually("it is said", || shown(&proxy).iter().filter(|line| line.contains("unfit=")).count() == 1);
            cluster.wake(4).unwrap();
            until_read_from(&proxy, 3);
            cluster.kill(5).unwrap();
            all_go_on();
        });
    });
}

/// Sets, hashes and answers that tell of members one by one are the primary's, however far its replicas are behind.
#[test]
fn of_members_one_by_one_no_replica_is_asked() {
    each(&newest_and_others().0, |binary| {
        let options = Options { relays: true, ..Options::default() };
        let mut cluster = Cluster::start(binary, 3, 1, &options).unwrap();
        let proxy = serve_with(COLLECTIONS, &cluster, ReadFrom::Replica);
        until_read_from(&proxy, 3);
        let mut wire = connect(&proxy);
        for (request, answer) in [
            ("SADD tags:1 old", ":1\r\n"),
            ("HSET sess:1 f old g old", ":2\r\n"),
            ("SADD set old", ":1\r\n"),
            ("HSET hash f old g old", ":2\r\n"),
            ("ZADD ranks 1 f 1 g", ":2\r\n"),
            ("GEOADD places 1 1 f 1 1 g", ":2\r\n"),
        ] {
            assert_eq!(call(&mut wire, request), answer, "{request}");
        }
        let requests = [
            ("SMISMEMBER tags:1 old new", "*2\r\n:0\r\n:1\r\n"),
            ("SISMEMBER tags:1 new", ":1\r\n"),
            ("SMEMBERS tags:1", "*1\r\n$3\r\nnew\r\n"),
            ("SCARD tags:1", ":1\r\n"),
            ("HMGET sess:1 f g", "*2\r\n$3\r\nnew\r\n$3\r\nold\r\n"),
            ("HGET sess:1 f", "$3\r\nnew\r\n"),
            ("HLEN sess:1", ":3\r\n"),
            ("HSTRLEN sess:1 h", ":6\r\n"),
            ("SMISMEMBER set old new", "*2\r\n:0\r\n:1\r\n"),
            ("HMGET hash f g", "*2\r\n$3\r\nnew\r\n$3\r\nold\r\n"),
            ("ZMSCORE ranks f g", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n"),
            ("GEOHASH places f g", "*2\r\n$11\r\ns037ms06g70\r\n$11\r\ns00twy01mt0\r\n"),
        ];
        let replicas = 3..6;
        replicas.clone().for_each(|replica| cluster.cut(replica, Cut::Nodes).unwrap());
        for request in ["SMOVE tags:1 tags:1 old", "SADD tags:1 new", "SREM tags:1 old", "HSET sess:1 f new h longer"] {
            assert!(call(&mut wire, request).starts_with(':'), "{request}");
        }
        for request in ["SADD set new", "SREM set old", "HSET hash f new", "ZADD ranks 2 f", "GEOADD places 2 2 f"] {
            assert!(call(&mut wire, request).starts_with(':'), "{request}");
        }
        reset_counts(&cluster);
        for (request, answer) in requests {
            assert_eq!(call(&mut wire, request), answer, "{request}");
        }
        replicas.clone().for_each(|replica| cluster.heal(replica));
        let names = ["hget", "hmget", "hlen", "smismember", "smembers", "scard", "zmscore", "geohash"];
        let asked: usize = replicas.map(|replica| calls(&cluster, replica, &names)).sum();
        assert_eq!(asked, 0, "replicas were asked");
    });
}

/// A node without replicas gets a slot, and what is written of it before it has it: nobody has a copy of that.
#[test]
fn wait_counts_no_replica_for_what_went_ahead_with_its_slot() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, ReadFrom::Primary);
        let (ahead, other) = ("{ahead}:1", "{ahead}:2");
        let slot = slot_of(b"ahead");
        let mut wire = connect(&proxy);
        assert_eq!(call(&mut wire, &format!("SET {ahead} x")), "+OK\r\n");
        assert_eq!(call(&mut wire, "WAIT 1 20000"), ":1\r\n");
        let added = cluster.add(&[]).unwrap();
        let resharding = cluster.begin_reshard(slot, added).unwrap();
        cluster.move_keys(resharding, usize::MAX).unwrap();
        assert_eq!(call(&mut wire, &format!("SET {ahead} y")), "+OK\r\n");
        assert_eq!(call(&mut wire, "WAIT 1 50"), ":0\r\n", "{}: it went ahead", binary.name());
        let mut new = connect(&proxy);
        assert_eq!(call(&mut new, &format!("SET {other} x")), "+OK\r\n");
        assert_eq!(call(&mut new, "WAIT 1 50"), ":0\r\n", "{}: it is new there", binary.name());
        let mut bystander = connect(&proxy);
        assert_eq!(call(&mut bystander, "SET elsewhere x"), "+OK\r\n");
        assert_eq!(call(&mut new, "GET {ahead}:none"), "$-1\r\n");
        assert_eq!(call(&mut bystander, "WAIT 1 20000"), ":1\r\n", "{}: it wrote nothing there", binary.name());
        cluster.take_back_reshard(resharding).unwrap();
        assert_eq!(call(&mut new, &format!("GET {other}")), bulk("x"));
        assert_eq!(call(&mut new, "WAIT 1 20000"), ":1\r\n", "{}: it is back", binary.name());
        // What is begun and ended again has led clients there, too.
        let resharding = cluster.begin_reshard(slot, added).unwrap();
        assert_eq!(call(&mut new, "GET {ahead}:none"), "$-1\r\n");
        cluster.take_back_reshard(resharding).unwrap();
        assert_eq!(call(&mut new, "WAIT 1 20000"), ":1\r\n", "{}: nothing is on its way", binary.name());
    });
}

/// Redis has it since 7.2, and Valkey always.
fn knows_waitaof(binary: &Binary) -> bool {
    let since = Version { major: 7, minor: 2, patch: 0 };
    binary.flavor() == Flavor::Valkey || binary.version() >= since
}

#[test]
fn wait_counts_the_replicas_that_have_what_the_client_wrote() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, ReadFrom::Primary);
        let owner_of = |cluster: &Cluster, key: &str| cluster.owner(slot_of(key.as_bytes())).unwrap();
        let here = "user:1".to_owned();
        let there =
            (0..KEYS).map(|id| format!("user:{id}")).find(|key| owner_of(&cluster, key) != owner_of(&cluster, &here));
        let there = there.unwrap();
        let frozen = cluster.replicas_of(owner_of(&cluster, &there)).unwrap()[0];
        let (mut wire, mut other) = (connect(&proxy), connect(&proxy));
        assert_eq!(call(&mut wire, "WAIT 1 20000"), ":1\r\n", "it wrote nothing");
        assert_eq!(call(&mut wire, &format!("SET {here} x")), "+OK\r\n");
        cluster.freeze(frozen).unwrap();
        assert_eq!(call(&mut wire, "WAIT 1 20000"), ":1\r\n", "what it wrote is not there");
        assert_eq!(call(&mut other, &format!("SET {there} x")), "+OK\r\n");
        assert_eq!(call(&mut other, "WAIT 1 50"), ":0\r\n");
        assert_eq!(call(&mut wire, &format!("SET {there} y")), "+OK\r\n");
        assert_eq!(call(&mut wire, "WAIT 1 50"), ":0\r\n", "of two it is the fewest");
        if knows_waitaof(binary) {
            assert_eq!(call(&mut wire, "WAITAOF 0 1 50"), "*2\r\n:0\r\n:0\r\n");
        } else {
            assert!(call(&mut wire, "WAITAOF 0 1 50").starts_with("-ERR unknown command 'WAITAOF'"));
        }
        // Who waits holds up nobody else, and may go.
        wire.send(&[b"WAIT", b"1", b"0"]).unwrap();
        assert_eq!(call(&mut other, &format!("GET {there}")), bulk("y"));
        drop(wire);
        cluster.wake(frozen).unwrap();
        assert_eq!(call(&mut other, "WAIT 1 20000"), ":1\r\n");
        assert!(call(&mut other, "WAIT 1 x").starts_with("-ERR"));
        // Its slots go to another node: that may be any.
        let (slot, to) = (slot_of(there.as_bytes()), owner_of(&cluster, &here));
        cluster.reshard(slot, to).unwrap();
        assert_eq!(call(&mut other, &format!("GET {there}")), bulk("y"));
        assert_eq!(call(&mut other, "WAIT 1 20000"), ":1\r\n");
        for node in 0..3 {
            let left = cluster.node(node).server().connect().unwrap().call(&[b"KEYS", b"keyfold:*wait*"]).unwrap();
            assert_eq!(left, b"*0\r\n");
        }
    });
}
