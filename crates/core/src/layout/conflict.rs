//! Why a file can't be brought to the layout in use.

use std::fmt;

use super::Epoch;

/// A file that doesn't fit the layout in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutConflict {
    /// The epoch of the layout in use.
    pub epoch: Epoch,
    /// Every difference that can't be.
    pub conflicts: Vec<Conflict>,
}

/// One difference that can't be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The namespace's template.
    pub keys: String,
    /// The line of the layout in use.
    pub in_use: String,
    /// The line of the file.
    pub in_file: String,
    /// Why it can't be, and what to do.
    pub advice: &'static str,
}

impl std::error::Error for LayoutConflict {}

impl fmt::Display for LayoutConflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file does not fit the layout in use (epoch {}):", self.epoch)?;
        for conflict in &self.conflicts {
            let Conflict { keys, in_use, in_file, advice } = conflict;
            write!(f, "\n\n  {keys}\n    in use:  {in_use}\n    in file: {in_file}\n    {advice}")?;
        }
        Ok(())
    }
}
