//! The work: one file or folder for each subcommand.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod layout;
mod reload;
pub(crate) mod serve;
pub(crate) mod where_key;

use std::process::ExitCode;

use crate::flags::Command;

/// What a command that fails exits with.
pub(crate) fn failure_code(command: &Command) -> ExitCode {
    match command {
        Command::Doctor(_) => doctor::failed(),
        _ => ExitCode::FAILURE,
    }
}
