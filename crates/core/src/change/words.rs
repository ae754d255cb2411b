//! What members and coordinators say in the server, as text that a person can read.

use std::fmt;
use std::str::FromStr;

use super::{HOLD_MS, PATIENCE_MS};
use crate::layout::{Epoch, Revision};

/// One try of one change to have all members stop at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeAttempt {
    /// The change: a number that is never drawn twice.
    pub change: u64,
    /// The try, from 1.
    pub number: u32,
}

impl ChangeAttempt {
    /// How long members may hold their clients back for this try before the coordinator lets them go, in milliseconds: twice
    /// as long from the fourth time that it has them stop, four times from the sixth. On a machine that is busy what is under
    /// way takes long, and would do so however often it is tried.
    pub fn hold_ms(self) -> i64 {
        HOLD_MS * self.longer()
    }

    /// How long a member holds its clients back at most, in milliseconds.
    pub fn patience_ms(self) -> i64 {
        PATIENCE_MS * self.longer()
    }

    fn longer(self) -> i64 {
        match self.number {
            // Every other number is one of *prepare*.
            0..8 => 1,
            8..12 => 2,
            _ => 4,
        }
    }
}

/// What a member says to an announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stance {
    /// It serves, and looks every few milliseconds whether it is to stop.
    Ready(ChangeAttempt),
    /// It begins no request, and has none under way.
    Held(ChangeAttempt),
    /// It had stopped, and serves again: the coordinator took too long.
    Serving(ChangeAttempt),
}

/// A member's answer to an announcement.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// What it does.
    pub stance: Stance,
    /// The layout that it serves, or served last.
    pub knows: Revision,
    /// Who it is, for people: a process, an address; without spaces.
    pub who: String,
}

/// What a coordinator wants of the members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Look often.
    Prepare,
    /// Stop.
    Hold,
}

/// A coordinator's announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Announcement {
    /// Which try of which change.
    pub attempt: ChangeAttempt,
    /// What is wanted.
    pub phase: Phase,
    /// The epoch to come.
    pub to: Epoch,
}

impl Announcement {
    /// What lies under [`CHANGE_KEY`](crate::admin::CHANGE_KEY); none where that is no announcement.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        parse(bytes)
    }

    /// Whether what lies there, if anything does, has everybody stop who writes by the layout in force.
    pub fn holds(bytes: Option<&[u8]>) -> bool {
        bytes.and_then(Self::read).is_some_and(|announced| announced.phase == Phase::Hold)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, ChangeAttempt { change, number }) = match self.stance {
            Stance::Ready(attempt) => ("ready", attempt),
            Stance::Held(attempt) => ("held", attempt),
            Stance::Serving(attempt) => ("serving", attempt),
        };
        write!(f, "{word} {change:x} {number} {} {}", self.knows, self.who)
    }
}

impl FromStr for Answer {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let word = words.next();
        let attempt = read_attempt(&mut words)?;
        let stance = match word {
            Some("ready") => Stance::Ready(attempt),
            Some("held") => Stance::Held(attempt),
            Some("serving") => Stance::Serving(attempt),
            _ => return Err(()),
        };
        Ok(Self { stance, knows: read(words.next())?, who: words.next().unwrap_or_default().to_owned() })
    }
}

impl fmt::Display for Announcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match self.phase {
            Phase::Prepare => "prepare",
            Phase::Hold => "hold",
        };
        write!(f, "{:x} {} {phase} {}", self.attempt.change, self.attempt.number, self.to)
    }
}

impl FromStr for Announcement {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let attempt = read_attempt(&mut words)?;
        let phase = match words.next() {
            Some("prepare") => Phase::Prepare,
            Some("hold") => Phase::Hold,
            _ => return Err(()),
        };
        Ok(Self { attempt, phase, to: Epoch(read(words.next())?) })
    }
}

pub(super) fn read_attempt<'w>(words: &mut impl Iterator<Item = &'w str>) -> Result<ChangeAttempt, ()> {
    let change = words.next().and_then(|word| u64::from_str_radix(word, 16).ok()).ok_or(())?;
    Ok(ChangeAttempt { change, number: read(words.next())? })
}

fn read<T: FromStr>(word: Option<&str>) -> Result<T, ()> {
    word.and_then(|word| word.parse().ok()).ok_or(())
}

/// Reads a text out of the server; none where nobody wrote it so.
pub(super) fn parse<T: FromStr>(bytes: &[u8]) -> Option<T> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        let attempt = ChangeAttempt { change: 0x9f3a, number: 2 };
        let knows = Revision { epoch: Epoch(7), attempt: crate::layout::Attempt(3) };
        for stance in [Stance::Ready(attempt), Stance::Held(attempt), Stance::Serving(attempt)] {
            let answer = Answer { stance, knows, who: "host:42".to_owned() };
            assert_eq!(answer.to_string().parse(), Ok(answer));
        }
        for phase in [Phase::Prepare, Phase::Hold] {
            let announcement = Announcement { attempt, phase, to: Epoch(8) };
            assert_eq!(announcement.to_string().parse(), Ok(announcement));
            assert_eq!(Announcement::read(announcement.to_string().as_bytes()), Some(announcement));
        }
        let answer = Answer { stance: Stance::Held(attempt), knows, who: "a".to_owned() };
        assert_eq!(answer.to_string(), "held 9f3a 2 7.0000000000000003 a");
        for text in ["", "ready", "ready x 2 a", "ready 9f3a 2 a", "sleeping 9f3a 2 7.0000000000000003 a"] {
            assert_eq!(text.parse::<Answer>(), Err(()), "{text}");
        }
    }
}
