//! The memory model keeps within 2% of every server at hand. `make memory-model` measures more, and larger.

use keyfold_testkit::found;
use keyfold_testkit::memory::{Case, case, measure, real};

const TOLERANCE_PERCENT: f64 = 2.0;
/// Enough that chance doesn't show, few enough to be quick.
const RECORDS: usize = 5_000;

fn check(cases: &[Case]) {
    let servers = found();
    let mut off = Vec::new();
    for (binary, case) in servers.iter().flat_map(|binary| cases.iter().map(move |case| (binary, case))) {
        let measured = measure(binary, case).unwrap();
        if measured.error_percent().abs() > TOLERANCE_PERCENT {
            off.push(format!("{}, {}: {measured:?} {:+.2}%", binary.name(), case.name, measured.error_percent()));
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn made_up_data() {
    check(&case::seeded(RECORDS));
}

#[test]
fn real_data() {
    let Some(directory) = real::directory() else {
        eprintln!("skipped: no real data beside the workspace or under KEYFOLD_DATA");
        return;
    };
    for cases in real::cases(&directory, RECORDS) {
        check(&cases.unwrap());
    }
}
