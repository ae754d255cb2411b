//! `keyfold layout`: check, show, push, recover.

mod recover;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_report::number::plural;
use keyfold_report::paper::Paper;
use keyfold_server::Nodes;
use keyfold_server::layout::stored;
use serde_json::json;

use crate::config::layout::{LayoutTask, Push};
use crate::config::target;
use crate::flags::layout::ShowFlags;
use crate::layout::file;
use crate::moving::rollout;
use crate::print::layout::{namespaces, namespaces_json};

pub(crate) fn run(task: LayoutTask, out: &mut Paper) -> anyhow::Result<ExitCode> {
    match task {
        LayoutTask::Check { path, layout, json } => check(&path, &layout, json, out)?,
        LayoutTask::Show(flags) => show(&flags, out)?,
        LayoutTask::Push(config) => push(&config, out)?,
        LayoutTask::Recover(config) => return recover::run(&config, out),
    }
    Ok(ExitCode::SUCCESS)
}

fn check(path: &Path, layout: &Layout, json: bool, out: &mut Paper) -> anyhow::Result<()> {
    let warnings: Vec<_> = layout.warnings().iter().map(ToString::to_string).collect();
    if json {
        let report = json!({ "namespaces": namespaces_json(layout), "warnings": warnings });
        return Ok(out.whole(format_args!("{report:#}"))?);
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    if !warnings.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}\n", namespaces(layout, out.room()))?;
    let (spaces, warned) = (layout.namespaces().len() as u64, warnings.len() as u64);
    writeln!(out, "{} is right: {}, {}", file::name(path), plural(spaces, "namespace"), plural(warned, "warning"))?;
    Ok(())
}

fn show(flags: &ShowFlags, out: &mut Paper) -> anyhow::Result<()> {
    let mut nodes = Nodes::connect(&target::resolve(&flags.upstream))?;
    let server = nodes.home();
    let Some(stored) = stored::read(server)? else {
        bail!("the server at {} has no layout; bring one with keyfold layout push or keyfold serve", server.address());
    };
    let (layout, version) = (&stored.layout, server.version());
    match flags {
        ShowFlags { toml: true, .. } => out.whole(stored.text.trim_end_matches('\n'))?,
        ShowFlags { file: true, .. } => out.whole(layout.to_file().trim_end_matches('\n'))?,
        ShowFlags { json: true, .. } => {
            let (epoch, namespaces) = (layout.epoch().0, namespaces_json(layout));
            let report = json!({ "server": version.to_string(), "epoch": epoch, "namespaces": namespaces });
            out.whole(format_args!("{report:#}"))?;
        }
        _ => {
            let (epoch, address) = (layout.epoch(), server.address());
            writeln!(
                out,
                "change number {epoch} of the layout at {address} ({version})\n\n{}",
                namespaces(layout, out.room())
            )?;
        }
    }
    Ok(())
}

fn push(config: &Push, out: &mut Paper) -> anyhow::Result<()> {
    let (nodes, rollout) = rollout::bring(&config.target, Some(&config.file), config.key_check)?;
    let mut warnings = rollout.warnings();
    warnings.extend(nodes.away().iter().map(|error| format!("{error:#}")));
    warnings.extend(rollout::shortfalls(&nodes, &rollout.layout, &config.flags.settings.assume));
    warnings.extend(nodes.other_releases());
    if config.flags.json {
        let keys = |which: &[NamespaceIndex]| {
            which.iter().map(|index| rollout.layout.namespace(*index).keys.source()).collect::<Vec<_>>()
        };
        let report = json!({
            "epoch": rollout.layout.epoch().0,
            "written": rollout.written,
            "added": keys(&rollout.added),
            "changed": keys(&rollout.changed),
            "namespaces": namespaces_json(&rollout.layout),
            "warnings": warnings,
        });
        return Ok(out.whole(format_args!("{report:#}"))?);
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    writeln!(out, "{}\n\n{}", rollout.summary(), namespaces(&rollout.layout, out.room()))?;
    Ok(())
}
