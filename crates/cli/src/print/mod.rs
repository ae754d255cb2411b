//! Layouts as tables and as JSON, choices and what is folded already as JSON, who uses a server as both.

pub(crate) mod choice;
pub(crate) mod folded;
pub(crate) mod held;
pub(crate) mod layout;
pub(crate) mod uses;
