//! A layout that was lost, or half lost, put in force again, and settled once it is known where its keys lie.

use std::slice;

use anyhow::{bail, ensure};
use keyfold_core::change::{Register, Standing};
use keyfold_core::layout::{Layout, Move};
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::activate::restore;
use keyfold_server::layout::stored::{self, Stored};
use keyfold_server::layout::witnesses;
use keyfold_server::pace::Pace;
use keyfold_server::{Nodes, Server, secrets};

use super::KeyCheck;
use super::carry_out::{Done, carry_out};
use crate::layout::evidence::{Evidence, Given, Verdict};

/// The layout in force, put there first where it was lost; none where there is neither a layout nor data of one.
///
/// # Errors
/// As [`Evidence::judge`].
pub(crate) fn resolve(server: &mut Server, given: Option<&Given>, check: KeyCheck) -> anyhow::Result<Option<Stored>> {
    match stored::register(server)?.standing(secrets::given()) {
        Standing::InForce(_) => return stored::read(server),
        Standing::Lost(None) if check == KeyCheck::Skip => return Ok(None),
        _ => {}
    }
    let mut evidence = Evidence::gather(server)?;
    let verdict = evidence.judge(slice::from_mut(server), given)?;
    put_in_force(server, &evidence.register, &verdict)?;
    stored::read(server)
}

/// The same of a cluster, all of whose nodes must be there where the layout was lost.
///
/// # Errors
/// As [`Evidence::judge`], and where a node is away.
pub(crate) fn resolve_all(nodes: &mut Nodes, given: Option<&Given>, check: KeyCheck) -> anyhow::Result<Option<Stored>> {
    match stored::register(nodes.home())?.standing(secrets::given()) {
        Standing::InForce(_) => return stored::read(nodes.home()),
        Standing::Lost(None) if check == KeyCheck::Skip => return Ok(None),
        _ => nodes.require_all()?,
    }
    let mut evidence = Evidence::gather_all(nodes)?;
    let verdict = evidence.judge(nodes.servers(), given)?;
    put_in_force_on_all(nodes, &evidence, &verdict, given)?;
    stored::read(nodes.home())
}

/// Whether what is to be in force would have to be put there first.
///
/// # Errors
/// As [`Evidence::judge`], and where a node is away.
pub(crate) fn must_be_restored(nodes: &mut Nodes) -> anyhow::Result<bool> {
    if let Standing::InForce(layout) = stored::register(nodes.home())?.standing(secrets::given()) {
        // A failover may have set the home back.
        return Ok(witnesses::doubt(&witnesses::ask(nodes)?, Some(&layout))?.is_some());
    }
    nodes.require_all()?;
    let mut evidence = Evidence::gather_all(nodes)?;
    let verdict = evidence.judge(nodes.servers(), None)?;
    Ok(!matches!(verdict, Verdict::InForce(_) | Verdict::Fresh))
}

/// Writes what is to be in force to both halves of the register, where it isn't there yet.
pub(crate) fn put_in_force(server: &mut Server, register: &Register, verdict: &Verdict) -> anyhow::Result<()> {
    let layout = match verdict {
        Verdict::InForce(_) | Verdict::Fresh => return Ok(()),
        Verdict::Half(layout) | Verdict::Parted(layout) | Verdict::Witnessed(layout) | Verdict::Given(layout) => layout,
    };
    server.select(0)?;
    let mut wire = Vec::new();
    register.replace(layout, &mut wire);
    let reply = server.exchange_one(&wire)?;
    if reply.starts_with(b"-") {
        bail!("the server refuses to have its layout restored: {}", String::from_utf8_lossy(&reply).trim_end());
    }
    ensure!(reply == b":1\r\n", "the server's layout was changed by somebody else meanwhile; look at it again");
    tracing::warn!(epoch = %layout.epoch(), "the server's layout was lost or damaged, and has been restored");
    Ok(())
}

/// Puts in force what is to be on a cluster, by the barrier: connections to one node may have outlived the loss on another.
///
/// # Errors
/// As [`restore`].
pub(crate) fn put_in_force_on_all(
    nodes: &mut Nodes,
    evidence: &Evidence,
    verdict: &Verdict,
    given: Option<&Given>,
) -> anyhow::Result<()> {
    let layout = match verdict {
        Verdict::InForce(_) | Verdict::Fresh => return Ok(()),
        // That changes nothing that anybody goes by.
        Verdict::Half(_) => return put_in_force(nodes.home(), &evidence.register, verdict),
        Verdict::Parted(layout) | Verdict::Witnessed(layout) | Verdict::Given(layout) => layout,
    };
    let given = given.filter(|_| matches!(verdict, Verdict::Given(_)));
    let layout = restore(nodes.home(), evidence.register.clone(), layout, evidence.newest(given))?;
    tracing::warn!(epoch = %layout.epoch(), "the cluster's layout was lost or damaged, and has been restored");
    Ok(())
}

/// Walks over the keys of the namespaces in doubt, moves those that lie in their old places, and settles them. None
/// where none is in doubt.
pub(crate) fn settle(
    nodes: &mut Nodes,
    stored: &Stored,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Done>> {
    let moving: Vec<_> = stored.layout.in_doubt().collect();
    if moving.is_empty() {
        return Ok(None);
    }
    let planned = Move { layout: stored.layout.clone(), moving };
    carry_out(nodes, Some(stored), &planned, 0, pace, interrupt).map(Some)
}

/// What a layout says of itself, in a few words.
pub(crate) fn describe(layout: &Layout) -> String {
    let namespaces = keyfold_report::number::plural(layout.namespaces().len() as u64, "namespace");
    let doubt = if layout.is_in_doubt() { ", in doubt" } else { "" };
    format!("change number {}, {namespaces}{doubt}", layout.epoch())
}
