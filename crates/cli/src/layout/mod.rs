//! A layout's way from a file to a server.
//!
//! ```text
//! file ──parse──▶ ┐
//!                 ├─merge─▶ no conflict? ─▶ new namespaces: no keys there yet? ─▶ stored, if still as read
//! server ──read─▶ ┘
//! ```
//! Until the last step nothing is changed, and nothing is served before it.

pub(crate) mod evidence;
pub(crate) mod file;
mod heads;
pub(crate) mod keys;
mod slots;
pub(crate) mod writer;
