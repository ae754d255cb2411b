//! Looks at some slots all the time, to see for how long each is away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use keyfold_testkit::cluster::{SLOTS, slot_of};

use crate::asker::{Asker, Outcome};

/// Between two looks, and after one that failed.
const PAUSE: Duration = Duration::from_millis(50);

/// Which side looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Through the keyfold of this number.
    Keyfold(usize),
    Plain,
}

/// When a slot was written to, as one side saw it.
#[derive(Debug)]
pub(crate) struct Sightings {
    pub(crate) side: Side,
    pub(crate) slot: u16,
    at: Vec<Instant>,
}

impl Sightings {
    /// The longest time without a write, of all that touch this time; none where there were no writes around it.
    pub(crate) fn longest_gap(&self, from: Instant, to: Instant) -> Option<Duration> {
        let gaps = self.at.windows(2).filter(|pair| pair[1] > from && pair[0] < to);
        gaps.map(|pair| pair[1] - pair[0]).max()
    }
}

/// Threads that look.
pub(crate) struct Probers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Sightings>>,
}

impl Probers {
    /// Begins to look at this many slots, spread evenly, each from both sides.
    pub(crate) fn start(slots: u16, asker: impl Fn(Side) -> Asker, keyfolds: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..slots {
            let slot = SLOTS / slots * number + SLOTS / slots / 2;
            for side in [Side::Keyfold(usize::from(number) % keyfolds), Side::Plain] {
                let (asker, stop) = (asker(side), Arc::clone(&stop));
                threads.push(thread::spawn(move || look(asker, side, slot, &stop)));
            }
        }
        Self { stop, threads }
    }

    /// Ends it.
    pub(crate) fn stop(self) -> Vec<Sightings> {
        self.stop.store(true, Ordering::Release);
        self.threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    }
}

/// Writes to a slot, a folded key where it goes through a keyfold.
fn look(mut asker: Asker, side: Side, slot: u16, stop: &AtomicBool) -> Sightings {
    let head = if side == Side::Plain { "beside:user:" } else { "user:" };
    // Ids that no client of the load has.
    let key = (1_000_000_000_u64..).map(|id| format!("{head}{id}")).find(|key| slot_of(key.as_bytes()) == slot);
    let key = key.unwrap_or_default().into_bytes();
    let mut at = vec![Instant::now()];
    while !stop.load(Ordering::Acquire) {
        if let Outcome::Answer(_) = asker.call(&key, &[b"SET", &key, b"1"]) {
            at.push(Instant::now());
        }
        thread::sleep(PAUSE);
    }
    Sightings { side, slot, at }
}
