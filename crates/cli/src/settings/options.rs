//! The options of `keyfold serve` as the command line declares them: their names, and what the file may say of each.
//!
//! There is no second table of options: what is asked here is asked of clap.

use std::any::TypeId;
use std::num::NonZero;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::flags::Cli;
use crate::flags::serve::PASSWORD_VARIABLE;
use crate::flags::units::{Bytes, Wait};

/// What is meant for the command line alone.
const TYPED_ONLY: [&str; 5] = ["config", "check", "print-config", "help", "version"];

/// How a value is written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Switch,
    OnOff,
    Number,
    Size,
    Time,
    /// Relative to the file's directory.
    Path,
    /// A path where it has a slash; else it is sought on PATH.
    Program,
    Text,
}

/// An option that the file may set.
#[derive(Clone, Debug)]
pub(crate) struct ServeOption {
    /// By which clap knows it.
    pub(super) id: String,
    /// As it is written in the file; behind two dashes, as it is typed.
    pub(crate) name: String,
    pub(super) form: Form,
    pub(super) is_list: bool,
    /// What stands for the value in help, such as `FILE`.
    pub(super) value_name: String,
    /// The variable that says it too.
    pub(super) environment: Option<String>,
    /// The first paragraph of its help.
    pub(super) help: String,
    /// Under which it stands in help.
    pub(super) heading: Option<String>,
}

impl Form {
    fn of(arg: &Arg) -> Self {
        let parser = arg.get_value_parser();
        let takes = |types: &[TypeId]| types.iter().any(|one| parser.type_id() == *one);
        let number = [
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<NonZero<usize>>(),
            TypeId::of::<f64>(),
        ];
        match () {
            () if matches!(arg.get_action(), ArgAction::SetTrue) => Self::Switch,
            () if takes(&[TypeId::of::<bool>()]) => Self::OnOff,
            () if takes(&number) => Self::Number,
            () if takes(&[TypeId::of::<Bytes>()]) => Self::Size,
            () if takes(&[TypeId::of::<Wait>()]) => Self::Time,
            () if takes(&[TypeId::of::<PathBuf>()]) && value_name(arg) == "PROGRAM" => Self::Program,
            () if takes(&[TypeId::of::<PathBuf>()]) => Self::Path,
            () => Self::Text,
        }
    }

    /// What is to be written, for whoever wrote something else.
    pub(super) fn expected(self) -> &'static str {
        match self {
            Self::Switch => "true or false",
            Self::OnOff => "\"on\" or \"off\"",
            Self::Number => "a number without quotes, such as 20",
            Self::Size => "a size in quotes, such as \"64mb\" (b, kb, mb, gb)",
            Self::Time => "a time in quotes, such as \"500ms\" (ms, s, m, h; 0 is for ever)",
            Self::Path => "a file's path in quotes; a relative one begins at this file's directory",
            Self::Program => "a program's name or path, in quotes",
            Self::Text => "text in quotes",
        }
    }
}

impl ServeOption {
    fn of(arg: &Arg) -> Option<Self> {
        let name = arg.get_long().filter(|name| !TYPED_ONLY.contains(name))?;
        let environment = match name {
            // It is no option's own: a password is never typed.
            "password-file" => Some(PASSWORD_VARIABLE.to_owned()),
            _ => arg.get_env().map(|name| name.to_string_lossy().into_owned()),
        };
        Some(Self {
            id: arg.get_id().to_string(),
            name: name.to_owned(),
            form: Form::of(arg),
            is_list: matches!(arg.get_action(), ArgAction::Append),
            value_name: value_name(arg),
            environment,
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            heading: arg.get_help_heading().map(str::to_owned),
        })
    }

    /// What is to be written, lists included.
    pub(super) fn expected(&self) -> String {
        match self.is_list {
            true => format!("{}, or a list of such in [ ]", self.form.expected()),
            false => self.form.expected().to_owned(),
        }
    }
}

fn value_name(arg: &Arg) -> String {
    arg.get_value_names().and_then(|names| names.first()).map(ToString::to_string).unwrap_or_default()
}

/// `keyfold serve` with all that goes with every command, and without what the environment says.
pub(super) fn serve_command() -> Command {
    let mut cli = Cli::command();
    cli.build();
    let serve = cli.find_subcommand("serve").cloned();
    let serve = serve.unwrap_or_else(|| unreachable!("serve is a subcommand"));
    serve.mut_args(|arg| arg.env(None::<&'static str>))
}

/// All that the file may set, in the order of help.
pub(super) fn all() -> Vec<ServeOption> {
    let mut cli = Cli::command();
    cli.build();
    let serve = cli.find_subcommand("serve");
    serve.into_iter().flat_map(Command::get_arguments).filter_map(ServeOption::of).collect()
}

/// Whether a name is an option's that only the command line has.
pub(super) fn is_typed_only(name: &str) -> bool {
    TYPED_ONLY.contains(&name)
}

/// The option whose name is most like this one, where any is like it at all.
pub(super) fn nearest<'a>(options: &'a [ServeOption], name: &str) -> Option<&'a ServeOption> {
    const LIKE: f64 = 0.8;
    let name = name.replace('_', "-").to_ascii_lowercase();
    let likeness = options.iter().map(|option| (strsim::jaro_winkler(&option.name, &name), option));
    let nearest = likeness.max_by(|(one, _), (other, _)| one.total_cmp(other));
    nearest.filter(|(likeness, _)| *likeness >= LIKE).map(|(_, option)| option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_follow_from_what_the_command_line_takes() {
        let options = all();
        let form = |name: &str| options.iter().find(|option| option.name == name).unwrap().form;
        for (name, expected) in [
            ("allow-open", Form::Switch),
            ("newest-commands", Form::OnOff),
            ("max-clients", Form::Number),
            ("threads", Form::Number),
            ("max-request-bytes", Form::Size),
            ("server-timeout", Form::Time),
            ("layout", Form::Path),
            ("secret-file", Form::Path),
            ("server", Form::Program),
            ("listen", Form::Text),
            ("upstream", Form::Text),
        ] {
            assert_eq!(form(name), expected, "{name}");
        }
        assert!(options.iter().all(|option| option.name != "config" && option.name != "help"));
    }

    #[test]
    fn the_nearest_name_is_found_or_none_is() {
        let options = all();
        let nearest = |name: &str| nearest(&options, name).map(|option| option.name.as_str());
        assert_eq!(nearest("max_clients"), Some("max-clients"));
        assert_eq!(nearest("max-client"), Some("max-clients"));
        assert_eq!(nearest("Listen"), Some("listen"));
        assert_eq!(nearest("zzz"), None);
    }
}
