//! What a node says in CLUSTER NODES: who there is, and which slots are on their way.
//!
//! ```text
//! ID HOST:PORT@BUS,HOSTNAME,… FLAGS PRIMARY PING PONG EPOCH STATE SLOTS… [SLOT->-ID] [SLOT-<-ID]
//! ```
//! Slots on their way are told by each node of itself only.

use std::ops::RangeInclusive;

use keyfold_core::cluster::{AddressMap, Endpoint};
use keyfold_core::slot::Slot;

/// A node, as one of them knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name among nodes.
    pub id: String,
    /// Where it takes clients.
    pub endpoint: Endpoint,
    /// Whether it is the one that was asked.
    pub is_myself: bool,
    /// Whether it may have slots.
    pub is_primary: bool,
    /// The ID of the node that it follows; none of a primary.
    pub follows: Option<String>,
    /// Whether others can't reach it.
    pub is_failing: bool,
    /// Of its slots: grows when it gets others.
    pub epoch: u64,
    /// Its slots.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Slots of its own whose keys go to the node with this ID.
    pub migrating: Vec<(Slot, String)>,
    /// Slots whose keys come from the node with this ID.
    pub importing: Vec<(Slot, String)>,
}

impl ClusterNode {
    /// Reads a whole answer. Nodes that say no address of theirs are at `asked`.
    pub fn read_all(answer: &str, asked: &Endpoint, addresses: &AddressMap) -> Option<Vec<Self>> {
        answer.lines().filter(|line| !line.trim().is_empty()).map(|line| Self::read(line, asked, addresses)).collect()
    }

    fn read(line: &str, asked: &Endpoint, addresses: &AddressMap) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, follows, _ping, _pong, epoch, _state, slots @ ..] = words.as_slice() else {
            return None;
        };
        let (host, port) = address.split('@').next()?.rsplit_once(':')?;
        let host = if host.is_empty() { &asked.host } else { host };
        let endpoint = addresses.find(Endpoint { host: host.to_owned(), port: port.parse().ok()? });
        let has = |flag: &str| flags.split(',').any(|one| one == flag);
        let mut node = Self {
            id: (*id).to_owned(),
            endpoint,
            is_myself: has("myself"),
            is_primary: has("master"),
            follows: Some((*follows).to_owned()).filter(|id| id != "-"),
            is_failing: has("fail") || has("noaddr") || has("handshake"),
            epoch: epoch.parse().ok()?,
            slots: Vec::new(),
            migrating: Vec::new(),
            importing: Vec::new(),
        };
        slots.iter().try_for_each(|word| node.take_slots(word))?;
        Some(node)
    }

    fn take_slots(&mut self, word: &str) -> Option<()> {
        if let Some(moving) = word.strip_prefix('[') {
            let moving = moving.strip_suffix(']')?;
            let slot = |number: &str| Slot::new(number.parse().ok()?);
            if let Some((number, to)) = moving.split_once("->-") {
                self.migrating.push((slot(number)?, to.to_owned()));
            } else if let Some((number, from)) = moving.split_once("-<-") {
                self.importing.push((slot(number)?, from.to_owned()));
            }
            return Some(());
        }
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        self.slots.push(first.parse().ok()?..=last.parse().ok()?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_those_on_their_way() {
        let asked = Endpoint { host: "10.0.0.9".to_owned(), port: 7000 };
        let answer = "07c3 10.0.0.1:7004@17004,,shard-id=abc slave,fail e7d1 0 1 4 disconnected\n\
                      e7d1 :7001@17001 myself,master - 0 0 3 connected 0-5460 7000 [93->-07c3] [77-<-67ed]\n";
        let nodes = ClusterNode::read_all(answer, &asked, &AddressMap::default()).unwrap();
        assert_eq!((nodes[0].is_primary, nodes[0].is_failing, nodes[0].endpoint.port), (false, true, 7004));
        assert_eq!((nodes[0].follows.as_deref(), &nodes[1].follows), (Some("e7d1"), &None));
        let own = &nodes[1];
        assert_eq!((own.endpoint.host.as_str(), own.is_myself, own.epoch), ("10.0.0.9", true, 3));
        assert_eq!(own.slots, [0..=5460, 7000..=7000]);
        let slot = |number| Slot::new(number).unwrap();
        assert_eq!(own.migrating, [(slot(93), "07c3".to_owned())]);
        assert_eq!(own.importing, [(slot(77), "67ed".to_owned())]);
        assert_eq!(ClusterNode::read_all("ERR no cluster", &asked, &AddressMap::default()), None);
    }
}
