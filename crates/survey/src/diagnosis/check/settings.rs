//! Limits that are too low for the layout, limits that nobody tells, and files that aren't in effect.

use keyfold_core::layout::Namespace;

use super::super::Observation;
use super::super::finding::{Finding, Rewrite, Trouble};
use super::super::mend::Mend;
use super::super::settings::{Expected, Limit, Origin};
use super::{folding, rewrite_command};
use crate::number::grouped;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    findings.extend(unknown(seen));
    for limit in [Limit::ValueBytes, Limit::Entries] {
        findings.extend(below_layout(seen, limit));
    }
    match &seen.config_file.expected {
        Some(expected) => findings.extend(not_in_effect(seen, expected)),
        None => findings.extend(no_file(seen)),
    }
}

fn unknown(seen: &Observation) -> Option<Finding> {
    let unknown: Vec<_> = [Limit::Entries, Limit::ValueBytes]
        .into_iter()
        .filter(|limit| seen.settings.limit(*limit).origin == Origin::Default)
        .map(|limit| (seen.settings.name_of(limit), limit.default_value()))
        .collect();
    let names: Vec<_> = unknown.iter().map(|(name, _)| *name).collect();
    let place = names.join(", ");
    let flags: Vec<_> = unknown.iter().map(|(name, value)| format!("--assume {name}={value}")).collect();
    (!unknown.is_empty()).then(|| {
        let what = "the server doesn't tell this setting (CONFIG is not allowed); its default is assumed";
        let mut finding = Finding::note(Trouble::LimitUnknown, place, what);
        let command = format!("keyfold doctor {} {}", seen.names.url, flags.join(" "));
        finding.mends.push(Mend::command("look it up where the server is managed, and say what it is", command));
        finding
    })
}

/// What the namespace that needs the most needs of a limit, and the line of the layout that says so.
pub(super) fn need(seen: &Observation, limit: Limit) -> Option<(u64, &Namespace, String)> {
    let needs = folding(seen).filter_map(|namespace| match limit {
        Limit::ValueBytes => {
            let (field, bytes) = [("value_limit", namespace.value_limit), ("field_limit", namespace.field_limit)]
                .into_iter()
                .max_by_key(|(_, bytes)| *bytes)?;
            Some((bytes as u64, namespace, format!("{field} = {bytes}")))
        }
        Limit::Entries => Some((namespace.placement.span()?, namespace, namespace.line())),
    });
    needs.max_by_key(|(least, ..)| *least)
}

fn below_layout(seen: &Observation, limit: Limit) -> Option<Finding> {
    let setting = seen.settings.limit(limit);
    let (least, namespace, line) = need(seen, limit).filter(|(least, ..)| *least > setting.value)?;
    let name = seen.settings.name_of(limit);
    let keys = namespace.keys.source();
    let what = format!("{name} is {}, and {keys} needs {} ({line})", grouped(setting.value), grouped(least));
    let mut finding = Finding::problem(Trouble::LimitBelowLayout, name, what);
    finding.why.push("a bucket that comes to be over the limit is a hashtable from then on, and saves nothing".into());
    let mend = Mend::limits("raise the limit", seen, &[(limit, least)]);
    finding.mends.push(mend.with_line("shell", rewrite_command(seen)));
    finding.rewrite = Rewrite::After;
    Some(finding)
}

fn not_in_effect(seen: &Observation, expected: &Expected) -> Option<Finding> {
    let differing: Vec<_> = [Limit::Entries, Limit::ValueBytes]
        .into_iter()
        .filter_map(|limit| Some((limit, expected.limit(limit)?)))
        .filter(|(limit, value)| seen.settings.limit(*limit).value != *value)
        .collect();
    let loaded = seen.config_file.loaded.as_deref();
    let is_loaded = loaded.is_none_or(|loaded| same_file(loaded, &expected.path));
    if is_loaded && differing.is_empty() {
        return None;
    }
    let path = &expected.path;
    let what = match loaded {
        Some("") => format!("{path} was never loaded: the server runs without a configuration file"),
        Some(other) if !is_loaded => format!("{path} is not loaded: the server's configuration file is {other}"),
        _ => format!("{path} says otherwise than the server: changed after the start, or overridden"),
    };
    let mut finding = Finding::problem(Trouble::ConfigFileNotInEffect, path.clone(), what);
    let mut changes = Vec::new();
    for (limit, value) in differing {
        let (name, is) = (seen.settings.name_of(limit), seen.settings.limit(limit).value);
        finding.why.push(format!("{name} is {} in the file, and {} on the server", grouped(value), grouped(is)));
        changes.push((name, value.to_string()));
        finding.rewrite = Rewrite::After;
    }
    finding.mends.push(
        Mend::settings("start the server with the file; until then, set what it says", seen, &changes)
            .with_line("start", format!("redis-server {path}")),
    );
    Some(finding)
}

/// A path may be given relative, the server's is whole.
fn same_file(loaded: &str, expected: &str) -> bool {
    !loaded.is_empty() && (loaded == expected || loaded.ends_with(&format!("/{}", expected.trim_start_matches("./"))))
}

fn no_file(seen: &Observation) -> Option<Finding> {
    (seen.config_file.loaded.as_deref() == Some("")).then(|| {
        let what = "the server runs without a configuration file: what CONFIG SET changes is gone after a restart";
        let mut finding = Finding::note(Trouble::NoConfigFile, "INFO server, config_file", what);
        finding.why.push("if a file was meant to be in effect, it is not; say --config-file FILE to compare".into());
        finding
    })
}
