//! Many small sets and hashes: bytes a member before `keyfold fold` and after, and requests a second, plain and folded.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use keyfold_core::layout::Layout;
use keyfold_lab::Table;
use keyfold_proxy::address::ServerAddress;
use keyfold_server::{Server, memory};
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, subject};

use super::{Pair, weights};
use crate::options::Options;
use crate::redis_benchmark::{self, Load};
use crate::report::Report;

/// What a server needs to keep the values of these layouts in buckets (before Redis 7.0 it knows only this name).
const SETTINGS: [&str; 2] = ["--hash-max-ziplist-value", "256"];
/// Members of each set, and fields of each hash.
const MEMBERS: u64 = 5;

/// A family of made-up collections.
struct Family {
    name: &'static str,
    write: fn(u64, &mut Random) -> Vec<String>,
    layout: &'static str,
}

const FAMILIES: [Family; 5] = [
    Family {
        name: "sets of 5 × 24 letters",
        write: |id, random| {
            [vec!["SADD".to_owned(), format!("tags:{id}")], many(|| super::letters(24, random))].concat()
        },
        layout: "keys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\nvalue_limit = 256\n",
    },
    Family {
        name: "sets of 5 integers of 8 digits",
        write: |id, random| {
            let number = || (10_000_000 + random.below(90_000_000)).to_string();
            [vec!["SADD".to_owned(), format!("ids:{id}")], many(number)].concat()
        },
        layout: "keys = 'ids:{id:int}'\ntype = 'set'\nbucket = { span = 48 }\n",
    },
    Family {
        name: "sessions of 5 fields",
        write: session,
        layout: "keys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 48 }\nvalue_limit = 256\n",
    },
    Family {
        name: "the same, codec = \"fields\"",
        write: session,
        layout: "keys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 48 }\nvalue_limit = 256\ncodec = 'fields'\n",
    },
    Family {
        name: "the same, codec = \"zstd\"",
        write: session,
        layout: "keys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 48 }\nvalue_limit = 256\ncodec = 'zstd'\n",
    },
];

fn many(mut member: impl FnMut() -> String) -> Vec<String> {
    (0..MEMBERS).map(|_| member()).collect()
}

/// Who, from where, by which program, against forgery, and when last.
fn session(id: u64, random: &mut Random) -> Vec<String> {
    const PROGRAMS: [&str; 5] =
        ["Mozilla/5.0 (X11; Linux)", "Mozilla/5.0 (Mac)", "curl/8.4", "okhttp/4.9", "Mozilla/5.0 (iPhone)"];
    let mut byte = || random.below(256);
    let ip = format!("{}.{}.{}.{}", byte(), byte(), byte(), byte());
    let fields = [
        ("uid", random.below(1_000_000).to_string()),
        ("ip", ip),
        ("ua", (*random.pick(&PROGRAMS)).to_owned()),
        ("csrf", format!("{:016x}", random.below(u64::MAX))),
        ("seen", (1_700_000_000 + random.below(10_000_000)).to_string()),
    ];
    let head = ["HSET".to_owned(), format!("sess:{id}")];
    head.into_iter().chain(fields.into_iter().flat_map(|(name, value)| [name.to_owned(), value])).collect()
}

/// Measures both.
pub(super) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    // Half a million records are a hundred thousand of five members.
    let keys = options.records / MEMBERS;
    let title = format!("sets and hashes, bytes a member, {keys} of {MEMBERS} each, hash-max-listpack-value 256");
    let mut table = Table::titled(title, &["what", "plain", "folded", "ratio"]);
    for family in &FAMILIES {
        table.row(weights(family.name, weigh(binary, family, keys)?));
    }
    report.add(&binary.name(), &table);
    if redis_benchmark::is_there() { speed(binary, options, report) } else { Ok(()) }
}

/// `used_memory` of a family over its members, before a fold and after it.
fn weigh(binary: &Binary, family: &Family, keys: u64) -> anyhow::Result<[f64; 2]> {
    let server = binary.start(&SETTINGS)?;
    let mut client = Server::connect(&server.url().parse::<ServerAddress>()?.into())?;
    let before = memory::settled(|| client.used_memory())?;
    super::write(&mut client, keys, family.write)?;
    #[expect(clippy::cast_precision_loss, reason = "bytes of a test's data stay far below 2⁵³")]
    let a_member = |client: &mut Server| {
        let grown = memory::settled(|| client.used_memory())?.saturating_sub(before);
        Ok::<_, anyhow::Error>(grown as f64 / (keys * MEMBERS) as f64)
    };
    let plain = a_member(&mut client)?;
    let dir = tempfile::tempdir()?;
    let layout = dir.path().join("layout.toml");
    std::fs::write(&layout, format!("[[namespace]]\n{}", family.layout))?;
    let keyfold = |args: &[&str]| {
        let url = server.url();
        let mut command = Command::new(subject::program());
        let output = command.arg(args[0]).arg(&url).args(&args[1..]).stdin(Stdio::null()).output()?;
        ensure!(output.status.success(), "{}: {}", args[0], String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    keyfold(&["fold", "--yes", "--layout", layout.to_str().context("a path of text")?])?;
    keyfold(&["verify", "--skip-encodings"])?;
    Ok([plain, a_member(&mut client)?])
}

/// What is asked of keys of 100,000: first what writes them.
const ASKED: [&[&str]; 6] = [
    &[
        "HSET",
        "sess:__rand_int__",
        "uid",
        "7",
        "ip",
        "10.0.0.1",
        "ua",
        "Mozilla/5.0",
        "csrf",
        "a648e60f",
        "seen",
        "1700000000",
    ],
    &["HGET", "sess:__rand_int__", "uid"],
    &["HSET", "sess:__rand_int__", "seen", "1700000001"],
    &["SADD", "tags:__rand_int__", "red", "green", "blue", "77"],
    &["SISMEMBER", "tags:__rand_int__", "green"],
    &["SADD", "tags:__rand_int__", "white"],
];

/// How many keys lie in one of their buckets.
const SPAN: usize = 48;

const ASKED_LAYOUT: &str = "[[namespace]]\nkeys = 'sess:{id:int(12)}'\ntype = 'hash'\nbucket = { span = 48 }\nvalue_limit = 256\n\
     [[namespace]]\nkeys = 'tags:{id:int(12)}'\ntype = 'set'\nbucket = { span = 48 }\nvalue_limit = 256\n";

fn speed(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    let (plain, behind) = (binary.start(&SETTINGS)?, binary.start(&SETTINGS)?);
    let layout = Layout::parse_file(ASKED_LAYOUT)?;
    let mut pair = Pair::new(&plain, &behind, (ASKED_LAYOUT, &layout))?;
    let title = format!("sets and hashes, thousand requests a second, {} clients", redis_benchmark::CLIENTS);
    let mut table = super::speeds(title);
    for command in ASKED {
        for load in Load::both(options) {
            let buckets = load.numbers / SPAN;
            table.row(pair.row(command, load, Some(buckets), options.rounds)?);
        }
    }
    report.add(&binary.name(), &table);
    Ok(())
}
