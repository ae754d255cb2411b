//! `keyfold lab`: the published studies of folded keys, done again on a server.

use std::process::ExitCode;

use keyfold_report::paper::Paper;

use crate::config::lab::Lab;

pub(crate) fn run(lab: &Lab, out: &mut Paper) -> anyhow::Result<ExitCode> {
    match lab {
        Lab::List => keyfold_lab::list(out),
        Lab::Run(run) => keyfold_lab::run(run, out),
    }
}
