//! The server's settings that decide on memory, and the file they came from.

/// A limit up to which a hash stays a listpack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    /// Fields of one hash.
    Entries,
    /// Bytes of one field or value.
    ValueBytes,
}

impl Limit {
    /// Its name since Redis 7.0.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entries => "hash-max-listpack-entries",
            Self::ValueBytes => "hash-max-listpack-value",
        }
    }

    /// Its only name before Redis 7.0.
    pub fn old_name(self) -> &'static str {
        match self {
            Self::Entries => "hash-max-ziplist-entries",
            Self::ValueBytes => "hash-max-ziplist-value",
        }
    }

    /// What it is where nobody set it (`config.c`; Redis 6.2 to 8.0, Valkey 8.0 to 9.1).
    pub fn default_value(self) -> u64 {
        match self {
            Self::Entries => 512,
            Self::ValueBytes => 64,
        }
    }
}

/// Who says what a setting is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// CONFIG GET.
    Server,
    /// Whoever asked for the diagnosis.
    Assumed,
    /// Nobody: it is the servers' default.
    #[default]
    Default,
}

/// One setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// What it is.
    pub value: u64,
    /// Who says so.
    pub origin: Origin,
}

/// The settings that decide on memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether the server knows the limits by their names before Redis 7.0.
    pub old_names: bool,
    /// `hash-max-listpack-entries`.
    pub hash_entries: Setting,
    /// `hash-max-listpack-value`.
    pub hash_value_bytes: Setting,
    /// `maxmemory`; 0 where there is none.
    pub maxmemory_bytes: u64,
    /// `maxmemory-policy`.
    pub maxmemory_policy: String,
}

impl Default for Settings {
    fn default() -> Self {
        let default = |limit: Limit| Setting { value: limit.default_value(), origin: Origin::Default };
        Self {
            old_names: false,
            hash_entries: default(Limit::Entries),
            hash_value_bytes: default(Limit::ValueBytes),
            maxmemory_bytes: 0,
            maxmemory_policy: "noeviction".to_owned(),
        }
    }
}

impl Settings {
    /// What `limit` is.
    pub fn limit(&self, limit: Limit) -> Setting {
        match limit {
            Limit::Entries => self.hash_entries,
            Limit::ValueBytes => self.hash_value_bytes,
        }
    }

    /// The name by which this server knows it.
    pub fn name_of(&self, limit: Limit) -> &'static str {
        if self.old_names { limit.old_name() } else { limit.name() }
    }

    /// Whether a hash like this would stay a listpack.
    pub fn would_pack(&self, entries: u64, longest_bytes: u64) -> bool {
        entries <= self.hash_entries.value && longest_bytes <= self.hash_value_bytes.value
    }
}

/// The file that the server read its settings from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFile {
    /// What INFO says: empty where none was loaded, none where it doesn't say.
    pub loaded: Option<String>,
    /// The file that somebody believes is loaded.
    pub expected: Option<Expected>,
}

/// A file that somebody believes is loaded, and what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Where it is.
    pub path: String,
    /// The limits in it. The last line wins, as it does for the server.
    pub entries: Option<u64>,
    /// The same for field and value lengths.
    pub value_bytes: Option<u64>,
}

impl Expected {
    /// Reads a configuration file's text. What it includes is not looked at.
    pub fn parse(path: &str, text: &str) -> Self {
        let last = |limit: Limit| {
            text.lines()
                .filter_map(|line| {
                    let mut words = line.split_whitespace();
                    let name = words.next()?.to_ascii_lowercase();
                    let value = words.next()?.trim_matches('"').parse().ok()?;
                    (name == limit.name() || name == limit.old_name()).then_some(value)
                })
                .next_back()
        };
        Self { path: path.to_owned(), entries: last(Limit::Entries), value_bytes: last(Limit::ValueBytes) }
    }

    /// What the file says of `limit`.
    pub fn limit(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::Entries => self.entries,
            Limit::ValueBytes => self.value_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_last_line_wins_under_either_name() {
        let text =
            "# hash-max-listpack-entries 1\nhash-max-ziplist-entries 600\n\nHash-Max-Listpack-Entries \"1000\"\n";
        let expected = Expected::parse("a.conf", text);
        assert_eq!((expected.entries, expected.value_bytes), (Some(1000), None));
    }

    #[test]
    fn limits_are_inclusive() {
        let settings = Settings::default();
        assert!(settings.would_pack(512, 64));
        assert!(!settings.would_pack(513, 64));
        assert!(!settings.would_pack(512, 65));
    }
}
