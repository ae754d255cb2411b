//! What is not as it should be, and what to do about it: said once, for pages, terminals and scripts alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CacheStatus, NamespaceStatus, Status};
use crate::stats::Counts;

/// What has been due for longer than this is not removed in time.
const LAG_MS: u64 = 10_000;

/// What happened to a cache longer ago than this is past.
const CACHE_PAST_MS: u64 = 600_000;

/// So many keys make sure that a namespace which takes more memory than plain keys is not just young.
const ENOUGH_KEYS: u64 = 1000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Warning {
    /// Which, for scripts: a word that stays the same.
    pub code: String,
    /// Whom it is about: a namespace by its template, a node, a bucket; none where it is the whole keyfold.
    pub about: Option<String>,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub advice: String,
}

impl Warning {
    /// One of these.
    pub fn new(code: &str, about: Option<&str>, text: impl Into<String>, advice: impl Into<String>) -> Self {
        let about = about.map(str::to_owned);
        Self { code: code.to_owned(), about, text: text.into(), advice: advice.into() }
    }
}

impl Status {
    /// What is not as it should be, as far as this status tells.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        if self.namespaces.is_empty() {
            warnings.push(Warning::new(
                "no_layout",
                None,
                "There is no layout: every key passes through as it is, and nothing is saved.",
                "Make one by `keyfold plan`, and move the keys by `keyfold fold`.",
            ));
        }
        if self.layout.in_doubt {
            warnings.push(Warning::new(
                "layout_in_doubt",
                None,
                "The layout was lost and put back: keys are looked for in two places until a walk has found where each lies.",
                "It settles by itself. Where it doesn't, `keyfold layout recover` lists the keys that hold two values.",
            ));
        }
        warnings.extend(self.namespaces.iter().flat_map(of_namespace));
        warnings.extend(self.large_buckets.iter().map(|bucket| {
            let text = format!(
                "A bucket of {} has {} fields: each command on it is slower for that.",
                bucket.keys, bucket.fields
            );
            let advice = "Spread its keys by `keyfold fold` with another bucket rule, such as `count`.";
            Warning::new("large_bucket", Some(&bucket.name), text, advice)
        }));
        if self.sweep.lag_ms > LAG_MS {
            warnings.push(Warning::new(
                "sweep_lags",
                None,
                format!(
                    "What has expired waits for {} s to be removed, and takes memory meanwhile.",
                    self.sweep.lag_ms / 1000
                ),
                "Give values that are written that often a longer expiry, or their keys a server of their own.",
            ));
        }
        warnings.extend(self.cache.iter().flat_map(of_cache));
        let replicas = self.replicas.iter().flat_map(|all| &all.replicas);
        warnings.extend(replicas.filter_map(|replica| {
            let why = replica.unfit.as_ref()?;
            let text = format!("This replica is not read from: {why}");
            Some(Warning::new(
                "replica_unfit",
                Some(&replica.address),
                text,
                "Reads go to its primary until it is well again.",
            ))
        }));
        warnings
    }
}

fn of_cache(cache: &CacheStatus) -> Vec<Warning> {
    let is_recent = |ms_ago: Option<u64>| ms_ago.is_some_and(|ms| ms < CACHE_PAST_MS);
    let mut warnings = Vec::new();
    if cache.unlimited > 0 {
        let text = format!(
            "Nothing leaves {} of this cache's servers: max_memory is a share of its maxmemory, and that is 0.",
            cache.unlimited
        );
        let advice = "Set maxmemory on the server by CONFIG SET, or write max_memory as bytes.";
        warnings.push(Warning::new("cache_unlimited", None, text, advice));
    }
    if is_recent(cache.evicted_by_server_ms_ago) {
        let text = format!(
            "The server evicts by itself, whole buckets among it: {} keys since this keyfold was started.",
            cache.evicted_by_server
        );
        let advice = "Set its maxmemory higher, by a tenth above max_memory, so that keyfold, which evicts by the key, \
                      comes first.";
        warnings.push(Warning::new("evicted_by_server", None, text, advice));
    }
    if cache.full || is_recent(cache.refused_ms_ago) {
        let text = format!(
            "Writes are refused, as memory is full and keys don't leave fast enough: {} since this keyfold was started.",
            cache.refused
        );
        let advice = "Raise max_memory and the server's maxmemory, or let more keys leave: `evict` of namespaces, plain \
                      keys.";
        warnings.push(Warning::new("cache_full", None, text, advice));
    }
    warnings
}

fn of_namespace(namespace: &NamespaceStatus) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code, text: String, advice| warnings.push(Warning::new(code, Some(&namespace.keys), text, advice));
    let counts = Counts { writes: namespace.writes, spills: namespace.spills, ..Counts::default() };
    if counts.spills_much() {
        let is_untrained = namespace.codec.as_ref().is_some_and(|codec| codec.slot.is_none());
        warn(
            "spills",
            "More than a tenth of the values written are over value_limit, and each takes a key of its own.".to_owned(),
            if is_untrained {
                "Its codec has learned nothing yet: run `keyfold train`, and then `keyfold recode`."
            } else {
                "Raise value_limit in the layout, and hash-max-listpack-value on the server with it."
            },
        );
    }
    if namespace.undecodable > 0 {
        warn(
            "undecodable",
            format!("{} values could not be read: what their codec needs is gone.", namespace.undecodable),
            "Put back the copy of keyfold:{home}:dictionaries; `keyfold doctor` says which codecs lack theirs.",
        );
    }
    let contents = namespace.contents.filter(|contents| contents.keys >= ENOUGH_KEYS && !namespace.moving);
    if contents.is_some_and(|contents| contents.saved_bytes() < 0) {
        warn(
            "saves_nothing",
            "Its keys take more memory than plain ones would.".to_owned(),
            "`keyfold doctor` says why; `keyfold unfold` makes them plain again.",
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cache::Cache;
    use crate::layout::{CachePolicy, Layout, NamespaceIndex};
    use crate::stats::{Contents, Stats};

    const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n";

    fn codes(layout: &Layout, stats: &Stats) -> Vec<String> {
        Status::new(layout, stats, 0).warnings().into_iter().map(|warning| warning.code).collect()
    }

    #[test]
    fn nothing_is_said_where_all_is_well() {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        assert_eq!(codes(&layout, &Stats::new(1)), Vec::<String>::new());
        assert_eq!(codes(&Layout::default(), &Stats::new(0)), ["no_layout"]);
    }

    #[test]
    fn troubles_of_a_cache_are_told_until_they_are_past() {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let (stats, cache) = (Stats::new(1), Arc::new(Cache::new(1 << 16)));
        stats.note_cache(Arc::clone(&cache));
        cache.set_now(1_000);
        assert_eq!(codes(&layout, &stats), Vec::<String>::new(), "where no cache is kept");
        cache.show(Some((CachePolicy::TinyLfu, false)));
        assert_eq!(codes(&layout, &stats), Vec::<String>::new());
        cache.count_by_server(1);
        cache.count_refused();
        assert_eq!(codes(&layout, &stats), ["evicted_by_server", "cache_full"]);
        cache.set_now(601_000);
        assert_eq!(codes(&layout, &stats), Vec::<String>::new(), "ten minutes later");
        cache.set_full_in(|_| true);
        assert_eq!(codes(&layout, &stats), ["cache_full"]);
        cache.set_full_in(|_| false);
        cache.set_gauges(500, 0, 1, 10);
        assert_eq!(codes(&layout, &stats), ["cache_unlimited"]);
        cache.set_gauges(500, 1000, 0, 10);
        assert_eq!(codes(&layout, &stats), Vec::<String>::new());
    }

    #[test]
    fn each_trouble_is_named_once_and_says_what_to_do() {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let stats = Stats::new(1);
        let namespace = stats.namespace(NamespaceIndex(0));
        namespace.add(Counts { writes: 1000, spills: 101, undecodable: 2, ..Counts::default() });
        namespace.set_contents(Some(Contents { keys: 1000, buckets: 20, stored_bytes: 90, plain_bytes: 80 }));
        stats.sweep().large_buckets.note(NamespaceIndex(0), b"~x:\x1b[2J", 20_000, 10_000);
        assert_eq!(codes(&layout, &stats), ["spills", "undecodable", "saves_nothing", "large_bucket"]);
        for warning in Status::new(&layout, &stats, 0).warnings() {
            assert!(
                !warning.advice.is_empty() && !warning.text.contains('\x1b') && warning.about.is_some(),
                "{warning:?}"
            );
        }
        // One spill in ten is as meant.
        let stats = Stats::new(1);
        stats.namespace(NamespaceIndex(0)).add(Counts { writes: 1000, spills: 100, ..Counts::default() });
        assert_eq!(codes(&layout, &stats), Vec::<String>::new());
    }
}
