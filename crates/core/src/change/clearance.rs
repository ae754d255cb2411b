//! Whether a new connection to a node of a cluster may be used.
//!
//! A connection is named first. Then its process must hear, by questions that are sent after the naming was confirmed,
//! that the layout it serves is in force and nobody holds it, from two of the home and the witnesses that lie on
//! different primaries. Whoever changes the layout writes *hold* to the home and *changing* to all witnesses before it
//! asks a node who is there: so a connection that it doesn't find there was named later, and its process asks when
//! all of them have ceased to speak for the layout. One primary may have been set back since, to what it said before;
//! not two at once. So the home may be away, or any other primary, and connections come all the same.
//!
//! Where one primary has all of these slots its word is enough, as that of a single server is: there, all who serve
//! another layout lose their connections when it is set back. In a cluster of several primaries that is not so, and the
//! layout isn't changed while home and witnesses lie together ([`super::Obstacle::Together`]).
//!
//! A look serves all connections of the process that were named before it *began*; one that is named later needs
//! another; and it is begun anew once the process serves another layout. Which slot is whose is seen by who answers: a node that hasn't the slot sends on, and that is no answer.

use std::collections::{BTreeMap, BTreeSet};

use super::Announcement;
use super::witness::{self, NO_LAYOUT};
use crate::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY, home, witness::slots};
use crate::resp::{Reply, write_command};
use crate::slot::Slot;

/// Whether a connection may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clearance {
    /// It may.
    Fine,
    /// More is to be heard.
    Waiting,
    /// Not now: a change is under way, or another layout is in force. Begin another look soon.
    Later,
    /// Too few nodes can be asked; what the last of them said, or that it is away.
    Unsettled(String),
}

/// A look at the home and the witnesses; `N` is how nodes are told apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Look<N> {
    words: BTreeMap<Slot, Word<N>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Word<N> {
    /// The node speaks for the layout that is served.
    For(N),
    /// It speaks for another one, or none.
    Against(N),
    /// Nobody can be asked, and why.
    Away(String),
}

impl<N: Copy + Ord> Look<N> {
    /// A look that begins now.
    pub fn begin() -> Self {
        Self { words: BTreeMap::new() }
    }

    /// The slots whose primaries are asked, the home first.
    pub fn slots() -> impl Iterator<Item = Slot> {
        std::iter::once(home()).chain(slots())
    }

    /// Appends the question to the primary of one of these slots; one reply.
    pub fn ask(slot: Slot, wire: &mut Vec<u8>) {
        if slot == home() {
            write_command(wire, &[b"MGET", CHANGE_KEY, LAYOUT_KEY, COPY_KEY]);
        } else {
            witness::ask(slot, wire);
        }
    }

    /// Takes a node's reply about a slot. `is_served` says whether a register with these halves has the layout in force
    /// by which this process serves. A redirect is no reply: it is to be followed first.
    pub fn hear(
        &mut self,
        slot: Slot,
        node: N,
        reply: &[u8],
        is_served: impl Fn(Option<&[u8]>, Option<&[u8]>) -> bool,
    ) {
        let says = if slot == home() {
            read_home(reply).map(|(announcement, layout, copy)| {
                !Announcement::holds(announcement.as_deref()) && is_served(layout.as_deref(), copy.as_deref())
            })
        } else {
            witness::read(reply).map(|held| match held.as_deref() {
                Some(NO_LAYOUT) => is_served(None, None),
                Some(held) => is_served(Some(held), Some(held)),
                None => false,
            })
        };
        let word = match says {
            Ok(true) => Word::For(node),
            Ok(false) => Word::Against(node),
            Err(error) => Word::Away(error),
        };
        self.words.insert(slot, word);
    }

    /// Nobody can be asked about this slot, and why.
    pub fn is_away(&mut self, slot: Slot, why: &str) {
        self.words.insert(slot, Word::Away(why.to_owned()));
    }

    /// Whether connections that were named before this look began may be used.
    pub fn clearance(&self) -> Clearance {
        let speakers =
            self.words.values().filter_map(|word| if let Word::For(node) = word { Some(*node) } else { None });
        if speakers.collect::<BTreeSet<N>>().len() >= 2 {
            return Clearance::Fine;
        }
        if Self::slots().any(|slot| !self.words.contains_key(&slot)) {
            return Clearance::Waiting;
        }
        let mut answered = BTreeSet::new();
        let mut away = None;
        for word in self.words.values() {
            match word {
                Word::For(node) | Word::Against(node) => drop(answered.insert(*node)),
                Word::Away(why) => away = Some(why.clone()),
            }
        }
        match (away, self.words.get(&home())) {
            (None, Some(Word::For(_))) if answered.len() == 1 => Clearance::Fine,
            (Some(why), _) if answered.len() < 2 => Clearance::Unsettled(why),
            _ => Clearance::Later,
        }
    }
}

type Halves = (Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<u8>>);

/// The announcement and the halves of the register.
fn read_home(reply: &[u8]) -> Result<Halves, String> {
    let Ok(Reply::Array(mut keys)) = Reply::parse(reply) else { return Err(super::sight::text(reply)) };
    let mut bytes = || keys.next().and_then(Reply::bytes).map(<[u8]>::to_vec);
    Ok((bytes(), bytes(), bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVED: &str = "$1\r\n4\r\n";
    const OTHER: &str = "$1\r\n5\r\n";
    const NONE: &str = "$-1\r\n";
    const AWAY: &str = "-CLUSTERDOWN The cluster is down\r\n";

    fn is_served(layout: Option<&[u8]>, copy: Option<&[u8]>) -> bool {
        layout.or(copy) == Some(b"4")
    }

    fn at_home(announcement: Option<&str>, says: &str) -> String {
        let announcement = announcement.map_or(NONE.to_owned(), |text| format!("${}\r\n{text}\r\n", text.len()));
        format!("*3\r\n{announcement}{says}{says}")
    }

    /// Each reply from a node: the home's, then those of the witnesses.
    fn look(replies: &[(char, &str)]) -> Clearance {
        let mut look = Look::begin();
        for (slot, (node, reply)) in Look::<char>::slots().zip(replies) {
            look.hear(slot, *node, reply.as_bytes(), is_served);
        }
        look.clearance()
    }

    #[test]
    fn two_primaries_must_say_so() {
        let home = at_home(None, SERVED);
        assert_eq!(look(&[('b', &home)]), Clearance::Waiting);
        assert_eq!(look(&[('b', &home), ('a', SERVED)]), Clearance::Fine);
        assert_eq!(look(&[('b', AWAY), ('a', SERVED), ('b', AWAY), ('b', AWAY), ('c', SERVED)]), Clearance::Fine);
        let set_back = [('b', home.as_str()), ('a', OTHER), ('b', SERVED), ('b', SERVED), ('c', NONE)];
        assert_eq!(look(&set_back), Clearance::Later, "b was set back");
        let hold = at_home(Some("7 2 hold 5"), SERVED);
        let changing = "$16\r\nchanging 7 2 5\n4\r\n";
        let during = [('b', hold.as_str()), ('a', changing), ('b', changing), ('b', changing), ('c', changing)];
        assert_eq!(look(&during), Clearance::Later);
        let prepare = at_home(Some("7 1 prepare 5"), SERVED);
        assert_eq!(look(&[('b', &prepare), ('a', SERVED)]), Clearance::Fine);
    }

    #[test]
    fn one_primary_is_enough_where_it_has_all() {
        let (home, hold) = (at_home(None, SERVED), at_home(Some("7 2 hold 5"), SERVED));
        let alone = |home: &str, witness: &str| {
            look(&[('a', home), ('a', witness), ('a', witness), ('a', witness), ('a', witness)])
        };
        assert_eq!(alone(&home, SERVED), Clearance::Fine);
        assert_eq!(alone(&home, NONE), Clearance::Fine, "a cluster that was never changed before");
        assert_eq!(alone(&hold, SERVED), Clearance::Later);
        assert_eq!(alone(&at_home(None, OTHER), SERVED), Clearance::Later);
        assert!(matches!(alone(AWAY, SERVED), Clearance::Unsettled(_)));
        assert!(matches!(alone(&home, AWAY), Clearance::Unsettled(_)), "somebody else may have these slots");
    }

    #[test]
    fn who_is_away_is_told() {
        let mut look = Look::<u8>::begin();
        Look::<u8>::slots().for_each(|slot| look.is_away(slot, "node a is away"));
        assert_eq!(look.clearance(), Clearance::Unsettled("node a is away".to_owned()));
        let mut wire = Vec::new();
        Look::<u8>::slots().for_each(|slot| Look::<u8>::ask(slot, &mut wire));
        let wire = String::from_utf8(wire).unwrap();
        assert_eq!((wire.matches("MGET").count(), wire.matches(":witness").count()), (1, 4));
    }
}
