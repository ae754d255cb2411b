//! A namespace's codec on a live server: from its values to a codec that is chosen and trained.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `samples` | some values of each namespace, as good as any others |
//! | `choice` | what training made of them, and what of that is taken |
//! | `settle` | which namespaces need that, and the layout that comes of it |
pub(crate) mod choice;
pub(crate) mod samples;
pub(crate) mod settle;
