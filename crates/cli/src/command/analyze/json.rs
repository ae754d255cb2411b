//! The analysis as JSON; `docs/analyze.md` has the schema.

use keyfold_survey::advice::Advised;
use keyfold_survey::choose::Choice;
use serde_json::{Value, json};

use super::Analysis;
use crate::print::choice::choice_json;
use crate::print::folded::folded_json;
use crate::print::uses;
use crate::scan::End;

pub(super) fn value(analysis: &Analysis) -> Value {
    let report = &analysis.report;
    json!({
        "server": analysis.server,
        "address": analysis.address,
        "memory": {
            "used_bytes": analysis.used_bytes(),
            "measured_bytes": analysis.measured.map(|measured| measured.keys_bytes),
            "model_bytes": report.model_bytes,
            "after_bytes": report.after_bytes,
        },
        "dump": analysis.dump.map(|dump| json!({
            "format": dump.format,
            "written_at": dump.written_at,
            "bytes": Some(dump.file_bytes).filter(|bytes| *bytes > 0),
            "expired": dump.expired,
        })),
        "nodes": analysis.shares.iter().map(|share| json!({
            "address": share.address,
            "slots": share.slots,
            "keys": share.keys,
            "used_bytes": share.measured.used_bytes,
            "measured_bytes": share.measured.keys_bytes,
            "model_bytes": analysis.of_node(share, report.model_bytes).round(),
            "after_bytes": analysis.of_node(share, report.after_bytes).round(),
        })).collect::<Vec<_>>(),
        "walk": {
            "keys": report.keys,
            "logical_keys": report.logical_keys(),
            "seen": report.seen,
            "complete": matches!(analysis.walked.end, End::Complete),
            "sampled": analysis.is_sampled(),
            "commands": analysis.walked.commands,
            "seconds": analysis.took.as_secs_f64(),
            "denied": analysis.walked.denied.iter().map(|(command, error)| json!({ "command": command, "error": error })).collect::<Vec<_>>(),
        },
        "uses": uses::json(&analysis.uses),
        "notes": analysis.notes,
        "folded": report.folded.iter().map(folded_json).collect::<Vec<_>>(),
        "families": report.families.iter().map(|one| family(analysis, one)).collect::<Vec<_>>(),
    })
}

fn family(analysis: &Analysis, one: &Advised) -> Value {
    let found = &one.family;
    let summary = &found.summary;
    let stored = summary
        .stored
        .iter()
        .map(|((kind, encoding), keys)| json!({ "type": kind.name(), "encoding": encoding.name(), "keys": keys }));
    let examples = summary.examples.iter().map(|example| {
        json!({
            "key": example.key.escape_ascii().to_string(),
            "value": example.value.as_ref().map(|value| value.escape_ascii().to_string()),
        })
    });
    let sizes = |sizes: &keyfold_survey::summary::Sizes| json!({ "median": sizes.quantile(0.5), "p99": sizes.quantile(0.99), "max": sizes.max(), "mean": sizes.mean() });
    let round = |value: f64| value.round();
    json!({
        "keys": found.name,
        "template": found.template.is_some(),
        "count": round(found.keys.value),
        "count_within": round(found.keys.within),
        "bytes": round(found.bytes.value),
        "bytes_within": round(found.bytes.within),
        "after_bytes": round(one.after_bytes),
        "bytes_per_key": found.bytes_per_key(),
        "value_bytes": (summary.values.count() > 0).then(|| sizes(&summary.values)),
        "elements": (summary.elements.counts.count() > 0).then(|| sizes(&summary.elements.counts)),
        "ttl_share": summary.expiring as f64 / summary.keys.max(1) as f64,
        "stored": stored.collect::<Vec<_>>(),
        "memory_usage_ratio": (summary.usage.1 > 0).then(|| summary.usage.0 as f64 / summary.usage.1 as f64),
        "advice": one.advice.name(),
        "why": one.why,
        "usd_month": analysis.usd(found.bytes.value),
        "usd_month_after": analysis.usd(one.after_bytes),
        "remedy": one.remedy.as_ref().map(|remedy| json!({
            "what": remedy.describe(),
            "settings": remedy.settings.iter().map(|one| json!({ "name": one.name, "needs": one.needs, "has": one.has })).collect::<Vec<_>>(),
            "sets_as_hashes": remedy.sets_as_hashes,
            "bytes": remedy.bytes.round(),
        })),
        "fold": one.choice.as_ref().map(|choice| fold(one, choice)),
        "examples": examples.collect::<Vec<_>>(),
    })
}

fn fold(one: &Advised, choice: &Choice) -> Value {
    let line = one.family.template.as_ref().map(|template| choice.rule.placement.line(template));
    let own = json!({
        "placement": line.filter(|_| one.advice.places()),
        "read_us_now": choice.read_us_now,
        "read_us_after": choice.read_us_after,
        "alternatives": choice.alternatives.iter().map(|other| json!({
            "what": other.what, "bytes": other.bytes, "read_us": other.read_us, "why_not": other.why_not,
        })).collect::<Vec<_>>(),
    });
    choice_json(choice, own)
}
