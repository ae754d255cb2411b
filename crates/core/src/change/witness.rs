//! What a witness holds, and what is to be done about it.
//!
//! ```text
//! {the layout in its stored form}                     it is in force, as far as this witness knows
//! (the empty string)                                  there is no layout in force
//! changing {change} {attempt} {to_epoch}\n{layout}    a change was about to put this layout in force
//! ```
//! One that is not there speaks for nothing: it was lost, or nobody has written it yet.
//!
//! A coordinator writes *changing* to every witness after it has announced *hold* and before it asks who is there, and
//! the layout again when the change is over. So from before another layout comes into force until a witness says that
//! one, it speaks for none, and no new connection is let through by its word ([`super::Clearance`]).
//!
//! Where the coordinator dies in between, whoever comes by brings the witness up to what the home says ([`tend`]). That
//! may be wrong only where a change is still to come, so the witness is looked at first and the home after it: what was
//! announced there before the witness was written has by then ended, or is seen. And it is written only while it holds
//! what was seen, by its change and attempt, so that words that come late come to nothing.

use std::fmt;

use super::words::{ChangeAttempt, read_attempt};
use crate::admin::witness::key;
use crate::exchange::CompareAndSet;
use crate::layout::Epoch;
use crate::resp::{Reply, write_command};
use crate::slot::Slot;

/// What a witness holds while no layout is in force.
pub const NO_LAYOUT: &[u8] = b"";

/// A change of which a witness knows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Changing {
    /// Which try of which change.
    pub attempt: ChangeAttempt,
    /// The epoch to come.
    pub to: Epoch,
    /// The layout to come, in its stored form.
    pub layout: Vec<u8>,
}

/// What is to be done about a witness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tending {
    /// It says what the home does.
    Fine,
    /// Nothing, while a change is announced, or while nothing is in force by the home's word.
    Later,
    /// Have the home's layout written to it ([`write()`]).
    Write,
    /// It knows of this layout, which may have been in force, and the home doesn't: the home was set back, or a
    /// coordinator died. A change that takes account of both has to settle that.
    Doubt(Epoch, Vec<u8>),
}

impl Changing {
    /// Reads what a witness holds; none where it speaks of no change.
    pub fn read(held: &[u8]) -> Option<Self> {
        let end = memchr::memchr(b'\n', held)?;
        let (words, layout) = (std::str::from_utf8(&held[..end]).ok()?, held[end + 1..].to_vec());
        let mut words = words.strip_prefix("changing ")?.split(' ');
        let attempt = read_attempt(&mut words).ok()?;
        Some(Self { attempt, to: Epoch(words.next()?.parse().ok()?), layout })
    }

    /// What a witness is to hold.
    pub(super) fn to_stored(&self) -> Vec<u8> {
        [self.to_string().as_bytes(), b"\n", &self.layout].concat()
    }
}

impl fmt::Display for Changing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChangeAttempt { change, number } = self.attempt;
        write!(f, "changing {change:x} {number} {}", self.to)
    }
}

/// Asks the witness in this slot what it holds; one reply.
pub fn ask(slot: Slot, wire: &mut Vec<u8>) {
    write_command(wire, &[b"GET", &key(slot)]);
}

/// What it holds, by its reply; none for nothing.
///
/// # Errors
/// What the server said instead.
pub fn read(reply: &[u8]) -> Result<Option<Vec<u8>>, String> {
    match Reply::parse(reply) {
        Ok(Reply::Nil) => Ok(None),
        Ok(Reply::Bulk(held)) => Ok(Some(held.to_vec())),
        // Something else than keyfold put another type there.
        Ok(Reply::Error(error)) if error.starts_with(b"WRONGTYPE") => Ok(None),
        _ => Err(super::sight::text(reply)),
    }
}

/// What is to be done about a witness that held this. `home` is the layout in force at the home, in its stored form with
/// its epoch ([`NO_LAYOUT`] and 0 where the register holds nothing), none where it can't be read; and `announced` whether a change was announced there, both asked *after* the witness was. `epoch_of` says
/// the epoch of a stored form; none where it is damaged.
pub fn tend(
    held: Option<&[u8]>,
    home: Option<(&[u8], Epoch)>,
    announced: bool,
    epoch_of: impl Fn(&[u8]) -> Option<Epoch>,
) -> Tending {
    let Some((text, epoch)) = home.filter(|_| !announced) else { return Tending::Later };
    let Some(held) = held else { return Tending::Write };
    if held == text {
        return Tending::Fine;
    }
    let newer = match Changing::read(held) {
        Some(changing) => Some((changing.to, changing.layout)),
        None => epoch_of(held).map(|epoch| (epoch, held.to_vec())),
    };
    match newer.filter(|(newer, _)| *newer > epoch) {
        Some((newer, layout)) => Tending::Doubt(newer, layout),
        None => Tending::Write,
    }
}

/// Appends the atomic step that writes this layout, in its stored form, to the witness in this slot if that still holds
/// what was seen; one reply.
pub fn write(slot: Slot, seen: Option<&[u8]>, layout: &[u8], wire: &mut Vec<u8>) {
    replace(slot, seen, Some(layout), wire);
}

/// The same of whatever it is to hold; none for nothing.
pub(super) fn replace(slot: Slot, seen: Option<&[u8]>, held: Option<&[u8]>, wire: &mut Vec<u8>) {
    let (key, mut step) = (key(slot), CompareAndSet::default());
    step.check(&[b"GET", &key], seen);
    match held {
        Some(held) => step.write(&[b"SET", &key, held]),
        None => step.write(&[b"DEL", &key]),
    }
    step.send_with_text(wire);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTEMPT: ChangeAttempt = ChangeAttempt { change: 0xa7, number: 3 };

    fn changing(to: u64) -> Vec<u8> {
        Changing { attempt: ATTEMPT, to: Epoch(to), layout: b"version = 2\n".to_vec() }.to_stored()
    }

    #[test]
    fn words_are_read_back() {
        let stored = changing(9);
        assert_eq!(stored, b"changing a7 3 9\nversion = 2\n");
        let read = Changing::read(&stored).unwrap();
        assert_eq!((read.attempt, read.to, read.to_stored()), (ATTEMPT, Epoch(9), stored));
        for other in [&b""[..], b"version = 2\n", b"changing\n", b"changing x 3 9\n", b"changing a7 3 9", b"\xff\n"] {
            assert_eq!(Changing::read(other), None, "{}", other.escape_ascii());
        }
        assert_eq!(super::read(b"$-1\r\n"), Ok(None));
        assert_eq!(super::read(b"-WRONGTYPE Operation\r\n"), Ok(None));
        assert_eq!(super::read(b"-TRYAGAIN Multiple keys\r\n"), Err("TRYAGAIN Multiple keys".to_owned()));
    }

    #[test]
    fn a_witness_only_goes_forward() {
        let epoch_of = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok().map(Epoch);
        let tend = |held: &[u8], announced| tend(Some(held), Some((b"5", Epoch(5))), announced, epoch_of);
        assert_eq!(tend(b"5", false), Tending::Fine);
        for older in [&b"4"[..], b"05", b"damaged", &changing(5), &changing(4)] {
            assert_eq!(tend(older, false), Tending::Write, "{}", older.escape_ascii());
            assert_eq!(tend(older, true), Tending::Later);
        }
        assert_eq!(tend(b"6", false), Tending::Doubt(Epoch(6), b"6".to_vec()));
        assert_eq!(tend(&changing(6), false), Tending::Doubt(Epoch(6), b"version = 2\n".to_vec()));
        assert_eq!(super::tend(None, Some((b"5", Epoch(5))), false, epoch_of), Tending::Write);
        assert_eq!(super::tend(Some(b"5"), None, false, epoch_of), Tending::Later);
    }
}
