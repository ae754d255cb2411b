//! The dictionaries that values are compressed by, beside the server's layout.

use anyhow::anyhow;
use keyfold_core::admin::dictionaries as admin;
use keyfold_core::codec::Kinds;
use keyfold_core::layout::Layout;

use crate::connection::Server;
use crate::reply;

/// Opens the layout's codecs with the server's dictionaries. One that is missing leaves its slot unusable, which
/// whoever meets such a value says.
pub fn open(server: &mut Server, mut layout: Layout) -> anyhow::Result<Layout> {
    let missing = layout.missing_dictionaries();
    if missing.is_empty() {
        return Ok(layout);
    }
    let mut wire = Vec::new();
    admin::ask(&missing, &mut wire);
    let found = admin::read(&missing, &server.exchange_one(&wire)?)
        .map_err(|error| anyhow!("the server does not give the dictionaries: {error}"))?;
    layout.open(&Kinds::default(), &found);
    Ok(layout)
}

/// Writes the dictionaries of a layout, before it is in force.
pub fn write(server: &mut Server, layout: &Layout) -> anyhow::Result<()> {
    let (dictionaries, mut wire) = (layout.open_dictionaries(), Vec::new());
    dictionaries.iter().for_each(|(id, dictionary)| admin::write(*id, dictionary, &mut wire));
    carry_out(server, &wire, dictionaries.len())
}

/// Records the codec slots of a layout beside the dictionaries, before it is in force: where the layout is lost, they
/// say what values are stored by.
pub fn record_slots(server: &mut Server, layout: &Layout) -> anyhow::Result<()> {
    let mut wire = Vec::new();
    let records = admin::record_slots(layout, &mut wire);
    carry_out(server, &wire, records)
}

fn carry_out(server: &mut Server, wire: &[u8], commands: usize) -> anyhow::Result<()> {
    server.select(0)?;
    for reply in server.exchange(wire, commands)? {
        reply::read::<()>(&reply)
            .map_err(|error| server.explain(&error).context("can't write keyfold:{home}:dictionaries"))?;
    }
    Ok(())
}
