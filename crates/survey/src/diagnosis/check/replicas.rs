//! Replicas whose limits are lower: what is a listpack here is a hashtable there, and comes to be one here with the next
//! failover.

use super::super::finding::{Finding, Severity, Trouble};
use super::super::mend::Mend;
use super::super::settings::{Limit, Origin, Settings};
use super::super::{Observation, ServerNames};
use super::settings::need;
use crate::number::grouped;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    for replica in &seen.replicas {
        match &replica.settings {
            Ok(settings) => {
                let limits = [Limit::ValueBytes, Limit::Entries].into_iter();
                findings.extend(limits.filter_map(|limit| lower(seen, &replica.names, settings, limit)));
            }
            Err(why) => {
                let what = format!("this replica can't be asked for its limits: {why}");
                findings.push(Finding::note(Trouble::LimitUnknown, replica.names.url.clone(), what));
            }
        }
    }
}

fn lower(seen: &Observation, names: &ServerNames, settings: &Settings, limit: Limit) -> Option<Finding> {
    let (has, here) = (settings.limit(limit), seen.settings.limit(limit).value);
    let needed = need(seen, limit).map_or(0, |(least, ..)| least);
    let least = here.max(needed);
    if has.origin != Origin::Server || has.value >= least {
        return None;
    }
    let name = settings.name_of(limit);
    let than = if needed > has.value {
        format!("the layout needs {}", grouped(needed))
    } else {
        format!("it is {} here", grouped(here))
    };
    let what = format!("{name} is {} at the replica {}, and {than}", grouped(has.value), names.url);
    let mut finding = Finding::problem(Trouble::LowerLimitAtReplica, name, what);
    if needed <= has.value {
        finding.severity = Severity::Note;
    }
    let why = "a hash over it is a hashtable there, and nowhere anything else once that replica is the primary";
    finding.why.push(why.to_owned());
    let mend = "raise it there, and restart that replica: what is a hashtable there stays one until then";
    finding.mends.push(Mend::limits_of(mend, names, settings, &[(limit, least)]));
    Some(finding)
}
