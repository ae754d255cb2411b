//! `keyfold top`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use keyfold_proxy::address::ServerAddress;
use keyfold_server::OperatorsAddress;

use super::footer::footer;
use super::pace::PaceFlags;
use super::units::Wait;
use super::upstream::{WayFlags, parse_server};
use super::wide::WideFlags;

const URLS_HELP: &str = "What to watch; may be several: a keyfold, by the address of its clients (redis://…, \
    rediss://…, unix:///path, or host:port alone) or that of its operators (http://host:port, https://…, \
    http+unix:///path); or the server behind, which knows who serves and what is stored [default: \
    redis://127.0.0.1:6379]";

/// More often would say nothing: a keyfold looks after its gauges once a second.
const LEAST_INTERVAL: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  keyfold top redis://127.0.0.1:6380
      a keyfold, by the address that its clients use
  keyfold top http://10.0.0.5:9379 http://10.0.0.6:9379 --token-file token
      two keyfolds, by their --admin addresses: latencies and more warnings
  keyfold top redis://127.0.0.1:6379
      the server behind: who serves, and what is saved by a sample
  keyfold top redis://127.0.0.1:6380 --once | less
      one frame as text, also where the output is no terminal

Keys:
  q quits · p holds the picture · ← → choose the column to sort by, r turns
  the order round · ↑ ↓ and page keys scroll · w all warnings · h help

Rates and latencies are of the time between two looks; counts are those of the keyfolds, since
their starts. Spills are values over their namespace's limit, written to keys of their own;
packed is what a codec makes of values. Where a keyfold keeps a cache, a line says what servers
count of their memory and up to where they may go, how many keys left in a second, and how long
ago half of those had been asked for.
Changes nothing. Of a server behind a keyfold it looks at a sample of its keys, every five minutes.

Exit codes: 0 shown or quit, 1 nothing that was named answers, 2 usage";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct TopFlags {
    #[arg(value_name = "URL", help = URLS_HELP, env = "KEYFOLD_UPSTREAM", hide_env_values = true)]
    pub(crate) urls: Vec<Watched>,

    /// How long between two looks
    #[arg(long, value_name = "TIME", default_value_t = Wait(Duration::from_secs(2)), value_parser = parse_interval)]
    pub(crate) interval: Wait,

    /// Look twice, print what there is as text, and end
    #[arg(long)]
    pub(crate) once: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,

    /// The token of operators' addresses (--admin-token-file of serve): the file's first line
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    #[command(flatten)]
    pub(crate) way: WayFlags,
}

/// What is watched.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    /// A keyfold, by its operators' address.
    Operators(OperatorsAddress),
    /// A keyfold or a server, by its clients' address.
    Server(ServerAddress),
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once("://") {
            Some(("http" | "https" | "http+unix", _)) => text.parse().map(Self::Operators),
            _ => parse_server(text).map(Self::Server),
        }
    }
}

fn parse_interval(text: &str) -> Result<Wait, String> {
    let wait: Wait = text.parse()?;
    if wait.0 >= LEAST_INTERVAL { Ok(wait) } else { Err("it is 200ms at least".to_owned()) }
}
