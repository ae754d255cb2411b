//! `keyfold try`: one way through looking, planning, serving and folding, step by step. Each step is a command that may be
//! typed by itself, and is shown as that.

use std::io::Write;
use std::process::ExitCode;

use anyhow::bail;
use clap::Parser;
use keyfold_core::layout::Layout;
use keyfold_report::paper::Paper;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::layout::stored;
use keyfold_server::{Nodes, Target};

use crate::command::{fold, plan, status};
use crate::config::{self, target};
use crate::flags::fold::{FoldFlags, MoveFlags};
use crate::flags::guide::GuideFlags;
use crate::flags::origin::OriginFlags;
use crate::flags::pace::PaceFlags;
use crate::flags::plan::PlanFlags;
use crate::flags::source::SourceFlags;
use crate::flags::status::StatusFlags;
use crate::flags::{Cli, Command};
use crate::layout::evidence::count_keyfolds;
use crate::layout::file;
use crate::question;

/// Keys that stay are listed up to this number.
const LISTED: usize = 20;

pub(crate) fn run(flags: &GuideFlags, out: &mut Paper) -> anyhow::Result<ExitCode> {
    let target = target::resolve(&flags.upstream);
    let address = target.address.to_string();
    let shown = flags.out.display().to_string();
    propose(flags, &address, out)?;
    if file::read(&flags.out)?.namespaces.iter().all(|namespace| namespace.placement.is_plain()) {
        writeln!(out, "\nnothing here is worth folding; {shown} says why")?;
        return Ok(ExitCode::SUCCESS);
    }
    if !serve(flags, &target, &address, out)? {
        writeln!(out, "nothing was changed; the layout is in {shown}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let raise = if flags.keep_settings { "" } else { " --raise-limits" };
    writeln!(out, "\n3. Fold: say what will happen, ask, and move the keys")?;
    writeln!(out, "$ keyfold fold {address} --layout {shown}{raise}\n")?;
    out.flush()?;
    let code = fold::run(&config::fold::resolve_fold(fold_flags(flags))?, out)?;
    if stored::read(Nodes::connect(&target)?.home())?.is_none_or(|stored| !has_folded(&stored.layout)) {
        return Ok(code);
    }
    writeln!(out, "\n4. What it came to\n$ keyfold status {address}\n")?;
    let pace = PaceFlags { max_ops: flags.pace.max_ops };
    status::run(&StatusFlags { upstream: flags.upstream.clone(), pace, json: false, wide: flags.wide }, out)?;
    writeln!(
        out,
        "\nTo look closer:  keyfold verify {address}\nTo go back:      keyfold unfold {address} --clean\n\
         The layout is in {shown}; it is kept in the server too"
    )?;
    Ok(code)
}

fn has_folded(layout: &Layout) -> bool {
    layout.namespaces().iter().any(|namespace| !namespace.placement.is_plain())
}

/// Plans, unless there is a layout already.
fn propose(flags: &GuideFlags, address: &str, out: &mut Paper) -> anyhow::Result<()> {
    let shown = flags.out.display();
    if flags.out.exists() {
        writeln!(out, "1. The layout: {shown} is there already, and taken as it is; remove it to have one planned")?;
        return Ok(());
    }
    let keep = if flags.keep_settings { " --keep-settings" } else { "" };
    writeln!(out, "1. Look at the keys, and plan a layout\n$ keyfold plan {address} --out {shown}{keep}\n")?;
    out.flush()?;
    plan::run(&config::plan::resolve(plan_flags(flags)?)?, out)
}

/// Sees to it that a keyfold serves, without which clients would miss folded keys. False where the user says no.
fn serve(flags: &GuideFlags, target: &Target, address: &str, out: &mut Paper) -> anyhow::Result<bool> {
    let interrupt = Interrupt::listen()?;
    let keyfolds =
        || Ok::<_, anyhow::Error>(Nodes::connect(target)?.servers().iter_mut().map(count_keyfolds).sum::<usize>());
    writeln!(out, "\n2. Have a keyfold serve: clients reach folded keys through it, and through nothing else")?;
    if flags.unserved {
        writeln!(out, "not looked for, as --unserved says that nobody else uses these keys")?;
        return Ok(true);
    }
    if keyfolds()? > 0 {
        writeln!(out, "one is connected; see to it that all clients go through it")?;
        return Ok(true);
    }
    let start = format!("$ keyfold serve {address} --listen 127.0.0.1:6380");
    if flags.yes {
        bail!(
            "nothing was changed: no keyfold is connected to {address}, and clients would not find folded keys. Start one, \
             point the clients to it, and run this again; or say --unserved where nobody uses these keys\n{start}"
        );
    }
    writeln!(out, "none is connected. In another terminal, say\n{start}\nand point your clients to port 6380")?;
    while question::ask("Is it running?", &interrupt, out)? {
        if keyfolds()? > 0 {
            return Ok(true);
        }
        writeln!(out, "no keyfold is connected to {address} yet")?;
    }
    Ok(false)
}

/// As if `keyfold plan` had been typed.
fn plan_flags(flags: &GuideFlags) -> anyhow::Result<PlanFlags> {
    let Command::Plan(typed) = Cli::try_parse_from(["keyfold", "plan"])?.command else { bail!("plan is a command") };
    Ok(PlanFlags {
        origin: OriginFlags { upstream: flags.upstream.clone(), ..typed.origin },
        out: Some(flags.out.clone()),
        keep_settings: flags.keep_settings,
        pace: PaceFlags { max_ops: flags.pace.max_ops },
        settings: flags.settings.clone(),
        ..typed
    })
}

fn fold_flags(flags: &GuideFlags) -> FoldFlags {
    let moving = MoveFlags {
        upstream: flags.upstream.clone(),
        namespace: Vec::new(),
        dry_run: false,
        yes: flags.yes,
        pace: PaceFlags { max_ops: flags.pace.max_ops },
        list: LISTED,
        json: false,
        wide: flags.wide,
        settings: flags.settings.clone(),
    };
    FoldFlags { moving, layout: flags.out.clone(), raise_limits: !flags.keep_settings, source: SourceFlags::default() }
}
