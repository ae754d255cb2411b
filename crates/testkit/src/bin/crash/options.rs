//! The command line of the crash test.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use keyfold_testkit::{Binary, found};
use lexopt::{Arg, ValueExt};

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: crash [options]

Kills movers, proxies and the server while keys are folded and unfolded under load, and checks every key.

  --rounds N       rounds (20)
  --seed N         repeats the choices of a run (drawn from the clock)
  --keys N         keys that are moved beside those of the load (20000)
  --server NAME    the server, as in `redis 7.0.15` or `valkey` (the newest at hand)
";

/// What was asked for.
pub(crate) enum Request {
    Help,
    Run(Options),
}

/// How to go about it.
pub(crate) struct Options {
    pub(crate) rounds: u64,
    pub(crate) seed: u64,
    pub(crate) keys: u64,
    server: Option<String>,
}

impl Options {
    /// The server that is meant.
    pub(crate) fn binary(&self) -> anyhow::Result<Binary> {
        let is_meant = |binary: &Binary| self.server.as_ref().is_none_or(|name| binary.name().starts_with(name));
        found().into_iter().rfind(is_meant).context("there is no such server; `make servers` brings some")
    }
}

/// Reads the arguments.
pub(crate) fn parse() -> anyhow::Result<Request> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is before 1970")?;
    let mut options = Options { rounds: 20, seed: since.as_secs(), keys: 20_000, server: None };
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("help") => return Ok(Request::Help),
            Arg::Long("rounds") => options.rounds = args.value()?.parse()?,
            Arg::Long("seed") => options.seed = args.value()?.parse()?,
            Arg::Long("keys") => options.keys = args.value()?.parse()?,
            Arg::Long("server") => options.server = Some(args.value()?.string()?),
            other => bail!("{}; see --help", other.unexpected()),
        }
    }
    Ok(Request::Run(options))
}
