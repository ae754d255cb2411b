//! The dictionaries that values are compressed by, beside the server's layout.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use keyfold_core::codec::{self, DICTIONARIES_KEY, DictionaryId, Kinds};
use keyfold_core::layout::Layout;

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

/// Removes the dictionaries that a layout in force doesn't name; how many there were.
pub(crate) fn remove_unnamed(server: &mut Server, layout: &Layout) -> anyhow::Result<usize> {
    server.select(0)?;
    let named: BTreeSet<String> = layout.dictionaries().iter().map(DictionaryId::to_string).collect();
    let there: Vec<String> = server.ask(redis::cmd("HKEYS").arg(DICTIONARIES_KEY))?;
    let unnamed: Vec<&String> = there.iter().filter(|id| !named.contains(*id)).collect();
    for id in &unnamed {
        server.ask::<()>(redis::cmd("HDEL").arg(DICTIONARIES_KEY).arg(id))?;
    }
    Ok(unnamed.len())
}
