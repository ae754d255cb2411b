//! What each type of value looks like in a dump.

use std::io::Read;

use crate::error::DumpError;
use crate::input::Input;
use crate::packed::Packed;
use crate::part::Part;
use crate::text::Text;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A string.
    String(Text),
    /// Anything with elements.
    Collection(Collection),
}

/// A list, hash, set, sorted set or stream, or a module's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Its type.
    pub kind: Kind,
    /// How it was stored.
    pub form: Form,
    /// How many fields, members or entries it has; 0 of a module's.
    pub elements: u64,
    /// The bytes of its packed pieces, or of a module's value in the dump.
    pub packed_bytes: u64,
    /// How many packed pieces there are.
    pub pieces: u64,
}

/// A type of several elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hash.
    Hash,
    /// Set.
    Set,
    /// List.
    List,
    /// Sorted set.
    SortedSet,
    /// Stream.
    Stream,
    /// A module's own.
    Module,
}

/// How a collection was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A listpack.
    Listpack,
    /// A ziplist, before Redis 7.0.
    Ziplist,
    /// Integers.
    Intset,
    /// A table, or a skiplist with one.
    Table,
    /// Several packed pieces.
    Pieces,
    /// A module's.
    Unknown,
}

/// An element, as it is read: of hashes a field with its value, of sorted sets a member with its score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'b> {
    /// Whose it is.
    pub kind: Kind,
    /// How that was stored.
    pub form: Form,
    /// The member, field or entry.
    pub name: Part<'b>,
    /// The value or score.
    pub value: Option<Part<'b>>,
    /// When a hash's field expires, in milliseconds since 1970.
    pub expires_at_ms: Option<i64>,
}

/// Who is told of elements.
pub(crate) type Each<'e> = &'e mut dyn FnMut(Element<'_>);

/// What a stream has beside its entries, in the order in which every form of it has that: groups and their consumers by name, what
/// they were given by its identifier.
pub(crate) enum OfStream<'t> {
    LastId(u64, u64),
    Group {
        name: &'t Text,
        last_id: (u64, u64),
    },
    /// Given to a consumer of the group, and not acknowledged.
    Delivered {
        id: StreamId,
        at_ms: i64,
        times: u64,
    },
    Consumer(&'t Text),
    /// Where the time lies that only the third form has: when the consumer last got something.
    ActiveTime {
        at: u64,
    },
    /// One of what was delivered, to this consumer.
    Owns(StreamId),
}

/// Who is told of that.
pub(crate) type EachOfStream<'e> = &'e mut dyn FnMut(OfStream<'_>);

/// The numbers of types (`rdb.h`), as far as Redis 6.2 and later write or read them.
pub(crate) mod number {
    pub(crate) const STRING: u8 = 0;
    /// None writes it since Redis 3.2, and each reads it.
    pub(crate) const LIST: u8 = 1;
    pub(super) const SET: u8 = 2;
    pub(super) const HASH: u8 = 4;
    pub(crate) const SORTED_SET: u8 = 5;
    pub(super) const MODULE: u8 = 7;
    pub(super) const SET_INTSET: u8 = 11;
    pub(super) const SORTED_SET_ZIPLIST: u8 = 12;
    pub(super) const HASH_ZIPLIST: u8 = 13;
    pub(super) const LIST_ZIPLISTS: u8 = 14;
    pub(crate) const STREAM: u8 = 15;
    pub(super) const HASH_LISTPACK: u8 = 16;
    pub(super) const SORTED_SET_LISTPACK: u8 = 17;
    pub(super) const LIST_LISTPACKS: u8 = 18;
    pub(crate) const STREAM_2: u8 = 19;
    pub(super) const SET_LISTPACK: u8 = 20;
    pub(crate) const STREAM_3: u8 = 21;
    /// Valkey's from 9.0 on; Redis had another by this number before 7.4 was released.
    pub(crate) const HASH_WITH_EXPIRIES: u8 = 22;
    pub(crate) const HASH_METADATA: u8 = 24;
    pub(crate) const HASH_LISTPACK_EX: u8 = 25;
}

/// How the value of a module ends, and what it has before that.
mod module {
    pub(super) const END: u64 = 0;
    pub(super) const SIGNED: u64 = 1;
    pub(super) const UNSIGNED: u64 = 2;
    pub(super) const FLOAT: u64 = 3;
    pub(super) const DOUBLE: u64 = 4;
    pub(super) const STRING: u64 = 5;
}

pub(crate) const TIME_BYTES: u64 = 8;
/// An identifier as a stream's group has it.
pub(crate) type StreamId = [u8; 16];
/// A piece of a list that is one long string.
const PLAIN_PIECE: u64 = 1;

impl<R: Read> Input<R> {
    /// The value of this type, of which a string is kept up to so many bytes.
    pub(crate) fn value(
        &mut self,
        number: u8,
        is_valkey: bool,
        kept: usize,
        each: Each<'_>,
    ) -> Result<Value, DumpError> {
        use Form::{Intset, Listpack, Ziplist};
        use Kind::{Hash, List, Set, SortedSet};
        let collection = match number {
            number::STRING => return Ok(Value::String(self.text_up_to(kept)?)),
            number::LIST => self.table(List, each, |input| Ok((input.text()?, None, None)))?,
            number::SET => self.table(Set, each, |input| Ok((input.text()?, None, None)))?,
            number::HASH => self.table(Hash, each, |input| Ok((input.text()?, Some(input.text()?), None)))?,
            number::HASH_WITH_EXPIRIES if is_valkey => self.table(Hash, each, |input| {
                let (name, value) = (input.text()?, input.text()?);
                let at_ms = i64::from_le_bytes(input.array()?);
                Ok((name, Some(value), (at_ms >= 0).then_some(at_ms)))
            })?,
            number::HASH_METADATA => {
                // The earliest expiry; then those of fields, by one more than they are behind it.
                let first = i64::from_le_bytes(self.array()?);
                self.table(Hash, each, |input| {
                    let expires_at_ms = match input.length()? {
                        0 => None,
                        later => Some(first.saturating_add_unsigned(later - 1)),
                    };
                    Ok((input.text()?, Some(input.text()?), expires_at_ms))
                })?
            }
            number::SORTED_SET => self.table(SortedSet, each, |input| {
                let member = input.text()?;
                let score = f64::from_le_bytes(input.array()?).to_string().into_bytes();
                Ok((member, Some(Text { len: score.len() as u64, head: score }), None))
            })?,
            number::SET_INTSET => self.packed(Set, Intset, 1, each)?,
            number::SET_LISTPACK => self.packed(Set, Listpack, 1, each)?,
            number::HASH_LISTPACK => self.packed(Hash, Listpack, 2, each)?,
            number::HASH_ZIPLIST => self.packed(Hash, Ziplist, 2, each)?,
            number::HASH_LISTPACK_EX => {
                self.skip(TIME_BYTES)?;
                self.packed(Hash, Listpack, 3, each)?
            }
            number::SORTED_SET_LISTPACK => self.packed(SortedSet, Listpack, 2, each)?,
            number::SORTED_SET_ZIPLIST => self.packed(SortedSet, Ziplist, 2, each)?,
            number::LIST_ZIPLISTS => self.list(Ziplist, false, each)?,
            number::LIST_LISTPACKS => self.list(Listpack, true, each)?,
            number::STREAM | number::STREAM_2 | number::STREAM_3 => self.stream(number, &mut |_| {})?,
            number::MODULE => {
                let from = self.at();
                self.length()?;
                self.skip_module()?;
                let packed_bytes = self.at() - from;
                Collection { kind: Kind::Module, form: Form::Unknown, elements: 0, packed_bytes, pieces: 1 }
            }
            kind => return Err(DumpError::UnknownType { at: self.at() - 1, kind }),
        };
        Ok(Value::Collection(collection))
    }

    /// What a module wrote, up to its end.
    pub(crate) fn skip_module(&mut self) -> Result<(), DumpError> {
        loop {
            match self.length()? {
                module::END => return Ok(()),
                module::SIGNED | module::UNSIGNED => drop(self.length()?),
                module::FLOAT => self.skip(4)?,
                module::DOUBLE => self.skip(8)?,
                module::STRING => self.skip_text()?,
                _ => return Err(self.damaged("a module's value that can't be read")),
            }
        }
    }

    fn table(
        &mut self,
        kind: Kind,
        each: Each<'_>,
        read: impl Fn(&mut Self) -> Result<(Text, Option<Text>, Option<i64>), DumpError>,
    ) -> Result<Collection, DumpError> {
        let form = Form::Table;
        let elements = self.length()?;
        for _ in 0..elements {
            let (name, value, expires_at_ms) = read(self)?;
            each(Element { kind, form, name: Part::of(&name), value: value.as_ref().map(Part::of), expires_at_ms });
        }
        Ok(Collection { kind, form, elements, packed_bytes: 0, pieces: 0 })
    }

    /// One packed piece, of whose entries so many make an element.
    fn packed(&mut self, kind: Kind, form: Form, width: u64, each: Each<'_>) -> Result<Collection, DumpError> {
        let bytes = self.whole_text()?;
        let elements = self.entries(kind, form, &bytes, width, each)?;
        Ok(Collection { kind, form, elements, packed_bytes: bytes.len() as u64, pieces: 1 })
    }

    fn entries(&self, kind: Kind, form: Form, bytes: &[u8], width: u64, each: Each<'_>) -> Result<u64, DumpError> {
        let mut list = match form {
            Form::Intset => Packed::intset(bytes),
            Form::Ziplist => Packed::ziplist(bytes),
            _ => Packed::listpack(bytes),
        };
        let mut elements = 0;
        while let Some(name) = list.next() {
            let value = if width > 1 { list.next() } else { None };
            let expiry = if width > 2 { list.next() } else { None };
            if width > 1 && value.is_none() || width > 2 && expiry.is_none() {
                return Err(self.damaged("a packed value whose last element is cut off"));
            }
            let expires_at_ms = match expiry {
                Some(Part::Integer(at_ms)) => (at_ms > 0).then_some(at_ms),
                Some(Part::Bytes { .. }) => return Err(self.damaged("a time that is no number")),
                None => None,
            };
            elements += 1;
            each(Element { kind, form, name, value, expires_at_ms });
        }
        if list.is_damaged() { Err(self.damaged("a packed value that can't be read")) } else { Ok(elements) }
    }

    fn list(&mut self, form: Form, has_containers: bool, each: Each<'_>) -> Result<Collection, DumpError> {
        let kind = Kind::List;
        let pieces = self.length()?;
        let mut list = Collection { kind, form: Form::Pieces, elements: 0, packed_bytes: 0, pieces };
        for _ in 0..pieces {
            if has_containers && self.length()? == PLAIN_PIECE {
                let text = self.text()?;
                let (form, name) = (Form::Pieces, Part::of(&text));
                each(Element { kind, form, name, value: None, expires_at_ms: None });
                list.packed_bytes += text.len;
                list.elements += 1;
            } else {
                let bytes = self.whole_text()?;
                list.elements += self.entries(kind, form, &bytes, 1, each)?;
                list.packed_bytes += bytes.len() as u64;
            }
        }
        // A short one isn't put together of pieces: before Redis 7.2 it was.
        list.form = if pieces == 1 && has_containers { form } else { Form::Pieces };
        Ok(list)
    }

    /// A stream of this type.
    pub(crate) fn stream(&mut self, number: u8, each: EachOfStream<'_>) -> Result<Collection, DumpError> {
        let (is_second, is_third) = (number >= number::STREAM_2, number >= number::STREAM_3);
        let pieces = self.length()?;
        let mut packed_bytes = 0;
        for _ in 0..pieces {
            self.skip_text()?;
            packed_bytes += self.text()?.len;
        }
        let elements = self.length()?;
        each(OfStream::LastId(self.length()?, self.length()?));
        // The first identifier, the highest deleted, and how many there ever were.
        self.skip_lengths(if is_second { 5 } else { 0 })?;
        for _ in 0..self.length()? {
            let name = self.text()?;
            each(OfStream::Group { name: &name, last_id: (self.length()?, self.length()?) });
            self.skip_lengths(if is_second { 1 } else { 0 })?;
            for _ in 0..self.length()? {
                let (id, at_ms) = (self.array()?, i64::from_le_bytes(self.array()?));
                each(OfStream::Delivered { id, at_ms, times: self.length()? });
            }
            for _ in 0..self.length()? {
                each(OfStream::Consumer(&self.text()?));
                self.skip(TIME_BYTES)?;
                if is_third {
                    each(OfStream::ActiveTime { at: self.at() });
                    self.skip(TIME_BYTES)?;
                }
                for _ in 0..self.length()? {
                    each(OfStream::Owns(self.array()?));
                }
            }
        }
        Ok(Collection { kind: Kind::Stream, form: Form::Pieces, elements, packed_bytes, pieces })
    }

    fn skip_lengths(&mut self, count: usize) -> Result<(), DumpError> {
        (0..count).try_for_each(|_| self.length().map(drop))
    }
}
