//! A walk over the names in a server that begin as keyfold's do: whose data is there, whatever the layout says.

use keyfold_core::layout::{Heads, NAMES_PATTERN};
use keyfold_core::resp::{Reply, write_command};

use crate::scan::{self, Database};
use crate::server::Server;

/// Walks over all databases. Leaves the connection in database 0.
pub(crate) fn walk(server: &mut Server) -> anyhow::Result<Heads> {
    let mut heads = Heads::default();
    for Database { number: database, .. } in scan::databases(server)? {
        server.select(database)?;
        each_page(server, &mut |server, names| note(server, names, database, &mut heads))?;
    }
    server.select(0)?;
    Ok(heads)
}

/// What is done with one page of names.
pub(super) type OnPage<'p> = dyn FnMut(&mut Server, &[Vec<u8>]) -> anyhow::Result<()> + 'p;

/// Hands out all of keyfold's names in the database that is selected, a page at a time.
pub(super) fn each_page(server: &mut Server, on_page: &mut OnPage<'_>) -> anyhow::Result<()> {
    let mut cursor: Vec<u8> = b"0".to_vec();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor).arg("MATCH").arg(NAMES_PATTERN).arg("COUNT").arg(1000);
        let (next, names): (Vec<u8>, Vec<Vec<u8>>) = server.ask(&scan)?;
        on_page(server, &names)?;
        cursor = next;
        if cursor == b"0" {
            return Ok(());
        }
    }
}

/// Anybody may call keys as keyfold does; what holds keys of keyfold's is of one type each.
fn note(server: &mut Server, names: &[Vec<u8>], database: u32, heads: &mut Heads) -> anyhow::Result<()> {
    let expected = names.iter().filter_map(|name| Some((name, Heads::expected_type(name)?)));
    let expected: Vec<_> = expected.collect();
    let mut wire = Vec::new();
    for (name, _) in &expected {
        write_command(&mut wire, &[b"TYPE", name]);
    }
    for ((name, expected), reply) in expected.iter().zip(server.exchange(&wire, expected.len())?) {
        if Reply::parse(&reply) == Ok(Reply::Simple(expected.as_bytes())) {
            heads.note(name, database);
        }
    }
    Ok(())
}
