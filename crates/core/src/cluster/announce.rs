//! keyfolds as the nodes of a cluster, for clients that know clusters.
//!
//! Each serves every slot, so nothing depends on who has which: those that are there share them evenly, in the order in
//! which they are named, to have clients spread their requests. Clients ask for the map when a node is lost to them, so one
//! that is away has no slots: they go to the others. A node's ID follows from its address alone, so all say the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

use super::Endpoint;
use crate::resp::Answer;
use crate::slot::Slot;

/// As clients may count on: a node's port for other nodes is so far from the one for clients.
const BUS_PORT_OFFSET: u32 = 10_000;
/// The seed of what distinguishes a shard's ID from its node's.
const SHARD: u64 = 1;

/// The keyfolds that clients are told of.
#[derive(Debug)]
pub struct Announced {
    keyfolds: Vec<Keyfold>,
    own: usize,
}

#[derive(Debug)]
struct Keyfold {
    endpoint: Endpoint,
    id: String,
    /// Nobody reaches it.
    is_away: AtomicBool,
}

/// A keyfold and the slots that it has: from the first to the last.
type Share<'a> = (&'a Keyfold, Slot, Slot);

/// Why keyfolds can't be announced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnounceError {
    /// There is none, or more than there are slots.
    #[error("{0} keyfolds can't share 16384 slots")]
    Number(usize),
    /// An address is named twice.
    #[error("{0} is announced twice")]
    Twice(Endpoint),
    /// Oneself isn't among them.
    #[error("none of the announced addresses is this keyfold's own")]
    NotOneself,
}

/// What keyfold stands before, and what it tells clients of itself.
#[derive(Clone, Debug, Default)]
pub struct Front {
    /// The keyspace is a cluster's.
    pub before_cluster: bool,
    /// The keyfolds that clients are told of as nodes of a cluster.
    pub announced: Option<Arc<Announced>>,
}

impl Front {
    /// In which mode a server is that clients take keyfold for; none where the server behind says so itself.
    pub(crate) fn mode(&self) -> Option<&'static str> {
        match (&self.announced, self.before_cluster) {
            (Some(_), _) => Some("cluster"),
            (None, true) => Some("standalone"),
            (None, false) => None,
        }
    }
}

impl Announced {
    /// These keyfolds, of which the one at this index is oneself.
    ///
    /// # Errors
    /// None of them, too many, an address twice, or no such index.
    pub fn new(endpoints: &[Endpoint], own: usize) -> Result<Self, AnnounceError> {
        let count = endpoints.len();
        let slots = usize::from(Slot::LAST.number()) + 1;
        if count == 0 || count > slots {
            return Err(AnnounceError::Number(count));
        }
        if own >= count {
            return Err(AnnounceError::NotOneself);
        }
        if let Some((_, twice)) =
            endpoints.iter().enumerate().find(|(at, endpoint)| endpoints[..*at].contains(endpoint))
        {
            return Err(AnnounceError::Twice(twice.clone()));
        }
        let keyfolds = endpoints.iter().map(|endpoint| Keyfold {
            endpoint: endpoint.clone(),
            id: id_of(endpoint, 0),
            is_away: AtomicBool::new(false),
        });
        Ok(Self { keyfolds: keyfolds.collect(), own })
    }

    /// The others, each with its number.
    pub fn others(&self) -> impl Iterator<Item = (usize, &Endpoint)> {
        let others = self.keyfolds.iter().enumerate().filter(|(at, _)| *at != self.own);
        others.map(|(at, keyfold)| (at, &keyfold.endpoint))
    }

    /// Notes whether the keyfold of this number is away; whether that is news. Oneself never is.
    pub fn note_away(&self, at: usize, is_away: bool) -> bool {
        let other = self.keyfolds.get(at).filter(|_| at != self.own);
        other.is_some_and(|other| other.is_away.swap(is_away, Ordering::Relaxed) != is_away)
    }

    /// Those that are there, each with its share of the slots.
    fn shares(&self) -> Vec<Share<'_>> {
        let there: Vec<&Keyfold> =
            self.keyfolds.iter().filter(|keyfold| !keyfold.is_away.load(Ordering::Relaxed)).collect();
        let (slots, count) = (usize::from(Slot::LAST.number()) + 1, there.len());
        let bound = |at: usize| u16::try_from(at * slots / count).ok().and_then(Slot::new);
        let before_bound = |at: usize| u16::try_from(at * slots / count - 1).ok().and_then(Slot::new);
        let share =
            |(at, keyfold)| (keyfold, bound(at).unwrap_or(Slot::FIRST), before_bound(at + 1).unwrap_or(Slot::LAST));
        there.into_iter().enumerate().map(share).collect()
    }

    /// One's own node ID: 40 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.keyfolds[self.own].id
    }

    /// The ID of one's own shard.
    pub fn shard_id(&self) -> String {
        id_of(&self.keyfolds[self.own].endpoint, SHARD)
    }

    /// Whether a node has this ID. Letters may be of either case, as servers take them.
    pub fn knows(&self, id: &[u8]) -> bool {
        self.keyfolds.iter().any(|keyfold| keyfold.id.as_bytes().eq_ignore_ascii_case(id))
    }

    /// Answers CLUSTER SLOTS.
    pub fn write_slots(&self, answer: &mut Answer<'_>) {
        let shares = self.shares();
        answer.array(shares.len());
        for (Keyfold { endpoint, id, .. }, first, last) in shares {
            answer.array(3);
            answer.integer(first.number().into());
            answer.integer(last.number().into());
            answer.array(4);
            answer.bulk(endpoint.host.as_bytes());
            answer.integer(endpoint.port.into());
            answer.bulk(id.as_bytes());
            answer.map(0);
        }
    }

    /// Answers CLUSTER SHARDS; with the ID of each shard, which the newest servers say, where `with_ids`.
    pub fn write_shards(&self, with_ids: bool, answer: &mut Answer<'_>) {
        let shares = self.shares();
        answer.array(shares.len());
        for (Keyfold { endpoint, id, .. }, first, last) in shares {
            let host = endpoint.host.as_bytes();
            answer.map(2 + usize::from(with_ids));
            answer.bulk(b"slots");
            answer.array(2);
            answer.integer(first.number().into());
            answer.integer(last.number().into());
            answer.bulk(b"nodes");
            answer.array(1);
            answer.map(7);
            answer.bulk(b"id");
            answer.bulk(id.as_bytes());
            answer.bulk(b"port");
            answer.integer(endpoint.port.into());
            answer.bulk(b"ip");
            answer.bulk(host);
            answer.bulk(b"endpoint");
            answer.bulk(host);
            answer.bulk(b"role");
            answer.bulk(b"master");
            answer.bulk(b"replication-offset");
            answer.integer(0);
            answer.bulk(b"health");
            answer.bulk(b"online");
            if with_ids {
                answer.bulk(b"id");
                answer.bulk(id_of(endpoint, SHARD).as_bytes());
            }
        }
    }

    /// What CLUSTER NODES answers.
    pub fn nodes(&self) -> String {
        let shares = self.shares();
        let line = |(at, keyfold): (usize, &Keyfold)| {
            let Endpoint { host, port } = &keyfold.endpoint;
            // Servers write addresses of IPv6 without brackets here.
            let bus = u32::from(*port) + BUS_PORT_OFFSET;
            let bus = if bus > u16::MAX.into() { 0 } else { bus };
            let (id, epoch) = (&keyfold.id, at + 1);
            let myself = if at == self.own { "myself," } else { "" };
            let rest = match shares.iter().find(|(there, _, _)| there.id == *id) {
                Some((_, first, last)) if first == last => format!("master - 0 0 {epoch} connected {first}"),
                Some((_, first, last)) => format!("master - 0 0 {epoch} connected {first}-{last}"),
                None => format!("master,fail - 0 0 {epoch} disconnected"),
            };
            format!("{id} {host}:{port}@{bus} {myself}{rest}\n")
        };
        self.keyfolds.iter().enumerate().map(line).collect()
    }

    /// What CLUSTER INFO answers.
    pub fn info(&self) -> String {
        let (nodes, slots, epoch) = (self.keyfolds.len(), Slot::all().count(), self.own + 1);
        [
            ("state", "ok".to_owned()),
            ("slots_assigned", slots.to_string()),
            ("slots_ok", slots.to_string()),
            ("slots_pfail", "0".to_owned()),
            ("slots_fail", "0".to_owned()),
            ("known_nodes", nodes.to_string()),
            ("size", self.shares().len().to_string()),
            ("current_epoch", nodes.to_string()),
            ("my_epoch", epoch.to_string()),
            ("stats_messages_sent", "0".to_owned()),
            ("stats_messages_received", "0".to_owned()),
        ]
        .map(|(name, value)| format!("cluster_{name}:{value}\r\n"))
        .concat()
            + "total_cluster_links_buffer_limit_exceeded:0\r\n"
    }
}

/// 40 hexadecimal digits for an address.
fn id_of(endpoint: &Endpoint, seed: u64) -> String {
    let text = format!("{endpoint} {seed}");
    let rest = xxh3_64_with_seed(text.as_bytes(), seed) >> 32;
    format!("{:032x}{rest:08x}", xxh3_128(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Protocol;

    fn announced(texts: &[&str], own: usize) -> Result<Announced, AnnounceError> {
        Announced::new(&texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>(), own)
    }

    #[test]
    fn keyfolds_share_the_slots_evenly_and_say_the_same() {
        let [one, other] = [0, 2].map(|own| announced(&["a:1", "b:2", "[::1]:3"], own).unwrap());
        let lines = |announced: &Announced| announced.nodes().lines().map(str::to_owned).collect::<Vec<_>>();
        assert!(lines(&one)[0].ends_with("a:1@10001 myself,master - 0 0 1 connected 0-5460"), "{}", one.nodes());
        assert!(lines(&one)[1].ends_with("b:2@10002 master - 0 0 2 connected 5461-10921"));
        assert!(lines(&one)[2].ends_with("::1:3@10003 master - 0 0 3 connected 10922-16383"));
        assert_eq!(one.nodes().replace("myself,", ""), other.nodes().replace("myself,", ""));
        assert!(lines(&other)[2].starts_with(other.id()) && other.knows(one.id().to_uppercase().as_bytes()));
        assert!(one.id() != other.id() && one.id() != one.shard_id());
        assert!(one.id().len() == 40 && one.id().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn an_id_outlives_releases() {
        assert_eq!(announced(&["127.0.0.1:6379"], 0).unwrap().id(), "cbc30856e3f91e26d1cc1f14cfc331103d787295");
    }

    #[test]
    fn what_cannot_be_announced_is_refused() {
        assert_eq!(announced(&[], 0).unwrap_err(), AnnounceError::Number(0));
        assert_eq!(announced(&["a:1"], 1).unwrap_err(), AnnounceError::NotOneself);
        assert_eq!(announced(&["a:1", "b:1", "a:1"], 0).unwrap_err(), AnnounceError::Twice("a:1".parse().unwrap()));
    }

    #[test]
    fn every_slot_is_somebodys_however_many_there_are() {
        for count in [1, 2, 3, 7, 16_383, 16_384] {
            let endpoints: Vec<_> = (0..count).map(|at| Endpoint { host: format!("h{at}"), port: 1 }).collect();
            let announced = Announced::new(&endpoints, 0).unwrap();
            let shares = announced.shares();
            let slots: usize =
                shares.iter().map(|(_, first, last)| usize::from(last.number() - first.number()) + 1).sum();
            assert_eq!(slots, 16_384, "{count}");
            assert!(shares.windows(2).all(|pair| pair[0].2.number() + 1 == pair[1].1.number()));
        }
    }

    #[test]
    fn whoever_is_away_has_no_slots() {
        let one = announced(&["a:1", "b:2", "c:3"], 1).unwrap();
        assert_eq!(one.others().map(|(at, endpoint)| (at, endpoint.port)).collect::<Vec<_>>(), [(0, 1), (2, 3)]);
        let before = one.nodes();
        assert!(
            one.note_away(0, true) && !one.note_away(0, true) && !one.note_away(1, true) && !one.note_away(9, true)
        );
        let after = one.nodes();
        let lines: Vec<&str> = after.lines().collect();
        assert!(lines[0].ends_with("a:1@10001 master,fail - 0 0 1 disconnected"), "{after}");
        assert!(lines[1].ends_with("b:2@10002 myself,master - 0 0 2 connected 0-8191"), "{after}");
        assert!(lines[2].ends_with("c:3@10003 master - 0 0 3 connected 8192-16383"), "{after}");
        assert!(one.info().contains("cluster_known_nodes:3\r\ncluster_size:2\r\n"), "{}", one.info());
        let mut out = Vec::new();
        one.write_slots(&mut Answer::new(&mut out, Protocol::Resp2));
        assert!(out.starts_with(b"*2\r\n*3\r\n:0\r\n:8191\r\n"), "{}", out.escape_ascii());
        assert!(one.note_away(0, false));
        assert_eq!(one.nodes(), before);
    }

    #[test]
    fn slots_are_answered_as_servers_do() {
        let one = announced(&["a:1"], 0).unwrap();
        for (protocol, metadata) in [(Protocol::Resp2, "*0"), (Protocol::Resp3, "%0")] {
            let mut out = Vec::new();
            one.write_slots(&mut Answer::new(&mut out, protocol));
            let expected = format!("*1 *3 :0 :16383 *4 $1 a :1 $40 {} {metadata} ", one.id());
            assert_eq!(String::from_utf8(out).unwrap().replace("\r\n", " "), expected);
        }
    }
}
