//! Whether a codec pays: every codec that makes the values shorter is weighed with placements of its own, and the
//! bytes it saves are held against its time.

use super::judge;
use super::report::{Alternative, Setting};
use super::{Choice, Verdict};
use crate::codec::{Coding, time_score};

/// The codec of a choice, and what it does by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct CodecChoice {
    /// As a layout says it: `"zstd"`.
    pub rule: keyfold_core::codec::CodecRule,
    /// The mean of the values that it was judged by, and of what they are stored as, in bytes.
    pub value_bytes: f64,
    /// See [`Self::value_bytes`].
    pub stored_bytes: f64,
    /// How many values judged; none of them trained.
    pub judged_by: usize,
    /// How many times shorter it makes the values.
    pub ratio: f64,
    /// Microseconds for one value on the machine that measured, for a write.
    pub encode_us: f64,
    /// The same for a read.
    pub decode_us: f64,
    /// Whether a write of one member or field takes a round trip more because of it.
    pub is_worked_out: bool,
    /// The dictionary's bytes, and what the server keeps of it; 0 where there is none.
    pub dictionary_bytes: u64,
    /// See [`Self::dictionary_bytes`].
    pub packed_bytes: u64,
    /// What the family takes without a codec, at the best.
    pub bytes_without: u64,
}

impl CodecChoice {
    fn new(coding: &Coding, bytes_without: u64) -> Self {
        Self {
            rule: coding.rule.clone(),
            value_bytes: coding.value_bytes,
            stored_bytes: coding.stored_bytes,
            judged_by: coding.judged_by,
            ratio: coding.ratio(),
            encode_us: coding.encode_us,
            decode_us: coding.decode_us,
            is_worked_out: coding.is_worked_out,
            dictionary_bytes: coding.dictionary.as_ref().map_or(0, |dictionary| dictionary.len() as u64),
            packed_bytes: coding.packed_bytes,
            bytes_without,
        }
    }

    /// Whether it is this one.
    pub(super) fn is(&self, coding: &Coding) -> bool {
        let bytes = coding.dictionary.as_ref().map_or(0, |dictionary| dictionary.len() as u64);
        self.rule == coding.rule && self.dictionary_bytes == bytes
    }

    /// What it is and does, in a line.
    pub fn describe(&self) -> String {
        let Self { rule, value_bytes, stored_bytes, ratio, encode_us, decode_us, is_worked_out, .. } = self;
        format!(
            "{} stores values of {value_bytes:.1} bytes in {stored_bytes:.1}, {ratio:.2}×; a read takes \
             {decode_us:.2} µs more, a write {encode_us:.2}{}",
            rule.name,
            worked_out(*is_worked_out)
        )
    }
}

/// What a codec makes of values: of that which is taken, or of that which makes them the shortest.
#[derive(Clone, Debug, PartialEq)]
pub struct Compressible {
    /// The codec's name.
    pub codec: String,
    /// How many times shorter the values become.
    pub ratio: f64,
}

/// The best of a choice without a codec, and those with one.
pub(super) fn decide(without: Choice, with: Vec<(&Coding, Choice)>) -> Choice {
    let bytes_without = without.bytes_after;
    let score_without = judge::score(without.after.smooth_bytes(), without.read_us_after);
    let score_with = |coding: &Coding, choice: &Choice| {
        let time = time_score(coding.encode_us, coding.decode_us, coding.is_worked_out);
        judge::score(choice.after.smooth_bytes(), choice.read_us_after) + time
    };
    let mut ways: Vec<(f64, &Coding, Choice)> =
        with.into_iter().map(|(coding, choice)| (score_with(coding, &choice), coding, choice)).collect();
    ways.sort_by(|one, other| one.0.total_cmp(&other.0));
    let pays = |(score, _, choice): &(f64, &Coding, Choice)| {
        *score < score_without && choice.bytes_after < bytes_without && !matches!(choice.verdict, Verdict::Leave(_))
    };
    let at = ways.iter().position(pays);
    let mut choice = match at.map(|at| ways.remove(at)) {
        Some((_, coding, mut choice)) => {
            choice.codec = Some(CodecChoice::new(coding, bytes_without));
            let more = comparison(bytes_without, choice.bytes_after);
            choice.alternatives.push(Alternative {
                what: "codec = \"none\"".to_owned(),
                bytes: bytes_without,
                read_us: without.read_us_after,
                why_not: more,
            });
            choice
        }
        None => without,
    };
    let ratios = ways.iter().map(|(_, coding, _)| (&coding.rule, coding.ratio()));
    let shortest = ratios.max_by(|one, other| one.1.total_cmp(&other.1));
    let taken = choice.codec.as_ref().map(|codec| (&codec.rule, codec.ratio));
    choice.compressible = taken.or(shortest).map(|(rule, ratio)| Compressible { codec: rule.name.clone(), ratio });
    for (_, coding, other) in ways {
        let why_not = format!(
            "{}, and {:.2} µs more a read, {:.2} a write{}",
            comparison(other.bytes_after, choice.bytes_after),
            coding.decode_us,
            coding.encode_us,
            worked_out(coding.is_worked_out)
        );
        choice.alternatives.push(Alternative {
            what: format!("codec = {}", coding.rule),
            bytes: other.bytes_after,
            read_us: other.read_us_after,
            why_not,
        });
    }
    choice
}

fn worked_out(is_worked_out: bool) -> &'static str {
    if is_worked_out { " and a round trip" } else { "" }
}

fn comparison(bytes: u64, chosen: u64) -> String {
    let more = bytes as f64 / chosen.max(1) as f64;
    match more {
        1.995.. => format!("{more:.1} times the bytes"),
        1.0.. => format!("{:.0} % more bytes", (more - 1.0) * 100.0),
        _ => format!("{:.0} % fewer bytes", (1.0 - more) * 100.0),
    }
}

/// What there is to choose where a server's setting is too low for the buckets.
pub(super) fn either_or(choice: &Choice, own_bytes: u64) -> Option<String> {
    let each = |bytes: u64| bytes as f64 / choice.now.keys.max(1.0);
    let Setting { name, needs, has, .. } =
        choice.relies_on.iter().find(|setting| !setting.is_met() && setting.name.ends_with("-value"))?;
    Some(format!(
        "There are two ways. CONFIG SET {name} {needs} (it is {has}): {:.1} bytes a key, in buckets as below. \
         Or the setting stays, and instead of the bucket stands placement = \"framed\": {:.1} bytes a key, as keys of \
         their own with short names",
        each(choice.bytes_after),
        each(own_bytes),
    ))
}
