//! What goes wrong between a question and its answer.

use std::sync::Arc;
use std::{fmt, io};

use keyfold_core::resp::ReplyError;
use keyfold_core::walk::WalkError;

/// What went wrong with a question.
#[derive(Clone, Debug)]
pub enum LinkError {
    /// The server's error, its code first.
    Refused(String),
    /// A reply of a kind that the question doesn't have.
    Unexpected(String),
    /// The connection broke, or what came is no reply.
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

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(text) | Self::Unexpected(text) => f.write_str(text),
            Self::Broken(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LinkError {}

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
