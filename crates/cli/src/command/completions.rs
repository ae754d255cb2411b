//! `keyfold completions`: a script for a shell.

use std::io::Write;

use clap::CommandFactory;

use crate::flags::Cli;
use crate::flags::completions::CompletionsFlags;

pub(crate) fn run(flags: &CompletionsFlags, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "keyfold", &mut script);
    Ok(out.write_all(&script)?)
}
