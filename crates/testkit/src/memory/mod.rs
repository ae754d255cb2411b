//! The core's memory model against real servers: the same case, predicted and measured.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`case`] | what is loaded: strings, hashes or sets, plain or placed; made up from a seed |
//! | [`mod@measure`] | a fresh server, loaded and weighed |
//! | [`real`] | real records, where they are at hand |

pub mod case;
#[cfg(feature = "bench")]
pub mod measure;
#[cfg(feature = "bench")]
pub mod real;

pub use case::{Case, Data, Record};
#[cfg(feature = "bench")]
pub use measure::{Measured, measure, model_of, weigh_case};
