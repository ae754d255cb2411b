//! What codecs make of a family's values, found by training and judging them on some of those values.
//!
//! ```text
//! sample of keys ─▶ wanted: whose values are read ─▶ records ─┬─ three in four train ─▶ codecs ─┐
//!                                                             └─ one in four judges ◀───────────┘
//!                                   coding: bytes of each value read, µs ─▶ lengths of the sample's other values
//! ```
//! The values themselves are dropped as soon as a family's codecs are known; the lengths stay.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `values.rs` | whose values are worth reading, and what was read |
//! | `coding.rs` | a codec, trained and judged |
//! | `lengths.rs` | how long a value is once it is stored by it |

mod coding;
mod lengths;
mod values;

pub use coding::{Coding, Stopwatch, weigh};
pub(crate) use lengths::Coded;
pub use values::{LONGEST_BYTES, Record, wanted};
