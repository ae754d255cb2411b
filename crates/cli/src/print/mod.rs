//! Layouts and codecs, as tables and as JSON.

pub(crate) mod codec;
pub(crate) mod layout;
