//! A stored layout that doesn't read, or whose values don't, or by which keys are on their way.

use keyfold_core::layout::{Namespace, NamespaceIndex};

use super::super::finding::{Finding, Trouble};
use super::super::mend::Mend;
use super::super::{FamilyName, LayoutState, Observation};

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    if let LayoutState::Known(layout) = &seen.layout {
        findings.extend(layout.namespaces().iter().filter_map(unusable));
        findings.extend(layout.iter().filter_map(|(index, namespace)| untrained(seen, index, namespace)));
        findings.extend(layout.moving().filter_map(|namespace| move_open(seen, namespace)));
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

/// A move that has not come to its end. What buckets hold says little about what they will hold.
fn move_open(seen: &Observation, namespace: &Namespace) -> Option<Finding> {
    let from = namespace.former.as_ref()?.placement.line(namespace.keys.first());
    let what = format!(
        "a move of these keys from {from} to {} is open: they lie in both, as far as it came",
        namespace.line()
    );
    let mut finding = Finding::note(Trouble::MoveOpen, namespace.keys.source(), what);
    finding
        .why
        .push("until it ends each of them is looked for twice, and how full its buckets are isn't judged".to_owned());
    let url = &seen.names.url;
    let mends = [
        (
            "unless a fold or unfold is at it now, end it, with the layout's file",
            format!("keyfold fold {url} --layout layout.toml"),
        ),
        ("take it back", format!("keyfold unfold {url}")),
    ];
    finding.mends.extend(mends.into_iter().map(|(what, command)| Mend::command(what, command)));
    Some(finding)
}

/// A namespace that has keys, none of which its codec makes shorter.
fn untrained(seen: &Observation, index: NamespaceIndex, namespace: &Namespace) -> Option<Finding> {
    let (_, family) = seen.families.iter().find(|(name, _)| **name == FamilyName::Namespace(index))?;
    if !namespace.is_untrained() || namespace.is_moving() || family.fill.entries() == 0 {
        return None;
    }
    let what = format!("{} hasn't learned from its values yet, and they are stored as they are", namespace.codec);
    let mut finding = Finding::problem(Trouble::UntrainedCodec, namespace.keys.source(), what);
    finding.why.push(
        "a codec is trained by values that are there: these came after the layout, by clients or an import".to_owned(),
    );
    let url = &seen.names.url;
    let mend = Mend::command("train it, and write what is there once more", format!("keyfold train {url}"));
    finding.mends.push(mend.with_line("shell", format!("keyfold recode {url}")));
    Some(finding)
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
