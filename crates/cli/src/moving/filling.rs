//! How full the buckets will be that keys move to. One entry over `hash-max-listpack-entries` makes a bucket a hashtable
//! for good, and it saves nothing then: a layout with too few buckets is found here, before anything is moved.

use std::collections::BTreeMap;

use keyfold_core::layout::Namespace;
use keyfold_report::number::count;
use keyfold_survey::diagnosis::AIM_ENTRIES;

/// Where more than this share of the keys would lie in hashtables, the layout is a mistake.
const MISTAKE_SHARE: f64 = 0.5;

/// How many buckets of a namespace will have so many entries, of a sample of whole buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filling(BTreeMap<u64, u64>);

/// What is to be said of buckets over the limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Overfull {
    /// Most keys would lie in hashtables.
    Mistake(String),
    /// Some would.
    Some(String),
}

impl Filling {
    /// Counts a bucket.
    pub(super) fn add(&mut self, entries: u64) {
        *self.0.entry(entries).or_default() += 1;
    }

    fn buckets(&self) -> u64 {
        self.0.values().sum()
    }

    /// How many entries a bucket has on average; none where none was sampled whole.
    pub(super) fn mean(&self) -> Option<f64> {
        let buckets = self.buckets();
        (buckets > 0).then(|| self.entries_over(0) as f64 / buckets as f64)
    }

    /// Entries in all buckets with more than so many.
    fn entries_over(&self, limit: u64) -> u64 {
        self.0.range(limit + 1..).map(|(entries, buckets)| entries * buckets).sum()
    }

    /// What stands against moving keys to `namespace` on servers whose limit this is; none where no bucket is over it.
    pub(super) fn over(&self, namespace: &Namespace, limit: u64) -> Option<Overfull> {
        let most = self.0.last_key_value().map(|(entries, _)| *entries).filter(|most| *most > limit)?;
        let (over, all) = (self.entries_over(limit), self.entries_over(0));
        let share = over as f64 / all.max(1) as f64;
        let (keys, line) = (&namespace.keys, namespace.line());
        let percent = if share < 0.01 { "fewer than 1 %".to_owned() } else { format!("{:.0} %", share * 100.0) };
        let text = format!(
            "by `{line}` up to {} keys of {keys} share a bucket, and hash-max-listpack-entries is {}: buckets over it become \
             hashtables and save nothing, {percent} of the keys would lie in such. {}",
            count(most),
            count(limit),
            self.mend(namespace)
        );
        Some(if share > MISTAKE_SHARE { Overfull::Mistake(text) } else { Overfull::Some(text) })
    }

    /// The line of the layout that makes buckets as full as they should be.
    fn mend(&self, namespace: &Namespace) -> String {
        let (all, buckets) = (self.entries_over(0), self.buckets().max(1));
        // As many times as many buckets as they are too full; of a rule within slots this is a count for each slot.
        let wanted = |now: u64| (now * all).div_ceil(buckets * AIM_ENTRIES).max(2);
        match namespace.placement.as_count() {
            Some(rule) => format!("In the layout: bucket = {{ count = {} }}", wanted(rule.count())),
            None => {
                "In the layout: `count` spreads keys evenly, whatever their ids; `keyfold plan` says how many buckets"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::Layout;

    use super::*;

    fn over(rule: &str, buckets: &[(u64, u64)], limit: u64) -> Option<Overfull> {
        let layout =
            Layout::parse_file(&format!("[[namespace]]\nkeys = 's:{{id:uuid}}:{{part}}'\nbucket = {rule}\n")).unwrap();
        Filling(buckets.iter().copied().collect()).over(&layout.namespaces()[0], limit)
    }

    #[test]
    fn too_few_buckets_are_a_mistake_and_the_right_number_is_said() {
        // 40,000 keys in 43 buckets.
        let Some(Overfull::Mistake(text)) = over("{ count = 43 }", &[(930, 33), (931, 10)], 512) else { panic!() };
        assert!(text.contains("up to 931 keys of s:{id:uuid}:{part}") && text.contains("100 % of the keys"), "{text}");
        assert!(text.ends_with("bucket = { count = 400 }"), "{text}");
    }

    #[test]
    fn a_few_full_buckets_are_said_and_those_within_the_limit_are_not() {
        assert_eq!(over("{ count = 400 }", &[(100, 400)], 512), None);
        assert_eq!(over("{ count = 400 }", &[(512, 1)], 512), None);
        let Some(Overfull::Some(text)) = over("{ by = \"id\" }", &[(100, 1000), (600, 1)], 512) else { panic!() };
        assert!(text.contains("fewer than 1 %") && text.contains("`count` spreads"), "{text}");
    }
}
