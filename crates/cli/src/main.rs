//! The `keyfold` program.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `flags` | what was typed: one file for each subcommand, and the help |
//! | `config` | what it amounts to: files read, defaults filled in, contradictions refused |
//! | `command` | the work: one file for each subcommand |
//! | `codec` | codecs chosen and trained by the values of a live server |
//! | `weighing` | values of families, read to weigh codecs by |
//! | `layout` | a layout's way from a file to a server |
//! | `moving` | a namespace's move over a live server |
//! | `records` | a keyspace as logical records: walked over, kept in files, compared, written |
//! | `scan` | the walk over a live server's keys |
//! | `origin` | where keys are looked at: a live server, or a dump |
//! | `packed.rs` | files that may be packed |
//! | `trace` | requests made to a cache, from a file or as they come, and what other caches would find of them |
//! | `settings` | what `keyfold serve` goes by: what was typed, the environment, its file, defaults |
//! | `question.rs` | a question to the person at the terminal |
//! | `print` | layouts as tables and as JSON, choices and what is folded already as JSON |
//!
//! Only this program and the crates made for it (`keyfold-server`, `keyfold-lab`) use anyhow; what fails in the other
//! libraries says by itself what was wrong.
mod codec;
mod command;
mod config;
mod flags;
mod layout;
mod moving;
mod origin;
mod packed;
mod print;
mod question;
mod records;
mod scan;
mod settings;
mod trace;
mod weighing;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use std::io::{self, Write};
use std::process::ExitCode;

use flags::Command;
use keyfold_report::paper::Paper;
use keyfold_report::room::Room;
use keyfold_server::supervisor;
use settings::{Failure, Line, Settings};

fn main() -> ExitCode {
    let Line { cli, settings } = match settings::read(&std::env::args_os().collect::<Vec<_>>()) {
        Ok(line) => line,
        Err(Failure::Typed(error)) => error.exit(),
        Err(Failure::File(error)) => return fail(&error),
    };
    config::log::start(&cli);
    let is_json = config::log::is_json(&cli);
    match keyfold_server::secrets::start(&cli.secret_file).and_then(|()| run(cli.command, settings)) {
        Ok(code) => code,
        // Whoever read the output has seen enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) if is_json => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
        Err(error) => fail(&error),
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    let style = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
    let said = format!("{style}error:{style:#} {error:#}");
    for line in said.lines() {
        let _ = writeln!(anstream::stderr(), "{}", Room::of_errors().wrap(line));
    }
    ExitCode::FAILURE
}

fn run(command: Command, settings: Settings) -> anyhow::Result<ExitCode> {
    let room = if command.is_wide() { Room::ENDLESS } else { Room::of_output() };
    let mut out = Paper::new(anstream::stdout(), room);
    let mut code = ExitCode::SUCCESS;
    match command {
        Command::Guide(flags) => code = command::guide::run(&flags, &mut out)?,
        Command::Serve(flags) => command::serve::run(*flags, settings, &mut out)?,
        Command::Layout(flags) => code = command::layout::run(config::layout::resolve(flags.command)?, &mut out)?,
        Command::Status(flags) => command::status::run(&flags, &mut out)?,
        Command::Top(flags) => code = command::top::run(config::top::resolve(*flags)?, &mut out)?,
        Command::Where(flags) => command::where_key::run(&config::where_key::resolve(flags)?, &mut out)?,
        Command::Fold(flags) => code = command::fold::run(&config::fold::resolve_fold(*flags)?, &mut out)?,
        Command::Unfold(flags) => code = command::fold::run(&config::fold::resolve_unfold(*flags), &mut out)?,
        Command::Train(flags) => command::train::run(&config::train::resolve(flags)?, &mut out)?,
        Command::Recode(flags) => code = command::recode::run(&flags, &mut out)?,
        Command::Export(flags) => code = command::export::run(&config::export::resolve(*flags)?)?,
        Command::Import(flags) => code = command::import::run(&config::import::resolve(*flags), &mut out)?,
        Command::Verify(flags) => code = command::verify::run(&config::verify::resolve(*flags)?, &mut out)?,
        Command::Doctor(flags) => code = command::doctor::run(&config::doctor::resolve(flags)?, &mut out)?,
        Command::Analyze(flags) => command::analyze::run(&config::analyze::resolve(*flags)?, &mut out)?,
        Command::Plan(flags) => command::plan::run(&config::plan::resolve(flags)?, &mut out)?,
        Command::Demo(flags) => command::demo::run(&config::demo::resolve(flags)?, &mut out)?,
        Command::Lab(flags) => code = command::lab::run(&config::lab::resolve(flags.command), &mut out)?,
        Command::Probe(flags) => command::probe::run(&flags)?,
        Command::Completions(flags) => command::completions::run(&flags, &mut out)?,
        Command::Manual(flags) => command::manual::run(&flags)?,
        Command::Supervise(flags) => supervisor::run(&flags.server, flags.lock.as_deref(), &flags.scratch)?,
    }
    out.flush()?;
    Ok(code)
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
