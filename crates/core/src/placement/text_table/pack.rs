//! Text to codes and back, see the room's head.

use smallvec::SmallVec;

use super::TextTable;
use super::matcher::BLOCK_BYTES;
use crate::placement::Field;

/// The code before a byte that no symbol spells.
pub(super) const ESCAPE: u8 = 0xff;
/// Before text as it is.
pub(super) const RAW: u8 = 0xfe;

/// Unpacked text. Up to 128 bytes take no allocation.
pub(in crate::placement) type Unpacked = SmallVec<[u8; 128]>;

impl TextTable {
    /// Appends the packed form of `text`.
    pub(in crate::placement) fn pack(&self, text: &[u8], out: &mut Field) {
        let start = out.len();
        for block in text.chunks(BLOCK_BYTES) {
            self.matcher.spell(block, |symbol, bytes| match symbol {
                Some(symbol) => out.push(self.codes[usize::from(symbol)]),
                None => out.extend_from_slice(&[ESCAPE, bytes[0]]),
            });
        }
        if out.len() - start > text.len() {
            out.truncate(start);
            out.push(RAW);
            out.extend_from_slice(text);
        }
    }

    /// The same for a text that is a whole field: a decimal number stays one, where that is no longer.
    pub(in crate::placement) fn pack_alone(&self, text: &[u8], out: &mut Field) {
        let start = out.len();
        self.pack(text, out);
        if let Some(number_bytes) = self.number_bytes(text)
            && number_bytes <= 1 + out.len() - start
        {
            out.truncate(start);
            out.extend_from_slice(text);
        }
    }

    /// The text that [`Self::pack`] or [`Self::pack_alone`] packed. Other bytes may give some too.
    pub(in crate::placement) fn unpack(&self, packed: &[u8]) -> Option<Unpacked> {
        if let Some((&RAW, text)) = packed.split_first() {
            return Some(Unpacked::from_slice(text));
        }
        let mut text = Unpacked::new();
        let mut rest = packed;
        while let Some(&code) = rest.split_off_first() {
            if code == ESCAPE {
                text.push(*rest.split_off_first()?);
                continue;
            }
            let (len, bytes) = &self.spelled[usize::from(code)];
            text.extend_from_slice(bytes.get(..usize::from(*len)).filter(|bytes| !bytes.is_empty())?);
        }
        Some(text)
    }

    /// What a text takes in a listpack as a number, its head included; none where it isn't one, or where its
    /// characters aren't their own codes.
    fn number_bytes(&self, text: &[u8]) -> Option<usize> {
        let number = canonical_number(text)?;
        let is_own = |character: &u8| self.spelled[usize::from(*character)] == (1, one(*character));
        text.iter().all(is_own).then_some(match number {
            0..=127 => 1,
            -4096..=4095 => 2,
            -32_768..=32_767 => 3,
            -8_388_608..=8_388_607 => 4,
            -2_147_483_648..=2_147_483_647 => 5,
            _ => 9,
        })
    }
}

fn one(byte: u8) -> [u8; super::MOST_SYMBOL_BYTES] {
    let mut bytes = [0; super::MOST_SYMBOL_BYTES];
    bytes[0] = byte;
    bytes
}

/// The number that a listpack would store for these bytes.
pub(super) fn canonical_number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [] => false,
        [b'0'] => text.len() == 1,
        [first, ..] => *first != b'0' && digits.iter().all(u8::is_ascii_digit),
    };
    is_canonical.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}
