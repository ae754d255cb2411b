//! Brings a layout's file to one server.

use anyhow::Context;
use keyfold_core::change::Register;
use keyfold_core::layout::{Layout, LayoutFile};
use keyfold_server::layout::stored;
use keyfold_server::{Nodes, Server, Target, is_not_ready};

use super::outcome::{Rollout, TRIES};
use super::write::write;
use crate::layout::evidence::Given;
use crate::layout::writer;
use crate::moving::{KeyCheck, recovery};

/// The layout of a server, as [`super::bring`] says.
pub(super) fn bring(target: &Target, file: Option<&LayoutFile>, check: KeyCheck) -> anyhow::Result<(Nodes, Rollout)> {
    let mut tries = 0;
    loop {
        let mut nodes = Nodes::of_one(Server::connect_when_ready(target)?);
        let mut register = None;
        match bring_once(&mut nodes, &mut register, file, check) {
            Ok(rollout) => return Ok((nodes, rollout)),
            Err(error) if is_not_ready(&error) => {}
            Err(error) if tries < TRIES && was_disturbed(nodes.first(), register.as_ref()) => {
                tries += 1;
                tracing::info!("beginning anew, as the layout was changed meanwhile: {error:#}");
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether somebody else changed the layout: it says something else, or they have had this connection closed for it.
fn was_disturbed(server: &mut Server, register: Option<&Register>) -> bool {
    register.is_some_and(|before| stored::register(server).map_or(true, |now| now != *before))
}

/// Tries once; `register` is what it set out from.
fn bring_once(
    nodes: &mut Nodes,
    register: &mut Option<Register>,
    file: Option<&LayoutFile>,
    check: KeyCheck,
) -> anyhow::Result<Rollout> {
    let server = nodes.first();
    *register = Some(stored::register(server)?);
    writer::enter(server)?;
    let given = file.cloned().map(Given::File);
    let before = recovery::resolve(server, given.as_ref(), check)?;
    let Some(file) = file else {
        let layout = before.map_or_else(Layout::default, |stored| stored.layout);
        return Ok(Rollout::found(layout));
    };
    let merged = Layout::merge(before.as_ref().map(|stored| &stored.layout), file)
        .with_context(|| format!("the layout is refused by the server at {}", nodes.first().address()))?;
    write(nodes, before.as_ref(), merged, check)
}
