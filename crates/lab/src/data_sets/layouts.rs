//! Which layout folds a file of records: the example that was made for it, or one derived from its keys.

use std::collections::HashSet;
use std::fmt::Write as _;

use keyfold_core::template::{Parts, Template};

use super::records::DataSet;

/// Entries to a bucket, on the mean: nearly all the memory is won at 64, and time is lost after 128. In between,
/// buckets of one size fill the allocator's size classes better or worse: by this many, the seeded sets do well
/// (Redis 7.0.15; 64, 80, 96, 104, 112 and 128 were tried).
pub const ENTRIES: usize = 112;
/// A share of ids below this leaves `span` with buckets too empty.
const DENSE: f64 = 0.5;
const SPAN: u64 = 128;
/// The least and the most that a derived value limit may be.
const VALUE_LIMITS: (usize, usize) = (64, 8192);
const FIELD_LIMIT: usize = 64;

macro_rules! examples {
    ($($name:literal),+ $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../examples/layouts/", $name, ".toml")))),+]
    };
}

/// The examples, by the names of the data sets that they were made for.
const EXAMPLES: &[(&str, &str)] = examples![
    "access_logs",
    "cities_json",
    "city_state_int",
    "cldr_text",
    "debian_json",
    "debian_sha256",
    "stix_uuid_json",
    "sx_posts_html",
    "tldr_md",
    "words_alpha",
    "words_phonemes",
];

/// The example for a data set of this name.
pub fn bundled(name: &str) -> Option<&'static str> {
    EXAMPLES.iter().find(|(example, _)| *example == name).map(|(_, text)| *text)
}

/// How many buckets give each so many entries.
pub fn buckets(records: usize, entries: usize) -> usize {
    (records / entries).max(2)
}

/// A simple layout for keys of one kind: what they all begin with, up to a separator, and one placeholder of
/// the narrowest type that matches all of the rest.
pub fn derive(set: &DataSet) -> String {
    let prefix = literal(common_prefix(set));
    let candidates = ["{id:int}", "{id:uuid}", "{id:hex}", "{id}"].map(|part| format!("{prefix}{part}"));
    let fits = |template: &&String| {
        Template::parse(template)
            .is_ok_and(|template| set.records.iter().all(|record| template.parse_key(&record.key, &mut Parts::new())))
    };
    let keys = candidates.iter().find(fits).unwrap_or(&candidates[3]);
    let bucket = if keys.ends_with("{id:int}") && is_dense(set, prefix.len()) {
        format!("{{ span = {SPAN} }}")
    } else {
        format!("{{ count = {} }}", buckets(set.records.len(), ENTRIES))
    };
    let longest_key = set.records.iter().map(|record| record.key.len()).max().unwrap_or(0);
    let mut text = format!("[[namespace]]\nkeys = {keys:?}\nbucket = {bucket}\nvalue_limit = {}\n", value_limit(set));
    if longest_key > FIELD_LIMIT {
        let _ = writeln!(text, "field_limit = {}", longest_key.min(VALUE_LIMITS.1));
    }
    text
}

/// What all keys begin with, as text that ends in a separator; nothing where there is no such.
fn common_prefix(set: &DataSet) -> &str {
    let first = set.records.first().map_or(&b""[..], |record| &record.key);
    let common = set.records.iter().fold(first.len(), |common, record| {
        first[..common].iter().zip(&record.key).take_while(|(one, other)| one == other).count()
    });
    let end = first[..common].iter().rposition(|byte| b":/.|".contains(byte)).map_or(0, |at| at + 1);
    str::from_utf8(&first[..end]).unwrap_or_default()
}

/// Text as it is written in a template.
fn literal(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

/// Whether ids fill their spans at least by half.
fn is_dense(set: &DataSet, skip: usize) -> bool {
    let id = |key: &[u8]| str::from_utf8(key.get(skip..)?).ok()?.parse::<u64>().ok();
    let spans: HashSet<_> = set.records.iter().filter_map(|record| Some(id(&record.key)? / SPAN)).collect();
    set.records.len() as f64 / (spans.len() as f64 * SPAN as f64) > DENSE
}

/// A limit that all but one value in a thousand keep, in steps of 64.
fn value_limit(set: &DataSet) -> usize {
    let mut lengths: Vec<_> = set.records.iter().map(|record| record.value.len()).collect();
    lengths.sort_unstable();
    let most = lengths.get(lengths.len().saturating_sub(1 + lengths.len() / 1000)).copied().unwrap_or(0);
    most.next_multiple_of(64).clamp(VALUE_LIMITS.0, VALUE_LIMITS.1)
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::Layout;

    use super::super::records::Record;
    use super::*;

    fn derived(keys: &[&str], value: &str) -> String {
        let record =
            |key: &&str| Record { key: key.as_bytes().to_vec(), value: value.as_bytes().to_vec(), expires_in_ms: None };
        let text = derive(&DataSet { name: "set".to_owned(), records: keys.iter().map(record).collect() });
        assert!(Layout::parse_file(&text).is_ok(), "{text}");
        text
    }

    #[test]
    fn the_narrowest_type_that_fits() {
        assert!(derived(&["a:1", "a:200"], "").contains("keys = \"a:{id:int}\"\nbucket = { count = 2 }"));
        assert!(derived(&["a:1", "a:01"], "").contains("keys = \"a:{id}\""));
        assert!(derived(&["00ff", "ab12"], "").contains("keys = \"{id:hex}\""));
        assert!(derived(&["a{b}:x", "a{b}:y"], "").contains("keys = \"a{{b}}:{id}\""));
        let uuid = "s/00268a75-3243-477d-9166-8c78fddf6df6";
        assert!(derived(&[uuid], "").contains("keys = \"s/{id:uuid}\""));
    }

    #[test]
    fn dense_ids_share_spans_and_long_values_raise_the_limit() {
        let keys: Vec<_> = (0..200).map(|id| format!("a:{id}")).collect();
        let keys: Vec<_> = keys.iter().map(String::as_str).collect();
        let text = derived(&keys, &"x".repeat(100));
        assert!(text.contains("{ span = 128 }") && text.contains("value_limit = 128"), "{text}");
    }

    #[test]
    fn every_example_is_right_and_has_one_namespace() {
        for (name, text) in EXAMPLES {
            let layout = Layout::parse_file(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(layout.namespaces().len(), 1, "{name}");
        }
    }
}
