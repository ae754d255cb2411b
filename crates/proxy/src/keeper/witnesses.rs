//! Brings the witnesses of a cluster up to what its home says, now and then.

use std::time::{Duration, Instant};

use keyfold_core::admin::witness::slots;
use keyfold_core::change::witness::{self, NO_LAYOUT, Tending};
use keyfold_core::change::{Register, Standing};
use keyfold_core::layout::{Epoch, Layout};
use keyfold_core::placement::Secrets;
use keyfold_core::slot::Slot;

use super::Broken;
use super::nodes::Nodes;

/// How often they are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// What the witnesses held when they were asked last.
#[derive(Default)]
pub(super) struct Witnesses {
    asked: Option<Instant>,
    held: Vec<(Slot, Option<Vec<u8>>)>,
}

impl Witnesses {
    /// Asks them, where it is time to. Those that are away are left out. The home is to be asked after this.
    pub(super) async fn ask(&mut self, nodes: &mut Nodes) {
        self.held.clear();
        if !nodes.are_cluster() || self.asked.is_some_and(|asked| asked.elapsed() < EVERY) {
            return;
        }
        for slot in slots() {
            let mut wire = Vec::new();
            witness::ask(slot, &mut wire);
            let Ok(reply) = nodes.ask_at(slot, &wire).await else { continue };
            if let Ok(held) = witness::read(&reply) {
                self.held.push((slot, held));
            }
        }
        self.asked = Some(Instant::now());
    }

    /// Writes the home's layout to those that don't hold it; none where they were not asked, else the newest layout that
    /// one of them knows of and the home doesn't, where there is one.
    pub(super) async fn tend(
        &mut self,
        register: &Register,
        announced: bool,
        secrets: &Secrets,
        nodes: &mut Nodes,
    ) -> Result<Option<Option<Layout>>, Broken> {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            return Ok(None);
        }
        let text = register.layout.as_deref().unwrap_or(NO_LAYOUT);
        if register.layout == register.copy && held.iter().all(|(_, held)| held.as_deref() == Some(text)) {
            return Ok(Some(None));
        }
        let read = |text: &[u8]| Layout::from_stored_with(std::str::from_utf8(text).ok()?, secrets).ok();
        let (text, epoch) = match register.standing(secrets) {
            Standing::InForce(layout) | Standing::Half(layout) => (layout.to_stored().into_bytes(), layout.epoch()),
            Standing::Lost(None) => (NO_LAYOUT.to_vec(), Epoch(0)),
            _ => return Ok(None),
        };
        let mut doubt: Option<Layout> = None;
        for (slot, held) in held {
            match witness::tend(held.as_deref(), Some((&text, epoch)), announced, |text| epoch_of(text, secrets)) {
                Tending::Fine | Tending::Later => {}
                Tending::Write => {
                    let mut wire = Vec::new();
                    witness::write(slot, held.as_deref(), &text, &mut wire);
                    nodes.ask_at(slot, &wire).await?;
                }
                Tending::Doubt(_, text) => {
                    let known = read(&text);
                    let is_newer = |layout: &Layout| doubt.as_ref().is_none_or(|it| it.revision() < layout.revision());
                    doubt = known.filter(is_newer).or(doubt);
                }
            }
        }
        Ok(Some(doubt))
    }
}

/// A layout that another version of keyfold wrote is newer than any.
fn epoch_of(text: &[u8], secrets: &Secrets) -> Option<Epoch> {
    match Layout::from_stored_with(std::str::from_utf8(text).ok()?, secrets) {
        Ok(layout) => Some(layout.epoch()),
        Err(error) => (!error.is_damage()).then_some(Epoch(u64::MAX)),
    }
}
