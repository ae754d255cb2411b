//! SADD and all others on sets.

use crate::string::Run;

/// The function for a command on sets by its lower-case name.
pub(super) fn lookup(_name: &[u8]) -> Option<Run> {
    None
}
