//! What operators show to be let in.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// A token of fewer bytes is guessed too soon.
const LEAST_BYTES: usize = 16;

/// What authorization by a token begins with, in any case (RFC 6750).
const BEARER: &[u8] = b"bearer ";

/// What authorization by a password begins with, in any case (RFC 7617): what browsers can show.
const BASIC: &[u8] = b"basic ";

/// A token that is of no use.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Its file can't be read.
    #[error("can't read the operators' token from {path}: {source}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is soon guessed.
    #[error(
        "the operators' token in {0} has fewer than {LEAST_BYTES} bytes; write a random one on its first line, as \
         `openssl rand -hex 32` gives it"
    )]
    TooShort(PathBuf),
}

/// What operators have to show. It may be replaced while the proxy runs, by what its file says then.
#[derive(Clone)]
pub struct AdminToken {
    path: PathBuf,
    /// Its SHA-256: comparing that takes as long for any guess, of any length.
    digest: Arc<RwLock<[u8; 32]>>,
}

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminToken").field("path", &self.path).finish_non_exhaustive()
    }
}

impl AdminToken {
    /// The first line of a file, without white space around it.
    ///
    /// # Errors
    /// It can't be read, or is soon guessed.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        Ok(Self { path: path.to_owned(), digest: Arc::new(RwLock::new(read_digest(path)?)) })
    }

    /// Reads the file again; what was read before stays where it is of no use.
    ///
    /// # Errors
    /// It can't be read, or is soon guessed.
    pub fn reload(&self) -> Result<(), TokenError> {
        let next = read_digest(&self.path)?;
        *self.digest.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// Whether a request shows it that authorizes itself so: as a bearer's token, or as the password of any user.
    pub(crate) fn is_shown(&self, authorization: &[u8]) -> bool {
        if let Some(token) = behind(authorization, BEARER) {
            return self.is(token);
        }
        let Some(Ok(both)) = behind(authorization, BASIC).map(|both| STANDARD.decode(both)) else { return false };
        // The user's name has no colon in it.
        let colon = both.iter().position(|byte| *byte == b':');
        colon.is_some_and(|colon| self.is(&both[colon + 1..]))
    }

    fn is(&self, token: &[u8]) -> bool {
        let own = *self.digest.read().unwrap_or_else(PoisonError::into_inner);
        own.ct_eq(&<[u8; 32]>::from(Sha256::digest(token.trim_ascii()))).into()
    }
}

/// What stands behind the name of a scheme, white space aside.
fn behind<'v>(authorization: &'v [u8], scheme: &[u8]) -> Option<&'v [u8]> {
    let (name, rest) = authorization.split_at_checked(scheme.len())?;
    name.eq_ignore_ascii_case(scheme).then(|| rest.trim_ascii())
}

fn read_digest(path: &Path) -> Result<[u8; 32], TokenError> {
    let text = std::fs::read(path).map_err(|source| TokenError::Unreadable { path: path.to_owned(), source })?;
    let token = text.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    if token.len() < LEAST_BYTES {
        return Err(TokenError::TooShort(path.to_owned()));
    }
    Ok(Sha256::digest(token).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_the_first_line_and_nothing_else_is() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "  0123456789abcdef \r\nanother\n").unwrap();
        let token = AdminToken::read(file.path()).unwrap();
        let is_shown = |value: &str| token.is_shown(value.as_bytes());
        assert!(is_shown("Bearer 0123456789abcdef") && is_shown("bearer  0123456789abcdef"));
        for wrong in ["", "Bearer", "Bearer ", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer 0123456789abcdeF"]
        {
            assert!(!is_shown(wrong), "{wrong}");
        }
        let basic = |both: &str| format!("Basic {}", STANDARD.encode(both));
        for user in ["", "operator", "x y"] {
            assert!(is_shown(&basic(&format!("{user}:0123456789abcdef"))), "{user}");
        }
        assert!(is_shown(&basic("a:0123456789abcdef").replace("Basic", "bASIC")));
        for wrong in ["0123456789abcdef", "0123456789abcdef:", "a:b:0123456789abcdef", "a:", "a:0123456789abcdeF"] {
            assert!(!is_shown(&basic(wrong)), "{wrong}");
        }
        for wrong in ["Basic", "Basic ", "Basic ????", "Basic OjA=", "Basic \u{fffd}"] {
            assert!(!is_shown(wrong), "{wrong}");
        }
        assert!(!format!("{token:?}").contains("0123456789"));

        std::fs::write(file.path(), "too short").unwrap();
        assert!(matches!(token.reload(), Err(TokenError::TooShort(_))));
        assert!(is_shown("Bearer 0123456789abcdef"), "what there was stays");
        std::fs::write(file.path(), "another token of more bytes").unwrap();
        token.reload().unwrap();
        assert!(!is_shown("Bearer 0123456789abcdef") && is_shown("Bearer another token of more bytes"));
    }
}
