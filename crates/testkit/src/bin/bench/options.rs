//! The command line of the measurements.

use std::path::PathBuf;

use anyhow::{Context, bail};

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: bench [memory] [speed] [idle] [codecs] [options]

Measures keyfold on every server at hand; all four where none is named.

  --server NAME    only this server, as in `redis 7.0.15` or `valkey`; may be repeated
  --records N      records of each family of keys (500000)
  --rounds N       rounds of the speed measurement (5)
  --sweep          memory at other spans and counts too
  --data DIR       memory of real records too, and codecs on them: each DIR/*.jsonl.gz, one [\"key\",\"value\"] a line
  --layouts DIR    their layouts, DIR/<name>.toml (examples/layouts)
  --set NAME       only this set of the codecs' records; may be repeated
  --check          exit code 1 where a goal of the codecs is missed
  --quick          less of everything: a check that it runs, no measurement
  --json           one JSON array instead of tables
";

/// What was asked for.
pub(crate) enum Request {
    Help,
    Measure(Options),
    /// Be a proxy for this server by this layout file.
    Serve(String, PathBuf),
}

/// What to measure, and how much of it.
pub(crate) struct Options {
    pub(crate) memory: bool,
    pub(crate) speed: bool,
    pub(crate) idle: bool,
    pub(crate) codecs: bool,
    sets: Vec<String>,
    /// Whether a missed goal is an error.
    pub(crate) check: bool,
    servers: Vec<String>,
    pub(crate) records: u64,
    pub(crate) rounds: usize,
    pub(crate) sweep: bool,
    pub(crate) data: Option<PathBuf>,
    pub(crate) layouts: PathBuf,
    pub(crate) quick: bool,
    pub(crate) json: bool,
}

impl Options {
    /// Whether a server of this name is to be measured.
    pub(crate) fn wants_server(&self, name: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|wanted| name.starts_with(wanted.as_str()))
    }

    /// Whether codecs are measured on the set of this name.
    pub(crate) fn wants_set(&self, name: &str) -> bool {
        self.sets.is_empty() || self.sets.iter().any(|wanted| wanted == name)
    }
}

/// Reads the arguments after the program's name.
pub(crate) fn parse(args: impl Iterator<Item = String>) -> anyhow::Result<Request> {
    let mut args = args.peekable();
    if args.next_if(|arg| arg == "serve").is_some() {
        let upstream = args.next().context("serve needs a server's URL")?;
        return Ok(Request::Serve(upstream, args.next().context("serve needs a layout file")?.into()));
    }
    let mut options = Options {
        memory: false,
        speed: false,
        idle: false,
        codecs: false,
        sets: Vec::new(),
        check: false,
        servers: Vec::new(),
        records: 0,
        rounds: 0,
        sweep: false,
        data: None,
        layouts: "examples/layouts".into(),
        quick: false,
        json: false,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "memory" => options.memory = true,
            "speed" => options.speed = true,
            "idle" => options.idle = true,
            "codecs" => options.codecs = true,
            "--set" => options.sets.push(value()?),
            "--check" => options.check = true,
            "--server" => options.servers.push(value()?),
            "--records" => options.records = value()?.parse().context("--records needs a number")?,
            "--rounds" => options.rounds = value()?.parse().context("--rounds needs a number")?,
            "--sweep" => options.sweep = true,
            "--data" => options.data = Some(value()?.into()),
            "--layouts" => options.layouts = value()?.into(),
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            "--help" | "-h" => return Ok(Request::Help),
            _ => bail!("unknown argument {arg}\n\n{USAGE}"),
        }
    }
    if !(options.memory || options.speed || options.idle || options.codecs) {
        (options.memory, options.speed, options.idle, options.codecs) = (true, true, true, true);
    }
    if options.records == 0 {
        options.records = if options.quick { 20_000 } else { 500_000 };
    }
    if options.rounds == 0 {
        options.rounds = if options.quick { 1 } else { 5 };
    }
    Ok(Request::Measure(options))
}
