//! Which requests of clients were slow: what SLOWLOG answers, and what a driver is told for its own log.
//!
//! ```text
//! Conversation ──▶ Asked            what was asked, as bytes, as long as it is under way
//!       │ answered, and slow
//!       ├──▶ SlowLog                the latest, of all workers, by number: SLOWLOG
//!       └──▶ Timekeeper             those since its driver last asked: a few, and how many more
//! ```
//! Requests are logical ones, as clients sent them, with their arguments cut and without their secrets. A request that is not
//! slow costs a comparison; locks are taken for those that are.

mod asked;
mod cut;
mod request;
mod timekeeper;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use asked::{Asked, AskedAt};
pub(crate) use request::AskedArguments;
pub use request::SlowRequest;
pub use timekeeper::{SlowReport, Timekeeper};

use crate::resp::Answer;

/// No request takes so long: stands for *never*.
const NEVER_US: u64 = u64::MAX;

/// What is slow, and the latest requests that were; shared by all that drive conversations of one keyfold.
#[derive(Debug)]
pub struct SlowLog {
    /// A request that takes so long is kept, in microseconds.
    keeps_from_us: AtomicU64,
    /// One that takes so long is told to the driver.
    tells_from_us: AtomicU64,
    /// The lesser of both: what every request is compared with.
    least_us: AtomicU64,
    most_entries: AtomicUsize,
    kept: Mutex<Kept>,
}

/// The latest entries, oldest first.
#[derive(Debug, Default)]
struct Kept {
    entries: VecDeque<(u64, Arc<SlowRequest>)>,
    /// How many there ever were: the number of the next.
    next: u64,
}

impl Default for SlowLog {
    /// As a server's defaults: from 10 ms on, the latest 128; nothing is told.
    fn default() -> Self {
        let slow = Self {
            keeps_from_us: AtomicU64::new(NEVER_US),
            tells_from_us: AtomicU64::new(NEVER_US),
            least_us: AtomicU64::new(NEVER_US),
            most_entries: AtomicUsize::new(Self::MOST_ENTRIES),
            kept: Mutex::default(),
        };
        slow.keep_from(Some(Self::KEEPS_FROM));
        slow
    }
}

impl SlowLog {
    /// How long a request takes that is kept by default (`slowlog-log-slower-than`).
    pub const KEEPS_FROM: Duration = Duration::from_millis(10);
    /// How many are kept by default (`slowlog-max-len`).
    pub const MOST_ENTRIES: usize = 128;

    /// Keeps requests that take so long from now on; none: no more are kept.
    pub fn keep_from(&self, bound: Option<Duration>) {
        self.keeps_from_us.store(bound.map_or(NEVER_US, micros), Ordering::Relaxed);
        self.note_least();
    }

    /// Tells drivers of requests that take so long, from now on; none: of no more.
    pub fn tell_from(&self, bound: Option<Duration>) {
        self.tells_from_us.store(bound.map_or(NEVER_US, micros), Ordering::Relaxed);
        self.note_least();
    }

    /// Keeps so many from now on.
    pub fn keep_most(&self, entries: usize) {
        self.most_entries.store(entries, Ordering::Relaxed);
        self.with_kept(|kept| kept.shrink_to(entries));
    }

    fn note_least(&self) {
        let least = self.keeps_from_us.load(Ordering::Relaxed).min(self.tells_from_us.load(Ordering::Relaxed));
        self.least_us.store(least, Ordering::Relaxed);
    }

    /// Whether a request that took so long is slow: what every request asks.
    #[inline]
    pub(crate) fn is_slow(&self, took_us: u64) -> bool {
        took_us >= self.least_us.load(Ordering::Relaxed)
    }

    /// `slowlog-log-slower-than` as a server has it: microseconds, or -1 for never.
    pub(crate) fn slower_than(&self) -> i64 {
        match self.keeps_from_us.load(Ordering::Relaxed) {
            NEVER_US => -1,
            us => i64::try_from(us).unwrap_or(i64::MAX),
        }
    }

    /// The same, to be gone by from now on.
    pub(crate) fn set_slower_than(&self, us: i64) {
        self.keep_from(u64::try_from(us).ok().map(Duration::from_micros));
    }

    /// `slowlog-max-len`.
    pub(crate) fn most_entries(&self) -> usize {
        self.most_entries.load(Ordering::Relaxed)
    }

    /// Takes a slow request, which the driver of this timekeeper has answered.
    pub(crate) fn add(&self, request: SlowRequest, time: &Timekeeper) {
        let request = Arc::new(request);
        if request.took_us >= self.tells_from_us.load(Ordering::Relaxed) {
            time.tell(&request);
        }
        let most = self.most_entries();
        if request.took_us >= self.keeps_from_us.load(Ordering::Relaxed) && most > 0 {
            self.with_kept(|kept| {
                let id = kept.next;
                kept.next += 1;
                kept.entries.push_back((id, request));
                kept.shrink_to(most);
            });
        }
    }

    /// How many are kept now.
    pub(crate) fn len(&self) -> usize {
        self.with_kept(|kept| kept.entries.len())
    }

    /// Forgets all that are kept; those to come are numbered on.
    pub(crate) fn clear(&self) {
        self.with_kept(|kept| kept.entries = VecDeque::new());
    }

    /// Answers with the latest so many, the latest first.
    pub(crate) fn write(&self, count: usize, answer: &mut Answer<'_>) {
        // What is written is kept alive without the lock, so that no request waits for a long answer.
        let latest: Vec<_> = self.with_kept(|kept| kept.entries.iter().rev().take(count).cloned().collect());
        answer.array(latest.len());
        latest.iter().for_each(|(id, request)| request.write(*id, answer));
    }

    fn with_kept<R>(&self, body: impl FnOnce(&mut Kept) -> R) -> R {
        body(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Kept {
    fn shrink_to(&mut self, most: usize) {
        let too_many = self.entries.len().saturating_sub(most);
        self.entries.drain(..too_many);
    }
}

fn micros(bound: Duration) -> u64 {
    u64::try_from(bound.as_micros()).unwrap_or(NEVER_US)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;
    use crate::resp::{Protocol, Reply};
    use crate::stats::{CommandEnd, CommandWay};

    fn request(args: &[&[u8]], took_us: u64) -> SlowRequest {
        let command = table().resolve(args);
        let asked = AskedArguments::of(command, args);
        let slow = SlowRequest::new(command, asked, CommandWay::Native, CommandEnd::Ok);
        SlowRequest { took_us, answered_ms: 1_700_000_000_123, client: "1.2.3.4:5".into(), ..slow }
    }

    fn numbers(slow: &SlowLog, count: usize) -> Vec<i64> {
        let mut bytes = Vec::new();
        slow.write(count, &mut Answer::new(&mut bytes, Protocol::Resp2));
        let Ok(Reply::Array(entries)) = Reply::parse(&bytes) else { panic!("no array") };
        let number = |entry: Reply<'_>| match entry {
            Reply::Array(mut fields) => match fields.next() {
                Some(Reply::Integer(id)) => id,
                other => panic!("{other:?} is no number"),
            },
            other => panic!("{other:?} is no entry"),
        };
        entries.map(number).collect()
    }

    #[test]
    fn the_latest_are_kept_and_numbered_on() {
        let (slow, time) = (SlowLog::default(), Timekeeper::default());
        slow.keep_most(3);
        (0..5).for_each(|_| slow.add(request(&[b"GET", b"a"], 20_000), &time));
        assert_eq!((numbers(&slow, 10), numbers(&slow, 2), slow.len()), (vec![4, 3, 2], vec![4, 3], 3));
        slow.keep_most(1);
        assert_eq!(numbers(&slow, 10), [4]);
        slow.clear();
        slow.add(request(&[b"GET", b"a"], 20_000), &time);
        assert_eq!(numbers(&slow, 10), [5]);
        slow.keep_most(0);
        slow.add(request(&[b"GET", b"a"], 20_000), &time);
        assert_eq!(slow.len(), 0);
        assert_eq!(time.take().told.len(), 0);
    }

    #[test]
    fn an_entry_is_the_servers() {
        let (slow, time) = (SlowLog::default(), Timekeeper::default());
        slow.add(request(&[b"ACL", b"SETUSER", b"bob", b">secret"], 12_345), &time);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut bytes = Vec::new();
            slow.write(1, &mut Answer::new(&mut bytes, protocol));
            let expected = "*1\r\n*6\r\n:0\r\n:1700000000\r\n:12345\r\n*4\r\n$3\r\nACL\r\n$7\r\nSETUSER\r\n$10\r\n(redacted)\r\n\
                            $10\r\n(redacted)\r\n$9\r\n1.2.3.4:5\r\n$0\r\n\r\n";
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
    }

    #[test]
    fn both_bounds_count_by_themselves() {
        let (slow, time) = (SlowLog::default(), Timekeeper::default());
        assert_eq!((slow.is_slow(9_999), slow.is_slow(10_000), slow.slower_than()), (false, true, 10_000));
        slow.tell_from(Some(Duration::from_millis(1)));
        assert!(slow.is_slow(1_000));
        slow.add(request(&[b"GET", b"a"], 1_000), &time);
        assert_eq!((slow.len(), time.take().told.len()), (0, 1));
        slow.set_slower_than(-1);
        slow.add(request(&[b"GET", b"a"], 90_000), &time);
        assert_eq!((slow.len(), slow.slower_than(), time.take().told.len()), (0, -1, 1));
        slow.tell_from(None);
        assert!(!slow.is_slow(NEVER_US - 1));
        slow.set_slower_than(0);
        assert!(slow.is_slow(0));
    }
}
