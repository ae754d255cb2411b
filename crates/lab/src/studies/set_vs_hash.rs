//! `set-vs-hash` (Salesforce, 2021): a set, or a hash with 1 as every value?
//!
//! Members of 24 random letters are added one by one, to a set and to a hash under each of several limits. Where a table
//! has grown, members are looked for until its old half is gone: what is measured is what stays.

use keyfold_core::memory::{BucketCost, Keyspace, Limits, Model, SetCost, ValueShape};
use keyfold_report::number::count;
use keyfold_report::plot::{Axis, Origin, Plot, Series};

use crate::bench::{Bench, Start};
use crate::ground::Setting;
use crate::options::Options;
use crate::outcome::{Outcome, Table};
use crate::study::{About, Study};
use keyfold_survey::random::Random;

const ENTRIES: &str = "hash-max-listpack-entries";
/// The original's limits.
const LIMITS: [u64; 3] = [512, 1028, 32_768];
/// The original's figures, in bytes: a hash and a set.
const ORIGINAL: (f64, f64) = (14_403.0, 32_920.0);
/// How many members those figures fit: 512 entries of 28 bytes are a listpack of 14,343.
const ORIGINAL_MEMBERS: u64 = 512;
const MEMBER_LETTERS: usize = 24;
const KEY: &[u8] = b"members";
const GIB: f64 = (1_u64 << 30) as f64;

pub(crate) struct SetVsHash;

/// Either way of keeping members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Collection {
    Set,
    /// With this limit of entries.
    Hash(u64),
}

/// A size of one curve.
#[derive(Clone, Copy, Debug)]
struct Point {
    members: u64,
    measured: u64,
    predicted: u64,
}

struct Curve {
    kind: Collection,
    points: Vec<Point>,
}

impl Study for SetVsHash {
    fn about(&self) -> About {
        About {
            name: "set-vs-hash",
            by: "Salesforce",
            year: 2021,
            asks: "Does a hash with 1 as every value take less than a set, and what does each new member cost?",
            figure: "14,403 bytes as a hash against 32,920 as a set at 1k entries under limit 512; the cost of a new \
                     entry has spikes at powers of two.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let most = options.sized(10_000, 50_000, 50_000).clamp(1000, 200_000);
        let members = members(most, options.seed);
        let mut outcome = Outcome::new("members of 24 letters");
        let mut curves = vec![curve(bench, Collection::Set, &members, options)?];
        for limit in LIMITS {
            let setting = (ENTRIES, Limits::default().hash_entries);
            if bench.can_have(setting, limit, &format!("hashes under limit {limit}"), &mut outcome)? {
                curves.push(curve(bench, Collection::Hash(limit), &members, options)?);
            }
        }
        others_stay(bench, &members, &mut outcome)?;
        for (kind, point) in curves.iter().flat_map(|curve| curve.points.iter().map(|point| (curve.kind, point))) {
            outcome.hold_within(point.measured, point.predicted, chance_bytes(kind, point.members));
        }
        conclude(&curves, options, &mut outcome);
        Ok(outcome)
    }
}

fn members(count: u64, seed: u64) -> Vec<Vec<u8>> {
    let mut random = Random::new(seed);
    (0..count).map(|_| random.letters(MEMBER_LETTERS)).collect()
}

/// What a table may differ by from the mean of all hash seeds, which newer servers draw at each start: three standard
/// deviations of how many of its places overflow into another 64 bytes. That is one for twenty entries or fewer.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousand bytes")]
fn chance_bytes(kind: Collection, members: u64) -> u64 {
    let packed_up_to = match kind {
        Collection::Set => 128,
        Collection::Hash(limit) => limit,
    };
    if members <= packed_up_to { 0 } else { (3.0 * 64.0 * (members as f64 / 20.0).sqrt()) as u64 }
}

/// At how many members the memory is read: one by one at first, then in steps, and on both sides of every doubling and
/// limit.
fn sizes(most: u64, is_quick: bool) -> Vec<u64> {
    let coarser = if is_quick { 10 } else { 1 };
    let mut sizes: Vec<u64> = (1..=1000.min(most)).step_by(coarser).collect();
    sizes.extend((1000..=10_000.min(most)).step_by(10 * coarser));
    sizes.extend((10_000..=most).step_by(50 * coarser));
    let doublings = (2..20).flat_map(|power| [1 << power, 7 << power]);
    sizes.extend(doublings.chain(LIMITS).flat_map(|edge: u64| [edge, edge + 1]));
    sizes.extend([1000, 10_000, most]);
    sizes.retain(|size| *size <= most);
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

fn curve(bench: &mut Bench<'_>, kind: Collection, members: &[Vec<u8>], options: &Options) -> anyhow::Result<Curve> {
    let model = bench.model()?;
    let start = bench.start()?;
    let sizes = sizes(members.len() as u64, options.is_quick());
    let key_len = bench.prefix_len() + KEY.len() as u64;
    let mut cost = Cost::new(kind);
    let mut points = Vec::new();
    let mut done = 0;
    let mut progress = bench.progress(&format!("set-vs-hash: {}", kind.name()), members.len() as u64);
    for size in sizes {
        let new = &members[index(done)..index(size)];
        new.iter().for_each(|member| cost.add(&model, member));
        add(bench, kind, new, grew(done, size))?;
        let measured = start.weight(bench.weigh_quickly()?);
        let mut keyspace = Keyspace::new(&model);
        keyspace.add(cost.bytes(&model, key_len), false);
        points.push(Point { members: size, measured: measured.bytes, predicted: measured.predicted(&keyspace) });
        progress.advance(index(size - done));
        done = size;
    }
    Ok(Curve { kind, points })
}

fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// How many looks finish what a table's growth began, where one may have grown: dicts double when they have as many
/// entries as a power of two, Valkey's hashtables at seven times one.
fn grew(before: u64, now: u64) -> u64 {
    let crossed = |edge: u64| (before..now).contains(&edge);
    let doubled = (2..40).any(|power| crossed(1 << power) || crossed(7 << power));
    // A table that became one just now was filled at once, and grew on the way.
    let unpacked = LIMITS.into_iter().chain([128]).any(crossed);
    if doubled || unpacked { now + 8 } else { 0 }
}

/// Adds members, and looks for one so many times.
fn add(bench: &mut Bench<'_>, kind: Collection, new: &[Vec<u8>], looks: u64) -> anyhow::Result<()> {
    let mut writer = bench.writer("", 0)?;
    for member in new {
        match kind {
            Collection::Set => writer.on_key(b"SADD", KEY, &[member])?,
            Collection::Hash(_) => writer.hset(KEY, member, b"1")?,
        }
    }
    for _ in 0..looks {
        let look = if kind == Collection::Set { &b"SISMEMBER"[..] } else { b"HGET" };
        writer.read(look, KEY, &[b"nobody"])?;
    }
    writer.flush()
}

/// What the model says of either.
enum Cost {
    Set(SetCost),
    Hash(BucketCost),
}

impl Cost {
    fn new(kind: Collection) -> Self {
        match kind {
            Collection::Set => Self::Set(SetCost::default()),
            Collection::Hash(_) => Self::Hash(BucketCost::default()),
        }
    }

    fn add(&mut self, model: &Model, member: &[u8]) {
        let member = ValueShape::of(member);
        match self {
            Self::Set(set) => set.add(model, member),
            Self::Hash(hash) => hash.add(model, member, ValueShape::Integer(1)),
        }
    }

    fn bytes(&self, model: &Model, key_len: u64) -> u64 {
        match self {
            Self::Set(set) => model.settled_set_bytes(key_len, set, false),
            Self::Hash(hash) => model.settled_hash_bytes(key_len, hash, false),
        }
    }
}

impl Collection {
    fn name(self) -> String {
        match self {
            Self::Set => "set".to_owned(),
            Self::Hash(limit) => format!("hash, limit {limit}"),
        }
    }

    fn limit(self) -> Option<u64> {
        match self {
            Self::Set => None,
            Self::Hash(limit) => Some(limit),
        }
    }
}

/// Whether a hash over its limit affects two others: 900 and 700 fields under limit 1028, beside one that goes over.
fn others_stay(bench: &mut Bench<'_>, members: &[Vec<u8>], outcome: &mut Outcome) -> anyhow::Result<()> {
    const LIMIT: u64 = LIMITS[1];
    const FIELDS: [(&[u8], u64); 3] = [(b"nine", 900), (b"seven", 700), (b"over", LIMIT)];
    if bench.set(ENTRIES, LIMIT)? == Setting::Forbidden {
        outcome.left_out.push(format!("whether a hash over limit {LIMIT} affects others: the server forbids CONFIG"));
        return Ok(());
    }
    if (members.len() as u64) <= LIMIT {
        return Ok(());
    }
    let model = bench.model()?;
    let start = bench.start()?;
    for (name, fields) in FIELDS {
        fill(bench, name, &members[..index(fields)])?;
    }
    let before = encodings(bench, &FIELDS)?;
    hold_hashes(bench, &start, &model, members, [900, 700, LIMIT], outcome)?;
    fill(bench, FIELDS[2].0, &members[..=index(LIMIT)])?;
    let after = encodings(bench, &FIELDS)?;
    hold_hashes(bench, &start, &model, members, [900, 700, LIMIT + 1], outcome)?;
    outcome.tables.push(Table::of(
        "others",
        format!("Three hashes under limit {LIMIT}, before and after the last one got one field more"),
        FIELDS.iter().zip(&before).zip(&after),
        &[
            ("fields", &|(((_, fields), _), _)| (*fields).into()),
            ("encoding_before", &|((_, before), _)| before.as_str().into()),
            ("encoding_after", &|(_, after)| after.as_str().into()),
        ],
    ));
    let stayed = before[..2] == after[..2];
    outcome.notes.push(format!(
        "One hash over its limit {} the two others under it: each hash is converted by itself.",
        if stayed { "does not affect" } else { "affects" }
    ));
    Ok(())
}

fn fill(bench: &mut Bench<'_>, name: &[u8], members: &[Vec<u8>]) -> anyhow::Result<()> {
    let mut writer = bench.writer("", 0)?;
    for member in members {
        writer.hset(name, member, b"1")?;
    }
    for _ in 0..members.len() + 8 {
        writer.read(b"HGET", name, &[b"nobody"])?;
    }
    writer.flush()
}

fn encodings(bench: &Bench<'_>, hashes: &[(&[u8], u64)]) -> anyhow::Result<Vec<String>> {
    let mut server = bench.connect()?;
    let encoding = |(name, _): &(&[u8], u64)| server.ask(&[b"OBJECT", b"ENCODING", &bench.key(name)]);
    hashes.iter().map(encoding).collect()
}

/// Holds the model against hashes of so many fields.
fn hold_hashes(
    bench: &mut Bench<'_>,
    start: &Start,
    model: &Model,
    members: &[Vec<u8>],
    fields: [u64; 3],
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    let mut keyspace = Keyspace::new(model);
    for (name_len, fields) in [4, 5, 4].into_iter().zip(fields) {
        let mut cost = Cost::new(Collection::Hash(0));
        members[..index(fields)].iter().for_each(|member| cost.add(model, member));
        keyspace.add(cost.bytes(model, bench.prefix_len() + name_len), false);
    }
    let weight = bench.since(start)?;
    outcome.hold(weight.bytes, weight.predicted(&keyspace));
    Ok(())
}

impl Curve {
    fn at(&self, members: u64) -> Option<Point> {
        self.points.iter().find(|point| point.members == members).copied()
    }

    /// Bytes of each new member between neighbouring points.
    fn per_new_member(&self) -> impl Iterator<Item = (u64, f64)> {
        self.points.windows(2).map(|pair| {
            let bytes = pair[1].measured as f64 - pair[0].measured as f64;
            (pair[1].members, bytes / (pair[1].members - pair[0].members) as f64)
        })
    }

    fn series(&self, color: usize, up_to: u64) -> [Series; 2] {
        let points = |value: fn(&Point) -> u64| {
            let shown = self.points.iter().filter(|point| point.members <= up_to);
            shown.map(|point| (point.members as f64, value(point) as f64)).collect()
        };
        let name = self.kind.name();
        [
            Series { name: name.clone(), origin: Origin::Measured, color, points: points(|point| point.measured) },
            Series {
                name: format!("{name}, model"),
                origin: Origin::Predicted,
                color,
                points: points(|point| point.predicted),
            },
        ]
    }
}

fn conclude(curves: &[Curve], options: &Options, outcome: &mut Outcome) {
    compare(curves, outcome);
    outcome.tables.push(memory_table(curves));
    outcome.tables.push(savings_table(curves, options));
    outcome.plots = plots(curves);
    outcome.verdict = verdict(curves);
    outcome.notes.push(format!(
        "The original's bytes fit {ORIGINAL_MEMBERS} members, not 1,000: that many entries are a listpack of 14,343 \
         bytes, and a table of that many members took 32,864 with the jemalloc of Redis's own builds. They come from \
         MEMORY USAGE, which counts a listpack without the allocator's rounding. So they stand beside the measurement \
         at {ORIGINAL_MEMBERS}."
    ));
    if let Some(small) = curves[0].at(100).filter(|point| point.measured < 4500) {
        outcome.notes.push(format!(
            "This server keeps small sets packed as well, up to set-max-listpack-entries (since Redis 7.2): 100 members \
             take {} bytes. Up to there a hash saves nothing, other than in the original's time.",
            small.measured
        ));
    }
    outcome.notes.push(
        "The jumps of each new member at powers of two (seven times one on Valkey since 8.1) are tables that double; \
         those in between are the allocator's size classes, of which a packed list takes the next one. A price of \
         memory turns bytes into money: see --price."
            .to_owned(),
    );
}

fn compare(curves: &[Curve], outcome: &mut Outcome) {
    let mut add = |curve: &Curve, members: u64, original: Option<f64>| {
        if let Some(point) = curve.at(members) {
            let what = format!("{}, {} members", curve.kind.name(), count(members));
            outcome.compare_bytes(what, original, [point.measured, point.predicted]);
        }
    };
    for curve in curves {
        let original = match curve.kind {
            Collection::Set => Some(ORIGINAL.1),
            Collection::Hash(512) => Some(ORIGINAL.0),
            Collection::Hash(_) => None,
        };
        add(curve, ORIGINAL_MEMBERS, original);
        for members in [1000, 10_000, 50_000] {
            add(curve, members, None);
        }
    }
}

fn memory_table(curves: &[Curve]) -> Table {
    let points = curves.iter().flat_map(|curve| {
        let costs = std::iter::once(None).chain(curve.per_new_member().map(|(_, bytes)| Some(bytes)));
        curve.points.iter().zip(costs).map(|(point, cost)| (curve.kind, point, cost))
    });
    Table::of(
        "memory",
        "Memory by members",
        points,
        &[
            ("kind", &|(kind, ..)| if *kind == Collection::Set { "set" } else { "hash" }.into()),
            ("limit", &|(kind, ..)| kind.limit().into()),
            ("members", &|(_, point, _)| point.members.into()),
            ("measured_bytes", &|(_, point, _)| point.measured.into()),
            ("predicted_bytes", &|(_, point, _)| point.predicted.into()),
            ("bytes_per_new_member", &|(.., cost)| cost.map(|bytes| (bytes, 2)).into()),
        ],
    )
}

fn savings_table(curves: &[Curve], options: &Options) -> Table {
    /// The price is that of so many collections.
    const COLLECTIONS: f64 = 1e6;
    let pairs = curves[1..].iter().flat_map(|hash| {
        let pair = |members| Some((hash.kind.limit(), curves[0].at(members)?, hash.at(members)?));
        [1000, 10_000, 50_000].into_iter().filter_map(pair)
    });
    let saved = |set: &Point, hash: &Point| set.measured as f64 - hash.measured as f64;
    let usd = |bytes: f64| bytes * COLLECTIONS / GIB * options.price_usd;
    Table::of(
        "savings-memory",
        format!("What a hash saves; money is for a million such collections at {} USD a GiB", options.price_usd),
        pairs,
        &[
            ("limit", &|(limit, ..)| (*limit).into()),
            ("members", &|(_, set, _)| set.members.into()),
            ("set_bytes", &|(_, set, _)| set.measured.into()),
            ("hash_bytes", &|(.., hash)| hash.measured.into()),
            ("saved_percent", &|(_, set, hash)| (saved(set, hash) / set.measured as f64 * 100.0, 1).into()),
            ("saved_usd_a_month", &|(_, set, hash)| (usd(saved(set, hash)), 0).into()),
        ],
    )
}

fn plots(curves: &[Curve]) -> Vec<Plot> {
    let most = curves[0].points.last().map_or(0, |point| point.members);
    let memory = |name, title: &str, up_to: u64, original: bool| {
        let mut series: Vec<_> = curves.iter().enumerate().flat_map(|(i, curve)| curve.series(i, up_to)).collect();
        let at = ORIGINAL_MEMBERS as f64;
        for (name, color, bytes) in [("set, original", 0, ORIGINAL.1), ("hash, original", 1, ORIGINAL.0)] {
            if original {
                let points = vec![(at, bytes)];
                series.push(Series { name: name.to_owned(), origin: Origin::Original, color, points });
            }
        }
        Plot::lines(name, title, "members", "memory, bytes", series)
    };
    let cost = |(i, curve): (usize, &Curve)| Series {
        name: curve.kind.name(),
        origin: Origin::Measured,
        color: i,
        points: curve.per_new_member().map(|(members, bytes)| (members as f64, bytes.max(1.0))).collect(),
    };
    vec![
        memory("memory-small", "Memory of a set and of hashes, up to 1,100 members", 1100, true),
        memory("memory", "Memory of a set and of hashes", most, false),
        Plot::lines(
            "cost",
            "What each new member costs",
            Axis::log2("members"),
            Axis::log10("bytes for a new member (1 and less shown as 1)"),
            curves.iter().enumerate().rev().map(cost).collect(),
        ),
    ]
}

fn verdict(curves: &[Curve]) -> String {
    let set = &curves[0];
    let saved = |curve: &Curve, members: u64| {
        let (set, hash) = set.at(members).zip(curve.at(members))?;
        Some((1.0 - hash.measured as f64 / set.measured as f64) * 100.0)
    };
    let Some(small) = curves.iter().find(|curve| curve.kind == Collection::Hash(512)) else {
        return "The server allows none of the original's limits, so only the set was measured.".to_owned();
    };
    let under = saved(small, ORIGINAL_MEMBERS).unwrap_or_default();
    let over = saved(small, 1000).unwrap_or_default();
    let over = if over > 0.0 { format!("saves {over:.0} %") } else { format!("takes {:.0} % more", -over) };
    let original = (1.0 - ORIGINAL.0 / ORIGINAL.1) * 100.0;
    format!(
        "Under its limit a hash takes {under:.0} % less than a set at {ORIGINAL_MEMBERS} members ({original:.0} % in the \
         original); over its limit of 512 it is a hashtable too, and at 1,000 members it {over}."
    )
}
