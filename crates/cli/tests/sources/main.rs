//! `keyfold fold --from` as a process, on real servers: keys come out of hashes that an application made itself.
#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking")]

mod conventions;
mod moving;
mod program;
mod refused;
