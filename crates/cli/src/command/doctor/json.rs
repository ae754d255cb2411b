//! Says what was found, for programs. `docs/doctor.md` has the schema.

use keyfold_survey::diagnosis::{
    Cause, Example, Family, FamilyName, Finding, Limit, Mend, Observation, Origin, Rewrite, Severity,
};
use serde_json::{Value, json};

use super::Report;
use super::print::family_name;
use super::rewrite::Rewriter;

pub(super) fn value(report: &Report) -> Value {
    let seen = &report.seen;
    let problems = report.findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    json!({
        "server": { "name": report.server, "url": seen.names.url, "config_file": seen.config_file.loaded },
        "complete": report.broken_off.is_none(),
        "broken_off": report.broken_off,
        "seconds": report.took.as_secs_f64(),
        "settings": settings(seen),
        "memory": memory(seen),
        "families": seen.families.iter().map(|(name, one)| family(name, one, seen)).collect::<Vec<_>>(),
        "problems": problems,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "rewritten": report.rewritten.as_ref().map(rewritten),
    })
}

fn settings(seen: &Observation) -> Value {
    let limit = |limit: Limit| {
        let setting = seen.settings.limit(limit);
        let origin = match setting.origin {
            Origin::Server => "server",
            Origin::Assumed => "assumed",
            Origin::Default => "default",
        };
        json!({ "name": seen.settings.name_of(limit), "value": setting.value, "from": origin })
    };
    json!({
        "hash_entries": limit(Limit::Entries),
        "hash_value_bytes": limit(Limit::ValueBytes),
        "maxmemory_bytes": seen.settings.maxmemory_bytes,
        "maxmemory_policy": seen.settings.maxmemory_policy,
    })
}

fn memory(seen: &Observation) -> Value {
    let memory = &seen.memory;
    json!({
        "used_bytes": memory.used_bytes,
        "rss_bytes": memory.rss_bytes,
        "dataset_bytes": memory.dataset_bytes,
        "clients_bytes": memory.clients_bytes,
        "replication_backlog_bytes": memory.backlog_bytes,
        "aof_buffer_bytes": memory.aof_buffer_bytes,
        "scripts_bytes": memory.scripts_bytes,
        "holes_bytes": memory.holes_bytes,
        "kept_pages_bytes": memory.kept_pages_bytes,
        "allocator": memory.allocator,
    })
}

fn family(name: &FamilyName, family: &Family, seen: &Observation) -> Value {
    let fill = &family.fill;
    let tables = |cause| family.tables(cause).hashes;
    json!({
        "name": family_name(name, seen),
        "folded": matches!(name, FamilyName::Namespace(_)),
        "hashes": fill.hashes(),
        "entries": fill.entries(),
        "bytes": family.bytes(),
        "bucketed_bytes": family.bucketed_bytes(),
        "fill": {
            "fewest": fill.fewest(), "mean": fill.mean(), "median": fill.percentile(50),
            "p99": fill.percentile(99), "most": fill.most(),
        },
        "hashtables": {
            "too_many_entries": tables(Cause::Entries), "long_field": tables(Cause::LongField),
            "long_value": tables(Cause::LongValue), "field_expiry": tables(Cause::FieldExpiry),
            "still_table": tables(Cause::Past),
        },
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind.name(),
        "severity": match finding.severity { Severity::Problem => "problem", Severity::Note => "note" },
        "where": finding.place,
        "what": finding.what,
        "why": finding.why,
        "cost_bytes": finding.cost_bytes,
        "examples": finding.examples.iter().map(example).collect::<Vec<_>>(),
        "mends": finding.mends.iter().map(mend).collect::<Vec<_>>(),
        "rewrite": match finding.rewrite { Rewrite::No => "no", Rewrite::After => "after", Rewrite::Now => "now" },
    })
}

fn example(example: &Example) -> Value {
    json!({
        "database": example.database,
        "key": example.key.escape_ascii().to_string(),
        "field": example.field.as_ref().map(|field| field.escape_ascii().to_string()),
        "bytes": example.bytes,
        "entries": example.entries,
        "too_long": example.long.map(|(what, bytes)| json!({ "what": what, "bytes": bytes })),
    })
}

fn mend(mend: &Mend) -> Value {
    let lines: Vec<_> = mend.lines.iter().map(|line| json!({ "for": line.way, "text": line.text })).collect();
    json!({ "what": mend.what, "lines": lines, "after_bytes": mend.after_bytes, "saves_bytes": mend.saves_bytes })
}

fn rewritten(rewriter: &Rewriter) -> Value {
    json!({
        "hashes": rewriter.packed,
        "saved_bytes": rewriter.saved_bytes,
        "busy": rewriter.busy,
        "too_large": rewriter.too_large,
        "still_tables": rewriter.still_tables,
        "conflicts": rewriter.conflicts,
        "longest_pause_ms": rewriter.longest_pause.as_secs_f64() * 1000.0,
    })
}
