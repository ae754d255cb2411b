//! Which databases hold keys.

use keyfold_core::walk::KeyWalk;

use crate::server::Server;

/// A database and how many keys it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Database {
    pub(crate) number: u32,
    pub(crate) keys: u64,
}

/// All of a server's databases, or some.
#[derive(Clone, Debug)]
pub(crate) struct Databases {
    /// Empty for all.
    pub(crate) only: Vec<u32>,
}

impl Databases {
    pub(crate) fn contains(&self, database: u32) -> bool {
        self.only.is_empty() || self.only.contains(&database)
    }
}

/// The databases that hold keys.
pub(crate) fn databases(server: &mut Server) -> anyhow::Result<Vec<Database>> {
    Ok(parse(server.info("keyspace")?.text()))
}

/// What is done with a page of names of a database.
type OnPage<'p> = dyn FnMut(&mut Server, u32, Vec<Vec<u8>>) -> anyhow::Result<()> + 'p;

/// Walks over the names of all databases, a page at a time. Leaves the connection in database 0.
pub(crate) fn each_page(server: &mut Server, walk: &KeyWalk, on_page: &mut OnPage<'_>) -> anyhow::Result<()> {
    for Database { number, .. } in databases(server)? {
        server.select(number)?;
        let mut walk = walk.clone();
        while let Some(names) = server.next_names(&mut walk)? {
            on_page(server, number, names)?;
        }
    }
    server.select(0)
}

/// Of those, the ones that are meant.
pub(crate) fn chosen(server: &mut Server, wanted: &Databases) -> anyhow::Result<Vec<Database>> {
    Ok(databases(server)?.into_iter().filter(|database| wanted.contains(database.number)).collect())
}

fn parse(info: &str) -> Vec<Database> {
    let database = |line: &str| {
        let (number, fields) = line.strip_prefix("db")?.split_once(':')?;
        let keys = fields.split(',').find_map(|field| field.strip_prefix("keys="))?;
        Some(Database { number: number.parse().ok()?, keys: keys.trim_end().parse().ok()? })
    };
    info.lines().filter_map(database).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_keyspace() {
        let info = "# Keyspace\r\ndb0:keys=3,expires=1,avg_ttl=9\r\ndb12:keys=40,expires=0,avg_ttl=0\r\n";
        let expected = [Database { number: 0, keys: 3 }, Database { number: 12, keys: 40 }];
        assert_eq!(parse(info), expected);
        assert_eq!(parse("# Keyspace\r\n"), []);
    }
}
