//! `keyfold fold --from` as a process, on real servers: keys come out of hashes that an application made itself.

mod conventions;
mod moving;
mod partitions;
mod program;
mod refused;
