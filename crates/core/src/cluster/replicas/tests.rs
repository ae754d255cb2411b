use super::*;
use crate::cluster::{AddressMap, SlotMap};

const MAX_LAG_MS: i64 = 100;

fn bulk(text: &str) -> Vec<u8> {
    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
}

fn primary(history: &str, offset: u64) -> Vec<u8> {
    bulk(&format!("role:master\r\nmaster_replid:{history}\r\nmaster_repl_offset:{offset}\r\n"))
}

fn replica(history: &str, offset: u64) -> Vec<u8> {
    bulk(&format!(
        "role:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\nslave_repl_offset:{offset}\r\n\
         master_replid:{history}\r\n"
    ))
}

/// A primary and two replicas.
fn nodes() -> [Node; 3] {
    let mut map = SlotMap::new(AddressMap::default());
    ["p:1", "r:1", "r:2"].map(|at| map.node(&at.parse().unwrap()))
}

struct Stage {
    replicas: Replicas,
    nodes: [Node; 3],
}

impl Stage {
    fn new(from: ReadFrom) -> Self {
        Self { replicas: Replicas::new(from, MAX_LAG_MS), nodes: nodes() }
    }

    fn asked(&self, now_ms: i64) -> ReplicationAsked {
        self.replicas.ask(now_ms, &mut Vec::new())
    }

    fn primary(&mut self, now_ms: i64, reply: &[u8]) {
        let asked = self.asked(now_ms);
        self.replicas.hear_primary(self.nodes[0], asked, reply);
    }

    fn replica(&mut self, which: usize, now_ms: i64, reply: &[u8]) {
        let asked = self.asked(now_ms);
        self.replicas.hear_replica(self.nodes[which], self.nodes[0], asked, reply);
    }

    /// Which replica a reader has; 0 for the primary.
    fn choose(&mut self, reader: usize, now_ms: i64) -> usize {
        let [primary, replicas @ ..] = self.nodes;
        let chosen = self.replicas.choose(primary, &replicas, reader, now_ms, |_| true);
        chosen.map_or(0, |node| self.nodes.iter().position(|known| *known == node).unwrap())
    }
}

#[test]
fn a_replica_is_read_from_while_it_has_what_its_primary_had_not_long_ago() {
    let mut stage = Stage::new(ReadFrom::Replica);
    assert_eq!(stage.choose(0, 0), 0, "nothing is known");
    stage.primary(0, &primary("h", 900));
    stage.replica(1, 5, &replica("h", 899));
    assert_eq!(stage.choose(0, 5), 0, "a byte is missing");
    stage.primary(50, &primary("h", 1000));
    stage.replica(1, 55, &replica("h", 999));
    assert_eq!((stage.choose(0, 100), stage.choose(0, 101)), (1, 0), "it has all of moment 0");
    stage.replica(1, 102, &replica("h", 1000));
    assert_eq!((stage.choose(0, 150), stage.choose(0, 151)), (1, 0), "it has all of moment 50");
    assert_eq!(stage.replicas.take_states(151)[0].unfit.as_deref(), Some("it lags behind its primary"));
    assert_eq!(stage.replicas.take_states(151)[0].lag_ms, Some(101));
}

#[test]
fn what_was_asked_before_the_layout_in_force_counts_for_nothing() {
    let mut stage = Stage::new(ReadFrom::Replica);
    stage.primary(0, &primary("h", 900));
    stage.replica(1, 1, &replica("h", 900));
    assert_eq!(stage.choose(0, 1), 1);
    let (of_primary, of_replica) = (stage.asked(2), stage.asked(2));
    stage.replicas.begin_anew();
    assert_eq!(stage.choose(0, 2), 0);
    stage.replicas.hear_primary(stage.nodes[0], of_primary, &primary("h", 900));
    stage.replica(1, 3, &replica("h", 900));
    assert_eq!(stage.choose(0, 3), 0, "the primary was asked before");
    stage.primary(4, &primary("h", 950));
    stage.replicas.hear_replica(stage.nodes[1], stage.nodes[0], of_replica, &replica("h", 950));
    assert_eq!(stage.choose(0, 4), 0, "the replica was asked before");
    stage.replica(1, 5, &replica("h", 949));
    assert_eq!(stage.choose(0, 5), 0, "it lacks what was written by the layout before");
    stage.replica(1, 6, &replica("h", 950));
    assert_eq!(stage.choose(0, 6), 1);
}

/// As after a restart from an older file, where it goes on in the same history.
#[test]
fn a_replica_that_falls_back_is_read_from_once_it_has_all_again() {
    let mut stage = Stage::new(ReadFrom::Replica);
    stage.primary(0, &primary("h", 900));
    stage.replica(1, 1, &replica("h", 900));
    assert_eq!(stage.choose(0, 1), 1);
    stage.replica(1, 2, &replica("h", 10));
    assert_eq!(stage.choose(0, 2), 0);
    stage.replica(1, 3, &replica("h", 899));
    assert_eq!(stage.choose(0, 3), 0);
    stage.replica(1, 4, &replica("h", 900));
    assert_eq!(stage.choose(0, 4), 1);
}

#[test]
fn offsets_of_two_histories_are_not_compared() {
    let mut stage = Stage::new(ReadFrom::Replica);
    stage.primary(0, &primary("h", 900));
    stage.replica(1, 1, &replica("other", 5000));
    assert_eq!(stage.choose(0, 1), 0);
    stage.replica(1, 2, &replica("h", 900));
    assert_eq!(stage.choose(0, 2), 1);
    // After a failover the primary has another history, and what was known of the one before is void once both are heard.
    stage.primary(3, &primary("later", 850));
    stage.replica(1, 4, &replica("h", 900));
    assert_eq!(stage.choose(0, 4), 0);
    stage.replica(1, 5, &replica("later", 850));
    assert_eq!(stage.choose(0, 5), 1);
}

#[test]
fn one_that_says_that_it_is_unfit_is_believed() {
    let mut stage = Stage::new(ReadFrom::Replica);
    stage.primary(0, &primary("h", 1));
    let fit = replica("h", 1);
    let changed = |from: &str, to: &str| {
        bulk(&Reply::parse(&fit).unwrap().bytes().map(|text| String::from_utf8_lossy(text).replace(from, to)).unwrap())
    };
    for (unfit, why) in [
        (changed("status:up", "status:down"), "it is not connected to its primary"),
        (changed("progress:0", "progress:1"), "it is being synchronised with its primary"),
        (primary("h", 1), "it is a primary"),
        (b"-NOAUTH Authentication required.\r\n".to_vec(), "it says: NOAUTH Authentication required."),
        (bulk("role:slave"), "it doesn't tell of its part in replication"),
    ] {
        stage.replica(1, 1, &fit);
        assert_eq!(stage.choose(0, 1), 1);
        stage.replica(1, 1, &unfit);
        assert_eq!((stage.choose(0, 1), stage.replicas.take_states(1)[0].unfit.as_deref()), (0, Some(why)));
    }
    stage.replica(1, 1, &fit);
    let node = stage.nodes[1];
    stage.replicas.note_returned(node, None);
    assert_eq!(stage.choose(0, 1), 1);
    stage.replicas.note_returned(node, Some("it loads its data"));
    assert_eq!(stage.choose(0, 1), 0);
    stage.replica(1, 2, &fit);
    assert_eq!(stage.choose(0, 2), 1, "it is heard again");
    stage.replicas.note_away(node, "no answer");
    stage.replicas.take_states(2);
    stage.replicas.note_returned(node, None);
    assert_eq!((stage.choose(0, 2), stage.replicas.take_states(2)[0].returned), (0, 1));
}

#[test]
fn a_replica_of_another_primary_is_not_taken_for_one_of_this() {
    let mut stage = Stage::new(ReadFrom::Replica);
    stage.primary(0, &primary("h", 1));
    stage.replica(1, 1, &replica("h", 1));
    let [first, moved, other] = stage.nodes;
    assert_eq!(stage.replicas.choose(other, &[moved], 0, 1, |_| true), None);
    let asked = stage.asked(2);
    stage.replicas.hear_replica(moved, other, asked, &replica("h", 1));
    assert_eq!(stage.replicas.choose(first, &[moved], 0, 2, |_| true), None);
    assert_eq!(stage.replicas.choose(other, &[moved], 0, 2, |_| true), None, "that primary was never heard");
}

#[test]
fn readers_share_the_replicas_and_each_keeps_its_own() {
    let mut stage = Stage::new(ReadFrom::Replica);
    stage.primary(0, &primary("h", 1));
    stage.replica(1, 1, &replica("h", 1));
    stage.replica(2, 1, &replica("h", 1));
    assert_eq!([0, 1, 2, 0].map(|reader| stage.choose(reader, 1)), [1, 2, 1, 1]);
    let second = stage.nodes[2];
    let [primary, replicas @ ..] = stage.nodes;
    let ready = stage.replicas.choose(primary, &replicas, 0, 1, |node| node == second);
    assert_eq!(ready, Some(second), "there is no connection to the other");
}

#[test]
fn the_nearest_is_left_only_for_one_that_is_much_nearer() {
    let mut stage = Stage::new(ReadFrom::Nearest);
    stage.primary(0, &primary("h", 1));
    stage.replica(1, 1, &replica("h", 1));
    let [first, second, _] = stage.nodes;
    let trips = |stage: &mut Stage, node, us| (0..40).for_each(|_| stage.replicas.note_round_trip(node, us));
    trips(&mut stage, first, 1000);
    assert_eq!(stage.choose(0, 1), 0, "nothing is known of the replica's");
    trips(&mut stage, second, 850);
    assert_eq!(stage.choose(0, 1), 0);
    trips(&mut stage, second, 700);
    assert_eq!(stage.choose(0, 1), 1);
    trips(&mut stage, first, 600);
    assert_eq!(stage.choose(0, 1), 1);
    trips(&mut stage, first, 300);
    assert_eq!(stage.choose(0, 1), 0);
    stage.replicas.note_away(first, "gone");
    assert_eq!(stage.choose(0, 1), 1);
}

#[test]
fn many_marks_of_a_slow_replica_are_thinned_out_and_the_first_stays() {
    let mut stage = Stage::new(ReadFrom::Replica);
    for at in 0..10_000 {
        stage.primary(at, &primary("h", u64::try_from(at).unwrap() + 1));
    }
    assert!(stage.replicas.primaries[&stage.nodes[0]].marks.len() <= MARKS);
    stage.replica(1, 10_000, &replica("h", 1));
    assert_eq!(stage.replicas.take_states(10_000)[0].lag_ms, Some(10_000));
}
