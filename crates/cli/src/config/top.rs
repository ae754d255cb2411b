//! `keyfold top`: what is watched, and how it is asked.

use std::fs;
use std::num::NonZero;
use std::time::Duration;

use anyhow::{Context, bail};
use keyfold_server::{Operators, Target};

use super::target;
use crate::flags::top::{TopFlags, Watched};
use crate::flags::upstream::UpstreamFlags;

/// All that watching takes.
pub(crate) struct Top {
    pub(crate) sources: Vec<Source>,
    pub(crate) interval: Duration,
    pub(crate) once: bool,
    pub(crate) max_ops: Option<NonZero<u32>>,
}

/// Whom to ask.
pub(crate) enum Source {
    Operators(Operators),
    /// A keyfold or a server: it says which.
    Server(Target),
}

pub(crate) fn resolve(flags: TopFlags) -> anyhow::Result<Top> {
    let token = match &flags.token_file {
        None => None,
        Some(path) => {
            let text =
                fs::read_to_string(path).with_context(|| format!("can't read the token from {}", path.display()))?;
            let token = text.lines().next().unwrap_or_default().trim().to_owned();
            if token.is_empty() {
                bail!("the first line of {} is empty, and no token", path.display());
            }
            Some(token)
        }
    };
    let local = target::resolve(&UpstreamFlags { address: None, way: flags.way.clone() });
    let mut sources = Vec::new();
    for watched in flags.urls {
        sources.push(match watched {
            Watched::Server(address) => Source::Server(target::at(address, flags.way.clone())),
            Watched::Operators(address) => Source::Operators(Operators::new(address, &local.tls, token.as_deref())?),
        });
    }
    if sources.is_empty() {
        sources.push(Source::Server(local));
    }
    Ok(Top { sources, interval: flags.interval.0, once: flags.once, max_ops: flags.pace.max_ops })
}
