//! What mends a finding: the very lines to type, for a server of one's own and for managed ones.

use super::settings::{Limit, Settings};
use super::{Observation, ServerNames};

/// One line to type, or to put somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Where it goes: `shell`, `redis.conf`, `AWS`, `Google Cloud`, `layout`.
    pub way: &'static str,
    /// The line.
    pub text: String,
}

/// A way to mend a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mend {
    /// What to do, in a sentence.
    pub what: String,
    /// The lines that do it: the first now, the others for good, or elsewhere.
    pub lines: Vec<Line>,
    /// The limits that it takes higher; their lines come first, once all findings are known.
    pub(super) raises: Vec<Raise>,
    /// What is left of the memory concerned.
    pub after_bytes: Option<u64>,
    /// What that saves.
    pub saves_bytes: Option<u64>,
}

/// A limit of some server that is to be so high at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Raise {
    names: ServerNames,
    /// What that server calls it.
    name: &'static str,
    limit: Limit,
    least: u64,
}

/// Writes the lines of all limits to be raised: each to the highest that any of these asks for, so that no command takes back
/// what one before it did.
pub(super) fn write_limits(mends: &mut [&mut Mend]) {
    let raises: Vec<Raise> = mends.iter().flat_map(|mend| &mend.raises).cloned().collect();
    let highest = |limit| raises.iter().filter(|raise| raise.limit == limit).map(|raise| raise.least).max();
    for mend in mends {
        let lines = mend.raises.iter().flat_map(|raise| {
            let value = highest(raise.limit).unwrap_or(raise.least).to_string();
            setting_lines(&raise.names, raise.name, &value)
        });
        mend.lines.splice(0..0, lines);
    }
}

impl Mend {
    /// Advice without a command.
    pub(super) fn advice(what: impl Into<String>) -> Self {
        Self { what: what.into(), lines: Vec::new(), raises: Vec::new(), after_bytes: None, saves_bytes: None }
    }

    /// A command of the shell.
    pub(super) fn command(what: impl Into<String>, command: impl Into<String>) -> Self {
        Self::advice(what).with_line("shell", command)
    }

    /// Other settings of the server.
    pub(super) fn settings(what: impl Into<String>, seen: &Observation, changes: &[(&str, String)]) -> Self {
        let mut mend = Self::advice(what);
        mend.lines.extend(changes.iter().flat_map(|(name, value)| setting_lines(&seen.names, name, value)));
        mend
    }

    /// Higher limits, those that are high enough left out.
    pub(super) fn limits(what: impl Into<String>, seen: &Observation, limits: &[(Limit, u64)]) -> Self {
        Self::limits_of(what, &seen.names, &seen.settings, limits)
    }

    /// Higher limits of this server.
    pub(super) fn limits_of(
        what: impl Into<String>,
        names: &ServerNames,
        settings: &Settings,
        limits: &[(Limit, u64)],
    ) -> Self {
        let raises = limits
            .iter()
            .filter(|(limit, least)| settings.limit(*limit).value < *least)
            .map(|&(limit, least)| Raise { names: names.clone(), name: settings.name_of(limit), limit, least });
        Self { raises: raises.collect(), ..Self::advice(what) }
    }

    pub(super) fn with_line(mut self, way: &'static str, text: impl Into<String>) -> Self {
        self.lines.push(Line { way, text: text.into() });
        self
    }

    pub(super) fn saving(self, now_bytes: u64, after_bytes: u64) -> Self {
        Self { after_bytes: Some(after_bytes), saves_bytes: Some(now_bytes.saturating_sub(after_bytes)), ..self }
    }
}

/// Settings that Memorystore for Redis lets one change; the limits of listpacks are not among them
/// (its page of supported configurations).
const MEMORYSTORE: [&str; 2] = ["activedefrag", "maxmemory-policy"];

fn setting_lines(names: &ServerNames, name: &str, value: &str) -> Vec<Line> {
    let ServerNames { redis_cli, .. } = names;
    let line = |way, text| Line { way, text };
    let mut lines = vec![
        line("shell", format!("{redis_cli} CONFIG SET {name} {value}")),
        line("redis.conf", format!("{name} {value}")),
        line(
            "AWS",
            format!(
                "aws elasticache modify-cache-parameter-group --cache-parameter-group-name GROUP \
                 --parameter-name-values ParameterName={name},ParameterValue={value}"
            ),
        ),
    ];
    if MEMORYSTORE.contains(&name) {
        let text =
            format!("gcloud redis instances update INSTANCE --region REGION --update-redis-config {name}={value}");
        lines.push(line("Google Cloud", text));
    }
    lines
}
