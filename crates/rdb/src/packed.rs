//! Lists, hashes and sets that are one string: listpack, ziplist (before Redis 7.0), intset.

use crate::part::Part;

/// The entries of a listpack or ziplist, the members of an intset. It ends early where it is damaged: see [`Packed::is_damaged`].
#[derive(Debug)]
pub(crate) struct Packed<'b> {
    form: Packing,
    rest: &'b [u8],
    is_damaged: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Listpack,
    Ziplist,
    /// Integers of so many bytes.
    Intset(usize),
}

const LISTPACK_HEAD: usize = 6;
const ZIPLIST_HEAD: usize = 10;
const INTSET_HEAD: usize = 8;
const END: u8 = 0xff;

impl<'b> Packed<'b> {
    pub(crate) fn listpack(bytes: &'b [u8]) -> Self {
        Self::new(Packing::Listpack, bytes.get(LISTPACK_HEAD..))
    }

    pub(crate) fn ziplist(bytes: &'b [u8]) -> Self {
        Self::new(Packing::Ziplist, bytes.get(ZIPLIST_HEAD..))
    }

    pub(crate) fn intset(bytes: &'b [u8]) -> Self {
        match bytes.first() {
            Some(width @ (2 | 4 | 8)) => Self::new(Packing::Intset(usize::from(*width)), bytes.get(INTSET_HEAD..)),
            _ => Self::new(Packing::Intset(8), None),
        }
    }

    fn new(form: Packing, rest: Option<&'b [u8]>) -> Self {
        Self { form, rest: rest.unwrap_or_default(), is_damaged: rest.is_none() }
    }

    /// Whether it ended because it can't be read on.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// So many bytes, which are taken.
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    /// A signed integer of so many bytes, the lowest first.
    fn integer(&mut self, bytes: usize) -> Option<Part<'b>> {
        let taken = self.take(bytes)?;
        let sign = if taken.last()? & 0x80 == 0 { 0 } else { 0xff };
        let mut whole = [sign; 8];
        whole[..bytes].copy_from_slice(taken);
        Some(Part::Integer(i64::from_le_bytes(whole)))
    }

    fn string(&mut self, len: usize) -> Option<Part<'b>> {
        Some(Part::whole(self.take(len)?))
    }

    fn listpack_entry(&mut self) -> Option<Part<'b>> {
        let before = self.rest.len();
        let first = self.byte()?;
        let entry = match first {
            0..=0x7f => Part::Integer(i64::from(first)),
            0x80..=0xbf => self.string(usize::from(first & 0x3f))?,
            0xc0..=0xdf => {
                let bits = i64::from(first & 0x1f) << 8 | i64::from(self.byte()?);
                Part::Integer(if bits < 1 << 12 { bits } else { bits - (1 << 13) })
            }
            0xe0..=0xef => {
                let len = usize::from(first & 0xf) << 8 | usize::from(self.byte()?);
                self.string(len)?
            }
            0xf0 => {
                let len = u32::from_le_bytes(self.take(4)?.try_into().ok()?);
                self.string(usize::try_from(len).ok()?)?
            }
            0xf1 => self.integer(2)?,
            0xf2 => self.integer(3)?,
            0xf3 => self.integer(4)?,
            0xf4 => self.integer(8)?,
            _ => return None,
        };
        // Its length once more, for those who walk back.
        let back = match before - self.rest.len() {
            0..=127 => 1,
            128..=16_382 => 2,
            16_383..=2_097_150 => 3,
            2_097_151..=268_435_454 => 4,
            _ => 5,
        };
        self.take(back)?;
        Some(entry)
    }

    fn ziplist_entry(&mut self) -> Option<Part<'b>> {
        // How long the one before is.
        if self.byte()? == 0xfe {
            self.take(4)?;
        }
        let first = self.byte()?;
        match (first >> 6, first) {
            (0, _) => self.string(usize::from(first)),
            (1, _) => {
                let len = usize::from(first & 0x3f) << 8 | usize::from(self.byte()?);
                self.string(len)
            }
            (2, _) => {
                let len = u32::from_be_bytes(self.take(4)?.try_into().ok()?);
                self.string(usize::try_from(len).ok()?)
            }
            (_, 0xc0) => self.integer(2),
            (_, 0xd0) => self.integer(4),
            (_, 0xe0) => self.integer(8),
            (_, 0xf0) => self.integer(3),
            (_, 0xfe) => self.integer(1),
            (_, 0xf1..=0xfd) => Some(Part::Integer(i64::from(first & 0xf) - 1)),
            _ => None,
        }
    }
}

impl<'b> Iterator for Packed<'b> {
    type Item = Part<'b>;

    fn next(&mut self) -> Option<Part<'b>> {
        let is_over = match self.form {
            Packing::Intset(_) => self.rest.is_empty(),
            Packing::Listpack | Packing::Ziplist => self.rest == [END],
        };
        if is_over || self.is_damaged {
            return None;
        }
        let entry = match self.form {
            Packing::Listpack => self.listpack_entry(),
            Packing::Ziplist => self.ziplist_entry(),
            Packing::Intset(width) => self.integer(width),
        };
        self.is_damaged = entry.is_none();
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ziplist_as_redis_6_wrote_it() {
        // "name", 7, -3, 300, and a string of 100 bytes.
        let long = vec![b'x'; 100];
        let bytes = [
            &[0; 10][..],
            &[0, 4],
            b"name",
            &[6, 0xf8],
            &[2, 0xfe, 0xfd],
            &[3, 0xc0, 0x2c, 0x01],
            &[4, 0x40, 100],
            &long,
            &[END],
        ]
        .concat();
        let mut list = Packed::ziplist(&bytes);
        let entries: Vec<_> = list.by_ref().collect();
        let text = Part::whole(b"name");
        assert_eq!(entries, [text, Part::Integer(7), Part::Integer(-3), Part::Integer(300), Part::whole(&long)]);
        assert!(!list.is_damaged());
    }

    #[test]
    fn what_is_damaged_ends() {
        for bytes in [&[][..], &[0; 6], &[0, 0, 0, 0, 0, 0, 0x85, b'a', END], &[0, 0, 0, 0, 0, 0, 0xf9, 1, END]] {
            let mut list = Packed::listpack(bytes);
            assert_eq!(list.by_ref().count(), 0, "{bytes:?}");
            assert!(list.is_damaged(), "{bytes:?}");
        }
        let mut set = Packed::intset(&[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 7]);
        assert_eq!(set.next(), Some(Part::Integer(-1)));
        assert_eq!(set.next(), None);
        assert!(set.is_damaged() && Packed::intset(&[3, 0, 0, 0, 0, 0, 0, 0]).is_damaged());
    }
}
