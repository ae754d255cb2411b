//! The log: to stderr, coloured on a terminal unless NO_COLOR is set.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::flags::{Cli, Command};

/// Starts logging. A filter that doesn't read ends the program, as any wrong flag does.
pub(crate) fn start(cli: &Cli) {
    let serving = matches!(cli.command, Command::Serve(_));
    let filter = cli.log.as_deref().unwrap_or(if serving { "info" } else { "warn" });
    let filter = EnvFilter::builder().parse(filter).unwrap_or_else(|error| {
        use clap::CommandFactory;
        let message = format!("--log {filter:?}: {error}; write error, warn, info, debug or trace");
        Cli::command().error(clap::error::ErrorKind::InvalidValue, message).exit()
    });
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal() && !plain)
        .with_target(false)
        .init();
}
