//! The work: one file for each subcommand.

pub(crate) mod analyze;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod layout;
mod reload;
pub(crate) mod serve;
pub(crate) mod where_key;
