//! A walk over the names in servers that begin as keyfold's do: whose data is there, whatever the layout says.

use keyfold_core::layout::{Heads, NAMES_PATTERN};
use keyfold_core::walk::KeyWalk;

use keyfold_server::keyspace;
use keyfold_server::reply::read_if;
use keyfold_server::{Commands, Server};

/// Walks over all databases of these servers. Leaves the connections in database 0.
pub(crate) fn walk<'s>(servers: impl IntoIterator<Item = &'s mut Server>) -> anyhow::Result<Heads> {
    let mut heads = Heads::default();
    for server in servers {
        keyspace::each_page(server, &names(), &mut |server, database, names| {
            note(server, &names, database, &mut heads)
        })?;
    }
    Ok(heads)
}

/// A walk over keyfold's names in one database.
pub(super) fn names() -> KeyWalk {
    KeyWalk::new(1000).matching(NAMES_PATTERN)
}

/// Anybody may call keys as keyfold does; what holds keys of keyfold's is of one type each.
fn note(server: &mut Server, names: &[Vec<u8>], database: u32, heads: &mut Heads) -> anyhow::Result<()> {
    let expected = names.iter().filter_map(|name| Some((name, Heads::expected_type(name)?)));
    let expected: Vec<_> = expected.collect();
    let mut commands = Commands::default();
    expected.iter().for_each(|(name, _)| commands.push(&[b"TYPE", name]));
    for ((name, expected), reply) in expected.iter().zip(server.ask_all(&commands)?) {
        if read_if::<String>(&reply).as_deref() == Some(expected) {
            heads.note(name, database);
        }
    }
    Ok(())
}
