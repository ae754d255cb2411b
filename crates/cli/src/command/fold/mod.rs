//! `keyfold fold` and `keyfold unfold`: looks, says what will happen, and moves keys while clients go on.
//!
//! | file | what it does |
//! | --- | --- |
//! | `print.rs` | says what will happen, and what has |
//! | `clean.rs` | removes what keyfold keeps on a server where nothing is folded any more |

mod clean;
mod print;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, bail};
use keyfold_core::layout::{Layout, Move, Namespace, NamespaceIndex};
use keyfold_core::template::Templates;
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::dictionaries;
use keyfold_server::layout::stored::{self, Stored};
use keyfold_server::pace::Pace;
use keyfold_server::priority::while_giving_way;
use keyfold_server::{Nodes, listpack, replicas};

use crate::codec::choice::Choice;
use crate::codec::settle::{self, Settled};
use crate::config::fold::{Direction, Fold, check_names};
use crate::layout::{keys, writer};
use crate::moving::KeyCheck;
use crate::moving::both;
use crate::moving::carry_out::{carry_out, differs};
use crate::moving::checks::{self, Checks, Limits};
use crate::moving::survey::{self, Survey};
use crate::moving::{recovery, rollout};
use crate::question;
use crate::scan;
use clean::clean;
use print::{plan_json, report, show_plan};

/// Some keys stay in their old places.
const LEFT: u8 = 3;

pub(crate) fn run(config: &Fold, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let mut nodes = Nodes::connect(&config.target)?;
    scan::warn(&nodes);
    let mut is_begun = false;
    match look_and_move(config, &mut nodes, &interrupt, &mut is_begun, out) {
        // Whatever broke off, it is what was wanted.
        Err(_) if interrupt.wanted() && !is_begun => bail!("interrupted; nothing was changed"),
        Err(_) if interrupt.wanted() => {
            bail!("interrupted; what has been moved stays moved, and all keys are reachable. Run it again to go on")
        }
        Err(error) if nodes.home().is_ready().is_err() => Err(error.context(
            "the connection to the server was closed, as another fold, a change of the layout, or a failover does; what has been \
             moved stays moved, and all keys are reachable. Run it again",
        )),
        result => result,
    }
}

/// `is_begun` is set before anything is changed.
fn look_and_move(
    config: &Fold,
    nodes: &mut Nodes,
    interrupt: &Interrupt,
    is_begun: &mut bool,
    out: &mut Paper,
) -> anyhow::Result<ExitCode> {
    writer::enter(nodes.home())?;
    let before = if config.flags.dry_run { as_it_is(nodes)? } else { in_force(nodes)? };
    let mut pace = Pace::new(config.flags.pace.max_ops);
    let look = while_giving_way(|| look(config, nodes, before.as_ref(), &mut pace.looking(), interrupt))?;
    if look.planned.moving.is_empty() && !differs(before.as_ref(), &look.planned.layout) {
        say_nothing_to_do(config, &look, out)?;
        clean(config, nodes, &look.planned.layout, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let raise = matches!(config.direction, Direction::Fold { raise_limits: true, .. });
    let limits = Limits { assumed: &config.flags.settings.assume, raise };
    let now = before.as_ref().map(|stored| &stored.layout);
    let mut checks = checks::check(nodes, now, &look.planned.layout, &look.survey, limits)?;
    let both = while_giving_way(|| both::check(nodes, now, &look.planned.layout, &mut pace.looking(), interrupt))?;
    checks.obstacles.extend(both);
    propose(config, &look, &checks, out)?;
    check_no_plain_keys(nodes, before.as_ref(), &look.planned.layout)?;
    if config.flags.dry_run {
        if !config.flags.json {
            writeln!(out, "nothing was changed: this was a dry run")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if !config.flags.yes && !question::ask("Go on?", interrupt, out)? {
        writeln!(out, "nothing was changed")?;
        return Ok(ExitCode::SUCCESS);
    }
    if interrupt.wanted() {
        bail!("interrupted; nothing was changed");
    }
    *is_begun = true;
    let raised = if raise { raise_limits(nodes, &look.planned.layout)? } else { Vec::new() };
    if !config.flags.json {
        raised.iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    let Look { planned, survey, .. } = look;
    dictionaries::write(nodes.home(), &planned.layout)?;
    let done = carry_out(nodes, before.as_ref(), &planned, survey.keys(), &mut pace, interrupt)?;
    report(config, &planned, &survey, &done, &raised, out)?;
    if done.driven.is_proof() && done.stragglers == 0 {
        clean(config, nodes, &done.layout, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    Ok(ExitCode::from(LEFT))
}

/// Says what will happen.
///
/// # Errors
/// Something stands against it. Obstacles that have been listed aren't said twice.
fn propose(config: &Fold, look: &Look, checks: &Checks, out: &mut Paper) -> anyhow::Result<()> {
    let Look { planned, survey, choices } = look;
    let obstacles = &checks.obstacles;
    if config.flags.json {
        if config.flags.dry_run || !obstacles.is_empty() {
            out.whole(format_args!("{:#}", plan_json(planned, survey, checks)))?;
        }
    } else {
        choices.iter().try_for_each(|choice| writeln!(out, "{}\n", choice.show(out.room())))?;
        show_plan(planned, survey, checks, out)?;
    }
    match (config.flags.json, obstacles.len()) {
        (_, 0) => Ok(()),
        (true, _) => bail!("nothing was changed: {}", obstacles.join("; ")),
        (false, 1) => bail!("nothing was changed: see to the obstacle above first"),
        (false, many) => bail!("nothing was changed: see to the {many} obstacles above first"),
    }
}

/// Raises what the layout needs higher, on the servers and on replicas of theirs, which may take their places. Returns a
/// line for each setting.
fn raise_limits(nodes: &mut Nodes, layout: &Layout) -> anyhow::Result<Vec<String>> {
    let mut done = Vec::new();
    let line =
        |setting: String, whose: &str| format!("set {setting} on the {whose}; write it into its configuration too");
    for server in nodes.servers() {
        let whose = format!("server at {}", server.address());
        done.extend(listpack::raise(server, layout)?.into_iter().map(|setting| line(setting, &whose)));
    }
    for replica in replicas::connect(nodes)? {
        let whose = format!("replica at {}", replica.target.address);
        match replica.server.and_then(|mut server| listpack::raise(&mut server, layout)) {
            Ok(raised) => done.extend(raised.into_iter().map(|setting| line(setting, &whose))),
            Err(error) => done.push(format!("the limits of the {whose} were not raised: {error:#}")),
        }
    }
    Ok(done)
}

/// The layout in force; put there first where it was lost, or set back.
fn in_force(nodes: &mut Nodes) -> anyhow::Result<Option<Stored>> {
    if nodes.are_cluster() {
        return rollout::cluster::resolve(nodes, KeyCheck::Look);
    }
    recovery::resolve(nodes.first(), None, KeyCheck::Look)
}

/// The same where nothing may be written.
fn as_it_is(nodes: &mut Nodes) -> anyhow::Result<Option<Stored>> {
    if recovery::must_be_restored(nodes)? {
        bail!(
            "the server's layout was lost or damaged in part, and a dry run doesn't restore it: `keyfold layout recover {}` \
             says what is there, and restores it",
            nodes.home().address()
        );
    }
    stored::read(nodes.home())
}

/// What is there, and what is to be done.
struct Look {
    planned: Move,
    survey: Survey,
    choices: Vec<Choice>,
}

/// Plans, trains codecs that wait for it, and looks at the keys that are to be moved. Namespaces that have been folded
/// are opened again where keys lie under their own names, past keyfold.
fn look(
    config: &Fold,
    nodes: &mut Nodes,
    before: Option<&Stored>,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Look> {
    let empty = Layout::default();
    let layout = before.map_or(&empty, |stored| &stored.layout);
    let mut planned = plan(config, layout)?;
    if nodes.are_cluster() {
        rollout::cluster::check_slots(&planned.layout)?;
    }
    let waiting = planned.layout.iter().filter(|(_, namespace)| settle::needs_training(namespace));
    let waiting = waiting.map(|(index, _)| index).filter(|index| planned.moving.contains(index));
    let now = before.map(|stored| &stored.layout);
    let Settled { layout: trained, choices } =
        settle::settle(nodes, now, &planned.layout, &waiting.collect(), false, pace, interrupt)?;
    planned.layout = trained;
    let settled = match &config.direction {
        Direction::Fold { file, .. } => planned.layout.settled_in(file),
        Direction::Unfold { .. } => Vec::new(),
    };
    let all = planned.clone().reopen(layout, &settled);
    let survey = survey::survey(nodes, &all.layout, pace, interrupt)?;
    let found = survey.families.iter().filter(|(_, family)| family.found() > 0);
    let hidden: Vec<NamespaceIndex> = found.map(|(index, _)| NamespaceIndex(*index)).collect();
    let reopened: Vec<NamespaceIndex> = settled.into_iter().filter(|index| hidden.contains(index)).collect();
    Ok(Look { planned: planned.reopen(layout, &reopened), survey, choices })
}

fn plan(config: &Fold, layout: &Layout) -> anyhow::Result<Move> {
    match &config.direction {
        Direction::Fold { file, from: Some(from), .. } => Ok(layout.plan_fold_from(file, from)?),
        Direction::Fold { file, from: None, .. } => Ok(layout.plan_fold(file)?),
        Direction::Unfold { .. } => {
            let named = &config.flags.namespace;
            check_names(named, layout.namespaces().iter().map(|namespace| &namespace.keys), "the server's layout")?;
            let meant = |keys: &Templates| named.is_empty() || named.iter().any(|name| keys.are_called(name));
            let namespaces = layout.iter().filter(|(_, namespace)| meant(&namespace.keys));
            let which: Vec<NamespaceIndex> = namespaces.map(|(index, _)| index).collect();
            Ok(layout.plan_unfold(&which)?)
        }
    }
}

/// Keys of a new namespace that moves out of handmade hashes must not lie there as plain keys too: nobody would look
/// for them.
fn check_no_plain_keys(nodes: &mut Nodes, before: Option<&Stored>, layout: &Layout) -> anyhow::Result<()> {
    let is_known = |namespace: &Namespace| before.is_some_and(|stored| stored.layout.find(&namespace.keys).is_some());
    let added: Vec<NamespaceIndex> = layout
        .iter()
        .filter(|(_, namespace)| namespace.handmade().is_some() && !namespace.placement.is_plain())
        .filter(|(_, namespace)| !is_known(namespace))
        .map(|(index, _)| index)
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let mut absent = nodes.servers().iter_mut().map(|server| keys::check_absent(server, layout, &added));
    absent.try_for_each(|absent| absent.context("nothing was changed; fold these first, without --from"))
}

fn say_nothing_to_do(config: &Fold, look: &Look, out: &mut Paper) -> anyhow::Result<()> {
    if config.flags.json {
        let mut report = plan_json(&look.planned, &look.survey, &Checks::default());
        report["moved"] = 0.into();
        return Ok(out.whole(format_args!("{report:#}"))?);
    }
    Ok(writeln!(
        out,
        "{}",
        match config.direction {
            Direction::Fold { .. } => "everything lies where the layout says",
            Direction::Unfold { .. } => "nothing is folded",
        }
    )?)
}
