//! Says what was found, for people.

use std::io::Write;

use anstyle::{AnsiColor, Style};
use keyfold_report::number::{count, plural, size, tenths};
use keyfold_report::paper::Paper;
use keyfold_report::table::{Column, render};
use keyfold_survey::diagnosis::{Example, Family, FamilyName, Finding, Mend, Observation, Rewrite, Severity};

use super::Report;
use super::rewrite::Rewriter;

/// Families shown, the largest first.
const FAMILIES: usize = 12;
const BOLD: Style = Style::new().bold();
const RED: Style = Style::new().bold().fg_color(Some(anstyle::Color::Ansi(AnsiColor::Red)));

pub(super) fn print(report: &Report, out: &mut Paper) -> anyhow::Result<()> {
    head(report, out)?;
    families(&report.seen, out)?;
    if let Some(rewriter) = &report.rewritten {
        rewritten(rewriter, out)?;
    }
    let mut number = 0;
    for finding in &report.findings {
        if finding.severity == Severity::Problem {
            number += 1;
        }
        print_finding(finding, number, &report.seen, out)?;
    }
    if number == 0 {
        let looked = if report.broken_off.is_some() { "as far as it was looked at, " } else { "" };
        writeln!(
            out,
            "{looked}nothing found that costs memory; `keyfold analyze` weighs what else there is, sets too"
        )?;
    }
    if let Some(reason) = &report.broken_off {
        writeln!(out, "\n{RED}not everything was looked at{RED:#}: {reason}")?;
    }
    Ok(())
}

fn head(report: &Report, out: &mut Paper) -> anyhow::Result<()> {
    let Report { server, seen, took, .. } = report;
    let memory = &seen.memory;
    let (hashes, entries) = seen.families.iter().fold((0, 0), |(hashes, entries), (_, family)| {
        (hashes + family.fill.hashes(), entries + family.fill.entries())
    });
    writeln!(out, "{BOLD}{server}{BOLD:#} at {}", seen.names.url)?;
    writeln!(
        out,
        "{} used, {} held by the process; {} with {} looked at in {} s\n",
        size(memory.used_bytes),
        size(memory.rss_bytes),
        if hashes == 1 { "1 hash".to_owned() } else { format!("{} hashes", count(hashes)) },
        if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", count(entries)) },
        tenths(took.as_secs_f64()),
    )?;
    Ok(())
}

fn families(seen: &Observation, out: &mut Paper) -> anyhow::Result<()> {
    let mut families: Vec<_> = seen.families.iter().collect();
    families.sort_by_key(|(_, family)| std::cmp::Reverse(family.bytes()));
    if families.is_empty() {
        return Ok(());
    }
    let heads = [
        Column::name("hashes"),
        Column::number("number"),
        Column::number("hashtables").rank(1),
        Column::number("entries: median").rank(3),
        Column::number("99th").rank(4),
        Column::number("most").rank(2),
        Column::number("memory"),
    ];
    let row = |(name, family): &(&FamilyName, &Family)| {
        let fill = &family.fill;
        vec![
            family_name(name, seen),
            count(fill.hashes()),
            count(family.table_hashes()),
            count(fill.percentile(50)),
            count(fill.percentile(99)),
            count(fill.most()),
            size(family.bytes()),
        ]
    };
    writeln!(out, "{}", render(&heads, families.iter().take(FAMILIES).map(row), out.room()))?;
    if families.len() > FAMILIES {
        writeln!(out, " and {} more families", count((families.len() - FAMILIES) as u64))?;
    }
    Ok(writeln!(out)?)
}

/// A namespace's template, or a pattern.
pub(super) fn family_name(name: &FamilyName, seen: &Observation) -> String {
    match (name, seen.layout.known()) {
        (FamilyName::Namespace(index), Some(layout)) => layout.namespace(*index).keys.source().to_owned(),
        (FamilyName::Namespace(_), None) => String::new(),
        (FamilyName::Pattern(pattern), _) => pattern.escape_ascii().to_string(),
    }
}

fn rewritten(rewriter: &Rewriter, out: &mut Paper) -> anyhow::Result<()> {
    let Rewriter { packed, saved_bytes, busy, too_large, still_tables, longest_pause, .. } = rewriter;
    let pause_ms = longest_pause.as_secs_f64() * 1000.0;
    let hashes = if *packed == 1 { "hash" } else { "hashes" };
    write!(out, "{} {hashes} written anew", count(*packed))?;
    if *packed > 0 {
        write!(out, ", saving {}, each within {pause_ms:.2} ms", size(*saved_bytes))?;
    }
    for (left, why) in [
        (busy, "written to all the time"),
        (too_large, "too large to move at once"),
        (still_tables, "tables after all"),
    ] {
        if *left > 0 {
            write!(out, "; {} {why}", count(*left))?;
        }
    }
    Ok(writeln!(out, "\n")?)
}

fn print_finding(finding: &Finding, number: usize, seen: &Observation, out: &mut Paper) -> anyhow::Result<()> {
    match finding.severity {
        Severity::Problem => writeln!(out, "{RED}{number}.{RED:#} {BOLD}{}{BOLD:#}", finding.place)?,
        Severity::Note => writeln!(out, "{BOLD}note: {}{BOLD:#}", finding.place)?,
    }
    writeln!(out, "   {}", finding.what)?;
    for line in &finding.why {
        writeln!(out, "   {line}")?;
    }
    if let Some(cost) = finding.cost_bytes {
        writeln!(out, "   costs    {}", size(cost))?;
    }
    for example in &finding.examples {
        writeln!(out, "   such as  {}", show_example(example))?;
    }
    for (i, mend) in finding.mends.iter().enumerate() {
        print_mend(mend, if i == 0 { "mend" } else { "or" }, out)?;
    }
    match finding.rewrite {
        Rewrite::No => {}
        Rewrite::Now => writeln!(out, "   what is there has to be written anew: that is all it needs")?,
        Rewrite::After => {
            writeln!(
                out,
                "   what is there has to be written anew afterwards: keyfold doctor {} --rewrite",
                seen.names.url
            )?;
        }
    }
    Ok(writeln!(out)?)
}

fn print_mend(mend: &Mend, word: &str, out: &mut Paper) -> anyhow::Result<()> {
    let saves = mend
        .saves_bytes
        .zip(mend.after_bytes)
        .filter(|(saves, _)| *saves > 0)
        .map_or_else(String::new, |(saves, after)| format!(" (saves {}, leaves {})", size(saves), size(after)));
    writeln!(out, "   {word:<8} {}{saves}", mend.what)?;
    for line in &mend.lines {
        writeln!(out, "            {:<13} {}", line.way, line.text)?;
    }
    Ok(())
}

fn show_example(example: &Example) -> String {
    let mut text = format!("\"{}\"", example.key.escape_ascii());
    if let Some(field) = &example.field {
        text += &format!(" field \"{}\"", field.escape_ascii());
    }
    if example.database > 0 {
        text += &format!(" in database {}", example.database);
    }
    text += ": ";
    if let Some((what, bytes)) = example.long {
        text += &format!("a {what} of {}, ", plural(bytes, "byte"));
    }
    if let Some(entries) = example.entries {
        let entries = if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", count(entries)) };
        text += &format!("{entries}, ");
    }
    text + &size(example.bytes)
}
