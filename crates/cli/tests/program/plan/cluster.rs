//! `keyfold plan` for a cluster: what it promises is what the nodes take.

use std::path::Path;
use std::time::{Duration, Instant};

use keyfold_core::layout::Layout;
use keyfold_core::record::SetsAs;
use keyfold_core::resp::write_command;
use keyfold_core::slot::Slot;
use keyfold_testkit::Binary;
use keyfold_testkit::cluster::{Cluster, Node, Options};
use keyfold_testkit::random::Random;
use keyfold_testkit::servers::{each, newest_and_others};
use serde_json::Value;
use tempfile::TempDir;

use super::{BATCH, family, out, succeed};

/// How far bytes may be from what was promised.
const TOLERANCE_PERCENT: f64 = 2.0;
/// The same of a plan by a third of the keys, from all keys: one slot has a twentieth of them, and may be in it or not.
const SAMPLE_TOLERANCE_PERCENT: f64 = 10.0;
/// At 500 times a second, 16 slots each time, a node's timer is once round.
const ROUND_OF_SLOTS: Duration = Duration::from_millis(2500);
const SETTLES_WITHIN: Duration = Duration::from_secs(90);
/// By so much a node's memory changes while nothing happens.
const STIRS_BYTES: u64 = 4096;
/// When records expire that do: long after the test.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;

/// One logical record.
struct Record {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<i64>,
}

impl Record {
    fn new(key: String, value: String, expires: bool) -> Self {
        Self { key: key.into_bytes(), value: value.into_bytes(), expires_at_ms: expires.then_some(EXPIRES_AT_MS) }
    }
}

/// Sessions of which each slot has some, carts of users whose hash tags keep them together, a queue in one slot,
/// and a few flags.
fn records(many: u64) -> Vec<Record> {
    let mut random = Random::new(many);
    let mut records = Vec::new();
    for _ in 0..many * 7 / 10 {
        let key = format!("sess:{}", uuid(&mut random));
        records.push(Record::new(key, format!("{:024x}", random.bits()), false));
    }
    for item in 0..many * 3 / 10 {
        let key = format!("cart:{{{}}}:{}", 1_000_000 + item / 60 * 7919, item % 60);
        records.push(Record::new(key, random.below(1 << 31).to_string(), item % 4 == 0));
    }
    // A queue whose hash tag fills one slot.
    let jobs = (0..many / 20).map(|job| Record::new(format!("{{queue}}:job:{job}"), (job * 7919).to_string(), false));
    records.extend(jobs);
    records.extend((0..300).map(|id| Record::new(format!("flag:{id}"), "1".to_owned(), false)));
    records
}

/// Four families of which each slot has one or two keys: of them sessions and flags by other ids than ints.
fn small_families(many: u64) -> Vec<Record> {
    let mut random = Random::new(many);
    let mut records = Vec::new();
    for id in 0..many {
        let (number, expires) = (random.below(1 << 31).to_string(), id % 3 == 0);
        records.push(Record::new(format!("set-allBooksBelongToUser:{}", 1_000_000 + id * 7), number, false));
        records.push(Record::new(
            format!("seen:{}:last", 5_000_000 + id * 31),
            random.below(100_000).to_string(),
            expires,
        ));
        let session = format!("sess:{}", uuid(&mut random));
        records.push(Record::new(session, format!("{:024x}", random.bits()), expires));
        let flag = format!("flag:new-{:x}", random.bits() >> 24 | 10);
        records.push(Record::new(flag, "on".to_owned(), false));
    }
    records
}

fn uuid(random: &mut Random) -> String {
    let (high, low) = (random.bits(), random.bits() | 1 << 63);
    let (a, b, c, d, e) = (high >> 32, high >> 16 & 0xffff, high & 0xfff, low >> 48 & 0xbfff, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}

fn start(binary: &Binary, primaries: usize) -> Cluster {
    let (still, ask) = binary.still_reply_buffers();
    let args = [&["--hz", "500", "--hash-max-listpack-value", "128"][..], still].concat();
    let args = args.into_iter().map(str::to_owned).collect();
    let cluster = Cluster::start(binary, primaries, 0, &Options { args, ..Options::default() }).unwrap();
    if !ask.is_empty() {
        cluster.nodes().iter().for_each(|node| assert_eq!(node.text(ask).unwrap(), "OK"));
    }
    cluster
}

/// `used_memory` of all nodes, once their timers have been at all slots and found nothing left to do.
fn weigh(cluster: &Cluster) -> u64 {
    // A command's histogram takes more than a thousand keys.
    cluster.nodes().iter().for_each(|node| drop(node.call(&["CONFIG", "RESETSTAT"]).unwrap()));
    let deadline = Instant::now() + SETTLES_WITHIN;
    let mut before = 0;
    loop {
        let now = cluster.nodes().iter().map(used_memory).sum::<u64>();
        if now.abs_diff(before) < STIRS_BYTES * cluster.nodes().len() as u64 {
            return now;
        }
        assert!(Instant::now() < deadline, "the nodes' memory doesn't settle");
        before = now;
        std::thread::sleep(ROUND_OF_SLOTS);
    }
}

fn used_memory(node: &Node) -> u64 {
    let info = node.text(&["INFO", "memory"]).unwrap();
    let field = info.lines().find_map(|line| line.trim_end().strip_prefix("used_memory:"));
    field.and_then(|bytes| bytes.parse().ok()).unwrap()
}

/// Writes the records where the layout places them: each physical key lies in the slot of its logical key.
fn write(cluster: &Cluster, records: &[Record], layout: &Layout) {
    let mut of_nodes = vec![(Vec::new(), 0); cluster.nodes().len()];
    let mut wires: Vec<_> = cluster.nodes().iter().map(|node| node.connect().unwrap()).collect();
    let owners = cluster.owners().unwrap();
    for Record { key, value, expires_at_ms } in records {
        let place = layout.locate(key).place();
        let node = owners[usize::from(Slot::of(key).number())];
        let (wire, asked) = &mut of_nodes[node];
        for write in layout.physical_writes(SetsAs::Sets, place.as_ref(), key, value, *expires_at_ms, || 1 << 63).iter()
        {
            write.command(|args| {
                write_command(wire, args);
                *asked += 1;
            });
        }
        if *asked >= BATCH {
            wires[node].send_bytes(&std::mem::take(wire)).unwrap();
            (0..std::mem::take(asked)).for_each(|_| taken(&wires[node].reply().unwrap()));
        }
    }
    for (node, (wire, asked)) in of_nodes.into_iter().enumerate() {
        wires[node].send_bytes(&wire).unwrap();
        (0..asked).for_each(|_| taken(&wires[node].reply().unwrap()));
    }
}

fn taken(reply: &[u8]) {
    assert_ne!(reply[0], b'-', "{}", reply.escape_ascii());
}

/// Commands allocate when they are first called.
fn warm_up(cluster: &Cluster) {
    let layout =
        Layout::parse_file("cluster = true\n[[namespace]]\nkeys = \"w:{id:int}\"\nbucket = { count = 1 }").unwrap();
    let warm: Vec<_> = (0..200).map(|id| Record::new(format!("w:{id}"), "1".to_owned(), true)).collect();
    write(cluster, &warm, &Layout::default());
    write(cluster, &warm, &layout);
    clear(cluster);
}

fn clear(cluster: &Cluster) {
    cluster.nodes().iter().for_each(|node| drop(node.call(&["FLUSHALL", "SYNC"]).unwrap()));
}

fn off_percent(predicted: &Value, measured: u64) -> f64 {
    (predicted.as_f64().unwrap() / measured as f64 - 1.0) * 100.0
}

/// Plans for the records, and holds what nodes take against it. The report, and the layout.
fn the_promise_is_kept(binary: &Binary, records: &[Record]) -> (Value, Layout) {
    let (cluster, dir) = (start(binary, 3), TempDir::new().unwrap());
    warm_up(&cluster);
    let empty = weigh(&cluster);
    write(&cluster, records, &Layout::default());
    let plain = weigh(&cluster) - empty;
    let (path, name) = out(&dir);
    let planned = |more: &[&str]| -> Value {
        let url = cluster.url(1);
        let args = [&["plan", &url, "--no-values", "--no-text-tables", "--json"], more].concat();
        serde_json::from_str(&succeed(&args)).unwrap()
    };
    let report = planned(&["--out", &name]);
    let advised = succeed(&["analyze", &cluster.url(1), "--no-values", "--json"]);
    let advised: Value = serde_json::from_str(&advised).unwrap();
    let shared = report["families"].as_array().unwrap().iter().filter(|one| !one["shares_buckets_of"].is_null());
    for keys in shared.map(|one| one["keys"].as_str().unwrap()) {
        assert_eq!(family(&advised, keys)["advice"], "fold", "{keys} shares buckets, by keyfold plan");
    }
    let sampled = planned(&["--sample", &(records.len() / 3).to_string()]);
    // Of small families a part of the keys doesn't show who meets in a slot, so that none are to share buckets.
    let shares = layout_of(&path).namespaces().iter().any(|namespace| namespace.keys.are_several());
    for bytes in if shares { &["model_bytes"][..] } else { &["model_bytes", "after_bytes"] } {
        let [part, all] = [&sampled, &report].map(|report| report["memory"][bytes].as_f64().unwrap());
        let off = (part / all - 1.0) * 100.0;
        assert!(off.abs() <= SAMPLE_TOLERANCE_PERCENT, "{binary:?}: a third of the keys says {off:+.1} % more {bytes}");
    }
    succeed(&["layout", "check", &name]);
    let layout = layout_of(&path);
    assert!(layout.namespaces().iter().all(|namespace| namespace.placement.is_by_slot()), "{report:#}");
    clear(&cluster);
    write(&cluster, records, &layout);
    let folded = weigh(&cluster) - empty;
    let memory = &report["memory"];
    let off = [off_percent(&memory["model_bytes"], plain), off_percent(&memory["after_bytes"], folded)];
    eprintln!("{binary:?}: {plain} plain, {folded} folded, predicted {off:+.2?} % more");
    assert!(
        off.iter().all(|off| off.abs() <= TOLERANCE_PERCENT),
        "{binary:?}: {off:?}, {plain} and {folded}: {report:#}"
    );
    let nodes = report["nodes"].as_array().unwrap();
    let sum = |field: &str| nodes.iter().map(|node| node[field].as_f64().unwrap()).sum::<f64>();
    assert_eq!((nodes.len(), sum("slots"), sum("keys")), (3, 16_384.0, records.len() as f64));
    assert!((sum("after_bytes") - memory["after_bytes"].as_f64().unwrap()).abs() < 3.0);
    (report, layout)
}

fn layout_of(path: &Path) -> Layout {
    Layout::parse_file(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn of_large_and_small_families(binary: &Binary, many: u64) {
    let (report, _) = the_promise_is_kept(binary, &records(many));
    assert!(report["notes"].to_string().contains("hash tag {queue}"), "{}", report["notes"]);
    let carts = family(&report, "cart:{{{id:int}}}:{id2:int}");
    assert_eq!(carts["advice"], "fold", "{carts:#}");
}

#[test]
fn what_is_promised_for_a_cluster_is_what_its_nodes_take() {
    std::thread::scope(|scope| {
        for binary in newest_and_others().0 {
            scope.spawn(move || of_large_and_small_families(&binary, 30_000));
        }
    });
}

#[test]
fn small_families_share_buckets_and_take_what_is_promised() {
    each(&newest_and_others().0, |binary| {
        let (report, layout) = the_promise_is_kept(binary, &small_families(20_000));
        let shared: Vec<_> = layout.namespaces().iter().filter(|namespace| namespace.keys.are_several()).collect();
        let [shared] = shared[..] else { panic!("{report:#}") };
        let ints = family(&report, "set-allBooksBelongToUser:{id:int}");
        assert_eq!(ints["shares_buckets_of"].as_array().map(Vec::len), Some(shared.keys.len()), "{ints:#}");
        assert_eq!(ints["advice"], "fold", "{ints:#}");
        let notes = ints["notes"].to_string();
        assert!(notes.contains("families share buckets,") && notes.contains("each alone they would save"), "{notes}");
    });
}

#[test]
#[ignore = "takes minutes"]
fn what_is_promised_for_a_large_cluster_is_what_its_nodes_take() {
    for binary in keyfold_testkit::found().iter().filter(|binary| binary.version().major >= 7) {
        of_large_and_small_families(binary, 100_000);
    }
}
