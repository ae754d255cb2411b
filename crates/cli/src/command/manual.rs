//! `keyfold manual`: the help of all commands as pages for man.

use std::fs;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::generate_to;

use crate::flags::Cli;
use crate::flags::manual::ManualFlags;

pub(crate) fn run(flags: &ManualFlags) -> anyhow::Result<()> {
    let out = &flags.out;
    fs::create_dir_all(out).with_context(|| format!("can't make the directory {}", out.display()))?;
    generate_to(Cli::command(), out).with_context(|| format!("can't write manual pages to {}", out.display()))
}
