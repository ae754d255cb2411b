//! What codecs make of a family's values, found by training and judging them on some of those values.
//!
//! ```text
//! sample of keys ─▶ wanted: whose values are read ─▶ records ─┬─ three in four train ─▶ codecs ─┐
//!                                                             └─ one in four judges ◀───────────┘
//!                                   coding: bytes of each value read, µs ─▶ lengths of the sample's other values
//! ```
//! The values themselves are dropped as soon as a family's codecs are known; the lengths stay. For a namespace that
//! exists, the selection says which codec its values are to be written by; no length is asked for then.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `values.rs` | whose values are worth reading, and what was read |
//! | `judge.rs` | codecs trained, judged and timed, and how much is enough |
//! | `selection.rs` | the one that a namespace's values are written by |
//! | `coding.rs` | those that are weighed with placements |
//! | `lengths.rs` | how long a value is once it is stored by it |

mod coding;
mod judge;
mod lengths;
mod selection;
mod values;

pub use coding::{Coding, weigh};
pub(crate) use judge::time_score;
pub use judge::{Judged, Stopwatch};
pub(crate) use lengths::Coded;
pub use selection::{Selection, select};
pub use values::{LONGEST_BYTES, Record, Samples, wanted};
