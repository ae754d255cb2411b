//! The data that a demo folds: read from files or made up, with the layouts that fold it.

pub(crate) mod layouts;
pub(crate) mod records;
pub(crate) mod seeded;
