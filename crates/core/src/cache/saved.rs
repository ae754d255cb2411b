//! The counters of keys, saved in the server: a keyfold that is started anew, or takes over evicting, knows what was asked for.
//!
//! They take a small part of the memory that the cache may take. Where not all fit, those that were asked for most are saved.
//!
//! ```text
//! for each line:  how many keys | their fingerprints, of two bytes | their counts, two to a byte
//! ```

use super::Frequency;
use super::frequency::Known;
use crate::admin::FREQUENCY_KEY;
use crate::resp::{Reply, write_command};

/// Of the memory that a cache may take such a part may be these, and at least so many bytes.
const PART: u64 = 200;
const LEAST_BYTES: u64 = 64 << 10;
const MOST_BYTES: u64 = 16 << 20;

/// They are written and read so many bytes at a time, so that the server serves others in between.
const PIECE_BYTES: usize = 32 << 10;

/// More lines nobody has.
const MOST_LINES: u64 = 1 << 32;

/// The version of what is saved.
const VERSION: u8 = 1;

/// What is saved of the counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// How many keys the cache held, about.
    pub keys: u64,
    /// How many lines the counters had. The last may be missing.
    lines: usize,
    bytes: Vec<u8>,
}

/// What each of 16 numbers stands for, at least.
const STEPS: [u8; 16] = [0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 90, 128, 255];

/// The number that stands for a count.
fn step(count: u8) -> u8 {
    (0..).zip(STEPS).take_while(|(_, step)| *step <= count).last().map_or(0, |(nth, _)| nth)
}

impl Saved {
    /// Of a cache that holds so many keys and may take so many bytes.
    pub fn of(frequency: &Frequency, keys: u64, mark: u64) -> Self {
        let room = usize::try_from((mark / PART).clamp(LEAST_BYTES, MOST_BYTES)).unwrap_or(usize::MAX);
        let lines = frequency.lines();
        let border = least_that_fits(frequency, room);
        let mut bytes = Vec::new();
        for line in 0..lines {
            let known: Vec<Known> = frequency.known(line).filter(|known| known.count >= border).collect();
            let taken = 1 + known.len() * 2 + known.len().div_ceil(2);
            if bytes.len() + taken > room {
                break;
            }
            bytes.push(u8::try_from(known.len()).unwrap_or(0));
            bytes.extend(known.iter().flat_map(|known| known.fingerprint.to_le_bytes()));
            bytes.extend(
                known.chunks(2).map(|two| step(two[0].count) | two.get(1).map_or(0, |other| step(other.count)) << 4),
            );
        }
        Self { keys, lines, bytes }
    }

    /// Adds them to what is counted already.
    pub fn add_to(&self, frequency: &Frequency) {
        frequency.follow_keys(self.keys);
        let (mut known, mut ends) = (Vec::new(), Vec::new());
        let mut rest = self.bytes.as_slice();
        while let Some((&count, behind)) = rest.split_first() {
            let count = usize::from(count);
            let Some((fingerprints, behind)) = behind.split_at_checked(count * 2) else { break };
            let Some((counts, behind)) = behind.split_at_checked(count.div_ceil(2)) else { break };
            let counts = counts.iter().flat_map(|two| [two & 15, two >> 4].map(|step| STEPS[usize::from(step)]));
            let fingerprints = fingerprints.as_chunks().0.iter().map(|two| u16::from_le_bytes(*two));
            known.extend(fingerprints.zip(counts).map(|(fingerprint, count)| Known { fingerprint, count }));
            ends.push(known.len());
            rest = behind;
        }
        let of_line = |line: usize| {
            let Some(&end) = ends.get(line) else { return &[][..] };
            &known[line.checked_sub(1).map_or(0, |before| ends[before])..end]
        };
        frequency.raise_to(self.lines, of_line);
    }

    /// The commands that save them, one for each of which another may be served; each has one reply.
    pub fn write(&self) -> Vec<Vec<u8>> {
        let Self { keys, lines, bytes } = self;
        let head = format!("{VERSION} {keys} {lines} {}", bytes.len());
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
        let numbers: Vec<u64> = head.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [version, keys, lines, len] = numbers[..] else { return None };
        let is_known = version == u64::from(VERSION) && lines > 0;
        // A line takes a byte at least, and of a cache of many lines all are saved that fit.
        let fits = len <= MOST_BYTES && lines <= MOST_LINES;
        let (lines, len) = (usize::try_from(lines).ok()?, usize::try_from(len).ok()?);
        (is_known && fits).then(|| Reading { saved: Self { keys, lines, bytes: Vec::new() }, len })
    }
}

/// The lowest count of which all that are as high or higher fit into so many bytes.
fn least_that_fits(frequency: &Frequency, room: usize) -> u8 {
    let mut each = [0_usize; 256];
    for line in 0..frequency.lines() {
        frequency.known(line).for_each(|known| each[usize::from(known.count)] += 1);
    }
    // Of a line's keys an odd one takes half a byte more.
    let mut left = room.saturating_sub(frequency.lines() * 3 / 2) * 2 / 5;
    for count in (1..=u8::MAX).rev() {
        let Some(rest) = left.checked_sub(each[usize::from(count)]) else { return count.saturating_add(1) };
        left = rest;
    }
    1
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
        assert!((48 << 10..=64 << 10).contains(&saved.bytes.len()), "{}", saved.bytes.len());
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
        for head in
            ["", "2 1 16 64", "1 1 0 64", "1 1 16 1073741824", "1 1 1099511627776 64", "1 1 16", "1 1 16 64 0", "x"]
        {
            assert!(Saved::begin(format!("${}\r\n{head}\r\n", head.len()).as_bytes()).is_none(), "{head}");
        }
        assert!(Saved::begin(b"$-1\r\n").is_none() && Saved::begin(b"-WRONGTYPE\r\n").is_none());
        let mut reading = Saved::begin(b"$9\r\n1 1 16 64\r\n").unwrap();
        assert!(!reading.take(b"$-1\r\n") && !reading.take(b"$1\r\nx\r\n"));
        assert_eq!(reading.wanted(), Some(0));
    }
}
