//! What may go wrong with a cluster under test.

use std::io;

use crate::patience::Impatient;
use crate::server::StartError;
use crate::wire::WireError;

/// Why a cluster does not do what it was told.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A node does not start.
    #[error("{node}: {source}")]
    Start {
        /// Its name.
        node: String,
        /// Why.
        source: StartError,
    },
    /// The system gives no port, or no signal gets through.
    #[error("{node}: {source}")]
    System {
        /// Its name.
        node: String,
        /// What the system said.
        source: io::Error,
    },
    /// A node does not answer.
    #[error("{node} does not answer {command}: {source}")]
    Wire {
        /// Its name.
        node: String,
        /// What it was told.
        command: String,
        /// Why.
        source: WireError,
    },
    /// A node answers by an error.
    #[error("{node} answers {command} by: {error}")]
    Refused {
        /// Its name.
        node: String,
        /// What it was told.
        command: String,
        /// What it said.
        error: String,
    },
    /// A node is frozen or killed.
    #[error("{node} is away and cannot be told {command}")]
    Away {
        /// Its name.
        node: String,
        /// What it was to be told.
        command: String,
    },
    /// A node answers something else than nodes do.
    #[error("{node} answers {command} by what nobody understands: {reply}")]
    Strange {
        /// Its name.
        node: String,
        /// What it was told.
        command: String,
        /// The answer.
        reply: String,
    },
    /// No node that can be reached serves a slot.
    #[error("no node that can be reached owns slot {0}")]
    Unowned(u16),
    /// A slot was to move in a way that the server does not have.
    #[error("{0} moves slots key by key only")]
    NotAtomic(String),
    /// The nodes did not come to agree in time.
    #[error(transparent)]
    Impatient(#[from] Impatient),
}
