//! `keyfold completions`: a script for a shell.

use clap::CommandFactory;
use keyfold_report::paper::Paper;

use crate::flags::Cli;
use crate::flags::completions::CompletionsFlags;

pub(crate) fn run(flags: &CompletionsFlags, out: &mut Paper) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(flags.shell, &mut Cli::command(), "keyfold", &mut script);
    Ok(out.whole(String::from_utf8(script)?.trim_end())?)
}
