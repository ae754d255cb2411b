//! `keyfold plan`: from a server's keys to a layout with its reasons.

mod gather;
mod print;
mod prove;

use std::{fs, mem};

use anyhow::{Context, anyhow, bail};
use keyfold_report::number::{bytes, count, plural};
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;
use keyfold_survey::choose::{Aims, choose_among};
use keyfold_survey::plan::{Family, Heading, Part, Plan};
use keyfold_survey::summary::HandMade;

use crate::config::plan::PlanConfig;
use crate::origin::{self, Origin};
use crate::trace;
use crate::weighing::{Bounds, Weighing};
use gather::{Gathered, Survey};
use print::Report;

/// Values read to train and judge codecs by.
const CODEC_BOUNDS: Bounds = Bounds { family_bytes: 4 << 20, all_bytes: 64 << 20 };

pub(crate) fn run(config: &PlanConfig, out: &mut Paper) -> anyhow::Result<()> {
    let assumed = &config.flags.settings.assume;
    let mut origin =
        origin::open(&config.place, &config.databases, &config.walk, assumed, config.flags.origin.cluster)?;
    // Ctrl-C ends the walk, and what was seen is planned for.
    let interrupt = Interrupt::listen()?;
    let (mut survey, stored) = gather::gather(origin.as_mut(), config, &interrupt)?;
    let known = origin.known();
    let facts = &known.facts;
    let aims = Aims {
        growth: config.flags.growth,
        min_saving: config.flags.min_saving,
        text_tables: !config.flags.no_text_tables,
        keeps_settings: config.flags.keep_settings,
        all_keys: (survey.total, survey.expiring),
        ..Aims::new(facts.model.clone(), facts.server, facts.limits)
    };
    weigh_codecs(&mut survey, origin.as_ref(), config, &interrupt);
    let mut plan = Plan::new(survey.families.iter().map(|family| decide(family, &aims)).collect(), stored);
    let populations: Vec<_> = survey.families.iter().map(Gathered::population).collect();
    plan.share(&populations, &aims);
    drop(populations);
    plan.keep_others(mem::take(&mut survey.others));
    survey.notes.splice(0..0, facts.guesses.iter().chain(&known.notes).cloned());
    if let Some(requests) = &config.trace {
        survey.notes.extend(trace::notes(&trace::forecast(requests, &interrupt)?));
    } else if let Some((eviction, evicted_keys)) = known.eviction {
        survey.notes.extend(plan.eviction_notes(eviction, evicted_keys));
    }
    let places_keys = plan.families.iter().any(|(_, part)| *part == Part::Namespace);
    if config.flags.prove && !places_keys {
        survey.notes.push("nothing was proved: the plan places no keys".to_owned());
    }
    let heading = heading(&known.server, &survey, config, plan.total_bytes(&aims.model));
    if let Some(path) = &config.flags.out {
        plan.layout().map_err(|problem| anyhow!("the layout that was planned is refused: {problem}"))?;
        fs::write(path, plan.to_toml(&heading)).with_context(|| format!("can't write {}", path.display()))?;
    }
    let prove = || {
        let mut values = origin.values(config.walk.max_ops)?;
        prove::prove(&plan, &survey, config, &aims, known.flavor, values.as_mut())
    };
    let proof = (config.flags.prove && places_keys).then(prove).transpose()?;
    let report = Report {
        server: &known.server,
        config,
        survey: &survey,
        uses: &known.uses,
        plan: &plan,
        aims: &aims,
        proof: &proof,
    };
    report.write(out)?;
    match proof.filter(|proof| !proof.holds()) {
        Some(proof) => {
            bail!("measured on {} and predicted differ by more than {} %", proof.server, prove::TOLERANCE_PERCENT)
        }
        None => Ok(()),
    }
}

/// Reads values of every family, and sees what codecs make of them.
fn weigh_codecs(survey: &mut Survey, origin: &dyn Origin, config: &PlanConfig, interrupt: &Interrupt) {
    if config.flags.no_values || !survey.reads_values {
        return;
    }
    let values = match origin.values(config.walk.max_ops) {
        Ok(values) => values,
        Err(error) => return survey.notes.push(format!("{error:#}")),
    };
    let mut weighing = Weighing::new(Some(values), CODEC_BOUNDS, survey.families.len(), interrupt);
    weighing.expect(survey.families.iter().map(|family| family.even.as_slice()));
    for gathered in &mut survey.families {
        gathered.codings = weighing.codings(&gathered.population(), &gathered.even);
    }
    survey.notes.append(&mut weighing.notes);
}

fn decide(gathered: &Gathered, aims: &Aims) -> Family {
    let mut choice = choose_among(&gathered.population(), aims, &gathered.codings);
    choice.other_ways.extend(gathered.hand_made.map(HandMade::describe));
    if let Some(remedy) = &gathered.remedy {
        remedy.tell(&mut choice);
    }
    Family { template: gathered.template.clone(), keys: gathered.keys, choice }
}

/// What the file says of where it came from.
fn heading(server: &str, survey: &Survey, config: &PlanConfig, (now, after): (u64, u64)) -> Heading {
    let mut lines = vec![format!(
        "Planned by keyfold {} for {} from {} of {}; room to grow was asked for {} times as many.",
        env!("CARGO_PKG_VERSION"),
        server,
        count(survey.seen),
        plural(survey.total, "key"),
        config.flags.growth,
    )];
    lines.push(
        "Bytes are predictions for that server; µs are its own time for a read, as docs/plan.md says.".to_owned(),
    );
    if !survey.nodes.is_empty() {
        let (nodes, now_mb, after_mb) = (survey.nodes.len(), bytes(now as f64), bytes(after as f64));
        lines.push(format!(
            "It is a cluster of {}: {now_mb} now, {after_mb} as planned, all together.",
            plural(nodes as u64, "primary node")
        ));
        lines.extend(survey.nodes.iter().map(|node| {
            let share = |all: u64| bytes(survey.of_node(node, all));
            format!(
                "{}, {}: {} now, {} as planned.",
                node.address,
                plural(node.slots as u64, "slot"),
                share(now),
                share(after)
            )
        }));
    }
    lines.extend(survey.notes.iter().cloned());
    Heading { lines }
}
