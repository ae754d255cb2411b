//! What the flags amount to: files are read, defaults filled in, contradictions refused.

pub(crate) mod analyze;
pub(crate) mod databases;
pub(crate) mod demo;
pub(crate) mod export;
pub(crate) mod fold;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod log;
pub(crate) mod plan;
pub(crate) mod serve;
pub(crate) mod source;
pub(crate) mod target;
mod users_file;
pub(crate) mod verify;
