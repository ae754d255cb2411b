//! `keyfold` as a process, before real servers: one room for each of its commands, and what it prints.
#![expect(clippy::unwrap_used, reason = "a test that fails says where by panicking")]

mod analyze;
mod backup;
mod doctor;
mod fold;
mod guide;
mod lab;
mod lost;
mod narrow;
mod plan;
mod serve;
mod snapshots;
mod sources;
mod status;
mod top;
mod uses;
