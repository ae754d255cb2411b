//! `keyfold top`: what is watched, and how it is asked.

use std::num::NonZero;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use keyfold_server::{Operators, Target};

use super::{files, target};
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
    let token = flags.token_file.as_deref().map(token).transpose()?;
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

/// The token that a file holds, as the keyfold reads its own: white space around it doesn't count.
fn token(path: &Path) -> anyhow::Result<String> {
    let text = files::read(path, "the token")?;
    let token = String::from_utf8(files::first_line(&text).trim_ascii().to_vec());
    let token = token.ok().filter(|token| !token.is_empty());
    token.with_context(|| format!("the first line of {} is no token", path.display()))
}
