//! The text of the file: its options with where each stands, and the layout in it.
//!
//! Options stand above the first table. What `cluster = …` and `[[namespace]]` say is a layout, as in a file of its own:
//! it is read by what reads those, from the same text with all else blanked out, so that mistakes have their lines.

use std::ops::Range;
use std::path::Path;

use clap::Command;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::options::{self, Form, ServeOption};
use super::secret;

/// What a layout's file has above its namespaces, and they.
const OF_LAYOUT: [&str; 2] = ["cluster", "namespace"];

/// Something wrong, at a byte of the text.
#[derive(Debug)]
pub(super) struct Mistake {
    pub(super) offset: usize,
    pub(super) message: String,
}

/// An option that the file sets.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) option: ServeOption,
    /// As they would be typed; one, but for lists. None where a switch is off.
    pub(super) values: Vec<String>,
    /// Where its name stands.
    pub(super) offset: usize,
}

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) entries: Vec<Entry>,
    /// The text with everything but the layout blanked out; none where there is no layout.
    pub(super) layout: Option<String>,
    pub(super) mistakes: Vec<Mistake>,
    /// The options that are set to what they can't be.
    pub(super) wrong: Vec<String>,
}

/// Reads the text. Relative paths are meant from `directory`.
pub(super) fn read(text: &str, directory: &Path) -> Read {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut read = Read::default();
    for error in errors {
        let offset = error.span().map_or(0, |span| span.start);
        // The parser's words may go over several lines, and never quote the text.
        read.mistakes.push(Mistake { offset, message: error.message().trim().replace('\n', "; ") });
    }
    if !read.mistakes.is_empty() {
        return read;
    }
    let mut table: Vec<_> = table.into_inner().into_iter().collect();
    table.sort_by_key(|(key, _)| key.span().start);
    let (options, command) = (options::all(), options::serve_command());
    let mut layout = text.to_owned();
    let mut has_layout = false;
    for (key, value) in &table {
        let (name, offset) = (key.get_ref().as_ref(), key.span().start);
        if OF_LAYOUT.contains(&name) {
            has_layout = true;
            read.mistakes.extend(options_in_namespaces(value, &options));
            continue;
        }
        if let DeValue::Table(inner) = value.get_ref() {
            read.mistakes.push(table_of(name, offset, inner, &options));
            continue;
        }
        blank(&mut layout, offset..value.span().end);
        match entry(name, offset, value, (&options, &command), directory) {
            Ok(entry) => read.entries.push(entry),
            Err(mistakes) => {
                read.mistakes.extend(mistakes);
                read.wrong.push(name.to_owned());
            }
        }
    }
    read.layout = has_layout.then_some(layout);
    read
}

/// Puts spaces in the place of a part of the text; lines stay.
fn blank(text: &mut String, part: Range<usize>) {
    let blanked: String = text[part.clone()]
        .chars()
        .flat_map(|c| std::iter::repeat_n(if c == '\n' { c } else { ' ' }, c.len_utf8()))
        .collect();
    text.replace_range(part, &blanked);
}

fn entry(
    name: &str,
    offset: usize,
    value: &Spanned<DeValue<'_>>,
    (options, command): (&[ServeOption], &Command),
    directory: &Path,
) -> Result<Entry, Vec<Mistake>> {
    let Some(option) = options.iter().find(|option| option.name == name) else {
        return Err(vec![Mistake { offset, message: unknown(name, options) }]);
    };
    let several = match value.get_ref() {
        DeValue::Array(array) if option.is_list => array.iter().collect(),
        _ => vec![value],
    };
    if several.is_empty() {
        let message = format!("{name} is an empty list: write {}, or leave it out", option.expected());
        return Err(vec![Mistake { offset: value.span().start, message }]);
    }
    let (mut values, mut mistakes) = (Vec::new(), Vec::new());
    for one in several {
        let offset = one.span().start;
        match typed(option, one.get_ref(), directory) {
            Ok(typed) => values.extend(typed),
            Err(message) => mistakes.push(Mistake { offset, message }),
        }
    }
    for (value, written) in values.iter().zip(spans(value)) {
        if let Err(message) = secret::refuse(option, value).and_then(|()| accepted(command, option, value)) {
            mistakes.push(Mistake { offset: written.start, message });
        }
    }
    if mistakes.is_empty() { Ok(Entry { option: option.clone(), values, offset }) } else { Err(mistakes) }
}

/// Where each value of a list stands, or the one value.
fn spans(value: &Spanned<DeValue<'_>>) -> Vec<Range<usize>> {
    match value.get_ref() {
        DeValue::Array(array) => array.iter().map(Spanned::span).collect(),
        _ => vec![value.span()],
    }
}

/// A value as it would be typed; none where a switch is off.
fn typed(option: &ServeOption, value: &DeValue<'_>, directory: &Path) -> Result<Option<String>, String> {
    let wrong = || format!("{} is {}, and here is {}", option.name, option.expected(), article(value));
    Ok(match (option.form, value) {
        (Form::Switch, DeValue::Boolean(on)) => on.then(|| "true".to_owned()),
        (Form::OnOff, DeValue::Boolean(on)) => Some(if *on { "on" } else { "off" }.to_owned()),
        (Form::Number | Form::Size | Form::Time, DeValue::Integer(number)) if number.radix() == 10 => {
            Some(number.as_str().to_owned())
        }
        (Form::Number, DeValue::Float(number)) => Some(number.as_str().to_owned()),
        (Form::Path | Form::Program, DeValue::String(path)) => Some(beside(option.form, path, directory)?),
        (Form::Text, DeValue::String(text)) => Some(with_socket(text, directory)?),
        (Form::OnOff | Form::Size | Form::Time, DeValue::String(text)) => Some(text.to_string()),
        _ => return Err(wrong()),
    })
}

/// A path as it is meant from the file's directory.
fn beside(form: Form, path: &str, directory: &Path) -> Result<String, String> {
    let is_relative = !Path::new(path).is_absolute() && path != "-" && (form == Form::Path || path.contains('/'));
    if path.is_empty() {
        return Err("the path is empty".to_owned());
    }
    match is_relative {
        true => directory.join(path).into_os_string().into_string().map_err(|_| "the path is not UTF-8".to_owned()),
        false => Ok(path.to_owned()),
    }
}

/// The same for a socket to listen on, `unix:run/keyfold.sock`.
fn with_socket(text: &str, directory: &Path) -> Result<String, String> {
    match text.strip_prefix("unix:") {
        Some(path) if !path.is_empty() && !path.starts_with('/') => {
            Ok(format!("unix:{}", beside(Form::Path, path, directory)?))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Whether the command line would take the value, by itself.
fn accepted(command: &Command, option: &ServeOption, value: &str) -> Result<(), String> {
    use clap::error::ErrorKind::{InvalidValue, ValueValidation};
    if option.form == Form::Switch {
        return Ok(());
    }
    let line = ["serve".to_owned(), format!("--{}={value}", option.name)];
    let Err(error) = command.clone().try_get_matches_from(line) else { return Ok(()) };
    if !matches!(error.kind(), InvalidValue | ValueValidation) {
        return Ok(());
    }
    let why = match std::error::Error::source(&error) {
        Some(why) => why.to_string(),
        None => possible_values(&error).unwrap_or_else(|| option.expected()),
    };
    // What numbers can't be is said in the words of the standard library.
    let why = if option.form == Form::Number { format!("{why}; write {}", option.expected()) } else { why };
    Err(match secret::may_be_in(value) {
        true => format!("{}: {why}", option.name),
        false => format!("{} = {value:?}: {why}", option.name),
    })
}

fn possible_values(error: &clap::Error) -> Option<String> {
    match error.get(clap::error::ContextKind::ValidValue)? {
        clap::error::ContextValue::Strings(values) => Some(format!("write {}", values.join(" or "))),
        _ => None,
    }
}

fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

fn unknown(name: &str, options: &[ServeOption]) -> String {
    if let Some(remedy) = secret::remedy(name) {
        return remedy.to_owned();
    }
    if options::is_typed_only(name) {
        return format!("{name} is for the command line alone");
    }
    match options::nearest(options, name) {
        _ if name == "url" => "there is no option url; the server is upstream = \"redis://host:port\"".to_owned(),
        Some(option) => format!("there is no option {name}; did you mean {}, {}?", option.name, option.expected()),
        None => format!("there is no option {name}; keyfold serve --help lists them"),
    }
}

/// A table that isn't a layout's.
fn table_of(name: &str, offset: usize, inner: &DeTable<'_>, options: &[ServeOption]) -> Mistake {
    let inside = inner.keys().find(|key| options.iter().any(|option| option.name == key.get_ref().as_ref()));
    let message = match inside {
        Some(key) => format!(
            "options stand in no table: take out [{name}], and write {} above the first [[namespace]]",
            key.get_ref()
        ),
        None => format!("there is no table {name}: options stand in none, and a layout is [[namespace]]"),
    };
    Mistake { offset, message }
}

/// Options that stand below a `[[namespace]]`, and so are taken for its.
fn options_in_namespaces(value: &Spanned<DeValue<'_>>, options: &[ServeOption]) -> Vec<Mistake> {
    let namespaces = value.get_ref().as_array().into_iter().flat_map(|array| array.iter());
    let keys = namespaces.filter_map(|one| one.get_ref().as_table()).flat_map(DeTable::keys);
    let misplaced = keys.filter(|key| options.iter().any(|option| option.name == key.get_ref().as_ref()));
    let mistake = |key: &Spanned<std::borrow::Cow<'_, str>>| Mistake {
        offset: key.span().start,
        message: format!("{} is an option of keyfold: write it above the first [[namespace]]", key.get_ref()),
    };
    misplaced.map(mistake).collect()
}
