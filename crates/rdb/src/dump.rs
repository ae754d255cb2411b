//! The file: its head, what lies between keys, its checksum.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::DumpError;
use crate::input::Input;
use crate::value::{Element, Value};

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
    /// Keys of the databases that have begun, as the dump says beforehand.
    pub keys: u64,
    /// Whether it tells keys by slot: a cluster's node wrote it.
    pub has_slots: bool,
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
    is_over: bool,
}

/// Whether a file is one: a regular file that begins as dumps do.
pub fn is_dump(path: &Path) -> bool {
    let mut first = [0; 9];
    path.is_file()
        && File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && format(first).is_some()
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
        let mut dump = Self { input, head, database: 0, next: None, is_over: false };
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
                code::IDLE => drop(self.input.length()?),
                code::FREQUENCY => drop(self.input.byte()?),
                kind => {
                    let key = self.input.whole_text()?;
                    let value = self.input.value(kind, self.head.is_valkey, each)?;
                    return Ok(Some(Record { database: self.database, key, expires_at_ms, value }));
                }
            }
        }
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
                    self.head.keys = self.head.keys.saturating_add(self.input.length()?);
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
