//! What a layout says of codecs, as text: the one that is wished for, and the slots that values are stored by.

use serde::Deserialize;
use toml::Spanned;

use super::error::{LayoutError, Problem};
use super::file::Reader;
use crate::codec::{CodecRule, Codecs, MAX_SLOT, Slot, Slots};

/// A codec that values are stored by, in the stored form.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SlotEntry {
    number: u8,
    codec: Spanned<toml::Value>,
    dictionary: Option<String>,
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
