//! Who of a group of servers is the primary, as Sentinels tell it.
//!
//! - [`Sentinels`]: whom to ask, for which primary.
//! - [`Search`]: the way from the first question to a server that says itself that it is the primary.
//! - [`NoPrimary`]: what each Sentinel said where there is none.
//! - [`Role`]: what a server says that it is.
//! - [`News`]: what Sentinels tell unasked.

mod answer;
mod news;
mod search;
mod trouble;

use std::fmt;

pub use answer::Role;
pub use news::News;
pub use search::{Course, Primary, Search};
pub use trouble::{NoPrimary, Trouble};

use crate::cluster::Endpoint;

/// Whom to ask, and for which primary.
#[derive(Clone, PartialEq, Eq)]
pub struct Sentinels {
    /// Where they are.
    pub endpoints: Vec<Endpoint>,
    /// The name by which they know the primary.
    pub name: String,
    /// Their own user; `default` where a password comes without one.
    pub user: Option<String>,
    /// Their own password.
    pub password: Option<String>,
}

impl fmt::Display for Sentinels {
    /// As in a URL: `a:26379,b:26379/main`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            write!(f, "{}{endpoint}", if index == 0 { "" } else { "," })?;
        }
        write!(f, "/{}", self.name)
    }
}

impl fmt::Debug for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sentinels({self}, user {:?})", self.user)
    }
}
