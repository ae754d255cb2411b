//! What keyfold left behind, or somebody else put into its names.

use super::super::finding::{Finding, Trouble};
use super::super::leftovers::{Heap, Leftovers};
use super::super::mend::Mend;
use super::super::{LayoutState, Observation};
use super::layout::recover;
use crate::number::plural;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    let left = &seen.leftovers;
    findings.extend(expired(seen, left));
    findings.extend(heap(&left.orphans, Trouble::OrphanedSpills, "spilled values", |count| {
        let value = plural(count, "spilled value");
        (format!("nothing points to {value}"), sweep(seen))
    }));
    findings.extend(heap(&left.damaged, Trouble::DamagedValues, "stored values", |count| {
        let value = plural(count, "stored value");
        let advice = "read them with `keyfold where`; keys that a newer keyfold wrote need that one, others can only \
                      be written again";
        (format!("{value} read as no keyfold before this one wrote them"), Mend::advice(advice))
    }));
    findings.extend(heap(&left.strays, Trouble::StrayFields, "fields of buckets", |count| {
        let field = plural(count, "field");
        let advice =
            "they were written past keyfold, or belong to a layout that was here before: HDEL what nobody needs";
        (format!("{field} in buckets are no key's place; no client can see them"), Mend::advice(advice))
    }));
    findings.extend(heap(&left.unknown_names, Trouble::UnknownNames, "keys that begin with ~", |count| {
        unknown_names(seen, count)
    }));
}

fn heap(heap: &Heap, kind: Trouble, place: &str, tell: impl FnOnce(u64) -> (String, Mend)) -> Option<Finding> {
    (heap.count > 0).then(|| {
        let (what, mend) = tell(heap.count);
        let mut finding = Finding::problem(kind, place, what);
        finding.cost_bytes = Some(heap.bytes);
        finding.examples.clone_from(&heap.examples);
        finding.mends.push(mend);
        finding
    })
}

fn expired(seen: &Observation, left: &Leftovers) -> Option<Finding> {
    let since_ms = left.expired_since_ms.map_or(0, |since| left.now_ms.saturating_sub(since));
    let minutes = u64::try_from(since_ms / 60_000).unwrap_or(0);
    let mut finding = heap(&left.expired, Trouble::ExpiredNotSwept, "values in buckets", |count| {
        let values = plural(count, "expired value");
        (format!("{values} were not removed, the first for {}", plural(minutes, "minute")), sweep(seen))
    })?;
    finding.why.push(if left.sweeping {
        "a keyfold sweeps this server now, and doesn't keep up, or has only begun".to_owned()
    } else {
        "no keyfold sweeps this server: none runs, or all run with --sweep-rate 0".to_owned()
    });
    Some(finding)
}

fn sweep(seen: &Observation) -> Mend {
    let url = &seen.names.url;
    let rate = if seen.leftovers.sweeping { 100_000 } else { 20_000 };
    Mend::command(
        "run a keyfold that sweeps, on any port; it goes through all buckets again and again",
        format!("keyfold serve --listen 127.0.0.1:0 --upstream {url} --sweep-rate {rate}"),
    )
}

fn unknown_names(seen: &Observation, count: u64) -> (String, Mend) {
    let keys = plural(count, "key");
    match &seen.layout {
        LayoutState::Known(_) => (
            format!("{keys} have names of keyfold's that its layout doesn't write; no client can see them"),
            Mend::advice("if a layout that was here before wrote them, put its namespaces back; DEL what nobody needs"),
        ),
        LayoutState::Absent | LayoutState::Damaged(_) => (
            format!("{keys} look like keyfold's, and there is no layout that reads them"),
            Mend::command(
                "if the layout was lost, restore it by the file that keys were folded by, or by what `keyfold layout show \
                 --toml` printed; else DEL what nobody needs",
                recover(&seen.names.url),
            ),
        ),
    }
}
