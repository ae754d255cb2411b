//! Measurements that take long, kept as they come: a study that was stopped goes on where it was.
//!
//! A file of lines among the study's results, one for each measurement, with the conditions that it was made under. It
//! is removed once the study is done.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::results::Results;
use super::weight::Weight;

const FILE: &str = "measured.jsonl";

/// What was measured under these conditions.
pub(crate) struct Kept {
    results: Results,
    conditions: String,
    known: BTreeMap<String, Weight>,
}

impl Kept {
    /// What an earlier run has left. A line that isn't whole, as of a run that was killed, counts for nothing.
    pub(super) fn open(results: Results, conditions: String) -> Self {
        let mut known = BTreeMap::new();
        for line in results.read(FILE).unwrap_or_default().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let (bytes, before) = (line["bytes"].as_u64(), line["keys_before"].as_u64());
            if line["conditions"] == *conditions
                && let (Some(what), Some(bytes), Some(before)) = (line["what"].as_str(), bytes, before)
            {
                known.insert(what.to_owned(), Weight { bytes, before });
            }
        }
        Self { results, conditions, known }
    }

    /// A measurement of before.
    pub(super) fn find(&self, what: &str) -> Option<Weight> {
        self.known.get(what).copied()
    }

    /// Keeps a measurement.
    pub(super) fn add(&mut self, what: &str, weight: Weight) -> anyhow::Result<()> {
        let Weight { bytes, before } = weight;
        let line = json!({ "what": what, "conditions": self.conditions, "bytes": bytes, "keys_before": before });
        self.results.append(FILE, format!("{line}\n").as_bytes())?;
        self.known.insert(what.to_owned(), weight);
        Ok(())
    }

    /// Ends a study that is done: the next one measures anew.
    pub(crate) fn done(self) {
        self.results.remove(FILE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_study_that_was_stopped_goes_on_under_the_same_conditions_alone() {
        let dir = tempfile::tempdir().unwrap();
        let results = || Results::open(dir.path()).unwrap().study("bucket-sweep");
        let open = |conditions: &str| Kept::open(results(), conditions.to_owned());
        let weight = Weight { bytes: 7_500_000_000, before: 1 };
        open("valkey, seed 1").add("80,000,000 as strings", weight).unwrap();
        results().append(FILE, b"{\"what\": \"torn").unwrap();
        let kept = open("valkey, seed 1");
        assert_eq!(kept.find("80,000,000 as strings").map(|weight| weight.bytes), Some(7_500_000_000));
        assert!(kept.find("torn").is_none());
        assert!(open("valkey, seed 2").find("80,000,000 as strings").is_none());
        kept.done();
        assert!(open("valkey, seed 1").find("80,000,000 as strings").is_none());
    }
}
