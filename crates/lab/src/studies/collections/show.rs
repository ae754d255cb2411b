//! What came of it: bytes a member and the time of a look-up, by family and way.

use keyfold_report::plot::{Bars, Origin, Plot};

use super::Point;
use super::family::Family;
use super::way::Way;
use crate::outcome::{Outcome, Table};

pub(super) fn conclude(points: &[Point], outcome: &mut Outcome) {
    for point in points {
        let what = format!("{}, {}", point.family, point.way.name(point.family));
        outcome.compare(what, "bytes a member", [None, Some(point.each()), Some(point.predicted_each())]);
    }
    let (folded, own): (Vec<_>, Vec<_>) = points.iter().partition(|point| point.way.is_folded());
    outcome.tables.push(table("memory", "Memory, kept by the server itself", &own));
    // Not to the byte the same for the same seed: a seed says where parts are cut.
    outcome.tables.push(table("folded", "The same, kept by keyfold", &folded));
    outcome.tables.push(speed_table(points));
    outcome.plots.extend(plots(points));
    outcome.verdict = verdict(points);
    outcome.notes.extend(notes());
}

fn table(name: &'static str, title: &str, points: &[&Point]) -> Table {
    Table::of(
        name,
        title,
        points,
        &[
            ("what", &|point| point.family.name().into()),
            ("way", &|point| point.way.name(point.family).into()),
            ("members", &|point| point.members.into()),
            ("measured_bytes", &|point| point.measured.into()),
            ("predicted_bytes", &|point| point.predicted.into()),
            ("bytes_per_member", &|point| (point.each(), 1).into()),
        ],
    )
}

fn speed_table(points: &[Point]) -> Table {
    Table::of(
        "look-ups",
        "Microseconds to look for a member or read a field that is there, one at a time, the fastest of five \
         rounds: the server's own time, and the client's",
        points,
        &[
            ("what", &|point| point.family.name().into()),
            ("way", &|point| point.way.name(point.family).into()),
            ("members", &|point| point.members.into()),
            ("server_us", &|point| (point.took.server_us, 2).into()),
            ("clock_us", &|point| (point.took.clock_us, 2).into()),
        ],
    )
}

/// What is shown of a family side by side.
const BARS: [(&str, &[Way]); 4] = [
    ("plain", &[Way::Plain]),
    ("packed by the server", &[Way::Packed]),
    ("as a hash", &[Way::AsHash]),
    ("folded (of sessions: by the codec fields)", &[Way::FoldedByFields, Way::Folded]),
];

fn plots(points: &[Point]) -> [Plot; 3] {
    let find = |family, ways: &[Way]| {
        let is = |way: &Way| points.iter().find(|point| point.family == family && point.way == *way);
        ways.iter().find_map(is)
    };
    let plot = |name, title: &str, y: &str, value: fn(&Point) -> f64| {
        let bars = |(color, (name, ways)): (usize, &(&str, &[Way]))| Bars {
            name: (*name).to_owned(),
            origin: Origin::Measured,
            color,
            values: Family::ALL.iter().map(|family| find(*family, ways).map(value)).collect(),
        };
        let categories = Family::ALL.map(|family| family.short_name().to_owned()).to_vec();
        Plot::bars(name, title, "what is kept", y, categories, BARS.iter().enumerate().map(bars).collect())
    };
    [
        plot("memory", "Memory of sets and hashes", "bytes a member or field", Point::each),
        plot("look-ups-server", "The server's own time for a look-up", "µs", |point| point.took.server_us),
        plot("look-ups-client", "The client's time for a look-up, one at a time", "µs", |point| point.took.clock_us),
    ]
}

fn verdict(points: &[Point]) -> String {
    let find = |family, way| points.iter().find(|point| point.family == family && point.way == way);
    let each = |family| {
        let (plain, folded) = find(family, Way::Plain).zip(find(family, Way::Folded))?;
        Some((family, plain.each(), folded.each()))
    };
    let folded: Vec<_> = Family::ALL.into_iter().filter_map(each).collect();
    if folded.is_empty() {
        return "Nothing could be folded here, so only the server's own ways were measured.".to_owned();
    }
    let said = |(family, plain, folded): &(Family, f64, f64)| format!("{family} {folded:.1} instead of {plain:.1}");
    let all: Vec<_> = folded.iter().map(said).collect();
    let mut verdict = format!("Bytes a member or field, folded and plain: {}", all.join(", "));
    if let Some(fields) = find(Family::Sessions, Way::FoldedByFields) {
        verdict += &format!(", and {:.1} by the codec fields", fields.each());
    }
    verdict + "."
}

fn notes() -> [String; 3] {
    [
        "Folded: written through a keyfold in the lab's own process, which is gone when memory is read. Large ones come member \
         by member behind the first 64, small ones as one command each. The layout, a vocabulary of the codec fields and the \
         server's scripts are there before as well as after, and so not counted."
            .to_owned(),
        "Where the parts of a large one are cut depends on a seed that keyfold draws, so its bytes differ by some percent from \
         one run to the next; the model is given the seed, and so says the bytes of these parts."
            .to_owned(),
        "What is packed under a raised limit is searched from end to end, by each write too: so no more than 30,000 members are \
         kept that way, as in the write-up. Integers in one set are found by halves; a write moves all that are greater. A limit \
         is the whole server's."
            .to_owned(),
    ]
}
