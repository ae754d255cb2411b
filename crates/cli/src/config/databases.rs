//! The databases that the flags and the URL name.

use keyfold_proxy::address::ServerAddress;
use keyfold_server::keyspace::Databases;

use crate::flags::databases::DatabaseFlags;

/// What the flag says; else the URL's database. Of 0 one can't tell whether it was written: all.
pub(crate) fn resolve(flags: &DatabaseFlags, address: &ServerAddress) -> Databases {
    let mut only = flags.database.clone();
    if only.is_empty() && address.database > 0 {
        only.push(address.database);
    }
    Databases { only }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(database: &[u32], url: &str) -> Vec<u32> {
        let databases = resolve(&DatabaseFlags { database: database.to_vec() }, &url.parse().unwrap());
        (0..5).filter(|number| databases.contains(*number)).collect()
    }

    #[test]
    fn the_flag_the_url_or_all() {
        assert_eq!(named(&[], "redis://localhost"), [0, 1, 2, 3, 4]);
        assert_eq!(named(&[], "redis://localhost/3"), [3]);
        assert_eq!(named(&[0], "redis://localhost/3"), [0]);
        assert_eq!(named(&[4, 1], "redis://localhost"), [1, 4]);
    }
}
