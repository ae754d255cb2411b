//! The dictionaries that values are compressed by: read with the layout that names them, and put back where the
//! server has lost them.
//!
//! A server that evicts keys may evict the one that holds the dictionaries, and every value that needs them would be
//! lost with it. So each proxy looks now and then: that alone keeps the key among those used lately, and what is
//! gone is written again from memory.

use std::pin::Pin;
use std::time::Duration;

use keyfold_core::admin::dictionaries::{self, Upkeep};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::Layout;

use crate::order::Task;
use crate::upstream::{Errand, LinkError};

/// How often it is looked whether the server still has them.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Opens the codecs of a layout whose dictionaries this process doesn't know yet. One that is missing costs its
/// values, which are refused with the reason, and nothing else.
pub(crate) async fn open(errand: &mut Errand, kinds: &Kinds, layout: &mut Layout) -> Result<(), LinkError> {
    let missing = layout.missing_dictionaries();
    let mut found = std::collections::BTreeMap::new();
    if !missing.is_empty() {
        let reply = errand.ask_one(|wire| dictionaries::ask(&missing, wire)).await?;
        match dictionaries::read(&missing, &reply) {
            Ok(read) => found = read,
            Err(reason) => tracing::error!(%reason, "the server does not give the dictionaries"),
        }
    }
    layout.open(kinds, &found);
    for (_, namespace) in layout.iter() {
        for (slot, reason) in namespace.codecs.unusable() {
            tracing::error!(
                namespace = %namespace.keys,
                slot = slot.number,
                reason,
                "values stored by this codec can't be read, and are refused"
            );
        }
    }
    Ok(())
}

/// The task that keeps them in the server.
pub(crate) fn keep() -> Task {
    Box::new(|errand| Box::pin(keep_for_ever(errand.in_database(0))) as Pin<Box<dyn Future<Output = ()>>>)
}

async fn keep_for_ever(mut errand: Errand) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Err(reason) = put_back(&mut errand).await {
            tracing::debug!(%reason, "the dictionaries are looked after later");
        }
    }
}

async fn put_back(errand: &mut Errand) -> Result<(), LinkError> {
    let Some(upkeep) = errand.with_env(|env| Upkeep::of(env.layout)) else { return Ok(()) };
    let replies = errand.ask(|wire| upkeep.ask(wire)).await?;
    let mut wire = Vec::new();
    let lost = upkeep.restore(&replies, &mut wire);
    for field in &lost {
        tracing::warn!(field, "the server has lost a part of keyfold:{{home}}:dictionaries; writing it again");
    }
    if !lost.is_empty() {
        errand.request(&wire, lost.len()).await?;
    }
    Ok(())
}
