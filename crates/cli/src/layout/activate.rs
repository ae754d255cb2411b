//! Puts a layout in force while proxies serve: drives the core's coordinator.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use keyfold_core::change::{Coordinator, Course, LeaseView};
use keyfold_core::layout::{Epoch, Layout};
use keyfold_proxy::Nonces;

use super::dictionaries;
use super::stored::Stored;
use crate::config::secrets;
use crate::server::Server;
use crate::server::connection::WRITER;

/// Replaces the layout that was read, `before`, by `layout`, at a moment when no proxy serves either.
///
/// # Errors
/// Another change is under way, the layout was changed meanwhile, or proxies don't answer: nothing is changed.
pub(crate) fn activate(server: &mut Server, before: Option<&Stored>, layout: &Layout) -> anyhow::Result<()> {
    dictionaries::record_slots(server, layout)?;
    server.select(0)?;
    let from = before.map_or(Epoch(0), |stored| stored.layout.epoch());
    let change = Nonces::new().context("the system has no randomness to give")?.draw();
    let mut coordinator = Coordinator::new(change, from, layout.epoch());
    let known = before.map(|stored| stored.text.as_bytes());
    let result = change_layout(server, &mut coordinator, known, layout);
    if result.is_err() {
        let mut wire = Vec::new();
        coordinator.withdraw(&mut wire);
        let _ = server.exchange(&wire, 1);
        let nothing = Layout::default();
        let _ = dictionaries::forget_slots(server, before.map_or(&nothing, |stored| &stored.layout));
    }
    result
}

fn change_layout(
    server: &mut Server,
    coordinator: &mut Coordinator,
    before: Option<&[u8]>,
    layout: &Layout,
) -> anyhow::Result<()> {
    let text = layout.to_stored();
    let from = epoch_of(before);
    // Under the same epoch somebody may have written something else.
    let epoch = |found: Option<&[u8]>| match found {
        found if found == before => from,
        Some(found) if found == text.as_bytes() => layout.epoch(),
        _ => Epoch(u64::MAX),
    };
    loop {
        let mut wire = Vec::new();
        let count = coordinator.ask(&mut wire);
        let replies = server.exchange(&wire, count)?;
        coordinator.see(&replies, epoch).map_err(|error| refused(server, &error))?;
        wire.clear();
        match coordinator.decide() {
            Course::Wait(ms) => thread::sleep(Duration::from_millis(ms)),
            Course::Announce(announcement) => {
                coordinator.announce(&announcement, &mut wire);
                let reply = one(server, &wire)?;
                coordinator.announced(&announcement, &reply).map_err(|error| refused(server, &error))?;
            }
            Course::Evict(view) => evict(server, coordinator, &view)?,
            Course::Activate => {
                close_writers(server)?;
                coordinator.activate(text.as_bytes(), &mut wire);
                let reply = one(server, &wire)?;
                if reply.starts_with(b"-") {
                    return Err(refused(server, &String::from_utf8_lossy(&reply)));
                }
            }
            Course::Done => return Ok(()),
            Course::GiveUp(obstacle) => bail!("the layout is as it was: {obstacle}"),
        }
    }
}

fn epoch_of(text: Option<&[u8]>) -> Epoch {
    let parse = |text: &[u8]| Layout::from_stored_with(std::str::from_utf8(text).ok()?, secrets::given()).ok();
    text.and_then(parse).map_or(Epoch(0), |layout| layout.epoch())
}

/// Takes the lease of a proxy that wasn't heard of for too long, and has the server close its connections: nothing
/// that it sent before can be carried out after that.
fn evict(server: &mut Server, coordinator: &Coordinator, view: &LeaseView) -> anyhow::Result<()> {
    let mut wire = Vec::new();
    coordinator.evict(view, &mut wire);
    if one(server, &wire)? != b":1\r\n" {
        return Ok(());
    }
    let who = view.lease.as_ref().map_or_else(|| view.member.escape_ascii().to_string(), |lease| lease.who.clone());
    if view.evicted_by.is_none() {
        tracing::warn!(%who, "a keyfold process was not heard of for the time of its lease; closing its connections");
    }
    close(server, &format!("keyfold:{}", view.member.escape_ascii()))
}

/// Closes the connections of other tools that write by the layout in force: what they sent before is carried out
/// before this returns, or never. They name themselves before they read the layout, so none goes on by an old one.
fn close_writers(server: &mut Server) -> anyhow::Result<()> {
    close(server, WRITER)
}

/// Has the server close all connections of this name but this one.
fn close(server: &mut Server, name: &str) -> anyhow::Result<()> {
    const WHY: &str = "without CLIENT LIST and CLIENT KILL a process that hangs can't be shut out";
    let clients: String = server.ask(redis::cmd("CLIENT").arg("LIST")).context(WHY)?;
    let name = format!("name={name}");
    for line in clients.lines().filter(|line| line.split(' ').any(|word| word == name)) {
        if let Some(id) = line.split(' ').find_map(|word| word.strip_prefix("id=")) {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("ID").arg(id).arg("SKIPME").arg("yes");
            let _: i64 = server.ask(&kill).context(WHY)?;
        }
    }
    Ok(())
}

fn one(server: &mut Server, wire: &[u8]) -> anyhow::Result<Vec<u8>> {
    server.exchange(wire, 1)?.pop().context("the server gave no reply")
}

fn refused(server: &Server, error: &str) -> anyhow::Error {
    anyhow!("the server at {} refuses a change of the layout: {}", server.address(), error.trim())
}
