//! What a keyspace holds, what folding it would save, and which layout to use.
//!
//! Like the core, a survey does no I/O: keys and what servers say of them come in as arguments, from a walk
//! over a live server, a file or a generator.
//!
//! | room | what it holds |
//! | --- | --- |
//! | `family` | which families of keys there are, found from the keys alone |
//! | `number.rs` | numbers as findings and reasons say them |
//! | `observation.rs` | what a walk learns of one key |
//! | `sample.rs` | a sample of keys by blocks of neighbours, within a bound of memory |
//! | `slot_tally.rs` | how full the slots of a cluster are, and which have far more keys than others |
//! | `summary` | what is counted of one family while its keys go by |
//! | `survey.rs` | the whole: keys go in, families with what they take come out |
//! | `folded.rs` | what is folded already: physical keys, counted as the logical keys that they hold |
//! | `in_parts.rs` | what large sets and hashes take in parts, of which only some members are known |
//! | `population.rs` | what a placement must know of a family's keys |
//! | `choose` | whether to fold a family, and how: every way weighed on its own keys |
//! | `codec` | what codecs make of a family's values: trained, judged, and what they take |
//! | `plan` | the choices for all families as one layout, with the reasons |
//! | `caching` | what a cache would find of the requests made to it, by memory and by who evicts |
//! | `random.rs` | what looks random and is the same for the same seed |
//! | `eviction.rs` | what folding does to a server that evicts, as measured |
//! | `uses.rs` | who uses a server and how, as far as it matters to folding |
//! | `diagnosis` | why memory is not what it should be: findings from what was observed |
//! | `remedy.rs` | what settings of the server would save for its sets and hashes, without folding |
//! | `advice.rs` | what to do with each family that was found, and what it saves |
#![forbid(unsafe_code)]

pub mod advice;
pub mod caching;
pub mod choose;
pub mod codec;
pub mod diagnosis;
pub mod eviction;
pub mod family;
pub mod folded;
pub mod in_parts;
mod number;
pub mod observation;
pub mod plan;
pub mod population;
pub mod random;
pub mod remedy;
pub mod sample;
pub mod slot_tally;
pub mod summary;
pub mod survey;
pub mod uses;
