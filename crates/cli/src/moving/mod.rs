//! A namespace's move over a live server.
//!
//! ```text
//! survey ─▶ checks ─▶ layout that moves in force ─▶ passes of the mover ─▶ nothing left? ─▶ settled layout in force
//! ```
//! Everything up to the first change of the layout only looks. From there on each step may be broken off and done
//! again: what has been moved stays moved, and every key is found where it lies.

pub(crate) mod both;
pub(crate) mod carry_out;
pub(crate) mod checks;
pub(crate) mod drive;
mod hashes;
mod leftovers;
mod overhead;
mod permissions;
pub(crate) mod recovery;
pub(crate) mod rollout;
mod sample;
pub(crate) mod survey;
