//! What a layout says of codecs, as text: the one that is wished for, and the slots that values are stored by.

use std::fmt::Write as _;

use serde::Deserialize;
use toml::Spanned;

use super::Layout;
use super::error::{LayoutError, Problem};
use super::reader::{Reader, parse_toml};
use crate::codec::{CodecRule, Codecs, MAX_SLOT, Slot, Slots};
use crate::placement::Secrets;
use crate::placement::name::Stem;

/// A codec that values are stored by, in the stored form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlotEntry {
    number: u8,
    codec: Spanned<toml::Value>,
    dictionary: Option<String>,
}

/// What the fields of `keyfold:{home}:dictionaries` that say the slots of a namespace begin with; its stem follows.
const SLOTS_FIELD: &str = "slots ~";

/// The slots of all namespaces, as they are recorded a second time beside the dictionaries: fields of the hash, and
/// what they say. A layout that was lost is restored with them, so that no number comes to mean something else.
pub fn slot_records(layout: &Layout) -> Vec<(String, String)> {
    let stems = layout.namespaces().iter().flat_map(|namespace| {
        let named = namespace.rules().filter(|(placement, _)| placement.has_names());
        named.map(|(_, stem)| (stem, &namespace.codecs))
    });
    stems
        .map(|(stem, codecs)| {
            let mut text = String::new();
            codecs.write("slot", &mut text);
            (format!("{SLOTS_FIELD}{stem}"), text)
        })
        .collect()
}

/// The stem whose slots a field of `keyfold:{home}:dictionaries` says; none where it is a dictionary's.
pub fn slots_field(field: &[u8]) -> Option<Stem> {
    std::str::from_utf8(field).ok()?.strip_prefix(SLOTS_FIELD)?.parse().ok()
}

/// Reads what [`slot_records`] wrote under a field.
///
/// # Errors
/// It isn't as keyfold writes it.
pub fn read_slots(text: &str) -> Result<Codecs, LayoutError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Record {
        writes: Option<u8>,
        #[serde(default)]
        slot: Vec<Spanned<SlotEntry>>,
    }
    let record: Record = parse_toml(text)?;
    Reader { text, kinds: None, secrets: &Secrets::default(), cluster: false }.codecs(record.slot, record.writes)
}

impl Codecs {
    /// Appends the slots as TOML, each as a table of this name.
    pub(super) fn write(&self, table: &str, text: &mut String) {
        if let Some(slot) = self.written() {
            let _ = writeln!(text, "writes = {}", slot.number);
        }
        for slot in self.iter() {
            let _ = write!(text, "[[{table}]]\nnumber = {}\ncodec = {}\n", slot.number, slot.rule);
            if let Some(dictionary) = slot.dictionary {
                let _ = writeln!(text, "dictionary = \"{dictionary}\"");
            }
        }
    }
}

impl Reader<'_> {
    pub(super) fn codecs(&self, slots: Vec<Spanned<SlotEntry>>, writes: Option<u8>) -> Result<Codecs, LayoutError> {
        let mut all: Slots = Vec::with_capacity(slots.len());
        for slot in slots {
            let span = slot.span();
            let SlotEntry { number, codec, dictionary } = slot.into_inner();
            let dictionary = dictionary.map(|name| name.parse());
            let dictionary = dictionary.transpose().map_err(|()| self.error(&span, Problem::BadSlot { number }))?;
            if number > MAX_SLOT || all.iter().any(|other| other.number == number) {
                return Err(self.error(&span, Problem::BadSlot { number }));
            }
            all.push(Slot { number, rule: self.rule(&codec)?, dictionary });
        }
        Ok(Codecs::new(all, writes))
    }

    /// A codec that a person wrote: it must be known, and its options too.
    pub(super) fn codec(&self, written: &Spanned<toml::Value>) -> Result<CodecRule, LayoutError> {
        let rule = self.rule(written)?;
        let Some(kinds) = self.kinds.filter(|_| !rule.is_none() && !rule.is_auto()) else { return Ok(rule) };
        let Some(kind) = kinds.find(&rule.name) else {
            let names: Vec<String> = kinds.iter().map(|kind| format!("{:?}", kind.name())).collect();
            let problem = Problem::UnknownCodec { given: rule.name, known: names.join(", ") };
            return Err(self.error(&written.span(), problem));
        };
        for (name, given) in rule.options.iter() {
            let known = kind.options().iter().find(|(option, ..)| *option == name);
            if known.is_none_or(|(_, least, most)| !(*least..=*most).contains(&given)) {
                let options: Vec<String> =
                    kind.options().iter().map(|(name, least, most)| format!("{name} ({least} to {most})")).collect();
                let problem = Problem::CodecOption {
                    codec: rule.name.clone(),
                    given: format!("{name} = {given}"),
                    known: if options.is_empty() { "no options".to_owned() } else { options.join(", ") },
                };
                return Err(self.error(&written.span(), problem));
            };
        }
        Ok(rule)
    }

    fn rule(&self, written: &Spanned<toml::Value>) -> Result<CodecRule, LayoutError> {
        let bad = || self.error(&written.span(), Problem::CodecForm);
        match written.get_ref() {
            toml::Value::String(name) => Ok(CodecRule::named(name)),
            toml::Value::Table(table) => {
                let mut rule = CodecRule::named(table.get("name").and_then(toml::Value::as_str).ok_or_else(bad)?);
                for (option, value) in table.iter().filter(|(option, _)| *option != "name") {
                    rule.options.set(option, value.as_integer().ok_or_else(bad)?);
                }
                Ok(rule)
            }
            _ => Err(bad()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_slots_are_read_back() {
        let file =
            "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 8 }\ncodec = { name = 'zstd', level = 9 }\n";
        let layout = Layout::parse_file(file).unwrap();
        let [(field, text)] = slot_records(&layout).try_into().unwrap();
        assert_eq!(slots_field(field.as_bytes()), Some(layout.namespaces()[0].stem));
        assert_eq!(read_slots(&text).unwrap(), layout.namespaces()[0].codecs);
        assert_eq!(slots_field(b"9f86d081884c7d659a2feaa0c55ad015"), None);
        let mut lost = read_slots("").unwrap();
        lost.reserve(3);
        let mut text = String::new();
        lost.write("slot", &mut text);
        let mut read = read_slots(&text).unwrap();
        assert_eq!(read, lost);
        let numbers = [0, 1, 2, 4].map(|level| {
            let mut rule = CodecRule::named("zstd");
            rule.options.set("level", level);
            read.write_by(&rule, None).unwrap()
        });
        assert_eq!(numbers, [0, 1, 2, 4], "a number that is lost is never given again");
    }
}
