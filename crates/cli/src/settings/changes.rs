//! What another reading of the file would change.

use super::Settings;

/// An option whose value is another now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    /// What is in force, as a log shows it.
    pub(crate) in_force: String,
    /// What it is to be.
    pub(crate) next: String,
}

impl Settings {
    /// The options that `next` has other values of, in the order of help. Where their values come from is all the same.
    pub(crate) fn changes_to(&self, next: &Self) -> Vec<Change> {
        let pairs = self.all.iter().zip(&next.all);
        let changed = pairs.filter(|(now, next)| now.values != next.values);
        let change = |now: &super::Setting, next: &super::Setting| Change {
            name: now.option.name.clone(),
            in_force: now.shown(),
            next: next.shown(),
        };
        changed.map(|(now, next)| change(now, next)).collect()
    }

    /// Has these options say what `next` says; the others stay as they are.
    pub(crate) fn adopt(&mut self, next: &Self, names: &[&str]) {
        for (now, next) in self.all.iter_mut().zip(&next.all) {
            if names.contains(&now.option.name.as_str()) {
                now.clone_from(next);
            }
        }
    }
}
