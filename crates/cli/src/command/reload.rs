//! Reads files again on SIGHUP: users, certificates and the operators' token, which this keyfold goes by, and the layout,
//! which is brought to the server, from where every keyfold takes it up. No connection is dropped; what is wrong with a file
//! is logged, and what was read before stays in force.

use std::path::{Path, PathBuf};

use anyhow::Context;
use keyfold_proxy::Reloader;
use keyfold_server::Target;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::config::serve::UsersSource;
use crate::layout::file;
use crate::moving::KeyCheck;
use crate::moving::rollout::{self, Rollout};

/// What may be read again.
pub(crate) struct Files {
    pub(crate) users: UsersSource,
    pub(crate) layout: Option<PathBuf>,
    pub(crate) key_check: KeyCheck,
}

/// Begins to follow SIGHUP.
pub(crate) fn follow(files: Files, target: Target, reloader: Reloader) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGHUP]).context("can't follow signals")?;
    std::thread::Builder::new().name("keyfold-reload".to_owned()).spawn(move || {
        for _ in signals.forever() {
            files.reload(&target, &reloader);
        }
    })?;
    Ok(())
}

impl Files {
    fn reload(&self, target: &Target, reloader: &Reloader) {
        if let Some(path) = self.users.path() {
            match self.users.read() {
                Ok(users) => {
                    reloader.replace_users(&users);
                    tracing::info!("read again who may come in, from {}", path.display());
                }
                Err(error) => tracing::error!("who may come in is as it was: {error:#}"),
            }
        }
        if reloader.has_certificates() {
            match reloader.reload_certificates() {
                Ok(()) => tracing::info!("read the certificates again; connections that begin now go by them"),
                Err(error) => tracing::error!("the certificates are as they were: {error}"),
            }
        }
        if reloader.has_admin_token() {
            match reloader.reload_admin_token() {
                Ok(()) => tracing::info!("read the operators' token again"),
                Err(error) => tracing::error!("the operators' token is as it was: {error}"),
            }
        }
        let has_others = self.users.path().is_some() || reloader.has_certificates() || reloader.has_admin_token();
        match &self.layout {
            Some(path) => self.reload_layout(path, target),
            None if !has_others => {
                tracing::warn!("SIGHUP: there is no file to read again; --layout, --users and --tls-cert name some");
            }
            None => {}
        }
    }

    fn reload_layout(&self, path: &Path, target: &Target) {
        match bring(path, target, self.key_check) {
            Ok(rollout) => {
                tracing::info!("{}; every keyfold before the server takes it up within seconds", rollout.summary());
                rollout.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            }
            Err(error) => tracing::error!("the layout is as it was: {error:#}"),
        }
    }
}

fn bring(path: &Path, target: &Target, check: KeyCheck) -> anyhow::Result<Rollout> {
    let layout = file::read(path)?;
    Ok(rollout::bring(target, Some(&layout), check)?.1)
}
