//! Sets and hashes that an application seems to have split by hand, so that the server packs each: keyfold does so by itself.

use keyfold_core::collection::{CollectionKind, MOST_MEMBERS};

use super::super::finding::{Finding, Trouble};
use super::super::mend::Mend;
use super::super::partitions::{Partitioned, PartitionedName, Verdict};
use super::super::{AIM_ENTRIES, Observation};
use crate::number::{grouped, plural};

/// Where less is saved, in percent, memory isn't what they cost.
const WORTH_PERCENT: u64 = 5;
/// `{ count = N }` wants more buckets than one.
const FEWEST_BUCKETS: u64 = 2;
/// How clients reach a keyfold that was started as the lines say.
const KEYFOLD: &str = "127.0.0.1:6380";

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    findings.extend(seen.partitions.iter().filter_map(|(name, family)| by_hand(seen, name, family)));
}

fn by_hand(seen: &Observation, name: &PartitionedName, family: &Partitioned) -> Option<Finding> {
    let verdict = family.verdict().filter(|verdict| verdict.are_disjoint)?;
    let (now, after) = (family.bytes, verdict.folded_bytes);
    let (several, member) = match name.kind() {
        CollectionKind::Set => ("sets", "member"),
        CollectionKind::Hash => ("hashes", "field"),
    };
    let last = family.partitions() - 1;
    let (keys, separator) = (family.logical_keys(), name.separator());
    let template = name.template();
    let place = match name.database() {
        0 => format!("{several} {template}{separator}0 to {last}"),
        database => format!("{several} {template}{separator}0 to {last} in database {database}"),
    };
    let what = format!(
        "{} {several} look like {} `{template}`, split by hand into {} each: {} in {}, and in some {} once keyfold keeps them",
        grouped(family.keys()),
        grouped(keys),
        family.partitions(),
        plural(family.members, member),
        plural(now, "byte"),
        grouped(after),
    );
    let mut finding = Finding::note(Trouble::HandmadePartitions, place, what);
    let saves = now.saturating_sub(after);
    let is_worth_it = saves.saturating_mul(100) >= now.saturating_mul(WORTH_PERCENT);
    let are_too_large = family.members_at_most() > MOST_MEMBERS;
    finding.cost_bytes = (is_worth_it && !are_too_large).then_some(saves);
    finding.examples.clone_from(&family.examples);
    finding.why.push(format!("no {member} that was looked at is in two of one key"));
    finding
        .why
        .push("where the number means something, as that of an hour or a page does, leave them as they are".into());
    finding.mends.push(if are_too_large {
        Mend::advice(format!(
            "leave them as they are: a key may have more than {}, and joining these would hold up the server too long",
            plural(MOST_MEMBERS, member)
        ))
    } else if verdict.expires {
        Mend::advice(format!(
            "some expire, which a {} in one key can only do as a whole: take their expiry off (PERSIST), and ask again",
            name.kind()
        ))
        .saving(now, after)
    } else {
        taken_over(seen, name, family, verdict).saving(now, after)
    });
    Some(finding)
}

fn taken_over(seen: &Observation, name: &PartitionedName, family: &Partitioned, verdict: &Verdict) -> Mend {
    let (kind, template) = (name.kind(), name.template());
    let besides = if verdict.is_beginning_used { ", which some are already" } else { "" };
    let what = format!(
        "keep each as one {kind} `{template}`{besides}, in parts that keyfold makes; what the application does meanwhile, and how \
         {}, is in docs/sources.md, \"Sets and hashes in partitions\"",
        match kind {
            CollectionKind::Set => "to begin",
            CollectionKind::Hash => "the fields are joined",
        }
    );
    let count = family.logical_keys().div_ceil(AIM_ENTRIES).max(FEWEST_BUCKETS);
    let url = &seen.names.url;
    let mut mend = Mend::advice(what);
    for line in [
        "[[namespace]]".to_owned(),
        format!("keys = \"{template}\""),
        format!("type = \"{kind}\""),
        format!("bucket = {{ count = {count} }}"),
    ] {
        mend = mend.with_line("layout", line);
    }
    let mend = mend
        .with_line("shell", format!("keyfold serve --upstream {url} --listen {KEYFOLD}"))
        .with_line("shell", format!("keyfold fold {url} --layout layout.toml"));
    match kind {
        CollectionKind::Set => mend.with_line("shell", joined(name, family.partitions() - 1)),
        CollectionKind::Hash => mend,
    }
}

/// Unites the sets of each beginning under it, and takes out of each what the union has: so nothing is lost, whatever fails.
fn joined(name: &PartitionedName, last: usize) -> String {
    let (host, port) = KEYFOLD.split_once(':').unwrap_or((KEYFOLD, "6380"));
    let client = match name.database() {
        0 => format!("redis-cli -h {host} -p {port}"),
        database => format!("redis-cli -h {host} -p {port} -n {database}"),
    };
    let (glob, expression, separator) = (name.glob(), name.expression(), name.separator());
    let all = format!("$(seq -f \"$key{separator}%g\" 0 {last})");
    format!(
        "{client} --scan --pattern '{glob}' | sed -nE 's/{expression}/\\1/p' | sort -u | while read -r key; do \
         echo SUNIONSTORE $key $key {all}; for part in {all}; do echo SDIFFSTORE $part $part $key; done; done | \
         {client} | grep -v '^[0-9]*$'"
    )
}
