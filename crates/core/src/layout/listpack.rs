//! What a layout needs of the server's settings that keep buckets small, and parts of large sets and hashes.
//!
//! One field or value over `hash-max-listpack-value`, or one entry over `hash-max-listpack-entries`, makes a bucket a
//! hashtable for good, and it saves nothing then. Before Redis 7.0 both were named `ziplist`. Parts are made for the limits that
//! servers have by default.

use super::{Layout, Namespace};
use crate::collection::CollectionKind;
use crate::collection::parts::Limits;

/// How long a field or a value may be.
pub const LISTPACK_VALUE: &str = "hash-max-listpack-value";
/// How many fields a bucket may have.
pub const LISTPACK_ENTRIES: &str = "hash-max-listpack-entries";

/// How many members a set of integers may have.
const INTSET_ENTRIES: &str = "set-max-intset-entries";
/// How long a member of any other set may be, since Redis 7.2.
const SET_VALUE: &str = "set-max-listpack-value";
/// How many it may have.
const SET_ENTRIES: &str = "set-max-listpack-entries";

/// What a layout needs of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListpackNeed {
    /// The name it has since Redis 7.0.
    pub setting: &'static str,
    /// At least this.
    pub least: u64,
    /// The template of the namespace that needs the most.
    pub keys: String,
    /// The line of the layout that says so.
    pub because: String,
}

impl Layout {
    /// What it needs of each setting; nothing where nothing has buckets.
    pub fn listpack_needs(&self) -> Vec<ListpackNeed> {
        let folding = || self.namespaces().iter().filter(|namespace| namespace.placement.has_buckets());
        let need = |namespace: &Namespace, setting, least, because| {
            let keys = namespace.keys.to_string();
            ListpackNeed { setting, least, keys, because }
        };
        let value = folding().flat_map(|namespace| {
            let limits = [("value_limit", namespace.value_limit), ("field_limit", namespace.field_limit)];
            limits.map(|(field, limit)| need(namespace, LISTPACK_VALUE, limit as u64, format!("{field} = {limit}")))
        });
        let entries = folding().filter_map(|namespace| {
            Some(need(namespace, LISTPACK_ENTRIES, namespace.placement.span()?, namespace.line()))
        });
        let Limits { longest, integers, texts } = Limits::DEFAULT;
        // One that is full has a member more at the moment at which it is halved.
        let settings = [
            (LISTPACK_VALUE, longest, format!("texts of up to {longest} bytes")),
            (LISTPACK_ENTRIES, texts + 1, format!("parts of up to {texts} texts, and one more as they are halved")),
            (
                INTSET_ENTRIES,
                integers + 1,
                format!("parts of up to {integers} integers, and one more as they are halved"),
            ),
            (SET_VALUE, longest, format!("texts of up to {longest} bytes")),
            (SET_ENTRIES, texts + 1, format!("parts of up to {texts} texts, and one more as they are halved")),
        ];
        let parts = folding().flat_map(|namespace| {
            let settings = match namespace.placement.collection() {
                None => &[][..],
                Some(CollectionKind::Hash) => &settings[..2],
                Some(CollectionKind::Set) => &settings,
            };
            let of_large = |(setting, least, why): &(&'static str, usize, String)| {
                need(namespace, setting, *least as u64, format!("large ones lie in {why}"))
            };
            settings.iter().map(of_large).collect::<Vec<_>>()
        });
        let mut needs: Vec<ListpackNeed> = Vec::new();
        for need in value.chain(entries).chain(parts) {
            match needs.iter_mut().find(|other| other.setting == need.setting) {
                Some(other) if other.least < need.least => *other = need,
                Some(_) => {}
                None => needs.push(need),
            }
        }
        needs
    }
}

impl ListpackNeed {
    /// Whether a server that doesn't tell is taken to meet it: all do, unless somebody has lowered the limit.
    pub fn is_met_by_default(&self) -> bool {
        [INTSET_ENTRIES, SET_VALUE, SET_ENTRIES].contains(&self.setting)
    }

    /// What is wrong where a server has less, by the name that it knows the setting by.
    pub fn unmet(&self, name: &str, has: u64) -> String {
        let Self { least, keys, because, .. } = self;
        let what = if because.contains("large ones") { "parts" } else { "buckets" };
        format!(
            "the server's {name} is {has}, and `{keys}` needs {least} ({because}): {what} over it become hashtables and save \
             nothing"
        )
    }

    /// The command that mends that.
    pub fn mend(&self, name: &str) -> String {
        format!("CONFIG SET {name} {}", self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layout_needs_the_most_of_its_namespaces() {
        let layout = Layout::parse_file(
            "[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 1000 }\n\
             [[namespace]]\nkeys = 'b:{id}'\nbucket = { count = 10 }\nvalue_limit = 300\n\
             [[namespace]]\nkeys = 'c:{id}'\nvalue_limit = 9000\n",
        );
        let needs = layout.unwrap().listpack_needs();
        let shown: Vec<_> = needs.iter().map(|need| (need.setting, need.least, need.because.as_str())).collect();
        assert_eq!(
            shown,
            [(LISTPACK_VALUE, 300, "value_limit = 300"), (LISTPACK_ENTRIES, 1000, "bucket = { span = 1000 }")]
        );
    }

    #[test]
    fn large_sets_and_hashes_need_what_their_parts_do() {
        let needs = |kind| {
            let file = format!(
                "[[namespace]]\nkeys = 'a:{{id:int}}'\ntype = '{kind}'\nbucket = {{ span = 16 }}\nvalue_limit = 200\n"
            );
            let needs = Layout::parse_file(&file).unwrap().listpack_needs();
            needs.into_iter().map(|need| (need.setting, need.least)).collect::<Vec<_>>()
        };
        let of_hashes = [(LISTPACK_VALUE, 200), (LISTPACK_ENTRIES, 121)];
        assert_eq!(needs("hash"), of_hashes);
        let of_sets = [(INTSET_ENTRIES, 321), (SET_VALUE, 64), (SET_ENTRIES, 121)];
        assert_eq!(needs("set"), [&of_hashes[..], &of_sets].concat());
    }

    #[test]
    fn nothing_folded_needs_nothing() {
        assert_eq!(Layout::default().listpack_needs(), []);
    }
}
