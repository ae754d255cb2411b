//! The codec for one namespace: candidates trained from one part of its values, judged and timed by the other.

use std::hint::black_box;
use std::time::Instant;

use keyfold_core::codec::{Candidate, CodecRule, Kinds, Sample, candidates, pack, stored_bytes};
use keyfold_core::layout::Namespace;
use serde_json::{Value, json};

use super::samples::Samples;
use crate::print::number::{count, tenths};
use crate::print::table::{self, Align};

/// Fewer values teach nothing that holds for others.
const FEWEST: usize = 200;
/// A codec that saves a smaller share of the value isn't worth the microseconds.
const LEAST_SAVING: f64 = 0.05;
/// Another dictionary that saves less against the one in use isn't worth storing values again.
const LEAST_GAIN: f64 = 0.02;
/// Where the choice is open, a codec that reads twice as fast may cost this share more.
const WORTH_OF_SPEED: f64 = 0.03;
/// Values that are timed at the most.
const TIMED: usize = 2000;
/// Rows that are shown.
const SHOWN: usize = 6;

/// A codec with what it makes of values that it hasn't seen.
pub(crate) struct Weighed {
    pub(crate) candidate: Candidate,
    encode_us: f64,
    decode_us: f64,
}

/// What was found for one namespace.
pub(crate) struct Choice {
    keys: String,
    sampled: usize,
    seen: u64,
    /// Bytes of a value as it is.
    raw_bytes: f64,
    /// Bytes of a value by the codec in use, where there is one.
    current_bytes: Option<f64>,
    weighed: Vec<Weighed>,
    verdict: Verdict,
}

/// What to do.
enum Verdict {
    /// Take this one of the weighed.
    Take(usize),
    /// Leave it as it is, for this reason.
    Keep(String),
}

/// Trains and judges. `force` takes the best even where what is in use is as good.
pub(crate) fn choose(namespace: &Namespace, rule: &CodecRule, samples: &Samples, force: bool) -> Choice {
    let (learn, judge) = samples.split(&namespace.template);
    let raw_bytes = mean(stored_bytes(None, &judge), &judge);
    let current_bytes = namespace.codecs.written().map(|_| {
        let stored: usize =
            judge.iter().map(|Sample { owner, value }| namespace.encode_own(owner.key(), value).len()).sum();
        mean(stored as u64, &judge)
    });
    let mut choice = Choice {
        keys: namespace.template.to_string(),
        sampled: samples.len(),
        seen: samples.seen,
        raw_bytes,
        current_bytes,
        weighed: Vec::new(),
        verdict: Verdict::Keep(String::new()),
    };
    if samples.len() < FEWEST {
        let found = count(samples.len() as u64);
        choice.verdict =
            Verdict::Keep(format!("{found} values are too few to learn from; train it once there are some thousand"));
        return choice;
    }
    let found = candidates(&Kinds::default(), rule, &learn, &judge, samples.seen);
    choice.weighed = found.into_iter().map(|candidate| weigh(candidate, &judge)).collect();
    choice.verdict = choice.judge(rule, force);
    choice
}

fn mean(bytes: u64, samples: &[Sample<'_>]) -> f64 {
    bytes as f64 / samples.len().max(1) as f64
}

fn weigh(candidate: Candidate, judge: &[Sample<'_>]) -> Weighed {
    let step = judge.len().div_ceil(TIMED).max(1);
    let timed: Vec<&Sample<'_>> = judge.iter().step_by(step).collect();
    let mut out = Vec::new();
    let mut payloads = Vec::with_capacity(timed.len());
    // The dictionary and the buffers are cold at first.
    for Sample { owner, value } in timed.iter().take(TIMED / 10) {
        candidate.codec.encode(value, owner, &mut out);
        let _ = black_box(candidate.codec.decode(&out, owner, &mut Vec::new()));
        out.clear();
    }
    let started = Instant::now();
    for Sample { owner, value } in &timed {
        out.clear();
        if candidate.codec.encode(value, owner, &mut out) {
            payloads.push((owner, out.clone()));
        }
    }
    let encode_us = started.elapsed().as_secs_f64() * 1e6 / timed.len().max(1) as f64;
    let started = Instant::now();
    for (owner, payload) in &payloads {
        out.clear();
        let _ = black_box(candidate.codec.decode(payload, owner, &mut out));
    }
    let decode_us = started.elapsed().as_secs_f64() * 1e6 / payloads.len().max(1) as f64;
    Weighed { candidate, encode_us, decode_us }
}

impl Choice {
    fn judge(&self, rule: &CodecRule, force: bool) -> Verdict {
        let bytes = |at: usize| self.weighed[at].candidate.bytes_a_value;
        let Some(least) = (!self.weighed.is_empty()).then_some(0) else {
            return Verdict::Keep("its values give nothing to learn".to_owned());
        };
        let is_worth = |at: &usize| {
            let slack = (bytes(*at) - bytes(least)) / self.raw_bytes.max(1.0);
            slack < WORTH_OF_SPEED && self.weighed[*at].decode_us * 2.0 < self.weighed[least].decode_us
        };
        let faster = (1..self.weighed.len()).filter(|_| rule.is_auto()).find(is_worth);
        let best = faster.unwrap_or(least);
        if force {
            return Verdict::Take(best);
        }
        if bytes(best) > self.raw_bytes * (1.0 - LEAST_SAVING) {
            return Verdict::Keep("no codec makes its values notably shorter".to_owned());
        }
        match self.current_bytes {
            Some(current) if bytes(best) > current * (1.0 - LEAST_GAIN) => {
                Verdict::Keep("the codec in use is as good".to_owned())
            }
            _ => Verdict::Take(best),
        }
    }

    /// The codec to take, where one is better than what there is.
    pub(crate) fn taken(&self) -> Option<&Candidate> {
        match self.verdict {
            Verdict::Take(at) => Some(&self.weighed[at].candidate),
            Verdict::Keep(_) => None,
        }
    }

    /// Lines for people.
    pub(crate) fn show(&self) -> String {
        use Align::{Left, Right};
        let mut text = format!(
            "{}: {} values sampled of {} seen, {} bytes on average",
            self.keys,
            count(self.sampled as u64),
            count(self.seen),
            tenths(self.raw_bytes)
        );
        if let Some(current) = self.current_bytes {
            text.push_str(&format!(", {} as they are written now", tenths(current)));
        }
        let heads = [
            ("codec", Left),
            ("dictionary", Right),
            ("bytes a value", Right),
            ("times less", Right),
            ("µs to write", Right),
            ("µs to read", Right),
            ("", Left),
        ];
        let rows = self.weighed.iter().enumerate().take(SHOWN).map(|(at, one)| {
            let Weighed { candidate, encode_us, decode_us } = one;
            vec![
                candidate.rule.to_string().replace('"', ""),
                candidate.dictionary.as_ref().map_or_else(|| "none".to_owned(), |bytes| count(bytes.len() as u64)),
                tenths(candidate.bytes_a_value),
                format!("{:.2}", self.raw_bytes / candidate.bytes_a_value.max(0.1)),
                tenths(*encode_us),
                format!("{decode_us:.2}"),
                if matches!(self.verdict, Verdict::Take(taken) if taken == at) { "chosen" } else { "" }.to_owned(),
            ]
        });
        if !self.weighed.is_empty() {
            text.push_str(&format!("\n{}", table::render(&heads, rows)));
        }
        if let Verdict::Keep(why) = &self.verdict {
            text.push_str(&format!("\nleft as it is: {why}"));
        }
        text
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let weighed = self.weighed.iter().map(|Weighed { candidate, encode_us, decode_us }| {
            json!({
                "codec": candidate.rule.name,
                "dictionary_bytes": candidate.dictionary.as_ref().map(Vec::len),
                "packed_dictionary_bytes": candidate.dictionary.as_ref().map(|bytes| pack(bytes).len()),
                "bytes_a_value": candidate.bytes_a_value,
                "encode_us": encode_us,
                "decode_us": decode_us,
            })
        });
        let (chosen, kept) = match &self.verdict {
            Verdict::Take(at) => (Some(*at), None),
            Verdict::Keep(why) => (None, Some(why)),
        };
        json!({
            "keys": self.keys,
            "sampled": self.sampled,
            "seen": self.seen,
            "raw_bytes": self.raw_bytes,
            "current_bytes": self.current_bytes,
            "candidates": weighed.collect::<Vec<_>>(),
            "chosen": chosen,
            "kept_because": kept,
        })
    }
}
