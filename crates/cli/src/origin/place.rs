//! What was named to be looked at.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use keyfold_server::Target;

/// A server or a dump.
#[derive(Clone)]
pub(crate) enum Place {
    /// A live server.
    Server(Target),
    /// A dump.
    Dump(DumpPlace),
}

/// Where a dump is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DumpPlace {
    /// A file, which can be read as often as is needed.
    File(PathBuf),
    /// Standard input, which goes by once.
    Stdin,
}

/// Whether a dump is of a node of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClusterMode {
    /// If the dump tells of slots, which Redis from 7.4 and Valkey from 8.0 on write
    #[default]
    Auto,
    /// It is
    Yes,
    /// It isn't, or is not to be planned for as one
    No,
}

impl DumpPlace {
    /// Whether it is there a second time.
    pub(crate) fn can_be_read_again(&self) -> bool {
        matches!(self, Self::File(path) if path.is_file())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(target) => target.address.fmt(f),
            Self::Dump(dump) => dump.fmt(f),
        }
    }
}

impl fmt::Display for DumpPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}
