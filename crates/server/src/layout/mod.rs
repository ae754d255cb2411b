//! The layout that a server holds, and how another is put in force while proxies serve.

pub mod activate;
pub mod clear;
pub mod dictionaries;
pub mod fence;
mod fleet;
mod plane;
pub mod stored;
pub mod unneeded;
pub mod witnesses;
