//! What the server's user may not ask of keys.

/// Stands for a command where only some keys may not be read.
pub(super) const KEYS: &str = "some keys";

/// Commands that the server refused, each with its own words, once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Denied {
    refused: Vec<(&'static str, String)>,
}

impl Denied {
    pub(super) fn note(&mut self, command: &'static str, error: &str) {
        if !self.contains(command) {
            self.refused.push((command, error.to_owned()));
        }
    }

    pub(super) fn forget(&mut self, command: &str) {
        self.refused.retain(|(refused, _)| *refused != command);
    }

    /// Whether this command was refused.
    pub(crate) fn contains(&self, command: &str) -> bool {
        self.refused.iter().any(|(refused, _)| *refused == command)
    }

    /// The commands, with the server's words.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.refused.iter().map(|(command, error)| (*command, error.as_str()))
    }

    /// What the report misses without this command.
    pub(crate) fn consequence(command: &str) -> &'static str {
        match command {
            KEYS => "of such keys nothing is known but their names",
            "OBJECT" => "encodings are unknown; types are asked for instead",
            "TYPE" => "the types of hashes, sets and lists are unknown where their encoding doesn't tell",
            "PTTL" => "which keys expire is unknown, and taken as none",
            "MEMORY" => "the bytes of hashes, sets and lists are estimated from their elements",
            "HGETALL" | "SMEMBERS" => "what folding such keys would save is unknown",
            "GET" | "GETRANGE" => "values are known by their length only",
            _ => "lengths of such keys are unknown",
        }
    }
}
