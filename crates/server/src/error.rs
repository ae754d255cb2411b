//! What goes wrong between a question and its answer.

use std::io;
use std::sync::Arc;

use keyfold_core::resp::ReplyError;
use keyfold_core::walk::WalkError;

/// What went wrong with a question.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LinkError {
    /// The server's error, its code first.
    #[error("{0}")]
    Refused(String),
    /// A reply of a kind that the question doesn't have.
    #[error("{0}")]
    Unexpected(String),
    /// The connection broke, or what came is no reply.
    #[error("{0}")]
    Broken(Arc<io::Error>),
}

impl LinkError {
    /// The server's error, as it stands in a reply.
    pub(crate) fn refused(text: &[u8]) -> Self {
        Self::Refused(String::from_utf8_lossy(text).into_owned())
    }

    /// The code of the server's error; empty where it is none.
    pub fn code(&self) -> &str {
        match self {
            Self::Refused(text) => text.split(' ').next().unwrap_or_default(),
            _ => "",
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Broken(Arc::new(error))
    }
}

impl From<ReplyError> for LinkError {
    fn from(error: ReplyError) -> Self {
        io::Error::other(error).into()
    }
}

impl From<WalkError> for LinkError {
    fn from(error: WalkError) -> Self {
        match error {
            WalkError::Refused(text) => Self::refused(&text),
            WalkError::Strange => Self::Unexpected(error.to_string()),
        }
    }
}
