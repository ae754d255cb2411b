//! `keyfold analyze`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::Args;

use super::databases::DatabaseFlags;
use super::footer::footer;
use super::origin::OriginFlags;
use super::pace::PaceFlags;
use super::trace::TraceFlags;
use super::units::{parse_count, parse_growth};
use super::upstream::SettingsFlags;
use super::wide::WideFlags;

const ABOUT: &str = "\
Say which keys take the memory, what folding them would save, and what to leave.

Walks over the keys with SCAN and writes nothing. The families of keys are found by themselves. What is there
now is predicted by the memory model, and compared with what the server measures. A dump (RDB) is read as well,
where the server is not to be asked, or can't be.";

const EXAMPLES: &str = "\
Examples:
  keyfold analyze redis://127.0.0.1:6379
  keyfold analyze redis://user:password@host --sample 100000 --max-ops 2000
      a part of the keys, at most 2,000 commands a second
  keyfold analyze redis://127.0.0.1:6379 --html report.html \\
      --usd-per-gb-month 12
  keyfold analyze redis://127.0.0.1:6379 --json
  keyfold analyze dump.rdb
  redis-cli -h host --rdb - | keyfold analyze -
  keyfold analyze --trace requests.txt.gz --value-bytes 200 --max-memory 12gb
      what a cache finds of these requests, and how much memory folding saves it
  keyfold analyze redis://127.0.0.1:6379 --watch 10m
      the same of the requests that come to that server

Ctrl-C ends the walk, and what was seen so far is reported.

Exit codes:
  0  done, also where it was stopped by Ctrl-C
  1  failed; where the connection was lost on the way, or a dump is cut off, what was seen so far is reported before
  2  usage";

#[derive(Args, Debug)]
#[command(long_about = ABOUT, after_help = footer(EXAMPLES))]
pub(crate) struct AnalyzeFlags {
    #[command(flatten)]
    pub(crate) origin: OriginFlags,

    /// Look at about so many keys only, and say how far the numbers may be off [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZero<u64>>)]
    pub(crate) sample: Option<NonZero<u64>>,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// Read no values: codecs are not weighed
    #[arg(long)]
    pub(crate) no_values: bool,

    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,

    /// How many times as many keys there may be one day
    #[arg(long, value_name = "TIMES", default_value = "4x", value_parser = parse_growth)]
    pub(crate) growth: f64,

    /// What a gigabyte of memory costs in a month: adds a column
    #[arg(long, value_name = "USD", value_parser = parse_price)]
    pub(crate) usd_per_gb_month: Option<f64>,

    /// Write a report with charts, one page that loads nothing
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) wide: WideFlags,

    #[command(flatten)]
    pub(crate) requests: TraceFlags,

    #[command(flatten)]
    pub(crate) settings: SettingsFlags,
}

fn parse_price(text: &str) -> Result<f64, String> {
    let price: Option<f64> = text.parse().ok();
    price.filter(|price| price.is_finite() && *price >= 0.0).ok_or_else(|| "write dollars, as in 12.50".to_owned())
}
