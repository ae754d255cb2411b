//! Runs a command with two keyfolds that are a cluster's nodes to clients that know clusters, before a cluster of three.
//!
//! ```text
//! command ─▶ 2 keyfolds, both announced ─▶ 3 primaries
//! ```
//! The command finds the keyfolds' addresses in `KEYFOLD_ADDRS`, with commas between, and their processes likewise in
//! `KEYFOLD_PIDS`: it may kill one. Its exit code is this program's.

use std::process::{Command, ExitCode};

use anyhow::Context;
use clap::Parser;
use keyfold_core::layout::{Attempt, Layout};
use keyfold_testkit::cluster::Options as ClusterOptions;
use keyfold_testkit::{Binary, Cluster, Subject, newest};

/// What the sessions in tests/clients use is folded.
const LAYOUT: &str = "cluster = true\n\
     [[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n\
     [[namespace]]\nkeys = 'cart:{{{shop:int}}}:{item:int}'\nbucket = { span = 16, of = 'item' }\n";

/// Runs a command with two keyfolds that announce themselves before a cluster.
#[derive(Parser)]
struct Options {
    /// The server, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    server: Binary,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let Options { server, command } = Options::parse();
    let cluster = Cluster::start(&server, 3, 0, &ClusterOptions::default())?;
    cluster.put_in_force(&Layout::parse_file(LAYOUT)?.with_attempt(Attempt(1)))?;
    let mut keyfolds = Subject::announced(&cluster, 2)?;
    let addresses: Vec<String> = keyfolds.iter().map(|keyfold| keyfold.address().to_string()).collect();
    let pids: Vec<String> = keyfolds.iter().map(|keyfold| keyfold.pid().to_string()).collect();
    let mut child = Command::new(&command[0]);
    child.args(&command[1..]).env("KEYFOLD_ADDRS", addresses.join(",")).env("KEYFOLD_PIDS", pids.join(","));
    let status = child.status().with_context(|| format!("{} can't be run", command[0]))?;
    keyfolds.iter_mut().for_each(Subject::kill);
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
