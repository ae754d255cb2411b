//! The `keyfold` program.
#![warn(clippy::unwrap_used)]

fn main() {}
