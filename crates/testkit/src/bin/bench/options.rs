//! The command line of the measurements.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Measures keyfold on every server at hand.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Line {
    #[command(subcommand)]
    pub(crate) serve: Option<Serve>,
    #[command(flatten)]
    pub(crate) options: Options,
}

/// The other thing that the program does.
#[derive(Subcommand)]
pub(crate) enum Serve {
    /// Be a proxy for this server by the layout that it holds
    #[command(hide = true)]
    Serve {
        upstream: String,
        watched: Watched,
        #[arg(long)]
        max_memory: Option<u64>,
    },
}

/// How much of what a proxy does is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Watched {
    /// Nothing.
    Bare,
    /// It keeps slow requests, as it does by default.
    SlowLog,
    /// It counts and times all, for metrics, as well.
    All,
}

impl Watched {
    pub(crate) const ALL: [Self; 3] = [Self::Bare, Self::SlowLog, Self::All];
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Memory,
    Speed,
    Commands,
    Cluster,
    Idle,
    Codecs,
    Collections,
    Watched,
    Caches,
}

/// What to measure, and how much of it.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// All nine where none is named
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
    /// Only this server, as in `redis 7.0.15` or `valkey`; may be repeated
    #[arg(long = "server", value_name = "NAME")]
    servers: Vec<String>,
    /// Records of each family of keys
    #[arg(long, value_name = "N", default_value = "500000", default_value_if("quick", "true", "20000"))]
    pub(crate) records: u64,
    /// Rounds of the measurements of speed
    #[arg(long, value_name = "N", default_value = "5", default_value_if("quick", "true", "1"))]
    pub(crate) rounds: usize,
    /// Memory at other spans and counts too
    #[arg(long)]
    pub(crate) sweep: bool,
    /// Memory of real records too, and codecs on them: each DIR/*.jsonl.gz, one `["key","value"]` a line
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Their layouts, `DIR/<name>.toml`
    #[arg(long, value_name = "DIR", default_value = "examples/layouts")]
    pub(crate) layouts: PathBuf,
    /// Only this set of the codecs' records; may be repeated
    #[arg(long = "set", value_name = "NAME")]
    sets: Vec<String>,
    /// Only this row of the commands or the speed, as in `GETEX EX`; may be repeated
    #[arg(long = "command", value_name = "NAME")]
    commands: Vec<String>,
    /// How large the caches are that writes come to in a burst, in MiB
    #[arg(long, value_name = "N", default_value = "64", value_parser = clap::value_parser!(u64).range(16..))]
    pub(crate) cache_mib: u64,
    /// Exit code 1 where a goal of the codecs, the commands, the speed, the cluster, what is watched or the caches is missed
    #[arg(long)]
    pub(crate) check: bool,
    /// Less of everything: a check that it runs, no measurement
    #[arg(long)]
    pub(crate) quick: bool,
    /// One JSON array instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// Whether this is to be measured.
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }

    /// Whether a server of this name is to be measured.
    pub(crate) fn wants_server(&self, name: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|wanted| name.starts_with(wanted.as_str()))
    }

    /// Whether the command in the row of this name is measured.
    pub(crate) fn wants_command(&self, name: &str) -> bool {
        self.commands.is_empty() || self.commands.iter().any(|wanted| wanted == name)
    }

    /// Whether codecs are measured on the set of this name.
    pub(crate) fn wants_set(&self, name: &str) -> bool {
        self.sets.is_empty() || self.sets.iter().any(|wanted| wanted == name)
    }
}
