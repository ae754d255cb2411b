//! The codecs of one namespace, by their slots.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::large::{self, LARGE_SLOT};
use super::{Codec, CodecError, CodecRule, DictionaryId, Effort, Kinds, Owner};
use crate::collection::Vocabulary;

/// The greatest number that a slot can have.
pub const MAX_SLOT: u8 = LARGE_SLOT - 1;

/// A codec that values of a namespace are stored by, as the layout names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// What values name it by.
    pub number: u8,
    /// The codec.
    pub rule: CodecRule,
    /// What it was trained to, by name.
    pub dictionary: Option<DictionaryId>,
}

/// The slots of a namespace, each with its codec where that can be used. Compared by what the layout says of them.
#[derive(Clone, Debug, Default)]
pub struct Codecs {
    slots: Vec<(Slot, Opened)>,
    /// The slot that values are written by; none while they are stored as they are.
    writes: Option<u8>,
}

/// A slot's codec, or why it can't be used.
type Opened = Result<Open, String>;

#[derive(Clone, Debug)]
struct Open {
    codec: Arc<dyn Codec>,
    /// What it was opened with, for a server that has lost it.
    dictionary: Option<Arc<[u8]>>,
}

/// What a layout says of the slots.
pub type Slots = Vec<Slot>;

impl PartialEq for Codecs {
    fn eq(&self, other: &Self) -> bool {
        self.writes == other.writes && self.iter().eq(other.iter())
    }
}

impl Eq for Codecs {}

impl Codecs {
    /// These slots, none of them open.
    pub fn new(slots: Slots, writes: Option<u8>) -> Self {
        let slots = slots.into_iter().map(|slot| (slot, Err("it was not opened".to_owned()))).collect();
        Self { slots, writes }
    }

    /// Opens the codecs that are not open yet, with the dictionaries that were found.
    pub fn open(&mut self, kinds: &Kinds, dictionaries: &BTreeMap<DictionaryId, Vec<u8>>) {
        for (slot, codec) in self.slots.iter_mut().filter(|(_, codec)| codec.is_err()) {
            *codec = open(slot, kinds, dictionaries);
        }
    }

    /// Takes over what is open in `other`, which may be of another layout.
    pub(crate) fn adopt(&mut self, other: &Self) {
        for (slot, codec) in self.slots.iter_mut().filter(|(_, codec)| codec.is_err()) {
            let same = |(known, _): &&(Slot, Opened)| known.rule == slot.rule && known.dictionary == slot.dictionary;
            if let Some((_, Ok(open))) = other.slots.iter().find(same) {
                *codec = Ok(open.clone());
            }
        }
    }

    /// The dictionaries that are in use here.
    pub fn dictionaries(&self) -> impl Iterator<Item = (DictionaryId, &[u8])> {
        self.slots
            .iter()
            .filter_map(|(slot, open)| Some((slot.dictionary?, open.as_ref().ok()?.dictionary.as_deref()?)))
    }

    /// The slots.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().map(|(slot, _)| slot)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots that can't be used, with the reasons.
    pub fn unusable(&self) -> impl Iterator<Item = (&Slot, &str)> {
        self.slots.iter().filter_map(|(slot, codec)| Some((slot, codec.as_ref().err()?.as_str())))
    }

    /// The dictionaries of slots that aren't open.
    pub fn missing_dictionaries(&self) -> impl Iterator<Item = DictionaryId> {
        self.unusable().filter_map(|(slot, _)| slot.dictionary)
    }

    /// The slot that values are written by.
    pub fn written(&self) -> Option<&Slot> {
        self.iter().find(|slot| Some(slot.number) == self.writes)
    }

    /// Gives a codec a slot that is free, and has values written by it from now on; its number, or none where all
    /// are taken. A slot that already is this codec with this dictionary is taken up again.
    pub fn write_by(&mut self, rule: &CodecRule, dictionary: Option<DictionaryId>) -> Option<u8> {
        let same = self.iter().find(|slot| slot.rule == *rule && slot.dictionary == dictionary);
        let number = match same {
            Some(slot) => slot.number,
            None => {
                let number = (0..=MAX_SLOT).find(|number| self.iter().all(|slot| slot.number != *number))?;
                let slot = Slot { number, rule: rule.clone(), dictionary };
                self.slots.push((slot, Err("it was not opened".to_owned())));
                number
            }
        };
        self.writes = Some(number);
        Some(number)
    }

    /// Does what [`Self::write_by`] does with a codec that was trained to this dictionary, and opens it.
    pub fn write_trained(&mut self, rule: &CodecRule, dictionary: Option<&[u8]>) -> Option<u8> {
        let id = dictionary.map(DictionaryId::of);
        let number = self.write_by(rule, id)?;
        self.open(&Kinds::default(), &id.into_iter().zip(dictionary.map(<[u8]>::to_vec)).collect());
        Some(number)
    }

    /// Has values stored as they are from now on; what is stored already stays readable.
    pub fn write_raw(&mut self) {
        self.writes = None;
    }

    /// The same with the slots of `other`; none where one number means two things.
    #[must_use]
    pub fn united(&self, other: &Self) -> Option<Self> {
        let mut united = self.clone();
        for (slot, open) in &other.slots {
            match self.iter().find(|own| own.number == slot.number) {
                Some(own) if own != slot => return None,
                Some(_) => {}
                None => united.slots.push((slot.clone(), open.clone())),
            }
        }
        Some(united)
    }

    /// Has a number stand for what nobody knows any more: values that name it are refused, and it is never given again.
    pub fn reserve(&mut self, number: u8) {
        if number <= MAX_SLOT && self.iter().all(|slot| slot.number != number) {
            let slot = Slot { number, rule: CodecRule::lost(), dictionary: None };
            self.slots.push((slot, Err("it was not opened".to_owned())));
        }
    }

    /// Takes away all slots but the one that is written. Only for when no value names them any more.
    pub fn free_unwritten(&mut self) {
        let writes = self.writes;
        self.slots.retain(|(slot, _)| Some(slot.number) == writes);
    }

    /// The slot that a value of so many bytes is written by, where one can be used.
    pub(crate) fn writer(&self, len: usize) -> Option<u8> {
        let number = self.writes?;
        let codec = self.find(number).ok()?;
        Some(if len > codec.max_len() { LARGE_SLOT } else { number })
    }

    /// The vocabulary that hashes are written by, and the slot of its codec.
    pub(crate) fn vocabulary(&self) -> Option<(u8, &Vocabulary)> {
        let number = self.writes?;
        Some((number, self.find(number).ok()?.vocabulary()?))
    }

    /// Appends the payload of a value to `out`; false where it has none.
    pub(crate) fn encode(
        &self,
        number: u8,
        value: &[u8],
        owner: &Owner<'_>,
        effort: Effort<'_>,
        out: &mut Vec<u8>,
    ) -> bool {
        match (number, effort) {
            (_, Effort::Spent(payload)) => payload.append(number, out),
            (LARGE_SLOT, _) => large::encode(value, effort, out),
            (_, Effort::Full) => self.find(number).is_ok_and(|codec| codec.encode(value, owner, out)),
            (_, Effort::Quick) => self.find(number).is_ok_and(|codec| codec.encode_quickly(value, owner, out)),
        }
    }

    /// Appends the value with this payload to `out`.
    ///
    /// # Errors
    /// A slot that is unknown or can't be used; a payload that its codec never wrote.
    pub fn decode(&self, number: u8, payload: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let result = match number {
            LARGE_SLOT => large::decode(payload, out),
            _ => decode_within(self.find(number)?, payload, owner, out),
        };
        result.map_err(|error| match error {
            CodecError::Payload(reason) => CodecError::Damaged { slot: number, reason },
            other => other,
        })
    }

    fn find(&self, number: u8) -> Result<&dyn Codec, CodecError> {
        match self.slots.iter().find(|(slot, _)| slot.number == number) {
            Some((_, Ok(open))) => Ok(open.codec.as_ref()),
            Some((_, Err(reason))) => Err(CodecError::Unusable { slot: number, reason: reason.clone() }),
            None => Err(CodecError::UnknownSlot { slot: number }),
        }
    }
}

/// Nothing longer was ever encoded.
fn decode_within(codec: &dyn Codec, payload: &[u8], owner: &Owner<'_>, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let before = out.len();
    codec.decode(payload, owner, out)?;
    let len = out.len() - before;
    if len > codec.max_decoded_len(payload.len()) {
        return Err(CodecError::payload(format!("{len} bytes are more than its codec takes")));
    }
    Ok(())
}

fn open(slot: &Slot, kinds: &Kinds, dictionaries: &BTreeMap<DictionaryId, Vec<u8>>) -> Opened {
    let name = &slot.rule.name;
    if slot.rule.is_lost() {
        return Err(
            "the layout that said what it was is lost; `keyfold layout recover` says how to restore it".to_owned()
        );
    }
    let kind = kinds.find(name).ok_or_else(|| format!("this program knows no codec '{name}'"))?;
    let dictionary = match slot.dictionary {
        Some(id) => Some(dictionaries.get(&id).ok_or_else(|| {
            format!("its dictionary {id} is missing from the server's keyfold:{{home}}:dictionaries; put it back from a backup")
        })?),
        None => None,
    };
    let dictionary = dictionary.map(Vec::as_slice);
    let codec = kind.open(&slot.rule.options, dictionary).map_err(|error| error.to_string())?;
    Ok(Open { codec, dictionary: dictionary.map(Arc::from) })
}
