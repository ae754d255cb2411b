//! What one node says of the cluster: who has which slots, and whether it may be believed.

use std::collections::BTreeMap;

use super::{AddressMap, Endpoint};
use crate::resp::{Reply, write_command};
use crate::server_info::info_field;
use crate::slot::Slot;

/// Some neighbouring slots, with who has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first slot.
    pub first: Slot,
    /// The last one, which is one of them.
    pub last: Slot,
    /// Who writes them.
    pub primary: Endpoint,
    /// Who holds copies of them.
    pub replicas: Vec<Endpoint>,
}

/// What one node says of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Who has which slots; those of nobody are left out.
    pub ranges: Vec<Range>,
    /// The newest version of the cluster's state that the node has heard of.
    pub epoch: u64,
    /// Whether it takes the cluster for whole. A node that is cut off from most others doesn't, and what it says is not
    /// to be gone by.
    pub is_ok: bool,
    /// The IDs of the nodes that have slots or copies of them, with where they are.
    pub named: BTreeMap<String, Endpoint>,
}

/// Why a node's answers say nothing of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// It refuses one of the questions.
    #[error("{0}")]
    Refused(String),
    /// It answers something else.
    #[error("it does not answer {0} as a node of a cluster does")]
    Unread(&'static str),
}

impl Topology {
    /// Writes the questions; how many replies they have.
    pub fn ask(wire: &mut Vec<u8>) -> usize {
        write_command(wire, &[b"CLUSTER", b"INFO"]);
        write_command(wire, &[b"CLUSTER", b"SLOTS"]);
        2
    }

    /// Reads the answers of the node at `asked`. Nodes that it names by no address are on its host; each is then sought
    /// where `addresses` says.
    ///
    /// # Errors
    /// Answers that no node of a cluster gives.
    pub fn read(replies: &[Vec<u8>], asked: &Endpoint, addresses: &AddressMap) -> Result<Self, TopologyError> {
        let reply = |at: usize, command| match replies.get(at).map(|reply| Reply::parse(reply)) {
            Some(Ok(Reply::Error(error))) => {
                Err(TopologyError::Refused(format!("{command}: {}", String::from_utf8_lossy(error))))
            }
            Some(Ok(reply)) => Ok(reply),
            _ => Err(TopologyError::Unread(command)),
        };
        let info = reply(0, "CLUSTER INFO")?.bytes().ok_or(TopologyError::Unread("CLUSTER INFO"))?;
        let info = String::from_utf8_lossy(info);
        let field = |name| info_field(&info, name);
        let (Some(state), Some(epoch)) = (field("cluster_state"), field("cluster_current_epoch")) else {
            return Err(TopologyError::Unread("CLUSTER INFO"));
        };
        let epoch = epoch.parse().map_err(|_| TopologyError::Unread("CLUSTER INFO"))?;
        let unread = || TopologyError::Unread("CLUSTER SLOTS");
        let Reply::Array(slots) = reply(1, "CLUSTER SLOTS")? else { return Err(unread()) };
        let mut named = BTreeMap::new();
        let ranges: Option<Vec<_>> = slots.map(|range| read_range(range, asked, addresses, &mut named)).collect();
        Ok(Self { ranges: ranges.ok_or_else(unread)?, epoch, is_ok: state == "ok", named })
    }

    /// Whether the node takes the cluster for whole, and somebody has each slot.
    pub fn is_whole(&self) -> bool {
        self.is_ok && self.served() == Slot::all().count()
    }

    /// How many slots somebody has.
    pub fn served(&self) -> usize {
        self.ranges.iter().map(|range| usize::from(range.last.number() - range.first.number()) + 1).sum()
    }
}

fn read_range(
    range: Reply<'_>,
    asked: &Endpoint,
    addresses: &AddressMap,
    named: &mut BTreeMap<String, Endpoint>,
) -> Option<Range> {
    let Reply::Array(mut parts) = range else { return None };
    let mut slot = || match parts.next()? {
        Reply::Integer(number) => Slot::new(u16::try_from(number).ok()?),
        _ => None,
    };
    let (first, last) = (slot()?, slot()?);
    let mut nodes = parts.map(|node| {
        let (id, endpoint) = read_node(node, asked, addresses)?;
        named.extend(id.map(|id| (id, endpoint.clone())));
        Some(endpoint)
    });
    let primary = nodes.next()??;
    (first <= last).then_some(Range { first, last, primary, replicas: nodes.flatten().collect() })
}

/// Its ID, and where it is. The endpoint is nil or empty where the node knows no address of its own yet, `?` where it has no name and is to have
/// one: then its address stands among what else is said of it.
fn read_node(node: Reply<'_>, asked: &Endpoint, addresses: &AddressMap) -> Option<(Option<String>, Endpoint)> {
    let Reply::Array(mut parts) = node else { return None };
    let host = match parts.next()? {
        Reply::Nil => asked.host.clone(),
        host => std::str::from_utf8(host.bytes()?).ok()?.to_owned(),
    };
    let Reply::Integer(port) = parts.next()? else { return None };
    let port = u16::try_from(port).ok().filter(|port| *port > 0)?;
    let id = parts.next().and_then(Reply::bytes).map(|id| String::from_utf8_lossy(id).into_owned());
    let host = match host.as_str() {
        "?" => parts.next().and_then(address_among).unwrap_or_else(|| asked.host.clone()),
        "" => asked.host.clone(),
        _ => host,
    };
    Some((id, addresses.find(Endpoint { host, port })))
}

/// What stands behind `ip` among names and values.
fn address_among(said: Reply<'_>) -> Option<String> {
    let (Reply::Array(mut words) | Reply::Map(mut words)) = said else { return None };
    while let Some(name) = words.next() {
        let value = words.next()?;
        if name.bytes() == Some(b"ip") {
            return Some(std::str::from_utf8(value.bytes()?).ok()?.to_owned()).filter(|ip| !ip.is_empty());
        }
    }
    None
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cluster) fn endpoint(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    const INFO: &str = "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_current_epoch:6\r\n";

    fn bulk(text: &str) -> Vec<u8> {
        format!("${}\r\n{text}\r\n", text.len()).into_bytes()
    }

    fn read(info: &str, slots: &str) -> Result<Topology, TopologyError> {
        let slots = slots.replace(' ', "\r\n") + "\r\n";
        Topology::read(&[bulk(info), slots.into_bytes()], &endpoint("asked:7000"), &AddressMap::default())
    }

    #[test]
    fn a_node_says_who_has_which_slots() {
        let slots = "*2 *5 :0 :8191 *4 $9 127.0.0.1 :7001 $1 a *0 *4 $1 ? :7004 $1 d *0 *4 $1 ? :7006 $1 f *2 $2 ip $9 127.0.0.3 \
                     *4 :8192 :16383 *3 $-1 :7002 $1 b *3 $0  :7005 $1 e";
        let read = read(INFO, slots).unwrap();
        assert_eq!((read.epoch, read.is_whole(), read.served()), (6, true, 16_384));
        assert_eq!(read.ranges[0].primary, endpoint("127.0.0.1:7001"));
        assert_eq!(read.ranges[0].replicas, [endpoint("asked:7004"), endpoint("127.0.0.3:7006")]);
        assert_eq!(read.ranges[1].primary, endpoint("asked:7002"));
        assert_eq!(read.ranges[1].replicas, [endpoint("asked:7005")]);
        let named: Vec<_> = read.named.iter().map(|(id, at)| format!("{id} {at}")).collect();
        assert_eq!(named, ["a 127.0.0.1:7001", "b asked:7002", "d asked:7004", "e asked:7005", "f 127.0.0.3:7006"]);
        assert_eq!((read.ranges[1].first.number(), read.ranges[1].last.number()), (8192, 16_383));
    }

    #[test]
    fn a_node_that_is_cut_off_says_so() {
        assert!(!read(&INFO.replace(":ok", ":fail"), "*0").unwrap().is_ok);
        let holed = read(INFO, "*1 *3 :0 :16382 *3 $1 a :7001 $1 a").unwrap();
        assert!(holed.is_ok && !holed.is_whole());
    }

    #[test]
    fn what_is_no_cluster_is_told() {
        let no_cluster = b"-ERR This instance has cluster support disabled\r\n".to_vec();
        let refused = Topology::read(&[no_cluster.clone(), no_cluster], &endpoint("a:1"), &AddressMap::default());
        let said = "CLUSTER INFO: ERR This instance has cluster support disabled";
        assert_eq!(refused.unwrap_err().to_string(), said);
        for slots in ["$2 ab", "*1 :1", "*1 *3 :5 :4 *2 $1 a :1", "*1 *3 :0 :16384 *2 $1 a :1", "*1 *2 :0 :1", ":0"] {
            assert_eq!(read(INFO, slots), Err(TopologyError::Unread("CLUSTER SLOTS")), "{slots}");
        }
        assert_eq!(read("redis_version:7", "*0"), Err(TopologyError::Unread("CLUSTER INFO")));
        let none = Topology::read(&[], &endpoint("a:1"), &AddressMap::default());
        assert_eq!(none, Err(TopologyError::Unread("CLUSTER INFO")));
    }
}
