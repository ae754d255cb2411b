//! `keyfold completions`.

use clap::Args;
use clap_complete::Shell;

use super::footer::footer;

const EXAMPLES: &str = "\
Examples:
  keyfold completions bash > ~/.local/share/bash-completion/completions/keyfold
  keyfold completions zsh > ~/.zfunc/_keyfold
  keyfold completions fish > ~/.config/fish/completions/keyfold.fish";

#[derive(Args, Debug)]
#[command(after_help = footer(EXAMPLES))]
pub(crate) struct CompletionsFlags {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
