//! What a layout needs of the server's settings that keep buckets small.
//!
//! One field or value over `hash-max-listpack-value`, or one entry over `hash-max-listpack-entries`, makes a bucket a
//! hashtable for good, and it saves nothing then. Before Redis 7.0 both were named `ziplist`.

use super::{Layout, Namespace};

/// How long a field or a value may be.
pub const LISTPACK_VALUE: &str = "hash-max-listpack-value";
/// How many fields a bucket may have.
pub const LISTPACK_ENTRIES: &str = "hash-max-listpack-entries";

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
        let most = |needs: &mut dyn Iterator<Item = ListpackNeed>| needs.max_by_key(|need| need.least);
        [most(&mut value.into_iter()), most(&mut entries.into_iter())].into_iter().flatten().collect()
    }
}

impl ListpackNeed {
    /// What is wrong where a server has less, by the name that it knows the setting by.
    pub fn unmet(&self, name: &str, has: u64) -> String {
        let Self { least, keys, because, .. } = self;
        format!(
            "the server's {name} is {has}, and `{keys}` needs {least} ({because}): buckets over it become hashtables and save \
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
    fn nothing_folded_needs_nothing() {
        assert_eq!(Layout::default().listpack_needs(), []);
    }
}
