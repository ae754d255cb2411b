//! What stands above all: what is watched, and the most important figures.

use keyfold_report::number::{bytes, decimals, plural};

use super::figures::{duration, percent};
use super::view::{Traffic, View};

/// The whole of it in pieces, the most important first; a narrow screen leaves out the last ones.
pub(super) fn headline(view: &View) -> Vec<String> {
    let Traffic { per_second, p50_us, p99_us, hit_ratio } = &view.total;
    let mut pieces = Vec::new();
    pieces.extend(per_second.map(|rate| format!("{}/s", decimals(rate, 0))));
    pieces.push(match view.saved {
        None => "saved –".to_owned(),
        Some(saved) => {
            let about = if saved.is_sampled { "~" } else { "" };
            let share = saved.plain_bytes.filter(|plain| *plain > 0.0);
            let share = share.map_or_else(String::new, |plain| format!(" ({})", percent(saved.bytes / plain)));
            format!("saved {about}{}{share}", bytes(saved.bytes))
        }
    });
    pieces.extend(p99_us.map(|us| format!("p99 {}", duration(us))));
    pieces.extend(hit_ratio.map(|share| format!("hits {}", percent(share))));
    pieces.extend(p50_us.map(|us| format!("p50 {}", duration(us))));
    pieces.extend(view.saved.and_then(|saved| saved.usd_a_month).map(|usd| format!("${}/month", decimals(usd, 2))));
    pieces
}

/// What stands above all.
pub(super) fn title(view: &View) -> String {
    let away = view.sources.iter().filter(|source| source.trouble.is_some()).count();
    let of = match view.sources.as_slice() {
        [one] => format!("{}, {}", one.name, one.state),
        all => plural(all.len() as u64, "source"),
    };
    let away = if away > 0 && view.sources.len() > 1 { format!(", {away} away") } else { String::new() };
    format!("keyfold top: {of}{away}")
}
