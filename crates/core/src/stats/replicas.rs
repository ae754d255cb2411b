//! The replicas that are read from, as INFO shows them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::{Endpoint, ReadFrom, ReplicaState};

/// What was last said of each replica.
#[derive(Debug, Default)]
pub struct ReplicaStates {
    shown: Mutex<Option<Shown>>,
}

#[derive(Debug)]
struct Shown {
    from: ReadFrom,
    /// By address: the primary's address, and what is known, with all reads so far.
    replicas: BTreeMap<Endpoint, (Endpoint, ReplicaState)>,
}

impl ReplicaStates {
    /// Notes what one of several workers knows of all replicas, with where each and its primary take clients. Reads are
    /// those since it said so last.
    pub fn note(&self, from: ReadFrom, states: Vec<(Endpoint, Endpoint, ReplicaState)>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = shown.take().map(|shown| shown.replicas).unwrap_or_default();
        let add = |(address, of, mut state): (Endpoint, Endpoint, ReplicaState)| {
            if let Some((_, earlier)) = before.remove(&address) {
                state.reads += earlier.reads;
                state.returned += earlier.returned;
            }
            (address, (of, state))
        };
        *shown = Some(Shown { from, replicas: states.into_iter().map(add).collect() });
    }

    /// What is to be said of them; none where replicas aren't read from.
    pub fn status(&self) -> Option<ReplicasStatus> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown { from, replicas } = shown.as_ref()?;
        let replica = |(address, (of, state)): (&Endpoint, &(Endpoint, ReplicaState))| ReplicaStatus {
            address: address.to_string(),
            of: of.to_string(),
            reads: state.reads,
            returned: state.returned,
            lag_ms: state.lag_ms,
            round_trip_us: state.round_trip_us,
            unfit: state.unfit.clone(),
        };
        Some(ReplicasStatus { read_from: from.to_string(), replicas: replicas.iter().map(replica).collect() })
    }
}

/// The replicas that reads go to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ReplicasStatus {
    /// `replica` or `nearest`.
    pub read_from: String,
    /// Each of them.
    pub replicas: Vec<ReplicaStatus>,
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ReplicaStatus {
    /// Where it is.
    pub address: String,
    /// Where its primary is.
    pub of: String,
    /// Reads that it was sent.
    pub reads: u64,
    /// Those of them that went to the primary as well.
    pub returned: u64,
    /// At most so long ago the primary had what it has, in milliseconds; none where that isn't known.
    pub lag_ms: Option<i64>,
    /// The mean of the last round trips, in microseconds; none where there was none.
    pub round_trip_us: Option<u64>,
    /// Why it isn't read from; none where it is.
    pub unfit: Option<String>,
}

impl ReplicasStatus {
    /// Lines of INFO.
    pub(crate) fn lines(&self) -> String {
        let mut lines = format!("keyfold_read_from:{}\r\n", self.read_from);
        for (number, replica) in self.replicas.iter().enumerate() {
            let ReplicaStatus { address, of, reads, returned, .. } = replica;
            let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
            let lag_ms = known(replica.lag_ms.map(|ms| ms.to_string()));
            let round_trip_us = known(replica.round_trip_us.map(|us| us.to_string()));
            let unfit = replica.unfit.as_ref().map(|why| format!(",unfit={}", why.replace(['\r', '\n', ','], " ")));
            lines += &format!(
                "keyfold_replica_{number}:address={address},of={of},reads={reads},returned={returned},lag_ms={lag_ms},\
                 round_trip_us={round_trip_us}{}\r\n",
                unfit.unwrap_or_default()
            );
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{AddressMap, SlotMap};

    #[test]
    fn a_line_says_why_a_replica_is_not_read_from_and_reads_add_up() {
        let states = ReplicaStates::default();
        assert_eq!(states.status(), None);
        let [first, second, of]: [Endpoint; 3] = ["r:1", "r:2", "p:1"].map(|at| at.parse().unwrap());
        let mut map = SlotMap::new(AddressMap::default());
        let fit = ReplicaState {
            node: map.node(&first),
            of: map.node(&of),
            unfit: None,
            lag_ms: Some(210),
            round_trip_us: Some(80),
            reads: 6,
            returned: 1,
        };
        let why = Some("it says: NOAUTH, no".to_owned());
        let unfit = ReplicaState { unfit: why, lag_ms: None, round_trip_us: None, ..fit.clone() };
        for _ in 0..2 {
            let both = vec![(first.clone(), of.clone(), fit.clone()), (second.clone(), of.clone(), unfit.clone())];
            states.note(ReadFrom::Nearest, both);
        }
        assert_eq!(
            states.status().unwrap().lines(),
            "keyfold_read_from:nearest\r\n\
             keyfold_replica_0:address=r:1,of=p:1,reads=12,returned=2,lag_ms=210,round_trip_us=80\r\n\
             keyfold_replica_1:address=r:2,of=p:1,reads=12,returned=2,lag_ms=unknown,round_trip_us=unknown,\
             unfit=it says: NOAUTH  no\r\n"
        );
    }
}
