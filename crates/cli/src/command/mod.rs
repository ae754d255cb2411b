//! The work: one file or folder for each subcommand.

pub(crate) mod analyze;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
pub(crate) mod fold;
pub(crate) mod guide;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod layout;
pub(crate) mod manual;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod recode;
mod reload;
pub(crate) mod serve;
mod settle;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod train;
pub(crate) mod verify;
pub(crate) mod where_key;
