//! Reads the layout file again on SIGHUP and brings it to the server, from where every keyfold takes it up.

use std::path::PathBuf;

use anyhow::Context;
use signal_hook::consts::SIGHUP;
use signal_hook::iterator::Signals;

use crate::layout::file;
use crate::layout::rollout::{self, KeyCheck, Rollout};
use crate::server::{Server, Target};

/// Begins to follow SIGHUP. What goes wrong then is logged, and the layout before goes on being served.
pub(crate) fn follow(layout: Option<PathBuf>, target: Target, check: KeyCheck) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGHUP]).context("can't follow signals")?;
    std::thread::Builder::new().name("keyfold-reload".to_owned()).spawn(move || {
        for _ in signals.forever() {
            let Some(path) = &layout else {
                tracing::warn!("SIGHUP: there is no --layout FILE to read again");
                continue;
            };
            match reload(path, &target, check) {
                Ok(rollout) => {
                    tracing::info!("{}; every keyfold before the server takes it up within seconds", rollout.summary());
                }
                Err(error) => tracing::error!("the layout is as it was: {error:#}"),
            }
        }
    })?;
    Ok(())
}

fn reload(path: &std::path::Path, target: &Target, check: KeyCheck) -> anyhow::Result<Rollout> {
    let layout = file::read(path)?;
    rollout::bring(&mut Server::connect(target)?, Some(&layout), check)
}
