//! What a node says of itself at the moment of a step: which process it is, which slots it has, and which are on their way.
//!
//! ```text
//! 07c37df… 127.0.0.1:30004@31004,host myself,master - 0 0 3 connected 0-99 200 [93->-292f8b…] [77-<-e7d1ee…]
//! ```

use std::ops::RangeInclusive;

use super::Tag;
use crate::slot::Slot;

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness<'t> {
    /// The node's ID.
    pub id: &'t str,
    epoch: &'t str,
    /// Drawn anew by each process.
    run_id: &'t str,
    owned: Vec<RangeInclusive<u16>>,
    moves: Vec<(u16, Move<'t>)>,
}

/// A slot on its way key by key, as one of both nodes sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move<'t> {
    /// To the node with this ID.
    To(&'t str),
    /// From the node with this ID.
    From(&'t str),
}

/// What a node has to do with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role<'t> {
    /// It has the slot, with all its keys.
    Owner,
    /// It has the slot, and keys go to the node with this ID.
    Source(&'t str),
    /// Keys come to it from the node with this ID, which has the slot.
    Target(&'t str),
    /// None.
    None,
}

impl<'t> Witness<'t> {
    /// Reads the node's own line of CLUSTER NODES; none where it is no such line.
    pub fn read(line: &'t str, run_id: &'t str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let id = words.next()?;
        let flags = words.nth(1)?;
        let epoch = words.nth(3)?;
        let mut witness = Self { id, epoch, run_id, owned: Vec::new(), moves: Vec::new() };
        if !flags.split(',').any(|flag| flag == "master") {
            return Some(witness);
        }
        for word in words.skip(1) {
            if let Some(way) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
                witness.moves.extend(read_move(way));
            } else {
                let (first, last) = word.split_once('-').unwrap_or((word, word));
                witness.owned.push(first.parse().ok()?..=last.parse().ok()?);
            }
        }
        Some(witness)
    }

    /// What the node has to do with a slot.
    pub fn role(&self, slot: Slot) -> Role<'t> {
        let number = slot.number();
        let owns = self.owned.iter().any(|range| range.contains(&number));
        let way = self.moves.iter().find(|(moved, _)| *moved == number).map(|(_, way)| *way);
        match (owns, way) {
            (true, None | Some(Move::From(_))) => Role::Owner,
            (true, Some(Move::To(to))) => Role::Source(to),
            (false, Some(Move::From(from))) => Role::Target(from),
            (false, _) => Role::None,
        }
    }

    /// The last of the neighbouring slots from this one on that the node has, with all their keys.
    pub fn run_end(&self, first: Slot, last: Slot) -> Slot {
        let is_whole = |slot: &Slot| self.role(*slot) == Role::Owner;
        let range = self.owned.iter().find(|range| range.contains(&first.number()));
        let end = range.map_or(first.number(), |range| *range.end()).min(last.number());
        (first.number()..=end).map_while(Slot::new).take_while(is_whole).last().unwrap_or(first)
    }

    /// The tag of cursors that this process gives of slots that it has. They stay right whatever happens meanwhile.
    pub fn tag(&self) -> Tag {
        Tag::of(self.run_id.as_bytes())
    }

    /// The tag of cursors that it gives of a slot on its way from or to another node, of which it says `other`. A node
    /// that gets a slot has a newer epoch than all that had it, so this tells two moves from each other.
    pub fn tag_of_move(&self, other: &str) -> Tag {
        let mut words = other.split_ascii_whitespace();
        let (id, epoch) = (words.next().unwrap_or_default(), words.nth(5).unwrap_or_default());
        Tag::of([self.run_id, self.epoch, id, epoch].join(" ").as_bytes())
    }
}

fn read_move(way: &str) -> Option<(u16, Move<'_>)> {
    let (slot, way) = match way.split_once("->-") {
        Some((slot, to)) => (slot, Move::To(to)),
        None => way.split_once("-<-").map(|(slot, from)| (slot, Move::From(from)))?,
    };
    Some((slot.parse().ok()?, way))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "id0 127.0.0.1:1@2,host myself,master - 0 0 3 connected 0-99 200 5000-16383 [93->-id1] [300-<-id2]";

    fn slot(number: u16) -> Slot {
        Slot::new(number).unwrap()
    }

    #[test]
    fn a_node_says_what_it_has() {
        let witness = Witness::read(LINE, "run").unwrap();
        assert_eq!((witness.id, witness.epoch), ("id0", "3"));
        let roles = [0, 93, 99, 100, 200, 300].map(|number| witness.role(slot(number)));
        assert_eq!(
            roles,
            [Role::Owner, Role::Source("id1"), Role::Owner, Role::None, Role::Owner, Role::Target("id2")]
        );
    }

    #[test]
    fn a_run_ends_where_slots_are_another_nodes_or_on_their_way() {
        let witness = Witness::read(LINE, "run").unwrap();
        let ends = [0, 92, 94, 200, 5000].map(|first| witness.run_end(slot(first), slot(16_383)).number());
        assert_eq!(ends, [92, 92, 99, 200, 16_383]);
        assert_eq!(witness.run_end(slot(7), slot(9)), slot(9));
    }

    #[test]
    fn a_replica_has_no_slots() {
        let witness = Witness::read("id0 :1@2 myself,slave id1 0 0 3 connected", "run").unwrap();
        assert_eq!(witness.role(slot(0)), Role::None);
        assert_eq!(Witness::read("", ""), None);
        assert_eq!(Witness::read("id0 :1@2 myself,master - 0 0 3 connected x-y", "run"), None);
    }

    #[test]
    fn tags_tell_processes_and_moves_apart() {
        let [one, other] = ["run", "another"].map(|run| Witness::read(LINE, run).unwrap());
        assert_ne!(one.tag(), other.tag());
        let tags =
            ["id1 a master - 0 0 4 connected", "id1 a master - 0 0 5 connected", "id2 a master - 0 0 4 connected"]
                .map(|line| one.tag_of_move(line));
        assert!(tags[0] != tags[1] && tags[0] != tags[2] && tags[0] != one.tag());
    }
}
