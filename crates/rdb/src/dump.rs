//! The file: its head, what lies between keys, its checksum.

use std::io::Read;

use crate::error::DumpError;
use crate::input::{Input, KEPT_BYTES};
use crate::value::{Element, Value};

/// A key whose value has not been read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The number of its database.
    pub database: u32,
    /// The key.
    pub key: Vec<u8>,
    /// When it expires, since 1970; it may have expired since the dump was written.
    pub expires_at_ms: Option<i64>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The number of its database.
    pub database: u32,
    /// The key.
    pub key: Vec<u8>,
    /// When it expires, since 1970; it may have expired since the dump was written.
    pub expires_at_ms: Option<i64>,
    /// What it holds.
    pub value: Value,
}

/// What a server that evicts goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictsBy {
    /// When a key was used last (LRU).
    Time,
    /// How often it is used (LFU).
    Frequency,
}

/// What a dump says of itself, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Whether Valkey wrote it, by the file's first word or by what it says.
    pub is_valkey: bool,
    /// The format's version.
    pub format: u32,
    /// The server's version, such as `7.0.15`.
    pub server: Option<String>,
    /// When it was written, in seconds since 1970.
    pub written_at: Option<i64>,
    /// `used_memory` then.
    pub used_memory: Option<u64>,
    /// The databases that have begun, with the keys that each has, as the dump says beforehand.
    pub databases: Vec<(u32, u64)>,
    /// Whether it tells keys by slot: a cluster's node wrote it.
    pub has_slots: bool,
    /// Which use of keys the server evicts by, as far as keys said when they were used last, or how often: it tells where its
    /// `maxmemory-policy` goes by that.
    pub evicts_by: Option<EvictsBy>,
    /// Whether it is the beginning of an append-only file: what was written since stands behind it.
    pub is_of_append_only_file: bool,
}

/// What stands between keys (`rdb.h`).
mod code {
    pub(super) const SLOT_IMPORT: u8 = 243;
    pub(super) const SLOT_INFO: u8 = 244;
    pub(super) const FUNCTION: u8 = 245;
    pub(super) const MODULE_AUX: u8 = 247;
    pub(super) const IDLE: u8 = 248;
    pub(super) const FREQUENCY: u8 = 249;
    pub(super) const AUX: u8 = 250;
    pub(super) const RESIZE: u8 = 251;
    pub(super) const EXPIRES_MS: u8 = 252;
    pub(super) const EXPIRES_S: u8 = 253;
    pub(super) const DATABASE: u8 = 254;
    pub(super) const END: u8 = 255;
}

/// Since this format there is a checksum.
const CHECKSUM_SINCE: u32 = 5;

/// A dump that is being read.
pub struct Dump<R> {
    input: Input<R>,
    head: Head,
    database: u32,
    /// The code of what comes next, where it was read already.
    next: Option<u8>,
    /// The type of the value that comes next, where its key was read already.
    value: Option<u8>,
    is_over: bool,
}

/// Whether Valkey's, and the version.
fn format(first: [u8; 9]) -> Option<(bool, u32)> {
    let (is_valkey, digits) = match &first {
        [b'R', b'E', b'D', b'I', b'S', digits @ ..] => (false, &digits[..]),
        [b'V', b'A', b'L', b'K', b'E', b'Y', digits @ ..] => (true, &digits[..]),
        _ => return None,
    };
    Some((is_valkey, std::str::from_utf8(digits).ok()?.parse().ok()?))
}

impl<R: Read> Dump<R> {
    /// Reads the head, and all that is said before the first key.
    ///
    /// # Errors
    /// [`DumpError::NoDump`], or what reading says.
    pub fn open(reader: R) -> Result<Self, DumpError> {
        let mut input = Input::new(reader);
        let first = input.array().map_err(|error| match error {
            DumpError::CutOff(_) => DumpError::NoDump,
            other => other,
        })?;
        let (is_valkey, format) = format(first).ok_or(DumpError::NoDump)?;
        let head = Head { is_valkey, format, ..Head::default() };
        let mut dump = Self { input, head, database: 0, next: None, value: None, is_over: false };
        dump.next = dump.between()?;
        Ok(dump)
    }

    /// What it has said of itself by now.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// How many bytes have been read.
    pub fn read_bytes(&self) -> u64 {
        self.input.at()
    }

    /// The next key, and each element of its value before that; none at the end, once the checksum is right.
    ///
    /// # Errors
    /// Where it can't be read on. Nothing is known of what comes behind.
    pub fn next(&mut self, each: &mut dyn FnMut(Element<'_>)) -> Result<Option<Record>, DumpError> {
        let Some(Key { database, key, expires_at_ms }) = self.next_key()? else { return Ok(None) };
        let value = self.value(KEPT_BYTES, each)?;
        Ok(value.map(|value| Record { database, key, expires_at_ms, value }))
    }

    /// The next key alone; none at the end, once the checksum is right. A value that nobody asked for is passed over.
    ///
    /// # Errors
    /// Where it can't be read on. Nothing is known of what comes behind.
    pub fn next_key(&mut self) -> Result<Option<Key>, DumpError> {
        if let Some(kind) = self.value.take() {
            self.input.value(kind, self.head.is_valkey, 0, &mut |_| ())?;
        }
        let mut expires_at_ms = None;
        loop {
            let Some(code) = self.next.take().map_or_else(|| self.between(), |code| Ok(Some(code)))? else {
                return Ok(None);
            };
            match code {
                code::EXPIRES_MS => expires_at_ms = Some(i64::from_le_bytes(self.input.array()?)),
                code::EXPIRES_S => {
                    expires_at_ms = Some(i64::from(i32::from_le_bytes(self.input.array()?)).saturating_mul(1000));
                }
                code::IDLE => {
                    self.input.length()?;
                    self.head.evicts_by = Some(EvictsBy::Time);
                }
                code::FREQUENCY => {
                    self.input.byte()?;
                    self.head.evicts_by = Some(EvictsBy::Frequency);
                }
                kind => {
                    let key = self.input.whole_text()?;
                    self.value = Some(kind);
                    return Ok(Some(Key { database: self.database, key, expires_at_ms }));
                }
            }
        }
    }

    /// The value of the key that was read last, of which a string is kept up to `kept` bytes; before that each of its
    /// elements. None where it was read already.
    ///
    /// # Errors
    /// Where it can't be read on.
    pub fn value(&mut self, kept: usize, each: &mut dyn FnMut(Element<'_>)) -> Result<Option<Value>, DumpError> {
        let Some(kind) = self.value.take() else { return Ok(None) };
        self.input.value(kind, self.head.is_valkey, kept, each).map(Some)
    }

    /// Reads what is no key's, up to the code of what is; none at the end.
    fn between(&mut self) -> Result<Option<u8>, DumpError> {
        if self.is_over {
            return Ok(None);
        }
        loop {
            match self.input.byte()? {
                code::AUX => {
                    let (name, value) = (self.input.text()?, self.input.text()?);
                    self.note(&name.head, &String::from_utf8_lossy(&value.head));
                }
                code::DATABASE => {
                    let number = self.input.length()?;
                    self.database = u32::try_from(number).map_err(|_| self.input.damaged("a database beyond all"))?;
                }
                code::RESIZE => {
                    let keys = self.input.length()?;
                    self.head.databases.push((self.database, keys));
                    self.input.length()?;
                }
                code::SLOT_INFO => {
                    self.head.has_slots = true;
                    (0..3).try_for_each(|_| self.input.length().map(drop))?;
                }
                code::SLOT_IMPORT if self.head.is_valkey => {
                    self.input.skip_text()?;
                    for _ in 0..self.input.length()? {
                        (0..2).try_for_each(|_| self.input.length().map(drop))?;
                    }
                }
                code::FUNCTION => self.input.skip_text()?,
                code::MODULE_AUX => {
                    self.input.length()?;
                    self.input.skip_module()?;
                }
                code::END => {
                    self.check()?;
                    self.is_over = true;
                    return Ok(None);
                }
                other => return Ok(Some(other)),
            }
        }
    }

    fn note(&mut self, name: &[u8], value: &str) {
        match name {
            b"redis-ver" => self.head.server = Some(value.to_owned()),
            b"valkey-ver" => {
                self.head.server = Some(value.to_owned());
                self.head.is_valkey = true;
            }
            b"ctime" => self.head.written_at = value.parse().ok(),
            b"used-mem" => self.head.used_memory = value.parse().ok(),
            // Since 7.0 a file of its own, before that the beginning of one.
            b"aof-base" | b"aof-preamble" => self.head.is_of_append_only_file = value != "0",
            _ => {}
        }
    }

    /// Compares the checksum, where the server wrote one (`rdbchecksum`).
    fn check(&mut self) -> Result<(), DumpError> {
        if self.head.format < CHECKSUM_SINCE {
            return Ok(());
        }
        let is = self.input.checksum();
        let said = u64::from_le_bytes(self.input.array()?);
        if said == 0 || said == is { Ok(()) } else { Err(DumpError::Checksum) }
    }
}
