//! What tells one version of a layout from every other.
//!
//! The epoch counts the changes. Two changes that began from the same layout would give the same epoch, and a server
//! that lost its last writes gives one a second time; so each writer draws a number as well, the *attempt*.

use std::fmt;
use std::str::FromStr;

/// The number of a layout's version: one more with each change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Epoch {
    /// The one after it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// A random number of who wrote a layout; 0 where none was drawn yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// No sixteen digits in lower-case hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an attempt is 16 hexadecimal digits")]
pub struct NoAttempt;

impl FromStr for Attempt {
    type Err = NoAttempt;

    fn from_str(text: &str) -> Result<Self, NoAttempt> {
        let attempt = u64::from_str_radix(text, 16).map_err(|_| NoAttempt).map(Self)?;
        if attempt.to_string() == text { Ok(attempt) } else { Err(NoAttempt) }
    }
}

/// Which of all layouts of a server it is. A greater one is newer, as far as their epochs differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision {
    /// How many changes there were.
    pub epoch: Epoch,
    /// What tells it from another of the same epoch.
    pub attempt: Attempt,
}

impl Revision {
    /// The revision of the layout that replaces this one, before a writer has drawn its attempt.
    #[must_use]
    pub fn next(self) -> Self {
        Self { epoch: self.epoch.next(), attempt: Attempt::default() }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.attempt)
    }
}

/// No epoch and attempt with a point between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a revision is an epoch, a point and an attempt")]
pub struct NoRevision;

impl FromStr for Revision {
    type Err = NoRevision;

    fn from_str(text: &str) -> Result<Self, NoRevision> {
        let (epoch, attempt) = text.split_once('.').ok_or(NoRevision)?;
        let epoch = Epoch(epoch.parse().map_err(|_| NoRevision)?);
        Ok(Self { epoch, attempt: attempt.parse().map_err(|_| NoRevision)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_sixteen_digits() {
        let attempt = Attempt(0xab);
        assert_eq!(attempt.to_string(), "00000000000000ab");
        assert_eq!(attempt.to_string().parse(), Ok(attempt));
        for text in ["", "ab", "00000000000000AB", "+0000000000000ab", "00000000000000ab0"] {
            assert_eq!(text.parse::<Attempt>(), Err(NoAttempt), "{text}");
        }
    }

    #[test]
    fn layouts_of_one_epoch_differ_by_their_attempts() {
        let one = Revision { epoch: Epoch(3), attempt: Attempt(1) };
        assert_ne!(one, Revision { attempt: Attempt(2), ..one });
        assert_eq!(one.next(), Revision { epoch: Epoch(4), attempt: Attempt(0) });
        assert_eq!(one.to_string(), "3.0000000000000001");
        assert_eq!(one.to_string().parse(), Ok(one));
        assert!(one.next() > one);
        for text in ["", "3", "3.1", ".0000000000000001", "x.0000000000000001"] {
            assert_eq!(text.parse::<Revision>(), Err(NoRevision), "{text}");
        }
    }
}
