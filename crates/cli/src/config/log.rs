//! The log: to stderr, coloured on a terminal unless NO_COLOR is set, or as JSON.

use std::io::{self, IsTerminal};
use std::sync::OnceLock;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::reload::Error;

use crate::flags::serve::LogFormat;
use crate::flags::{Cli, Command};

/// Puts another filter in the place of the one there is.
type Replace = Box<dyn Fn(EnvFilter) -> Result<(), Error> + Send + Sync>;

static REPLACE: OnceLock<Replace> = OnceLock::new();

/// Starts logging.
pub(crate) fn start(cli: &Cli) {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    // Where whoever read the log has ended, a line is lost. To be told of that, on stderr too, would end the task that wrote it.
    let log = tracing_subscriber::fmt().with_env_filter(filter(cli)).with_writer(io::stderr).log_internal_errors(false);
    if is_json(cli) {
        let log = log.json().flatten_event(true).with_current_span(false).with_span_list(false).with_filter_reloading();
        let handle = log.reload_handle();
        REPLACE.get_or_init(|| Box::new(move |filter| handle.reload(filter)));
        log.init();
    } else {
        let log = log.with_ansi(io::stderr().is_terminal() && !plain).with_target(false).with_filter_reloading();
        let handle = log.reload_handle();
        REPLACE.get_or_init(|| Box::new(move |filter| handle.reload(filter)));
        log.init();
    }
}

/// Goes by another filter from now on.
pub(crate) fn change(cli: &Cli) {
    if let Some(Err(error)) = REPLACE.get().map(|replace| replace(filter(cli))) {
        tracing::error!(%error, "the log's filter is as it was");
    }
}

/// Whether whoever reads the log expects JSON.
pub(crate) fn is_json(cli: &Cli) -> bool {
    matches!(&cli.command, Command::Serve(flags) if flags.log.log_format == LogFormat::Json)
}

fn filter(cli: &Cli) -> EnvFilter {
    let is_serving = matches!(cli.command, Command::Serve(_));
    let filter = cli.log.as_deref().unwrap_or(if is_serving { "info" } else { "warn" });
    // The command line takes only filters that read.
    EnvFilter::builder().parse_lossy(filter)
}
