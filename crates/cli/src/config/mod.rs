//! What the flags amount to: files are read, defaults filled in, contradictions refused.

pub(crate) mod activation;
pub(crate) mod analyze;
pub(crate) mod databases;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod export;
mod files;
pub(crate) mod fold;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod layout;
pub(crate) mod log;
pub(crate) mod origin;
pub(crate) mod plan;
pub(crate) mod serve;
pub(crate) mod source;
pub(crate) mod target;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod train;
mod users_file;
pub(crate) mod verify;
pub(crate) mod where_key;
