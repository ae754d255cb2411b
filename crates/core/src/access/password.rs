//! Passwords, kept as SHA-256 only, as Redis keeps them.

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::{Choice, ConstantTimeEq};

/// The SHA-256 of a password. Compared in constant time, and not printed.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Digest([u8; 32]);

impl Digest {
    pub(super) fn of(password: &[u8]) -> Self {
        Self(Sha256::digest(password).into())
    }

    /// Reads 64 lower-case hexadecimal digits, the only spelling that Redis takes.
    pub(super) fn parse(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut digest = [0; 32];
        if hex.len() != digest.len() * 2 {
            return None;
        }
        for (byte, pair) in digest.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(digest))
    }
}

impl Digest {
    /// As ACL LIST shows it.
    pub(super) fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl ConstantTimeEq for Digest {
    fn ct_eq(&self, other: &Self) -> Choice {
        self.0.ct_eq(&other.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_read_in_one_spelling() {
        let hex = b"5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8";
        let digest = Digest::parse(hex).unwrap();
        assert!(bool::from(digest.ct_eq(&Digest::of(b"password"))));
        assert!(!bool::from(digest.ct_eq(&Digest::of(b"Password"))));
        assert!(Digest::parse(&hex.to_ascii_uppercase()).is_none());
        assert!(Digest::parse(&hex[1..]).is_none());
        assert!(Digest::parse(&[hex.as_slice(), b"0"].concat()).is_none());
        assert!(Digest::parse(&[b'g'; 64]).is_none());
        assert!(Digest::parse(b"").is_none());
    }
}
