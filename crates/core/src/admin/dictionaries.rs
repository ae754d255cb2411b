//! The hash of dictionaries beside the layout: each under the sum of its bytes, and under each stem the slots of its
//! codecs.
//!
//! What a dictionary's name stands for never changes, so it is written before the layout that names it, read by whoever
//! reads that layout, and taken away after the last layout that named it; one that was damaged or exchanged is noticed.
//! Whoever serves a layout writes again what the server has lost ([`Upkeep`]).

use std::collections::{BTreeMap, BTreeSet};

use super::DICTIONARIES_KEY;
use crate::codec::{DictionaryId, pack, unpack};
use crate::layout::{Layout, slot_records, slots_field};
use crate::resp::{Reply, write_command};

/// Asks a server for dictionaries; one reply.
pub fn ask(ids: &BTreeSet<DictionaryId>, wire: &mut Vec<u8>) {
    let names: Vec<String> = ids.iter().map(DictionaryId::to_string).collect();
    let mut command: Vec<&[u8]> = vec![b"HMGET", DICTIONARIES_KEY];
    command.extend(names.iter().map(String::as_bytes));
    write_command(wire, &command);
}

/// Reads the reply to [`ask`]: those that are there and whole.
///
/// # Errors
/// What the server said instead.
pub fn read(ids: &BTreeSet<DictionaryId>, reply: &[u8]) -> Result<BTreeMap<DictionaryId, Vec<u8>>, String> {
    match Reply::parse(reply) {
        Ok(Reply::Array(values)) => {
            let found = ids.iter().zip(values);
            Ok(found.filter_map(|(id, packed)| Some((*id, unpack(*id, packed.bytes()?).ok()?))).collect())
        }
        _ => Err(String::from_utf8_lossy(reply).trim_end().to_owned()),
    }
}

/// Writes a dictionary under its name; one reply.
pub fn write(id: DictionaryId, dictionary: &[u8], wire: &mut Vec<u8>) {
    write_command(wire, &[b"HSET", DICTIONARIES_KEY, id.to_string().as_bytes(), &pack(dictionary)]);
}

/// Records the codec slots of all namespaces of a layout, before it is in force: where the layout is lost, they say
/// what values are stored by. As many replies as it returns.
pub fn record_slots(layout: &Layout, wire: &mut Vec<u8>) -> usize {
    let records = slot_records(layout);
    for (field, text) in &records {
        write_command(wire, &[b"HSET", DICTIONARIES_KEY, field.as_bytes(), text.as_bytes()]);
    }
    records.len()
}

/// Whether a field of the hash is of no use to a layout in force: a dictionary that it doesn't name.
pub fn is_unnamed(field: &[u8], layout: &Layout) -> bool {
    let is_named = |text: &str| text.parse().is_ok_and(|id| layout.dictionaries().contains(&id));
    slots_field(field).is_none() && !std::str::from_utf8(field).is_ok_and(is_named)
}

/// Whether a field of the hash records the slots of names that a layout in force doesn't use any more.
pub fn is_forgotten(field: &[u8], layout: &Layout) -> bool {
    slots_field(field).is_some_and(|stem| !layout.has_in_use(stem))
}

/// What the hash is to hold for a layout that is served, and the writing again of what has gone.
///
/// A server that evicts keys may evict this one, and every value that needs it would be lost with it. Asking for its
/// fields now and then keeps it among the keys used lately, and finds what is gone.
#[derive(Debug)]
pub struct Upkeep {
    fields: Vec<(String, Field)>,
}

/// What a field holds.
#[derive(Debug)]
enum Field {
    Dictionary(Vec<u8>),
    Slots(String),
}

impl Upkeep {
    /// For a layout whose dictionaries are open; none where it needs nothing.
    pub fn of(layout: &Layout) -> Option<Self> {
        let slots = slot_records(layout).into_iter().map(|(field, text)| (field, Field::Slots(text)));
        let dictionaries = layout.open_dictionaries().into_iter();
        let dictionaries = dictionaries.map(|(id, bytes)| (id.to_string(), Field::Dictionary(bytes.to_vec())));
        let fields: Vec<_> = slots.chain(dictionaries).collect();
        (!fields.is_empty()).then_some(Self { fields })
    }

    /// Asks what is there; as many replies as it returns.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        for (field, _) in &self.fields {
            write_command(wire, &[b"HEXISTS", DICTIONARIES_KEY, field.as_bytes()]);
        }
        self.fields.len()
    }

    /// Writes again what is gone by those replies; the names of these fields, one reply each.
    pub fn restore(&self, replies: &[Vec<u8>], wire: &mut Vec<u8>) -> Vec<&str> {
        let lost = self.fields.iter().zip(replies).filter(|(_, reply)| reply.as_slice() == b":0\r\n");
        lost.map(|((name, field), _)| {
            let stored = match field {
                Field::Dictionary(dictionary) => &pack(dictionary),
                Field::Slots(text) => text.as_bytes(),
            };
            write_command(wire, &[b"HSET", DICTIONARIES_KEY, name.as_bytes(), stored]);
            name.as_str()
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_written_again_and_nothing_else() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 8 }\n").unwrap();
        let upkeep = Upkeep::of(&layout).unwrap();
        let mut wire = Vec::new();
        assert_eq!(upkeep.ask(&mut wire), 1);
        wire.clear();
        assert!(upkeep.restore(&[b":1\r\n".to_vec()], &mut wire).is_empty() && wire.is_empty());
        assert!(upkeep.restore(&[b"-LOADING\r\n".to_vec()], &mut wire).is_empty() && wire.is_empty());
        let lost = upkeep.restore(&[b":0\r\n".to_vec()], &mut wire);
        assert_eq!((lost.len(), slots_field(lost[0].as_bytes()).is_some()), (1, true));
        assert!(wire.starts_with(b"*4\r\n$4\r\nHSET\r\n$27\r\nkeyfold:{home}:dictionaries\r\n"));
        assert!(Upkeep::of(&Layout::default()).is_none());
    }

    #[test]
    fn fields_that_a_layout_names_or_uses_stay() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 8 }\n").unwrap();
        let (slots, _) = slot_records(&layout).remove(0);
        let dictionary = DictionaryId::of(b"words").to_string();
        assert!(!is_forgotten(slots.as_bytes(), &layout) && is_forgotten(slots.as_bytes(), &Layout::default()));
        assert!(!is_unnamed(slots.as_bytes(), &layout) && is_unnamed(dictionary.as_bytes(), &layout));
        assert!(!is_forgotten(dictionary.as_bytes(), &layout));
    }
}
