//! What is known of keys' use: told to the proxy that evicts by all others, and saved by it for whoever evicts next.

use std::rc::Rc;
use std::time::Duration;

use keyfold_core::cache::{Saved, Seen};
use tokio::time::Instant;

use super::Shared;
use crate::upstream::{Errand, LinkError};

/// How often it is told what was asked for.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// How often it is saved, and how long the server is left to others between two pieces.
const SAVE_EVERY: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_millis(5);

/// Tells and hears of requests, and saves what is known, for ever.
pub(super) async fn share(shared: Rc<Shared>, errand: Errand) {
    let mut sharer = Sharer { shared, errand, was_holder: false, saved: Instant::now() };
    loop {
        if let Err(reason) = sharer.go_on().await {
            tracing::debug!(%reason, "what is asked for was not told");
        }
        tokio::time::sleep(TELL_EVERY).await;
    }
}

struct Sharer {
    shared: Rc<Shared>,
    errand: Errand,
    was_holder: bool,
    saved: Instant,
}

impl Sharer {
    async fn go_on(&mut self) -> Result<(), LinkError> {
        let is_holder = self.shared.is_holder.get();
        if !is_holder {
            self.was_holder = false;
            let mut message = Vec::new();
            let replies = self.shared.cache.seen().tell(&mut message);
            if replies > 0 {
                self.errand.request(&message, replies).await?;
            }
            return Ok(());
        }
        if !self.was_holder {
            // Where that breaks off, it is begun again: what was saved would else be written over by the little that is known here.
            self.load().await?;
            self.was_holder = true;
            self.saved = Instant::now();
        }
        let told = self.errand.ask_one(Seen::ask).await?;
        Seen::take(&told, self.shared.cache.popularity());
        if self.saved.elapsed() > SAVE_EVERY {
            self.saved = Instant::now();
            self.save().await?;
        }
        Ok(())
    }

    /// Learns what the proxy knew that evicted before.
    async fn load(&mut self) -> Result<(), LinkError> {
        let head = self.errand.ask_one(|wire| Saved::ask(None, wire)).await?;
        let Some(mut reading) = Saved::begin(&head) else { return Ok(()) };
        while let Some(piece) = reading.wanted() {
            let reply = self.errand.ask_one(|wire| Saved::ask(Some(piece), wire)).await?;
            if !reading.take(&reply) {
                return Ok(());
            }
            tokio::time::sleep(REST).await;
        }
        let saved = reading.end();
        saved.add_to(self.shared.cache.popularity().frequency());
        tracing::info!(keys = saved.keys, "how often keys are asked for is known from before");
        Ok(())
    }

    async fn save(&mut self) -> Result<(), LinkError> {
        let cache = &self.shared.cache;
        let saved = Saved::of(cache.popularity().frequency(), cache.keys(), cache.mark());
        for command in saved.write() {
            self.errand.request(&command, 1).await?;
            tokio::time::sleep(REST).await;
        }
        Ok(())
    }
}
