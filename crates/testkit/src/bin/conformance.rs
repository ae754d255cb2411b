//! Runs the conformance list against a plain server and a subject, and prints each difference.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Parser;
use keyfold_testkit::{Sides, conformance};

/// Runs every case on both and compares the replies. Both are emptied (FLUSHALL) before each case.
#[derive(Parser)]
#[command(after_help = "exit codes: 0 no difference, 1 differences, 2 wrong arguments")]
struct Line {
    /// The oracle
    #[arg(long, value_name = "ADDR", requires = "subject", required_unless_present_any = ["layout", "coded_layout"])]
    plain: Option<SocketAddr>,
    /// What must answer as the oracle does
    #[arg(long, value_name = "ADDR", requires = "plain")]
    subject: Option<SocketAddr>,
    /// Only the families and cases whose name contains TEXT
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Print the layout that the subject should serve, and end
    #[arg(long)]
    layout: bool,
    /// The same with codecs
    #[arg(long)]
    coded_layout: bool,
}

fn main() -> ExitCode {
    let line = Line::parse();
    let Some((plain, subject)) = line.plain.zip(line.subject).filter(|_| !line.layout && !line.coded_layout) else {
        print!("{}", if line.layout { conformance::LAYOUT } else { conformance::CODED_LAYOUT });
        return ExitCode::SUCCESS;
    };
    let (count, differences) = conformance::run_all(Sides { plain, subject }, &line.only);
    for difference in &differences {
        println!("{difference}\n");
    }
    println!("{count} runs, {} with a difference", differences.len());
    ExitCode::from(u8::from(!differences.is_empty()))
}
