//! The work: one file or folder for each subcommand.

pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod layout;
mod reload;
pub(crate) mod serve;
pub(crate) mod where_key;
