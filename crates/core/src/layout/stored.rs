//! The server's own copy of the layout: the file's TOML, with nothing left to defaults.

use std::fmt::Write as _;
use std::str::FromStr;

use serde::Deserialize;
use toml::Spanned;

use super::cache::{CacheEntry, CacheRules};
use super::entry::Entry;
use super::error::{LayoutError, Problem};
use super::file::{Read, read_namespaces};
use super::naming::Generations;
use super::reader::{Reader, parse_toml};
use super::{Epoch, Layout, Namespace, Revision};
use crate::placement::name::{DATA_PREFIX, Generation, Stem};
use crate::placement::{Placement, Secrets};
use crate::template::Template;

/// The version of the stored form.
const VERSION: i64 = 2;

impl Layout {
    /// The stored form: TOML that any client can read.
    pub fn to_stored(&self) -> String {
        let Generations { highest, first } = &self.generations;
        let used = highest.iter().map(|(&hash, &generation)| format!("\"{}\"", Stem { hash, generation }));
        let mut text = format!(
            "version = {VERSION}\nepoch = {}\nattempt = \"{}\"\nused = [{}]\nunused_from = {}\n",
            self.revision.epoch,
            self.revision.attempt,
            used.collect::<Vec<_>>().join(", "),
            first.0,
        );
        if let Some(cache) = self.cache {
            text.push('\n');
            text.push_str(&cache.table());
        }
        for namespace in &self.namespaces {
            text.push('\n');
            text.push_str("[[namespace]]\n");
            write_names(&namespace.placement, namespace.stem, &mut text);
            namespace.write(&mut text);
            namespace.codecs.write("namespace.slot", &mut text);
            if let Some(former) = &namespace.former {
                text.push_str("[namespace.from]\n");
                write_names(&former.placement, former.stem, &mut text);
                let _ = writeln!(
                    text,
                    "{}\nfield_limit = {}",
                    former.placement.lines(namespace.keys.first()),
                    former.field_limit,
                );
                if former.put_back {
                    text.push_str("put_back = true\n");
                }
            }
        }
        text
    }

    /// The file that says the same, for a person to change and bring back: the namespaces, where they are or will be.
    pub fn to_file(&self) -> String {
        let mut text = self.cache.map(CacheRules::table).unwrap_or_default();
        for namespace in &self.namespaces {
            text.push_str(if !text.is_empty() { "\n[[namespace]]\n" } else { "[[namespace]]\n" });
            namespace.write(&mut text);
        }
        text
    }

    /// Reads what [`Self::to_stored`] wrote, and trusts it no more than a file. There are no secrets.
    pub fn from_stored(text: &str) -> Result<Self, LayoutError> {
        Self::from_stored_with(text, &Secrets::default())
    }

    /// The same with the secrets that namespaces may be keyed by.
    ///
    /// # Errors
    /// Also where one is keyed by another: nobody could tell where its keys lie.
    pub fn from_stored_with(text: &str, secrets: &Secrets) -> Result<Self, LayoutError> {
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
            attempt: Spanned<String>,
            used: Vec<Spanned<String>>,
            unused_from: u32,
            cache: Option<CacheEntry>,
            #[serde(default)]
            namespace: Vec<Entry>,
        }
        let version = parse_toml::<Versioned>(text)?.version;
        if *version.get_ref() != VERSION {
            let problem = Problem::Version { given: *version.get_ref(), read: VERSION };
            return Err(LayoutError::at(text, version.span().start, problem));
        }
        let stored: Stored = parse_toml(text)?;
        let revision = Revision { epoch: Epoch(stored.epoch), attempt: parse_said(text, "attempt", &stored.attempt)? };
        let mut generations = Generations { first: Generation(stored.unused_from), ..Generations::default() };
        for used in &stored.used {
            generations.note(parse_said(text, "used", used)?);
        }
        let reader = Reader { text, kinds: None, secrets, cluster: false };
        let cache = stored.cache.map(|cache| reader.cache(cache)).transpose()?;
        let namespaces = read_namespaces(&reader, stored.namespace).map_err(|mut errors| {
            // What must be left as it is wins over what looks like damage beside it.
            let told = errors.iter().position(|error| !error.is_damage()).unwrap_or_default();
            errors.swap_remove(told)
        })?;
        let namespaces = namespaces.into_iter().map(|Read { namespace, stem, former, codecs }| Namespace {
            former,
            codecs,
            ..namespace.with_stem(stem, None)
        });
        let namespaces: Vec<_> = namespaces.collect();
        for (placement, stem) in namespaces.iter().flat_map(Namespace::rules) {
            if placement.has_names() {
                generations.note(stem);
            }
        }
        Ok(Self::new(revision, generations, namespaces).with_cache(cache))
    }
}

/// What a field of the stored form says.
fn parse_said<T: FromStr>(text: &str, field: &'static str, said: &Spanned<String>) -> Result<T, LayoutError> {
    let given = said.get_ref();
    given.parse().map_err(|_| LayoutError::at(text, said.span().start, Problem::Stored { field, given: given.clone() }))
}

/// The line of a layout file that says which keys a namespace has, without a line break at the end.
pub fn keys_line(templates: &[Template]) -> String {
    let source = |template: &Template| toml::Value::from(template.source());
    let keys = match templates {
        [only] => source(only),
        several => several.iter().map(source).collect::<Vec<_>>().into(),
    };
    format!("keys = {keys}")
}

fn write_names(placement: &Placement, stem: Stem, text: &mut String) {
    if placement.has_names() {
        let _ = writeln!(text, "names = \"{}{stem}\"", char::from(DATA_PREFIX));
    }
}

impl Namespace {
    fn write(&self, text: &mut String) {
        let _ = write!(
            text,
            "{}\n{}\nvalue_limit = {}\nfield_limit = {}\ncodec = {}\n{}",
            keys_line(&self.keys),
            self.placement.lines(self.keys.first()),
            self.value_limit,
            self.field_limit,
            self.codec,
            self.evictable.lines(),
        );
    }
}
