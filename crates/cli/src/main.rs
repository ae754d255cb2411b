//! The `keyfold` program.
fn main() {}
