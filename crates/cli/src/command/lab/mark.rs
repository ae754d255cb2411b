//! What the lab notes down in a server before it changes anything there, so that a later run can put it back.
//!
//! ```text
//! keyfold:lab   hash   host, pid          who runs
//!                      prefix             before the names of its keys
//!                      setting:NAME       what the setting was
//! ```
//! An old value is written here, and into a file among the results, before the setting is changed. After a SIGKILL
//! the next lab on that server finds the mark, puts the settings back, and removes it.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use keyfold_core::admin::LAB_KEY;
use redis::Cmd;
use rustix::process::{Pid, test_kill_process};

use crate::print::number::plural;
use crate::server::Server;

const SETTING: &str = "setting:";

/// Notes down that this process runs here.
pub(super) fn make(server: &mut Server, prefix: &[u8]) -> anyhow::Result<()> {
    let command = writing(prefix, &BTreeMap::new());
    server.ask::<()>(&command).context("can't note down in the server that a lab runs there; nothing was changed")
}

/// The command that writes the whole mark, also where the server evicted it.
pub(super) fn writing(prefix: &[u8], settings: &BTreeMap<String, String>) -> Cmd {
    let mut command = redis::cmd("HSET");
    command.arg(LAB_KEY).arg("host").arg(host()).arg("pid").arg(std::process::id()).arg("prefix").arg(prefix);
    for (name, old) in settings {
        command.arg(format!("{SETTING}{name}")).arg(old);
    }
    command
}

/// Notes down what a setting was, unless that is known already.
pub(super) fn note(server: &mut Server, name: &str, old: &str) -> anyhow::Result<()> {
    server
        .ask::<()>(redis::cmd("HSETNX").arg(LAB_KEY).arg(format!("{SETTING}{name}")).arg(old))
        .with_context(|| format!("can't note down the server's {name}; it was not changed"))
}

fn read(server: &mut Server) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    server.ask(redis::cmd("HGETALL").arg(LAB_KEY))
}

/// Puts every noted setting back; how many.
fn restore(server: &mut Server) -> anyhow::Result<u64> {
    let mut restored = 0;
    for (field, old) in read(server)? {
        let Some(name) = field.strip_prefix(SETTING) else { continue };
        put_back(server, name, &old)?;
        forget(server, name)?;
        restored += 1;
    }
    Ok(restored)
}

/// Gives a setting its old value.
pub(super) fn put_back(server: &mut Server, name: &str, old: &[u8]) -> anyhow::Result<()> {
    server
        .ask(redis::cmd("CONFIG").arg("SET").arg(name).arg(old))
        .with_context(|| format!("can't put the server's {name} back to {}", old.escape_ascii()))
}

/// Forgets a setting that is what it was.
pub(super) fn forget(server: &mut Server, name: &str) -> anyhow::Result<()> {
    server.ask(redis::cmd("HDEL").arg(LAB_KEY).arg(format!("{SETTING}{name}")))
}

/// Removes the mark. Call when everything else is put back.
pub(super) fn unmake(server: &mut Server) -> anyhow::Result<()> {
    server.ask(redis::cmd("DEL").arg(LAB_KEY))
}

/// What a killed run left, put back; what was done, in a sentence. Refuses while that run may still be alive.
pub(super) fn mend(server: &mut Server, i_know: bool) -> anyhow::Result<Option<String>> {
    let fields = read(server).context("can't look for the mark of an earlier lab (keyfold:lab)")?;
    if fields.is_empty() {
        return Ok(None);
    }
    let text = |name: &str| fields.get(name).map(|value| String::from_utf8_lossy(value).into_owned());
    let (there, pid) = (text("host").unwrap_or_default(), text("pid").unwrap_or_default());
    if there != host() && !i_know {
        bail!(
            "a lab on {there} (process {pid}) runs on this server, or was killed; if it is gone, say --i-know, and its \
             settings are put back"
        );
    }
    if there == host() && is_alive(&pid) {
        bail!("another lab (process {pid}) runs on this server");
    }
    let removed = match fields.get("prefix") {
        Some(prefix) if !prefix.is_empty() => remove(server, prefix)?,
        _ => 0,
    };
    let restored = restore(server)?;
    unmake(server)?;
    Ok(Some(format!(
        "a lab was killed here: {} put back, {} removed",
        plural(restored, "setting"),
        plural(removed, "key")
    )))
}

/// Removes the keys that begin with `prefix`; how many.
pub(super) fn remove(server: &mut Server, prefix: &[u8]) -> anyhow::Result<u64> {
    let pattern = [glob_literal(prefix), b"*".to_vec()].concat();
    let (mut cursor, mut removed) = (0_u64, 0);
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1000);
        let (next, keys): (u64, Vec<Vec<u8>>) = server.ask(&scan)?;
        if !keys.is_empty() {
            removed += server.ask::<u64>(redis::cmd("DEL").arg(&keys))?;
        }
        if next == 0 {
            return Ok(removed);
        }
        cursor = next;
    }
}

/// A pattern that matches these bytes alone.
fn glob_literal(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .flat_map(|byte| {
            let special = b"*?[]^-\\".contains(byte);
            special.then_some(b'\\').into_iter().chain([*byte])
        })
        .collect()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn is_alive(pid: &str) -> bool {
    let pid = pid.parse().ok().filter(|pid: &i32| pid.unsigned_abs() != std::process::id());
    pid.and_then(Pid::from_raw).is_some_and(|pid| test_kill_process(pid).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_matches_itself_alone() {
        assert_eq!(glob_literal(b"lab:"), b"lab:");
        assert_eq!(glob_literal(b"a*[b]?\\"), b"a\\*\\[b\\]\\?\\\\");
    }

    #[test]
    fn one_does_not_take_itself_for_another() {
        assert!(!is_alive(&std::process::id().to_string()));
        assert!(!is_alive("") && !is_alive("x") && !is_alive("0"));
    }
}
