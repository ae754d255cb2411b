//! The work: one file for each subcommand.

pub(crate) mod analyze;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod layout;
pub(crate) mod plan;
mod reload;
pub(crate) mod serve;
pub(crate) mod where_key;
