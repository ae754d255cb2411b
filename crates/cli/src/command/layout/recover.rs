//! `keyfold layout recover`: what is left of a layout that was lost, and the way back.

use std::io::Write;
use std::process::ExitCode;

use keyfold_core::change::Standing;
use keyfold_core::layout::{Found, Layout};
use keyfold_core::placement::name::Stem;
use keyfold_report::number::{count, plural};
use keyfold_report::paper::Paper;
use keyfold_report::table::{self, Column};
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::layout::witnesses::{Witness, Word};
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, secrets};
use serde_json::{Value, json};

use crate::config::layout::Recover;
use crate::layout::evidence::{Evidence, Verdict};
use crate::layout::writer;
use crate::moving::carry_out::Done;
use crate::moving::recovery::{describe, put_in_force, put_in_force_on_all, settle};
use crate::moving::stays;

/// Some keys hold two values, or another type.
const LEFT: u8 = 3;

pub(super) fn run(config: &Recover, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let mut nodes = Nodes::connect(&config.target)?;
    if !nodes.are_cluster() {
        writer::enter(nodes.first())?;
    }
    let mut evidence = Evidence::gather_all(&mut nodes)?;
    if !config.flags.json {
        show(&evidence, out)?;
    }
    let verdict = evidence.judge(nodes.servers(), config.given.as_ref())?;
    let done = match config.flags.dry_run {
        true => None,
        false => restore(config, &mut nodes, &evidence, &verdict, &interrupt)?,
    };
    if config.flags.json {
        let report = report(&evidence, &verdict, done.as_ref());
        out.whole(format_args!("{report:#}"))?;
    } else {
        conclude(&verdict, done.as_ref(), config.flags.dry_run, out)?;
    }
    let is_left = done.is_some_and(|done| done.driven.left.left_count > 0 || done.stragglers > 0);
    Ok(if is_left { ExitCode::from(LEFT) } else { ExitCode::SUCCESS })
}

fn restore(
    config: &Recover,
    nodes: &mut Nodes,
    evidence: &Evidence,
    verdict: &Verdict,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Done>> {
    if nodes.are_cluster() {
        put_in_force_on_all(nodes, evidence, verdict, config.given.as_ref())?;
        writer::enter(nodes.home())?;
    } else {
        put_in_force(nodes.first(), &evidence.register, verdict)?;
    }
    let Some(stored) = stored::read(nodes.home())? else { return Ok(None) };
    settle(nodes, &stored, &mut Pace::new(config.flags.pace.max_ops), interrupt)
}

/// What was found, a line each.
fn show(evidence: &Evidence, out: &mut Paper) -> anyhow::Result<()> {
    let [layout, copy] = halves(evidence);
    let keyfolds = match evidence.keyfolds {
        0 => "none is connected".to_owned(),
        connections => plural(connections as u64, "connection"),
    };
    let slots = plural(evidence.slots.len() as u64, "namespace");
    writeln!(out, "keyfold:{{home}}:layout       {layout}")?;
    writeln!(out, "keyfold:{{home}}:layout:copy  {copy}")?;
    for witness in &evidence.witnesses {
        let name = format!("witness in slot {}", witness.slot);
        writeln!(out, "{name:<27} {}", testimony(witness))?;
    }
    writeln!(out, "keyfolds                    {keyfolds}")?;
    writeln!(out, "codec slots                 of {slots}\n")?;
    let heads =
        [Column::word("names"), Column::number("number"), Column::name("keys"), Column::name("such as").rank(1)];
    let in_force = in_force(evidence);
    let rows = evidence.heads.iter().map(|(stem, found)| row(in_force.as_ref(), stem, found));
    if evidence.heads.is_empty() {
        Ok(writeln!(out, "no folded keys\n")?)
    } else {
        Ok(writeln!(out, "{}\n", table::render(&heads, rows, out.room()))?)
    }
}

fn row(layout: Option<&Layout>, stem: Stem, found: &Found) -> Vec<String> {
    let template = layout.and_then(|layout| template_of(layout, stem)).unwrap_or_else(|| "–".to_owned());
    vec![format!("~{stem}"), count(found.names), template, found.example.escape_ascii().to_string()]
}

fn template_of(layout: &Layout, stem: Stem) -> Option<String> {
    let namespace = layout.namespaces().iter().find(|namespace| {
        namespace.stem == stem || namespace.former.as_ref().is_some_and(|former| former.stem == stem)
    });
    namespace.map(|namespace| namespace.keys.to_string())
}

/// The layout that the register says, as far as it says one.
fn in_force(evidence: &Evidence) -> Option<Layout> {
    match evidence.register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) | Standing::Parted(layout) => Some(layout),
        Standing::Unclear(_) | Standing::OtherVersion(_) | Standing::Lost(_) => None,
    }
}

/// What a witness says.
fn testimony(witness: &Witness) -> String {
    match witness.word() {
        Word::Gone => "it is gone".to_owned(),
        Word::NoLayout => "no layout".to_owned(),
        Word::Layout(layout) => describe(&layout),
        Word::Changing(to) => format!("change number {to} was under way"),
        Word::Unreadable(why) => format!("it can't be read: {why}"),
    }
}

/// What each half of the register says.
fn halves(evidence: &Evidence) -> [String; 2] {
    [&evidence.register.layout, &evidence.register.copy].map(|half| {
        let Some(bytes) = half else { return "it is gone".to_owned() };
        let text = String::from_utf8_lossy(bytes);
        match Layout::from_stored_with(&text, secrets::given()) {
            Ok(layout) => describe(&layout),
            Err(error) => format!("it can't be read: {error}"),
        }
    })
}

fn conclude(verdict: &Verdict, done: Option<&Done>, dry_run: bool, out: &mut Paper) -> anyhow::Result<()> {
    let what = match verdict {
        Verdict::Fresh => return Ok(writeln!(out, "there is no layout, and nothing that one would be missed for")?),
        Verdict::InForce(_) => "the layout is in force and complete",
        Verdict::Half(_) => "one of the two keys was left, and is written to both",
        Verdict::Parted(_) => "the two keys differ; keys are looked for where either says",
        Verdict::Witnessed(_) => {
            "the register was set back or lost, and witnesses know of a newer layout; keys are looked for where either says"
        }
        Verdict::Given(_) => "the layout given accounts for all that is there",
    };
    writeln!(out, "{what}{}", if dry_run { "; nothing was changed, as --dry-run says" } else { "" })?;
    let Some(done) = done else { return Ok(()) };
    let moved = plural(done.driven.moved, "key");
    writeln!(out, "looked where its keys lie: moved {moved}; {}", describe(&done.layout))?;
    if let Some(why) = &done.driven.unproven {
        writeln!(out, "keys are looked for in two places, which is slower and loses nothing: {why}")?;
    }
    if done.driven.left.left_count > 0 {
        writeln!(out, "\n{}:", stays::describe(&done.driven.left))?;
        for stays in &done.driven.stays {
            writeln!(out, "  {}", stays.line(&done.layout))?;
        }
    }
    if done.stragglers > 0 {
        writeln!(
            out,
            "\n{} written to old places past keyfold as the layout was settled, where its clients don't see them: `keyfold fold` \
             fetches them",
            plural(done.stragglers, "key")
        )?;
    }
    Ok(())
}

fn report(evidence: &Evidence, verdict: &Verdict, done: Option<&Done>) -> Value {
    let [layout, copy] = halves(evidence);
    let in_force = in_force(evidence);
    let heads = evidence.heads.iter().map(|(stem, found)| {
        let keys = in_force.as_ref().and_then(|layout| template_of(layout, stem));
        json!({ "names": format!("~{stem}"), "count": found.names, "keys": keys, "database": found.database,
                "example": found.example.escape_ascii().to_string() })
    });
    let source = match verdict {
        Verdict::InForce(_) => "in force",
        Verdict::Half(_) => "one half",
        Verdict::Parted(_) => "both halves",
        Verdict::Witnessed(_) => "witnesses",
        Verdict::Given(_) => "file",
        Verdict::Fresh => "none",
    };
    json!({
        "register": layout,
        "copy": copy,
        "witnesses": evidence.witnesses.iter().map(|witness| {
            json!({ "slot": witness.slot.number(), "says": testimony(witness) })
        }).collect::<Vec<_>>(),
        "keyfold_connections": evidence.keyfolds,
        "slots_recorded": evidence.slots.keys().map(|stem| format!("~{stem}")).collect::<Vec<_>>(),
        "data": heads.collect::<Vec<_>>(),
        "source": source,
        "epoch": done.map(|done| &done.layout).or(verdict.layout()).map(|layout| layout.epoch().0),
        "moved": done.map(|done| done.driven.moved),
        "left": done.map(|done| done.driven.left.left_count),
        "stragglers": done.map(|done| done.stragglers),
        "in_doubt": done.map(|done| &done.layout).or(verdict.layout()).is_some_and(Layout::is_in_doubt),
    })
}
