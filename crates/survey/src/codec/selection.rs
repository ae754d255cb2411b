//! The codec that a namespace's values are written by from now on: the best of those that training made, where it is
//! better than what is in use.

use keyfold_core::codec::{Candidate, CodecRule};
use keyfold_core::layout::Namespace;

use super::judge::{Judge, Judged, Stopwatch, time_score};
use super::values::{FEWEST, Record};

/// Another dictionary that saves less against the one in use isn't worth storing values again.
const LEAST_GAIN: f64 = 0.02;

/// What was found for one namespace.
#[derive(Clone, Debug)]
pub struct Selection {
    /// Bytes of a value as it is.
    pub raw_bytes: f64,
    /// Bytes of a value by the codec in use, where there is one.
    pub current_bytes: Option<f64>,
    /// What training made, the one of the fewest bytes first.
    pub judged: Vec<Judged>,
    /// Which of them is to be taken, or why none is.
    pub taken: Result<usize, String>,
}

/// Trains what a namespace's codec allows by some of these records, judges it by the others, and takes the best; `keys`
/// share a dictionary. `in_force` is the namespace by whose codec the values are written now, where there is one. `force`
/// takes the best even where that is as good.
pub fn select(
    namespace: &Namespace,
    in_force: Option<&Namespace>,
    records: &[Record],
    keys: u64,
    force: bool,
    stopwatch: Stopwatch<'_>,
) -> Selection {
    let judge = Judge::new(&namespace.keys, namespace.collection(), records);
    let current_bytes = in_force.filter(|known| known.codecs.written().is_some()).map(|known| {
        let stored = judge.held_out.iter().map(|record| known.encode_own(&record.key, &record.value).len());
        stored.sum::<usize>() as f64 / judge.held_out.len().max(1) as f64
    });
    let mut selection =
        Selection { raw_bytes: judge.raw_bytes, current_bytes, judged: Vec::new(), taken: Err(String::new()) };
    if records.len() < FEWEST {
        let found = records.len();
        selection.taken =
            Err(format!("{found} values are too few to learn from; train it once there are some thousand"));
        return selection;
    }
    for candidate in judge.candidates(&namespace.codec, keys) {
        if let Some(own) = judge.namespace(&candidate) {
            selection.judged.push(judge.time(candidate, &own, stopwatch));
        }
    }
    selection.taken = selection.best(&judge, &namespace.codec, force);
    selection
}

impl Selection {
    fn best(&self, judge: &Judge<'_>, rule: &CodecRule, force: bool) -> Result<usize, String> {
        // Where the choice is open, speed counts as much as in a plan.
        let score = |one: &Judged| {
            one.candidate.bytes_a_value.max(1.0).ln() + time_score(one.encode_us, one.decode_us, one.is_worked_out)
        };
        let all = self.judged.iter().enumerate().take(if rule.is_auto() { usize::MAX } else { 1 });
        let best = all.min_by(|one, other| score(one.1).total_cmp(&score(other.1)));
        let Some((best, Judged { candidate, .. })) = best else {
            return Err("its values give nothing to learn".to_owned());
        };
        if force {
            return Ok(best);
        }
        if !judge.is_worth_it(candidate) {
            return Err("no codec makes its values notably shorter".to_owned());
        }
        if rule.is_auto() && score(&self.judged[best]) >= self.raw_bytes.ln() {
            return Err("the best codec saves less than its time is worth".to_owned());
        }
        match self.current_bytes {
            Some(current) if candidate.bytes_a_value > current * (1.0 - LEAST_GAIN) => {
                Err("the codec in use is as good".to_owned())
            }
            _ => Ok(best),
        }
    }

    /// The codec to take, where one is better than what there is.
    pub fn candidate(&self) -> Option<&Candidate> {
        self.taken.as_ref().ok().map(|at| &self.judged[*at].candidate)
    }
}
