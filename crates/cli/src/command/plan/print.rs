//! What `keyfold plan` shows.

use std::io::Write;

use keyfold_core::template::Template;
use keyfold_report::number::{bytes, count, decimals, plural, size, tenths};
use keyfold_report::paper::Paper;
use keyfold_report::table::{Column, render};
use keyfold_survey::choose::{Aims, Choice, CodecChoice, Setting, Verdict};
use keyfold_survey::plan::{Family, Part, Plan};
use keyfold_survey::survey::Folded;
use keyfold_survey::uses::Uses;
use serde_json::{Value, json};

use super::gather::Survey;
use super::prove::Proof;
use crate::config::plan::PlanConfig;
use crate::origin::Node;
use crate::print::choice::choice_json;
use crate::print::folded::folded_json;
use crate::print::uses;

/// All that is shown.
pub(super) struct Report<'a> {
    pub(super) server: &'a str,
    pub(super) config: &'a PlanConfig,
    pub(super) survey: &'a Survey,
    pub(super) uses: &'a Uses,
    pub(super) plan: &'a Plan,
    pub(super) aims: &'a Aims,
    pub(super) proof: &'a Option<Proof>,
}

impl Report<'_> {
    pub(super) fn write(&self, out: &mut Paper) -> anyhow::Result<()> {
        if self.config.flags.json { self.json(out) } else { self.text(out) }
    }

    fn text(&self, out: &mut Paper) -> anyhow::Result<()> {
        let Self { server, survey, plan, .. } = self;
        let clients = match survey.folded.is_empty() {
            true => String::new(),
            false => format!(", which are {} to clients", count(survey.logical_keys())),
        };
        let (seen, total) = (count(survey.seen), plural(survey.total, "key"));
        writeln!(out, "{server}: {seen} of {total} seen{clients}; a key, on average\n")?;
        let heads = [
            Column::name("keys"),
            Column::number("number").rank(1),
            Column::number("bytes now").rank(4),
            Column::number("after").rank(3),
            Column::number("ratio").rank(2),
            Column::number("µs now").rank(7),
            Column::number("after").rank(6),
            Column::word("values").rank(5),
            Column::sentence("advice"),
        ];
        let (notable, minor, minor_keys) = plan.notable();
        let rows = survey.folded.iter().map(folded_row).chain(notable.map(|(family, part)| row(family, part)));
        writeln!(out, "{}\n", render(&heads, rows, out.room()))?;
        let (now, after) = plan.total_bytes(&self.aims.model);
        let ratio = now as f64 / after.max(1) as f64;
        let what = if survey.folded.is_empty() { "all of it" } else { "what is not folded yet" };
        match plan.families.is_empty() {
            true => writeln!(out, "there are no more strings to fold")?,
            false => writeln!(out, "{what}: {} now, {} as planned, {ratio:.2}×", size(now), size(after))?,
        }
        self.open_moves(out)?;
        self.nodes(out, (now, after))?;
        for (family, part) in plan.notable().0 {
            if let Some(why) = why_not(family, part) {
                writeln!(out, "{}: {why}", family.template)?;
            }
            for other_way in &family.choice.other_ways {
                writeln!(out, "{}: {other_way}", family.template)?;
            }
        }
        if minor > 0 {
            let (keys, templates) = (plural(minor_keys, "key"), plural(minor, "other template"));
            writeln!(out, "{keys} of {templates}: too few each for a namespace")?;
        }
        for (family, codec) in self.codecs() {
            let each = |bytes: u64| tenths(bytes as f64 / family.keys.max(1) as f64);
            let (without, with) = (each(codec.bytes_without), each(family.choice.bytes_after));
            let judged = plural(codec.judged_by as u64, "value");
            writeln!(
                out,
                "{}: {}; {without} bytes a key without, {with} with it ({judged})",
                family.template,
                codec.describe()
            )?;
        }
        self.shared(out)?;
        self.settings(out)?;
        for note in &survey.notes {
            writeln!(out, "note: {note}")?;
        }
        if let Some(section) = uses::text(self.uses) {
            writeln!(out, "\n{section}")?;
        }
        if let Some(proof) = self.proof {
            writeln!(out, "\n{}", proof.text(out.room()))?;
        }
        match &self.config.flags.out {
            Some(path) => writeln!(out, "the layout is in {}, with the reasons", path.display())?,
            None => writeln!(out, "write the layout, with the reasons, by --out FILE")?,
        }
        Ok(())
    }

    /// The moves that have not come to their end.
    fn open_moves(&self, out: &mut Paper) -> anyhow::Result<()> {
        let open = self.survey.folded.iter().filter_map(|one| Some((one, one.moving_from.as_ref()?)));
        for (one, from) in open {
            writeln!(
                out,
                "a move of {} from {from} to {} is open, which `keyfold fold` or `keyfold unfold` ends",
                one.name, one.line
            )?;
        }
        Ok(())
    }

    /// What each node of a cluster has of it, by its keys.
    fn nodes(&self, out: &mut Paper, (now, after): (u64, u64)) -> anyhow::Result<()> {
        if self.survey.nodes.is_empty() {
            return Ok(());
        }
        if self.aims.model.has_tables_by_slot() {
            let (now, after) = self.plan.keyspaces(&self.aims.model);
            let [now, after] = [now, after].map(|keyspace| bytes(keyspace.table_bytes() as f64));
            writeln!(out, "of it, the tables that find the keys of each slot: {now} now, {after} as planned")?;
        }
        let heads = [
            Column::name("node"),
            Column::number("slots").rank(1),
            Column::number("keys").rank(2),
            Column::number("bytes now"),
            Column::number("after"),
        ];
        let row = |node: &Node| {
            let share = |all: u64| bytes(self.survey.of_node(node, all));
            vec![node.address.clone(), count(node.slots as u64), count(node.keys), share(now), share(after)]
        };
        Ok(writeln!(out, "\n{}\n", render(&heads, self.survey.nodes.iter().map(row), out.room()))?)
    }

    /// The families whose values a codec is to store.
    fn codecs(&self) -> impl Iterator<Item = (&Family, &CodecChoice)> {
        let planned = self.plan.families.iter().filter(|(_, part)| part.is_placed());
        planned.filter_map(|(family, _)| Some((family, family.choice.codec.as_ref()?)))
    }

    /// The families that share buckets, and what that brings.
    fn shared(&self, out: &mut Paper) -> anyhow::Result<()> {
        let mut families = self.plan.families.iter();
        let first = families.find_map(|(family, part)| match part {
            Part::Shared(templates) => Some((templates, family.choice.notes.first()?)),
            _ => None,
        });
        if let Some((templates, note)) = first {
            writeln!(out, "{templates}: {note}")?;
        }
        Ok(())
    }

    /// The settings that have to be changed.
    fn settings(&self, out: &mut Paper) -> anyhow::Result<()> {
        let planned = self.plan.families.iter().filter(|(_, part)| part.is_placed());
        let mut unmet: Vec<&Setting> =
            planned.flat_map(|(family, _)| &family.choice.relies_on).filter(|setting| !setting.is_met()).collect();
        unmet.sort_by_key(|setting| (setting.name, std::cmp::Reverse(setting.needs)));
        unmet.dedup_by_key(|setting| setting.name);
        let is_unmet = !unmet.is_empty();
        let place = if self.survey.nodes.is_empty() { "on the server" } else { "on every node, replicas included" };
        for Setting { name, needs, has, .. } in unmet {
            writeln!(out, "{place}, before the layout is used: CONFIG SET {name} {needs} (it is {has})")?;
        }
        if is_unmet {
            writeln!(out, "or plan for its settings as they are: --keep-settings")?;
        }
        Ok(())
    }

    fn json(&self, out: &mut Paper) -> anyhow::Result<()> {
        let (now, after) = self.plan.total_bytes(&self.aims.model);
        let mut report = json!({
            "server": self.server,
            "keys": {
                "seen": self.survey.seen, "total": self.survey.total, "logical": self.survey.logical_keys(),
            },
            "folded": self.survey.folded.iter().map(folded_json).collect::<Vec<_>>(),
            "memory": { "model_bytes": now, "after_bytes": after },
            "families": self.plan.families.iter().map(family_json).collect::<Vec<_>>(),
            "uses": uses::json(self.uses),
            "notes": self.survey.notes,
            "proof": self.proof.as_ref().map(Proof::json),
            "layout": self.config.flags.out,
        });
        if !self.survey.nodes.is_empty() {
            let node = |node: &Node| {
                let share = |all: u64| self.survey.of_node(node, all).round();
                json!({
                    "address": node.address, "slots": node.slots, "keys": node.keys,
                    "model_bytes": share(now), "after_bytes": share(after),
                })
            };
            report["nodes"] = self.survey.nodes.iter().map(node).collect();
        }
        Ok(out.whole(format_args!("{report:#}"))?)
    }
}

/// What a namespace of the server's layout has folded already.
fn folded_row(one: &Folded) -> Vec<String> {
    let mut cells = vec![one.name.clone(), decimals(one.keys.value, 0), tenths(one.bytes_per_key())];
    cells.extend([const { String::new() }; 5]);
    cells.push(format!("folded: {}", one.line));
    cells
}

fn row(family: &Family, part: &Part) -> Vec<String> {
    let Family { template, keys, choice } = family;
    let each = |bytes: u64| tenths(bytes as f64 / (*keys).max(1) as f64);
    let mut cells = vec![template.to_string(), count(*keys), each(choice.bytes_now)];
    let us = |us: f64| format!("{us:.2}");
    if part.is_placed() {
        let ratio = format!("{:.2}×", choice.bytes_now as f64 / choice.bytes_after.max(1) as f64);
        cells.extend([each(choice.bytes_after), ratio, us(choice.read_us_now), us(choice.read_us_after)]);
        let codec = choice.codec.as_ref();
        cells.push(codec.map_or_else(String::new, |codec| format!("{} {:.2}×", codec.rule.name, codec.ratio)));
        let line = choice.rule.placement.line(template);
        cells.push(if matches!(part, Part::Shared(_)) { format!("{line}, shared") } else { line });
    } else {
        let now = us(choice.read_us_now);
        cells.extend([String::new(), String::new(), now, String::new(), String::new(), "leave".to_owned()]);
    }
    cells
}

/// Why a family has no namespace that folds it.
fn why_not(family: &Family, part: &Part) -> Option<String> {
    match (part, &family.choice.verdict) {
        (Part::Namespace | Part::Shared(_), _) => None,
        (Part::Dropped(why), _) => Some(why.clone()),
        (Part::GoesWith(wider), _) => Some(format!("too few for a namespace: they go with `{wider}`")),
        (_, Verdict::Leave(why)) => Some(why.clone()),
        (_, Verdict::Fold | Verdict::Zip) => None,
    }
}

fn family_json((family, part): &(Family, Part)) -> Value {
    let Family { template, keys, choice } = family;
    let advice = match (part, &choice.verdict) {
        (Part::Namespace, Verdict::Zip) => "zip",
        (Part::Namespace | Part::Shared(_), _) => "fold",
        _ => "leave",
    };
    let own = json!({
        "keys": template.source(),
        "count": keys,
        "bytes": choice.bytes_now,
        "after_bytes": if advice == "leave" { choice.bytes_now } else { choice.bytes_after },
        "advice": advice,
        "why": why_not(family, part),
        "shares_buckets_of": if let Part::Shared(templates) = part {
            Some(templates.iter().map(Template::source).collect::<Vec<_>>())
        } else {
            None
        },
        "placement": choice.rule.placement.line(template),
        "read_us": { "now": choice.read_us_now, "after": choice.read_us_after },
        "fill": fill_json(choice),
        "alternatives": choice.alternatives.iter().map(|other| json!({
            "what": other.what,
            "bytes": Some(other.bytes).filter(|bytes| *bytes > 0),
            "read_us": Some(other.read_us).filter(|_| other.bytes > 0),
            "why_not": other.why_not,
        })).collect::<Vec<_>>(),
    });
    choice_json(choice, own)
}

fn fill_json(choice: &Choice) -> Value {
    let quantiles = |fill: &keyfold_survey::choose::Fill| json!({ "mean": fill.mean(), "p1": fill.quantile(0.01), "p50": fill.quantile(0.5), "p99": fill.quantile(0.99) });
    choice.fill.as_ref().map_or(Value::Null, quantiles)
}
