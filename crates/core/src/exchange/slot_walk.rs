//! The walk over the names of a cluster, slot by slot, each step with a proof of where it ran.
//!
//! ```text
//! slot has its keys at one node      that one                       its neighbours there in the same step
//! slot is on its way                 the source, then the target    keys go only from there to there
//! ```
//! A step is one script: it names a key of the slot that is never there, and so only the node that has the slot answers,
//! or, if the slot is on its way, the one that gets it; whoever drives it follows redirects. The source is asked by the
//! same step without a key, which no node refuses, and must say that it is the source. What a node says of itself and the
//! names are of one moment. Where it isn't the process that gave the cursor, the slot begins anew.
//!
//! From Redis 8.0 and Valkey 8.0 on the low 14 bits of a server's cursor are the slot, and a cursor that is a slot's
//! number begins the slot; slots that the node hasn't are left out. Before, a slot's names are asked for at once, and one
//! that holds too many for that is looked for among all the node's names.

use crate::cluster::{Phase, Position, Role, Tag, Witness};
use crate::exchange::Refusal;
use crate::exchange::batch::split_array;
use crate::number::parse_integer;
use crate::resp::{Reply, write_command};
use crate::server_info::ServerInfo;
use crate::slot::Slot;
use crate::walk::read_page;

const PAGE: &str = include_str!("slot_page.lua");

/// Bits of a server's cursor that are the slot.
const SLOT_BITS: u32 = 14;
/// Slots that one step asks by their names for, most of which may be empty.
const SLOTS_AT_ONCE: u16 = 1024;
/// A slot with so many names is not asked for at once.
const LARGE_SLOT: usize = 10_000;
/// So often in a row a step may run where it is of no use.
const MOST_TRIES: u32 = 32;
/// Looking at so many slots that may be empty takes as long as looking at a key.
const SLOTS_PER_KEY: u64 = 64;

/// The walk.
#[derive(Debug)]
pub(super) struct SlotWalk {
    at: Position,
    last: Slot,
    is_over: bool,
    /// Where the client's cursor was.
    start: Position,
    /// The node is asked that has the slot, wherever its keys are by now.
    at_source: bool,
    /// From which node to which the slot goes, where its names at the source were asked for.
    way: Option<(String, String)>,
    /// The command of its script.
    eval: &'static [u8],
    /// The server's cursors go by slot.
    by_slot: bool,
    /// The slot holds too many names to be asked for at once.
    is_large: bool,
    tries: u32,
}

/// A name that a step brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) name: Vec<u8>,
    /// The type, where all names of a slot were asked for.
    pub(super) kind: Option<Vec<u8>>,
    /// Which of the SCANs of the step it is from.
    pub(super) part: usize,
}

/// What a step brought.
#[derive(Debug)]
pub(super) enum Brought {
    /// Names, and as how many keys what was looked at beside them counts.
    Names(Vec<Found>, u64),
    /// Nothing that is of use: it is to be sent again.
    Nothing,
}

impl SlotWalk {
    /// A walk from a position up to a slot.
    pub(super) fn new(at: Position, last: Slot, server: &ServerInfo) -> Self {
        Self {
            at,
            last,
            is_over: false,
            start: at,
            at_source: at.phase == Phase::Source,
            way: None,
            eval: server.read_only_eval(),
            by_slot: server.is_since((8, 0), (8, 0)),
            is_large: at.inner > 0,
            tries: 0,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The slot whose node the next step asks.
    pub(super) fn slot(&self) -> Slot {
        self.at.slot
    }

    /// The client's cursor.
    pub(super) fn cursor(&self) -> u64 {
        if self.is_over { 0 } else { self.at.cursor() }
    }

    /// Whether the client's cursor can say where the walk is, and is further than the one it came with.
    pub(super) fn may_rest(&self) -> bool {
        let Self { at, start, .. } = self;
        let is_said = at.rounded() > 0 || at.inner == 0 && at.phase == Phase::Owner && !self.is_large;
        let is_further = at.slot != start.slot || (at.rounded(), at.phase) != (start.inner, start.phase);
        self.is_over || is_said && is_further && (at.slot != start.slot || at.rounded() > 0)
    }

    /// Writes the next step, which has one reply: about so many names, of these types.
    pub(super) fn send(&self, count: u64, kinds: &[&[u8]], wire: &mut Vec<u8>) {
        let guard = [b"~{", self.at.slot.tag(), b"}"].concat();
        let (number, count) = (self.at.slot.number().to_string(), count.to_string());
        let mut call: Vec<&[u8]> = vec![self.eval, PAGE.as_bytes()];
        if self.at_source {
            call.push(b"0");
        } else {
            call.extend([b"1".as_slice(), &guard]);
        }
        call.push(number.as_bytes());
        if self.scans() {
            let cursor = match self.by_slot {
                true => self.at.inner << SLOT_BITS | u64::from(self.at.slot.number()),
                false => self.at.inner,
            };
            let cursor = cursor.to_string();
            call.extend([b"scan".as_slice(), cursor.as_bytes(), count.as_bytes()]);
            call.extend(kinds);
            write_command(wire, &call);
        } else {
            let width = if self.at.phase == Phase::Owner && !self.at_source { SLOTS_AT_ONCE } else { 1 };
            let [width, most] = [u64::from(width), LARGE_SLOT as u64].map(|number| number.to_string());
            call.extend([b"slots".as_slice(), width.as_bytes(), most.as_bytes(), count.as_bytes()]);
            write_command(wire, &call);
        }
    }

    /// Whether the next step is a SCAN.
    fn scans(&self) -> bool {
        self.by_slot || self.is_large
    }

    /// Takes the reply to the last step.
    pub(super) fn take(&mut self, reply: &[u8]) -> Result<Brought, Refusal> {
        let parts = split_array(reply).ok_or_else(|| Refusal::of(reply))?;
        let text = |at: usize| parts.get(at).and_then(|part| Reply::parse(part).ok()?.bytes());
        let text = |at: usize| text(at).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let (Some(line), Some(other), Some(run_id), Some(redis), Some(valkey)) =
            (text(0), text(1), text(2), text(3), text(4))
        else {
            return Err(Refusal::Unexpected);
        };
        let witness = Witness::read(line, run_id).ok_or(Refusal::Unexpected)?;
        let (pages, before) = (&parts[5..], self.scans());
        self.by_slot = is_by_slot(redis, valkey);
        if before == self.scans() && self.is_of_use(&witness, other) {
            self.tries = 0;
            let end = if self.at.phase == Phase::Owner && (self.by_slot || !self.is_large) {
                witness.run_end(self.at.slot, self.last)
            } else {
                self.at.slot
            };
            return if before { self.take_scans(pages, end) } else { self.take_slots(pages, end) };
        }
        self.tries += 1;
        if self.tries < MOST_TRIES {
            return Ok(Brought::Nothing);
        }
        let slot = self.at.slot;
        Err(Refusal::Error(
            format!(
                "-TRYAGAIN keyfold: nobody says of itself that it has slot {slot}; call with the same cursor later\r\n"
            )
            .into_bytes(),
        ))
    }

    /// Whether what a node gave goes on where the walk is. Where it does not, says how to go on.
    fn is_of_use(&mut self, witness: &Witness<'_>, other: &str) -> bool {
        let Position { phase, tag, inner, .. } = self.at;
        let begins = inner == 0;
        let fits = |expected: Tag| begins || tag == expected;
        match witness.role(self.at.slot) {
            Role::Owner if !self.at_source => {
                let fits = begins || phase == Phase::Owner && fits(witness.tag());
                self.settle(Phase::Owner, witness.tag(), fits)
            }
            Role::Source(to) if self.at_source => {
                self.way = Some((witness.id.to_owned(), to.to_owned()));
                let tag = witness.tag_of_move(other);
                let fits = match phase {
                    Phase::Owner => fits(witness.tag()),
                    Phase::Source => fits(tag),
                    Phase::Target => false,
                };
                self.settle(Phase::Source, tag, fits)
            }
            Role::Target(from) if !self.at_source && phase == Phase::Target => {
                let tag = witness.tag_of_move(other);
                let is_way = |(source, target): &(String, String)| source == from && target == witness.id;
                let fits = if begins { self.way.as_ref().is_some_and(is_way) } else { fits(tag) };
                if fits { self.settle(Phase::Target, tag, true) } else { self.begin_anew(Phase::Source) }
            }
            Role::Source(_) | Role::Target(_) if !self.at_source => {
                self.at_source = true;
                false
            }
            _ => {
                self.at_source = false;
                if phase == Phase::Owner { false } else { self.begin_anew(Phase::Owner) }
            }
        }
    }

    fn settle(&mut self, phase: Phase, tag: Tag, fits: bool) -> bool {
        if !fits {
            return self.begin_anew(phase);
        }
        (self.at.phase, self.at.tag) = (phase, tag);
        true
    }

    fn begin_anew(&mut self, phase: Phase) -> bool {
        self.at = Position { phase, ..Position::start_of(self.at.slot) };
        (self.at_source, self.is_large, self.way) = (phase == Phase::Source, false, None);
        false
    }

    /// Takes the names of SCANs from one cursor, of the slots up to `end`.
    fn take_scans(&mut self, pages: &[Vec<u8>], end: Slot) -> Result<Brought, Refusal> {
        let (mut found, mut cursors) = (Vec::new(), Vec::with_capacity(pages.len()));
        for (part, raw) in pages.iter().enumerate() {
            let page = Reply::parse(raw).ok().and_then(read_page);
            let (cursor, names) = page.ok_or_else(|| Refusal::of(raw))?;
            cursors.push(parse_integer(cursor).and_then(|cursor| u64::try_from(cursor).ok()));
            let names = names.filter_map(Reply::bytes).filter(|name| (self.at.slot..=end).contains(&Slot::of(name)));
            found.extend(names.map(|name| Found { name: name.to_vec(), kind: None, part }));
        }
        let Some(&Some(cursor)) = cursors.first() else { return Err(Refusal::Unexpected) };
        if cursors.iter().any(|other| *other != Some(cursor)) {
            // The table was made larger or smaller between two of them.
            return Ok(Brought::Nothing);
        }
        let (number, inner) = match self.by_slot {
            true => (cursor & ((1 << SLOT_BITS) - 1), cursor >> SLOT_BITS),
            false => (self.at.slot.number().into(), cursor),
        };
        let slot = u16::try_from(number).ok().and_then(Slot::new).filter(|slot| (self.at.slot..=end).contains(slot));
        match slot.filter(|_| cursor > 0) {
            Some(slot) if slot == self.at.slot => self.at.inner = inner,
            // What another slot's cursor is worth is told as this one's was.
            Some(slot) => self.at = Position { slot, inner, ..self.at },
            None => self.leave(end),
        }
        Ok(Brought::Names(found, 0))
    }

    /// Takes all names of neighbouring slots up to `end`, up to the first that holds too many.
    fn take_slots(&mut self, pages: &[Vec<u8>], end: Slot) -> Result<Brought, Refusal> {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        let mut last = None;
        for (slot, raw) in (self.at.slot.number()..=end.number()).zip(pages) {
            let names = split_array(raw).ok_or_else(|| Refusal::of(raw))?;
            if names.len() / 2 >= LARGE_SLOT {
                self.is_large = last.is_none();
                break;
            }
            last = Slot::new(slot);
            looked_at += 1;
            for pair in names.chunks_exact(2) {
                let [name, kind] = [&pair[0], &pair[1]].map(|raw| Reply::parse(raw).ok().and_then(Reply::bytes));
                let (Some(name), Some(kind)) = (name, kind) else { return Err(Refusal::Unexpected) };
                // What has expired has no type.
                if kind != b"none" {
                    found.push(Found { name: name.to_vec(), kind: Some(kind.to_vec()), part: 0 });
                }
            }
        }
        if let Some(last) = last {
            self.leave(last);
        }
        Ok(Brought::Names(found, looked_at / SLOTS_PER_KEY))
    }

    /// All names up to this slot have been seen, where the walk is now.
    fn leave(&mut self, end: Slot) {
        self.is_large = false;
        if self.at.phase == Phase::Source {
            self.at = Position { phase: Phase::Target, ..Position::start_of(self.at.slot) };
            self.at_source = false;
            return;
        }
        match Slot::new(end.number() + 1).filter(|next| *next <= self.last) {
            Some(next) => self.at = Position::start_of(next),
            None => self.is_over = true,
        }
        (self.at_source, self.way) = (false, None);
    }
}

/// Whether a server of this version, which Valkey says beside the Redis that it is like, has cursors that go by slot.
fn is_by_slot(redis: &str, valkey: &str) -> bool {
    let version = if valkey.is_empty() { redis } else { valkey };
    version.split('.').next().and_then(|major| major.parse().ok()).is_some_and(|major: u32| major >= 8)
}
