//! The command line.

use std::path::PathBuf;

use lexopt::{Arg, ValueExt};

pub(crate) const USAGE: &str = "\
usage: scale [options]

  --keys N       keys, a quarter in each namespace (20000000)
  --rate N       commands a second of the load (2000)
  --server NAME  the server, as in `redis 7.0.15` or `valkey` (the newest at hand)
  --out DIR      where results are written as they come (target/scale)

Twenty million keys take some 4 GB of the server's memory plain, 2 GB more while a dump is imported beside it, and
4 GB of disk. A tool that takes more than 200 MB fails the run.
";

pub(crate) struct Options {
    pub(crate) keys: u64,
    pub(crate) rate: u32,
    pub(crate) server: String,
    pub(crate) out: PathBuf,
}

pub(crate) enum Request {
    Help,
    Run(Options),
}

pub(crate) fn parse() -> Result<Request, lexopt::Error> {
    let mut options =
        Options { keys: 20_000_000, rate: 2000, server: String::new(), out: PathBuf::from("target/scale") };
    let mut args = lexopt::Parser::from_env();
    while let Some(arg) = args.next()? {
        match arg {
            Arg::Long("keys") => options.keys = args.value()?.parse()?,
            Arg::Long("rate") => options.rate = args.value()?.parse()?,
            Arg::Long("server") => options.server = args.value()?.string()?,
            Arg::Long("out") => options.out = args.value()?.into(),
            Arg::Long("help") | Arg::Short('h') => return Ok(Request::Help),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Request::Run(options))
}
