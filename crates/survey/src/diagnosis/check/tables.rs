//! Hashes that are tables, by what made them so.

use super::super::family::{Cause, Family, Tally};
use super::super::finding::{Finding, Rewrite, Trouble};
use super::super::mend::Mend;
use super::super::settings::{Limit, Origin};
use super::super::{AIM_ENTRIES, FamilyName, Observation};
use super::filling::more_buckets;
use super::{entries, hashes, namespace_of, other_buckets, place_of, rewrite_command};
use crate::number::{grouped, plural};

/// What saves less of the hashes it concerns, in percent, isn't worth a word.
const WORTH_PERCENT: u64 = 5;
/// Families told of one by one for each cause, the costliest first.
const FAMILIES: usize = 8;
/// Less than one part in so many of what is to be saved is told with others.
const SMALL_SHARE: u64 = 100;
/// Up to here a listpack is searched in a few microseconds; beyond, no setting is a good idea.
const ENTRIES_UP_TO: u64 = 1024;
/// The same for one field or value.
const VALUE_BYTES_UP_TO: u64 = 4096;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    for cause in Cause::ALL {
        let mut found: Vec<_> = seen
            .families
            .iter()
            .map(|(name, family)| (name, family, family.tables(cause)))
            .filter(|(name, _, tally)| is_worth_telling(name, tally))
            .collect();
        found.sort_by_key(|(.., tally)| std::cmp::Reverse(saves_bytes(tally)));
        let least = found.iter().map(|(.., tally)| saves_bytes(tally)).sum::<u64>() / SMALL_SHARE;
        let mut told = found.iter().take(FAMILIES).take_while(|(.., tally)| saves_bytes(tally) >= least).count();
        // "One more family" tells less than the family.
        told += usize::from(told + 1 == found.len());
        let rest = found.split_off(told);
        findings.extend(found.into_iter().map(|(name, family, tally)| tell(seen, name, family, tally, cause)));
        if !rest.is_empty() {
            let all = rest.iter().fold(Family::default(), |mut all, (_, family, _)| {
                all.merge(family);
                all
            });
            let name = FamilyName::Pattern(b"*".to_vec());
            let mut finding = tell(seen, &name, &all, all.tables(cause), cause);
            finding.place = format!("{} more families of hashes", grouped(rest.len() as u64));
            findings.push(finding);
        }
    }
}

/// A table in a namespace always is; one that somebody else made is where something is to be saved.
fn is_worth_telling(name: &FamilyName, tally: &Tally) -> bool {
    let saves = saves_bytes(tally);
    let worth = saves > 0 && saves.saturating_mul(100) >= tally.now_bytes.saturating_mul(WORTH_PERCENT);
    tally.hashes > 0 && (worth || matches!(name, FamilyName::Namespace(_)))
}

fn saves_bytes(tally: &Tally) -> u64 {
    tally.now_bytes.saturating_sub(tally.packed_bytes.min(tally.bucketed_bytes))
}

fn tell(seen: &Observation, name: &FamilyName, family: &Family, tally: &Tally, cause: Cause) -> Finding {
    let place = place_of(name, seen);
    let entries_name = seen.settings.name_of(Limit::Entries);
    let value_name = seen.settings.name_of(Limit::ValueBytes);
    let (entries_limit, value_limit) =
        (grouped(seen.settings.hash_entries.value), grouped(seen.settings.hash_value_bytes.value));
    let (some, most, longest) = (hashes(tally.hashes), grouped(tally.most_entries), grouped(tally.longest_bytes));
    let be = if tally.hashes == 1 { "is a hashtable" } else { "are hashtables" };
    let (kind, what) = match cause {
        Cause::Entries => (
            Trouble::TooManyEntries,
            format!("{some} {be}: up to {most} entries, and {entries_name} is {entries_limit}"),
        ),
        Cause::LongField => (
            Trouble::LongField,
            format!("{some} {be}: fields of up to {longest} bytes, and {value_name} is {value_limit}"),
        ),
        Cause::LongValue => (
            Trouble::LongValue,
            format!("{some} {be}: values of up to {longest} bytes, and {value_name} is {value_limit}"),
        ),
        Cause::FieldExpiry => (Trouble::FieldExpiry, format!("{some} {be}: fields have an expiry of the server's own")),
        Cause::Past => (Trouble::StillTable, format!("{some} {be}, though nothing in them is over the limits now")),
    };
    let mut finding = Finding::problem(kind, place, what);
    finding.cost_bytes = Some(saves_bytes(tally));
    finding.examples.clone_from(&tally.examples);
    finding.why = why(seen, tally, cause);
    let raised = match cause {
        Cause::Entries => raise_entries(seen, tally),
        Cause::LongField | Cause::LongValue => raise_value(seen, tally),
        Cause::FieldExpiry | Cause::Past => None,
    };
    let raises_a_limit = raised.is_some();
    finding.mends = raised.into_iter().chain(mends(seen, name, family, tally, cause)).collect();
    finding.rewrite = match cause {
        Cause::Past => Rewrite::Now,
        _ if raises_a_limit => Rewrite::After,
        _ => Rewrite::No,
    };
    finding
}

fn why(seen: &Observation, tally: &Tally, cause: Cause) -> Vec<String> {
    let mut why = vec![];
    match cause {
        Cause::Entries if tally.long_fields > 0 => {
            let value = seen.settings.name_of(Limit::ValueBytes);
            let long = plural(tally.long_fields, "field");
            why.push(format!("{long} in them have a name or a value over {value}, too"));
        }
        Cause::LongField | Cause::LongValue => {
            let (long, all) = (grouped(tally.long_fields), entries(tally.entries));
            why.push(format!("{long} of {all} are too long, and each unpacks its whole hash"));
        }
        Cause::Past => {
            why.push("one entry over a limit makes a hashtable for good: it never turns back by itself".to_owned());
        }
        Cause::Entries | Cause::FieldExpiry => {}
    }
    why.extend(never_loaded(seen, cause));
    why
}

/// The likely reason why a limit is lower than somebody meant.
fn never_loaded(seen: &Observation, cause: Cause) -> Option<String> {
    let limit = match cause {
        Cause::Entries => Limit::Entries,
        Cause::LongField | Cause::LongValue => Limit::ValueBytes,
        Cause::FieldExpiry | Cause::Past => return None,
    };
    let setting = seen.settings.limit(limit);
    let is_default = setting.value == limit.default_value() && setting.origin == Origin::Server;
    let loaded = seen.config_file.loaded.as_deref()?;
    (is_default && loaded.is_empty()).then(|| {
        format!(
            "{} is at its default, and the server runs without a configuration file: if one was meant to raise \
             it, it was never loaded",
            seen.settings.name_of(limit)
        )
    })
}

/// What mends it beside a higher limit.
fn mends(seen: &Observation, name: &FamilyName, family: &Family, tally: &Tally, cause: Cause) -> Vec<Mend> {
    match cause {
        Cause::Past => {
            let rewrite = Mend::command("write them anew, one at a time, while clients go on", rewrite_command(seen));
            vec![rewrite.saving(tally.now_bytes, tally.packed_bytes)]
        }
        Cause::FieldExpiry => {
            let advice = "remove the fields' expiries (HPERSIST) and write the hashes anew; keyfold keeps expiries \
                          within values, which any version packs";
            vec![Mend::advice(advice).saving(tally.now_bytes, tally.packed_bytes)]
        }
        Cause::Entries | Cause::LongField | Cause::LongValue => {
            right_bucket(seen, name, family, tally).into_iter().collect()
        }
    }
}

/// A limit that is too low is raised to the next power of two: what grows by one beyond the largest of today would be a hashtable.
fn with_room(seen: &Observation, limit: Limit, least: u64) -> u64 {
    if least <= seen.settings.limit(limit).value { least } else { least.next_power_of_two() }
}

fn raise_entries(seen: &Observation, tally: &Tally) -> Option<Mend> {
    if tally.most_entries > ENTRIES_UP_TO || tally.longest_bytes > VALUE_BYTES_UP_TO {
        return None;
    }
    let limits = [(Limit::Entries, tally.most_entries), (Limit::ValueBytes, tally.longest_bytes)];
    let limits = limits.map(|(limit, least)| (limit, with_room(seen, limit, least)));
    let slow = if tally.most_entries > 256 {
        ", which makes reads slower: a listpack of 1,000 entries takes some 4 µs to search, one of 100 less than 1"
    } else {
        ""
    };
    let mend = Mend::limits(format!("raise the limit and write them anew{slow}"), seen, &limits);
    Some(mend.with_line("shell", rewrite_command(seen)).saving(tally.now_bytes, tally.packed_bytes))
}

/// Up to what all, or all but a few outliers, need.
fn raise_value(seen: &Observation, tally: &Tally) -> Option<Mend> {
    let within = || tally.by_length.iter().filter(|class| class.hashes > 0 && class.longest_bytes <= VALUE_BYTES_UP_TO);
    let least = within().map(|class| class.longest_bytes).max()?;
    let saves: u64 = within().map(|class| class.saves_bytes).sum();
    let left = tally.hashes - within().map(|class| class.hashes).sum::<u64>();
    let rest = match left {
        0 => String::new(),
        left => format!("; {} with longer ones stay as they are", hashes(left)),
    };
    let limits = [(Limit::ValueBytes, with_room(seen, Limit::ValueBytes, least))];
    let mend = Mend::limits(format!("raise the limit and write them anew{rest}"), seen, &limits);
    let after = tally.now_bytes.saturating_sub(saves);
    (saves > 0).then(|| mend.with_line("shell", rewrite_command(seen)).saving(tally.now_bytes, after))
}

/// What keeps hashes small whatever the settings: fewer entries to each, and long values elsewhere.
fn right_bucket(seen: &Observation, name: &FamilyName, family: &Family, tally: &Tally) -> Option<Mend> {
    let namespace = namespace_of(name, seen);
    let mend = match namespace {
        // How many keys there will be isn't known from the buckets while some are still on their way.
        Some(namespace) if namespace.is_moving() => return None,
        Some(namespace) if namespace.placement.span().is_some_and(|span| span > AIM_ENTRIES) => {
            other_buckets(seen, "smaller buckets", Some("bucket = { span = 128 }".to_owned()))
        }
        Some(namespace) if tally.most_entries > seen.settings.hash_entries.value => {
            more_buckets(seen, namespace, &family.fill)
        }
        Some(_) => return None,
        None if tally.most_entries > seen.settings.hash_entries.value => Mend::advice(format!(
            "no setting, but {AIM_ENTRIES} entries to a hash instead of {}{}: in listpacks under every default, and \
             fast to read. Or leave them to clients as they are, and have `keyfold plan {}` weigh what they take folded",
            grouped(tally.entries / tally.hashes.max(1)),
            if family.has_integer_fields() {
                format!(" (divide ids by {AIM_ENTRIES}; `keyfold fold --from buckets` does so without a new release)")
            } else {
                String::new()
            },
            seen.names.url
        )),
        None => Mend::advice(
            "no setting, but values over the limit in keys of their own, as keyfold spills them: one outlier then \
             unpacks nothing",
        ),
    };
    (tally.bucketed_bytes < tally.now_bytes).then(|| mend.saving(tally.now_bytes, tally.bucketed_bytes))
}
