//! The status as text and as JSON.

use std::io::Write;

use keyfold_report::number::{count, decimals, plural, size, tenths};
use keyfold_report::paper::Paper;
use keyfold_report::room::Room;
use keyfold_report::table::{Column, render};
use serde_json::{Value, json};

use super::Status;
use super::saving::Namespace;
use crate::moving::announce;
use crate::print::folded::folded_json;
use crate::print::held;

impl Status {
    pub(super) fn print(&self, out: &mut Paper) -> anyhow::Result<()> {
        let nodes = match self.primaries {
            0 => String::new(),
            primaries => format!(", a cluster of {}", plural(primaries as u64, "primary node")),
        };
        writeln!(out, "{} at {}{nodes}\n", self.server, self.address)?;
        let mut line = |name: &str, text: &str| writeln!(out, "{name:<9} {text}");
        match &self.layout {
            None => line("layout", "none: keyfold has folded nothing here")?,
            Some(layout) => {
                let namespaces = plural(layout.namespaces().len() as u64, "namespace");
                let doubt = if layout.is_in_doubt() { ", put back after a loss and in doubt" } else { ", in force" };
                line("layout", &format!("{namespaces}; change number {} of it{doubt}", layout.epoch()))?;
            }
        }
        match self.open_moves.as_slice() {
            [] => line("moves", "none open")?,
            open => open.iter().try_for_each(|one| line("moves", one))?,
        }
        self.progress.iter().try_for_each(|progress| line("", &announce::line(progress)))?;
        self.keyfolds(&mut line)?;
        let (used, rss) = (self.memory.used_bytes, self.memory.rss_bytes);
        line("memory", &format!("{} used, {} held by the process (RSS)", size(used), size(rss)))?;
        held::advice(used, rss).iter().try_for_each(|advice| line("", advice))?;
        line("saved", &self.saved())?;
        if !self.savings.namespaces.is_empty() {
            writeln!(out, "\n{}", self.namespaces(out.room()))?;
        }
        Ok(())
    }

    fn keyfolds(&self, line: &mut dyn FnMut(&str, &str) -> std::io::Result<()>) -> std::io::Result<()> {
        let found = &self.keyfolds;
        let mut head = "keyfolds";
        if found.members.is_empty() || found.are_hidden {
            let why = match found.are_hidden {
                true => "not known: the server doesn't show its clients (CLIENT LIST)",
                false => "none is connected",
            };
            line(std::mem::take(&mut head), why)?;
        }
        for said in found.lines() {
            line(std::mem::take(&mut head), &said)?;
        }
        Ok(())
    }

    fn saved(&self) -> String {
        let savings = &self.savings;
        let sampled = match savings.seen < savings.keys {
            true => format!(", by {} of {} of the server", count(savings.seen), plural(savings.keys, "key")),
            false => String::new(),
        };
        let without = match savings.unweighed.as_slice() {
            [] => String::new(),
            names => format!("; {} not counted, as no value of it was met in the sample", names.join(", ")),
        };
        match savings.saved_bytes {
            _ if savings.namespaces.is_empty() => "nothing: no key is folded".to_owned(),
            None => "not known: no folded value was met in the sample".to_owned(),
            Some(bytes) if bytes < 0.0 => {
                format!("nothing: about {} more than as plain keys{sampled}{without}", size(whole(-bytes)))
            }
            Some(bytes) => format!("about {} less than as plain keys{sampled}{without}", size(whole(bytes))),
        }
    }

    fn namespaces(&self, room: Room) -> String {
        let heads = [
            Column::name("keys"),
            Column::number("number"),
            Column::number("bytes, plain").rank(3),
            Column::number("folded").rank(2),
            Column::number("ratio"),
            Column::sentence("placement").rank(1),
        ];
        let row = |one: &Namespace| {
            let (now, plain) = (one.folded.bytes_per_key(), one.plain_bytes_per_key);
            let text = |number: Option<String>| number.unwrap_or_else(|| "–".to_owned());
            vec![
                one.folded.name.clone(),
                decimals(one.folded.keys.value, 0),
                text(plain.map(tenths)),
                tenths(now),
                text(plain.map(|plain| format!("{:.2}×", plain / now.max(1e-9)))),
                one.folded.line.clone(),
            ]
        };
        render(&heads, self.savings.namespaces.iter().map(row), room)
    }

    pub(super) fn json(&self) -> Value {
        let keyfolds = self.keyfolds.members.iter().map(|(name, member)| {
            json!({ "name": format!("keyfold:{name}"), "hosts": member.hosts, "connections": member.connections })
        });
        let namespaces = self.savings.namespaces.iter().map(|one| {
            let mut shown = folded_json(&one.folded);
            shown["plain_bytes_per_key"] = one.plain_bytes_per_key.into();
            shown
        });
        json!({
            "server": self.server,
            "address": self.address,
            "primaries": self.primaries,
            "epoch": self.layout.as_ref().map(|layout| layout.epoch().0),
            "in_doubt": self.layout.as_ref().is_some_and(keyfold_core::layout::Layout::is_in_doubt),
            "open_moves": self.open_moves,
            "move_progress": self.progress,
            "keyfolds": keyfolds.collect::<Vec<_>>(),
            "writers": self.keyfolds.writers,
            "clients_hidden": self.keyfolds.are_hidden,
            "memory": { "used_bytes": self.memory.used_bytes, "rss_bytes": self.memory.rss_bytes },
            "keys": { "seen": self.savings.seen, "total": self.savings.keys },
            "saved_bytes": self.savings.saved_bytes.map(f64::round),
            "not_counted": self.savings.unweighed,
            "namespaces": namespaces.collect::<Vec<_>>(),
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a server, not negative")]
fn whole(bytes: f64) -> u64 {
    bytes.round() as u64
}
