//! Caches: which keys leave when memory is full.
//!
//! A server evicts whole keys, and a bucket is one: one popular key keeps its neighbours, and one eviction loses them all.
//! keyfold sees every request. So it counts how often each key is asked for ([`crate::cache`]), watches the server's memory,
//! and removes the fields that are worth the least before the server has to evict anything.
//!
//! ```text
//! requests ──▶ Popularity: Frequency, Recent        (a few bytes a key, here)
//! INFO memory ──▶ Governor: how much to free ──▶ Evictor: the walk ──▶ Chooser: which ──▶ HDEL, UNLINK ──▶ server
//! ```
//!
//! What holds: a key is there with its value or absent, never anything else, as a field is removed only if it holds what was
//! looked at, and a key with a name of its own whole; a set or hash in parts goes with all of these; no request waits for it; and all that is kept of it in the server is who
//! evicts, and what was asked for, for whoever evicts next.

mod chooser;
mod cold_fields;
mod cold_parts;
mod evictor;
mod governor;
mod server_memory;

pub use chooser::{Border, Chooser, USUAL_SHARE, Worth};
pub use evictor::{Batch, Evictor};
pub use governor::{Governor, Order};
pub use server_memory::{ServerMemory, evicted_by_server};
