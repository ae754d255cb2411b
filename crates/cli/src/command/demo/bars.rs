//! What was measured as a picture for a page elsewhere: of each data set a bar for its plain keys, and one for the folded.

use keyfold_lab::measure::Measured;
use keyfold_report::number::tenths;
use keyfold_report::plot::{Bars, DrawError, Origin, Plot};

/// It stands alone: the server, what was measured and the number of records are in it.
pub(super) fn drawn(measured: &[Measured]) -> Result<String, DrawError> {
    let categories = measured.iter().map(|one| format!("{}, {:.1}×", one.name, one.ratio())).collect();
    let bar = |color, what: &str, each: &dyn Fn(&Measured) -> f64| {
        let bytes: Vec<_> = measured.iter().map(|one| tenths(each(one))).collect();
        let values = measured.iter().map(|one| Some(each(one))).collect();
        Bars { name: format!("{what}: {}", bytes.join(", ")), origin: Origin::Measured, color, values }
    };
    let series = vec![bar(1, "plain keys", &Measured::plain_each), bar(0, "folded", &Measured::folded_each)];
    let plot = Plot::bars(
        "saved",
        "Memory a record takes",
        "data set, and how many times less it takes folded",
        "bytes a record",
        categories,
        series,
    );
    let server = measured.first().map_or("", |one| &one.server);
    plot.svg(&format!("{server}, used_memory less that of the empty server; keyfold demo --measure --plot FILE"), true)
}

#[cfg(test)]
mod tests {
    use super::drawn;
    use keyfold_lab::measure::Measured;

    #[test]
    fn a_picture_stands_alone() {
        let counters = Measured {
            name: "counters".to_owned(),
            records: 1000,
            plain_bytes: 90_400,
            folded_bytes: 9_700,
            raised: Vec::new(),
            server: "Redis 7.0.15".to_owned(),
        };
        let sessions =
            Measured { name: "sessions".to_owned(), plain_bytes: 138_400, folded_bytes: 47_100, ..counters.clone() };
        let picture = drawn(&[counters, sessions]).unwrap();
        for said in ["Redis 7.0.15", "plain keys: 90.4, 138.4", "folded: 9.7, 47.1", "counters, 9.3×", "sessions, 2.9×"]
        {
            assert!(picture.contains(said), "{said} isn't in {picture}");
        }
    }
}
