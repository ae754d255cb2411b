//! Where the primary is that Sentinels name: what all workers know of it.
//!
//! One task of the process asks (`upstream/scout.rs`) and all go by what it found last, so that no two workers follow
//! two primaries. Who needs a connection is told at once, where nothing speaks against what is known, and waits for
//! another look otherwise; thousands who wait share one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use keyfold_core::cluster::Endpoint;
use keyfold_core::sentinel::{NoPrimary, Primary};
use tokio::sync::{Notify, watch};

/// For so long after a look what it found is gone by without another, where nothing speaks against it.
const KEPT: Duration = Duration::from_secs(3);

/// What a look found, or why it found nothing.
pub(crate) type Found = Result<Primary, Arc<NoPrimary>>;

/// What all workers know.
#[derive(Debug)]
pub(crate) struct Whereabouts {
    sighted: watch::Sender<Sighting>,
    /// Somebody waits for another look.
    pub(crate) wanted: Notify,
    /// When somebody last found that what was known may be wrong.
    doubted: Mutex<Option<Instant>>,
    /// A worker has taken it on to look.
    has_scout: AtomicBool,
}

/// A look, and what came of it.
#[derive(Clone, Debug, Default)]
struct Sighting {
    /// When it began, and what it found; none before the first.
    last: Option<(Instant, Found)>,
    /// How often that came to be a primary, or another.
    moves: u64,
}

impl Whereabouts {
    /// Nothing is known yet.
    pub(crate) fn new() -> Self {
        Self {
            sighted: watch::Sender::new(Sighting::default()),
            wanted: Notify::new(),
            doubted: Mutex::new(None),
            has_scout: AtomicBool::new(false),
        }
    }

    /// True for the first who asks, and who is to look from then on.
    pub(crate) fn take_over(&self) -> bool {
        !self.has_scout.swap(true, Ordering::Relaxed)
    }

    /// Where the primary is.
    ///
    /// # Errors
    /// Why nobody knows.
    pub(crate) async fn find(&self) -> Result<Endpoint, Arc<NoPrimary>> {
        let mut sighted = self.sighted.subscribe();
        let kept = Instant::now().checked_sub(KEPT);
        loop {
            let doubted = self.doubted_at();
            if let Some((began, found)) = &sighted.borrow_and_update().last
                && kept.is_none_or(|kept| *began >= kept)
                && doubted.is_none_or(|doubted| *began > doubted)
            {
                return found.as_ref().map(|primary| primary.endpoint.clone()).map_err(Arc::clone);
            }
            self.wanted.notify_one();
            // Fails only where nobody can look any more, and this is part of who does.
            let _ = sighted.changed().await;
        }
    }

    /// What was found last.
    pub(crate) fn known(&self) -> Option<Found> {
        self.sighted.borrow().last.as_ref().map(|(_, found)| found.clone())
    }

    /// Notes what a look found that began then.
    pub(crate) fn note(&self, began: Instant, found: Found) {
        self.sighted.send_modify(|sighting| {
            let before = sighting.last.as_ref().and_then(|(_, found)| found.as_ref().ok());
            if let Ok(now) = &found
                && before.is_none_or(|before| before.endpoint != now.endpoint)
            {
                sighting.moves += 1;
            }
            sighting.last = Some((began, found));
        });
    }

    /// A connection was lost or can't be made, or a server refuses writes: whoever goes by what is known looks again
    /// first.
    pub(crate) fn doubt(&self) {
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.wanted.notify_one();
    }

    /// The primary that the last look found, where nothing has spoken against it since.
    pub(crate) fn undoubted(&self) -> Option<Endpoint> {
        let doubted = self.doubted_at();
        let last = self.sighted.borrow().last.clone();
        let (began, found) = last?;
        found.ok().filter(|_| doubted.is_none_or(|doubted| began > doubted)).map(|primary| primary.endpoint)
    }

    /// When what was known was last doubted.
    fn doubted_at(&self) -> Option<Instant> {
        *self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server at `endpoint` is known not to be the primary. Where nothing is known it may be: the
    /// connections to it outlive the Sentinels.
    pub(crate) fn has_left(&self, endpoint: &Endpoint) -> bool {
        match &self.sighted.borrow().last {
            Some((_, Ok(primary))) => primary.endpoint != *endpoint,
            Some((_, Err(nobody))) => nobody.denies(endpoint),
            None => false,
        }
    }

    /// Waits until that is so.
    pub(crate) async fn until_left(&self, endpoint: &Endpoint) {
        let mut sighted = self.sighted.subscribe();
        while !self.has_left(endpoint) {
            let _ = sighted.changed().await;
        }
    }

    /// How often there came to be a primary, or another.
    pub(crate) fn moves(&self) -> u64 {
        self.sighted.borrow().moves
    }

    /// Waits until that has happened since it was `before`.
    pub(crate) async fn until_moved(&self, before: u64) {
        let mut sighted = self.sighted.subscribe();
        while self.moves() == before {
            let _ = sighted.changed().await;
        }
    }

    /// Waits until something else is known than `before`, and says what.
    pub(crate) async fn until_news(&self, before: Option<&Found>) -> Option<Found> {
        let mut sighted = self.sighted.subscribe();
        loop {
            let known = self.known();
            if known.as_ref() != before {
                return known;
            }
            let _ = sighted.changed().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary(at: &str) -> Primary {
        Primary { endpoint: at.parse().unwrap(), epoch: 0, named_by: "s:1".parse().unwrap() }
    }

    fn nobody() -> Arc<NoPrimary> {
        Arc::new(NoPrimary { name: "main".to_owned(), troubles: Vec::new() })
    }

    fn run(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
    }

    #[test]
    fn what_is_known_is_gone_by_until_it_is_doubted() {
        run(async {
            let whereabouts = Whereabouts::new();
            whereabouts.note(Instant::now(), Ok(primary("a:1")));
            assert_eq!(whereabouts.find().await.unwrap().to_string(), "a:1");
            whereabouts.doubt();
            let looks = async {
                whereabouts.wanted.notified().await;
                whereabouts.note(Instant::now(), Ok(primary("b:2")));
                std::future::pending::<()>().await;
            };
            tokio::select! {
                found = whereabouts.find() => assert_eq!(found.unwrap().to_string(), "b:2"),
                () = looks => {}
            }
        });
    }

    #[test]
    fn a_look_that_found_nothing_is_told_and_closes_nothing() {
        run(async {
            let (whereabouts, at) = (Whereabouts::new(), primary("a:1").endpoint);
            whereabouts.note(Instant::now(), Ok(primary("a:1")));
            whereabouts.note(Instant::now(), Err(nobody()));
            assert!(whereabouts.find().await.is_err());
            assert!(!whereabouts.has_left(&at));
            whereabouts.note(Instant::now(), Ok(primary("b:2")));
            whereabouts.until_left(&at).await;
        });
    }

    #[test]
    fn one_scout_is_enough() {
        let whereabouts = Whereabouts::new();
        assert!(whereabouts.take_over());
        assert!(!whereabouts.take_over());
    }
}
