//! Who is connected to a server: keyfolds that serve, and tools that move keys.

use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::change::{Connection, Owner};
use keyfold_report::number::plural;
use keyfold_server::Nodes;

/// Those that are connected.
#[derive(Debug, Default)]
pub(crate) struct Keyfolds {
    /// By what each calls itself.
    pub(crate) members: BTreeMap<String, Member>,
    /// Connections of `keyfold fold`, `unfold` and `import`.
    pub(crate) writers: usize,
    /// The server doesn't show its clients.
    pub(crate) are_hidden: bool,
}

/// One keyfold.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// The machines that it comes from, as servers see them.
    pub(crate) hosts: BTreeSet<String>,
    pub(crate) connections: usize,
}

impl Keyfolds {
    /// Asks all servers.
    pub(crate) fn ask(nodes: &mut Nodes) -> Self {
        let mut found = Self::default();
        for server in nodes.servers() {
            match server.ask::<String>(&[b"CLIENT", b"LIST"]) {
                Ok(list) => Connection::read_all(&list, None).into_iter().for_each(|one| found.add(&one)),
                Err(_) => found.are_hidden = true,
            }
        }
        found
    }

    /// A line for each keyfold, and one where a tool moves keys.
    pub(crate) fn lines(&self) -> Vec<String> {
        let keyfold = |(name, member): (&String, &Member)| {
            let hosts = member.hosts.iter().cloned().collect::<Vec<_>>().join(", ");
            format!("keyfold:{name} from {hosts}, {}", plural(member.connections as u64, "connection"))
        };
        let at_work = (self.writers > 0).then(|| "a fold, an unfold or an import is at work".to_owned());
        self.members.iter().map(keyfold).chain(at_work).collect()
    }

    fn add(&mut self, connection: &Connection) {
        match &connection.owner {
            Owner::Writer => self.writers += 1,
            Owner::Member(name) => {
                let member = self.members.entry(name.escape_ascii().to_string()).or_default();
                member.connections += 1;
                member.hosts.insert(host_of(&connection.address).to_owned());
            }
        }
    }
}

/// `127.0.0.1` of `127.0.0.1:50012`; a unix socket's path of `/run/redis.sock:0`.
fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_told_by_their_keyfold() {
        let list = "id=3 addr=127.0.0.1:5 name=keyfold:00ff\nid=4 addr=127.0.0.1:6 name=keyfold:00ff\n\
                    id=5 addr=[::1]:7 name=keyfold:0a\nid=6 addr=/run/r.sock:0 name=keyfold-writer\n\
                    id=7 addr=127.0.0.1:9 name=keyfold-tool\nid=8 addr=127.0.0.1:10 name=app\n";
        let mut found = Keyfolds::default();
        Connection::read_all(list, None).iter().for_each(|one| found.add(one));
        let shown: Vec<_> = found
            .members
            .values()
            .map(|one| (one.connections, one.hosts.iter().cloned().collect::<String>()))
            .collect();
        assert_eq!(shown, [(2, "127.0.0.1".to_owned()), (1, "[::1]".to_owned())]);
        assert_eq!(found.writers, 1);
        let said = ["keyfold:00ff from 127.0.0.1, 2 connections", "keyfold:0a from [::1], 1 connection"];
        assert_eq!(found.lines(), [&said[..], &["a fold, an unfold or an import is at work"]].concat());
        assert!(Keyfolds::default().lines().is_empty());
        assert_eq!(host_of("/run/redis.sock:0"), "/run/redis.sock");
    }
}
