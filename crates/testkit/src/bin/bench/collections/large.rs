//! One large set or hash, written member by member: bytes a member, and requests a second.

use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::layout::Layout;
use keyfold_lab::Table;
use keyfold_proxy::address::ServerAddress;
use keyfold_server::{Server, memory};
use keyfold_testkit::Binary;
use keyfold_testkit::random::Random;

use super::{Pair, letters, speeds, weights};
use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, Load};
use crate::report::Report;

const LAYOUT: &str = "[[namespace]]\nkeys = 'big:{id:int}'\ntype = 'set'\nbucket = { span = 8 }\nvalue_limit = 64\n\
     [[namespace]]\nkeys = 'wide:{id:int}'\ntype = 'hash'\nbucket = { span = 8 }\nvalue_limit = 64\n";

/// The layout, its copy and what keyfolds write for themselves are no more keys than these.
const OWN_KEYS: u64 = 8;

/// The sweep removes the parts of a key that is gone within some seconds, and what says whose they are some seconds later.
const SWEPT_WITHIN: Duration = Duration::from_secs(120);

/// A made-up collection, by the command that adds a member.
struct Family {
    name: &'static str,
    key: &'static str,
    add: fn(u64, &mut Random) -> Vec<String>,
}

const FAMILIES: [Family; 3] = [
    Family {
        name: "set of integers of 8 digits",
        key: "big:1",
        add: |number, _| ["SADD", "big:1", &(10_000_000 + number * 397).to_string()].map(str::to_owned).to_vec(),
    },
    Family {
        name: "set of texts of 24 letters",
        key: "big:1",
        add: |_, random| ["SADD", "big:1", &letters(24, random)].map(str::to_owned).to_vec(),
    },
    Family {
        name: "hash of item1234567 → integer",
        key: "wide:1",
        add: |number, random| {
            let (field, value) = (format!("item{:07}", 1_000_000 + number), random.below(1_000_000).to_string());
            ["HSET", "wide:1", &field, &value].map(str::to_owned).to_vec()
        },
    },
];

/// What is asked, first what adds members.
const ASKED: [&[&str]; 8] = [
    &["SADD", "big:1", "__rand_int__"],
    &["SISMEMBER", "big:1", "__rand_int__"],
    &["SMEMBERS", "big:1"],
    &["SREM", "big:1", "__rand_int__"],
    &["HSET", "wide:1", "__rand_int__", "1000"],
    &["HGET", "wide:1", "__rand_int__"],
    &["HGETALL", "wide:1"],
    &["HDEL", "wide:1", "__rand_int__"],
];

/// How all members are asked for: one answer is megabytes, and fifty clients would have the server busy for seconds.
const WHOLE: Load = Load { clients: 2, pipeline: 1, requests: 100, numbers: 1 };

/// Measures both.
pub(super) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // Of half a million records, 200,000.
    let members = options.records * 2 / 5;
    let title = format!("a large set or hash, bytes a member, {members} written one by one, default limits");
    let mut table = Table::titled(title, &["what", "plain", "in parts", "ratio"]);
    for family in &FAMILIES {
        let [plain, folded] = [false, true].map(|folded| weigh(binary, family, members, folded));
        table.row(weights(family.name, [plain?, folded?]));
    }
    report.add(&binary.name(), &table);
    if redis_benchmark::is_there() { speed(binary, options, members, report) } else { Ok(()) }
}

/// `used_memory` over members. What keyfold's connections and scripts take is there before.
fn weigh(binary: &Binary, family: &Family, members: u64, folded: bool) -> anyhow::Result<f64> {
    let server = binary.start(&[])?;
    let proxy = folded.then(|| Proxy::start(&server, LAYOUT)).transpose()?;
    let url = proxy.as_ref().map_or_else(|| server.url(), Proxy::url);
    let mut looking = Server::connect(&server.url().parse::<ServerAddress>()?.into())?;
    let mut client = Server::connect(&url.parse::<ServerAddress>()?.into())?;
    // Buffers and scripts, which the first use of a server takes, are there before.
    super::write(&mut client, members, family.add)?;
    client.ask::<u64>(&[b"DEL", family.key.as_bytes()])?;
    let until = Instant::now() + SWEPT_WITHIN;
    while looking.ask::<u64>(&[b"DBSIZE"])? > OWN_KEYS {
        anyhow::ensure!(Instant::now() < until, "the parts of a key that is gone are still there");
        thread::sleep(Duration::from_millis(100));
    }
    let before = memory::settled(|| looking.used_memory())?;
    super::write(&mut client, members, family.add)?;
    let grown = memory::settled(|| looking.used_memory())?.saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "bytes of a test's data stay far below 2⁵³")]
    Ok(grown as f64 / members as f64)
}

fn speed(binary: &Binary, options: &Options, members: u64, report: &mut Report) -> anyhow::Result<()> {
    let (plain, behind) = (binary.start(&[])?, binary.start(&[])?);
    let layout = Layout::parse_file(LAYOUT)?;
    let mut pair = Pair::new(&plain, &behind, (LAYOUT, &layout))?;
    let title = format!("one of {members}, thousand requests a second, {} clients", redis_benchmark::CLIENTS);
    let mut table = speeds(title);
    let numbers = usize::try_from(members)?;
    for command in ASKED {
        if command.len() == 2 {
            table.row(pair.row(command, WHOLE, None, options.rounds)?);
            continue;
        }
        for load in Load::both(options) {
            table.row(pair.row(command, Load { numbers, ..load }, None, options.rounds)?);
        }
    }
    report.add(&binary.name(), &table);
    Ok(())
}
