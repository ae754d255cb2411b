//! The witnesses of a cluster: what they say of the layout, and bringing them up to what the home says.

use anyhow::{Context, anyhow};
use keyfold_core::admin::witness::slots;
use keyfold_core::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use keyfold_core::change::witness::{self, Changing, NO_LAYOUT, Tending};
use keyfold_core::change::{Register, Standing};
use keyfold_core::layout::{Epoch, Layout};
use keyfold_core::slot::Slot;

use super::fleet::Fleet;
use crate::nodes::Nodes;
use crate::secrets;

/// A witness, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The slot that it lies in.
    pub slot: Slot,
    /// What it holds; none where it is not there.
    pub held: Option<Vec<u8>>,
}

/// What a witness says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// It is not there.
    Gone,
    /// No layout is in force.
    NoLayout,
    /// This layout is in force.
    Layout(Box<Layout>),
    /// A change to this epoch was under way.
    Changing(Epoch),
    /// It can't be read, and why.
    Unreadable(String),
}

/// What the home says, and what is in doubt about it.
pub(super) struct Tended {
    /// The layout in force at the home.
    pub(super) home: Option<Layout>,
    /// A layout that a witness knows of and the home doesn't.
    pub(super) doubt: Option<Layout>,
}

impl Witness {
    /// What it says.
    pub fn word(&self) -> Word {
        match self.held.as_deref() {
            None => Word::Gone,
            Some(NO_LAYOUT) => Word::NoLayout,
            Some(held) => match Changing::read(held) {
                Some(changing) => Word::Changing(changing.to),
                None => read(held).map_or_else(
                    |error| Word::Unreadable(format!("{error:#}")),
                    |layout| Word::Layout(Box::new(layout)),
                ),
            },
        }
    }

    /// Whether it says anything but that there is no layout.
    pub fn knows(&self) -> bool {
        self.held.as_deref().is_some_and(|held| held != NO_LAYOUT)
    }

    /// The newest epoch that it knows of, in force or to come.
    pub(super) fn newest(&self) -> Option<Epoch> {
        let held = self.held.as_deref()?;
        Changing::read(held).map(|changing| changing.to).or_else(|| epoch_of(held))
    }
}

/// Asks the witnesses of a cluster, each at its slot's primary; none of a single server.
///
/// # Errors
/// One can't be asked, or its slot is on its way to another node.
pub fn ask(nodes: &mut Nodes) -> anyhow::Result<Vec<Witness>> {
    let slots = slots().filter(|_| nodes.are_cluster()).collect::<Vec<_>>();
    let asked = slots.into_iter().map(|slot| {
        let owner = nodes.owner_of_slot(slot);
        let mut wire = Vec::new();
        witness::ask(slot, &mut wire);
        let server = &mut nodes.servers()[owner];
        server.select(0)?;
        heard(slot, &server.exchange_one(&wire)?)
    });
    asked.collect()
}

/// The newest layout that a witness knows of and that is newer than what the home says; none where there is none. `home` is
/// the layout in force there, none where there is none or where it can't be read.
///
/// # Errors
/// A witness knows of a newer one that can't be read here.
pub fn doubt(witnesses: &[Witness], home: Option<&Layout>) -> anyhow::Result<Option<Layout>> {
    let (text, epoch) =
        home.map_or((NO_LAYOUT.to_vec(), Epoch(0)), |layout| (layout.to_stored().into(), layout.epoch()));
    let mut newest: Option<Layout> = None;
    for Witness { held, .. } in witnesses {
        if let Tending::Doubt(_, text) = witness::tend(held.as_deref(), Some((&text, epoch)), false, epoch_of) {
            let layout = read(&text).context("a witness knows of a newer layout than is in force")?;
            newest = newest.into_iter().chain([layout]).max_by_key(Layout::revision);
        }
    }
    Ok(newest)
}

/// Asks all witnesses, wherever their slots are.
pub(super) fn look(fleet: &mut Fleet) -> anyhow::Result<Vec<Witness>> {
    let asked = slots().map(|slot| {
        let mut wire = Vec::new();
        witness::ask(slot, &mut wire);
        heard(slot, &fleet.exchange_at(slot, &wire)?)
    });
    asked.collect()
}

fn heard(slot: Slot, reply: &[u8]) -> anyhow::Result<Witness> {
    let held = witness::read(reply);
    let held = held.map_err(|error| anyhow!("the node that has slot {slot} doesn't show its witness: {error}"))?;
    Ok(Witness { slot, held })
}

/// Brings witnesses up to the home where they may be.
pub(super) fn tend(fleet: &mut Fleet) -> anyhow::Result<Tended> {
    let witnesses = look(fleet)?;
    // The home is asked after the witnesses.
    let home = fleet.home()?;
    home.select(0)?;
    let mut keys: Vec<Option<Vec<u8>>> = home.ask(&[b"MGET", CHANGE_KEY, LAYOUT_KEY, COPY_KEY])?;
    let (copy, layout, announcement) = (keys.pop().flatten(), keys.pop().flatten(), keys.pop().flatten());
    let home = match (Register { layout, copy }).standing(secrets::given()) {
        Standing::InForce(layout) | Standing::Half(layout) => Some(layout),
        Standing::Lost(None) => None,
        _ => return Ok(Tended { home: None, doubt: None }),
    };
    if announcement.is_some() {
        return Ok(Tended { home, doubt: None });
    }
    let text = home.as_ref().map_or(NO_LAYOUT.to_vec(), |layout| layout.to_stored().into_bytes());
    let epoch = home.as_ref().map_or(Epoch(0), Layout::epoch);
    for Witness { slot, held } in &witnesses {
        if witness::tend(held.as_deref(), Some((&text, epoch)), false, epoch_of) == Tending::Write {
            let mut wire = Vec::new();
            witness::write(*slot, held.as_deref(), &text, &mut wire);
            fleet.exchange_at(*slot, &wire)?;
        }
    }
    let doubt = doubt(&witnesses, home.as_ref())?;
    Ok(Tended { home, doubt })
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
