//! What was typed, and the help. Nothing here reads a file or decides anything.

pub(crate) mod analyze;
pub(crate) mod completions;
pub(crate) mod databases;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fold;
mod footer;
pub(crate) mod guide;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod layout;
pub(crate) mod manual;
pub(crate) mod origin;
pub(crate) mod pace;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod recode;
pub(crate) mod serve;
pub(crate) mod source;
pub(crate) mod status;
pub(crate) mod supervise;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod train;
pub(crate) mod units;
pub(crate) mod upstream;
pub(crate) mod verify;
pub(crate) mod where_key;
pub(crate) mod wide;

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  keyfold demo
      see what folding saves, on servers of its own
  keyfold try redis://127.0.0.1:6379
      all the way with your own keys, step by step, asking before it changes any
  keyfold analyze redis://127.0.0.1:6379
      what takes the memory, and what to do
  keyfold plan redis://127.0.0.1:6379 --out layout.toml
  keyfold layout check layout.toml
      is the layout right, and what does it say?
  keyfold serve redis://127.0.0.1:6379 --listen 127.0.0.1:6380
      a proxy before that server: clients go to port 6380 from now on
  keyfold serve --layout layout.toml
      a proxy with a private server behind it
  keyfold fold redis://127.0.0.1:6379 --layout layout.toml
      move the keys to where the layout says; asks before it begins
  keyfold status redis://127.0.0.1:6379
      what is folded, and what does it save?
  keyfold top redis://127.0.0.1:6380
      the same as it goes on, by namespace and by keyfold
  keyfold where redis://127.0.0.1:6379 user:1000:logins
  keyfold export redis://127.0.0.1:6379 --out dump.jsonl.gz
  keyfold verify redis://127.0.0.1:6379 --against dump.jsonl.gz
  keyfold doctor redis://127.0.0.1:6379
      why is memory not what it should be?

A server may be named without redis://, as in 127.0.0.1:6379 or localhost.

Words:
  folded     a key that lies in a bucket, with others like it
  bucket     a small hash, which the server packs tightly
  namespace  keys of one shape, and the rule that gives them their buckets
  layout     the namespaces of a server, kept in the server itself
  zipped     a key that stays one of its own, under a shorter name
  codec      what writes values in fewer bytes; slot: the number by which a
             value names the one that wrote it
  epoch      the number of the layout's latest change, one more with each

Exit codes:
  0  done
  1  failed; the reason is on stderr
  2  the command line is wrong
  3  done, but not all is well; the help of the command says what
  4  different; see the help of verify";

/// Over the options that every command has.
const EVERY: &str = "With every command";

/// Folds small Redis and Valkey keys into a fraction of their memory, behind the clients' back.
///
/// A plain small key costs 50 to 140 bytes of server overhead; a field of a small hash costs 2 to 4. keyfold
/// is a proxy that keeps families of small keys in such hashes, while clients go on using them as keys.
#[derive(Debug, Parser)]
#[command(name = "keyfold", version, after_help = footer::footer(EXAMPLES), max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// What is logged to stderr: error, warn, info, debug, trace, or a filter by module, as in
    /// info,keyfold_proxy=debug [default: info for serve, warn otherwise]
    #[arg(long, global = true, value_name = "FILTER", env = "KEYFOLD_LOG", hide_env_values = true, help_heading = EVERY)]
    #[arg(value_parser = parse_filter)]
    pub(crate) log: Option<String>,

    /// The secret of namespaces with `keyed = true`, which says in which bucket a key lies. Several while keys move from
    /// one secret to another: a file that doesn't say which means the first
    #[arg(long, global = true, value_name = "FILE", help_heading = EVERY)]
    pub(crate) secret_file: Vec<PathBuf>,
}

/// A filter of the log, which is kept as it was written.
fn parse_filter(text: &str) -> Result<String, String> {
    let parsed = EnvFilter::builder().parse(text);
    parsed.map(|_| text.to_owned()).map_err(|error| format!("{error}; write error, warn, info, debug or trace"))
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Go all the way, step by step: look, plan, serve, fold, and how to go back
    #[command(name = "try")]
    Guide(Box<guide::GuideFlags>),
    /// Say which keys take the memory, and what folding them would save
    Analyze(Box<analyze::AnalyzeFlags>),
    /// Make the layout that saves the most of what a server holds, and say why
    #[command(long_about = plan::ABOUT)]
    Plan(plan::PlanFlags),
    /// Check, show, push and recover layouts
    Layout(layout::LayoutFlags),
    /// Run the proxy
    Serve(Box<serve::ServeFlags>),
    /// Move live keys to where a layout says, while clients go on
    Fold(Box<fold::FoldFlags>),
    /// Move live keys back under their own names, while clients go on
    Unfold(Box<fold::UnfoldFlags>),
    /// Train codecs by the values that a server holds, and have values written by them
    Train(train::TrainFlags),
    /// Store values again by the codec in use, while clients go on
    Recode(recode::RecodeFlags),
    /// Say what is folded, what that saves, which moves are open, and who serves
    Status(status::StatusFlags),
    /// Watch what keyfolds do: commands, latencies, hits, what is saved, warnings
    Top(Box<top::TopFlags>),
    /// Say where a key lives, and how it is stored
    Where(where_key::WhereFlags),
    /// Look whether every key lies in its place, and is what a file says
    Verify(Box<verify::VerifyFlags>),
    /// Say why memory is not what it should be, and mend it
    #[command(long_about = doctor::ABOUT)]
    Doctor(doctor::DoctorFlags),
    /// Write every key, folded or not, to a file
    Export(Box<export::ExportFlags>),
    /// Write a file's keys to a server, folded by its layout
    Import(Box<import::ImportFlags>),
    /// Fold data before your eyes, and measure what it saves
    Demo(demo::DemoFlags),
    /// Run the published studies of folded keys on a server, with plots
    #[command(long_about = lab::ABOUT)]
    Lab(lab::LabFlags),
    /// Ask a keyfold's --admin address whether it is ready, or lives
    Probe(probe::ProbeFlags),
    /// Write a completion script for a shell
    Completions(completions::CompletionsFlags),
    /// Write the manual pages, one for each command, into a directory
    #[command(hide = true)]
    Manual(manual::ManualFlags),
    /// Run a server for as long as standard input is open
    #[command(hide = true)]
    Supervise(supervise::SuperviseFlags),
}

impl Command {
    /// Whether tables are wanted whole, of a command that prints any.
    pub(crate) fn is_wide(&self) -> bool {
        use lab::LabCommand;
        use layout::LayoutCommand;
        let wide = match self {
            Self::Guide(flags) => flags.wide,
            Self::Analyze(flags) => flags.wide,
            Self::Plan(flags) => flags.wide,
            Self::Fold(flags) => flags.moving.wide,
            Self::Unfold(flags) => flags.moving.wide,
            Self::Train(flags) => flags.wide,
            Self::Status(flags) => flags.wide,
            Self::Top(flags) => flags.wide,
            Self::Verify(flags) => flags.wide,
            Self::Doctor(flags) => flags.wide,
            Self::Demo(flags) => flags.wide,
            Self::Layout(layout::LayoutFlags { command }) => match command {
                LayoutCommand::Check(flags) => flags.wide,
                LayoutCommand::Show(flags) => flags.wide,
                LayoutCommand::Push(flags) => flags.wide,
                LayoutCommand::Recover(flags) => flags.wide,
            },
            Self::Lab(lab::LabFlags { command }) => match command {
                LabCommand::List(wide) => *wide,
                LabCommand::Run(flags) => flags.ground.wide,
                LabCommand::All(flags) => flags.wide,
            },
            Self::Serve(_) | Self::Where(_) | Self::Recode(_) | Self::Export(_) | Self::Import(_) | Self::Probe(_) => {
                return false;
            }
            Self::Completions(_) | Self::Manual(_) | Self::Supervise(_) => return true,
        };
        wide.wide
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// A terminal's width: what is wrapped can't be copied, and is no command any more.
    const COLUMNS: usize = 80;

    fn each(command: &clap::Command, look: &mut dyn FnMut(&clap::Command)) {
        look(command);
        command.get_subcommands().for_each(|sub| each(sub, look));
    }

    #[test]
    fn examples_are_not_wrapped() {
        each(&Cli::command(), &mut |command| {
            // The URLs of Sentinels are longer than a line.
            if command.get_name() == "serve" {
                return;
            }
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let mut is_continued = false;
            for line in after.lines() {
                if is_continued || line.starts_with("  keyfold") {
                    assert!(line.chars().count() <= COLUMNS, "{}: {line}", command.get_name());
                    is_continued = line.ends_with('\\');
                }
            }
        });
    }
}
