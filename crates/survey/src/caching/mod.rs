//! What a cache would find of the requests that were made to it, by memory and by who evicts: before anything is folded.
//!
//! ```text
//! requests ──▶ recorder: a sample of the keys, with all that was asked of them
//!                 │
//!                 ├─▶ sizes: what each key takes, plain, and as a record of the layout that would fold it
//!                 ▼
//!              replay: one cache, of one memory ──▶ what it found ──▶ curves: what each finds by memory, and their inverse
//! ```
//! Keys are sampled by their hashes, as SHARDS does (Waldspurger and others, 2015): a key is in the sample with all its
//! requests, or with none of them. A cache of a tenth of the memory over a tenth of the keys finds what the whole one finds
//! (Waldspurger and others, *Cache modeling and optimization using miniature simulations*, 2017), whoever evicts in it. So
//! memory is bounded, however long it is listened, and policies are simulated as they are.
//!
//! Bytes are those of the memory model (`keyfold_core::memory`): of plain keys with their share of the server's table, of
//! buckets with the allocator's rounding, as records come and go.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `recorder.rs` | requests as they come; the sample |
//! | `line.rs` | requests as files and MONITOR have them |
//! | `requests.rs` | what was recorded |
//! | `sizes.rs` | what each key takes |
//! | `folding.rs` | the layout that would fold the keys of a trace |
//! | `room.rs` | the memory of a cache, as keys come and go |
//! | `server_eviction.rs` | how servers choose what leaves: LRU and LFU |
//! | `key_eviction.rs` | how keyfold chooses |
//! | `optimum.rs` | what nobody can do better, as it knows what is asked for next |
//! | `replay.rs` | one cache over all requests |
//! | `curve.rs` | what caches find by memory, and how much memory finds as much |

mod curve;
mod folding;
mod key_eviction;
mod line;
mod optimum;
mod recorder;
mod replay;
mod requests;
mod room;
mod server_eviction;
mod sizes;
#[cfg(test)]
mod tests;

pub use curve::{Curves, Job, Point, Saving};
pub use folding::layout_for;
pub use recorder::{Bounds, Recorder};
pub use replay::{Cache, Tally, replay};
pub use requests::{Action, Requests};
pub use server_eviction::ServerPolicy;
pub use sizes::Sizes;
