//! The survey on made-up keys: what codecs would save, and its memory on a stream of a hundred million.
#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking")]

mod codecs;
mod stream;
