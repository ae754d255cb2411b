//! The counters of keys, saved in the server: a keyfold that is started anew, or takes over evicting, knows what was asked for.
//!
//! They take a small part of the memory that the cache may take. Where that is enough, each counter is saved in four bits.
//! Where it isn't, one bit says whether a counter is among the highest of
//! all, and lines are laid over each other until they
//! fit: then what is asked for most is known, and little else.

use super::Frequency;
use crate::admin::FREQUENCY_KEY;
use crate::resp::{Reply, write_command};

/// Of the memory that a cache may take such a part may be these, and at least so many bytes.
const PART: u64 = 200;
const LEAST_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 16 << 20;

/// They are written and read so many bytes at a time, so that the server serves others in between.
const PIECE_BYTES: usize = 32 << 10;

/// Of so many counters one is among the highest: few enough that, laid over each other, not all look so.
const HIGHEST: usize = 64;

/// The version of what is saved.
const VERSION: u8 = 1;

/// What is saved of a sketch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// How many keys the cache held, about.
    pub keys: u64,
    /// How many bits a counter has.
    bits: u8,
    /// What a counter stands for where it has one bit.
    border: u8,
    bytes: Vec<u8>,
}

/// The most that each of 16 numbers stands for.
const STEPS: [u8; 16] = [0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 90, 128, 255];

impl Saved {
    /// Of a cache that holds so many keys and may take so many bytes.
    pub fn of(frequency: &Frequency, keys: u64, mark: u64) -> Self {
        let room = usize::try_from((mark / PART).clamp(LEAST_BYTES, MOST_BYTES)).unwrap_or(usize::MAX);
        let counters = frequency.counters_saved();
        if counters.len() / 2 <= room {
            let step = |counter: u8| {
                (0..).zip(STEPS).take_while(|(_, step)| *step <= counter).last().map_or(0, |(nth, _)| nth)
            };
            let bytes: Vec<u8> = counters.chunks_exact(2).map(|pair| step(pair[0]) | step(pair[1]) << 4).collect();
            return Self { keys, bits: 4, border: 0, bytes };
        }
        let border = highest_few(&counters);
        let mut bytes: Vec<u8> = counters
            .chunks_exact(8)
            .map(|eight| (0..8).fold(0, |bits, at| bits | u8::from(eight[at] >= border) << at))
            .collect();
        while bytes.len() > room {
            let upper = bytes.split_off(bytes.len() / 2);
            bytes.iter_mut().zip(upper).for_each(|(lower, upper)| *lower |= upper);
        }
        Self { keys, bits: 1, border, bytes }
    }

    /// Adds them to what is counted already.
    pub fn add_to(&self, frequency: &Frequency) {
        frequency.follow_keys(self.keys);
        let counters: Vec<u8> = match self.bits {
            4 => self.bytes.iter().flat_map(|two| [two & 15, two >> 4].map(|step| STEPS[usize::from(step)])).collect(),
            _ => {
                let eight = |bits: &u8| {
                    let bits = *bits;
                    (0..8).map(move |at| if bits >> at & 1 == 1 { self.border } else { 0 })
                };
                self.bytes.iter().flat_map(eight).collect()
            }
        };
        frequency.raise_to(&counters);
    }

    /// The commands that save them, one for each of which another may be served; each has one reply.
    pub fn write(&self) -> Vec<Vec<u8>> {
        let Self { keys, bits, border, bytes } = self;
        let head = format!("{VERSION} {keys} {bits} {border} {}", bytes.len());
        let mut commands = vec![Vec::new()];
        write_command(&mut commands[0], &[b"HSET", FREQUENCY_KEY, b"head", head.as_bytes()]);
        for (number, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            let mut command = Vec::new();
            write_command(&mut command, &[b"HSET", FREQUENCY_KEY, number.to_string().as_bytes(), piece]);
            commands.push(command);
        }
        commands
    }

    /// Asks for the head, or for a piece; it has one reply.
    pub fn ask(piece: Option<usize>, wire: &mut Vec<u8>) {
        let field = piece.map_or_else(|| "head".to_owned(), |piece| piece.to_string());
        write_command(wire, &[b"HGET", FREQUENCY_KEY, field.as_bytes()]);
    }

    /// Begins to read, by the reply with the head; none where nothing is saved, or by another version.
    pub fn begin(reply: &[u8]) -> Option<Reading> {
        let head = Reply::parse(reply).ok().and_then(Reply::bytes)?;
        let head = std::str::from_utf8(head).ok()?;
        let mut numbers = head.split(' ').map(str::parse::<u64>);
        let mut next = || numbers.next()?.ok();
        let (version, keys, bits, border, len) = (next()?, next()?, next()?, next()?, next()?);
        let (bits, border) = (u8::try_from(bits).ok()?, u8::try_from(border).ok()?);
        let len = usize::try_from(len).ok()?;
        let is_known = version == u64::from(VERSION) && matches!(bits, 1 | 4);
        let fits = len.is_power_of_two() && len as u64 <= MOST_BYTES.max(LEAST_BYTES);
        (is_known && fits).then(|| Reading { saved: Self { keys, bits, border, bytes: Vec::new() }, len })
    }
}

/// What is read of them so far.
#[derive(Debug)]
pub struct Reading {
    saved: Saved,
    len: usize,
}

impl Reading {
    /// The piece that is wanted next; none where all is there.
    pub fn wanted(&self) -> Option<usize> {
        (self.saved.bytes.len() < self.len).then_some(self.saved.bytes.len() / PIECE_BYTES)
    }

    /// Takes the reply with it; whether it was one.
    pub fn take(&mut self, reply: &[u8]) -> bool {
        let Some(piece) = Reply::parse(reply).ok().and_then(Reply::bytes) else { return false };
        let left = self.len - self.saved.bytes.len();
        let fits = piece.len() == left.min(PIECE_BYTES);
        if fits {
            self.saved.bytes.extend_from_slice(piece);
        }
        fits
    }

    /// All of it.
    pub fn end(self) -> Saved {
        self.saved
    }
}

/// From where on about the highest of `HIGHEST` counters each is; at least 1.
fn highest_few(counters: &[u8]) -> u8 {
    let mut each = [0_usize; 256];
    counters.iter().for_each(|counter| each[usize::from(*counter)] += 1);
    let mut above = 0;
    for value in (1..=u8::MAX).rev() {
        above += each[usize::from(value)];
        if above > counters.len() / HIGHEST {
            return value;
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::super::KeyHash;
    use super::*;

    fn key(number: u64) -> KeyHash {
        KeyHash::of(format!("key:{number}").as_bytes())
    }

    fn counted(keys: u64) -> Frequency {
        let frequency = Frequency::new(1 << 26);
        frequency.follow_keys(keys);
        (0..keys)
            .for_each(|number| (0..if number % 20 == 0 { 40 } else { 1 }).for_each(|_| frequency.note(key(number))));
        frequency
    }

    /// Through the commands and replies of a server.
    fn through_a_server(saved: &Saved) -> Saved {
        let stored: Vec<Vec<u8>> = saved
            .write()
            .iter()
            .map(|command| match Reply::parse(command).unwrap() {
                Reply::Array(mut args) => args.nth(3).unwrap().bytes().unwrap().to_vec(),
                other => panic!("{other:?}"),
            })
            .collect();
        let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        let mut reading = Saved::begin(&bulk(&stored[0])).unwrap();
        while let Some(piece) = reading.wanted() {
            assert!(reading.take(&bulk(&stored[piece + 1])));
        }
        reading.end()
    }

    #[test]
    fn where_there_is_room_all_is_known_again() {
        let (before, after) = (counted(10_000), Frequency::new(1 << 26));
        let saved = Saved::of(&before, 10_000, 1 << 30);
        assert_eq!(saved.bits, 4);
        assert_eq!(through_a_server(&saved), saved);
        saved.add_to(&after);
        let near = |number: &u64| {
            let [before, after] = [before.of(key(*number)), after.of(key(*number))];
            after <= before && f64::from(after) >= f64::from(before) * 0.7
        };
        assert!((0..10_000).all(|number| near(&number)));
    }

    #[test]
    fn where_there_is_little_what_is_asked_for_most_is_known_again() {
        let (before, after) = (counted(200_000), Frequency::new(1 << 26));
        let saved = Saved::of(&before, 200_000, 16 << 20);
        assert_eq!((saved.bits, saved.bytes.len()), (1, 64 << 10));
        through_a_server(&saved).add_to(&after);
        let known = |numbers: &mut dyn Iterator<Item = u64>| {
            let (mut all, mut known) = (0, 0);
            for number in numbers {
                all += 1;
                known += u32::from(after.of(key(number)) > 10);
            }
            f64::from(known) / f64::from(all)
        };
        let (hot, cold) = (known(&mut (0..200_000).step_by(20)), known(&mut (1..200_000).step_by(20)));
        assert!(hot > 0.95 && cold < 0.2, "{hot} {cold}");
    }

    #[test]
    fn what_is_not_as_it_was_saved_is_left_alone() {
        for head in ["", "2 1 4 0 64", "1 1 3 0 64", "1 1 4 0 65", "1 1 4 0 1073741824", "1 1 4", "1 1 4 300 64", "x"] {
            assert!(Saved::begin(format!("${}\r\n{head}\r\n", head.len()).as_bytes()).is_none(), "{head}");
        }
        assert!(Saved::begin(b"$-1\r\n").is_none() && Saved::begin(b"-WRONGTYPE\r\n").is_none());
        let mut reading = Saved::begin(b"$10\r\n1 1 4 0 64\r\n").unwrap();
        assert!(!reading.take(b"$-1\r\n") && !reading.take(b"$1\r\nx\r\n"));
        assert_eq!(reading.wanted(), Some(0));
    }
}
