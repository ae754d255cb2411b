//! Runs the conformance list against a plain server and a subject, and prints each difference.

use std::net::SocketAddr;
use std::process::ExitCode;

use keyfold_testkit::{Sides, conformance};
use lexopt::prelude::{Long, Short, ValueExt};

const USAGE: &str = "\
usage: conformance --plain ADDR --subject ADDR [--only TEXT]
       conformance --layout | --coded-layout

Runs every case on both and compares the replies. Both are emptied (FLUSHALL) before each case.

  --only TEXT   only the families and cases whose name contains TEXT
  --layout      print the layout that the subject should serve, and end
  --coded-layout  the same with codecs

exit codes: 0 no difference, 1 differences, 2 wrong arguments";

struct Options {
    sides: Sides,
    only: String,
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let (mut plain, mut subject, mut only) = (None::<SocketAddr>, None::<SocketAddr>, String::new());
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("plain") => plain = Some(parser.value()?.parse()?),
            Long("subject") => subject = Some(parser.value()?.parse()?),
            Long("only") => only = parser.value()?.string()?,
            Long("layout") => {
                print!("{}", conformance::LAYOUT);
                return Ok(None);
            }
            Long("coded-layout") => {
                print!("{}", conformance::CODED_LAYOUT);
                return Ok(None);
            }
            Long("help") | Short('h') => {
                println!("{USAGE}");
                return Ok(None);
            }
            _ => return Err(arg.unexpected()),
        }
    }
    match (plain, subject) {
        (Some(plain), Some(subject)) => Ok(Some(Options { sides: Sides { plain, subject }, only })),
        _ => Err("both --plain and --subject are needed".into()),
    }
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (count, differences) = conformance::run_all(options.sides, &options.only);
    for difference in &differences {
        println!("{difference}\n");
    }
    println!("{count} runs, {} with a difference", differences.len());
    ExitCode::from(u8::from(!differences.is_empty()))
}
