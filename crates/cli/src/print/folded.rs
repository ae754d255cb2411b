//! What a server's layout has folded, as `keyfold analyze` and `keyfold plan` show it to programs.

use keyfold_survey::survey::Folded;
use serde_json::{Value, json};

/// One namespace. Numbers of buckets and the like are of the keys that were seen.
pub(crate) fn folded_json(one: &Folded) -> Value {
    json!({
        "keys": one.name,
        "placement": one.line,
        "moving_from": one.moving_from,
        "count": one.keys.value.round(),
        "count_within": one.keys.within.round(),
        "bytes": one.bytes.value.round(),
        "bytes_within": one.bytes.within.round(),
        "bytes_per_key": one.bytes_per_key(),
        "physical_keys": one.physical().round(),
        "buckets_seen": one.held.buckets,
        "hashtables_seen": one.held.tables,
        "spilled_seen": one.held.spills,
    })
}
