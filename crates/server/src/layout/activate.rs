//! Puts a layout in force while proxies serve: drives the core's coordinator.

use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use keyfold_core::change::{Connection, Coordinator, Course, Register, Standing};
use keyfold_core::layout::{Attempt, Layout, Revision};
use keyfold_proxy::Nonces;

use super::stored::{self, Stored};
use super::{dictionaries, fence};
use crate::connection::Server;
use crate::secrets;

/// Replaces the layout that was read, `before`, by `layout`, at a moment when no proxy serves either. What is in force
/// then: the same layout, marked as written by this change.
///
/// # Errors
/// Another change is under way, the layout was changed meanwhile, or proxies can't stop: nothing is changed.
pub fn activate(server: &mut Server, before: Option<&Stored>, layout: &Layout) -> anyhow::Result<Layout> {
    let nonces = Nonces::new().context("the system has no randomness to give")?;
    let layout = layout.clone().with_attempt(Attempt(nonces.draw()));
    let from = expected(server, before)?;
    fence::prove(server)?;
    dictionaries::record_slots(server, &layout)?;
    server.select(0)?;
    let base = before.map_or(Revision::default(), |stored| stored.layout.revision());
    let mut coordinator = Coordinator::new(nonces.draw(), from, layout.to_stored().as_bytes(), base);
    let result = change_layout(server, &mut coordinator);
    if result.is_err() {
        let mut wire = Vec::new();
        coordinator.withdraw(&mut wire);
        let _ = server.exchange_one(&wire);
        let nothing = Layout::default();
        let _ = dictionaries::forget_slots(server, before.map_or(&nothing, |stored| &stored.layout));
    }
    result.map(|()| layout)
}

/// The register, as long as it says what was read.
fn expected(server: &mut Server, before: Option<&Stored>) -> anyhow::Result<Register> {
    let register = stored::register(server)?;
    let says = match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => Some(layout.to_stored()),
        Standing::Lost(None) => None,
        _ => bail!("the server's layout was damaged meanwhile; `keyfold layout recover` says what is there"),
    };
    ensure!(
        says.as_deref() == before.map(|stored| stored.text.as_str()),
        "the server's layout was changed by somebody else meanwhile; look at it with `keyfold layout show`, then try \
         again"
    );
    Ok(register)
}

fn change_layout(server: &mut Server, coordinator: &mut Coordinator) -> anyhow::Result<()> {
    let own: i64 = server.ask(&[b"CLIENT", b"ID"]).context(fence::WHY)?;
    loop {
        let mut wire = Vec::new();
        let count = coordinator.ask(&mut wire);
        let replies = server.exchange(&wire, count)?;
        coordinator.see(&replies).map_err(|error| refused(server, &error))?;
        wire.clear();
        match coordinator.decide() {
            Course::Wait(ms) => thread::sleep(Duration::from_millis(ms)),
            Course::Announce(announcement) => {
                coordinator.announce(&announcement, &mut wire);
                let reply = server.exchange_one(&wire)?;
                coordinator.announced(&announcement, &reply).map_err(|error| refused(server, &error))?;
            }
            Course::Warn => coordinator.warned(),
            Course::List => {
                let list = fence::list(server)?;
                coordinator.listed(Connection::read_all(&list, Some(own)));
            }
            Course::Close(connections) => {
                let addresses: Vec<_> = connections.iter().map(|connection| connection.address.as_str()).collect();
                tracing::warn!(?addresses, "closing connections of keyfold processes that don't answer, and of tools");
                connections.iter().for_each(|connection| Coordinator::close(connection, &mut wire));
                server.exchange(&wire, connections.len())?;
                coordinator.closed();
            }
            Course::Activate => {
                coordinator.activate(&mut wire);
                let reply = server.exchange_one(&wire)?;
                coordinator.activated(&reply).map_err(|error| refused(server, &error))?;
            }
            Course::Done => return Ok(()),
            Course::GiveUp(obstacle) => bail!("the layout is as it was: {obstacle}"),
        }
    }
}

fn refused(server: &Server, error: &str) -> anyhow::Error {
    anyhow!("the server at {} refuses a change of the layout: {}", server.address(), error.trim())
}
