//! What a Redis or Valkey Cluster is to clients: 16,384 slots, each served by one primary.
//!
//! - [`Slot`]: which slot a key is in, and a short tag that puts any other key in the same one.

mod slot;

pub use slot::Slot;
