//! HSET and all others on hashes.

use crate::string::Run;

/// The function for a command on hashes by its lower-case name.
pub(super) fn lookup(_name: &[u8]) -> Option<Run> {
    None
}
