//! `keyfold plan`.

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

/// What stands above the options.
pub(crate) const ABOUT: &str = "\
Make the layout that saves the most of what a server holds, and say why.

Walks over the server's keys without writing to it, finds their families, weighs every way of placing each \
family on the keys that were seen, and writes a layout with the reasons: what was weighed and not taken, what \
it costs in bytes and in the server's time, which settings of the server it relies on. A layout that the \
server has already is kept as it is, and added to. A dump (RDB) is read as well as a server.";

const EXAMPLES: &str = "\
Examples:
  keyfold plan redis://127.0.0.1:6379 --out layout.toml
  keyfold plan redis://127.0.0.1:6379 --prove --prove-keys 200000
  keyfold plan redis://127.0.0.1:6379 --keys 'user:{id:int}' --growth 10x
  keyfold plan redis://127.0.0.1:6379 --json | jq '.families[].advice'
  keyfold plan dump.rdb --out layout.toml

Exit codes:
  0  planned; with --prove, the bytes were within 5 % of what was predicted
  1  failed, or --prove measured something else than predicted
  2  usage";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    pub(crate) origin: OriginFlags,

    /// Write the layout here [default: a table only]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Write over a file that is there
    #[arg(long, requires = "out")]
    pub(crate) force: bool,

    /// How many times as many keys there may be one day; `keyfold fold` changes the number of buckets later
    #[arg(long, value_name = "TIMES", default_value = "4x", value_parser = parse_growth)]
    pub(crate) growth: f64,

    /// The share of a family's bytes that has to be saved for it to be folded
    #[arg(long, value_name = "PERCENT", default_value = "10%", value_parser = parse_percent)]
    pub(crate) min_saving: f64,

    /// Keep the text in fields as it is, for people to read; no tables are trained for it
    #[arg(long)]
    pub(crate) no_text_tables: bool,

    /// Plan for the keys of this template only; may be repeated
    #[arg(long, value_name = "TEMPLATE")]
    pub(crate) keys: Vec<String>,

    /// Read no values: codecs are not weighed
    #[arg(long)]
    pub(crate) no_values: bool,

    /// Plan for the server's settings as they are, where they can't or shall not be changed
    #[arg(long)]
    pub(crate) keep_settings: bool,

    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,

    /// Look at about so many keys [default: all]
    #[arg(long, value_name = "N", value_parser = parse_count::<NonZero<u64>>)]
    pub(crate) sample: Option<NonZero<u64>>,

    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    /// Load keys like those that were seen into private servers, plain and by the plan, and compare what they
    /// take with what was predicted
    #[arg(long)]
    pub(crate) prove: bool,

    /// Keys to prove it with at most, of all families together; those of the sample, some 40,000 of each [default: 200000]
    #[arg(long, value_name = "N", requires = "prove", value_parser = parse_count::<NonZero<usize>>)]
    pub(crate) prove_keys: Option<NonZero<usize>>,

    /// The server to prove it on [default: one of the same family on PATH]
    #[arg(long, value_name = "PROGRAM", requires = "prove")]
    pub(crate) server: Option<PathBuf>,

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

/// `10%` or `10`.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    let share = number.ok().filter(|percent| (0.0..100.0).contains(percent)).map(|percent| percent / 100.0);
    share.ok_or_else(|| "write a percentage from 0 to below 100, such as 10%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages() {
        assert_eq!((parse_percent("10%"), parse_percent("0")), (Ok(0.1), Ok(0.0)));
        for wrong in ["", "x", "0x", "-4x", "nan", "inf"] {
            assert!(parse_percent(&format!("{wrong}%x")).is_err(), "{wrong}");
        }
        assert!(parse_percent("100%").is_err() && parse_percent("-1").is_err());
    }
}
