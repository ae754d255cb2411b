//! Reads files again on SIGHUP: the configuration, users, certificates and the operators' token, which this keyfold goes by,
//! and the layout, which is brought to the server, from where every keyfold takes it up. No connection is dropped; what is
//! wrong with a file is logged, and what was read before stays in force.

use anyhow::Context;
use keyfold_proxy::{Reloader, ServiceManager};
use keyfold_server::Target;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::config::log;
use crate::config::serve::{LayoutSource, Said, UsersSource};
use crate::flags::serve::ServeFlags;
use crate::flags::{Cli, Command};
use crate::moving::KeyCheck;
use crate::moving::rollout::{self, Rollout};
use crate::settings::{self, Change, Failure, Line, Settings};

/// The options that count anew when the configuration is read again. All others need a restart.
const LIVE: [&str; 8] = [
    "log",
    "layout",
    "skip-key-check",
    "max-clients",
    "max-tracked-keys",
    "slowlog-slower-than",
    "slowlog-max-len",
    "log-slow",
];

/// What may be read again, and who is to go by it.
pub(crate) struct Reloading {
    pub(crate) users: UsersSource,
    pub(crate) layout: Option<LayoutSource>,
    pub(crate) key_check: KeyCheck,
    /// What is in force.
    pub(crate) settings: Settings,
    pub(crate) target: Target,
    pub(crate) reloader: Reloader,
    /// Who wants to know of it.
    pub(crate) manager: Option<ServiceManager>,
}

impl Reloading {
    /// Has SIGHUP end the process no more. Whoever sends it may do so while the server is waited for.
    pub(crate) fn listen() -> anyhow::Result<Signals> {
        Signals::new([SIGHUP]).context("can't follow signals")
    }

    /// Begins to follow SIGHUP, of which some may have come since [`Self::listen`].
    pub(crate) fn follow(mut self, mut signals: Signals) -> anyhow::Result<()> {
        std::thread::Builder::new().name("keyfold-reload".to_owned()).spawn(move || {
            for _ in signals.forever() {
                self.manager.iter().for_each(ServiceManager::note_reloading);
                self.reload();
                self.manager.iter().for_each(ServiceManager::note_reloaded);
            }
        })?;
        Ok(())
    }

    fn reload(&mut self) {
        if self.settings.file.is_some()
            && let Err(error) = self.reload_settings()
        {
            tracing::error!("SIGHUP: all is as it was: {error:#}");
            return;
        }
        self.reload_access();
        let has_others = self.settings.file.is_some() || self.users.path().is_some() || self.has_secrets();
        match &self.layout {
            Some(source) => self.reload_layout(source),
            None if !has_others => {
                tracing::warn!(
                    "SIGHUP: there is no file to read again; --config, --layout, --users and --tls-cert name some"
                );
            }
            None => {}
        }
    }

    fn has_secrets(&self) -> bool {
        self.reloader.has_certificates() || self.reloader.has_admin_token()
    }

    /// Who may come in, and what is shown to whom.
    fn reload_access(&self) {
        if let Some(path) = self.users.path() {
            let path = path.display();
            match self.users.read_again() {
                Ok(None) => tracing::info!("who may come in is as it was, as {path} is"),
                Ok(Some(Said::Users(users))) => match self.reloader.replace_users(&users) {
                    Ok(()) => tracing::info!("read again who may come in, from {path}"),
                    Err(error) => tracing::error!("who may come in is as it was: {path}: {error}"),
                },
                Ok(Some(Said::Password(password))) => {
                    self.reloader.replace_password(&password);
                    tracing::info!("read again who may come in, from {path}: the password is another");
                }
                Err(error) => tracing::error!("who may come in is as it was: {error:#}"),
            }
        }
        if self.reloader.has_certificates() {
            match self.reloader.reload_certificates() {
                Ok(()) => tracing::info!("read the certificates again; connections that begin now go by them"),
                Err(error) => tracing::error!("the certificates are as they were: {error}"),
            }
        }
        if self.reloader.has_admin_token() {
            match self.reloader.reload_admin_token() {
                Ok(()) => tracing::info!("read the operators' token again"),
                Err(error) => tracing::error!("the operators' token is as it was: {error}"),
            }
        }
    }

    fn reload_layout(&self, source: &LayoutSource) {
        match self.bring(source) {
            Ok(rollout) => {
                tracing::info!("{}; every keyfold before the server takes it up within seconds", rollout.summary());
                rollout.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            Err(error) => tracing::error!("the layout is as it was: {error:#}"),
        }
    }

    fn bring(&self, source: &LayoutSource) -> anyhow::Result<Rollout> {
        Ok(rollout::bring(&self.target, Some(&source.read()?), self.key_check)?.1)
    }

    /// Reads the configuration again. Nothing changes where anything in it is wrong.
    fn reload_settings(&mut self) -> anyhow::Result<()> {
        let args: Vec<_> = std::env::args_os().collect();
        let Line { cli, settings } = settings::read(&args).map_err(|failure| match failure {
            Failure::File(error) => error,
            Failure::Typed(error) => anyhow::anyhow!("{}", error.to_string().trim().to_owned()),
        })?;
        let Command::Serve(flags) = &cli.command else { return Ok(()) };
        let layout = LayoutSource::of(flags, settings.file.as_ref());
        layout.as_ref().map(LayoutSource::read).transpose()?;
        for change in self.settings.changes_to(&settings) {
            let Change { name, in_force, next } = change;
            if LIVE.contains(&name.as_str()) {
                // Before: it may be the log's filter.
                tracing::info!("{name}: {next} from now on; it was {in_force}");
                self.apply(&name, &cli, flags);
            } else {
                tracing::warn!("{name}: needs a restart; still {in_force}");
            }
        }
        self.layout = layout;
        self.settings.adopt(&settings, &LIVE);
        self.settings.file = settings.file;
        tracing::info!("read the configuration again");
        Ok(())
    }

    /// Goes by what an option says now.
    fn apply(&mut self, name: &str, cli: &Cli, flags: &ServeFlags) {
        match name {
            "log" => log::change(cli),
            "skip-key-check" => {
                self.key_check = if flags.skip_key_check { KeyCheck::Skip } else { KeyCheck::Look };
            }
            "max-clients" => self.reloader.set_max_clients(flags.limits.max_clients),
            "slowlog-slower-than" => self.reloader.set_slow_kept_from(flags.slow.slowlog_slower_than.0),
            "slowlog-max-len" => self.reloader.set_most_slow_kept(flags.slow.slowlog_max_len),
            "log-slow" => self.reloader.set_slow_logged_from(flags.slow.log_slow.0),
            "max-tracked-keys" => self.reloader.set_max_tracked_keys(flags.limits.max_tracked_keys),
            // The layout is read as a whole.
            _ => {}
        }
    }
}
