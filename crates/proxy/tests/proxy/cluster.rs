//! A cluster behind the proxy is one server to its clients, whatever happens to its slots and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::admin::{COPY_KEY, LAYOUT_KEY, home, witness};
use keyfold_core::layout::{Attempt, Layout};
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::cluster::{Failover, Options, key_in, slot_of};
use keyfold_testkit::servers::{Binary, each, newest_and_others};
use keyfold_testkit::{Cluster, Value, Wire};

use crate::stage::{address, call, commands, eventually};

const USERS: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";

fn users() -> Layout {
    Layout::parse_file(USERS).unwrap().with_attempt(Attempt(1))
}

/// A cluster with a layout in force, and a proxy before it.
pub(crate) fn stage(binary: &Binary, primaries: usize, replicas_each: usize) -> (Cluster, Handle) {
    let cluster = Cluster::start(binary, primaries, replicas_each, &Options::default()).unwrap();
    let owner = cluster.owner(home().number()).unwrap();
    cluster.node(owner).server().put_in_force(&users()).unwrap();
    let mut config = Config::new(cluster.url(0).parse().unwrap(), users());
    config.listen.push("127.0.0.1:0".parse().unwrap());
    config.threads = Some(2.try_into().unwrap());
    let proxy = start(config).unwrap();
    eventually("it serves", || call(&mut connect(&proxy), "GET user:1") == "$-1\r\n");
    (cluster, proxy)
}

pub(crate) fn connect(proxy: &Handle) -> Wire {
    Wire::connect(address(proxy)).unwrap()
}

pub(crate) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// The keys that a whole SCAN shows.
fn scan_all(wire: &mut Wire, pattern: &str) -> BTreeSet<String> {
    let (mut cursor, mut keys) = ("0".to_owned(), BTreeSet::new());
    loop {
        let answer = call(wire, &format!("SCAN {cursor} MATCH {pattern} COUNT 50"));
        let mut lines = answer.lines().filter(|line| !line.starts_with(['*', '$']));
        cursor = lines.next().unwrap().to_owned();
        assert!(cursor.parse::<u64>().unwrap() < 1 << 53, "{cursor}");
        keys.extend(lines.map(str::to_owned));
        if cursor == "0" {
            return keys;
        }
    }
}

#[test]
fn a_cluster_is_one_server() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let mut wire = connect(&proxy);
        let mut is = |request: &str, answer: &str| assert_eq!(call(&mut wire, request), answer, "{request}");
        for id in 0..200 {
            is(&format!("SET user:{id} {id}"), "+OK\r\n");
        }
        is("MGET user:1 user:2 none user:199", "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n$3\r\n199\r\n");
        is("EXISTS user:1 user:2 user:1 user:300", ":3\r\n");
        is("DEL user:1 user:2 plain", ":2\r\n");
        is("DBSIZE", ":198\r\n");
        assert_eq!(scan_all(&mut connect(&proxy), "user:*").len(), 198);
        let keys = call(&mut connect(&proxy), "KEYS user:1?");
        assert!(keys.starts_with("*10\r\n"), "{keys}");
        let any = call(&mut connect(&proxy), "RANDOMKEY");
        assert!(any.contains("user:"), "{any}");
        is("MSET a 1 b 2", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
        is("RENAME user:3 user:4", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
        is("MSET {t}a 1 {t}b 2", "+OK\r\n");
        for (request, answer) in [("MULTI", "+OK\r\n"), ("INCR user:5", "+QUEUED\r\n"), ("GET user:5", "+QUEUED\r\n")] {
            is(request, answer);
        }
        is("EXEC", "*2\r\n:6\r\n$1\r\n6\r\n");
        is("MULTI", "+OK\r\n");
        is("MGET user:5 user:6", "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
        is("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        for (request, answer) in [("WATCH user:7", "+OK\r\n"), ("MULTI", "+OK\r\n"), ("SET user:7 x", "+QUEUED\r\n")] {
            is(request, answer);
        }
        assert_eq!(call(&mut connect(&proxy), "SET user:7 y"), "+OK\r\n");
        is("EXEC", "*-1\r\n");
        is("FLUSHALL", "+OK\r\n");
        is("DBSIZE", ":0\r\n");
        is("SET user:8 x", "+OK\r\n");
        assert!(proxy.layout().epoch() == users().epoch(), "the layout outlives a flush");
        let folded = cluster.nodes().iter().any(|node| {
            let keys = String::from_utf8(node.server().connect().unwrap().call(&[b"KEYS", b"~{*"]).unwrap()).unwrap();
            keys.starts_with("*1")
        });
        assert!(folded, "its bucket is in a node");
    });
}

/// Counts up keys of its own, each answer one more than the last; how many were answered so.
fn count_up(mut wire: Wire, client: usize, over: &AtomicBool, answered: &AtomicUsize, slots: &[u16]) {
    let mut counts = BTreeMap::new();
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        round += 1;
        let key = match round % 3 {
            0 => format!("user:{}", client * 100 + round % 50),
            1 => format!("{}:{client}:{}", key_in(slots[round % slots.len()], "plain"), round % 7),
            _ => format!("plain:{client}:{}", round % 50),
        };
        let count = counts.entry(key.clone()).or_insert(0);
        let answer = call(&mut wire, &format!("INCR {key}"));
        *count += 1;
        assert_eq!(answer, format!(":{count}\r\n"), "{key}");
        assert_eq!(call(&mut wire, &format!("GET {key}")), bulk(&count.to_string()), "{key}");
        answered.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs `body` while clients count up.
fn under_load(proxy: &Handle, slots: &[u16], body: impl FnOnce(&dyn Fn())) {
    let over = AtomicBool::new(false);
    let answered: Vec<AtomicUsize> = (0..6).map(|_| AtomicUsize::new(0)).collect();
    let all_go_on = || {
        let before: Vec<usize> = answered.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        eventually("every client is answered", || {
            answered.iter().zip(&before).all(|(count, before)| count.load(Ordering::Relaxed) > before + 20)
        });
    };
    thread::scope(|scope| {
        let _over = SetOnDrop(&over);
        for (client, answered) in answered.iter().enumerate() {
            let (wire, over) = (connect(proxy), &over);
            scope.spawn(move || count_up(wire, client, over, answered, slots));
        }
        all_go_on();
        body(&all_go_on);
    });
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn what_expires_leaves_every_node() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let mut wire = connect(&proxy);
        for id in 0..300 {
            assert_eq!(
                call(&mut wire, &format!("SET user:{id} x PX {}", if id < 200 { 50 } else { 600_000 })),
                "+OK\r\n"
            );
        }
        eventually("all of it is gone", || {
            let held = |node: &keyfold_testkit::cluster::Node| {
                let reply = node.server().connect().unwrap().call(&[b"KEYS", b"~{*"]).unwrap();
                String::from_utf8_lossy(&reply).lines().next().unwrap()[1..].parse::<usize>().unwrap()
            };
            cluster.nodes().iter().map(held).sum::<usize>() == 100
        });
    });
}

#[test]
fn slots_move_and_nobody_notices() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        // Folded keys' slots, in which plain ones lie as well.
        let slots_of_users = (0..600).map(|id| slot_of(format!("user:{id}").as_bytes()));
        let slots: Vec<u16> = slots_of_users.filter(|slot| cluster.owner(*slot).unwrap() != 1).take(12).collect();
        under_load(&proxy, &slots, |all_go_on| {
            let mut wire = connect(&proxy);
            for id in 100_000..100_300 {
                assert_eq!(call(&mut wire, &format!("SET user:{id} x")), "+OK\r\n");
            }
            for slot in &slots {
                let resharding = cluster.begin_reshard(*slot, 1).unwrap();
                cluster.move_keys(resharding, 1).unwrap();
                thread::sleep(Duration::from_millis(30));
                let seen = scan_all(&mut wire, "user:100???").len();
                assert_eq!(seen, 300, "while slot {slot} moves");
                while cluster.move_keys(resharding, 100).unwrap() > 0 {}
                cluster.finish_reshard(resharding).unwrap();
            }
            all_go_on();
            if cluster.atomic_migration().unwrap().is_some() {
                cluster.reshard_atomically(0..=99, 2).unwrap();
                all_go_on();
            }
        });
    });
}

/// Where a slot is by now is learned from its node's word, before anybody asks for the whole map.
#[test]
fn what_is_for_all_nodes_reaches_each_though_its_first_slot_has_moved() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let mut wire = connect(&proxy);
        let at_home = cluster.owner(home().number()).unwrap();
        for from in (0..3).filter(|node| *node != at_home) {
            let first = cluster.owners().unwrap().iter().position(|owner| *owner == from).unwrap();
            let slot = u16::try_from(first).unwrap();
            let key = key_in(slot, "plain");
            assert_eq!(call(&mut wire, &format!("SET {key} x")), "+OK\r\n");
            let resharding = cluster.begin_reshard(slot, at_home).unwrap();
            while cluster.move_keys(resharding, 100).unwrap() > 0 {}
            cluster.finish_reshard(resharding).unwrap();
            assert_eq!(call(&mut wire, &format!("GET {key}")), bulk("x"));
        }
        for id in 0..200 {
            assert_eq!(call(&mut wire, &format!("SET user:{id} x")), "+OK\r\n");
            assert_eq!(call(&mut wire, &format!("SET plain:{id} x")), "+OK\r\n");
        }
        assert_eq!(call(&mut wire, "FLUSHALL"), "+OK\r\n");
        let mut direct = cluster.node(at_home).server().connect().unwrap();
        let layout = direct.ask(&[b"EXISTS", LAYOUT_KEY, COPY_KEY]).unwrap();
        assert_eq!(layout, Value::Integer(2), "{}: keyfold's own keys stay", binary.name());
        assert_eq!(call(&mut wire, "DBSIZE"), ":0\r\n", "{}", binary.name());
    });
}

#[test]
fn a_clean_failover_costs_nobody_an_answer() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 1);
        under_load(&proxy, &[7], |all_go_on| {
            for replica in 3..6 {
                cluster.fail_over(replica, Failover::Clean).unwrap();
                all_go_on();
            }
        });
    });
}

#[test]
fn a_primary_that_is_killed_takes_only_its_own_with_it() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, 3, 1);
        let owner_of = |cluster: &Cluster, key: &str| cluster.owner(slot_of(key.as_bytes())).unwrap();
        let keys: Vec<String> = (0..60).map(|id| format!("user:{id}")).collect();
        let mut wire = connect(&proxy);
        for key in &keys {
            assert_eq!(call(&mut wire, &format!("SET {key} 1")), "+OK\r\n");
        }
        let victim = owner_of(&cluster, &keys[0]);
        let others: Vec<&String> = keys.iter().filter(|key| owner_of(&cluster, key) != victim).collect();
        cluster.kill(victim).unwrap();
        for key in others.iter().cycle().take(300) {
            assert_eq!(call(&mut wire, &format!("INCRBY {key} 0")), ":1\r\n", "{key}");
        }
        let lost = call(&mut wire, &format!("SET {} 2", keys[0]));
        assert!(lost.starts_with("-CLUSTERDOWN ") || lost.starts_with("-ERR keyfold: ") || lost == "+OK\r\n", "{lost}");
        cluster.wait_for_successor(victim).unwrap();
        eventually("its slots are served again", || {
            call(&mut connect(&proxy), &format!("SET {} 3", keys[0])) == "+OK\r\n"
        });
        assert_eq!(call(&mut connect(&proxy), &format!("GET {}", keys[0])), bulk("3"));
    });
}

#[test]
fn what_has_a_connection_of_its_own_follows_its_slot() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let list = "queue";
        let slot = slot_of(list.as_bytes());
        let from = cluster.owner(slot).unwrap();
        let (mut waiting, mut listening) = (connect(&proxy), connect(&proxy));
        waiting.send(&[b"BLPOP", list.as_bytes(), b"0"]).unwrap();
        assert_eq!(call(&mut listening, "SSUBSCRIBE queue"), "*3\r\n$10\r\nssubscribe\r\n$5\r\nqueue\r\n:1\r\n");
        assert_eq!(call(&mut connect(&proxy), "SPUBLISH queue x"), ":1\r\n");
        assert!(String::from_utf8(listening.reply().unwrap()).unwrap().contains("smessage"));
        let blocked = || {
            let text =
                String::from_utf8(cluster.node(from).server().connect().unwrap().call(&[b"CLIENT", b"LIST"]).unwrap());
            text.unwrap().contains("cmd=blpop")
        };
        eventually("it waits", blocked);

        cluster.reshard(slot, (from + 1) % 3).unwrap();
        // Who listened is closed, and begins anew where the slot is now.
        let mut ended = listening.reply();
        while ended.is_ok() {
            ended = listening.reply();
        }
        eventually("one can subscribe", || {
            let mut again = connect(&proxy);
            again.send(&[b"SSUBSCRIBE", b"queue"]).is_ok() && again.reply().is_ok()
        });
        eventually("it is answered", || call(&mut connect(&proxy), "RPUSH queue v").starts_with(':'));
        assert_eq!(String::from_utf8(waiting.reply().unwrap()).unwrap(), "*2\r\n$5\r\nqueue\r\n$1\r\nv\r\n");

        // A WATCH whose slot moves is not trusted, and the connection serves on.
        let mut wire = connect(&proxy);
        assert_eq!(call(&mut wire, "WATCH queue"), "+OK\r\n");
        cluster.reshard(slot, from).unwrap();
        assert_eq!(call(&mut wire, "MULTI"), "+OK\r\n");
        assert_eq!(call(&mut wire, "RPUSH queue w"), "+QUEUED\r\n");
        let answer = call(&mut wire, "EXEC");
        assert!(
            answer == "*-1\r\n" || answer.starts_with("-TRYAGAIN ") || answer.starts_with("-CROSSSLOT"),
            "{answer}"
        );
        assert_eq!(call(&mut wire, "LLEN queue"), ":0\r\n");
    });
}

/// A client has one connection of its own, which large answers go by: it goes from node to node, and leaves none of them behind.
#[test]
fn large_answers_of_several_nodes_come_whole_in_one_pipeline() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let owners = cluster.owners().unwrap();
        let slot_at = |node| u16::try_from(owners.iter().position(|owner| *owner == node).unwrap()).unwrap();
        let lists: Vec<String> = (0..3).map(|node| key_in(slot_at(node), "list")).collect();
        let mut wire = connect(&proxy);
        let numbers: Vec<String> = (10_000..30_000).map(|number: u32| number.to_string()).collect();
        for list in &lists {
            assert_eq!(call(&mut wire, &format!("RPUSH {list} {}", numbers.join(" "))), ":20000\r\n");
        }
        let whole = call(&mut wire, &format!("LRANGE {} 0 -1", lists[0]));
        let answers = |wire: &mut Wire, requests: &[(String, &str)]| {
            wire.send_bytes(&commands(&requests.iter().map(|(request, _)| request.as_str()).collect::<Vec<_>>()))
                .unwrap();
            for (request, answer) in requests {
                let said = wire.reply().unwrap_or_else(|error| panic!("{}: {request}: {error}", binary.name()));
                assert!(said == answer.as_bytes(), "{}: {request}: {} bytes", binary.name(), said.len());
            }
        };
        let range = |list: &String| (format!("LRANGE {list} 0 -1"), whole.as_str());
        let script =
            |list: &String| (format!("EVAL return(redis.call('LRANGE',KEYS[1],0,-1)) 1 {list}"), whole.as_str());
        let set = |node: usize| (format!("SET {} 1", key_in(slot_at(node), "other")), "+OK\r\n");
        for _ in 0..10 {
            let mut fresh = connect(&proxy);
            answers(&mut fresh, &lists.iter().map(script).collect::<Vec<_>>());
            answers(&mut fresh, &lists.iter().chain(lists.iter().rev()).map(range).collect::<Vec<_>>());
            answers(&mut fresh, &[range(&lists[0]), set(1), range(&lists[2]), set(0), script(&lists[1])]);
            answers(&mut wire, &[range(&lists[2]), range(&lists[0]), range(&lists[0]), set(2), set(1)]);
        }

        // What its old node leads elsewhere goes there, and leaves what is behind it its own.
        let moving = key_in(slot_at(0) + 1, "list");
        answers(&mut wire, &[(format!("RPUSH {moving} {}", numbers.join(" ")), ":20000\r\n"), range(&moving)]);
        let is_at = |id: &u32, node| owners[usize::from(slot_of(format!("user:{id}").as_bytes()))] == node;
        let users: Vec<u32> = (0..3).map(|node| (0..).find(|id| is_at(id, node)).unwrap()).collect();
        let mut said = [0; 3];
        for (from, to) in [(0, 1), (1, 2), (2, 0), (0, 2), (2, 1)] {
            cluster.reshard(slot_of(moving.as_bytes()), to).unwrap();
            // Of a folded key, in several round trips.
            let count = |said: &mut [i32; 3]| {
                said[from] += 1;
                (
                    format!("EVAL return(redis.call('INCR',KEYS[1])) 1 user:{}", users[from]),
                    format!(":{}\r\n", said[from]),
                )
            };
            let counted = [count(&mut said), count(&mut said)];
            let [first, second] = [0, 1].map(|at| (counted[at].0.clone(), counted[at].1.as_str()));
            let stays = || range(&lists[from]);
            answers(
                &mut wire,
                &[range(&moving), first, stays(), range(&moving), second, stays(), range(&lists[to]), stays()],
            );
        }
    });
}

/// What a node says under a key that lies in this slot.
fn held(cluster: &Cluster, slot: u16, key: &[u8]) -> String {
    let owner = cluster.owner(slot).unwrap();
    String::from_utf8(cluster.node(owner).server().connect().unwrap().call(&[b"GET", key]).unwrap()).unwrap()
}

/// Whether every witness says what the home does.
fn all_say_the_same(cluster: &Cluster) -> bool {
    let home = held(cluster, home().number(), LAYOUT_KEY);
    home != "$-1\r\n" && witness::slots().all(|slot| held(cluster, slot.number(), &witness::key(slot)) == home)
}

#[test]
fn a_layout_that_the_home_loses_is_put_back_everywhere() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        eventually("the witnesses know", || all_say_the_same(&cluster));
        let mut wire = connect(&proxy);
        assert_eq!(call(&mut wire, "SET user:1 x"), "+OK\r\n");
        let owner = cluster.owner(home().number()).unwrap();
        cluster.node(owner).server().connect().unwrap().call(&[b"DEL", LAYOUT_KEY, COPY_KEY]).unwrap();
        eventually("it is put back", || proxy.layout().epoch() > users().epoch() && all_say_the_same(&cluster));
        assert_eq!(call(&mut wire, "GET user:1"), bulk("x"));
        for slot in witness::slots() {
            let owner = cluster.owner(slot.number()).unwrap();
            cluster.node(owner).server().connect().unwrap().call(&[b"DEL", &witness::key(slot)]).unwrap();
        }
        eventually("the witnesses know again", || all_say_the_same(&cluster));
    });
}

/// A connection of a member that hangs is closed before another layout is in force, also one to a replica: that may be a
/// primary later.
#[test]
fn what_is_put_back_waits_for_members_on_every_node() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 1);
        eventually("the witnesses know", || all_say_the_same(&cluster));
        let owner = cluster.owner(home().number()).unwrap();
        let mut members: Vec<Wire> = (0..6)
            .map(|node| {
                let mut wire = cluster.node(node).server().connect().unwrap();
                assert_eq!(call(&mut wire, "CLIENT SETNAME keyfold:00ff"), "+OK\r\n");
                wire
            })
            .collect();
        cluster.node(owner).server().connect().unwrap().call(&[b"DEL", LAYOUT_KEY, COPY_KEY]).unwrap();
        eventually("it is put back", || proxy.layout().epoch() > users().epoch() && all_say_the_same(&cluster));
        for (node, member) in members.iter_mut().enumerate() {
            assert!(member.call(&[b"PING"]).is_err(), "{binary:?}: node {node} closes it");
        }
    });
}

#[test]
fn connections_come_while_the_home_is_away() {
    each(&newest_and_others().0, |binary| {
        let (mut cluster, proxy) = stage(binary, 3, 0);
        eventually("the witnesses know", || all_say_the_same(&cluster));
        let owner = cluster.owner(home().number()).unwrap();
        let elsewhere = (0..).map(|n| format!("list:{n}")).find(|key| {
            let slot = slot_of(key.as_bytes());
            cluster.owner(slot).unwrap() != owner
        });
        let mut wire = connect(&proxy);
        // The cluster's nodes take it for whole for a while: longer than this takes.
        cluster.freeze(owner).unwrap();
        let answer = call(&mut wire, &format!("BLPOP {} 0.01", elsewhere.unwrap()));
        cluster.wake(owner).unwrap();
        assert_eq!(answer, "*-1\r\n");
    });
}

#[test]
fn what_waits_for_the_layout_in_vain_is_told_to_try_later() {
    each(&newest_and_others().0, |binary| {
        let mut cluster = Cluster::start(binary, 3, 0, &Options::default()).unwrap();
        cluster.put_in_force(&users()).unwrap();
        let owner = cluster.owner(home().number()).unwrap();
        let mut config = Config::new(cluster.url((owner + 1) % 3).parse().unwrap(), users());
        config.listen.push("127.0.0.1:0".parse().unwrap());
        cluster.freeze(owner).unwrap();
        let proxy = start(config).unwrap();
        // Cluster clients try again on this code, and on no other that keyfold could say it with.
        for command in ["SET user:1 x", "BLPOP list 0.1"] {
            eventually("it is said", || {
                call(&mut connect(&proxy), command).starts_with("-CLUSTERDOWN keyfold: not carried out: ")
            });
        }
        cluster.wake(owner).unwrap();
        eventually("it serves", || call(&mut connect(&proxy), "SET user:1 x") == "+OK\r\n");
    });
}

#[test]
fn a_blocked_client_is_unblocked_wherever_it_waits() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let (mut me, mut waiting) = (connect(&proxy), connect(&proxy));
        let id = call(&mut waiting, "CLIENT ID")[1..].trim_end().to_owned();
        let mut unblock = |reason: &str| {
            eventually("it is unblocked", || call(&mut me, &format!("CLIENT UNBLOCK {id}{reason}")) == ":1\r\n");
        };
        for key in ["a", "b", "c", "d"] {
            waiting.send(&[b"BLPOP", key.as_bytes(), b"0"]).unwrap();
            unblock("");
            assert_eq!(waiting.reply().unwrap(), b"*-1\r\n");
            waiting.send(&[b"BLPOP", key.as_bytes(), b"0"]).unwrap();
            unblock(" ERROR");
            assert!(waiting.reply().unwrap().starts_with(b"-UNBLOCKED "));
        }
        // What it waits for moves to another node.
        waiting.send(&[b"BLPOP", b"a", b"0"]).unwrap();
        let blocked = |node: usize| {
            let list = cluster.node(node).server().connect().unwrap().call(&[b"CLIENT", b"LIST"]).unwrap();
            String::from_utf8(list).unwrap().contains("cmd=blpop")
        };
        let slot = slot_of(b"a");
        let from = cluster.owner(slot).unwrap();
        eventually("it waits", || blocked(from));
        cluster.reshard(slot, (from + 1) % 3).unwrap();
        eventually("it waits there", || blocked((from + 1) % 3));
        unblock("");
        assert_eq!(waiting.reply().unwrap(), b"*-1\r\n");
        assert_eq!(call(&mut waiting, "PING"), "+PONG\r\n");
    });
}

/// The time within which 99 of 100 of so many requests are answered, of clients whose keys are at one node.
fn p99_at(proxy: &Handle, keys: &[String]) -> Duration {
    let all: Vec<Duration> = thread::scope(|scope| {
        let client = |_| {
            let mut wire = connect(proxy);
            scope.spawn(move || {
                let ask = |key: &String| {
                    let since = Instant::now();
                    assert_eq!(call(&mut wire, &format!("INCRBY {key} 0")), ":0\r\n", "{key}");
                    since.elapsed()
                };
                keys.iter().cycle().take(400).map(ask).collect::<Vec<_>>()
            })
        };
        let clients: Vec<_> = (0..4).map(client).collect();
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    });
    let mut sorted = all;
    sorted.sort_unstable();
    sorted[sorted.len() * 99 / 100]
}

#[test]
fn a_node_that_stands_still_holds_up_no_other_nodes_keys() {
    each(&newest_and_others().0[..1], |binary| {
        let (mut cluster, proxy) = stage(binary, 3, 0);
        let owner_of = |id: usize| cluster.owner(slot_of(format!("user:{id}").as_bytes())).unwrap();
        let (frozen, others): (Vec<usize>, Vec<usize>) = (0..60).partition(|id| owner_of(*id) == 2);
        let others: Vec<String> = others.iter().map(|id| format!("user:{id}")).collect();
        let without = p99_at(&proxy, &others);
        cluster.freeze(2).unwrap();
        // Clients of its keys wait, each with many requests.
        let mut waiting: Vec<Wire> = (0..8).map(|_| connect(&proxy)).collect();
        for wire in &mut waiting {
            for id in frozen.iter().cycle().take(100) {
                wire.send(&[b"GET", format!("user:{id}").as_bytes()]).unwrap();
            }
        }
        let with = p99_at(&proxy, &others);
        cluster.wake(2).unwrap();
        // The machine's other work is in both.
        assert!(
            with < without * 2 + Duration::from_millis(20),
            "{with:?} with a node that stands still, {without:?} without"
        );
    });
}

#[test]
fn answers_that_leave_together_do_not_wait_for_a_node_that_stands_still() {
    each(&newest_and_others().0[..1], |binary| {
        let (mut cluster, proxy) = stage(binary, 3, 0);
        let key_of = |node: usize| {
            let key = (0..)
                .map(|id| format!("user:{id}"))
                .find(|key| cluster.owner(slot_of(key.as_bytes())).unwrap() == node);
            key.expect("there are enough users")
        };
        let (there, frozen) = (key_of(0), key_of(2));
        let mut wire = connect(&proxy);
        assert_eq!(call(&mut wire, &format!("SET {there} 1")), "+OK\r\n");
        cluster.freeze(2).unwrap();
        wire.send_bytes(&commands(&[&format!("GET {there}"), &format!("GET {frozen}")])).unwrap();
        assert_eq!(wire.reply().unwrap(), b"$1\r\n1\r\n");
        let since = Instant::now();
        let given_up = String::from_utf8(wire.reply().unwrap()).unwrap();
        assert!(given_up.starts_with('-'), "{given_up}");
        assert!(since.elapsed() > Duration::from_millis(500), "both came together");
        cluster.wake(2).unwrap();
    });
}

#[test]
fn a_script_on_a_long_value_does_all_or_nothing_while_the_slot_moves() {
    each(&newest_and_others().0, |binary| {
        let (cluster, proxy) = stage(binary, 3, 0);
        let mut wire = connect(&proxy);
        let slot = slot_of(b"user:7");
        let mut in_slot = (8..).map(|id| format!("user:{id}")).filter(|key| slot_of(key.as_bytes()) == slot);
        let long: Vec<String> = in_slot.by_ref().take(3).collect();
        let text = "x".repeat(5000);
        for key in &long {
            assert_eq!(call(&mut wire, &format!("SET {key} {text}")), "+OK\r\n");
        }
        let resharding = cluster.begin_reshard(slot, (cluster.owner(slot).unwrap() + 1) % 3).unwrap();
        let script: [&[u8]; 4] =
            [b"EVAL", b"redis.call('INCR', KEYS[1]) return redis.call('STRLEN', KEYS[2])", b"2", b"user:7"];
        let (mut counted, mut refused) = (0, 0);
        loop {
            for key in &long {
                match wire.ask(&[&script[..], &[key.as_bytes()]].concat()).unwrap() {
                    Value::Integer(5000) => counted += 1,
                    Value::Error(error) if error.starts_with(b"TRYAGAIN keyfold: a script waits") => refused += 1,
                    other => panic!("{other:?}"),
                }
                // What is in the bucket alone never waits.
                assert_eq!(call(&mut wire, "EVAL redis.call('INCR',KEYS[1]) 1 user:7"), "$-1\r\n");
                counted += 1;
                assert_eq!(call(&mut wire, "GET user:7"), bulk(&counted.to_string()));
            }
            if cluster.move_keys(resharding, 1).unwrap() == 0 {
                break;
            }
        }
        cluster.finish_reshard(resharding).unwrap();
        assert!((1..=9).contains(&refused), "{refused}");
        assert_eq!(call(&mut wire, "GET user:7"), bulk(&counted.to_string()));
    });
}
