//! Which databases hold keys.

use std::vec;

use keyfold_core::walk::KeyWalk;

use crate::connection::Server;

/// A database and how many keys it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Database {
    /// As SELECT takes it.
    pub number: u32,
    /// How many, expired ones that are not removed yet included.
    pub keys: u64,
}

/// All of a server's databases, or some.
#[derive(Clone, Debug)]
pub struct Databases {
    /// Empty for all.
    pub only: Vec<u32>,
}

impl Databases {
    /// Whether it is among those that are meant.
    pub fn contains(&self, database: u32) -> bool {
        self.only.is_empty() || self.only.contains(&database)
    }
}

/// The databases that hold keys.
pub fn databases(server: &mut Server) -> anyhow::Result<Vec<Database>> {
    Ok(parse(server.info("keyspace")?.text()))
}

/// Of those, the ones that are meant. Leaves the connection in database 0 where one of these has no keys.
///
/// # Errors
/// One that is meant doesn't exist.
pub fn chosen(server: &mut Server, wanted: &Databases) -> anyhow::Result<Vec<Database>> {
    let found = databases(server)?;
    for number in &wanted.only {
        if !found.iter().any(|database| database.number == *number) {
            server.select(*number)?;
            server.select(0)?;
        }
    }
    Ok(found.into_iter().filter(|database| wanted.contains(database.number)).collect())
}

/// How many keys they have together.
pub fn keys_of<'d>(databases: impl IntoIterator<Item = &'d Database>) -> u64 {
    databases.into_iter().map(|database| database.keys).sum()
}

/// The databases of each server that are meant.
pub fn chosen_of_each(servers: &mut [Server], wanted: &Databases) -> anyhow::Result<Vec<Vec<Database>>> {
    servers.iter_mut().map(|server| chosen(server, wanted)).collect()
}

/// The databases that a connection has still to go into, one after the other.
#[derive(Debug)]
pub struct Round(vec::IntoIter<Database>);

impl Round {
    /// Through these.
    pub fn new(databases: Vec<Database>) -> Self {
        Self(databases.into_iter())
    }

    /// Through all that hold keys.
    pub fn all(server: &mut Server) -> anyhow::Result<Self> {
        databases(server).map(Self::new)
    }

    /// How many keys there are in those that are still to come.
    pub fn keys(&self) -> u64 {
        keys_of(self.0.as_slice())
    }

    /// Goes on in the next database; none after the last, in database 0.
    pub fn enter_next(&mut self, server: &mut Server) -> anyhow::Result<Option<Database>> {
        let next = self.0.next();
        server.select(next.map_or(0, |database| database.number))?;
        Ok(next)
    }
}

/// What is done with a page of names of a database.
type OnPage<'p> = dyn FnMut(&mut Server, u32, Vec<Vec<u8>>) -> anyhow::Result<()> + 'p;

/// Walks over the names of all databases, a page at a time. Leaves the connection in database 0.
pub fn each_page(server: &mut Server, walk: &KeyWalk, on_page: &mut OnPage<'_>) -> anyhow::Result<()> {
    let mut round = Round::all(server)?;
    while let Some(Database { number, .. }) = round.enter_next(server)? {
        let mut walk = walk.clone();
        while let Some(names) = server.next_names(&mut walk)? {
            on_page(server, number, names)?;
        }
    }
    Ok(())
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
