//! What a node says of its part in replication.

use crate::server_info::info_field;

/// A node's part in replication, at the moment at which it said so.
///
/// Two nodes with the same history have the same data up to the smaller of their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// It takes writes.
    Primary {
        /// What its stream is a part of: another one after each failover and each start.
        history: String,
        /// The bytes of the stream so far: all that was written before it said so is within them.
        offset: u64,
    },
    /// It follows a primary.
    Replica {
        /// Its primary's history, as far as it knows.
        history: String,
        /// The bytes of the stream that it has carried out. A transaction counts once it is over.
        offset: u64,
        /// What stands against gone by its data; none where it is connected and has data of its own.
        trouble: Option<&'static str>,
    },
}

impl Replication {
    /// Reads the section of INFO; none where it says nothing of replication.
    ///
    /// The fields are those of Redis 7.0 to 8.0 and of Valkey 8.0 to 9.1 (`genRedisInfoString` and `genValkeyInfoString` in
    /// server.c), which have kept their names.
    pub fn read(info: &str) -> Option<Self> {
        let field = |name| info_field(info, name);
        let history = field("master_replid")?.to_owned();
        match field("role")? {
            "master" => Some(Self::Primary { history, offset: field("master_repl_offset")?.parse().ok()? }),
            "slave" => {
                let trouble = if field("master_sync_in_progress")? != "0" {
                    Some("it is being synchronised with its primary")
                } else if field("master_link_status")? != "up" {
                    Some("it is not connected to its primary")
                } else {
                    None
                };
                Some(Self::Replica { history, offset: field("slave_repl_offset")?.parse().ok()?, trouble })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLICA: &str = "# Replication\r\nrole:slave\r\nmaster_host:a\r\nmaster_link_status:up\r\n\
        master_last_io_seconds_ago:0\r\nmaster_sync_in_progress:0\r\nslave_read_repl_offset:9\r\n\
        slave_repl_offset:7\r\nmaster_replid:h1\r\nmaster_repl_offset:9\r\n";

    #[test]
    fn a_node_says_which_part_it_has() {
        let primary = "# Replication\r\nrole:master\r\nmaster_replid:h1\r\nmaster_repl_offset:12\r\n";
        let read = Replication::read(primary);
        assert_eq!(read, Some(Replication::Primary { history: "h1".into(), offset: 12 }));
        let replica = |trouble| Some(Replication::Replica { history: "h1".into(), offset: 7, trouble });
        assert_eq!(Replication::read(REPLICA), replica(None));
        let down = REPLICA.replace("status:up", "status:down");
        assert_eq!(Replication::read(&down), replica(Some("it is not connected to its primary")));
        let synchronised = down.replace("progress:0", "progress:1");
        assert_eq!(Replication::read(&synchronised), replica(Some("it is being synchronised with its primary")));
        assert_eq!(Replication::read("role:sentinel\r\nmaster_replid:h\r\n"), None);
        assert_eq!(Replication::read(&REPLICA.replace("offset:7", "offset:-1")), None);
    }
}
