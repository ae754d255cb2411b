//! A stored layout that doesn't read, or whose values don't.

use keyfold_core::layout::Namespace;

use super::super::finding::{Finding, Trouble};
use super::super::mend::Mend;
use super::super::{LayoutState, Observation};

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    if let LayoutState::Known(layout) = &seen.layout {
        findings.extend(layout.namespaces().iter().filter_map(unusable));
    }
    let LayoutState::Damaged(reason) = &seen.layout else { return };
    let what = "the server's own layout can't be read: no keyfold will serve this server";
    let mut finding = Finding::problem(Trouble::DamagedLayout, "keyfold:{home}:layout in database 0", what);
    finding.why.extend(reason.lines().map(str::to_owned));
    finding.mends.push(Mend::command(
        "restore it by the file that keys were folded by, or by what `keyfold layout show --toml` printed",
        recover(&seen.names.url),
    ));
    findings.push(finding);
}

/// The command that restores a layout.
pub(super) fn recover(url: &str) -> String {
    format!("keyfold layout recover {url} --layout layout.toml")
}

/// The slots of a namespace whose values nobody can read.
fn unusable(namespace: &Namespace) -> Option<Finding> {
    let why: Vec<String> = namespace
        .codecs
        .unusable()
        .map(|(slot, reason)| format!("slot {} ({}): {reason}", slot.number, slot.rule))
        .collect();
    let what = "values stored by a codec that can't be used are refused to clients";
    let mut finding = Finding::problem(Trouble::UnusableCodec, namespace.keys.source(), what);
    finding.mends.push(Mend::advice(
        "put the fields of keyfold:{home}:dictionaries back from a backup, a replica, or a keyfold that still runs (it writes them \
         again within ten seconds); `keyfold verify` lists the keys concerned",
    ));
    let is_bad = !why.is_empty();
    finding.why.extend(why);
    is_bad.then_some(finding)
}
