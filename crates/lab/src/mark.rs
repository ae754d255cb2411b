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
use std::iter;

use anyhow::{Context, bail};
use keyfold_core::admin::LAB_KEY;
use keyfold_core::glob;
use keyfold_core::walk::KeyWalk;
use rustix::process::{Pid, test_kill_process};

use keyfold_report::number::plural;
use keyfold_server::{Commands, Server};

const SETTING: &str = "setting:";

/// Notes down that this process runs here.
pub(super) fn make(server: &mut Server, prefix: &[u8]) -> anyhow::Result<()> {
    let made = server.query_all::<()>(&writing(prefix, &BTreeMap::new()));
    made.context("can't note down in the server that a lab runs there; nothing was changed").map(drop)
}

/// The command that writes the whole mark, also where the server evicted it.
pub(super) fn writing(prefix: &[u8], settings: &BTreeMap<String, String>) -> Commands {
    let (host, pid) = (host(), std::process::id().to_string());
    let mut command: Vec<&[u8]> =
        vec![b"HSET", LAB_KEY, b"host", host.as_bytes(), b"pid", pid.as_bytes(), b"prefix", prefix];
    let settings: Vec<_> = settings.iter().map(|(name, old)| (format!("{SETTING}{name}"), old)).collect();
    command.extend(settings.iter().flat_map(|(name, old)| [name.as_bytes(), old.as_bytes()]));
    let mut commands = Commands::default();
    commands.push(&command);
    commands
}

/// Notes down what a setting was, unless that is known already.
pub(super) fn note(server: &mut Server, name: &str, old: &str) -> anyhow::Result<()> {
    server
        .ask::<()>(&[b"HSETNX", LAB_KEY, format!("{SETTING}{name}").as_bytes(), old.as_bytes()])
        .with_context(|| format!("can't note down the server's {name}; it was not changed"))
}

fn read(server: &mut Server) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let pairs: Vec<Vec<u8>> = server.ask(&[b"HGETALL", LAB_KEY])?;
    Ok(pairs.chunks_exact(2).map(|pair| (String::from_utf8_lossy(&pair[0]).into_owned(), pair[1].clone())).collect())
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
        .ask(&[b"CONFIG", b"SET", name.as_bytes(), old])
        .with_context(|| format!("can't put the server's {name} back to {}", old.escape_ascii()))
}

/// Forgets a setting that is what it was.
pub(super) fn forget(server: &mut Server, name: &str) -> anyhow::Result<()> {
    server.ask(&[b"HDEL", LAB_KEY, format!("{SETTING}{name}").as_bytes()])
}

/// Removes the mark. Call when everything else is put back.
pub(super) fn unmake(server: &mut Server) -> anyhow::Result<()> {
    server.ask(&[b"DEL", LAB_KEY])
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
    let (mut walk, mut removed) = (KeyWalk::new(1000).matching(&glob::starting_with(prefix)), 0);
    while let Some(keys) = server.next_names(&mut walk)? {
        if !keys.is_empty() {
            let command: Vec<&[u8]> = iter::once(&b"DEL"[..]).chain(keys.iter().map(Vec::as_slice)).collect();
            removed += server.ask::<u64>(&command)?;
        }
    }
    Ok(removed)
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
    fn one_does_not_take_itself_for_another() {
        assert!(!is_alive(&std::process::id().to_string()));
        assert!(!is_alive("") && !is_alive("x") && !is_alive("0"));
    }
}
