//! What one form takes by the number of its members.

use keyfold_core::memory::Keyspace;

use super::form::{Collection, Cost, KEY, LIMITS};
use crate::bench::Bench;
use crate::options::Options;

/// A size of one curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) members: u64,
    pub(super) measured: u64,
    pub(super) predicted: u64,
}

pub(super) struct Curve {
    pub(super) kind: Collection,
    pub(super) points: Vec<Point>,
}

impl Curve {
    pub(super) fn at(&self, members: u64) -> Option<Point> {
        self.points.iter().find(|point| point.members == members).copied()
    }

    /// Bytes of each new member between neighbouring points.
    pub(super) fn per_new_member(&self) -> impl Iterator<Item = (u64, f64)> {
        self.points.windows(2).map(|pair| {
            let bytes = pair[1].measured as f64 - pair[0].measured as f64;
            (pair[1].members, bytes / (pair[1].members - pair[0].members) as f64)
        })
    }
}

pub(super) fn measure(
    bench: &mut Bench<'_>,
    kind: Collection,
    members: &[Vec<u8>],
    options: &Options,
) -> anyhow::Result<Curve> {
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

pub(super) fn index(count: u64) -> usize {
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
pub(super) fn add(bench: &mut Bench<'_>, kind: Collection, new: &[Vec<u8>], looks: u64) -> anyhow::Result<()> {
    let mut writer = bench.writer("", 0)?;
    for member in new {
        match kind {
            Collection::Hash(_) => writer.hset(KEY, member, b"1")?,
            Collection::Set | Collection::Folded => writer.on_key(b"SADD", KEY, &[member])?,
        }
    }
    for _ in 0..looks {
        let look = if kind == Collection::Set { &b"SISMEMBER"[..] } else { b"HGET" };
        writer.read(look, KEY, &[b"nobody"])?;
    }
    writer.flush()
}
