//! The replicas that are read from, as INFO shows them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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

    /// Lines of INFO; none where replicas aren't read from.
    pub(crate) fn lines(&self) -> Option<String> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown { from, replicas } = shown.as_ref()?;
        let mut lines = format!("keyfold_read_from:{from}\r\n");
        for (number, (address, (of, state))) in replicas.iter().enumerate() {
            let known = |value: Option<String>| value.unwrap_or_else(|| "unknown".to_owned());
            let lag_ms = known(state.lag_ms.map(|ms| ms.to_string()));
            let round_trip_us = known(state.round_trip_us.map(|us| us.to_string()));
            let unfit = state.unfit.as_ref().map(|why| format!(",unfit={}", why.replace(['\r', '\n', ','], " ")));
            lines += &format!(
                "keyfold_replica_{number}:address={address},of={of},reads={},returned={},lag_ms={lag_ms},\
                 round_trip_us={round_trip_us}{}\r\n",
                state.reads,
                state.returned,
                unfit.unwrap_or_default()
            );
        }
        Some(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{AddressMap, SlotMap};

    #[test]
    fn a_line_says_why_a_replica_is_not_read_from_and_reads_add_up() {
        let states = ReplicaStates::default();
        assert_eq!(states.lines(), None);
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
            states.lines().unwrap(),
            "keyfold_read_from:nearest\r\n\
             keyfold_replica_0:address=r:1,of=p:1,reads=12,returned=2,lag_ms=210,round_trip_us=80\r\n\
             keyfold_replica_1:address=r:2,of=p:1,reads=12,returned=2,lag_ms=unknown,round_trip_us=unknown,\
             unfit=it says: NOAUTH  no\r\n"
        );
    }
}
