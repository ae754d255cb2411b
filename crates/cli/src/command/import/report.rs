//! What came of an import, counted and in part listed.

use std::io::Write;
use std::process::ExitCode;

use keyfold_core::layout::Layout;
use keyfold_report::number::{count, plural};
use keyfold_report::paper::Paper;
use serde_json::{Value, json};

use super::task::{Item, Outcome};
use crate::config::import::{Import, Mode};
use crate::records::dump::NO_END;

/// Some keys were not written.
const NOT_WRITTEN: u8 = 3;

pub(super) struct Report {
    /// Records read.
    pub(super) records: u64,
    /// Records whose time is over.
    pub(super) expired: u64,
    /// The dump has no last line.
    pub(super) may_be_cut_off: bool,
    written: u64,
    same: u64,
    conflicts: u64,
    refused: u64,
    /// Written keys of each namespace, and last of none.
    namespaces: Vec<(String, u64)>,
    /// Those whose codec has learned nothing yet.
    untrained: Vec<String>,
    listed: Vec<(u64, Vec<u8>, String)>,
    list: usize,
}

impl Report {
    pub(super) fn new(list: usize, layout: &Layout) -> Self {
        let mut namespaces: Vec<_> =
            layout.namespaces().iter().map(|namespace| (namespace.keys.to_string(), 0)).collect();
        namespaces.push(("no namespace".to_owned(), 0));
        let untrained = layout.namespaces().iter().filter(|namespace| namespace.is_untrained());
        let untrained = untrained.map(|namespace| namespace.keys.to_string()).collect();
        let (listed, conflicts) = (Vec::new(), 0);
        Self {
            records: 0,
            expired: 0,
            may_be_cut_off: false,
            written: 0,
            same: 0,
            conflicts,
            refused: 0,
            namespaces,
            untrained,
            listed,
            list,
        }
    }

    pub(super) fn add(&mut self, item: &Item, outcome: Outcome, layout: &Layout) {
        let why = match outcome {
            Outcome::Written => {
                self.written += 1;
                let namespace = layout.locate(&item.record.key).namespace();
                let index = namespace.map_or(self.namespaces.len() - 1, |index| index.0);
                self.namespaces[index].1 += 1;
                return;
            }
            Outcome::Same => {
                self.same += 1;
                return;
            }
            Outcome::Conflict(why) => {
                self.conflicts += 1;
                why.to_owned()
            }
            Outcome::Refused(why) => {
                self.refused += 1;
                why
            }
        };
        if self.listed.len() < self.list {
            self.listed.push((item.line, item.record.key.clone(), why));
        }
    }

    /// Brings what is listed into the order of the dump: answers that need no server come first.
    pub(super) fn sort(&mut self) {
        self.listed.sort_by_key(|(line, ..)| *line);
    }

    /// How far it came, in a few words.
    pub(super) fn state(&self) -> String {
        format!("{} written, {} there already", plural(self.written, "key"), count(self.same + self.conflicts))
    }

    pub(super) fn print(&self, config: &Import, out: &mut Paper) -> anyhow::Result<ExitCode> {
        if config.flags.json {
            out.whole(format_args!("{:#}", self.json(config)))?;
        } else {
            self.print_text(config, out)?;
        }
        let all_there = self.conflicts + self.refused == 0 && !self.may_be_cut_off;
        Ok(if all_there { ExitCode::SUCCESS } else { ExitCode::from(NOT_WRITTEN) })
    }

    fn print_text(&self, config: &Import, out: &mut Paper) -> anyhow::Result<()> {
        let dry = config.mode == Mode::DryRun;
        let written = if dry { "would be written" } else { "written" };
        writeln!(out, "{} of {} {written}", count(self.written), plural(self.records, "key"))?;
        for (namespace, keys) in self.namespaces.iter().filter(|(_, keys)| *keys > 0) {
            writeln!(out, "  {namespace}: {}", count(*keys))?;
        }
        if self.same > 0 {
            writeln!(out, "{} there already, the same", count(self.same))?;
        }
        if self.expired > 0 {
            writeln!(out, "{} expired before now, and passed over", count(self.expired))?;
        }
        if self.conflicts > 0 {
            let what = if dry { "there already" } else { "there already with something else, and left" };
            writeln!(out, "{} {what}; --replace overwrites them", count(self.conflicts))?;
        }
        if self.refused > 0 {
            writeln!(out, "{} refused", count(self.refused))?;
        }
        for (line, key, why) in &self.listed {
            writeln!(out, "  {}:{line}: \"{}\": {why}", config.flags.file.display(), key.escape_ascii())?;
        }
        let more = self.conflicts + self.refused - self.listed.len() as u64;
        if more > 0 {
            writeln!(out, "  … and {} more (--list)", count(more))?;
        }
        if self.may_be_cut_off {
            writeln!(out, "{NO_END}")?;
        }
        let untrained: Vec<_> = self.untrained().collect();
        if !untrained.is_empty() && !dry {
            let url = &config.target.address;
            writeln!(
                out,
                "the codec of {} has learned nothing yet, and its values are stored as they are: run `keyfold train {url}`, and \
                 then `keyfold recode {url}`",
                untrained.join(" and ")
            )?;
        }
        Ok(())
    }

    /// The namespaces that keys were written to whose codec has learned nothing yet.
    fn untrained(&self) -> impl Iterator<Item = &str> {
        let written = self.namespaces.iter().filter(|(keys, written)| *written > 0 && self.untrained.contains(keys));
        written.map(|(keys, _)| keys.as_str())
    }

    fn json(&self, config: &Import) -> Value {
        let listed: Vec<_> = self
            .listed
            .iter()
            .map(|(line, key, why)| json!({ "line": line, "key": key.escape_ascii().to_string(), "why": why }))
            .collect();
        let namespaces: serde_json::Map<_, _> =
            self.namespaces.iter().map(|(name, keys)| (name.clone(), json!(keys))).collect();
        json!({
            "whole": !self.may_be_cut_off,
            "dry_run": config.mode == Mode::DryRun,
            "records": self.records,
            "written": self.written,
            "same": self.same,
            "expired": self.expired,
            "conflicts": self.conflicts,
            "refused": self.refused,
            "namespaces": namespaces,
            "listed": listed,
        })
    }
}
