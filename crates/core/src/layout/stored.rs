//! The server's own copy of the layout: the file's TOML, with nothing left to defaults.

use std::fmt::Write as _;

use serde::Deserialize;
use toml::Spanned;

use super::error::{LayoutError, Problem};
use super::file::{Entry, Read, parse_toml, read_namespaces};
use super::{Epoch, Layout, Namespace, NamespaceId};

/// The version of the stored form.
const VERSION: i64 = 1;

impl Layout {
    /// The stored form: TOML that any client can read.
    pub fn to_stored(&self) -> String {
        let mut text = format!("version = {VERSION}\nepoch = {}\nnext_id = {}\n", self.epoch, self.next_id);
        for namespace in &self.namespaces {
            text.push('\n');
            namespace.write(&mut text);
            namespace.write_slots(&mut text);
            if let Some(former) = &namespace.former {
                let _ = write!(
                    text,
                    "[namespace.from]\nid = {}\n{}\nfield_limit = {}\n",
                    former.id,
                    former.placement.lines(&namespace.template),
                    former.field_limit,
                );
            }
        }
        text
    }

    /// The file that says the same, for a person to change and bring back: the namespaces, where they are or will be.
    pub fn to_file(&self) -> String {
        let mut text = String::new();
        for (at, namespace) in self.namespaces.iter().enumerate() {
            text.push_str(if at > 0 { "\n" } else { "" });
            namespace.write(&mut text);
        }
        text
    }

    /// Reads what [`Self::to_stored`] wrote, and trusts it no more than a file.
    pub fn from_stored(text: &str) -> Result<Self, LayoutError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: Spanned<i64>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Stored {
            #[serde(rename = "version")]
            _version: i64,
            epoch: u64,
            next_id: Spanned<u32>,
            #[serde(default)]
            namespace: Vec<Entry>,
        }
        let version = parse_toml::<Versioned>(text)?.version;
        if *version.get_ref() != VERSION {
            let problem = Problem::Version { given: *version.get_ref() };
            return Err(LayoutError::at(text, version.span().start, problem));
        }
        let stored: Stored = parse_toml(text)?;
        let next_id = NamespaceId(*stored.next_id.get_ref());
        let namespaces = read_namespaces(text, stored.namespace, u32::MAX, None)?;
        let namespaces = namespaces.into_iter().map(|Read { namespace, former, codecs }| {
            let id = namespace.id.filter(|id| *id < next_id && former.as_ref().is_none_or(|from| from.id < next_id));
            id.map(|id| Namespace { former, codecs, ..namespace.with_id(id, None) })
                .ok_or_else(|| LayoutError::at(text, stored.next_id.span().start, Problem::StoredId))
        });
        Ok(Self::new(Epoch(stored.epoch), next_id, namespaces.collect::<Result<_, _>>()?))
    }
}

impl Namespace {
    fn write(&self, text: &mut String) {
        let keys = toml::Value::from(self.template.source());
        let _ = write!(
            text,
            "[[namespace]]\nid = {}\nkeys = {keys}\n{}\nvalue_limit = {}\nfield_limit = {}\ncodec = {}\n",
            self.id,
            self.placement.lines(&self.template),
            self.value_limit,
            self.field_limit,
            self.codec,
        );
    }

    fn write_slots(&self, text: &mut String) {
        if let Some(slot) = self.codecs.written() {
            let _ = writeln!(text, "writes = {}", slot.number);
        }
        for slot in self.codecs.iter() {
            let _ = write!(text, "[[namespace.slot]]\nnumber = {}\ncodec = {}\n", slot.number, slot.rule);
            if let Some(dictionary) = slot.dictionary {
                let _ = writeln!(text, "dictionary = \"{dictionary}\"");
            }
        }
    }
}
