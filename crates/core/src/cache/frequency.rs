//! How often keys are asked for, about, in a few bytes a key and none in the server.
//!
//! A table of fingerprints with counters, of which a key that comes anew takes the place of the one asked for least only by
//! chance: the oftener that one was asked for, the rarer (Ben Basat, Chen, Einziger, Friedman and Kassner, *Randomized
//! admission policy for efficient top-k, frequency, and volume estimation*, 2019). So those asked for once, of which a cache
//! sees the most, leave the others' counts as they are; a sketch of as many bytes adds them to all. A key's entry lies in
//! one line of the processor's cache, so that a request costs one miss. And it ages a line at a time, with every so many requests, so
//! that no request waits for a walk over all.
//!
//! Threads share it without locks. Two that count at the same moment may lose a count or an entry: it is an estimate anyhow.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::KeyHash;

/// Words to a line, which is one of a processor's cache: those of fingerprints, then those of counters.
const WORDS: usize = 8;
const FINGERPRINTS: usize = 5;
const LINE_BYTES: usize = WORDS * 8;
/// Keys that a line knows at most, of 16 bits and a counter of 8 each.
const ENTRIES: usize = FINGERPRINTS * 4;

/// One has at least so many lines: a cache may be full before its keys are counted.
const LEAST_LINES: usize = 1 << 8;
/// The first segment has so many. It doubles in steps of a quarter.
const FIRST_LINES: usize = 1 << 4;
const STEPS: usize = 4;
/// It may double so often.
const DOUBLINGS: usize = 28;

/// Keys that are held to a line, at most: the rest is for those that were there and may come again, and for lines that more
/// keys fall to by chance.
const KEYS_PER_LINE: usize = 14;

/// A line has been aged once when so many requests came for each key that is held.
const AGED_AFTER: u64 = 80;

/// Half of eight counters at once.
const HALVES: u64 = 0x7f7f_7f7f_7f7f_7f7f;
/// One in each of a word's fingerprints, and the highest bit of each.
const ONES: u64 = 0x0001_0001_0001_0001;
const HIGHEST: u64 = 0x8000_8000_8000_8000;

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) fingerprint: u16,
    pub(super) count: u8,
}

#[derive(Debug, Default)]
struct Line([AtomicU64; WORDS]);

impl Line {
    /// Where the key of this fingerprint is.
    #[inline]
    fn find(&self, fingerprint: u16) -> Option<usize> {
        let wanted = u64::from(fingerprint) * ONES;
        (0..FINGERPRINTS).find_map(|word| {
            let differs = self.word(word) ^ wanted;
            // The lowest that has no bit is found surely, whatever is above it.
            let same = differs.wrapping_sub(ONES) & !differs & HIGHEST;
            (same != 0).then(|| word * 4 + same.trailing_zeros() as usize / 16)
        })
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.0[at].load(Ordering::Relaxed)
    }

    #[inline]
    fn count(&self, entry: usize) -> u8 {
        self.word(FINGERPRINTS + entry / 8).to_le_bytes()[entry % 8]
    }

    #[inline]
    fn set_count(&self, entry: usize, count: u8) {
        let at = FINGERPRINTS + entry / 8;
        let mut counts = self.word(at).to_le_bytes();
        counts[entry % 8] = count;
        self.0[at].store(u64::from_le_bytes(counts), Ordering::Relaxed);
    }

    fn fingerprint(&self, entry: usize) -> u16 {
        #[expect(clippy::cast_possible_truncation, reason = "one of four in a word")]
        let fingerprint = (self.word(entry / 4) >> (entry % 4 * 16)) as u16;
        fingerprint
    }

    fn set(&self, entry: usize, fingerprint: u16, count: u8) {
        let (at, shift) = (entry / 4, entry % 4 * 16);
        let others = self.word(at) & !(0xffff << shift);
        self.0[at].store(others | u64::from(fingerprint) << shift, Ordering::Relaxed);
        self.set_count(entry, count);
    }

    /// The one that was asked for least, and how often: never where an entry is free.
    fn least(&self) -> (usize, u8) {
        (0..ENTRIES).map(|entry| (entry, self.count(entry))).min_by_key(|(_, count)| *count).unwrap_or((0, 0))
    }

    /// Knows of this key that it was asked for so often at least, where there is room for it.
    fn raise_to(&self, Known { fingerprint, count }: Known) {
        let entry = self.find(fingerprint).unwrap_or_else(|| self.least().0);
        if count > self.count(entry) {
            self.set(entry, fingerprint, count);
        }
    }

    fn halve(&self) {
        for word in &self.0[FINGERPRINTS..] {
            word.store(word.load(Ordering::Relaxed) >> 1 & HALVES, Ordering::Relaxed);
        }
    }

    fn copy(&self, other: &Self) {
        for (own, other) in self.0.iter().zip(&other.0) {
            own.store(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// Of so many lines, which one has the keys of this number (Litwin's linear hashing, 1980).
#[inline]
fn among(lines: usize, number: usize) -> usize {
    let all = lines.next_power_of_two();
    let at = number & (all - 1);
    if at < lines { at } else { at - all / 2 }
}

/// Estimates of how often each key was asked for lately.
#[derive(Debug)]
pub struct Frequency {
    /// The first, and a few for each time that it doubles.
    segments: Box<[OnceLock<Box<[Line]>>]>,
    /// How many lines are in use.
    lines: AtomicUsize,
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

    /// The same for a sample of a cache's keys: it has no more room to a key than that of all of them.
    pub fn of_sample(most_bytes: u64) -> Self {
        let most = usize::try_from(most_bytes).unwrap_or(usize::MAX) / LINE_BYTES;
        let within = |segment: &usize| Self::lines_until(*segment) <= most;
        let segments = 1 + (1..=DOUBLINGS * STEPS).take_while(within).count();
        let frequency = Self {
            segments: std::iter::repeat_with(OnceLock::new).take(segments).collect(),
            lines: AtomicUsize::new(FIRST_LINES),
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
        let lines = self.grow(usize::try_from(keys).unwrap_or(usize::MAX) / KEYS_PER_LINE);
        let step = (keys.max(1).saturating_mul(AGED_AFTER) / lines as u64).max(1);
        if self.step.swap(step, Ordering::Relaxed) == u64::MAX {
            self.aged_at.store(self.noted.load(Ordering::Relaxed).saturating_add(step), Ordering::Relaxed);
        }
    }

    /// Has at least so many lines from now on, as far as it may; how many it has.
    fn grow(&self, wanted: usize) -> usize {
        let mut lines = self.lines.load(Ordering::Relaxed);
        while lines < wanted {
            let (segment, _) = Self::place(lines);
            let Some(more) = self.segments.get(segment).map(|_| self.segment(segment)) else { break };
            // Of a line's keys some are looked for in the new one from then on; they are in both.
            let half = 1 << lines.ilog2();
            more.iter().zip(lines - half..).for_each(|(line, at)| line.copy(self.line(at)));
            lines += more.len();
            self.lines.store(lines, Ordering::Release);
        }
        lines
    }

    /// How many lines there are with all segments up to this one.
    const fn lines_until(segment: usize) -> usize {
        if segment == 0 {
            return FIRST_LINES;
        }
        let before = FIRST_LINES << ((segment - 1) / STEPS);
        before + before / STEPS * ((segment - 1) % STEPS + 1)
    }

    /// In which segment a line is, and where there.
    #[inline]
    fn place(at: usize) -> (usize, usize) {
        let Some(doubling) = (at / FIRST_LINES).checked_ilog2() else { return (0, at) };
        let shift = doubling + (FIRST_LINES / STEPS).ilog2();
        let above = at - (FIRST_LINES << doubling);
        (1 + doubling as usize * STEPS + (above >> shift), above & ((1 << shift) - 1))
    }

    fn segment(&self, number: usize) -> &[Line] {
        self.segments[number].get_or_init(|| {
            let before = if number == 0 { 0 } else { Self::lines_until(number - 1) };
            std::iter::repeat_with(Line::default).take(Self::lines_until(number) - before).collect()
        })
    }

    #[inline]
    fn line(&self, at: usize) -> &Line {
        let (segment, at) = Self::place(at);
        &self.segment(segment)[at]
    }

    /// Where a key is looked for, and as what. The upper half of a hash says which line; the lowest bits are the same in
    /// all.
    #[inline]
    fn entry(&self, key: KeyHash) -> (&Line, u16) {
        let high = usize::try_from(key.0 >> 32).unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, reason = "a part of it")]
        let fingerprint = (key.0 >> 2) as u16;
        (self.line(among(self.lines.load(Ordering::Acquire), high)), fingerprint)
    }

    /// About how often the key was asked for lately, 255 at most.
    #[inline]
    pub fn of(&self, key: KeyHash) -> u8 {
        let (line, fingerprint) = self.entry(key);
        line.find(fingerprint).map_or(0, |entry| line.count(entry))
    }

    /// Counts that the key was asked for.
    #[inline]
    pub fn note(&self, key: KeyHash) {
        let (line, fingerprint) = self.entry(key);
        let noted = self.noted.load(Ordering::Relaxed);
        match line.find(fingerprint) {
            Some(entry) => line.set_count(entry, line.count(entry).saturating_add(1)),
            None => {
                let (entry, count) = line.least();
                // By chance, as the requests so far are as good as any.
                let draw = (key.0 ^ noted).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                if draw * (u64::from(count) + 1) < 1 << 32 {
                    line.set(entry, fingerprint, count.saturating_add(1));
                }
            }
        }
        // Where two threads come to it at once, one may be lost, or two lines are aged.
        self.noted.store(noted + 1, Ordering::Relaxed);
        if noted >= self.aged_at.load(Ordering::Relaxed) {
            self.age();
        }
    }

    /// A key's count is about its requests while each key that is held was asked for so often, on the mean: those since its line
    /// was aged, half a period's, and those of a whole one that halving has left.
    pub(super) const COUNTED: f64 = AGED_AFTER as f64 * 1.5;

    /// Requests that were counted.
    pub(super) fn noted(&self) -> u64 {
        self.noted.load(Ordering::Relaxed)
    }

    /// How many lines there are.
    pub(super) fn lines(&self) -> usize {
        self.lines.load(Ordering::Acquire)
    }

    /// What is known of the keys of a line.
    pub(super) fn known(&self, line: usize) -> impl Iterator<Item = Known> + '_ {
        let line = self.line(line);
        let known = |entry| Known { fingerprint: line.fingerprint(entry), count: line.count(entry) };
        (0..ENTRIES).map(known).filter(|known| known.count > 0)
    }

    /// Raises counters to what was known of so many lines, be they more or fewer.
    pub(super) fn raise_to<'k>(&self, lines: usize, known: impl Fn(usize) -> &'k [Known]) {
        let own = self.lines();
        for at in 0..own.max(lines) {
            let line = self.line(among(own, at));
            known(among(lines, at)).iter().for_each(|one| line.raise_to(*one));
        }
    }

    /// Halves the counters of the next line.
    #[cold]
    fn age(&self) {
        let next = self.noted.load(Ordering::Relaxed).saturating_add(self.step.load(Ordering::Relaxed));
        self.aged_at.store(next, Ordering::Relaxed);
        let at = self.hand.fetch_add(1, Ordering::Relaxed) % self.lines.load(Ordering::Acquire);
        self.line(at).halve();
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
    fn keys_that_are_held_are_counted_and_strangers_are_not() {
        let frequency = Frequency::new(1 << 24);
        let keys = 100_000;
        frequency.follow_keys(keys);
        let asked = |number: u64| number % 10 + 1;
        frequency.aged_at.store(u64::MAX, Ordering::Relaxed);
        for round in 0..10 {
            (0..keys).filter(|number| asked(*number) > round).for_each(|number| frequency.note(key(number)));
        }
        let right = (0..keys).filter(|number| u64::from(frequency.of(key(*number))) == asked(*number)).count();
        assert!(right > 90_000, "{right} of {keys}");
        let strangers = (keys..2 * keys).filter(|number| frequency.of(key(*number)) > 0).count();
        assert!(strangers < 100, "{strangers}");
    }

    #[test]
    fn what_is_asked_for_once_leaves_the_others_counts() {
        let frequency = Frequency::new(1 << 14);
        let lines = frequency.lines();
        let hot = lines as u64 * 4;
        (0..20).for_each(|_| (0..hot).for_each(|number| frequency.note(key(number))));
        // A scan over a hundred times as many keys as there is room for.
        (hot..hot + lines as u64 * 20 * 100).for_each(|number| frequency.note(key(number)));
        let known = (0..hot).filter(|number| frequency.of(key(*number)) >= 20).count() as u64;
        assert!(known > hot * 95 / 100, "{known} of {hot}");
    }

    #[test]
    fn it_grows_by_quarters_and_each_line_is_found() {
        let frequency = Frequency::of_sample(1 << 20);
        let mut sizes = vec![frequency.lines()];
        for wanted in 17..=1 << 14 {
            let lines = frequency.grow(wanted);
            if sizes.last() != Some(&lines) {
                sizes.push(lines);
            }
        }
        assert_eq!(sizes[..9], [16, 20, 24, 28, 32, 40, 48, 56, 64]);
        assert_eq!(sizes.last(), Some(&(1 << 14)));
        for lines in [16, 20, 56, 64, 1 << 14] {
            let found: std::collections::BTreeSet<_> = (0..1 << 16).map(|number| among(lines, number)).collect();
            assert_eq!(found, (0..lines).collect());
        }
        let places: std::collections::BTreeSet<_> = (0..1 << 14).map(Frequency::place).collect();
        assert_eq!(places.len(), 1 << 14);
        assert!((0..frequency.segments.len()).all(|at| frequency.segments[at].get().is_some()));
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
        assert_eq!((frequency.of(key(7)), small, frequency.bytes()), (9, LEAST_LINES * 64, 768 * 64));
        frequency.follow_keys(1_000_000_000);
        assert_eq!((frequency.of(key(7)), frequency.bytes()), (9, 1 << 20), "never more than it may");
        frequency.follow_keys(1);
        assert_eq!(frequency.bytes(), 1 << 20, "what is there stays");
    }
}
