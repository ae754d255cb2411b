//! The test bed itself: clusters and Sentinels of every server on this machine do what tests will ask of them.
//!
//! What takes long runs on the newest Redis and the newest Valkey; `make test-long` runs it on all others.

mod client;
mod cluster;
mod failures;
mod sentinel;

use keyfold_testkit::servers::{each, newest_and_others};
