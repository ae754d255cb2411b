//! All nodes of a cluster that commands may travel to, now or later.
//!
//! CLUSTER SLOTS names who has slots and their replicas, but not primaries that have lost all their slots, nor replicas that
//! have not got a first copy. All of them may be given slots again, and what was connected to them before is connected
//! still. CLUSTER NODES names them all, but by other addresses: by IP address where nodes are to be reached by name. So a
//! node that both name is where CLUSTER SLOTS says, and the others are sought in the same way.

use std::collections::BTreeMap;

use super::{AddressMap, Endpoint, Topology};

/// How nodes are named where they are to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedBy {
    Ip,
    Hostname,
    /// By no name: all are on the host of whoever is asked.
    Nothing,
}

/// A line of CLUSTER NODES.
struct Line<'t> {
    id: &'t str,
    ip: &'t str,
    port: u16,
    hostname: &'t str,
    is_gone: bool,
}

/// Where all nodes are that the cluster doesn't take for gone: those of `topology`, and others in `list`, which the same
/// node, at `asked`, answered to CLUSTER NODES. None where that can't be read.
pub fn roster(topology: &Topology, list: &str, asked: &Endpoint, addresses: &AddressMap) -> Option<Vec<Endpoint>> {
    let (lines, how) = read(topology, list, asked, addresses)?;
    let others = lines.iter().filter(|line| !line.is_gone && !topology.named.contains_key(line.id));
    let others = others.map(|line| addresses.find(line.endpoint(how, asked)));
    let with_slots = topology.ranges.iter().flat_map(|range| std::iter::once(&range.primary).chain(&range.replicas));
    let mut all: Vec<Endpoint> = with_slots.cloned().chain(others).collect();
    all.sort();
    all.dedup();
    Some(all)
}

/// Where each node of `list` is, by its ID, also such as are gone.
pub fn endpoints(
    topology: &Topology,
    list: &str,
    asked: &Endpoint,
    addresses: &AddressMap,
) -> Option<BTreeMap<String, Endpoint>> {
    let (lines, how) = read(topology, list, asked, addresses)?;
    let endpoint = |line: &Line<'_>| match topology.named.get(line.id) {
        Some(endpoint) => endpoint.clone(),
        None => addresses.find(line.endpoint(how, asked)),
    };
    Some(lines.iter().map(|line| (line.id.to_owned(), endpoint(line))).collect())
}

/// All lines, and how nodes are named.
fn read<'t>(
    topology: &Topology,
    list: &'t str,
    asked: &Endpoint,
    addresses: &AddressMap,
) -> Option<(Vec<Line<'t>>, NamedBy)> {
    let lines: Option<Vec<Line<'t>>> = list.lines().filter(|line| !line.trim().is_empty()).map(Line::read).collect();
    let lines = lines?;
    let how = lines.iter().find_map(|line| line.named(topology, asked, addresses)).unwrap_or(NamedBy::Ip);
    Some((lines, how))
}

impl<'t> Line<'t> {
    /// `ID IP:PORT@BUS[,HOSTNAME[,…]] FLAGS PRIMARY PING PONG EPOCH LINK …`
    fn read(line: &'t str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (id, address, flags) = (words.next()?, words.next()?, words.next()?);
        let mut parts = address.split(',');
        let (ip, port) = parts.next()?.split('@').next()?.rsplit_once(':')?;
        // Later parts say more by name: `shard-id=…`.
        let hostname = parts.next().filter(|part| !part.contains('=')).unwrap_or_default();
        // One that only this node misses may be well.
        let is_gone = flags.split(',').any(|flag| matches!(flag, "fail" | "noaddr" | "handshake"));
        Some(Self { id, ip, port: port.parse().ok()?, hostname, is_gone })
    }

    fn endpoint(&self, how: NamedBy, asked: &Endpoint) -> Endpoint {
        let host = match how {
            NamedBy::Ip => self.ip,
            NamedBy::Hostname => self.hostname,
            NamedBy::Nothing => "",
        };
        let host = if host.is_empty() { &asked.host } else { host };
        Endpoint { host: host.to_owned(), port: self.port }
    }

    /// How this node is named where it has slots.
    fn named(&self, topology: &Topology, asked: &Endpoint, addresses: &AddressMap) -> Option<NamedBy> {
        let there = topology.named.get(self.id)?;
        let ways = [
            (NamedBy::Ip, !self.ip.is_empty()),
            (NamedBy::Hostname, !self.hostname.is_empty()),
            (NamedBy::Nothing, true),
        ];
        let is_there = |how: &NamedBy| addresses.find(self.endpoint(*how, asked)) == *there;
        ways.into_iter().filter(|(_, can_be)| *can_be).map(|(how, _)| how).find(is_there)
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::tests::endpoint;
    use super::*;

    /// b has slots and its replica c; a has lost its slots, d has no copy yet, e is gone, f is missed by one node.
    const LIST: &str = "a 10.0.0.1:7001@17001,a.example myself,master - 0 0 1 connected\n\
                        b 10.0.0.2:7002@17002,b.example,shard-id=x master - 0 0 2 connected 0-16383\n\
                        c 10.0.0.3:7003@17003,c.example slave b 0 0 2 connected\n\
                        d 10.0.0.4:7004@17004,d.example slave b 0 0 2 connected\n\
                        e 10.0.0.5:7005@17005,e.example slave,fail b 0 0 2 disconnected\n\
                        f 10.0.0.6:7006@17006,f.example slave,fail? b 0 0 2 disconnected\n\
                        g :0@0 master,noaddr - 0 0 3 disconnected\n";

    fn topology(b: &str, c: &str) -> Topology {
        let range = super::super::Range {
            first: crate::slot::Slot::FIRST,
            last: crate::slot::Slot::all().last().unwrap(),
            primary: endpoint(b),
            replicas: vec![endpoint(c)],
        };
        let named = [("b".to_owned(), endpoint(b)), ("c".to_owned(), endpoint(c))].into();
        Topology { ranges: vec![range], epoch: 2, is_ok: true, named }
    }

    fn all(b: &str, c: &str, addresses: &AddressMap) -> Vec<String> {
        let all = roster(&topology(b, c), LIST, &endpoint("asked:7001"), addresses).unwrap();
        all.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn nodes_without_slots_are_where_the_others_are_by_the_same_names() {
        let plain = AddressMap::default();
        let by_ip = ["10.0.0.1:7001", "10.0.0.2:7002", "10.0.0.3:7003", "10.0.0.4:7004", "10.0.0.6:7006"];
        assert_eq!(all("10.0.0.2:7002", "10.0.0.3:7003", &plain), by_ip);
        let by_name = ["a.example:7001", "b.example:7002", "c.example:7003", "d.example:7004", "f.example:7006"];
        assert_eq!(all("b.example:7002", "c.example:7003", &plain), by_name);
        let by_nothing = ["asked:7001", "asked:7002", "asked:7003", "asked:7004", "asked:7006"];
        assert_eq!(all("asked:7002", "asked:7003", &plain), by_nothing);
    }

    #[test]
    fn each_node_is_where_its_id_is() {
        let topology = topology("b.example:7002", "c.example:7003");
        let found = endpoints(&topology, LIST, &endpoint("asked:7001"), &AddressMap::default()).unwrap();
        let found: Vec<_> = found.iter().map(|(id, at)| format!("{id} {at}")).collect();
        let ids = ["a", "b", "c", "d", "e", "f"];
        let mut expected: Vec<_> =
            ids.iter().zip(7001..).map(|(id, port)| format!("{id} {id}.example:{port}")).collect();
        expected.push("g asked:0".to_owned());
        assert_eq!(found, expected);
    }

    #[test]
    fn nodes_are_sought_where_the_operator_says() {
        let mut addresses = AddressMap::default();
        (1..7).for_each(|node| addresses.add(&format!("10.0.0.{node}:700{node}=gate:{node}")).unwrap());
        assert_eq!(all("gate:2", "gate:3", &addresses), ["gate:1", "gate:2", "gate:3", "gate:4", "gate:6"]);
    }

    #[test]
    fn what_says_no_address_is_on_the_host_that_was_asked() {
        let topology = Topology { ranges: Vec::new(), epoch: 1, is_ok: true, named: [].into() };
        let read = |list: &str| roster(&topology, list, &endpoint("asked:7001"), &AddressMap::default());
        let alone = read("a :7001@17001 myself,master - 0 0 0 connected").unwrap();
        assert_eq!(alone, [endpoint("asked:7001")]);
        assert_eq!(read("ERR no cluster"), None);
    }
}
