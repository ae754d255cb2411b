//! The layouts that were ever written, and what takes the place of one that was lost.

use keyfold_core::change::{Found, Register};
use keyfold_core::layout::{Attempt, Epoch, Revision};

use crate::bounds::{Bounds, Place, Route};
use crate::server::number_of;

/// A layout. Its number among all that were made tells it from every other, as epoch and attempt do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layout {
    pub(crate) epoch: u8,
    pub(crate) route: Route,
    /// How far the move is with it.
    pub(crate) stage: usize,
    /// It was put back, and its stage is a settled one.
    pub(crate) in_doubt: bool,
    /// The one that it took the place of.
    pub(crate) before: Option<u8>,
}

/// All of them, by number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Layouts(Vec<Layout>);

impl Layouts {
    pub(crate) fn new(bounds: &Bounds) -> Self {
        Self(vec![Layout { epoch: 1, route: bounds.route[0], stage: 0, in_doubt: false, before: None }])
    }

    pub(crate) fn get(&self, number: u8) -> &Layout {
        &self.0[usize::from(number)]
    }

    /// What members and coordinators tell a layout by.
    pub(crate) fn revision(&self, number: u8) -> Revision {
        Revision { epoch: Epoch(self.get(number).epoch.into()), attempt: Attempt(number.into()) }
    }

    /// Adds one that is to take the place of `before`; its number.
    fn add(&mut self, layout: Layout) -> u8 {
        self.0.push(layout);
        u8::try_from(self.0.len() - 1).expect("few layouts")
    }

    /// The move's next layout after this one; none where that is its last, or where keys lie in old places still.
    pub(crate) fn next(&self, number: u8, bounds: &Bounds, moved: Option<u8>) -> Option<Layout> {
        let now = self.get(number);
        let emptied = moved == Some(number);
        let layout =
            |route, stage| Layout { epoch: now.epoch + 1, route, stage, in_doubt: false, before: Some(number) };
        if now.in_doubt {
            return emptied.then(|| layout(Route { old: None, ..now.route }, now.stage));
        }
        let next = bounds.route.get(now.stage + 1)?;
        let may = next.old.is_some() || now.route.old.is_none() || emptied;
        may.then(|| layout(*next, now.stage + 1))
    }

    /// Writes down the next layout; its number.
    pub(crate) fn go_on(&mut self, number: u8, bounds: &Bounds, moved: Option<u8>) -> Option<u8> {
        let next = self.next(number, bounds, moved)?;
        Some(self.add(next))
    }

    /// Of what a member knows and what the register says, the newer.
    pub(crate) fn newest(&self, known: u8, register: &Register) -> u8 {
        in_force(register).filter(|number| self.get(*number).epoch > self.get(known).epoch).unwrap_or(known)
    }

    /// Writes down what takes the place of a layout that was lost, where perhaps an older one stands; its number.
    pub(crate) fn put_back(&mut self, known: u8, register: &Register) -> u8 {
        let lost = self.get(known).clone();
        let older = in_force(register).map(|number| self.get(number).clone());
        let theirs = older.as_ref().map_or(vec![Place::Plain], |older| older.route.places().collect());
        let is_settled = lost.route.old.is_none();
        let mut others = lost.route.places().chain(theirs).filter(|place| *place != lost.route.new);
        let old = if is_settled || older.is_some() { others.next() } else { lost.route.old };
        assert!(others.all(|other| Some(other) == old), "at most two places");
        self.add(Layout {
            epoch: lost.epoch.max(older.map_or(0, |older| older.epoch)) + 1,
            route: Route { old, ..lost.route },
            stage: lost.stage,
            in_doubt: is_settled && old.is_some(),
            before: Some(known),
        })
    }

    /// What the register means to a process that served `known` last.
    pub(crate) fn meaning(&self, register: &Register, known: Option<u8>, obeys: bool) -> Found {
        match (in_force(register), known) {
            (Some(number), Some(known)) => {
                let newer = self.get(number).epoch > self.get(known).epoch;
                if number == known || newer || obeys { Found::InForce(self.revision(number)) } else { Found::Lost }
            }
            (Some(number), None) => Found::InForce(self.revision(number)),
            (None, Some(_)) => Found::Lost,
            // Nobody starts from nothing over data.
            (None, None) => Found::Unreadable,
        }
    }
}

impl Route {
    fn places(self) -> impl Iterator<Item = Place> {
        std::iter::once(self.new).chain(self.old)
    }
}

/// The layout that a register says is in force: one half is enough.
pub(crate) fn in_force(register: &Register) -> Option<u8> {
    register.layout.as_deref().or(register.copy.as_deref()).map(number_of)
}

/// The layout of such a revision.
pub(crate) fn number(revision: Revision) -> u8 {
    u8::try_from(revision.attempt.0).expect("few layouts")
}
