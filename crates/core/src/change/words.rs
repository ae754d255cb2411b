//! What members and coordinators say in the server, as text that a person can read.

use std::fmt;
use std::str::FromStr;

use crate::layout::Epoch;

/// How the field of a member that is being evicted begins; its id follows.
const EVICTED: &[u8] = b"evicted:";

/// One try of one change to have all members stop at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// The change: a number that is never drawn twice.
    pub change: u64,
    /// The try, from 1.
    pub number: u32,
}

/// What a member does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stance {
    /// It serves.
    Using,
    /// It serves, and looks every few milliseconds whether it is to stop.
    Ready(Attempt),
    /// It begins no request, and has none under way.
    Held(Attempt),
}

/// A member's lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The epoch that it serves, or served until it stopped.
    pub epoch: Epoch,
    /// What it does.
    pub stance: Stance,
    /// When the lease ends by the server's clock, in milliseconds since 1970.
    pub until_ms: i64,
    /// Who it is, for people: a host, a process, an address; without spaces.
    pub who: String,
}

/// A lease as it lies in the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseView {
    /// The member.
    pub member: Vec<u8>,
    /// Its lease; none where it can't be read, and where the member is being evicted.
    pub lease: Option<Lease>,
    /// The bytes that lie there.
    pub text: Vec<u8>,
    /// The change that is evicting it, where one is.
    pub evicted_by: Option<u64>,
}

impl LeaseView {
    /// What lies in a field of the leases' hash.
    pub fn read(field: &[u8], text: &[u8]) -> Self {
        let text = text.to_vec();
        let Some(member) = field.strip_prefix(EVICTED) else {
            return Self { member: field.to_vec(), lease: parse(&text), text, evicted_by: None };
        };
        let change = text.split(|byte| *byte == b' ').next().and_then(|word| std::str::from_utf8(word).ok());
        let change = change.and_then(|word| u64::from_str_radix(word, 16).ok());
        Self { member: member.to_vec(), lease: None, text, evicted_by: Some(change.unwrap_or_default()) }
    }

    /// The field that it lies in.
    pub(super) fn field(&self) -> Vec<u8> {
        if self.evicted_by.is_some() { self.mark_field() } else { self.member.clone() }
    }

    /// The field that says that its member is being evicted.
    pub(super) fn mark_field(&self) -> Vec<u8> {
        [EVICTED, &self.member].concat()
    }

    /// What lies in that field while this change evicts the member. No two leases of a member read the same, as
    /// each ends at another time; so no two evictions do.
    pub(super) fn mark(&self, change: u64) -> Vec<u8> {
        let lease = match self.evicted_by {
            Some(_) => self.text.splitn(2, |byte| *byte == b' ').nth(1).unwrap_or_default(),
            None => &self.text,
        };
        [format!("{change:x} ").as_bytes(), lease].concat()
    }
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
    pub attempt: Attempt,
    /// What is wanted.
    pub phase: Phase,
    /// The epoch to come.
    pub to: Epoch,
}

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, Attempt { change, number }) = match self.stance {
            Stance::Using => ("using", Attempt { change: 0, number: 0 }),
            Stance::Ready(attempt) => ("ready", attempt),
            Stance::Held(attempt) => ("held", attempt),
        };
        write!(f, "{} {word} {change:x} {number} {} {}", self.epoch, self.until_ms, self.who)
    }
}

impl FromStr for Lease {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = text.split(' ');
        let epoch = Epoch(read(words.next())?);
        let word = words.next();
        let attempt = read_attempt(&mut words)?;
        let stance = match word {
            Some("using") => Stance::Using,
            Some("ready") => Stance::Ready(attempt),
            Some("held") => Stance::Held(attempt),
            _ => return Err(()),
        };
        Ok(Self { epoch, stance, until_ms: read(words.next())?, who: words.next().unwrap_or_default().to_owned() })
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

fn read_attempt<'w>(words: &mut impl Iterator<Item = &'w str>) -> Result<Attempt, ()> {
    let change = words.next().and_then(|word| u64::from_str_radix(word, 16).ok()).ok_or(())?;
    Ok(Attempt { change, number: read(words.next())? })
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
    fn a_mark_names_the_member_the_change_and_the_lease() {
        let lease = LeaseView::read(b"a1", b"7 using 0 0 5 host");
        assert_eq!(lease.evicted_by, None);
        assert_eq!((lease.field(), lease.mark_field()), (b"a1".to_vec(), b"evicted:a1".to_vec()));
        let mark = LeaseView::read(&lease.mark_field(), &lease.mark(0x9f));
        assert_eq!((mark.member.as_slice(), mark.evicted_by, mark.lease.as_ref()), (&b"a1"[..], Some(0x9f), None));
        assert_eq!(mark.text, b"9f 7 using 0 0 5 host");
        assert_eq!(mark.field(), lease.mark_field());
        assert_eq!(mark.mark(0x1a), b"1a 7 using 0 0 5 host");
        assert_eq!(LeaseView::read(b"evicted:a1", b"what?").evicted_by, Some(0));
    }

    #[test]
    fn words_are_read_back() {
        let attempt = Attempt { change: 0x9f3a, number: 2 };
        for stance in [Stance::Using, Stance::Ready(attempt), Stance::Held(attempt)] {
            let lease = Lease { epoch: Epoch(7), stance, until_ms: 1_763_000_000_000, who: "host:42".to_owned() };
            assert_eq!(lease.to_string().parse(), Ok(lease));
        }
        for phase in [Phase::Prepare, Phase::Hold] {
            let announcement = Announcement { attempt, phase, to: Epoch(8) };
            assert_eq!(announcement.to_string().parse(), Ok(announcement));
        }
        assert_eq!(
            Lease { epoch: Epoch(7), stance: Stance::Held(attempt), until_ms: 5, who: "a".to_owned() }.to_string(),
            "7 held 9f3a 2 5 a"
        );
        for text in ["", "7", "7 using", "x using 0 0 5 a", "7 sleeping 0 0 5 a", "7 using 0 0 soon a"] {
            assert_eq!(text.parse::<Lease>(), Err(()), "{text}");
        }
    }
}
