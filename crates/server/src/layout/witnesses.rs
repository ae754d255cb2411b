//! The witnesses of a cluster, brought up to what the home says.

use anyhow::{Context, anyhow};
use keyfold_core::admin::witness::slots;
use keyfold_core::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use keyfold_core::change::witness::{self, NO_LAYOUT, Tending};
use keyfold_core::change::{Register, Standing};
use keyfold_core::layout::{Epoch, Layout};

use super::fleet::Fleet;
use crate::secrets;

/// What the home says, and what is in doubt about it.
pub(super) struct Tended {
    /// The layout in force at the home.
    pub(super) home: Option<Layout>,
    /// A layout that a witness knows of and the home doesn't.
    pub(super) doubt: Option<Layout>,
}

/// Brings witnesses up to the home where they may be.
pub(super) fn tend(fleet: &mut Fleet) -> anyhow::Result<Tended> {
    let mut held = Vec::new();
    for slot in slots() {
        let mut wire = Vec::new();
        witness::ask(slot, &mut wire);
        let read = witness::read(&fleet.exchange_at(slot, &wire)?);
        held.push(read.map_err(|error| anyhow!("the node that has slot {slot} doesn't show its witness: {error}"))?);
    }
    // The home is asked after the witnesses.
    let home = fleet.home()?;
    home.select(0)?;
    let mut keys: Vec<Option<Vec<u8>>> = home.ask(&[b"MGET", CHANGE_KEY, LAYOUT_KEY, COPY_KEY])?;
    let (copy, layout, announcement) = (keys.pop().flatten(), keys.pop().flatten(), keys.pop().flatten());
    let register = Register { layout, copy };
    let (layout, text) = match register.standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => {
            (Some(layout.clone()), Some(layout.to_stored().into_bytes()))
        }
        Standing::Lost(None) => (None, Some(NO_LAYOUT.to_vec())),
        _ => (None, None),
    };
    let epoch = layout.as_ref().map_or(Epoch(0), Layout::epoch);
    let mut tended = Tended { home: layout, doubt: None };
    for (slot, held) in slots().zip(&held) {
        let home = text.as_deref().map(|text| (text, epoch));
        match (witness::tend(held.as_deref(), home, announcement.is_some(), epoch_of), &text) {
            (Tending::Write, Some(text)) => {
                let mut wire = Vec::new();
                witness::write(slot, held.as_deref(), text, &mut wire);
                fleet.exchange_at(slot, &wire)?;
            }
            (Tending::Doubt(_, text), _) => {
                let layout = read(&text).context("a witness knows of a newer layout than is in force")?;
                let is_newer = tended.doubt.as_ref().is_none_or(|known| known.revision() < layout.revision());
                tended.doubt = Some(layout).filter(|_| is_newer).or(tended.doubt);
            }
            _ => {}
        }
    }
    Ok(tended)
}

fn read(text: &[u8]) -> anyhow::Result<Layout> {
    Ok(Layout::from_stored_with(std::str::from_utf8(text)?, secrets::given())?)
}

/// A layout that another version of keyfold wrote is newer than any.
fn epoch_of(text: &[u8]) -> Option<Epoch> {
    match Layout::from_stored_with(std::str::from_utf8(text).ok()?, secrets::given()) {
        Ok(layout) => Some(layout.epoch()),
        Err(error) => (!error.is_damage()).then_some(Epoch(u64::MAX)),
    }
}
