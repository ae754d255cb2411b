//! What came of a command that the server may decline.

use crate::exchange::{Step, UnderWay};

/// What came of an attempt.
pub(crate) enum Outcome {
    /// It ends so.
    Ended(Step),
    /// The server did nothing. The command goes on like this instead, with so many replies to come.
    Refused(UnderWay, u32),
}
