//! Which of a client's later requests wait until an earlier one is answered.

use crate::command::{Categories, Keys};
use crate::session::Plan;
use crate::session::route::Route;

/// Which of a client's later requests wait until this one is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// None: nothing is written after the commands that are sent at once.
    Nothing,
    /// Those that concern one of its keys, and those that concern more than keys: it may write these keys in a second
    /// round trip, and nothing else.
    SameKeys,
    /// All.
    All,
}

impl Plan {
    /// The keys that the request concerns; none where it may concern anything else: other keys, other clients, the
    /// connection.
    pub(crate) fn keys(&self, args: &[&[u8]]) -> Option<Keys> {
        let command = self.command.filter(|command| !command.categories.contains(Categories::SCRIPTING))?;
        let is_of_keys = matches!(
            self.route,
            Route::One { .. } | Route::Many { .. } | Route::Rewrite(_) | Route::Foreign { .. } | Route::PassOn
        );
        Some(command.keys_in(args)).filter(|keys| is_of_keys && keys.len() > 0 && !keys.is_open())
    }
}
