//! A node's own file of what it knows of the cluster, mended before the node comes back.
//!
//! Some releases write a replica with another shard-id than its primary's, where the file is written before the two have
//! told each other, and then refuse to start with it: Valkey 8.1.1 does so in one of some ten starts of a cluster
//! (<https://github.com/valkey-io/valkey/issues/2171>). What later ones make of such a file is made of it here.

use std::collections::HashMap;

/// The name of the file, in the server's folder.
pub(super) const FILE: &str = "nodes.conf";
const SHARD_ID: &str = "shard-id=";

/// The file's text with each replica in its primary's shard.
pub(super) fn mend(text: &str) -> String {
    let shards: HashMap<&str, &str> =
        text.lines().filter_map(|line| Some((line.split(' ').next()?, shard(line)?))).collect();
    let mended = text.lines().map(|line| {
        let of_primary = line.split(' ').nth(3).and_then(|primary| shards.get(primary));
        match (shard(line), of_primary) {
            (Some(own), Some(of_primary)) => line.replace(own, of_primary) + "\n",
            _ => format!("{line}\n"),
        }
    });
    mended.collect()
}

fn shard(line: &str) -> Option<&str> {
    line.split([' ', ',']).find_map(|part| part.strip_prefix(SHARD_ID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_come_to_be_in_their_primarys_shard() {
        let text = "aa 127.0.0.1:1@2,,tls-port=0,shard-id=11 myself,slave bb 0 0 3 connected\n\
                    bb 127.0.0.1:3@4,,tls-port=0,shard-id=22 master - 0 0 3 connected 0-5\n\
                    cc 127.0.0.1:5@6 slave bb 0 0 3 connected\n\
                    vars currentEpoch 3 lastVoteEpoch 0\n";
        assert_eq!(mend(text), text.replace("shard-id=11", "shard-id=22"));
    }
}
