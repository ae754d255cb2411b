//! Which nodes of a cluster a command concerns, and what is made of their answers, as servers say by COMMAND's tips.

/// Which nodes a command is sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestPolicy {
    /// The one that has its keys; any where it has none.
    #[default]
    OneNode,
    /// Every node, replicas too.
    AllNodes,
    /// Every primary.
    AllShards,
    /// Each that has some of its keys, with these.
    MultiShard,
    /// Neither of these.
    Special,
}

/// What is made of several nodes' answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponsePolicy {
    /// All of their elements: in the order of the keys, where there are keys.
    #[default]
    Joined,
    /// The first that is no error.
    OneSucceeded,
    /// Any of them, where none is an error.
    AllSucceeded,
    /// The sum of their numbers.
    Sum,
    /// The least of their numbers.
    Least,
    /// For each position 1 where all have a 1 there.
    And,
    /// None of these.
    Special,
}

/// Which nodes a command concerns, and what is made of their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// Which nodes.
    pub request: RequestPolicy,
    /// What is made of their answers.
    pub response: ResponsePolicy,
}

impl ClusterPolicy {
    /// Reads `request:response`, as the table has it.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "-" {
            return Some(Self::default());
        }
        let (request, response) = text.split_once(':')?;
        let request = match request {
            "-" => RequestPolicy::OneNode,
            "all_nodes" => RequestPolicy::AllNodes,
            "all_shards" => RequestPolicy::AllShards,
            "multi_shard" => RequestPolicy::MultiShard,
            "special" => RequestPolicy::Special,
            _ => return None,
        };
        let response = match response {
            "-" => ResponsePolicy::Joined,
            "one_succeeded" => ResponsePolicy::OneSucceeded,
            "all_succeeded" => ResponsePolicy::AllSucceeded,
            "agg_sum" => ResponsePolicy::Sum,
            "agg_min" => ResponsePolicy::Least,
            "agg_logical_and" => ResponsePolicy::And,
            "special" => ResponsePolicy::Special,
            _ => return None,
        };
        Some(Self { request, response })
    }
}
