//! Which replicas may be read from.
//!
//! A replica is read from as long as it is known to have all that its primary had at some moment, and that moment is
//! neither too long ago nor before the layout in force:
//!
//! ```text
//! primary   ──── asked at 40: offset 900 ──── asked at 90: offset 1000 ────▶      marks (40, 900), (90, 1000)
//! replica   ─────────────────── says at 95: offset 950 ────────────────────▶      has all of moment 40, and not yet of 90
//! ```
//! A mark's moment is when the question was *sent*, so whatever the primary had acknowledged before is within its offset.
//! Offsets count only where both nodes name the same history. So how far a replica lags is known in milliseconds and never
//! guessed, and a replica whose link stands while nothing comes over it, or whose primary is gone, ages like any other.
//!
//! When the layout changes, what was known is void ([`Replicas::begin_anew`]): only a mark that was asked for after that
//! says that the replica has all that was written by the layouts before. Until then its keys may lie where nobody looks for
//! them any more.

use std::collections::{BTreeMap, VecDeque};

use super::{Node, Replication};
use crate::named;
use crate::resp::Reply;
use crate::resp::write_command;

named! {
    /// Where reads go.
    pub enum ReadFrom {
        /// To primaries.
        Primary = "primary",
        /// To replicas that are fit for it, else to primaries.
        Replica = "replica",
        /// To whichever of both answers soonest.
        Nearest = "nearest",
    }
}

/// So many marks of a primary are kept; with more, every other one is dropped.
const MARKS: usize = 128;

/// Another node is taken for the nearest only where its round trip takes less than this share of the present one's...
const NEARER: f64 = 0.8;

/// ... and at least so much less, in microseconds: among nodes of one rack nothing is gained.
const NEARER_BY_US: f64 = 50.0;

/// What one round trip counts in the mean.
const WEIGHT: f64 = 0.125;

/// A question that is under way.
#[derive(Clone, Copy, Debug)]
pub struct ReplicationAsked {
    at_ms: i64,
    term: u64,
}

/// Which replicas may be read from, as far as is known. Times are milliseconds of a clock that is never put back.
#[derive(Debug)]
pub struct Replicas {
    from: ReadFrom,
    max_lag_ms: i64,
    /// Grows with each layout.
    term: u64,
    primaries: BTreeMap<Node, Marks>,
    replicas: BTreeMap<Node, Known>,
    round_trips_us: BTreeMap<Node, f64>,
    /// The node that is nearest, by primary.
    nearest: BTreeMap<Node, Node>,
}

/// What a primary's stream had come to, and when.
#[derive(Debug, Default)]
struct Marks {
    history: String,
    /// Moments and offsets, oldest first.
    marks: VecDeque<(i64, u64)>,
}

#[derive(Debug)]
struct Known {
    of: Node,
    history: String,
    /// How far in that it was when it was asked last.
    offset: u64,
    /// It has all that its primary had at this moment.
    has_all_of_ms: Option<i64>,
    /// Why it isn't read from, where it says so itself or is away.
    trouble: Option<String>,
    reads: u64,
    returned: u64,
}

/// What is known of a replica, to be shown.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicaState {
    /// The replica.
    pub node: Node,
    /// Its primary.
    pub of: Node,
    /// Why it isn't read from, where it isn't.
    pub unfit: Option<String>,
    /// At most so long ago its primary had what it has, in milliseconds; none where that isn't known.
    pub lag_ms: Option<i64>,
    /// The mean of the last round trips, in microseconds.
    pub round_trip_us: Option<u64>,
    /// Reads that it was sent since it was last said how many.
    pub reads: u64,
    /// Those of them that were sent once more to the primary.
    pub returned: u64,
}

impl Replicas {
    /// Nothing is known yet. A replica that lags by more than this is not read from.
    pub fn new(from: ReadFrom, max_lag_ms: i64) -> Self {
        Self {
            from,
            max_lag_ms,
            term: 0,
            primaries: BTreeMap::new(),
            replicas: BTreeMap::new(),
            round_trips_us: BTreeMap::new(),
            nearest: BTreeMap::new(),
        }
    }

    /// Whether any replica may ever be read from.
    pub fn are_wanted(&self) -> bool {
        self.from != ReadFrom::Primary
    }

    /// How often nodes are to be asked, in milliseconds: some times within the lag that is allowed.
    pub fn period_ms(&self) -> i64 {
        (self.max_lag_ms / 4).clamp(25, 500)
    }

    /// Another layout is in force from now on. What was asked before says nothing about it.
    pub fn begin_anew(&mut self) {
        self.term += 1;
        self.primaries.clear();
        self.replicas.values_mut().for_each(|known| known.has_all_of_ms = None);
    }

    /// Writes the question to any node; it has one reply, for [`Self::hear_primary`] or [`Self::hear_replica`].
    pub fn ask(&self, now_ms: i64, wire: &mut Vec<u8>) -> ReplicationAsked {
        write_command(wire, &[b"INFO", b"replication"]);
        ReplicationAsked { at_ms: now_ms, term: self.term }
    }

    /// What a primary has answered; whether it takes itself for one.
    pub fn hear_primary(&mut self, node: Node, asked: ReplicationAsked, reply: &[u8]) -> bool {
        let said = read(reply);
        let is_replica = matches!(said, Some(Replication::Replica { .. }));
        if asked.term != self.term {
            return !is_replica;
        }
        let Some(Replication::Primary { history, offset }) = said else {
            self.primaries.remove(&node);
            return !is_replica;
        };
        let known = self.primaries.entry(node).or_default();
        if known.history != history {
            *known = Marks { history, marks: VecDeque::new() };
        }
        if known.marks.len() >= MARKS {
            let mut is_kept = false;
            known.marks.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        known.marks.push_back((asked.at_ms, offset));
        true
    }

    /// What a replica of this primary has answered; whether it takes itself for a replica.
    pub fn hear_replica(&mut self, node: Node, of: Node, asked: ReplicationAsked, reply: &[u8]) -> bool {
        let said = read(reply);
        let is_replica = !matches!(said, Some(Replication::Primary { .. }));
        if asked.term == self.term {
            self.note_replica(node, of, said, reply);
        }
        is_replica
    }

    fn note_replica(&mut self, node: Node, of: Node, said: Option<Replication>, reply: &[u8]) {
        let known = self.known(node, of);
        known.trouble = None;
        let (history, offset) = match said {
            Some(Replication::Replica { history, offset, trouble: None }) => (history, offset),
            Some(Replication::Replica { trouble: Some(trouble), .. }) => {
                return known.trouble = Some(trouble.to_owned());
            }
            Some(Replication::Primary { .. }) => return known.trouble = Some("it is a primary".to_owned()),
            None => return known.trouble = Some(without_replication(reply)),
        };
        if known.history != history || offset < known.offset {
            // One that was started anew may have older data than it had.
            known.has_all_of_ms = None;
            known.history.clone_from(&history);
        }
        known.offset = offset;
        let Some(primary) = self.primaries.get(&of).filter(|primary| primary.history == history) else {
            self.known(node, of).has_all_of_ms = None;
            return;
        };
        let reached = primary.marks.iter().rev().find(|(_, mark)| *mark <= offset).map(|(at_ms, _)| *at_ms);
        let known = self.known(node, of);
        known.has_all_of_ms = known.has_all_of_ms.max(reached);
    }

    fn known(&mut self, node: Node, of: Node) -> &mut Known {
        let unknown = || Known {
            of,
            history: String::new(),
            offset: 0,
            has_all_of_ms: None,
            trouble: Some("it was not asked yet".to_owned()),
            reads: 0,
            returned: 0,
        };
        let known = self.replicas.entry(node).or_insert_with(unknown);
        if known.of != of {
            *known = Known { reads: known.reads, returned: known.returned, ..unknown() };
        }
        known
    }

    /// How long a node took to answer, in microseconds.
    pub fn note_round_trip(&mut self, node: Node, us: u64) {
        #[expect(clippy::cast_precision_loss, reason = "a mean of times")]
        let us = us as f64;
        let mean = self.round_trips_us.entry(node).or_insert(us);
        *mean += (us - *mean) * WEIGHT;
    }

    /// A node does not answer, for this reason.
    pub fn note_away(&mut self, node: Node, why: &str) {
        self.round_trips_us.remove(&node);
        if let Some(known) = self.replicas.get_mut(&node) {
            known.trouble = Some(why.to_owned());
        }
    }

    /// A read that it was sent goes to the primary instead; with why where it is not to be sent others, until it is heard
    /// again.
    pub fn note_returned(&mut self, node: Node, trouble: Option<&str>) {
        if let Some(known) = self.replicas.get_mut(&node) {
            known.returned += 1;
            if let Some(trouble) = trouble {
                known.trouble = Some(trouble.to_owned());
            }
        }
    }

    /// These are the cluster's nodes by now; what is known of others is forgotten.
    pub fn keep(&mut self, is_node: impl Fn(Node) -> bool) {
        self.primaries.retain(|node, _| is_node(*node));
        self.replicas.retain(|node, _| is_node(*node));
        self.round_trips_us.retain(|node, _| is_node(*node));
        self.nearest.retain(|node, _| is_node(*node));
    }

    /// The replica, of these of this primary, that a read of `reader` goes to; none where it goes to the primary. A reader
    /// has the same one as long as the same ones are fit. `is_ready` says whether there is a connection.
    pub fn choose(
        &mut self,
        primary: Node,
        replicas: &[Node],
        reader: usize,
        now_ms: i64,
        is_ready: impl Fn(Node) -> bool,
    ) -> Option<Node> {
        let is_fit = |node: &Node| self.unfit(*node, primary, now_ms).is_none() && is_ready(*node);
        let mut fit: smallvec::SmallVec<[Node; 4]> = smallvec::SmallVec::new();
        fit.extend(replicas.iter().copied().filter(is_fit));
        let chosen = match self.from {
            ReadFrom::Primary => None,
            ReadFrom::Replica => fit.get(reader.checked_rem(fit.len())?).copied(),
            ReadFrom::Nearest => {
                fit.push(primary);
                self.choose_nearest(primary, &fit).filter(|node| *node != primary)
            }
        };
        if let Some(known) = chosen.and_then(|node| self.replicas.get_mut(&node)) {
            known.reads += 1;
        }
        chosen
    }

    fn choose_nearest(&mut self, primary: Node, nodes: &[Node]) -> Option<Node> {
        let measured = nodes.iter().filter_map(|node| Some((*node, *self.round_trips_us.get(node)?)));
        let (best, best_us) = measured.min_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let present = self.nearest.get(&primary).filter(|node| nodes.contains(node));
        if let Some((present, us)) = present.and_then(|node| Some((*node, *self.round_trips_us.get(node)?)))
            && (best_us > us * NEARER || best_us > us - NEARER_BY_US)
        {
            return Some(present);
        }
        self.nearest.insert(primary, best);
        Some(best)
    }

    /// Why a replica of this primary is not read from at this moment.
    fn unfit(&self, node: Node, of: Node, now_ms: i64) -> Option<&str> {
        let Some(known) = self.replicas.get(&node).filter(|known| known.of == of) else {
            return Some("it was not asked yet");
        };
        match (&known.trouble, known.has_all_of_ms) {
            (Some(trouble), _) => Some(trouble),
            (None, None) => Some("it is not known to have all that was written before the layout in force"),
            (None, Some(at_ms)) if now_ms - at_ms > self.max_lag_ms => Some("it lags behind its primary"),
            (None, Some(_)) => None,
        }
    }

    /// All replicas that were asked.
    pub fn take_states(&mut self, now_ms: i64) -> Vec<ReplicaState> {
        let state = |(node, known): (&Node, &Known)| {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times")]
            let round_trip_us = self.round_trips_us.get(node).map(|us| *us as u64);
            ReplicaState {
                node: *node,
                of: known.of,
                unfit: self.unfit(*node, known.of, now_ms).map(str::to_owned),
                lag_ms: known.has_all_of_ms.map(|at_ms| now_ms - at_ms),
                round_trip_us,
                reads: known.reads,
                returned: known.returned,
            }
        };
        let states = self.replicas.iter().map(state).collect();
        self.replicas.values_mut().for_each(|known| (known.reads, known.returned) = (0, 0));
        states
    }
}

fn read(reply: &[u8]) -> Option<Replication> {
    let text = Reply::parse(reply).ok()?.bytes()?;
    Replication::read(std::str::from_utf8(text).ok()?)
}

/// What a node says that says nothing of replication.
fn without_replication(reply: &[u8]) -> String {
    match Reply::parse(reply) {
        Ok(Reply::Error(error)) => format!("it says: {}", String::from_utf8_lossy(error)),
        _ => "it doesn't tell of its part in replication".to_owned(),
    }
}

#[cfg(test)]
mod tests;
