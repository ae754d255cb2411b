//! The databases that the flags and the URL name.

use keyfold_proxy::address::ServerAddress;

use crate::flags::databases::Databases;

/// What the flag says; else the URL's database. Of 0 one can't tell whether it was written: all.
pub(crate) fn resolve(flag: Option<Databases>, address: &ServerAddress) -> Databases {
    flag.unwrap_or(if address.database == 0 { Databases::All } else { Databases::One(address.database) })
}
