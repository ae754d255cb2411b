//! `keyfold layout`: check, show, push, recover.

mod recover;

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use keyfold_core::layout::NamespaceIndex;
use serde_json::json;

use crate::config::target;
use crate::flags::layout::{CheckFlags, LayoutCommand, PushFlags, ShowFlags};
use crate::layout::{file, stored};
use crate::moving::{KeyCheck, rollout};
use crate::print::number::plural;
use crate::print::table::{namespaces, namespaces_json};
use crate::server::Server;

pub(crate) fn run(command: LayoutCommand, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match command {
        LayoutCommand::Check(flags) => check(&flags, out)?,
        LayoutCommand::Show(flags) => show(flags, out)?,
        LayoutCommand::Push(flags) => push(flags, out)?,
        LayoutCommand::Recover(flags) => return recover::run(flags, out),
    }
    Ok(ExitCode::SUCCESS)
}

fn check(flags: &CheckFlags, out: &mut dyn Write) -> anyhow::Result<()> {
    let layout = file::alone(&file::read(&flags.file)?)?;
    let warnings: Vec<_> = layout.warnings().iter().map(ToString::to_string).collect();
    if flags.json {
        let report = json!({ "namespaces": namespaces_json(&layout), "warnings": warnings });
        return Ok(writeln!(out, "{report:#}")?);
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    if !warnings.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}\n", namespaces(&layout))?;
    let (spaces, warned) = (layout.namespaces().len() as u64, warnings.len() as u64);
    writeln!(out, "{} is right: {}, {}", flags.file.display(), plural(spaces, "namespace"), plural(warned, "warning"))?;
    Ok(())
}

fn show(flags: ShowFlags, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut server = Server::connect(&target::resolve(flags.upstream))?;
    let Some(stored) = stored::read(&mut server)? else {
        bail!("the server at {} has no layout; bring one with keyfold layout push or keyfold serve", server.address());
    };
    if flags.toml {
        return Ok(write!(out, "{}", stored.text)?);
    }
    let (layout, version) = (stored.layout, server.version());
    if flags.file {
        return Ok(write!(out, "{}", layout.to_file())?);
    }
    if flags.json {
        let report = json!({
            "server": version.to_string(),
            "epoch": layout.epoch().0,
            "namespaces": namespaces_json(&layout),
        });
        return Ok(writeln!(out, "{report:#}")?);
    }
    writeln!(out, "layout epoch {} at {} ({version})\n\n{}", layout.epoch(), server.address(), namespaces(&layout))?;
    Ok(())
}

fn push(flags: PushFlags, out: &mut dyn Write) -> anyhow::Result<()> {
    let file = file::read(&flags.file)?;
    let target = target::resolve(flags.upstream);
    let check = if flags.skip_key_check { KeyCheck::Skip } else { KeyCheck::Look };
    let (mut server, rollout) = rollout::bring(&target, Some(&file), check)?;
    let mut warnings = rollout.warnings();
    warnings.extend(rollout::shortfalls(&mut server, &rollout.layout, &flags.settings.assume));
    if flags.json {
        let keys = |which: &[NamespaceIndex]| {
            which.iter().map(|index| rollout.layout.namespace(*index).template.source()).collect::<Vec<_>>()
        };
        let report = json!({
            "epoch": rollout.layout.epoch().0,
            "written": rollout.written,
            "added": keys(&rollout.added),
            "changed": keys(&rollout.changed),
            "namespaces": namespaces_json(&rollout.layout),
            "warnings": warnings,
        });
        return Ok(writeln!(out, "{report:#}")?);
    }
    for warning in &warnings {
        writeln!(out, "warning: {warning}")?;
    }
    writeln!(out, "{}\n\n{}", rollout.summary(), namespaces(&rollout.layout))?;
    Ok(())
}
