//! Whose connections there are, by the server's own list of them.

/// How the names of members' connections begin; the member's id follows.
const MEMBER_PREFIX: &str = "keyfold:";

/// The name of a connection by which a tool writes to where a layout says. It answers nobody: whoever puts another
/// layout in force has the server close it first, so that nothing is written by a layout of before.
pub const WRITER_NAME: &str = "keyfold-writer";

/// The name of a member's connections.
pub fn member_name(id: &str) -> String {
    format!("{MEMBER_PREFIX}{id}")
}

/// Who a connection belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A member, by its id.
    Member(Vec<u8>),
    /// A tool that writes.
    Writer,
}

/// A connection that requests of keyfold's may travel on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Connection {
    /// The node that it is to, by whatever numbers the asking side tells nodes apart; 0 of a single server.
    pub node: usize,
    /// The server's number for it.
    pub id: i64,
    /// Whose it is.
    pub owner: Owner,
    /// Where it comes from, for people.
    pub address: String,
}

impl Connection {
    /// The member that it belongs to.
    pub(super) fn member(&self) -> Option<&[u8]> {
        match &self.owner {
            Owner::Member(member) => Some(member),
            Owner::Writer => None,
        }
    }

    /// Reads a line of CLIENT LIST; none where the connection is not one of keyfold's that may write.
    fn read(line: &str, node: usize) -> Option<Self> {
        let word = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name));
        let owner = match word("name=")? {
            WRITER_NAME => Owner::Writer,
            name => Owner::Member(name.strip_prefix(MEMBER_PREFIX)?.as_bytes().to_vec()),
        };
        let address = word("addr=").unwrap_or_default().to_owned();
        Some(Self { node, id: word("id=")?.parse().ok()?, owner, address })
    }

    /// All of keyfold's that may write, in a single server's reply to CLIENT LIST, without the one of this number.
    pub fn read_all(list: &str, own: Option<i64>) -> Vec<Self> {
        Self::read_all_of(0, list, own)
    }

    /// The same of one node of several.
    pub fn read_all_of(node: usize, list: &str, own: Option<i64>) -> Vec<Self> {
        let connections = list.lines().filter_map(|line| Self::read(line, node));
        connections.filter(|connection| Some(connection.id) != own).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_servers_write_it() {
        let list = "id=3 addr=127.0.0.1:5 laddr=127.0.0.1:1 fd=8 name=keyfold:00ff age=1 idle=0 cmd=client|list\n\
                    id=4 addr=/run/s:0 fd=9 name=keyfold-writer age=1\n\
                    id=5 addr=127.0.0.1:6 fd=9 name=keyfold-tool age=1\n\
                    id=6 addr=127.0.0.1:7 fd=9 name= age=1 user=keyfold:1\n";
        let found = Connection::read_all(list, None);
        let owners: Vec<_> = found.iter().map(|connection| (connection.id, connection.owner.clone())).collect();
        assert_eq!(owners, [(3, Owner::Member(b"00ff".to_vec())), (4, Owner::Writer)]);
        assert_eq!(found[0].address, "127.0.0.1:5");
        assert_eq!(Connection::read_all(list, Some(3)).len(), 1);
        assert!(Connection::read_all_of(2, list, None).iter().all(|connection| connection.node == 2));
        assert_eq!(member_name("00ff"), "keyfold:00ff");
    }
}
