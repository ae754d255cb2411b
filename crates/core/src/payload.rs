//! A value as DUMP gives it, and RESTORE takes it: the number of its type, lengths and texts, a version, a checksum.
//!
//! Servers have several forms of each type, as they keep it in memory. The plainest of them, a length and texts, is one that each
//! server has always read; that is what is written here, and read without a server. (`rdb.h`, `rdb.c` and `cluster.c` of Redis 7.0.)

use std::borrow::Cow;

use crc::{CRC_64_REDIS, Crc, Table};

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// The version of what every server reads.
pub const OLDEST_VERSION: u16 = 9;

const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;

/// The first two bits of a length say that a text is encoded instead, and the others how.
const ENCODED: u8 = 0xc0;

/// A payload being written.
#[derive(Clone, Debug)]
pub struct PayloadWriter {
    bytes: Vec<u8>,
}

impl PayloadWriter {
    /// Of a value whose type has this number.
    pub fn new(kind: u8) -> Self {
        Self { bytes: vec![kind] }
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// A length and these bytes.
    pub fn text(&mut self, text: &[u8]) {
        self.length(text.len() as u64);
        self.raw(text);
    }

    /// A length in six, fourteen, 32 or 64 bits.
    #[expect(clippy::cast_possible_truncation, reason = "each within its bounds")]
    pub fn length(&mut self, len: u64) {
        match len {
            0..0x40 => self.bytes.push(len as u8),
            0x40..0x4000 => self.raw(&(0x4000 | len as u16).to_be_bytes()),
            0x4000..0x1_0000_0000 => {
                self.bytes.push(0x80);
                self.raw(&(len as u32).to_be_bytes());
            }
            _ => {
                self.bytes.push(0x81);
                self.raw(&len.to_be_bytes());
            }
        }
    }

    /// The whole, for servers that read this version.
    pub fn finish(mut self, version: u16) -> Vec<u8> {
        self.raw(&version.to_le_bytes());
        let sum = CRC.checksum(&self.bytes);
        self.raw(&sum.to_le_bytes());
        self.bytes
    }
}

/// What a payload says, as far as it has not been read yet.
#[derive(Clone, Debug)]
pub struct PayloadReader<'p> {
    /// The number of the value's type, which it begins with.
    pub kind: u8,
    /// Whose versions read it.
    pub version: u16,
    /// The value.
    pub rest: &'p [u8],
}

impl<'p> PayloadReader<'p> {
    /// None where it is cut off, or the checksum isn't that of its bytes.
    pub fn open(payload: &'p [u8]) -> Option<Self> {
        let (summed, sum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
        let (body, version) = summed.split_last_chunk::<VERSION_BYTES>()?;
        let (&kind, rest) = body.split_first()?;
        let version = u16::from_le_bytes(*version);
        (CRC.checksum(summed) == u64::from_le_bytes(*sum)).then_some(Self { kind, version, rest })
    }

    /// So many bytes as they are.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*array)
    }

    pub(crate) fn length(&mut self) -> Option<u64> {
        let [first] = self.array()?;
        Some(match (first >> 6, first) {
            (0, _) => u64::from(first),
            (1, _) => u64::from(first & 0x3f) << 8 | u64::from(self.array::<1>()?[0]),
            (2, 0x80) => u64::from(u32::from_be_bytes(self.array()?)),
            (2, 0x81) => u64::from_be_bytes(self.array()?),
            _ => return None,
        })
    }

    /// A text as it is, or one that is stored as an integer; none where it is compressed.
    pub(crate) fn text(&mut self) -> Option<Cow<'p, [u8]>> {
        let integer = match self.rest.first()? {
            first if *first < ENCODED => {
                let len = usize::try_from(self.length()?).ok()?;
                let (text, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                return Some(Cow::Borrowed(text));
            }
            _ => match self.array()? {
                [0xc0] => i32::from(i8::from_le_bytes(self.array()?)),
                [0xc1] => i32::from(i16::from_le_bytes(self.array()?)),
                [0xc2] => i32::from_le_bytes(self.array()?),
                _ => return None,
            },
        };
        Some(Cow::Owned(integer.to_string().into_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let long = vec![b'x'; 0x4000];
        let mut writer = PayloadWriter::new(2);
        let lengths = [0, 0x3f, 0x40, 0x3fff, 0x4000, 0xffff_ffff, 0x1_0000_0000, u64::MAX];
        lengths.into_iter().for_each(|length| writer.length(length));
        writer.text(&long);
        writer.raw(&[0xc0, 0xff, 0xc1, 0, 1, 0xc2, 0, 0, 0, 0x80]);
        let payload = writer.finish(OLDEST_VERSION);
        let mut reader = PayloadReader::open(&payload).unwrap();
        assert_eq!((reader.kind, reader.version), (2, OLDEST_VERSION));
        assert_eq!(lengths.map(|_| reader.length().unwrap()), lengths);
        assert_eq!(reader.text().unwrap(), &long[..]);
        for integer in ["-1", "256", "-2147483648"] {
            assert_eq!(reader.text().unwrap(), integer.as_bytes());
        }
        assert_eq!((reader.rest, reader.length(), reader.text()), (&b""[..], None, None));
    }

    #[test]
    fn what_is_damaged_or_cut_off_is_not_read() {
        let mut writer = PayloadWriter::new(0);
        writer.text(b"value");
        let payload = writer.finish(OLDEST_VERSION);
        for at in 0..payload.len() {
            assert!(PayloadReader::open(&payload[..at]).is_none(), "{at}");
            let mut other = payload.clone();
            other[at] ^= 1;
            assert!(PayloadReader::open(&other).is_none(), "{at}");
        }
        for strange in [&b"\x05ab"[..], &[0xc3, 5, 10, 0, b'x', 0xe0, 0, 0], &[0xc1, 1], &[0x82], &[0x81, 1]] {
            let mut reader = PayloadReader { kind: 0, version: OLDEST_VERSION, rest: strange };
            assert_eq!(reader.text(), None, "{strange:?}");
        }
    }
}
