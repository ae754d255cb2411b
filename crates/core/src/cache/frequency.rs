//! How often keys are asked for, about, in a few bytes a key and none in the server.
//!
//! A count-min sketch (Cormode and Muthukrishnan, 2005) as TinyLFU has it (Einziger, Friedman and Manes, 2017), with
//! three changes. A key's four counters lie in one cache line, so that a request costs one miss. Counters have 8 bits: what
//! is at the border between staying and leaving was asked for some ten times since it was last aged, and 4 bits would be
//! full there. And it ages a line at a time, with every so many requests, so that no request waits for a walk over all.
//!
//! Threads share it without locks. Two that count at the same moment may lose a count: it is an estimate anyhow.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::KeyHash;

/// Words of eight counters to a line, which is one of a cache's.
const WORDS: usize = 8;
/// Counters of a line, in bytes.
const LINE_BYTES: usize = WORDS * 8;
/// Each of a key's counters lies among so many of its line.
const ROW: usize = 16;
const ROWS: usize = 4;

/// A sketch has at least so many lines: a cache may be full before its keys are counted.
const LEAST_LINES: usize = 1 << 8;
/// The first segment has so many.
const FIRST_LINES: usize = 1 << 4;
/// They may double so often.
const DOUBLINGS: usize = 28;

/// Counters to a key that is held, of a byte each, at least, and at most twice as many. With fewer, keys that are asked for once
/// look like others too often; more take what they find.
const COUNTERS_PER_KEY: usize = 4;

/// A line has been aged once when so many requests came for each key that is held.
const AGED_AFTER: u64 = 80;

/// Half of eight counters at once.
const HALVES: u64 = 0x7f7f_7f7f_7f7f_7f7f;

#[derive(Debug, Default)]
struct Line([AtomicU64; WORDS]);

/// Estimates of how often each key was asked for lately.
#[derive(Debug)]
pub struct Frequency {
    /// Each but the first has as many lines as all before it.
    segments: Box<[OnceLock<Box<[Line]>>]>,
    /// How many lines are in use: a power of two.
    lines: AtomicUsize,
    most_lines: usize,
    /// Requests to the next line that is aged.
    step: AtomicU64,
    noted: AtomicU64,
    /// So many requests have come when the next line is aged.
    aged_at: AtomicU64,
    /// The line that is aged next.
    hand: AtomicUsize,
}

impl Frequency {
    /// An empty one that never takes more than about so many bytes, and few at first.
    pub fn new(most_bytes: u64) -> Self {
        let least = u64::try_from(LEAST_LINES * LINE_BYTES).unwrap_or(u64::MAX);
        let frequency = Self::of_sample(most_bytes.max(least));
        frequency.grow(LEAST_LINES);
        frequency
    }

    /// The same for a sample of a cache's keys: it has no more counters to a key than that of all of them.
    pub fn of_sample(most_bytes: u64) -> Self {
        let most = usize::try_from(most_bytes).unwrap_or(usize::MAX) / LINE_BYTES;
        let doublings = most.checked_ilog2().unwrap_or(0).saturating_sub(FIRST_LINES.ilog2());
        let doublings = usize::try_from(doublings).unwrap_or(DOUBLINGS).min(DOUBLINGS);
        let frequency = Self {
            segments: (0..=doublings).map(|_| OnceLock::new()).collect(),
            lines: AtomicUsize::new(FIRST_LINES),
            most_lines: FIRST_LINES << doublings,
            step: AtomicU64::new(u64::MAX),
            noted: AtomicU64::new(0),
            aged_at: AtomicU64::new(u64::MAX),
            hand: AtomicUsize::new(0),
        };
        frequency.segment(0);
        frequency
    }

    /// What it takes now, in bytes.
    pub fn bytes(&self) -> usize {
        self.lines.load(Ordering::Relaxed) * LINE_BYTES
    }

    /// Goes by a cache that holds so many keys: grows where there are more than it has room for, and ages at their pace.
    /// For one thread at a time.
    pub fn follow_keys(&self, keys: u64) {
        let wanted = usize::try_from(keys).unwrap_or(usize::MAX).saturating_mul(COUNTERS_PER_KEY) / LINE_BYTES;
        let lines = self.grow(wanted);
        let step = (keys.max(1).saturating_mul(AGED_AFTER) / lines as u64).max(1);
        if self.step.swap(step, Ordering::Relaxed) == u64::MAX {
            self.aged_at.store(self.noted.load(Ordering::Relaxed).saturating_add(step), Ordering::Relaxed);
        }
    }

    /// Has at least so many lines from now on, as far as it may; how many it has.
    fn grow(&self, wanted: usize) -> usize {
        let mut lines = self.lines.load(Ordering::Relaxed);
        while lines < wanted && lines < self.most_lines {
            self.double(lines);
            lines *= 2;
        }
        lines
    }

    /// Each key's line comes to stand in the new half too, where half of them look for it from then on.
    fn double(&self, lines: usize) {
        let added = self.segment(lines.ilog2() as usize + 1 - FIRST_LINES.ilog2() as usize);
        for (at, new) in added.iter().enumerate() {
            let old = self.line(at);
            for (new, old) in new.0.iter().zip(&old.0) {
                new.store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
        self.lines.store(lines * 2, Ordering::Release);
    }

    fn segment(&self, number: usize) -> &[Line] {
        self.segments[number].get_or_init(|| {
            let lines = if number == 0 { FIRST_LINES } else { FIRST_LINES << (number - 1) };
            std::iter::repeat_with(Line::default).take(lines).collect()
        })
    }

    #[inline]
    fn line(&self, at: usize) -> &Line {
        match (at / FIRST_LINES).checked_ilog2() {
            None => &self.segment(0)[at],
            Some(doubling) => &self.segment(doubling as usize + 1)[at - (FIRST_LINES << doubling)],
        }
    }

    #[inline]
    fn line_of(&self, key: KeyHash) -> &Line {
        // The upper half of a hash says which line, the lower which counters there.
        let lines = self.lines.load(Ordering::Acquire);
        let high = usize::try_from(key.0 >> 32).unwrap_or(0);
        self.line(high & (lines - 1))
    }

    /// Where the key's counters are in its line: the word, and the byte there.
    #[inline]
    fn counters(key: KeyHash) -> [(usize, usize); ROWS] {
        // The lowest bit is the same in all.
        let bytes = (key.0 >> 1).to_le_bytes();
        std::array::from_fn(|row| {
            let at = usize::from(bytes[row / 2] >> (row % 2 * 4)) % ROW;
            (row * 2 + at / 8, at % 8)
        })
    }

    /// About how often the key was asked for lately, 255 at most.
    #[inline]
    pub fn of(&self, key: KeyHash) -> u8 {
        let line = self.line_of(key);
        let read = |(word, byte): (usize, usize)| line.0[word].load(Ordering::Relaxed).to_le_bytes()[byte];
        Self::counters(key).into_iter().map(read).min().unwrap_or(0)
    }

    /// Counts that the key was asked for.
    #[inline]
    pub fn note(&self, key: KeyHash) {
        let (line, counters) = (self.line_of(key), Self::counters(key));
        let words = counters.map(|(word, _)| line.0[word].load(Ordering::Relaxed));
        let counts: [u8; ROWS] = std::array::from_fn(|row| words[row].to_le_bytes()[counters[row].1]);
        let least = counts.into_iter().min().unwrap_or(0);
        if least < u8::MAX {
            // Only the lowest are raised: those above count others too. No two are in one word.
            for row in 0..ROWS {
                if counts[row] == least {
                    let (word, byte) = counters[row];
                    line.0[word].store(words[row] + (1 << (byte * 8)), Ordering::Relaxed);
                }
            }
        }
        // Where two threads come to it at once, two lines are aged.
        if self.noted.fetch_add(1, Ordering::Relaxed) >= self.aged_at.load(Ordering::Relaxed) {
            self.age();
        }
    }

    /// All counters, a line after the other.
    pub(super) fn counters_saved(&self) -> Vec<u8> {
        let lines = self.lines.load(Ordering::Acquire);
        let words = (0..lines).flat_map(|at| &self.line(at).0);
        words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect()
    }

    /// Raises counters to these, which were of as many lines or of another power of two.
    pub(super) fn raise_to(&self, counters: &[u8]) {
        let lines = self.lines.load(Ordering::Acquire);
        let saved: Vec<&[u8]> = counters.chunks_exact(LINE_BYTES).collect();
        if saved.is_empty() {
            return;
        }
        for at in 0..lines.max(saved.len()) {
            let words = self.line(at & (lines - 1)).0.iter();
            for (word, eight) in words.zip(saved[at & (saved.len() - 1)].chunks_exact(8)) {
                let mut own = word.load(Ordering::Relaxed).to_le_bytes();
                own.iter_mut().zip(eight).for_each(|(own, saved)| *own = (*own).max(*saved));
                word.store(u64::from_le_bytes(own), Ordering::Relaxed);
            }
        }
    }

    /// Halves the counters of the next line.
    #[cold]
    fn age(&self) {
        let next = self.noted.load(Ordering::Relaxed).saturating_add(self.step.load(Ordering::Relaxed));
        self.aged_at.store(next, Ordering::Relaxed);
        let at = self.hand.fetch_add(1, Ordering::Relaxed) & (self.lines.load(Ordering::Acquire) - 1);
        for word in &self.line(at).0 {
            word.store(word.load(Ordering::Relaxed) >> 1 & HALVES, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> KeyHash {
        KeyHash::of(format!("key:{number}").as_bytes())
    }

    #[test]
    fn it_counts_up_to_what_a_counter_holds() {
        let frequency = Frequency::new(1 << 20);
        assert_eq!(frequency.of(key(1)), 0);
        (0..300).for_each(|_| frequency.note(key(1)));
        frequency.note(key(2));
        assert_eq!([1, 2, 3].map(|number| frequency.of(key(number))), [255, 1, 0]);
    }

    #[test]
    fn estimates_are_never_below_and_rarely_above_what_was_asked() {
        let frequency = Frequency::new(1 << 24);
        let keys = 100_000;
        frequency.follow_keys(keys);
        let asked = |number: u64| number % 10 + 1;
        frequency.aged_at.store(u64::MAX, Ordering::Relaxed);
        (0..keys).for_each(|number| (0..asked(number)).for_each(|_| frequency.note(key(number))));
        let estimates: Vec<_> = (0..keys).map(|number| (u64::from(frequency.of(key(number))), asked(number))).collect();
        assert!(estimates.iter().all(|(estimate, asked)| estimate >= asked));
        let above = estimates.iter().filter(|(estimate, asked)| estimate > asked).count();
        assert!(above < 5_000, "{above} of {keys}");
        let strangers = (keys..2 * keys).filter(|number| frequency.of(key(*number)) > 2).count();
        assert!(strangers < 10_000, "{strangers}");
    }

    #[test]
    fn what_is_no_more_asked_for_is_forgotten() {
        let frequency = Frequency::new(1 << 20);
        frequency.follow_keys(100);
        (0..100).for_each(|_| frequency.note(key(0)));
        assert_eq!(frequency.of(key(0)), 100);
        // 80 requests a key are one round over all lines.
        (0..100 * AGED_AFTER).for_each(|at| frequency.note(key(1 + at % 99)));
        assert!((45..=60).contains(&frequency.of(key(0))), "{}", frequency.of(key(0)));
        (0..700 * AGED_AFTER).for_each(|at| frequency.note(key(1 + at % 99)));
        assert!(frequency.of(key(0)) <= 1, "{}", frequency.of(key(0)));
        assert!(frequency.of(key(1)) > 60);
    }

    #[test]
    fn it_grows_with_the_keys_and_forgets_nothing() {
        let frequency = Frequency::new(1 << 20);
        let small = frequency.bytes();
        (0..9).for_each(|_| frequency.note(key(7)));
        frequency.follow_keys(10_000);
        assert_eq!((frequency.of(key(7)), small, frequency.bytes()), (9, LEAST_LINES * 64, 64 * 1024));
        frequency.follow_keys(1_000_000_000);
        assert_eq!((frequency.of(key(7)), frequency.bytes()), (9, 1 << 20), "never more than it may");
        frequency.follow_keys(1);
        assert_eq!(frequency.bytes(), 1 << 20, "what is there stays");
    }
}
