//! `keyfold export`, `import` and `verify` as processes, on real servers.

mod beside;
mod broken;
mod cluster;
mod findings;
mod program;
mod round_trip;
