//! What `keyfold serve` goes by: what was typed, the environment, the file that `--config` names, and defaults, in this
//! order.
//!
//! The file says what the command line could have said, so it is read by the same parsers: what it sets and nobody typed is
//! put behind what was typed, `--name=value`, and all is parsed a second time. Defaults, lists, and options that need or
//! exclude each other are clap's affair both times.

mod changes;
mod options;
mod print;
mod secret;
mod text;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{LayoutFile, Problem};
use keyfold_core::placement::Secrets;

use crate::flags::serve::PASSWORD_VARIABLE;
use crate::flags::{Cli, Command};
use crate::layout::file;
pub(crate) use changes::Change;
pub(crate) use options::ServeOption;
use text::{Entry, Mistake};

/// Why there is nothing to go by.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What was typed is wrong, or asks for help.
    Typed(clap::Error),
    /// The file is wrong: all that is.
    File(anyhow::Error),
}

/// What was typed, and for `keyfold serve` all that it goes by.
pub(crate) struct Line {
    pub(crate) cli: Cli,
    pub(crate) settings: Settings,
}

/// Every option of `keyfold serve` with its value; none for other commands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    all: Vec<Setting>,
    pub(crate) file: Option<ConfigFile>,
}

/// An option with its value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    option: ServeOption,
    /// As they would be typed; none where nobody says any, and where a switch is off.
    values: Vec<String>,
    source: Source,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Typed,
    /// The variable.
    Environment(String),
    File,
    Default,
}

/// The file that `--config` names.
#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    /// The text with all but its layout blanked out; none where it has no layout.
    pub(crate) layout: Option<String>,
}

impl ConfigFile {
    /// The layout that stands in the file itself.
    pub(crate) fn layout(&self) -> Option<anyhow::Result<LayoutFile>> {
        Some(file::parse(&self.path.display().to_string(), self.layout.as_deref()?))
    }
}

/// Reads a command line, and the file that it names.
pub(crate) fn read(args: &[OsString]) -> Result<Line, Failure> {
    let Some((path, typed)) = config_file(args) else {
        let matches = parse(args, &[]).map_err(Failure::Typed)?;
        return line(&matches, &[], None).map_err(Failure::Typed);
    };
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("can't read the configuration {}", path.display()))
        .map_err(Failure::File)?;
    let read = text::read(&text, path.parent().unwrap_or(Path::new("")));
    let mut mistakes = read.mistakes;
    let entries = not_overruled(&typed, read.entries);
    let is_typed_layout = has_typed(&typed, "layout");
    if read.layout.is_some()
        && let Some(entry) = entries.iter().find(|entry| entry.option.name == "layout")
    {
        let message = "the layout is named here, and it stands below as [[namespace]] too: leave one of them out";
        mistakes.push(Mistake { offset: entry.offset, message: message.to_owned() });
    }
    let parsed = parse_with(args, entries, read.wrong, &mut mistakes);
    if !mistakes.is_empty() {
        return Err(Failure::File(told(&path, &text, mistakes, read.layout.as_deref())));
    }
    let (matches, left) = parsed.map_err(Failure::Typed)?;
    let layout = read.layout.filter(|_| !is_typed_layout);
    line(&matches, &left, Some(ConfigFile { path, layout })).map_err(Failure::Typed)
}

fn line(matches: &ArgMatches, entries: &[Entry], file: Option<ConfigFile>) -> Result<Line, clap::Error> {
    let cli = Cli::from_arg_matches(matches).map_err(|error| error.format(&mut Cli::command()))?;
    let serves = matches.subcommand_matches("serve").filter(|_| matches!(cli.command, Command::Serve(_)));
    let all = serves.map(|serve| effective(serve, entries)).unwrap_or_default();
    Ok(Line { cli, settings: Settings { all, file } })
}

/// The file that is named, and what was typed beside it as far as it can be understood: what it lacks may be in the file.
fn config_file(args: &[OsString]) -> Option<(PathBuf, ArgMatches)> {
    let is_named = |arg: &OsString| arg.as_encoded_bytes().starts_with(b"--config");
    if !args.iter().any(is_named) {
        return None;
    }
    let typed = Cli::command().ignore_errors(true).try_get_matches_from(args).ok()?;
    let serve = typed.subcommand_matches("serve")?.clone();
    Some((serve.get_one::<PathBuf>("config")?.clone(), serve))
}

fn has_typed(typed: &ArgMatches, id: &str) -> bool {
    matches!(typed.value_source(id), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// What neither the command line nor the environment says.
fn not_overruled(typed: &ArgMatches, entries: Vec<Entry>) -> Vec<Entry> {
    let is_overruled = |entry: &Entry| match entry.option.name.as_str() {
        "upstream" => has_typed(typed, "upstream") || has_typed(typed, "url"),
        // The variable has no option of its own.
        "password-file" => has_typed(typed, "password_file") || has_password_variable(),
        _ => has_typed(typed, &entry.option.id),
    };
    entries.into_iter().filter(|entry| !is_overruled(entry)).collect()
}

fn has_password_variable() -> bool {
    std::env::var_os(PASSWORD_VARIABLE).is_some()
}

/// What was typed, with what the file says behind it.
fn parse(args: &[OsString], entries: &[Entry]) -> Result<ArgMatches, clap::Error> {
    let said = entries.iter().flat_map(|entry| entry.values.iter().map(|value| as_typed(&entry.option, value)));
    // Behind `--` there are no options any more.
    let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
    let line = args[..end].iter().cloned().chain(said).chain(args[end..].iter().cloned());
    Cli::command().try_get_matches_from(line).map_err(without_login)
}

/// The same error, without the user and the passwords in an address that it shows: standard error is a log's where nobody types.
fn without_login(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
        && (value.contains('@') || value.contains("password="))
    {
        let (address, has_query) = value.split_once("?sentinel_").map_or((value.as_str(), false), |(it, _)| (it, true));
        let scheme = address.find("://").map_or("", |end| &address[..end + 3]);
        let rest = &address[scheme.len()..];
        let host = rest.rsplit_once('@').map_or_else(|| rest.to_owned(), |(_, host)| format!("…@{host}"));
        let shown = format!("{scheme}{host}{}", if has_query { "?…" } else { "" });
        error.insert(ContextKind::InvalidValue, ContextValue::String(shown));
    }
    error
}

fn as_typed(option: &ServeOption, value: &str) -> OsString {
    match option.form {
        options::Form::Switch => format!("--{}", option.name).into(),
        _ => format!("--{}={value}", option.name).into(),
    }
}

/// The same, with each entry left out and noted that doesn't go with the others; what is left of them. `left_out` are the
/// options that were left out before, for mistakes of their own.
fn parse_with(
    args: &[OsString],
    mut entries: Vec<Entry>,
    mut left_out: Vec<String>,
    mistakes: &mut Vec<Mistake>,
) -> Result<(ArgMatches, Vec<Entry>), clap::Error> {
    loop {
        let error = match parse(args, &entries) {
            Ok(matches) => return Ok((matches, entries)),
            Err(error) => error,
        };
        // The last entry without which something else is said, or nothing.
        let is_of = |at: &usize| {
            let others: Vec<Entry> = [&entries[..*at], &entries[*at + 1..]].concat();
            parse(args, &others).err().is_none_or(|other| identity(&other) != identity(&error))
        };
        let Some(at) = (0..entries.len()).rev().find(is_of) else { return Err(error) };
        let entry = entries.remove(at);
        // What only lacks an entry that is wrong itself is right.
        let lacking = named(&error, ContextKind::InvalidArg);
        let follows = error.kind() == ErrorKind::MissingRequiredArgument
            && lacking.iter().any(|name| left_out.iter().any(|left| left == name));
        if !follows {
            mistakes.push(Mistake { offset: entry.offset, message: disagreement(&entry, &error) });
        }
        left_out.push(entry.option.name);
    }
}

fn identity(error: &clap::Error) -> (ErrorKind, Vec<String>, Vec<String>) {
    (error.kind(), named(error, ContextKind::InvalidArg), named(error, ContextKind::PriorArg))
}

/// The options that an error names, without dashes and values.
fn named(error: &clap::Error, kind: ContextKind) -> Vec<String> {
    let names = match error.get(kind) {
        Some(ContextValue::String(name)) => std::slice::from_ref(name),
        Some(ContextValue::Strings(names)) => names,
        _ => &[],
    };
    let bare = |name: &String| {
        let name = name.split([' ', '=']).next().unwrap_or_default().trim_start_matches('-');
        if name == "[URL]" { "URL".to_owned() } else { name.to_owned() }
    };
    names.iter().map(bare).collect()
}

/// Why an entry doesn't go with the others.
fn disagreement(entry: &Entry, error: &clap::Error) -> String {
    let name = &entry.option.name;
    let mut others = named(error, ContextKind::InvalidArg);
    match error.kind() {
        ErrorKind::ArgumentConflict => {
            others.extend(named(error, ContextKind::PriorArg));
            others.retain(|other| other != name);
            match others.is_empty() {
                true => format!("{name} can't be used with what is said beside it"),
                false => format!("{name} can't be used together with {}: leave one of them out", others.join(" and ")),
            }
        }
        ErrorKind::MissingRequiredArgument => format!("{name} needs {} beside it", others.join(" and ")),
        _ => error.to_string().trim().to_owned(),
    }
}

/// All that is wrong in the file, each with where it stands; with that in its layout.
fn told(path: &Path, text: &str, mut mistakes: Vec<Mistake>, layout: Option<&str>) -> anyhow::Error {
    mistakes.sort_by_key(|mistake| mistake.offset);
    let name = path.display().to_string();
    let mut said: Vec<String> = mistakes
        .iter()
        .map(|Mistake { offset, message }| {
            let before = text.get(..*offset).unwrap_or(text);
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            format!("{name}:{line}:{column}: {message}")
        })
        .collect();
    // Which secrets there are is not known yet, and what they are for is no mistake.
    let of_layout =
        layout.and_then(|layout| LayoutFile::check_with(layout, &Kinds::default(), &Secrets::default()).err());
    let is_known = |problem: &Problem| !matches!(problem, Problem::NoSecret | Problem::OtherSecret { .. });
    let of_layout = of_layout.into_iter().flatten().filter(|error| is_known(&error.problem));
    // An option below a namespace is told of already.
    let of_layout = of_layout.filter(|error| !matches!(error.problem, Problem::UnknownField(_)));
    said.extend(of_layout.map(|error| file::show(&name, text, &error)));
    match said.len() {
        1 => anyhow!("{}", said.concat()),
        many => anyhow!("{name} has {many} mistakes:\n{}", said.join("\n")),
    }
}

/// Every option with what it comes to.
fn effective(matches: &ArgMatches, entries: &[Entry]) -> Vec<Setting> {
    let by_file: BTreeMap<&str, &Entry> = entries.iter().map(|entry| (entry.option.id.as_str(), entry)).collect();
    let setting = |option: ServeOption| {
        // The argument URL is another way of typing it.
        let id = if option.id == "upstream" && matches.contains_id("url") { "url" } else { &option.id };
        let raw = matches.get_raw(id).into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
        let values: Vec<String> = match option.form {
            options::Form::Switch => matches.get_flag(id).then(|| "true".to_owned()).into_iter().collect(),
            _ => raw.collect(),
        };
        let source = match matches.value_source(id) {
            _ if by_file.contains_key(option.id.as_str()) => Source::File,
            Some(ValueSource::CommandLine) => Source::Typed,
            Some(ValueSource::EnvVariable) => Source::Environment(option.environment.clone().unwrap_or_default()),
            _ if option.name == "password-file" && has_password_variable() && !has_typed(matches, "users") => {
                Source::Environment(option.environment.clone().unwrap_or_default())
            }
            _ => Source::Default,
        };
        Setting { option, values, source }
    };
    options::all().into_iter().map(setting).collect()
}

#[cfg(test)]
mod tests;
