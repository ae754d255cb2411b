//! Sends random commands to a plain server and a subject until a reply differs.

use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use keyfold_testkit::Sides;
use keyfold_testkit::differential::{self, Options, Protocols};

/// Sends the same random commands to both and compares the replies. Both are emptied (FLUSHALL). The subject should serve
/// the layout that `conformance --layout` prints.
#[derive(Parser)]
#[command(
    after_help = "exit codes: 0 no difference, 1 a difference, which is printed, 2 wrong arguments or no connection"
)]
struct Line {
    /// The oracle
    #[arg(long, value_name = "ADDR")]
    plain: SocketAddr,
    /// What must answer as the oracle does
    #[arg(long, value_name = "ADDR")]
    subject: SocketAddr,
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

fn main() -> ExitCode {
    let Line { plain, subject, commands, seed, protocol } = Line::parse();
    let (sides, options) = (Sides { plain, subject }, Options { commands, seed, protocols: protocol });
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
