//! Layouts as tables and as JSON, and choices as JSON.

pub(crate) mod choice;
pub(crate) mod layout;
