//! The command line.

use std::path::PathBuf;

use clap::Parser;
use keyfold_testkit::{Binary, newest};

/// Every tool on one server of many keys, under load through a keyfold.
///
/// Twenty million keys take some 4 GB of the server's memory plain, 2 GB more while a dump is imported beside it, and 4 GB
/// of disk. A tool that takes more than 200 MB fails the run.
#[derive(Parser)]
#[command(args_override_self = true)]
pub(crate) struct Options {
    /// Keys, a quarter in each namespace
    #[arg(long, value_name = "N", default_value_t = 20_000_000)]
    pub(crate) keys: u64,
    /// Commands a second of the load
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) rate: u32,
    /// The server, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    pub(crate) server: Binary,
    /// Where results are written as they come
    #[arg(long, value_name = "DIR", default_value = "target/scale")]
    pub(crate) out: PathBuf,
}
