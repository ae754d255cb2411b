//! A stored layout that doesn't read.

use super::super::finding::{Finding, Kind};
use super::super::mend::Mend;
use super::super::{LayoutState, Observation};

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    let LayoutState::Damaged(reason) = &seen.layout else { return };
    let what = "the server's own layout can't be read: no keyfold will serve this server";
    let mut finding = Finding::problem(Kind::DamagedLayout, "keyfold:layout in database 0", what);
    finding.why.extend(reason.lines().map(str::to_owned));
    finding.mends.push(Mend::command(
        "put back the text that `keyfold layout show --toml` printed of it, ids and epoch included",
        format!("{} -n 0 -x SET keyfold:layout < layout.toml", seen.names.redis_cli),
    ));
    findings.push(finding);
}
