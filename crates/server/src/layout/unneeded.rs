//! What lies beside the layout and is of no use to the one in force: dictionaries, and records of slots.

use keyfold_core::admin::dictionaries as admin;
use keyfold_core::admin::{COPY_KEY, DICTIONARIES_KEY, LAYOUT_KEY};
use keyfold_core::layout::Layout;

use super::stored;
use crate::connection::Server;

/// Removes fields if the register is as it was read.
const REMOVE: &str = "if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] or (redis.call('GET', KEYS[2]) or '') ~= ARGV[2] then \
                      return 0 end return redis.call('HDEL', KEYS[3], unpack(ARGV, 3))";

/// Removes the records of slots of names that a layout doesn't use any more, if it is in force.
pub fn forget_slots(server: &mut Server, layout: &Layout) -> anyhow::Result<()> {
    remove(server, layout, admin::is_forgotten).map(|_| ())
}

/// Removes the dictionaries that a layout doesn't name, if it is in force; how many there were.
pub fn remove_dictionaries(server: &mut Server, layout: &Layout) -> anyhow::Result<usize> {
    remove(server, layout, admin::is_unnamed)
}

/// Removes what is useless to a layout, if that is in force when it is carried out: another one may need it. A server that
/// is out of memory does so too.
fn remove(server: &mut Server, layout: &Layout, is_useless: fn(&[u8], &Layout) -> bool) -> anyhow::Result<usize> {
    let register = stored::register(server)?;
    let in_force = stored::read_from(&register, server)?.map_or_else(Layout::default, |stored| stored.layout);
    let there: Vec<Vec<u8>> = server.ask(&[b"HKEYS", DICTIONARIES_KEY])?;
    let useless: Vec<&[u8]> = there.iter().map(Vec::as_slice).filter(|field| is_useless(field, layout)).collect();
    if in_force != *layout || useless.is_empty() {
        return Ok(0);
    }
    let (text, copy) = (register.layout.unwrap_or_default(), register.copy.unwrap_or_default());
    let head: [&[u8]; 8] =
        [b"EVAL", REMOVE.as_bytes(), b"3", LAYOUT_KEY, COPY_KEY, DICTIONARIES_KEY, text.as_slice(), copy.as_slice()];
    let removed: i64 = server.ask(&[&head, useless.as_slice()].concat())?;
    Ok(usize::try_from(removed).unwrap_or(0))
}
