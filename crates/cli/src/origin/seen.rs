//! What a server and a dump have in common: what is known of them beforehand, and what a walk over their keys gives.

use std::num::NonZero;
use std::ops::ControlFlow;

use keyfold_core::layout::Layout;
use keyfold_server::memory::{Measured, ServerModel};
use keyfold_survey::eviction::Eviction;
use keyfold_survey::uses::Uses;

use crate::scan::{KeyScan, Page, Values, Walked};

/// Who takes what is seen, and breaks off where that is enough.
pub(crate) type OnSeen<'s> = &'s mut dyn FnMut(Seen) -> ControlFlow<()>;

/// Who has keys to be looked at.
pub(crate) trait Origin: Send {
    /// What is known of it by now.
    fn known(&self) -> &Known;

    /// The layout that its own keys are folded by, as far as that is known before a walk.
    fn stored(&mut self) -> anyhow::Result<Option<Layout>>;

    /// Walks over the keys.
    fn walk(&mut self, scan: &KeyScan, on_seen: OnSeen<'_>) -> Walked;

    /// What each node says of its memory, asked anew where that can be; nothing where it can't be known.
    fn measured(&mut self, walked: &Walked) -> Vec<Measured>;

    /// Who reads values of keys that were seen.
    fn values(&self, max_ops: Option<NonZero<u32>>) -> anyhow::Result<Box<dyn Values>>;
}

/// What is known of a server.
pub(crate) struct Known {
    /// Its name and version.
    pub(crate) server: String,
    /// `Redis` or `Valkey`.
    pub(crate) flavor: &'static str,
    /// Where it was found.
    pub(crate) address: String,
    /// How it takes memory, and what of that is guessed.
    pub(crate) facts: ServerModel,
    /// How many keys there are in the databases that are meant; of a dump as many as it has told of by now.
    pub(crate) total: u64,
    /// How many databases of one node hold keys that are meant.
    pub(crate) databases: usize,
    /// The primaries of a cluster; none of one server.
    pub(crate) nodes: Vec<Node>,
    /// How it makes room, if it does, and how many keys it has evicted.
    pub(crate) eviction: Option<(Eviction, u64)>,
    /// Who uses it and how; a dump doesn't tell.
    pub(crate) uses: Uses,
    /// What is to be known besides.
    pub(crate) notes: Vec<String>,
    /// What a dump says of itself; none of a server.
    pub(crate) dump: Option<DumpHead>,
}

/// What one node of a cluster has.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) address: String,
    pub(crate) slots: usize,
    pub(crate) keys: u64,
}

/// What a dump says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DumpHead {
    /// The format's version.
    pub(crate) format: u32,
    /// When it was written, in seconds since 1970.
    pub(crate) written_at: Option<i64>,
    /// The server's `used_memory` then, whatever it was for.
    pub(crate) used_bytes: Option<u64>,
    /// How many bytes the file has; 0 where it is none.
    pub(crate) file_bytes: u64,
    /// How many keys were left out, because they had expired when it was written.
    pub(crate) expired: u64,
}

/// What a walk gives.
pub(crate) enum Seen {
    /// Some keys, and how much of the work that was: keys, or bytes of a dump.
    Page(Page, usize),
    /// What was seen until now is to be forgotten: all of it comes again, and this layout has folded keys of it.
    Again(Box<Layout>),
}

impl Known {
    /// What the work is counted in, and how much there is of it, where `wanted` keys are to be looked at.
    pub(crate) fn work(&self, wanted: u64) -> (&'static str, u64) {
        match &self.dump {
            Some(dump) => ("bytes of the dump", dump.file_bytes),
            None => ("keys", wanted),
        }
    }
}
