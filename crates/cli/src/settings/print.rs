//! `--print-config`: all that `keyfold serve` goes by, as a file that says the same.

use std::fmt::Write as _;
use std::path::Path;

use super::options::Form;
use super::{Setting, Settings, Source, secret};

const HEAD: &str = "\
# What keyfold serve goes by, and where each value comes from. `# option = …` is one that nobody sets.
";

impl Settings {
    /// The text of a file that says the same, each value with where it comes from.
    pub(crate) fn to_file(&self) -> String {
        let mut text = String::from(HEAD);
        let mut heading = None;
        for setting in &self.all {
            if heading != Some(&setting.option.heading) {
                heading = Some(&setting.option.heading);
                let _ = writeln!(text, "\n# {}", setting.option.heading.as_deref().unwrap_or("Serving"));
            }
            text.push_str(&setting.line());
        }
        if let Some(layout) = self.file.as_ref().and_then(|file| file.layout.as_deref()) {
            let _ = write!(text, "\n# The layout, as it stands in the file\n{}\n", of_layout(layout));
        }
        text
    }
}

/// What a layout's file would have of this text, in which options are blanked out and their comments are left.
fn of_layout(text: &str) -> String {
    let begins = |line: &str| line.starts_with("cluster") || line.trim_start_matches('[').starts_with("namespace");
    let mut in_tables = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim_end) {
        in_tables |= begins(line.trim_start()) && !line.trim_start().starts_with("cluster");
        if in_tables || begins(line.trim_start()) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

impl Setting {
    fn line(&self) -> String {
        let (name, source) = (&self.option.name, self.source.name());
        if name == "password-file" && matches!(self.source, Source::Environment(_)) {
            return format!("# {name}: the password is in {source}, and not shown\n");
        }
        if self.values.is_empty() && self.option.form != Form::Switch {
            let unset = self.unset().map(|unset| format!("  # not set: {unset}")).unwrap_or_default();
            return format!("# {name} = {}{unset}\n", self.option.value_name);
        }
        let mut note = format!("# {source}");
        let written: Vec<String> = self
            .values
            .iter()
            .map(|value| {
                let (value, has_secret) = match self.option.id.as_str() {
                    "upstream" => secret::shown(value),
                    _ => (value.clone(), false),
                };
                if has_secret {
                    note.push_str(
                        "; its password is not shown: it goes into upstream-password-file or KEYFOLD_UPSTREAM",
                    );
                }
                self.written(&value)
            })
            .collect();
        let value = match (self.option.form, self.option.is_list) {
            (Form::Switch, _) => (!self.values.is_empty()).to_string(),
            (_, true) => format!("[{}]", written.join(", ")),
            _ => written.concat(),
        };
        format!("{name} = {value}  {note}\n")
    }

    /// A value as the file has it.
    fn written(&self, value: &str) -> String {
        match self.option.form {
            Form::Number => value.to_owned(),
            Form::Path => quoted(&absolute(value)),
            Form::Program if value.contains('/') => quoted(&absolute(value)),
            Form::Text => match value.strip_prefix("unix:") {
                Some(path) if !path.starts_with('/') => quoted(&format!("unix:{}", absolute(path))),
                _ => quoted(value),
            },
            _ => quoted(value),
        }
    }

    /// What help says of it where nobody sets it.
    fn unset(&self) -> Option<&str> {
        let (_, default) = self.option.help.rsplit_once("[default: ")?;
        default.strip_suffix(']')
    }

    /// The option's name and value, in a log.
    pub(super) fn shown(&self) -> String {
        let shown: Vec<String> = self
            .values
            .iter()
            .map(|value| match self.option.id.as_str() {
                "upstream" => secret::shown(value).0,
                _ => value.clone(),
            })
            .collect();
        match self.option.form {
            Form::Switch => if shown.is_empty() { "off" } else { "on" }.to_owned(),
            _ if shown.is_empty() => "not set".to_owned(),
            _ => shown.join(", "),
        }
    }
}

impl Source {
    fn name(&self) -> String {
        match self {
            Self::Typed => "command line".to_owned(),
            Self::Environment(variable) => format!("environment, {variable}"),
            Self::File => "file".to_owned(),
            Self::Default => "default".to_owned(),
        }
    }
}

fn absolute(path: &str) -> String {
    match std::path::absolute(Path::new(path)) {
        Ok(absolute) if path != "-" => absolute.to_string_lossy().into_owned(),
        _ => path.to_owned(),
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}
