//! The data that a demo folds: read from files or made up, with the layouts that fold it.

pub mod layouts;
pub mod records;
pub mod seeded;
