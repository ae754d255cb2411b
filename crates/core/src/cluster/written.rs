//! Where a client has written, for WAIT.

use super::Node;

/// The primaries that one client has written to.
#[derive(Debug, Default)]
pub struct Written {
    nodes: Vec<Node>,
    /// The changes of the map ([`SlotMap::changes`](super::SlotMap::changes)) when it wrote.
    changes: u64,
    /// It wrote before a change of the map: what it wrote may be anywhere by now.
    is_anywhere: bool,
}

impl Written {
    /// The client writes to this node, with so many changes of the map so far.
    pub fn note(&mut self, node: Node, changes: u64) {
        self.is_anywhere |= !self.nodes.is_empty() && self.changes != changes;
        self.changes = changes;
        if !self.nodes.contains(&node) {
            self.nodes.push(node);
        }
    }

    /// The nodes that have all that it wrote; none where that may be any, or where it wrote nothing.
    pub fn nodes(&self, changes: u64) -> Option<&[Node]> {
        let is_known = !self.is_anywhere && self.changes == changes && !self.nodes.is_empty();
        is_known.then_some(&self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{AddressMap, SlotMap};

    #[test]
    fn where_a_client_wrote_is_known_until_the_map_changes() {
        let mut map = SlotMap::new(AddressMap::default());
        let [one, other] = ["a:1", "a:2"].map(|at| map.node(&at.parse().unwrap()));
        let mut written = Written::default();
        assert_eq!(written.nodes(0), None);
        written.note(one, 3);
        written.note(one, 3);
        assert_eq!(written.nodes(3), Some(&[one][..]));
        written.note(other, 3);
        assert_eq!(written.nodes(3), Some(&[one, other][..]));
        assert_eq!(written.nodes(4), None);
        written.note(other, 4);
        assert_eq!(written.nodes(4), None);
    }
}
