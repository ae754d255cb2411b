//! The dictionaries that values are compressed by, beside the server's layout.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use keyfold_core::codec::{self, DICTIONARIES_KEY, DictionaryId, Kinds};
use keyfold_core::layout::{Layout, slot_records, slots_field};

use crate::server::Server;

/// Opens the layout's codecs with the server's dictionaries. One that is missing leaves its slot unusable, which
/// whoever meets such a value says.
pub(crate) fn open(server: &mut Server, mut layout: Layout) -> anyhow::Result<Layout> {
    let missing = layout.missing_dictionaries();
    if missing.is_empty() {
        return Ok(layout);
    }
    let mut wire = Vec::new();
    codec::ask_dictionaries(&missing, &mut wire);
    let replies = server.exchange(&wire, 1)?;
    let found = codec::read_dictionaries(&missing, replies.first().map_or(&[], Vec::as_slice))
        .map_err(|error| anyhow!("the server does not give the dictionaries: {error}"))?;
    layout.open(&Kinds::default(), &found);
    Ok(layout)
}

/// Writes dictionaries, before a layout that names them.
pub(crate) fn write(server: &mut Server, dictionaries: &BTreeMap<DictionaryId, Vec<u8>>) -> anyhow::Result<()> {
    server.select(0)?;
    for (id, dictionary) in dictionaries {
        let packed = codec::pack(dictionary);
        server.ask::<()>(redis::cmd("HSET").arg(DICTIONARIES_KEY).arg(id.to_string()).arg(packed))?;
    }
    Ok(())
}

/// Records the codec slots of a layout beside the dictionaries, before it is in force: where the layout is lost, they
/// say what values are stored by.
pub(crate) fn record_slots(server: &mut Server, layout: &Layout) -> anyhow::Result<()> {
    server.select(0)?;
    for (field, text) in slot_records(layout) {
        server.ask::<()>(redis::cmd("HSET").arg(DICTIONARIES_KEY).arg(field).arg(text))?;
    }
    Ok(())
}

/// Removes the records of slots of names that a layout in force doesn't use any more.
pub(crate) fn forget_slots(server: &mut Server, layout: &Layout) -> anyhow::Result<()> {
    server.select(0)?;
    let there: Vec<Vec<u8>> = server.ask(redis::cmd("HKEYS").arg(DICTIONARIES_KEY))?;
    for field in there.iter().filter(|field| slots_field(field).is_some_and(|stem| !layout.has_in_use(stem))) {
        server.ask::<()>(redis::cmd("HDEL").arg(DICTIONARIES_KEY).arg(field))?;
    }
    Ok(())
}

/// Removes the dictionaries that a layout in force doesn't name; how many there were.
pub(crate) fn remove_unnamed(server: &mut Server, layout: &Layout) -> anyhow::Result<usize> {
    server.select(0)?;
    let named: BTreeSet<String> = layout.dictionaries().iter().map(DictionaryId::to_string).collect();
    let there: Vec<String> = server.ask(redis::cmd("HKEYS").arg(DICTIONARIES_KEY))?;
    let is_unnamed = |field: &&String| slots_field(field.as_bytes()).is_none() && !named.contains(*field);
    let unnamed: Vec<&String> = there.iter().filter(is_unnamed).collect();
    for id in &unnamed {
        server.ask::<()>(redis::cmd("HDEL").arg(DICTIONARIES_KEY).arg(id))?;
    }
    Ok(unnamed.len())
}
