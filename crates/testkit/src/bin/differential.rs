//! Sends random commands to a plain server and a subject until a reply differs.

use std::io::{IsTerminal, stderr};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Instant;

use keyfold_testkit::Sides;
use keyfold_testkit::differential::{self, Options, Protocols};
use lexopt::prelude::{Long, Short, ValueExt};

const USAGE: &str = "\
usage: differential --plain ADDR --subject ADDR [--commands N] [--seed S] [--protocol 2|3|both]

Sends the same random commands to both and compares the replies. Both are emptied (FLUSHALL). The subject
should serve the layout that `conformance --layout` prints.

  --commands N    how many (default 100000)
  --seed S        makes the same commands again (default 1)
  --protocol P    2, 3 or both (default both)

exit codes: 0 no difference, 1 a difference, which is printed, 2 wrong arguments or no connection";

fn parse() -> Result<Option<(Sides, Options)>, lexopt::Error> {
    let (mut plain, mut subject) = (None::<SocketAddr>, None::<SocketAddr>);
    let mut options = Options { commands: 100_000, seed: 1, protocols: Protocols::Both };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("plain") => plain = Some(parser.value()?.parse()?),
            Long("subject") => subject = Some(parser.value()?.parse()?),
            Long("commands") => options.commands = parser.value()?.parse()?,
            Long("seed") => options.seed = parser.value()?.parse()?,
            Long("protocol") => options.protocols = parser.value()?.parse_with(protocols)?,
            Long("help") | Short('h') => {
                println!("{USAGE}");
                return Ok(None);
            }
            _ => return Err(arg.unexpected()),
        }
    }
    match (plain, subject) {
        (Some(plain), Some(subject)) => Ok(Some((Sides { plain, subject }, options))),
        _ => Err("both --plain and --subject are needed".into()),
    }
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
    let (sides, options) = match parse() {
        Ok(Some(parsed)) => parsed,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("differential: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
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
