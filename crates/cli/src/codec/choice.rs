//! The codec for one namespace, as people and programs read of it.

use keyfold_core::codec::{Candidate, pack};
use keyfold_core::layout::Namespace;
use keyfold_report::number::{count, tenths};
use keyfold_report::room::Room;
use keyfold_report::table::{self, Column};
use keyfold_survey::codec::{Judged, Samples, Selection, select};
use serde_json::{Value, json};

use crate::weighing::stopwatch;

/// Rows that are shown.
const SHOWN: usize = 6;

/// What was found for one namespace.
pub(crate) struct Choice {
    keys: String,
    sampled: usize,
    seen: u64,
    selection: Selection,
}

/// Trains and judges. `in_force` has the codec in use; `force` takes the best even where that is as good.
pub(crate) fn choose(namespace: &Namespace, in_force: Option<&Namespace>, samples: Samples, force: bool) -> Choice {
    let (seen, records) = (samples.seen(), samples.into_records());
    let selection = select(namespace, in_force, &records, seen, force, &mut stopwatch);
    Choice { keys: namespace.keys.to_string(), sampled: records.len(), seen, selection }
}

impl Choice {
    /// The codec to take, where one is better than what there is.
    pub(crate) fn taken(&self) -> Option<&Candidate> {
        self.selection.candidate()
    }

    /// Lines for people.
    pub(crate) fn show(&self, room: Room) -> String {
        let Selection { raw_bytes, current_bytes, judged, taken } = &self.selection;
        let mut text = format!(
            "{}: {} values sampled of {} seen, {} bytes on average",
            self.keys,
            count(self.sampled as u64),
            count(self.seen),
            tenths(*raw_bytes)
        );
        if let Some(current) = current_bytes {
            text.push_str(&format!(", {} as they are written now", tenths(*current)));
        }
        let heads = [
            Column::name("codec"),
            Column::number("dictionary").rank(3),
            Column::number("bytes a value").rank(1),
            Column::number("times less"),
            Column::number("µs to write").rank(2),
            Column::number("µs to read").rank(2),
            Column::word(""),
        ];
        let rows = judged.iter().enumerate().take(SHOWN).map(|(at, one)| {
            let Judged { candidate, encode_us, decode_us, .. } = one;
            vec![
                candidate.rule.to_string().replace('"', ""),
                candidate.dictionary.as_ref().map_or_else(|| "none".to_owned(), |bytes| count(bytes.len() as u64)),
                tenths(candidate.bytes_a_value),
                format!("{:.2}", raw_bytes / candidate.bytes_a_value.max(0.1)),
                tenths(*encode_us),
                format!("{decode_us:.2}"),
                if *taken == Ok(at) { "chosen" } else { "" }.to_owned(),
            ]
        });
        if !judged.is_empty() {
            text.push_str(&format!("\n{}", table::render(&heads, rows, room)));
        }
        if let Err(why) = taken {
            text.push_str(&format!("\nleft as it is: {why}"));
        }
        text
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let Selection { raw_bytes, current_bytes, judged, taken } = &self.selection;
        let candidates = judged.iter().map(|Judged { candidate, encode_us, decode_us, .. }| {
            json!({
                "codec": candidate.rule.name,
                "dictionary_bytes": candidate.dictionary.as_ref().map(Vec::len),
                "packed_dictionary_bytes": candidate.dictionary.as_ref().map(|bytes| pack(bytes).len()),
                "bytes_a_value": candidate.bytes_a_value,
                "encode_us": encode_us,
                "decode_us": decode_us,
            })
        });
        json!({
            "keys": self.keys,
            "sampled": self.sampled,
            "seen": self.seen,
            "raw_bytes": raw_bytes,
            "current_bytes": current_bytes,
            "candidates": candidates.collect::<Vec<_>>(),
            "chosen": taken.as_ref().ok(),
            "kept_because": taken.as_ref().err(),
        })
    }
}
