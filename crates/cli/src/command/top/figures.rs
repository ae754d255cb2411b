//! Durations and shares as they are read.

use keyfold_report::number::decimals;

/// A duration in the unit that it is read in.
pub(super) fn duration(us: f64) -> String {
    match us {
        1e6.. => format!("{} s", decimals(us / 1e6, 2)),
        1e4.. => format!("{} ms", decimals(us / 1e3, 1)),
        1e3.. => format!("{} ms", decimals(us / 1e3, 2)),
        _ => format!("{us:.0} µs"),
    }
}

pub(super) fn percent(share: f64) -> String {
    format!("{} %", decimals(share * 100.0, 1))
}

/// An age as it is said.
pub(super) fn age(ms: u64) -> String {
    match ms / 1000 {
        seconds @ ..90 => format!("{seconds} s"),
        seconds @ ..5400 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
