//! The server under study: one of keyfold's own, or one that is named and left as it was found.
//!
//! A named server has to be empty; one that isn't is used only where the user said so, and then under names with a
//! prefix of their own, which alone are ever removed. Settings are changed by [`Ground::change`] alone.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use keyfold_core::admin::LAB_KEY;
use keyfold_core::walk::KeyWalk;
use keyfold_report::number::plural;
use keyfold_server::keyspace;
use keyfold_server::{Commands, LinkError, OwnServer, Server, Target};

use super::mark;
use super::results::Results;
use crate::options::{GroundConfig, GroundPlace};

/// A file among the results with what the server's settings were, for as long as they are not.
const OLD_SETTINGS: &str = "settings-before.json";
/// A server frees some million keys a second, and more slowly where they were swapped out; a study has up to 80 million.
const EMPTIED_WITHIN: Duration = Duration::from_secs(30 * 60);
/// What a server says where a command is forbidden, renamed or denied.
const FORBIDDEN: [&str; 4] = ["unknown command", "NOPERM", "not allowed", "disabled"];

/// The server under study.
pub(crate) struct Ground {
    /// Ends with the lab.
    own: Option<OwnServer>,
    /// What to start where it is keyfold's own.
    program: Option<PathBuf>,
    target: Target,
    prefix: Vec<u8>,
    /// Whether others' keys are here.
    shared: bool,
    /// Old values of what was changed.
    changed: BTreeMap<String, String>,
    results: Results,
    left: bool,
}

/// What came of a wish for a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// It is as wished.
    Is,
    /// The server tells no settings and lets none be changed.
    Forbidden,
}

impl Ground {
    /// Starts or reaches the server, puts back what a killed lab left, and makes sure that it may be used.
    pub(super) fn open(config: &GroundConfig, results: &Results) -> anyhow::Result<(Self, Option<String>)> {
        let mut named = None;
        let (own, target) = match &config.place {
            GroundPlace::Embedded(program) => {
                let own = OwnServer::start(program.as_deref(), None).context("can't start a server to study")?;
                named.clone_from(program);
                let target = own.target().clone();
                (Some(own), target)
            }
            GroundPlace::At(target) => (None, target.clone()),
        };
        let results = results.clone();
        let mut ground = Self {
            own,
            program: named,
            target,
            prefix: Vec::new(),
            shared: false,
            changed: BTreeMap::new(),
            results,
            left: true,
        };
        let mut server = ground.connect()?;
        server.refuse_keyfold()?;
        let mended = mark::mend(&mut server, config.i_know)?;
        let claimed = ground.claim(&mut server, config);
        match &mended {
            Some(mended) => claimed.with_context(|| mended.clone())?,
            None => claimed?,
        }
        Ok((ground, mended))
    }

    /// Makes sure that the server may be used, and marks it.
    fn claim(&mut self, server: &mut Server, config: &GroundConfig) -> anyhow::Result<()> {
        let keys: u64 = keyspace::databases(server)?.iter().map(|database| database.keys).sum();
        self.shared = keys > 0;
        match &config.prefix {
            Some(prefix) => self.prefix.clone_from(prefix),
            None if self.shared => bail!(
                "the server at {} holds {}, and the lab works on an empty one; run without --server for one of \
                 keyfold's own, or say --namespace-prefix PREFIX or --i-know to run beside them",
                server.address(),
                plural(keys, "key")
            ),
            None => {}
        }
        if self.shared && self.prefix.is_empty() {
            bail!("an empty --namespace-prefix does not tell the lab's keys from the server's");
        }
        if self.shared && begins(server, &self.prefix)? {
            bail!("keys that begin with {} are there already; say another --namespace-prefix", self.shown_prefix());
        }
        mark::make(server, &self.prefix)?;
        self.left = false;
        Ok(())
    }

    pub(crate) fn connect(&self) -> anyhow::Result<Server> {
        Server::connect(&self.target)
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Before every key's name.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The program of keyfold's own server, where it is that: for more of them. None inside: the first on PATH.
    pub(super) fn own_program(&self) -> Option<Option<PathBuf>> {
        self.own.as_ref().map(|_| self.program.clone())
    }

    /// The command that writes the mark again.
    pub(super) fn mark(&self) -> Commands {
        mark::writing(&self.prefix, &self.changed)
    }

    /// Whether others' keys are here.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Where results go.
    pub(super) fn results(&self) -> &Results {
        &self.results
    }

    fn shown_prefix(&self) -> String {
        self.prefix.escape_ascii().to_string()
    }

    /// Sees that a setting has this value, by the name it has since Redis 7.0 or the one before.
    pub(super) fn change(&mut self, name: &str, wanted: &str) -> anyhow::Result<Setting> {
        let mut server = self.connect()?;
        let Some((name, old)) = setting(&mut server, name)? else { return Ok(Setting::Forbidden) };
        if old == wanted {
            return Ok(Setting::Is);
        }
        if !self.changed.contains_key(&name) {
            self.note(&mut server, &name, &old)?;
        }
        match server.query::<()>(&[b"CONFIG", b"SET", name.as_bytes(), wanted.as_bytes()]) {
            Ok(()) => Ok(Setting::Is),
            Err(error) if is_forbidden(&error) => Ok(Setting::Forbidden),
            Err(error) => Err(server.explain(&error).context(format!("can't set the server's {name} to {wanted}"))),
        }
    }

    /// Writes down what a setting is, before it is changed: in the file and in the server.
    fn note(&mut self, server: &mut Server, name: &str, old: &str) -> anyhow::Result<()> {
        self.changed.insert(name.to_owned(), old.to_owned());
        let noted = serde_json::to_string_pretty(&self.changed)?;
        self.results.write(OLD_SETTINGS, noted.as_bytes())?;
        mark::note(server, name, old)
    }

    /// Removes the lab's keys; `written` is the most that there can be. On a server that was empty others' keys are
    /// noticed by there being more. The mark stays, and so no database is ever without a key: what a server allocates
    /// for its first key (Redis 8: 2,560 bytes of statistics) is there before as well as after.
    pub(super) fn clear(&self, written: u64) -> anyhow::Result<()> {
        let mut server = self.connect()?;
        if !self.prefix.is_empty() {
            mark::remove(&mut server, &self.prefix)?;
            return Ok(());
        }
        let keys: u64 = server.ask(&[b"DBSIZE"])?;
        // The mark is one more.
        if keys > written + 1 {
            bail!(
                "the server at {} holds {} and the lab wrote {}: somebody else writes there; nothing was removed",
                server.address(),
                plural(keys, "key"),
                plural(written, "key")
            );
        }
        server.set_patience(EMPTIED_WITHIN)?;
        let mut emptied = Commands::default();
        emptied.push(&[b"MULTI"]);
        emptied.push(&[b"FLUSHDB", b"SYNC"]);
        emptied.append(&self.mark());
        emptied.push(&[b"EXEC"]);
        server.query_all::<()>(&emptied).context("can't empty the server").map(drop)
    }

    /// Puts the settings back.
    pub(super) fn restore(&mut self) -> anyhow::Result<()> {
        if self.changed.is_empty() {
            return Ok(());
        }
        let restored = self.connect().and_then(|mut server| self.put_back(&mut server));
        if let Err(error) = restored {
            let old: Vec<_> = self.changed.iter().map(|(name, old)| format!("CONFIG SET {name} {old}")).collect();
            let file = self.results.path(OLD_SETTINGS);
            return Err(error.context(format!(
                "the server's settings could not be put back; the next lab on it does, or type {} (also in {})",
                old.join("; "),
                file.display()
            )));
        }
        self.changed.clear();
        self.results.remove(OLD_SETTINGS);
        Ok(())
    }

    fn put_back(&self, server: &mut Server) -> anyhow::Result<()> {
        for (name, old) in &self.changed {
            mark::put_back(server, name, old.as_bytes())?;
            mark::forget(server, name)?;
        }
        Ok(())
    }

    /// Leaves the server as it was. Call when the lab's keys are gone, or can't be removed.
    pub(super) fn leave(&mut self) -> anyhow::Result<()> {
        let restored = self.restore();
        if !std::mem::replace(&mut self.left, true) && restored.is_ok() {
            self.connect().and_then(|mut server| mark::unmake(&mut server)).context("can't remove the lab's mark")?;
        }
        restored
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // Reached without `leave` by a panic alone.
        if let Err(error) = self.leave() {
            tracing::error!("{error:#}");
        }
    }
}

/// Whether a key begins so.
fn begins(server: &mut Server, prefix: &[u8]) -> anyhow::Result<bool> {
    let mut walk = KeyWalk::new(1000);
    while let Some(keys) = server.next_names(&mut walk)? {
        if keys.iter().any(|key| key.starts_with(prefix) && key != LAB_KEY) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A setting's name on this server and its value; none where the server tells no settings.
fn setting(server: &mut Server, name: &str) -> anyhow::Result<Option<(String, String)>> {
    match server.setting(name) {
        Ok(None) => bail!("{} knows no setting {name}", server.version()),
        Err(error) if is_forbidden(&error) => Ok(None),
        found => found.map_err(|error| server.explain(&error)),
    }
}

fn is_forbidden(error: &LinkError) -> bool {
    let text = error.to_string();
    FORBIDDEN.iter().any(|said| text.contains(said))
}
