//! What each namespace holds.

use keyfold_core::layout::Layout;
use keyfold_report::number::{count, tenths};
use keyfold_report::room::Room;
use keyfold_report::table::{Column, render};
use serde_json::{Value, json};

use crate::records::walk::{Home, Sight};

/// Counts of a keyspace.
pub(crate) struct Counted {
    /// Keys under their own names.
    plain: u64,
    namespaces: Vec<Namespace>,
}

#[derive(Clone, Default)]
struct Namespace {
    keys: u64,
    spilled: u64,
    in_parts: u64,
    buckets: u64,
    fields: u64,
    largest: u64,
    expired: u64,
}

impl Counted {
    pub(crate) fn new(layout: &Layout) -> Self {
        Self { plain: 0, namespaces: vec![Namespace::default(); layout.namespaces().len()] }
    }

    pub(crate) fn add(&mut self, sight: &Sight<'_>) {
        let namespaces = &mut self.namespaces;
        match sight {
            Sight::Record(_, Home::Plain) => self.plain += 1,
            Sight::Record(_, Home::Zipped(index) | Home::Bucket(index)) => namespaces[index.0].keys += 1,
            Sight::Record(_, Home::Spilled(index)) => {
                namespaces[index.0].keys += 1;
                namespaces[index.0].spilled += 1;
            }
            Sight::Record(_, Home::InParts(index)) => {
                namespaces[index.0].keys += 1;
                namespaces[index.0].in_parts += 1;
            }
            Sight::Bucket(index, fields) => {
                let namespace = &mut namespaces[index.0];
                namespace.buckets += 1;
                namespace.fields += *fields as u64;
                namespace.largest = namespace.largest.max(*fields as u64);
            }
            Sight::Expired(index) => namespaces[index.0].expired += 1,
            Sight::Finding(_) | Sight::Drawn { .. } => {}
        }
    }

    pub(crate) fn json(&self, layout: &Layout) -> Value {
        let namespaces: Vec<_> = layout
            .iter()
            .map(|(index, rules)| {
                let Namespace { keys, spilled, in_parts, buckets, fields, largest, expired } = &self.namespaces[index.0];
                json!({
                    "names": rules.names(), "template": rules.keys.source(), "keys": keys, "spilled": spilled, "in_parts": in_parts,
                    "buckets": buckets, "fields": fields, "largest_bucket": largest, "expired": expired,
                })
            })
            .collect();
        json!({ "plain": self.plain, "namespaces": namespaces })
    }

    /// What the counts of a table mean that speak of neither keys nor buckets, where there are any.
    pub(crate) fn words(&self) -> Option<String> {
        let some = |of: fn(&Namespace) -> u64| self.namespaces.iter().any(|namespace| of(namespace) > 0);
        let spilled = some(|namespace| namespace.spilled)
            .then_some("spilled: values longer than the namespace's value limit, each in a key of its own");
        let in_parts = some(|namespace| namespace.in_parts)
            .then_some("in parts: sets and hashes longer than that, each in many keys that the server packs");
        let expired = some(|namespace| namespace.expired)
            .then_some("expired: over for clients, and not yet removed by the sweep of a keyfold");
        let words: Vec<_> = [spilled, in_parts, expired].into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join("\n"))
    }

    pub(crate) fn table(&self, layout: &Layout, room: Room) -> String {
        let heads = [
            Column::name("keys of"),
            Column::number("keys"),
            Column::number("buckets").rank(2),
            Column::number("mean").rank(3),
            Column::number("largest").rank(4),
            Column::number("spilled").rank(1),
            Column::number("in parts").rank(1),
            Column::number("expired").rank(1),
        ];
        let mut rows: Vec<Vec<String>> = layout
            .iter()
            .map(|(index, rules)| {
                let Namespace { keys, spilled, in_parts, buckets, fields, largest, expired } =
                    &self.namespaces[index.0];
                let mean = if *buckets == 0 { "–".to_owned() } else { tenths(*fields as f64 / *buckets as f64) };
                let counts = [*largest, *spilled, *in_parts, *expired].map(count);
                let head = [rules.keys.to_string(), count(*keys), count(*buckets), mean];
                head.into_iter().chain(counts).collect()
            })
            .collect();
        let blank = || "–".to_owned();
        rows.push(vec![
            "no namespace".to_owned(),
            count(self.plain),
            blank(),
            blank(),
            blank(),
            blank(),
            blank(),
            blank(),
        ]);
        render(&heads, rows, room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_table_counts_is_explained_where_there_is_any() {
        let words = |spilled, expired| {
            let namespaces = vec![Namespace::default(), Namespace { spilled, expired, ..Namespace::default() }];
            Counted { plain: 3, namespaces }.words()
        };
        assert_eq!(words(0, 0), None);
        assert!(words(2, 0).is_some_and(|said| said.starts_with("spilled: ") && !said.contains("expired: ")));
        assert!(words(0, 1).is_some_and(|said| said.starts_with("expired: ")));
        assert!(words(2, 1).is_some_and(|said| said.lines().count() == 2));
    }
}
