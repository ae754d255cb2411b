//! What a move will do and has done, for people and for programs.

use std::io::Write;

use keyfold_core::layout::{Move, Namespace};
use keyfold_core::placement::Placement;
use keyfold_report::number::{count, plural, size, tenths};
use keyfold_report::paper::Paper;
use keyfold_report::table::{self, Column};
use serde_json::{Value, json};

use crate::config::fold::Fold;
use crate::moving::carry_out::Done;
use crate::moving::checks::Checks;
use crate::moving::drive::Driven;
use crate::moving::stays;
use crate::moving::survey::Survey;
use crate::print::held;

pub(super) fn show_plan(planned: &Move, survey: &Survey, checks: &Checks, out: &mut Paper) -> anyhow::Result<()> {
    let rows = moving(planned).map(|(index, namespace, from)| {
        let keys = survey.families.get(&index).map_or(0, |family| family.keys);
        vec![namespace.keys.to_string(), count(keys), from.line(namespace.keys.first()), namespace.line()]
    });
    let heads = [Column::name("keys"), Column::number("number"), Column::sentence("from"), Column::sentence("to")];
    writeln!(out, "{}\n", table::render(&heads, rows, out.room()))?;
    let (now, after) = (survey.used_bytes(), survey.after_bytes());
    match checks.obstacles.is_empty() {
        true => writeln!(out, "memory: {} now, {} after{}", size(now), size(after), saving(now, after))?,
        // Nothing is promised that won't come as things are.
        false => writeln!(out, "memory: {} now", size(now))?,
    }
    for raise in &checks.raises {
        writeln!(out, "to be set first: {raise}")?;
    }
    for warning in &checks.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for obstacle in &checks.obstacles {
        writeln!(out, "obstacle: {obstacle}")?;
    }
    Ok(())
}

fn moving(planned: &Move) -> impl Iterator<Item = (usize, &Namespace, &Placement)> {
    planned.layout.iter().filter_map(|(index, namespace)| {
        namespace.former.as_ref().map(|former| (index.0, namespace, &former.placement))
    })
}

fn saving(before: u64, after: u64) -> String {
    if after >= before {
        return String::new();
    }
    let percent = (before - after) as f64 * 100.0 / before.max(1) as f64;
    format!(", {} % less", tenths(percent))
}

pub(super) fn plan_json(planned: &Move, survey: &Survey, checks: &Checks) -> Value {
    let namespaces: Vec<Value> = moving(planned)
        .map(|(index, namespace, from)| {
            let family = survey.families.get(&index);
            json!({
                "keys": namespace.keys.source(),
                "count": family.map_or(0, |family| family.keys),
                "other_types": family.map_or(0, |family| family.other_keys),
                "from": from.line(namespace.keys.first()),
                "to": namespace.line(),
            })
        })
        .collect();
    json!({
        "namespaces": namespaces,
        "memory": { "before_bytes": survey.used_bytes(), "predicted_bytes": survey.after_bytes() },
        "warnings": checks.warnings,
        "obstacles": checks.obstacles,
        "raises": checks.raises,
    })
}

/// What the process holds follows what it uses late, or not at all: somebody who looks at the system's numbers is told why.
fn say_rss(before: u64, done: &Done, out: &mut Paper) -> anyhow::Result<()> {
    if before == 0 || done.rss_bytes == 0 {
        return Ok(());
    }
    writeln!(out, "held by the process (RSS): {} before, {} now", size(before), size(done.rss_bytes))?;
    held::advice(done.used_bytes, done.rss_bytes).iter().try_for_each(|advice| writeln!(out, "{advice}"))?;
    Ok(())
}

/// `raised` are the lines of settings that were raised.
pub(super) fn report(
    config: &Fold,
    planned: &Move,
    survey: &Survey,
    done: &Done,
    raised: &[String],
    out: &mut Paper,
) -> anyhow::Result<()> {
    let Driven { moved, expired, left, stays, peak_bytes, took, unproven, seen: _ } = &done.driven;
    // It was asked for now and then while keys were moved, and not before or after that.
    let peak_bytes = (*peak_bytes).max(survey.used_bytes()).max(done.used_bytes);
    if config.flags.json {
        let mut report = plan_json(planned, survey, &Checks::default());
        report["raises"] = json!(raised);
        report["moved"] = json!(moved);
        report["expired"] = json!(expired);
        report["left"] = json!(left.left_count);
        report["stragglers"] = json!(done.stragglers);
        report["settled"] = json!(done.settled);
        report["unsettled_because"] = json!(unproven);
        report["epoch"] = json!(done.layout.epoch().0);
        report["seconds"] = json!(took.as_secs_f64());
        report["memory"]["after_bytes"] = json!(done.used_bytes);
        report["memory"]["peak_bytes"] = json!(peak_bytes);
        report["memory"]["rss_before_bytes"] = json!(survey.rss_bytes());
        report["memory"]["rss_after_bytes"] = json!(done.rss_bytes);
        return Ok(out.whole(format_args!("{report:#}"))?);
    }
    let rate = u128::from(*moved) * 1_000_000 / took.as_micros().max(1);
    writeln!(
        out,
        "\nmoved {} in {:.1} s, {} a second; change number {} of the layout is in force",
        plural(*moved, "key"),
        took.as_secs_f64(),
        count(u64::try_from(rate).unwrap_or(u64::MAX)),
        done.layout.epoch()
    )?;
    writeln!(
        out,
        "memory: {} before, {} at the most, {} now ({} predicted){}",
        size(survey.used_bytes()),
        size(peak_bytes),
        size(done.used_bytes),
        size(survey.after_bytes()),
        saving(survey.used_bytes(), done.used_bytes)
    )?;
    say_rss(survey.rss_bytes(), done, out)?;
    if left.left_count > 0 {
        writeln!(
            out,
            "\n{}; their namespaces stay between their placements. Mend this and run the same command again:",
            stays::describe(left)
        )?;
        for one in stays.iter().take(config.flags.list) {
            writeln!(out, "  {}", one.line(&done.layout))?;
        }
    }
    if let Some(why) = unproven {
        writeln!(
            out,
            "\nall keys that were found have been moved, but a failover could bring some back to old places: {why}. The \
             namespaces stay between their placements, and clients see every key; run the same command again to settle them"
        )?;
    }
    if done.stragglers > 0 {
        writeln!(
            out,
            "\n{} written to old places past keyfold while the move ended; they are not lost, but clients of keyfold \
             don't see them. Point those clients to keyfold, and run the same command again",
            if done.stragglers == 1 { "1 key was".to_owned() } else { format!("{} keys were", count(done.stragglers)) }
        )?;
    }
    Ok(())
}
