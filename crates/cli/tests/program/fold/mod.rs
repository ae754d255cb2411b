//! `keyfold fold` and `keyfold unfold` as processes, before real servers.

mod access;
mod cluster;
mod cluster_stage;
mod codecs;
mod collections;
mod interrupted;
mod large;
mod limits;
mod past;
mod proxies;
mod refused;
mod round_trip;
pub(crate) mod stage;
mod stays;
