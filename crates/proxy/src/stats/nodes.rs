//! How long servers took to answer, by which.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use keyfold_core::stats::Histogram;

/// At most so many are told apart. A cluster has no more than a thousand nodes; addresses of ones that are gone make room.
const MOST_NODES: usize = 1024;

/// The name that stands for all beyond that.
const OTHER: &str = "other";

/// What one worker notes of one node. It writes, others read.
#[derive(Debug, Default)]
pub(crate) struct NodeMeter {
    pub(crate) durations: Histogram,
}

/// The nodes that one worker has had connections to.
#[derive(Debug, Default)]
pub(crate) struct NodeMeters(Mutex<BTreeMap<Box<str>, Arc<NodeMeter>>>);

impl NodeMeters {
    /// The meter of the node at this address. Of those whose connections are all gone, some are forgotten where there are
    /// too many.
    pub(super) fn of(&self, address: &str) -> Arc<NodeMeter> {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !nodes.contains_key(address) && nodes.len() >= MOST_NODES {
            nodes.retain(|_, meter| Arc::strong_count(meter) > 1);
        }
        let has_room = nodes.contains_key(address) || nodes.len() < MOST_NODES;
        Arc::clone(nodes.entry(if has_room { address.into() } else { OTHER.into() }).or_default())
    }
}

/// What several workers have noted of each node, added up by `add`.
pub(crate) fn each_node<'m, T: Default>(
    all: impl Iterator<Item = &'m NodeMeters>,
    add: impl Fn(&mut T, &Histogram),
) -> BTreeMap<Box<str>, T> {
    let mut sums = BTreeMap::<_, T>::new();
    for nodes in all {
        for (address, meter) in nodes.0.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            add(sums.entry(address.clone()).or_default(), &meter.durations);
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use keyfold_core::stats::Durations;

    use super::*;

    #[test]
    fn there_is_an_end_to_nodes_and_those_that_are_gone_make_room() {
        let nodes = NodeMeters::default();
        let kept: Vec<_> = (0..MOST_NODES).map(|number| nodes.of(&format!("n:{number}"))).collect();
        nodes.of("one:more").durations.note(50);
        assert_eq!(each_node([&nodes].into_iter(), Durations::add)["other"].count(), 1);
        drop(kept);
        nodes.of("another:1").durations.note(50);
        let all = each_node([&nodes].into_iter(), Durations::add);
        assert!(all.len() <= 2 && all["another:1"].count() == 1, "{}", all.len());
    }

    #[test]
    fn workers_add_up_by_node() {
        let (one, other) = (NodeMeters::default(), NodeMeters::default());
        one.of("a:1").durations.note(40);
        other.of("a:1").durations.note(50);
        other.of("b:2").durations.note(60);
        let all = each_node([&one, &other].into_iter(), Durations::add);
        assert_eq!(all.values().map(Durations::sum_us).collect::<Vec<_>>(), [90, 60]);
    }
}
