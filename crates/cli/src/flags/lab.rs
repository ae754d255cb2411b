//! `keyfold lab`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use keyfold_proxy::address::ServerAddress;

use super::footer::footer;
use super::upstream::{self, WayFlags};
use super::wide::WideFlags;

/// What stands above the subcommands.
pub(crate) const ABOUT: &str = "\
Run the published studies of folded keys on a server, with plots.

Well-known write-ups made people fold keys by hand; their numbers date from other versions. Each study does again \
what one of them did, measures it on the server at hand, and puts three numbers side by side: the original's, \
today's, and what the memory model predicts. Results are CSV, PNG, SVG and JSON, and a page, report.html.";

const EXAMPLES: &str = "\
Examples:
  keyfold lab list
  keyfold lab run set-vs-hash
  keyfold lab run bucket-sweep --scale 2 --out sweep
  keyfold lab run bundles --server redis://127.0.0.1:6390
  keyfold lab all --quick

A server that is named has to be empty, unless --namespace-prefix or --i-know is given. What the lab changes of its
settings is written down in the server and in --out beforehand and put back at the end; where a run was killed, the
next one on that server puts it back.

Exit codes:
  0  done
  1  failed or interrupted; the server's settings are as they were, or the message says which are not
  2  usage
  3  done, but a part could not be, or the memory model was off by more than 2 %; what is printed says which";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct LabFlags {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the studies, and what each asks
    List(WideFlags),
    /// Run one study
    Run(RunFlags),
    /// Run all of them
    All(GroundFlags),
}

#[derive(Args, Debug)]
pub(crate) struct RunFlags {
    /// The study, as `keyfold lab list` names it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) ground: GroundFlags,
}

/// On which server, how large, and where the results go.
#[derive(Args, Debug)]
pub(crate) struct GroundFlags {
    /// The server: `embedded` for one of keyfold's own, or its URL
    #[arg(long, value_name = "URL", default_value = "embedded", value_parser = parse_server)]
    pub(crate) server: LabServer,

    #[command(flatten)]
    pub(crate) way: WayFlags,

    /// The server to start where it is keyfold's own [default: valkey-server or redis-server on PATH]
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) program: Option<PathBuf>,

    /// So many times the usual size, or `full` for the original's, whatever it takes
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = parse_scale)]
    pub(crate) scale: LabScale,

    /// Small sizes: all studies within five minutes
    #[arg(long, conflicts_with = "scale")]
    pub(crate) quick: bool,

    /// Which random data; the same gives the same bytes on the same build of a server
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,

    /// Where the results go
    #[arg(long, value_name = "DIR", default_value = "keyfold-lab")]
    pub(crate) out: PathBuf,

    /// What a GiB of memory costs a month, in US dollars
    #[arg(long, value_name = "USD", default_value_t = 11.5)]
    pub(crate) price: f64,

    /// Requests for the studies hit-ratio and eviction, one key to a line, instead of made-up ones
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,

    /// Records for hit-ratio, one `["key", "value"]` to a line, which may be gzipped: of caches that keyfold keeps of them, each
    /// value by its best codec
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    pub(crate) records: Option<PathBuf>,

    /// Run on a server that isn't empty, with this before the name of every key
    #[arg(long, value_name = "PREFIX")]
    pub(crate) namespace_prefix: Option<String>,

    /// Run on a server that isn't empty, under names that begin with `keyfold-lab:`
    #[arg(long)]
    pub(crate) i_know: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,
}

#[derive(Clone, Debug)]
pub(crate) enum LabServer {
    Embedded,
    At(ServerAddress),
}

fn parse_server(text: &str) -> Result<LabServer, String> {
    if text == "embedded" {
        return Ok(LabServer::Embedded);
    }
    upstream::parse_server(text).map(LabServer::At).map_err(|error| format!("{error}; or write `embedded`"))
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum LabScale {
    Times(f64),
    Full,
}

fn parse_scale(text: &str) -> Result<LabScale, String> {
    if text == "full" {
        return Ok(LabScale::Full);
    }
    match text.trim_end_matches('x').parse::<f64>() {
        Ok(times) if times.is_finite() && times > 0.0 => Ok(LabScale::Times(times)),
        _ => Err("write a number above 0, as in 0.5 or 4, or `full`".to_owned()),
    }
}
