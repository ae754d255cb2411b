//! What a keyspace holds, what folding it would save, and which layout to use.
//!
//! Like the core, a survey does no I/O: keys and what servers say of them come in as arguments, from a walk
//! over a live server, a file or a generator.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `observation.rs` | what a walk learns of one key |
//! | `sample.rs` | a sample of keys by blocks of neighbours, within a bound of memory |
//! | `plan` | the choices for all families as one layout, with the reasons |
//! | `choose` | whether to fold a family, and how: every way weighed on its own keys |
//! | `population.rs` | what a placement must know of a family's keys |
#![forbid(unsafe_code)]

pub mod choose;
pub mod observation;
pub mod plan;
pub mod population;
pub mod sample;
