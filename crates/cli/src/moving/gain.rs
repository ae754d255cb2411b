//! Whether folding a namespace saves anything. Where its keys are few, or spread over many buckets, each bucket costs more
//! than it brings together: that is said before anything is moved.

use keyfold_core::collection::MOST_MEMBERS;
use keyfold_core::layout::Namespace;
use keyfold_core::record::FEWEST_IN_PARTS;
use keyfold_report::number::{bytes, count, plural, tenths};
use keyfold_survey::diagnosis::AIM_ENTRIES;

use super::Family;

/// Who gains less than this share of what the keys take has not gained anything: predictions are off by as much.
const LEAST_GAIN: f64 = 0.03;

/// What is to be said of plain keys that would take as much in the places to which they are to go.
pub(super) fn warning(namespace: &Namespace, family: &Family) -> Option<String> {
    let is_folded = namespace.former.as_ref().is_some_and(|former| former.placement.is_plain());
    let Family { keys, old_bytes, new_bytes, .. } = family;
    if !is_folded || *keys == 0 || *new_bytes < old_bytes * (1.0 - LEAST_GAIN) {
        return None;
    }
    let (template, line) = (&namespace.keys, namespace.line());
    let fill = family.filling.mean().map_or_else(String::new, |mean| format!(", {} keys to a bucket", tenths(mean)));
    Some(format!(
        "folding {template} saves nothing: {} take {} as they are, and would take {} by `{line}`{fill}. {}",
        plural(*keys, "key"),
        bytes(*old_bytes),
        bytes(*new_bytes),
        advice(namespace, family)
    ))
}

/// More of them than this spilled are worth a word.
const FEW_SPILLED: f64 = 0.01;
/// A limit is proposed that nearly all need.
const NEARLY_ALL: f64 = 0.99;
/// A limit up to this is proposed: longer values are more than a write should write anew.
const MOST_WANTED: u64 = 2048;

/// What is to be said of sets and hashes that stay, or won't lie in buckets.
pub(super) fn of_large(namespace: &Namespace, family: &Family) -> Vec<String> {
    let (template, limit) = (&namespace.keys, namespace.value_limit as u64);
    let mut said = Vec::new();
    if family.may_expire > 0 {
        said.push(format!(
            "{} of {template} have more than {} fields and stay as they are, because this server has hashes with fields that expire, and \
             doesn't say which: commands on them go on, and the namespace stays between its placements, at the price of a second look for \
             each command",
            plural(family.may_expire, "key"),
            count(MOST_MEMBERS)
        ));
    }
    let within = |share| family.packed.quantile(share);
    let spilled = within(1.0 - FEW_SPILLED).is_some_and(|len| len > limit as f64);
    // What a codec makes of them isn't known here.
    if let Some(wanted) = within(NEARLY_ALL).filter(|_| spilled && namespace.codec.is_none()) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, above 0")]
        let wanted = (wanted.ceil() as u64).next_multiple_of(32);
        let become_of = format!(
            "those of more than {FEWEST_IN_PARTS} members will lie in parts, each of the others in a key of its own, which every \
             write writes anew"
        );
        let mend = if wanted <= MOST_WANTED {
            format!("; `value_limit = {wanted}` has 99 % of them in buckets")
        } else {
            String::new()
        };
        said.push(format!(
            "more than 1 % of the sampled keys of {template} are longer, once packed, than its value_limit of {limit}: {become_of}{mend}"
        ));
    }
    said
}

fn advice(namespace: &Namespace, family: &Family) -> String {
    let keys = family.keys;
    if keys < AIM_ENTRIES {
        return "So few are best left out of the layout".to_owned();
    }
    let is_thin = family.filling.mean().is_some_and(|mean| mean < AIM_ENTRIES as f64 / 4.0);
    // How many buckets a slot should have depends on how many slots there are keys in.
    if !is_thin || namespace.placement.is_by_slot() {
        return "`keyfold plan` says for which keys it pays, and by which rule".to_owned();
    }
    let count = keys.div_ceil(AIM_ENTRIES).max(2);
    format!("They lie too thinly; in the layout: bucket = {{ count = {count} }}")
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::{Layout, LayoutFile};

    use super::super::Filling;
    use super::*;

    /// What is said of so many keys in so many buckets, that take so much before and after.
    fn said(rule: &str, keys: u64, buckets: u64, [old_bytes, new_bytes]: [f64; 2]) -> Option<String> {
        let text = format!("[[namespace]]\nkeys = 'user:{{id:int}}'\nbucket = {rule}\n");
        let planned = Layout::default().plan_fold(&LayoutFile::parse(&text).unwrap()).unwrap();
        let mut filling = Filling::default();
        (0..buckets).for_each(|_| filling.add(keys / buckets));
        let family = Family { keys, old_bytes, new_bytes, filling, ..Family::default() };
        warning(&planned.layout.namespaces()[0], &family)
    }

    #[test]
    fn keys_that_lie_thinly_are_told_how_many_buckets_they_should_have() {
        let said = |rule| said(rule, 1000, 1000, [58_000.0, 90_000.0]).unwrap();
        for rule in ["{ span = 64 }", "{ count = 5000 }"] {
            assert_eq!(
                said(rule),
                format!(
                    "folding user:{{id:int}} saves nothing: 1,000 keys take 56.6 KiB as they are, and would take 87.9 KiB \
                     by `bucket = {rule}`, 1.0 keys to a bucket. They lie too thinly; in the layout: bucket = {{ count = 10 }}"
                )
            );
        }
    }

    #[test]
    fn few_keys_are_best_left_alone_and_long_values_are_for_a_plan() {
        assert!(
            said("{ count = 2 }", 6, 2, [500.0, 490.0]).unwrap().ends_with("So few are best left out of the layout")
        );
        let long = said("{ count = 10 }", 1000, 10, [900_000.0, 905_000.0]).unwrap();
        assert!(long.contains("100.0 keys to a bucket. `keyfold plan` says"), "{long}");
    }

    #[test]
    fn what_saves_is_told_nothing_of() {
        assert_eq!(said("{ count = 10 }", 1000, 10, [58_000.0, 7_000.0]), None);
        assert_eq!(said("{ count = 10 }", 0, 1, [0.0, 0.0]), None);
    }
}
