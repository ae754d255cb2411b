//! Which of a client's later requests wait until an earlier one is answered.

/// Which of a client's later requests wait until this one is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// None: nothing is written after the commands that are sent at once.
    Nothing,
    /// Those that concern one of its keys, and those that concern more than keys: it may write these keys in a second
    /// round trip, and nothing else.
    SameKeys,
    /// All.
    All,
}
