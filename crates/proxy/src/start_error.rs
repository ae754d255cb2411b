//! Why a proxy doesn't start.

use std::io;
use std::path::PathBuf;

use crate::address::ListenAddress;
use crate::takeover::TakeoverError;
use crate::tls::TlsError;

/// Why a proxy didn't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is nowhere to listen.
    #[error("nowhere to listen: name an address with --listen")]
    NoListener,
    /// Anyone could come in.
    #[error(
        "refusing to listen on {0}: other machines can reach it and clients need no password; configure users or a \
         password, listen on 127.0.0.1, or say --allow-open if the network keeps strangers out"
    )]
    Open(ListenAddress),
    /// Anyone could look in.
    #[error(
        "refusing to let operators in on {0}: other machines can reach it and whoever asks has to show nothing; name a \
         token's file by --admin-token-file, or use tls:// and name the authority of operators' certificates by \
         --admin-client-ca, or listen on 127.0.0.1"
    )]
    OpenToOperators(ListenAddress),
    /// An address can't be had.
    #[error("can't listen on {address}: {source}")]
    Bind {
        /// Which.
        address: ListenAddress,
        /// Why not.
        source: io::Error,
    },
    /// The operators' address can't be had.
    #[error("can't let operators in on {address}: {source}")]
    BindAdmin {
        /// Which.
        address: ListenAddress,
        /// Why not.
        source: io::Error,
    },
    /// A socket that this process was started with is at no address that the configuration names.
    #[error(
        "this process was given a listening socket at {0}, which neither --listen nor --admin names, so that clients would wait \
         there for ever: name it there, or take it out of what starts keyfold (ListenStream= of keyfold.socket)"
    )]
    Unclaimed(String),
    /// Another keyfold runs and hands nothing over.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// Keyfolds that would take over can't ask.
    #[error("can't listen for the next keyfold on {}: {source}", path.display())]
    BindTakeover {
        /// Where (`--takeover`).
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A certificate is of no use.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system gives no randomness.
    #[error("the system has no randomness: {0}")]
    Randomness(#[from] getrandom::Error),
    /// A thread or its runtime didn't start.
    #[error("can't start a thread: {0}")]
    Thread(#[from] io::Error),
}
