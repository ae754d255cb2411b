//! Whether tools' connections to the primaries of a cluster may write by a layout: as for those of a keyfold
//! ([`keyfold_core::change::Look`]).

use keyfold_core::change::{Clearance, Look};
use keyfold_core::cluster::Redirect;
use keyfold_core::layout::Layout;

use crate::nodes::Nodes;

/// Asks the home and the witnesses whether this layout is in force. Connections that were named before may be used where
/// it is, and until they are closed.
///
/// # Errors
/// A node doesn't answer.
pub fn look(nodes: &mut Nodes, layout: &Layout) -> anyhow::Result<Clearance> {
    let text = layout.to_stored().into_bytes();
    let is_served = |layout: Option<&[u8]>, copy: Option<&[u8]>| [layout, copy] == [Some(&text[..]); 2];
    let mut look = Look::begin();
    for slot in Look::<usize>::slots() {
        let owner = nodes.owner_of_slot(slot);
        let server = &mut nodes.servers()[owner];
        server.select(0)?;
        let mut wire = Vec::new();
        Look::<usize>::ask(slot, &mut wire);
        let reply = server.exchange_one(&wire)?;
        match Redirect::read(&reply) {
            Some(_) => look.is_away(slot, &format!("slot {slot} is on its way to another node")),
            None => look.hear(slot, owner, &reply, is_served),
        }
    }
    Ok(look.clearance())
}
