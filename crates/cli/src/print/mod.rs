//! Tables, charts, numbers, progress.

pub(crate) mod chart;
pub(crate) mod codec;
pub(crate) mod number;
pub(crate) mod progress;
pub(crate) mod table;
