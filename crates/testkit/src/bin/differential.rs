//! Sends random commands to a plain server and a subject until a reply differs, or has clients keep what they read until a value
//! stays stale; starts what it isn't told where it is.

use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use keyfold_testkit::differential::{
    self, Behind, CacheOptions, CacheStage, CalledAs, Former, Options, Protocols, ScriptOptions, Stage, Way, is_later,
};
use keyfold_testkit::{Binary, Sides, newest};

/// Sends the same random commands to both and compares the replies. Both are emptied (FLUSHALL). A subject that is told by
/// its address should serve the layout that `conformance --layout` prints, and before a cluster one that folds the same
/// keys.
#[derive(Parser)]
#[command(
    args_override_self = true,
    after_help = "exit codes: 0 no difference, 1 a difference, which is printed, 2 wrong arguments or no connection"
)]
struct Line {
    /// The oracle
    #[arg(long, value_name = "ADDR", requires = "subject")]
    plain: Option<SocketAddr>,
    /// What must answer as the oracle does
    #[arg(long, value_name = "ADDR", requires = "plain")]
    subject: Option<SocketAddr>,
    /// The server to start, as in `redis 7.0.15` or `valkey` [default: the newest at hand]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true, value_parser = newest)]
    server: Binary,
    /// What keyfold stands before: a server, a cluster, or a cluster that has to answer as one server does
    #[arg(long, value_name = "WHAT", default_value = "server", value_parser = behind)]
    behind: Behind,
    /// Starts keyfold with a layout that has codecs
    #[arg(long)]
    coded: bool,
    /// Compares no bounds of encodings, as is needed with servers after Redis 7.0 [default where they are started]
    #[arg(long)]
    later: bool,
    /// Compares what subscribers hear of folded keys too, before one server
    #[arg(long, conflicts_with = "moving")]
    notifications: bool,
    /// Sets and hashes in place of strings, before one server
    #[arg(long, conflicts_with_all = ["moving", "called", "behind"])]
    collections: bool,
    /// Half of the commands on them by scripts of one command each
    #[arg(long, requires = "collections")]
    in_scripts: bool,
    /// Random scripts in place of commands, so many calls as are told
    #[arg(long, group = "called")]
    scripts: bool,
    /// Random functions in place of commands, so many calls as are told
    #[arg(long, group = "called")]
    functions: bool,
    /// Clients with caches in place of compared answers, behind two keyfolds, and writers through either and past both: whether
    /// every value that they keep comes to be what the server holds
    #[arg(long, conflicts_with_all = ["called", "moving", "notifications", "plain", "subject", "later", "protocol"])]
    tracking: bool,
    /// Runs scripts or functions while all keys are being moved, and lie in their old places or their new ones: folded, placed or
    /// unfolded
    #[arg(long, value_name = "WAY", requires = "called", value_parser = way)]
    moving: Option<Way>,
    /// How many commands
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    commands: u64,
    /// Makes the same commands again
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// 2, 3 or both
    #[arg(long, value_name = "P", default_value = "both", value_parser = protocols)]
    protocol: Protocols,
}

fn protocols(text: &str) -> Result<Protocols, &'static str> {
    match text {
        "2" => Ok(Protocols::Resp2),
        "3" => Ok(Protocols::Resp3),
        "both" => Ok(Protocols::Both),
        _ => Err("a protocol is 2, 3 or both"),
    }
}

fn behind(text: &str) -> Result<Behind, String> {
    let all = Behind::ALL.map(Behind::name).join(", ");
    Behind::ALL.into_iter().find(|behind| behind.name() == text).ok_or_else(|| format!("it is one of {all}"))
}

fn way(text: &str) -> Result<Way, String> {
    let all = Way::ALL.map(Way::name).join(", ");
    Way::ALL.into_iter().find(|way| way.name() == text).ok_or_else(|| format!("it is one of {all}"))
}

fn start(line: &Line) -> Result<Stage, differential::StageError> {
    match line.moving {
        Some(way) => Stage::moving(&line.server, way),
        None if line.collections => Stage::of_collections(&line.server, line.coded),
        None => Stage::start(&line.server, line.behind, line.coded),
    }
}

fn main() -> ExitCode {
    let line = Line::parse();
    if line.tracking {
        return look_at_caches(&line);
    }
    match (line.plain, line.subject) {
        (Some(plain), Some(subject)) => compare(Sides { plain, subject }, None, &line, line.later),
        _ => match start(&line) {
            Ok(stage) => {
                let codecs = if line.coded || line.moving.is_some() { ", with codecs" } else { "" };
                let moving = line.moving.map_or_else(String::new, |way| format!(", being {}", way.name()));
                println!("{}, {}{codecs}{moving}", line.server.name(), line.behind);
                compare(stage.sides(), stage.former(), &line, line.later || is_later(&line.server))
            }
            Err(error) => {
                eprintln!("differential: {error}");
                ExitCode::from(2)
            }
        },
    }
}

fn look_at_caches(line: &Line) -> ExitCode {
    if line.behind != Behind::Server {
        eprintln!("differential: --tracking has its keyfolds before one server; leave --behind out");
        return ExitCode::from(2);
    }
    let stage = match CacheStage::start(&line.server, line.coded) {
        Ok(stage) => stage,
        Err(error) => {
            eprintln!("differential: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{}, two keyfolds{}", line.server.name(), if line.coded { ", with codecs" } else { "" });
    let started = Instant::now();
    let terminal = stderr().is_terminal();
    let options = CacheOptions { seed: line.seed, commands: line.commands, ..CacheOptions::default() };
    let result = differential::run_caches(&stage.sides(), &options, |commands| {
        if terminal {
            eprint!("\r{commands} of {} commands ", line.commands);
        }
    });
    if terminal {
        eprintln!();
    }
    match result {
        Ok(agreed) => {
            println!(
                "{} commands of clients with caches agree (seed {}, {:.1} s): {} values were compared in {} looks, of which the slowest took {:.3} s",
                agreed.commands,
                line.seed,
                started.elapsed().as_secs_f64(),
                agreed.values,
                agreed.looks,
                agreed.slowest.as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(failure @ (differential::CacheFailure::Stale(_) | differential::CacheFailure::Empty { .. })) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare_scripts(sides: Sides, former: Option<&Former>, line: &Line) -> ExitCode {
    let started = Instant::now();
    let terminal = stderr().is_terminal();
    let (called_as, what) =
        if line.functions { (CalledAs::Functions, "functions") } else { (CalledAs::Scripts, "scripts") };
    let Line { behind, notifications, seed, commands: calls, .. } = *line;
    let options = ScriptOptions { behind, former, called_as, notifications, seed, calls };
    let result = differential::run_scripts(sides, &options, |calls| {
        if terminal {
            eprint!("\r{calls} of {} calls ", line.commands);
        }
    });
    match result {
        Ok(calls) => {
            println!("{calls} calls of {what} agree (seed {}, {:.1} s)", line.seed, started.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        Err(differential::ScriptFailure::Difference(difference)) => {
            println!("{difference}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare(sides: Sides, former: Option<&Former>, line: &Line, later: bool) -> ExitCode {
    let Line { commands, seed, protocol: protocols, behind, .. } = *line;
    if line.scripts || line.functions {
        return compare_scripts(sides, former, line);
    }
    let Line { notifications, collections, in_scripts, .. } = *line;
    let options = Options {
        commands,
        seed,
        protocols,
        behind,
        later,
        notifications,
        collections,
        in_scripts,
        ..Options::default()
    };
    let started = Instant::now();
    let terminal = stderr().is_terminal();
    let result = differential::run(sides, &options, |commands| {
        if terminal {
            let seconds = started.elapsed().as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "shown rounded")]
            let rate = commands as f64 / seconds;
            eprint!("\r{commands} of {} commands, {rate:.0} a second ", options.commands);
        }
    });
    if terminal {
        eprintln!();
    }
    match result {
        Ok(agreed) => {
            println!(
                "{} commands agree (seed {}, {:.1} s)",
                agreed.commands,
                options.seed,
                started.elapsed().as_secs_f64()
            );
            ExitCode::SUCCESS
        }
        Err(differential::Failure::Difference(difference)) => {
            println!("{difference}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::from(2)
        }
    }
}
