//! A secret that decides which bucket a key falls into.
//!
//! *count* spreads keys by a hash that anybody can compute, so whoever may choose keys can choose them all for one
//! bucket. Under a secret the hash is SipHash-1-3 with a key made of it. That is what languages use for tables whose keys
//! strangers choose: a pseudorandom function, of which nobody learns the next result from those that were seen, which
//! the hash without a secret is not, whatever its seed.
//!
//! ```text
//! file's bytes ──SHA-256, "keyfold bucket key 1"──────────▶ 16 bytes   SipHash's key; never written anywhere
//!              ──SHA-256, "keyfold secret fingerprint 1"──▶ 8 bytes    its name, in layouts and in names' hashes
//! ```
//! The secret is kept by the operator in a file, not in the server: without it nobody knows in which bucket a key lies.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use siphasher::sip::SipHasher13;

/// The fewest bytes of a secret: 128 bits, where all of them are chance.
const LEAST_BYTES: usize = 16;

/// The name of a secret, which tells it from others and nothing of what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 8]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// No fingerprint of a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret's fingerprint is 16 hexadecimal digits")]
pub struct NoFingerprint;

impl FromStr for Fingerprint {
    type Err = NoFingerprint;

    fn from_str(text: &str) -> Result<Self, NoFingerprint> {
        let bits = u64::from_str_radix(text, 16).map_err(|_| NoFingerprint)?;
        let fingerprint = Self(bits.to_be_bytes());
        if fingerprint.to_string() == text { Ok(fingerprint) } else { Err(NoFingerprint) }
    }
}

/// What is no secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret has {LEAST_BYTES} bytes at the least, and this one has {given}; make one with \
     `head -c 32 /dev/urandom | base64`"
)]
pub struct ShortSecret {
    /// How many bytes it has.
    pub given: usize,
}

/// A secret, as it is used.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: [u8; 16],
    fingerprint: Fingerprint,
}

impl Secret {
    /// The secret that a file holds: its bytes without the white space around them, which editors add.
    ///
    /// # Errors
    /// Fewer than 16 bytes.
    pub fn new(file: &[u8]) -> Result<Self, ShortSecret> {
        let bytes = file.trim_ascii();
        if bytes.len() < LEAST_BYTES {
            return Err(ShortSecret { given: bytes.len() });
        }
        Ok(Self {
            key: derived("keyfold bucket key 1", bytes),
            fingerprint: Fingerprint(derived("keyfold secret fingerprint 1", bytes)),
        })
    }

    /// Its name.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The hash of these bytes, which nobody knows without the secret.
    pub(super) fn hash(&self, bytes: &[u8]) -> u64 {
        SipHasher13::new_with_key(&self.key).hash(bytes)
    }
}

/// The first bytes of a sum over a purpose and the secret.
fn derived<const BYTES: usize>(purpose: &str, secret: &[u8]) -> [u8; BYTES] {
    let sum = Sha256::new().chain_update(purpose).chain_update([0]).chain_update(secret).finalize();
    std::array::from_fn(|at| sum[at])
}

/// Nothing of the key.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.fingerprint)
    }
}

/// The secrets that an operator gave. Several only while keys move from one to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets(Vec<Arc<Secret>>);

impl Secrets {
    /// The one that a file means which doesn't say which.
    pub fn first(&self) -> Option<&Arc<Secret>> {
        self.0.first()
    }

    /// The one of this name.
    pub fn find(&self, fingerprint: Fingerprint) -> Option<&Arc<Secret>> {
        self.0.iter().find(|secret| secret.fingerprint == fingerprint)
    }
}

impl FromIterator<Arc<Secret>> for Secrets {
    fn from_iter<I: IntoIterator<Item = Arc<Secret>>>(secrets: I) -> Self {
        Self(secrets.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys in buckets would be lost from sight, should one of these ever change.
    #[test]
    fn what_follows_from_a_secret_never_changes() {
        let secret = Secret::new(b"correct horse battery staple\n").unwrap();
        assert_eq!(secret.fingerprint().to_string(), "b791b24ba276e486");
        assert_eq!(format!("{:016x}", secret.hash(b"field")), "cc7013de0b061860");
        assert_eq!(format!("{secret:?}"), "Secret(b791b24ba276e486)");
    }

    #[test]
    fn white_space_around_it_counts_for_nothing() {
        let [one, other] = [&b"0123456789abcdef"[..], b"\n0123456789abcdef\r\n"].map(|file| Secret::new(file).unwrap());
        assert_eq!(one, other);
        assert_ne!(one, Secret::new(b"0123456789abcdeF").unwrap());
        assert_eq!(Secret::new(b"0123456789abcde\n\n"), Err(ShortSecret { given: 15 }));
    }

    #[test]
    fn fingerprints_are_read_back() {
        let fingerprint = Secret::new(b"0123456789abcdef").unwrap().fingerprint();
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        for text in ["", "12", "+123456789abcdef", "0123456789ABCDEF", "0123456789abcdef0"] {
            assert_eq!(text.parse::<Fingerprint>(), Err(NoFingerprint), "{text}");
        }
    }
}
