//! Lengths, and strings in their encodings: as they are, as an integer, compressed by LZF.

use std::io::Read;

use keyfold_core::memory::ValueShape;

use crate::error::DumpError;
use crate::input::Input;

/// A string that is one whole list, hash or set is never longer, by any limit that a server takes.
const MOST_PACKED_BYTES: u64 = 1 << 32;

/// A string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// How long it is.
    pub len: u64,
    /// Its first bytes, all of them up to [`KEPT_BYTES`](crate::KEPT_BYTES); none of one that is longer and compressed.
    pub head: Vec<u8>,
}

impl Text {
    fn of(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u64, head: bytes }
    }

    /// All of it, where it was kept whole.
    pub fn whole(&self) -> Option<&[u8]> {
        (self.head.len() as u64 == self.len).then_some(&self.head[..])
    }

    /// As the memory model takes it.
    pub fn shape(&self) -> ValueShape {
        self.whole().map_or(ValueShape::Bytes(self.len), ValueShape::of)
    }
}

/// What stands where a string is to begin.
enum Encoding {
    Plain(u64),
    Integer(i64),
    Compressed { stored: u64, len: u64 },
}

const INTEGER_8: u8 = 0;
const INTEGER_16: u8 = 1;
const INTEGER_32: u8 = 2;
const LZF: u8 = 3;

/// A length, or how a string is encoded instead.
enum Length {
    Of(u64),
    Encoded(u8),
}

impl<R: Read> Input<R> {
    /// A length, or any other number that the format writes so.
    pub(crate) fn length(&mut self) -> Result<u64, DumpError> {
        match self.length_or_encoding()? {
            Length::Of(length) => Ok(length),
            Length::Encoded(_) => Err(self.damaged("a string where a number belongs")),
        }
    }

    fn length_or_encoding(&mut self) -> Result<Length, DumpError> {
        let first = self.byte()?;
        Ok(match (first >> 6, first) {
            (0, _) => Length::Of(u64::from(first)),
            (1, _) => Length::Of(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            (2, 0x80) => Length::Of(u64::from(u32::from_be_bytes(self.array()?))),
            (2, 0x81) => Length::Of(u64::from_be_bytes(self.array()?)),
            (2, _) => return Err(self.damaged("a length of no known form")),
            _ => Length::Encoded(first & 0x3f),
        })
    }

    fn encoding(&mut self) -> Result<Encoding, DumpError> {
        Ok(match self.length_or_encoding()? {
            Length::Of(length) => Encoding::Plain(length),
            Length::Encoded(INTEGER_8) => Encoding::Integer(i64::from(i8::from_le_bytes(self.array()?))),
            Length::Encoded(INTEGER_16) => Encoding::Integer(i64::from(i16::from_le_bytes(self.array()?))),
            Length::Encoded(INTEGER_32) => Encoding::Integer(i64::from(i32::from_le_bytes(self.array()?))),
            Length::Encoded(LZF) => Encoding::Compressed { stored: self.length()?, len: self.length()? },
            Length::Encoded(_) => return Err(self.damaged("a string of no known encoding")),
        })
    }

    /// A string, kept as far as those of this input are.
    pub(crate) fn text(&mut self) -> Result<Text, DumpError> {
        self.text_up_to(self.kept)
    }

    /// A string, kept up to so many bytes; an integer is kept whole.
    pub(crate) fn text_up_to(&mut self, kept: usize) -> Result<Text, DumpError> {
        match self.encoding()? {
            Encoding::Integer(integer) => Ok(Text::of(integer.to_string().into_bytes())),
            Encoding::Plain(len) => {
                let head = self.bytes(len.min(kept as u64))?;
                self.skip(len - head.len() as u64)?;
                Ok(Text { len, head })
            }
            Encoding::Compressed { stored, len } if len > kept as u64 => {
                self.skip(stored)?;
                Ok(Text { len, head: Vec::new() })
            }
            Encoding::Compressed { stored, len } => Ok(Text::of(self.decompressed(stored, len)?)),
        }
    }

    /// A string whose whole is needed: a key, or a packed list.
    pub(crate) fn whole_text(&mut self) -> Result<Vec<u8>, DumpError> {
        match self.encoding()? {
            Encoding::Integer(integer) => Ok(integer.to_string().into_bytes()),
            Encoding::Plain(len) | Encoding::Compressed { len, .. } if len > MOST_PACKED_BYTES => {
                Err(self.damaged("a string longer than any"))
            }
            Encoding::Plain(len) => self.bytes(len),
            Encoding::Compressed { stored, len } => self.decompressed(stored, len),
        }
    }

    pub(crate) fn skip_text(&mut self) -> Result<(), DumpError> {
        match self.encoding()? {
            Encoding::Integer(_) => Ok(()),
            Encoding::Plain(len) | Encoding::Compressed { stored: len, .. } => self.skip(len),
        }
    }

    fn decompressed(&mut self, stored: u64, len: u64) -> Result<Vec<u8>, DumpError> {
        // What doesn't get shorter is not compressed, so that a length that was made up takes no memory.
        let bytes = if stored < len { decompress(&self.bytes(stored)?, len) } else { None };
        bytes.ok_or_else(|| self.damaged("a compressed string that can't be read"))
    }
}

/// LZF: runs as they are, and references to what is already there, `total` bytes in all. None where it refers to what isn't,
/// ends in the midst, or comes to more or less.
fn decompress(compressed: &[u8], total: u64) -> Option<Vec<u8>> {
    let (mut out, mut rest) = (Vec::new(), compressed);
    while let [control, behind @ ..] = rest {
        if out.len() as u64 > total {
            return None;
        }
        let control = usize::from(*control);
        rest = behind;
        if control < 32 {
            let (run, behind) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(run);
            rest = behind;
            continue;
        }
        let mut len = control >> 5;
        if len == 7 {
            let (more, behind) = rest.split_first()?;
            len += usize::from(*more);
            rest = behind;
        }
        let (low, behind) = rest.split_first()?;
        rest = behind;
        let back = (control & 31) << 8 | usize::from(*low);
        let from = out.len().checked_sub(back + 1)?;
        // It may reach into what it writes itself.
        for at in from..from + len + 2 {
            out.push(out[at]);
        }
    }
    (out.len() as u64 == total).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::KEPT_BYTES;

    fn text(bytes: &[u8]) -> Result<Text, DumpError> {
        Input::new(bytes).text()
    }

    #[test]
    fn strings_in_each_encoding() {
        assert_eq!(text(b"\x03abc").unwrap().whole(), Some(&b"abc"[..]));
        assert_eq!(text(&[0xc0, 0xff]).unwrap().head, b"-1");
        assert_eq!(text(&[0xc1, 0x00, 0x01]).unwrap().head, b"256");
        assert_eq!(text(&[0xc2, 0, 0, 0, 0x80]).unwrap().head, b"-2147483648");
        // Ten times the same byte.
        assert_eq!(text(&[0xc3, 5, 10, 0, b'x', 0xe0, 0, 0]).unwrap().head, b"xxxxxxxxxx");
        let long = [&[0x80, 0, 2, 0, 0][..], &vec![b'y'; 0x20000]].concat();
        let long = text(&long).unwrap();
        assert_eq!((long.len, long.head.len(), long.whole()), (0x20000, KEPT_BYTES, None));
    }

    #[test]
    fn what_is_cut_off_or_strange_is_an_error_and_takes_no_memory() {
        for strange in [
            &b"\x05ab"[..],
            b"",
            &[0xc4],
            &[0x82],
            &[0xc3, 2, 10, 0x20, 0],
            &[0x81, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        ] {
            assert!(text(strange).is_err(), "{strange:?}");
        }
        assert_eq!(decompress(&[0x20, 0], 3), None);
        assert_eq!(decompress(&[31, 1], 32), None);
        assert_eq!(decompress(&[], 0), Some(Vec::new()));
        // One byte again and again, a hundred times as much as it says.
        let swollen = [&[0, b'x'][..], &[0xe0, 0xff, 0].repeat(100)].concat();
        assert_eq!(decompress(&swollen, 264), None);
        assert_eq!(decompress(&swollen, 1 + 100 * 264).unwrap().len(), 26_401);
        assert!(text(&[0xc3, 5, 4, 0, b'x', 0xe0, 0, 0]).is_err());
    }
}
