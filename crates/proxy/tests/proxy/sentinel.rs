//! Sentinels say where the server is, and it becomes another.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::layout::{Attempt, Layout, LayoutFile};
use keyfold_proxy::{Config, Handle, start};
use keyfold_testkit::sentinel::Options;
use keyfold_testkit::servers::{Binary, each, newest_and_others};
use keyfold_testkit::{Sentinels, Wire};

use crate::stage::{address, call, change_layout, eventually};

const USERS: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\n";

/// How soon clients are answered again once a Sentinel names the new primary.
const SOON: Duration = Duration::from_secs(1);

/// A proxy by this URL, with the defaults of connections.
fn config_by(url: &str, layout: &Layout) -> Config {
    let mut config = Config::new(url.parse().unwrap(), layout.clone());
    config.listen.push("127.0.0.1:0".parse().unwrap());
    config.threads = Some(2.try_into().unwrap());
    config
}

fn users() -> Layout {
    Layout::parse_file(USERS).unwrap().with_attempt(Attempt(1))
}

/// Sentinels over a primary with a layout, and a proxy before it.
fn stage(binary: &Binary, options: &Options) -> (Sentinels, Handle) {
    let sentinels = Sentinels::start_with(binary, 3, options).unwrap();
    sentinels.server(0).put_in_force(&users()).unwrap();
    let proxy = start(config_by(&sentinels.url(), &users())).unwrap();
    eventually("it serves", || call(&mut connect(&proxy), "GET user:1") == "$-1\r\n");
    (sentinels, proxy)
}

fn connect(proxy: &Handle) -> Wire {
    Wire::connect(address(proxy)).unwrap()
}

fn one_replica() -> Options {
    Options { replicas: 1, ..Options::default() }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// What a proxy says that it knows of the primary.
fn known(wire: &mut Wire) -> String {
    let info = call(wire, "INFO keyfold");
    info.lines().find_map(|line| line.strip_prefix("keyfold_primary:")).unwrap_or_default().to_owned()
}

/// Sets and reads keys of its own until told to stop. No answer may be another key's; how many were right.
fn load(mut wire: Wire, client: usize, over: &AtomicBool, answered: &AtomicUsize) {
    let mut round = 0;
    while !over.load(Ordering::Relaxed) {
        round += 1;
        let id = client * 1000 + round % 10;
        let value = format!("{id}-{round}");
        let set = call(&mut wire, &format!("SET user:{id} {value}"));
        let get = call(&mut wire, &format!("GET user:{id}"));
        let refused = |answer: &str| answer.starts_with("-ERR keyfold: the ") || answer.starts_with("-READONLY");
        assert!(set == "+OK\r\n" || refused(&set), "{set}");
        // What was written before the failover may be gone with the primary that had it.
        let own = get.lines().nth(1).is_some_and(|value| value.starts_with(&format!("{id}-")));
        assert!(own || get == "$-1\r\n" || refused(&get), "{get}");
        if set == "+OK\r\n" && get == bulk(&value) {
            answered.fetch_add(1, Ordering::Relaxed);
        } else {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn clients_follow_a_failover() {
    each(&newest_and_others().0, follow_a_failover);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn clients_follow_a_failover_on_all_others() {
    each(&newest_and_others().1, follow_a_failover);
}

fn follow_a_failover(binary: &Binary) {
    let (mut sentinels, proxy) = stage(binary, &one_replica());
    let over = AtomicBool::new(false);
    let answered: Vec<AtomicUsize> = (0..8).map(|_| AtomicUsize::new(0)).collect();
    let all_answered_again = || {
        let before: Vec<usize> = answered.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        eventually("every client is answered", || {
            answered.iter().zip(&before).all(|(count, before)| count.load(Ordering::Relaxed) > *before + 5)
        });
    };
    thread::scope(|scope| {
        // However this ends: else the load would go on for ever.
        let _over = SetOnDrop(&over);
        for (client, answered) in answered.iter().enumerate() {
            let (wire, over) = (connect(&proxy), &over);
            scope.spawn(move || load(wire, client, over, answered));
        }
        all_answered_again();
        let mut waiting = connect(&proxy);
        waiting.send(&[b"BLPOP", b"never", b"0"]).unwrap();

        // By command: the one that was the primary lives on, and takes writes until a Sentinel tells it otherwise.
        let first = thread::scope(|scope| {
            let sentinels = &sentinels;
            let followed = scope.spawn(|| time_to_follow(sentinels, 0, &proxy));
            sentinels.connect(0).unwrap().ask(&[b"SENTINEL", b"FAILOVER", b"main"]).unwrap();
            followed.join().unwrap()
        });
        eprintln!("{}: told to fail over: {first}", binary.name());
        let left = sentinels.server(0);
        eventually("nobody is left on the one before", || {
            !call(&mut left.connect().unwrap(), "CLIENT LIST").contains("name=keyfold:")
        });
        all_answered_again();
        // Who waited there was told, or cut off.
        let told = waiting.reply().map(|reply| String::from_utf8(reply).unwrap());
        assert!(told.as_ref().is_ok_and(|told| told.starts_with('-')) || told.is_err(), "{told:?}");

        sentinels.wait_until_settled().unwrap();
        sentinels.kill_server(1);
        let second = time_to_follow(&sentinels, 1, &proxy);
        eprintln!("{}: killed: {second}", binary.name());
        all_answered_again();
        assert!(first.known < SOON && second.known < SOON, "{}: {first}, {second}", binary.name());
    });
    let mut wire = connect(&proxy);
    assert!(known(&mut wire).ends_with("changes=2"), "{}", known(&mut wire));
    assert_eq!(call(&mut wire, "SET user:77 last"), "+OK\r\n");
    assert_eq!(call(&mut wire, "GET user:77"), bulk("last"));
    assert_eq!(call(&mut sentinels.server(0).connect().unwrap(), "EXISTS user:77"), ":0\r\n", "it is folded");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How long after something a write through the proxy was one of the new primary's.
struct Followed {
    promoted: Duration,
    known: Duration,
}

impl fmt::Display for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promoted, known } = self;
        write!(f, "followed {promoted:.1?} after the promotion, {known:.1?} after a Sentinel knew")
    }
}

/// Waits until another server than this one is the primary, until a Sentinel names it, and until a write through the
/// proxy is one of its.
fn time_to_follow(sentinels: &Sentinels, before: usize, proxy: &Handle) -> Followed {
    let successor = 1 - before;
    // Its connections are closed as it is promoted.
    let role = || sentinels.server(successor).connect()?.call(&[b"ROLE"]);
    eventually("it is promoted", || role().is_ok_and(|role| role.starts_with(b"*3\r\n$6\r\nmaster")));
    let promoted = Instant::now();
    let names = |sentinel: usize| matches!(sentinels.named_by(sentinel), Ok(Some(named)) if named == successor);
    eventually("a Sentinel names another", || sentinels.watching().any(names));
    let known_since = Instant::now();
    let port = sentinels.server(successor).port();
    let mut wire = connect(proxy);
    eventually("the proxy follows", || {
        let set = call(&mut wire, "SET user:99999 v");
        set == "+OK\r\n" && known(&mut wire).contains(&format!("address=127.0.0.1:{port},"))
    });
    Followed { promoted: promoted.elapsed(), known: known_since.elapsed() }
}

#[test]
fn a_failover_that_takes_the_layout_back_takes_no_key_for_another() {
    each(&newest_and_others().0, take_the_layout_back);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn a_failover_that_takes_the_layout_back_on_all_others() {
    each(&newest_and_others().1, take_the_layout_back);
}

/// Keys move to other buckets by a change of the layout that the replica never gets.
fn take_the_layout_back(binary: &Binary) {
    let (mut sentinels, proxy) = stage(binary, &one_replica());
    let mut wire = connect(&proxy);
    for id in 0..300 {
        assert_eq!(call(&mut wire, &format!("SET user:{id} a{id}")), "+OK\r\n");
    }
    let mut direct = sentinels.server(0).connect().unwrap();
    assert_eq!(call(&mut direct, "WAIT 1 20000"), ":1\r\n");
    sentinels.freeze_server(1).unwrap();
    assert_eq!(call(&mut direct, "CLIENT KILL TYPE replica"), ":1\r\n");

    let file = LayoutFile::parse(&USERS.replace("64", "32")).unwrap();
    let moving = users().plan_fold(&file).unwrap().layout.with_attempt(Attempt(2));
    change_layout(sentinels.server(0), &users(), &moving);
    eventually("the proxy serves the new layout", || proxy.layout().revision() == moving.revision());
    for id in 0..300 {
        assert_eq!(call(&mut wire, &format!("SET user:{id} b{id}")), "+OK\r\n");
    }
    sentinels.kill_server(0);
    sentinels.wake_server(1).unwrap();
    sentinels.wait_for_successor(0).unwrap();
    eventually("it serves again", || {
        let get = call(&mut wire, "GET user:0");
        assert!(get == bulk("a0") || get.starts_with("-ERR keyfold: "), "{get}");
        get == bulk("a0")
    });
    for id in 0..300 {
        assert_eq!(call(&mut wire, &format!("GET user:{id}")), bulk(&format!("a{id}")));
    }
    for id in 0..400 {
        assert_eq!(call(&mut wire, &format!("SET user:{id} c{id}")), "+OK\r\n");
    }
    for id in 0..400 {
        assert_eq!(call(&mut wire, &format!("GET user:{id}")), bulk(&format!("c{id}")));
        assert_eq!(call(&mut connect(&proxy), &format!("EXISTS user:{id}")), ":1\r\n");
    }
    assert!(proxy.layout().epoch() > moving.epoch(), "it was put forward again as a newer one");
    let info = call(&mut wire, "INFO keyfold");
    assert!(info.contains("put_back=1"), "{info}");
}

#[test]
fn sentinels_that_are_away_or_wrong_are_passed_over() {
    each(&newest_and_others().0, |binary| {
        let (mut sentinels, proxy) = stage(binary, &one_replica());
        let mut wire = connect(&proxy);
        let restart = |wire: &mut Wire, sentinels: &Sentinels| {
            // All connections are lost, and the way is sought anew.
            call(&mut sentinels.server(0).connect().unwrap(), "CLIENT KILL TYPE normal SKIPME yes");
            eventually("it is found again", || call(wire, "SET user:1 v") == "+OK\r\n");
        };
        // A replica, a server that isn't there, and nothing.
        sentinels.mislead(0, sentinels.server(1).address()).unwrap();
        restart(&mut wire, &sentinels);
        sentinels.mislead(0, "127.0.0.1:1".parse().unwrap()).unwrap();
        restart(&mut wire, &sentinels);
        sentinels.forget(0).unwrap();
        restart(&mut wire, &sentinels);
        sentinels.kill_sentinel(0);
        restart(&mut wire, &sentinels);
        // One that has missed a failover names a server that takes writes.
        sentinels.forget(1).unwrap();
        sentinels.kill_sentinel(1);
        restart(&mut wire, &sentinels);
        let port = sentinels.server(0).port();
        assert!(known(&mut wire).starts_with(&format!("address=127.0.0.1:{port},")), "{}", known(&mut wire));
        // All are gone: what is connected goes on, and what isn't says why.
        sentinels.kill_sentinel(2);
        assert_eq!(call(&mut wire, "SET user:1 w"), "+OK\r\n");
        call(&mut sentinels.server(0).connect().unwrap(), "CLIENT KILL TYPE normal SKIPME yes");
        eventually("it says that no Sentinel answers", || {
            let said = call(&mut wire, "GET user:1");
            let addresses = sentinels.addresses().iter().map(ToString::to_string).collect::<Vec<_>>();
            said.contains("no Sentinel answers: 127.0.0.1:")
                && said.contains(": connection refused); trying again")
                && addresses.iter().all(|address| said.matches(address.as_str()).count() == 2)
        });
    });
}

#[test]
fn a_frozen_sentinel_holds_up_nobody() {
    let (mut sentinels, proxy) = stage(&newest_and_others().0[0], &one_replica());
    let mut wire = connect(&proxy);
    // The one that is asked first.
    let named_by = |wire: &mut Wire| {
        let known = known(wire);
        sentinels.addresses().iter().position(|address| known.contains(&format!("named_by={address},")))
    };
    let frozen = named_by(&mut wire).unwrap();
    sentinels.freeze_sentinel(frozen).unwrap();
    let since = Instant::now();
    call(&mut sentinels.server(0).connect().unwrap(), "CLIENT KILL TYPE normal SKIPME yes");
    eventually("it is found again", || call(&mut wire, "SET user:1 v") == "+OK\r\n");
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());

    sentinels.kill_server(0);
    let followed = time_to_follow(&sentinels, 0, &proxy);
    eprintln!("with a Sentinel frozen: {followed}");
    assert!(followed.known < SOON, "{followed}");
}

#[test]
fn sentinels_that_the_first_tells_of_are_asked_when_it_is_gone() {
    let mut sentinels = Sentinels::start_with(&newest_and_others().0[0], 3, &one_replica()).unwrap();
    let addresses = sentinels.addresses();
    let proxy = start(config_by(&format!("sentinel://{}/main", addresses[0]), &Layout::default())).unwrap();
    let mut wire = connect(&proxy);
    eventually("it serves", || call(&mut wire, "SET a 1") == "+OK\r\n");
    let mut others = [addresses[1], addresses[2]];
    others.sort();
    let line = format!("keyfold_sentinels_found:{},{}\r\n", others[0], others[1]);
    eventually("it knows of the others", || call(&mut wire, "INFO keyfold").contains(&line));
    sentinels.kill_sentinel(0);
    sentinels.kill_server(0);
    let followed = time_to_follow(&sentinels, 0, &proxy);
    assert!(followed.known < SOON, "{followed}");
    let info = call(&mut wire, "INFO keyfold");
    assert!(info.contains(&line) && !info.contains(&format!("named_by={}", addresses[0])), "{info}");
}

#[test]
fn a_stranger_that_one_sentinel_names_is_not_followed() {
    let binary = &newest_and_others().0[0];
    let sentinels = Sentinels::start_with(binary, 3, &one_replica()).unwrap();
    let stranger = binary.start(&[]).unwrap();
    sentinels.mislead(0, stranger.address()).unwrap();
    let proxy = start(config_by(&sentinels.url(), &Layout::default())).unwrap();
    let mut wire = connect(&proxy);
    eventually("it serves", || call(&mut wire, "SET a 1") == "+OK\r\n");
    let port = sentinels.server(0).port();
    assert!(known(&mut wire).starts_with(&format!("address=127.0.0.1:{port},")), "{}", known(&mut wire));
}

#[test]
fn a_primary_that_refuses_writes_is_left() {
    let (sentinels, proxy) = stage(&newest_and_others().0[0], &one_replica());
    let mut wire = connect(&proxy);
    assert_eq!(call(&mut wire, "SET user:1 v"), "+OK\r\n");
    // Past the Sentinels, who find out some seconds later. The server keeps its connections.
    let port = sentinels.server(1).port();
    assert_eq!(call(&mut sentinels.server(1).connect().unwrap(), "REPLICAOF NO ONE"), "+OK\r\n");
    let demote = format!("REPLICAOF 127.0.0.1 {port}");
    assert_eq!(call(&mut sentinels.server(0).connect().unwrap(), &demote), "+OK\r\n");
    let refused = call(&mut wire, "SET user:1 v");
    assert!(refused.starts_with("-READONLY") || refused.contains("is not the primary"), "{refused}");
    eventually("it says that the server is a replica", || {
        call(&mut wire, "SET user:1 v").contains(&format!(", a replica of 127.0.0.1:{port}"))
    });
    assert!(known(&mut connect(&proxy)).starts_with("address=none"));
}

#[test]
fn each_error_says_whose_fault_it_is() {
    let binary = &newest_and_others().0[0];
    let options = Options {
        sentinel_password: Some("watch".to_owned()),
        password: Some("secret".to_owned()),
        replicas: 1,
        ..Options::default()
    };
    let sentinels = Sentinels::start_with(binary, 3, &options).unwrap();
    let hosts: Vec<String> = sentinels.addresses().iter().map(ToString::to_string).collect();
    let url = |login: &str, name: &str, query: &str| format!("sentinel://{login}{}/{name}{query}", hosts.join(","));
    let said = |url: &str, answer: &str| {
        let proxy = start(config_by(url, &Layout::default())).unwrap();
        let mut last = String::new();
        eventually(answer, || {
            last = call(&mut connect(&proxy), "GET a");
            last.contains(answer)
        });
    };
    let right = "?sentinel_password=watch";
    said(&url(":secret@", "main", right), "$-1\r\n");
    said(&url("default:secret@", "main", "?sentinel_username=default&sentinel_password=watch"), "$-1\r\n");
    said(&url(":secret@", "main", ""), "the Sentinels refuse to be asked: ");
    said(&url(":secret@", "main", "?sentinel_password=wrong"), "sentinel_password in the URL");
    let port = sentinels.server(0).port();
    said(&url(":wrong@", "main", right), &format!("named 127.0.0.1:{port} (it says: WRONGPASS"));
    said(&url("", "main", right), &format!("named 127.0.0.1:{port} (it says: NOAUTH"));
    said(&url(":secret@", "cache", right), "the Sentinels don't know \"cache\": ");
    said(&url(":secret@", "cache", right), ": known there: main");
    let replica = sentinels.server(1).address();
    (0..3).for_each(|sentinel| sentinels.mislead(sentinel, replica).unwrap());
    said(&url(":secret@", "main", right), "a replica");
}

#[test]
fn servers_are_sought_where_they_can_be_reached() {
    let binary = &newest_and_others().0[0];
    let sentinels =
        Sentinels::start_with(binary, 1, &Options { replicas: 0, quorum: 1, ..Options::default() }).unwrap();
    let elsewhere = binary.start(&[]).unwrap();
    let mut config = config_by(&sentinels.url(), &Layout::default());
    let mapping = format!("{}={}", sentinels.server(0).address(), elsewhere.address());
    std::sync::Arc::make_mut(&mut config.addresses).add(&mapping).unwrap();
    let proxy = start(config).unwrap();
    eventually("it serves", || call(&mut connect(&proxy), "SET a 1") == "+OK\r\n");
    assert_eq!(call(&mut elsewhere.connect().unwrap(), "EXISTS a"), ":1\r\n");
}
