//! `keyfold doctor` as a process, before real servers: every finding, and that what it prints mends it.

mod cluster;
mod leftovers;
mod partitions;
mod rewrite;
mod settings;
mod stage;
mod study;
mod tables;
mod troubles;
