//! The server or the dump that the flags name.

use super::{databases, target};
use crate::flags::databases::DatabaseFlags;
use crate::flags::origin::OriginFlags;
use crate::origin::Place;
use crate::scan::Databases;

/// What is to be looked at, and which of its databases.
pub(crate) fn resolve(flags: &OriginFlags, databases: &DatabaseFlags) -> (Place, Databases) {
    match &flags.dump {
        Some(dump) => (Place::Dump(dump.clone()), Databases { only: databases.database.clone() }),
        None => {
            let target = target::resolve(&flags.upstream);
            let databases = databases::resolve(databases, &target.address);
            (Place::Server(target), databases)
        }
    }
}
