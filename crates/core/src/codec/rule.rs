//! What a layout says of a codec: its name, and options.

use std::collections::BTreeMap;
use std::fmt;

/// Options by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, i64>);

impl Options {
    /// The option of this name.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, value: i64) {
        self.0.insert(name.to_owned(), value);
    }

    /// All that are set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

/// A codec, as a layout names it: `"zstd"`, or `{ name = "zstd", level = 12 }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodecRule {
    /// The name of its kind.
    pub name: String,
    /// What is set otherwise than by default.
    pub options: Options,
}

impl CodecRule {
    /// A codec with all options at their defaults.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), options: Options::default() }
    }

    /// Values are stored as they are.
    pub fn none() -> Self {
        Self::named("none")
    }

    /// What nobody knows any more.
    pub(super) fn lost() -> Self {
        Self::named("lost")
    }

    /// Whether nobody knows what it was.
    pub(super) fn is_lost(&self) -> bool {
        self.name == "lost"
    }

    /// Whether values are stored as they are.
    pub fn is_none(&self) -> bool {
        self.name == "none"
    }

    /// Whether it is left to measurement, and nothing has been chosen yet.
    pub fn is_auto(&self) -> bool {
        self.name == "auto"
    }
}

/// As TOML writes it.
impl fmt::Display for CodecRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = toml::Value::from(self.name.as_str());
        if self.options == Options::default() {
            return name.fmt(f);
        }
        write!(f, "{{ name = {name}")?;
        for (option, value) in self.options.iter() {
            write!(f, ", {option} = {value}")?;
        }
        f.write_str(" }")
    }
}
