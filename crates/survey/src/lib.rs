//! What a keyspace holds, what folding it would save, and which layout to use.
//!
//! Like the core, a survey does no I/O: keys and what servers say of them come in as arguments, from a walk
//! over a live server, a file or a generator.

pub mod diagnosis;
