//! A lease in the server, as this proxy holds it.

use std::time::Duration;

use keyfold_core::admin::lease::Lease;
use tokio::time::Instant;

use crate::upstream::{Errand, LinkError};

/// A lease, and since when this proxy holds it.
#[derive(Debug)]
pub(crate) struct Holding {
    lease: Lease,
    renewed: Option<Instant>,
}

impl Holding {
    /// One that isn't held yet.
    pub(crate) fn of(lease: Lease) -> Self {
        Self { lease, renewed: None }
    }

    /// Takes the lease, or renews it where that is due; whether this proxy holds it.
    pub(crate) async fn hold(&mut self, errand: &mut Errand) -> Result<bool, LinkError> {
        let renewal = Duration::from_millis(self.lease.renew_every_ms());
        if self.renewed.is_some_and(|renewed| renewed.elapsed() < renewal) {
            return Ok(true);
        }
        let held = self.lease.is_held(&errand.ask(|wire| self.lease.ask(wire)).await?);
        self.renewed = held.then(Instant::now);
        if held {
            errand.ask_one(|wire| self.lease.renew(wire)).await?;
        }
        Ok(held)
    }
}
