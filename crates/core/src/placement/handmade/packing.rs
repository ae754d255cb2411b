//! How values lie in handmade hashes.

use std::borrow::Cow;
use std::io::Read;

use flate2::bufread::ZlibDecoder;

/// No value of a server is longer by default (`proto-max-bulk-len`).
const MAX_BYTES: u64 = 512 << 20;

/// How values lie in handmade hashes: never as keyfold's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Packing {
    /// As they are.
    Raw,
    /// As `Zlib.deflate` writes them; what doesn't inflate is the value as it is, as the compressor of me-redis reads
    /// it. So counters, which its `me_incr` leaves as they are, are read too.
    Zlib,
}

/// A value that inflates to more than a server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it inflates to more than 512 MiB")]
pub struct TooLarge;

impl Packing {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Raw, Self::Zlib];

    /// Its name in a layout.
    pub fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Zlib => "zlib",
        }
    }

    /// The packing of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|packing| packing.name() == name)
    }

    /// The value that is stored like this.
    ///
    /// # Errors
    /// It inflates to more than a server takes.
    pub fn unpack(self, stored: &[u8]) -> Result<Cow<'_, [u8]>, TooLarge> {
        match self {
            Self::Raw => Ok(Cow::Borrowed(stored)),
            Self::Zlib => inflate(stored, MAX_BYTES),
        }
    }
}

fn inflate(stored: &[u8], max_bytes: u64) -> Result<Cow<'_, [u8]>, TooLarge> {
    let mut value = Vec::new();
    match ZlibDecoder::new(stored).take(max_bytes + 1).read_to_end(&mut value) {
        Ok(len) if len as u64 > max_bytes => Err(TooLarge),
        Ok(_) => Ok(Cow::Owned(value)),
        Err(_) => Ok(Cow::Borrowed(stored)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use proptest::prelude::*;

    use super::*;

    fn deflate(value: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(value).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn what_does_not_inflate_is_the_value() {
        // Zlib.deflate("111") in Ruby, and in everything else that uses zlib.
        let deflated = b"\x78\x9c\x33\x34\x34\x04\x00\x01\x29\x00\x94";
        assert_eq!(Packing::Zlib.unpack(deflated).unwrap().as_ref(), b"111");
        let cut = &deflated[..deflated.len() - 1];
        for stored in [b"".as_slice(), b"1", b"Cool!", b"x marks the spot", b"x\x9c", b"\x05\x01", cut] {
            assert_eq!(Packing::Zlib.unpack(stored).unwrap().as_ref(), stored, "{}", stored.escape_ascii());
            assert_eq!(Packing::Raw.unpack(stored).unwrap().as_ref(), stored);
        }
    }

    #[test]
    fn what_inflates_without_end_is_refused() {
        let stored = deflate(&[0; 10_000]);
        assert!(stored.len() < 100);
        assert_eq!(inflate(&stored, 9_999), Err(TooLarge));
        assert_eq!(inflate(&stored, 10_000).unwrap().len(), 10_000);
    }

    proptest! {
        #[test]
        fn deflated_values_come_back(value: Vec<u8>) {
            prop_assert_eq!(Packing::Zlib.unpack(&deflate(&value)).unwrap().into_owned(), value);
        }
    }
}
