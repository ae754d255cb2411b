//! Why a dump can't be read on.

use std::io;

/// Why a dump can't be read on.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It doesn't begin as a dump does.
    #[error("this is no dump of Redis or Valkey: it doesn't begin with REDIS or VALKEY and four digits")]
    NoDump,
    /// It ends in the midst.
    #[error("the dump ends in the midst, after {0} bytes: it was cut off")]
    CutOff(u64),
    /// What no dump has.
    #[error("the dump is damaged at byte {at}: {what}")]
    Damaged {
        /// Where.
        at: u64,
        /// What was found.
        what: &'static str,
    },
    /// A newer server's, or a module's from before Redis 4.0.
    #[error(
        "the dump holds a value of type {kind} at byte {at}, which this keyfold doesn't know; where it ends is not known \
         either, so nothing behind it can be read"
    )]
    UnknownType {
        /// Where.
        at: u64,
        /// The number.
        kind: u8,
    },
    /// Not what the server wrote.
    #[error("the dump's checksum is not that of its bytes: it was changed or damaged on its way")]
    Checksum,
}
