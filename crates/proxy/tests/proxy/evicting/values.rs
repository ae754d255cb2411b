//! Each key is there with its value or absent, whoever writes it how, and nothing is left over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, Physical, spill_name};
use keyfold_testkit::load::{CacheClient, Report};
use keyfold_testkit::{Server, Wire, found, found_with_redis_7};

use super::{Cached, MB, WAYS, cached, info, send_all, words};
use crate::stage::{address, eventually, reaches};

const KEYS_OF_ONE: u64 = 30_000;

/// Clients at work, each with keys of its own of all kinds.
pub(super) struct Clients {
    clients: Vec<CacheClient>,
    pub(super) vanished: Arc<AtomicU64>,
}

impl Clients {
    pub(super) fn new(count: u64) -> Self {
        let vanished = Arc::default();
        let names = |client: u64| {
            (0..KEYS_OF_ONE).map(move |key| {
                let kind = ["user", "cart", "zip", "own", "user"][usize::try_from(key % 5).unwrap()];
                format!("{kind}:{}", client * KEYS_OF_ONE + key).into_bytes()
            })
        };
        let clients = (0..count).map(|client| CacheClient::new(client, names(client), &vanished)).collect();
        Self { clients, vanished }
    }

    /// The same with commands on one key alone.
    pub(super) fn on_single_keys(count: u64) -> Self {
        let mut all = Self::new(count);
        all.clients.iter_mut().for_each(CacheClient::keep_to_single_keys);
        all
    }

    /// Lets them work until `body` is done.
    pub(super) fn work(&mut self, addresses: &[SocketAddr], body: impl FnOnce(&AtomicU64)) {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            for client in &mut self.clients {
                let stop = &stop;
                scope.spawn(move || client.work(addresses, stop));
            }
            body(&self.vanished);
        });
    }

    /// Reads all their keys; what they met so far.
    pub(super) fn check(&mut self, wire: &mut Wire) -> Report {
        self.check_but(wire, |_| false)
    }

    /// The same where some of what is wrong is to be expected.
    pub(super) fn check_but(&mut self, wire: &mut Wire, is_expected: impl Fn(&str) -> bool) -> Report {
        let mut report = Report::default();
        for client in &mut self.clients {
            client.check(wire);
            report.extend(client.take_report());
        }
        report.wrong.retain(|wrong| !is_expected(wrong));
        let wrong: Vec<_> = report.wrong.iter().take(5).collect();
        let evicted = text_of_line(&info(wire, "stats"), "evicted_keys:");
        assert!(report.wrong.is_empty(), "{} wrong, {evicted} by the server, as {wrong:#?}", report.wrong.len());
        report
    }
}

/// What stands behind this at the beginning of a line.
fn text_of_line(text: &str, begins: &str) -> String {
    text.lines().find_map(|line| line.strip_prefix(begins)).unwrap_or_default().to_owned()
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Waits until so many more keys were found gone.
pub(super) fn until_vanished(vanished: &AtomicU64, more: u64) {
    let wanted = vanished.load(Ordering::Relaxed) + more;
    reaches("keys leave", wanted, || vanished.load(Ordering::Relaxed));
}

/// Spilled values that no field points to and that stay, and fields whose spilled value is gone.
pub(super) fn leftovers(server: &Server, layout: &Layout) -> Vec<String> {
    let mut wire = server.connect().unwrap();
    let list = |value: keyfold_testkit::Value| -> Vec<Vec<u8>> {
        value.elements().unwrap().iter().map(|one| one.bytes().unwrap().to_vec()).collect()
    };
    let (mut held, mut spills) = (Vec::new(), Vec::new());
    for name in list(wire.ask(&[b"KEYS", b"~*"]).unwrap()) {
        match layout.read_physical(&name) {
            Physical::Spill { .. } if call_ttl(&mut wire, &name) == -1 => spills.push(name),
            Physical::Bucket(namespace) => {
                for pair in list(wire.ask(&[b"HGETALL", &name]).unwrap()).chunks(2) {
                    let Body::Spill { nonce, .. } = Frame::decode(&pair[1]).unwrap().body else { continue };
                    let key = layout.key_of(namespace, &name, &pair[0]).unwrap();
                    held.push(spill_name(Layout::origin_of(&name).unwrap(), nonce, &key));
                }
            }
            _ => {}
        }
    }
    let orphans =
        spills.iter().filter(|name| !held.contains(name)).map(|name| format!("orphan {}", name.escape_ascii()));
    let lost = held.iter().filter(|name| !spills.contains(name)).map(|name| format!("lost {}", name.escape_ascii()));
    orphans.chain(lost).collect()
}

fn call_ttl(wire: &mut Wire, name: &[u8]) -> i64 {
    wire.ask(&[b"TTL", name]).unwrap().integer().unwrap()
}

/// Each key is right or absent, the server has evicted nothing, and nothing is left over.
pub(super) fn assert_right(stage: &Cached, clients: &mut Clients) {
    let report = clients.check(&mut stage.connect());
    assert!(report.errors.is_empty() && report.lost == 0, "{:?}, {} lost", report.errors, report.lost);
    stage.assert_server_kept_out();
    assert_clean(stage);
}

/// Nothing is left over once what was under way has come to its end.
pub(super) fn assert_clean(stage: &Cached) {
    let layout = stage.proxy.layout();
    let mut left = Vec::new();
    eventually("nothing is left over", || {
        left = leftovers(&stage.server, &layout);
        left.is_empty()
    });
}

#[test]
fn each_key_is_there_with_its_value_or_absent() {
    for binary in found_with_redis_7() {
        let stage = cached(&binary, WAYS, 6 * MB);
        let mut clients = Clients::new(4);
        clients.work(&[address(&stage.proxy)], |_| {
            reaches("many leave", 8_000, || stage.evicted());
        });
        assert_right(&stage, &mut clients);
        let vanished = clients.vanished.load(Ordering::Relaxed);
        assert!(vanished > 1_500, "{vanished} were found gone");
    }
}

/// What a client sends behind a read is nothing that the read may answer, also where it finds that the value was evicted.
#[test]
fn a_read_of_what_has_left_doesnt_answer_what_its_client_writes_behind_it() {
    for binary in found() {
        let stage = cached(&binary, WAYS, 64 * MB);
        let (mut wire, mut direct) = (stage.connect(), stage.server.connect().unwrap());
        let long = "x".repeat(100);
        for reads in ["GET user:1", "MGET user:1", "GETRANGE user:1 0 -1", "STRLEN user:1"] {
            assert_eq!(wire.call(&[b"SET", b"user:1", long.as_bytes()]).unwrap(), b"+OK\r\n");
            let names = direct.ask(&[b"KEYS", b"~*:user:1"]).unwrap();
            let spills: Vec<_> = names.elements().unwrap().iter().filter_map(|name| name.bytes()).collect();
            assert_eq!(direct.call(&[&[&b"UNLINK"[..]], spills.as_slice()].concat()).unwrap(), b":1\r\n", "{spills:?}");
            let replies = send_all(&mut wire, [words(reads), words("SET user:1 new"), words("GET user:1")]);
            let absent: &[&[u8]] = &[b"$-1\r\n", b"*1\r\n$-1\r\n", b"$0\r\n\r\n", b":0\r\n"];
            assert!(absent.contains(&&replies[0][..]), "{reads}: {}", replies[0].escape_ascii());
            assert_eq!(replies[1..], [b"+OK\r\n".to_vec(), b"$3\r\nnew\r\n".to_vec()], "{reads}");
        }
    }
}
