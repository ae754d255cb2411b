//! What came of it: curves side by side, what a hash saves, and what that means.

use keyfold_report::number::count;
use keyfold_report::plot::{Axis, Origin, Plot, Series};

use super::curve::{Curve, Point};
use super::folded::SMALL;
use super::form::Collection;
use super::speed::{AT_A_TIME, Speed};
use crate::options::Options;
use crate::outcome::{Outcome, Table};

/// The original's figures, in bytes: a hash and a set.
const ORIGINAL: (f64, f64) = (14_403.0, 32_920.0);
/// How many members those figures fit: 512 entries of 28 bytes are a listpack of 14,343.
const ORIGINAL_MEMBERS: u64 = 512;
const GIB: f64 = (1_u64 << 30) as f64;

/// The sizes that are told of beside the original's.
const SHOWN: [u64; 3] = [1000, 10_000, 50_000];

pub(super) fn conclude(curves: &[Curve], speeds: &[Speed], options: &Options, outcome: &mut Outcome) {
    compare(curves, outcome);
    compare_speeds(speeds, outcome);
    let (folded, own): (Vec<_>, Vec<_>) = curves.iter().partition(|curve| curve.kind == Collection::Folded);
    outcome.tables.push(memory_table(&own));
    outcome.tables.push(savings_table(&own, options));
    if let Some(folded) = folded.first() {
        outcome.tables.push(folded_table(folded, own[0]));
        outcome.notes.push(folded_note());
    }
    outcome.tables.push(speed_table(speeds));
    outcome.plots = plots(curves);
    outcome.plots.extend(speed_plots(speeds));
    outcome.verdict = verdict(curves, speeds);
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
            Collection::Hash(_) | Collection::Folded => None,
        };
        add(curve, ORIGINAL_MEMBERS, original);
        for members in SHOWN {
            add(curve, members, None);
        }
    }
}

/// Of the largest size there is.
fn compare_speeds(speeds: &[Speed], outcome: &mut Outcome) {
    let most = speeds.iter().map(|one| one.members).max();
    for one in speeds.iter().filter(|one| one.at_a_time == 1 && Some(one.members) == most) {
        let what = format!("the server's time for a look-up, {}, {} members", one.kind.name(), count(one.members));
        outcome.compare(what, "µs", [None, Some(one.took.server_us), None]);
    }
}

fn memory_table(curves: &[&Curve]) -> Table {
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

fn savings_table(curves: &[&Curve], options: &Options) -> Table {
    /// The price is that of so many collections.
    const COLLECTIONS: f64 = 1e6;
    let pairs = curves[1..].iter().flat_map(|hash| {
        let pair = |members| Some((hash.kind.limit(), curves[0].at(members)?, hash.at(members)?));
        SHOWN.into_iter().filter_map(pair)
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

/// No table of memory by its name: where parts are cut depends on a seed, which differs at each run.
fn folded_table(folded: &Curve, set: &Curve) -> Table {
    let costs = std::iter::once(None).chain(folded.per_new_member().map(|(_, bytes)| Some(bytes)));
    let saved = |point: &Point| {
        let set = set.at(point.members)?.measured as f64;
        Some(((1.0 - point.measured as f64 / set) * 100.0, 1))
    };
    Table::of(
        "folded",
        "The same members in a set that keyfold keeps",
        folded.points.iter().zip(costs),
        &[
            ("members", &|(point, _)| point.members.into()),
            ("measured_bytes", &|(point, _)| point.measured.into()),
            ("predicted_bytes", &|(point, _)| point.predicted.into()),
            ("bytes_per_new_member", &|(_, cost)| cost.map(|bytes| (bytes, 2)).into()),
            ("bytes_per_member", &|(point, _)| (point.measured as f64 / point.members as f64, 1).into()),
            ("set_bytes", &|(point, _)| set.at(point.members).map(|set| set.measured).into()),
            ("saved_percent", &|(point, _)| saved(point).into()),
        ],
    )
}

fn folded_note() -> String {
    "Folded: written one by one through a keyfold, with the server's other limits at their defaults and \
     hash-max-listpack-value at 1,024. Up to 32 members are one value in a bucket, more lie in parts of up to 120, which are \
     halved as they fill. Where they are cut depends on a seed that keyfold draws, so their bytes differ by some percent from \
     one run to the next; the model is given the seed, and so says the bytes of these parts. A keyfold is started for each \
     step and gone when memory is read, as its connections have buffers."
        .to_owned()
}

fn speed_table(speeds: &[Speed]) -> Table {
    Table::of(
        "look-ups",
        "Microseconds to look for a member that is there (SISMEMBER, HEXISTS), the fastest of five rounds: the \
         server's own time, and the client's",
        speeds,
        &[
            ("form", &|one| one.kind.name().into()),
            ("members", &|one| one.members.into()),
            ("at_a_time", &|one| one.at_a_time.into()),
            ("server_us", &|one| (one.took.server_us, 2).into()),
            ("clock_us", &|one| (one.took.clock_us, 2).into()),
        ],
    )
}

fn speed_plots(speeds: &[Speed]) -> Vec<Plot> {
    let mut kinds: Vec<Collection> = speeds.iter().map(|one| one.kind).collect();
    kinds.dedup();
    let plot = |name, title: String, at_a_time: usize, time: fn(&Speed) -> f64| {
        let line = |(color, kind): (usize, &Collection)| {
            let asked = speeds.iter().filter(|one| one.kind == *kind && one.at_a_time == at_a_time as u64);
            let points = asked.map(|one| (one.members as f64, time(one))).collect();
            Series { name: kind.name(), origin: Origin::Measured, color, points }
        };
        let lines = kinds.iter().enumerate().map(line).collect();
        Plot::lines(name, title, Axis::log10("members"), Axis::log10("µs a look-up"), lines)
    };
    let [one, many] = AT_A_TIME;
    vec![
        plot("look-ups-server", "The server's own time for a look-up".to_owned(), one, |one| one.took.server_us),
        plot("look-ups-client", "The client's time for a look-up, one at a time".to_owned(), one, |one| {
            one.took.clock_us
        }),
        plot("look-ups-client-many", format!("The client's time for a look-up, {many} at a time"), many, |one| {
            one.took.clock_us
        }),
    ]
}

fn series(curve: &Curve, color: usize, up_to: u64) -> [Series; 2] {
    let points = |value: fn(&Point) -> u64| {
        let shown = curve.points.iter().filter(|point| point.members <= up_to);
        shown.map(|point| (point.members as f64, value(point) as f64)).collect()
    };
    let name = curve.kind.name();
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

fn plots(curves: &[Curve]) -> Vec<Plot> {
    let most = curves[0].points.last().map_or(0, |point| point.members);
    let memory = |name, title: &str, up_to: u64, original: bool| {
        let mut series: Vec<_> = curves.iter().enumerate().flat_map(|(i, curve)| series(curve, i, up_to)).collect();
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
        memory("memory-small", "Memory of a set, of hashes, and folded, up to 1,100 members", SMALL, true),
        memory("memory", "Memory of a set, of hashes, and folded", most, false),
        Plot::lines(
            "cost",
            "What each new member costs",
            Axis::log2("members"),
            Axis::log10("bytes for a new member (1 and less shown as 1)"),
            curves.iter().enumerate().rev().map(cost).collect(),
        ),
    ]
}

fn verdict(curves: &[Curve], speeds: &[Speed]) -> String {
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
         original); over its limit of 512 it is a hashtable too, and at 1,000 members it {over}.{}",
        folded_verdict(curves, speeds).unwrap_or_default()
    )
}

/// What folding makes of the largest, beside the best of the server's own forms.
fn folded_verdict(curves: &[Curve], speeds: &[Speed]) -> Option<String> {
    let find = |kind| curves.iter().find(|curve| curve.kind == kind);
    let (set, folded) = (find(Collection::Set)?, find(Collection::Folded)?);
    let most = folded.points.last()?.members;
    let each = |curve: &Curve| Some(curve.at(most)?.measured as f64 / most as f64);
    let mut said = format!(
        " Folded by keyfold {} members take {:.1} bytes each, {:.1} in a set",
        count(most),
        each(folded)?,
        each(set)?
    );
    let looked_up = |kind| speeds.iter().rfind(|one| one.kind == kind && one.at_a_time == 1);
    if let Some((set, folded)) = looked_up(Collection::Set).zip(looked_up(Collection::Folded)) {
        said += &format!(
            "; a look-up costs the server {:.1} µs instead of {:.1}",
            folded.took.server_us, set.took.server_us
        );
    }
    let packed =
        speeds.iter().filter(|one| one.at_a_time == 1 && one.kind.limit().is_some_and(|limit| one.members <= limit));
    if let Some(packed) = packed.max_by_key(|one| one.members) {
        said += &format!(", and {:.0} in a packed hash of {}", packed.took.server_us, count(packed.members));
    }
    Some(said + ".")
}
