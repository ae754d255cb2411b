//! Puts a layout in force while proxies serve: drives the core's coordinator.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use keyfold_core::change::{Coordinator, Course, Register, Standing};
use keyfold_core::layout::{Attempt, Layout, Revision};
use keyfold_proxy::Nonces;

use super::plane::Plane;
use super::stored::{self, Stored};
use super::witnesses::{self, Tended, Witness, tend};
use super::{dictionaries, unneeded};
use crate::connection::Server;
use crate::secrets;

/// Replaces the layout that was read, `before`, by `layout`, at a moment when no proxy serves either. What is in force
/// then: the same layout, marked as written by this change. Of a cluster `server` is the node that has the home; all
/// its nodes must be there.
///
/// # Errors
/// Another change is under way, the layout was changed meanwhile, a node is away, or proxies can't stop: nothing is
/// changed.
pub fn activate(server: &mut Server, before: Option<&Stored>, layout: &Layout) -> anyhow::Result<Layout> {
    let mut plane = Plane::of(server)?;
    let from = expected(plane.home()?, before.map(|stored| stored.text.as_str()))?;
    if let Some(fleet) = plane.fleet()
        && let Some(doubt) = tend(fleet)?.doubt
    {
        bail!(
            "the layout was set back, or a change of it was cut off: epoch {} may have been in force; \
             `keyfold layout recover` settles that",
            doubt.epoch()
        );
    }
    let base = before.map(|stored| &stored.layout);
    let changed = carry_out(&mut plane, from, base.map(Layout::revision).unwrap_or_default(), layout);
    if changed.is_err() {
        forget_slots(&mut plane, base.unwrap_or(&Layout::default()));
    }
    changed
}

/// Puts a layout in force over what the register was seen to hold, whatever that is: for one that was lost. `knows` is the
/// newest layout that it takes account of. What is in force then, as [`activate`] says. In a cluster no witness may know of
/// anything newer.
///
/// # Errors
/// As [`activate`]; nothing is changed then.
pub fn restore(server: &mut Server, seen: Register, layout: &Layout, knows: Revision) -> anyhow::Result<Layout> {
    let mut plane = Plane::of(server)?;
    if let Some(fleet) = plane.fleet() {
        let newer = witnesses::look(fleet)?.into_iter().find(|witness| witness.newest() >= Some(layout.epoch()));
        if let Some(Witness { slot, .. }) = newer {
            bail!("the witness in slot {slot} has been told of another layout meanwhile; look again");
        }
    }
    carry_out(&mut plane, seen, knows, layout)
}

/// Has all witnesses of the cluster of `server` say what is in force, and puts forward what only they know. Of a single
/// server nothing is to be done.
///
/// # Errors
/// A node is away; or what witnesses know can't be united with what the home says.
pub fn settle(server: &mut Server) -> anyhow::Result<()> {
    if !server.version().is_cluster() {
        return Ok(());
    }
    let mut plane = Plane::of(server)?;
    let Some(fleet) = plane.fleet() else { return Ok(()) };
    match tend(fleet)? {
        Tended { doubt: None, .. } => Ok(()),
        Tended { doubt: Some(doubt), home } => {
            tracing::warn!(epoch = %doubt.epoch(), "the layout was set back, or a change of it was cut off; putting it forward");
            put_forward(&mut plane, home.as_ref(), &doubt)
        }
    }
}

/// Puts a layout in force that takes account of what the home says and of what only witnesses know.
fn put_forward(plane: &mut Plane<'_>, home: Option<&Layout>, doubt: &Layout) -> anyhow::Result<()> {
    let from = expected(plane.home()?, home.map(Layout::to_stored).as_deref())?;
    let united = match home {
        Some(home) => doubt.united(home).map_err(|why| anyhow!("what the home and the witnesses say: {why}"))?,
        None => doubt.put_back(),
    };
    carry_out(plane, from, doubt.revision(), &united).map(drop)
}

/// Changes what `from` says; `base` is the newest layout that `layout` takes account of.
fn carry_out(plane: &mut Plane<'_>, from: Register, base: Revision, layout: &Layout) -> anyhow::Result<Layout> {
    let nonces = Nonces::new().context("the system has no randomness to give")?;
    let layout = layout.clone().with_attempt(Attempt(nonces.draw()));
    plane.prove()?;
    dictionaries::record_slots(plane.home()?, &layout)?;
    plane.home()?.select(0)?;
    let mut coordinator = Coordinator::new(nonces.draw(), from, layout.to_stored().as_bytes(), base);
    if plane.fleet().is_some() {
        coordinator = coordinator.in_cluster();
    }
    let result = change_layout(plane, &mut coordinator);
    if result.is_err() {
        give_up(plane, &mut coordinator);
    }
    plane.release(&coordinator);
    result.map(|()| layout)
}

/// Lets everybody go on by what was in force.
fn give_up(plane: &mut Plane<'_>, coordinator: &mut Coordinator) {
    // Whether the announcement still stands decides on what witnesses may be told.
    let _ = look(plane, coordinator);
    let mut wire = Vec::new();
    coordinator.withdraw(&mut wire);
    let Ok(home) = plane.home() else { return };
    let _ = home.exchange_one(&wire);
}

/// Removes what was recorded of slots for a layout that didn't come into force; this one is.
fn forget_slots(plane: &mut Plane<'_>, in_force: &Layout) {
    if let Ok(home) = plane.home() {
        let _ = unneeded::forget_slots(home, in_force);
    }
}

/// The register, as long as it says what was read.
fn expected(server: &mut Server, before: Option<&str>) -> anyhow::Result<Register> {
    let register = stored::register(server)?;
    let says = match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => Some(layout.to_stored()),
        Standing::Lost(None) => None,
        _ => bail!("the server's layout was damaged meanwhile; `keyfold layout recover` says what is there"),
    };
    ensure!(
        says.as_deref() == before,
        "the server's layout was changed by somebody else meanwhile; look at it with `keyfold layout show`, then try \
         again"
    );
    Ok(register)
}

fn look(plane: &mut Plane<'_>, coordinator: &mut Coordinator) -> anyhow::Result<()> {
    let mut wire = Vec::new();
    let count = coordinator.ask(&mut wire);
    let replies = plane.home()?.exchange(&wire, count)?;
    coordinator.see(&replies).map_err(|error| plane.refused(&error))
}

fn change_layout(plane: &mut Plane<'_>, coordinator: &mut Coordinator) -> anyhow::Result<()> {
    loop {
        look(plane, coordinator)?;
        let mut wire = Vec::new();
        match coordinator.decide() {
            Course::Wait(ms) => thread::sleep(Duration::from_millis(ms)),
            Course::Announce(announcement) => {
                coordinator.announce(&announcement, &mut wire);
                let reply = plane.home()?.exchange_one(&wire)?;
                coordinator.announced(&announcement, &reply).map_err(|error| plane.refused(&error))?;
            }
            Course::Warn => plane.warn(coordinator)?,
            Course::List => coordinator.listed(plane.list()?),
            Course::Close(connections) => {
                let addresses: Vec<_> = connections.iter().map(|connection| connection.address.as_str()).collect();
                tracing::warn!(?addresses, "closing connections of keyfold processes that don't answer, and of tools");
                plane.close(&connections)?;
                coordinator.closed();
            }
            Course::Activate => {
                coordinator.activate(&mut wire);
                let reply = plane.home()?.exchange_one(&wire)?;
                coordinator.activated(&reply).map_err(|error| plane.refused(&error))?;
            }
            Course::Done => return Ok(()),
            Course::GiveUp(obstacle) => bail!("the layout is as it was: {obstacle}"),
        }
    }
}
