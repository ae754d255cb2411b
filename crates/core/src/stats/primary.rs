//! The primary that Sentinels name, as INFO shows it.

use std::sync::{Mutex, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cluster::Endpoint;
use crate::sentinel::{Primary, Sentinels};

/// Who named which server, and how often that became another.
#[derive(Debug, Default)]
pub struct PrimaryState {
    shown: Mutex<Option<Shown>>,
}

#[derive(Debug)]
struct Shown {
    sentinels: String,
    /// Others that these told of.
    others: Vec<Endpoint>,
    /// The one that was found last; none where the last search found none.
    primary: Option<Primary>,
    /// The one before that, as far as there was any.
    last: Option<Primary>,
    changes: u64,
}

impl PrimaryState {
    /// Notes what a search came to.
    pub fn note(&self, sentinels: &Sentinels, others: &[Endpoint], found: Option<&Primary>) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = shown.get_or_insert_with(|| Shown {
            sentinels: sentinels.to_string(),
            others: Vec::new(),
            primary: None,
            last: None,
            changes: 0,
        });
        if shown.others != others {
            shown.others = others.to_vec();
        }
        if let Some(found) = found {
            let is_other = shown.last.as_ref().is_some_and(|last| last.endpoint != found.endpoint);
            shown.changes += u64::from(is_other);
            shown.last = Some(found.clone());
        }
        shown.primary = found.cloned();
    }

    /// What is to be said of it; none where no Sentinels are asked.
    pub fn status(&self) -> Option<SentinelStatus> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Shown { sentinels, others, primary, changes, .. } = shown.as_ref()?;
        let primary = primary.as_ref().map(|Primary { endpoint, epoch, named_by }| PrimaryStatus {
            address: endpoint.to_string(),
            named_by: named_by.to_string(),
            epoch: *epoch,
        });
        let found = others.iter().map(ToString::to_string).collect();
        Some(SentinelStatus { asked: sentinels.clone(), found, primary, changes: *changes })
    }
}

/// The Sentinels that are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SentinelStatus {
    /// Where they are, and the name by which they know the primary: `a:26379,b:26379/main`.
    pub asked: String,
    /// Others that these told of.
    pub found: Vec<String>,
    /// The primary that was found last; none where the last search found none.
    pub primary: Option<PrimaryStatus>,
    /// How often the primary became another.
    pub changes: u64,
}

/// The primary that Sentinels name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PrimaryStatus {
    /// Where it is.
    pub address: String,
    /// By whose word.
    pub named_by: String,
    /// In which epoch of the Sentinels.
    pub epoch: u64,
}

impl SentinelStatus {
    /// Lines of INFO.
    pub(crate) fn lines(&self) -> String {
        let Self { asked, found, primary, changes } = self;
        let primary = match primary {
            Some(PrimaryStatus { address, named_by, epoch }) => {
                format!("address={address},named_by={named_by},epoch={epoch}")
            }
            None => "address=none".to_owned(),
        };
        let found = match found.is_empty() {
            true => String::new(),
            false => format!("keyfold_sentinels_found:{}\r\n", found.join(",")),
        };
        format!("keyfold_sentinels:{asked}\r\n{found}keyfold_primary:{primary},changes={changes}\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_counted_over_gaps() {
        let endpoints = ["a:1", "b:2"].map(|text| text.parse().unwrap()).to_vec();
        let sentinels = Sentinels { endpoints, name: "main".to_owned(), user: None, password: None };
        let primary = |at: &str, named_by: &str| Primary {
            endpoint: at.parse().unwrap(),
            epoch: 1,
            named_by: named_by.parse().unwrap(),
        };
        let state = PrimaryState::default();
        assert_eq!(state.status(), None);
        state.note(&sentinels, &[], Some(&primary("p:7", "a:1")));
        state.note(&sentinels, &[], None);
        let none = "keyfold_sentinels:a:1,b:2/main\r\nkeyfold_primary:address=none,changes=0\r\n";
        assert_eq!(state.status().unwrap().lines(), none);
        let others = ["c:3", "[::1]:4"].map(|text| text.parse().unwrap());
        state.note(&sentinels, &others, Some(&primary("q:7", "b:2")));
        let lines = state.status().unwrap().lines();
        assert!(lines.contains("/main\r\nkeyfold_sentinels_found:c:3,[::1]:4\r\n"), "{lines}");
        assert!(lines.ends_with("keyfold_primary:address=q:7,named_by=b:2,epoch=1,changes=1\r\n"), "{lines}");
    }
}
