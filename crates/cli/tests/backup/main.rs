//! `keyfold export`, `import` and `verify` as processes, on real servers.
#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking")]

mod broken;
mod findings;
mod program;
mod round_trip;
