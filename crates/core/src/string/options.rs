//! The option words of SET and GETEX, and the expiry they set. Redis 7.0 `parseExtendedStringArgumentsOrReply`
//! and `getExpireMillisecondsOrReply` (t_string.c).

use super::{Call, Halt};
use crate::resp::word::is_word;

/// Which command's options: SET knows NX, XX, GET and KEEPTTL, GETEX knows PERSIST; the expiries are both's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Set,
    Getex,
}

/// How an expiry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds from now.
    Ex,
    /// Milliseconds from now.
    Px,
    /// A time in seconds since 1970.
    Exat,
    /// A time in milliseconds since 1970.
    Pxat,
}

impl Unit {
    fn parse(option: &[u8]) -> Option<Self> {
        [("EX", Self::Ex), ("PX", Self::Px), ("EXAT", Self::Exat), ("PXAT", Self::Pxat)]
            .into_iter()
            .find_map(|(word, unit)| is_word(option, word).then_some(unit))
    }

    /// Whether it is a time, not a span.
    pub(super) fn is_absolute(self) -> bool {
        matches!(self, Self::Exat | Self::Pxat)
    }
}

/// The options of one SET or GETEX.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) if_absent: bool,
    pub(super) if_present: bool,
    pub(super) get: bool,
    pub(super) keep_ttl: bool,
    pub(super) persist: bool,
    /// The unit, and the argument that holds the number.
    pub(super) expire: Option<(Unit, usize)>,
}

impl Options {
    /// Reads the options. A word that contradicts an earlier one is a syntax error, a repeated one is not,
    /// and of repeated expiries the last holds.
    pub(super) fn parse(call: &Call<'_>, of: Of) -> Result<Self, Halt> {
        let mut options = Self::default();
        let mut at = if of == Of::Set { 3 } else { 2 };
        while let Some(&word) = call.args.get(at) {
            if options.take_flag(word, of) {
                at += 1;
            } else if let Some(unit) = options.expiry_unit(word)
                && at + 1 < call.args.len()
            {
                options.expire = Some((unit, at + 1));
                at += 2;
            } else {
                return Err("ERR syntax error".into());
            }
        }
        Ok(options)
    }

    fn take_flag(&mut self, word: &[u8], of: Of) -> bool {
        let flag = match of {
            Of::Set if is_word(word, "NX") && !self.if_present => &mut self.if_absent,
            Of::Set if is_word(word, "XX") && !self.if_absent => &mut self.if_present,
            Of::Set if is_word(word, "GET") => &mut self.get,
            Of::Set if is_word(word, "KEEPTTL") && self.expire.is_none() => &mut self.keep_ttl,
            Of::Getex if is_word(word, "PERSIST") && self.expire.is_none() => &mut self.persist,
            _ => return false,
        };
        *flag = true;
        true
    }

    fn expiry_unit(&self, word: &[u8]) -> Option<Unit> {
        let unit = Unit::parse(word)?;
        let fits = !self.keep_ttl && !self.persist && self.expire.is_none_or(|(earlier, _)| earlier == unit);
        fits.then_some(unit)
    }

    /// When the key is to expire, or never.
    ///
    /// # Errors
    /// No integer; not above zero, or over the signed 64 bits.
    pub(super) fn expires_at_ms(&self, call: &Call<'_>, command: &str, now_ms: i64) -> Result<Option<i64>, Halt> {
        self.expire.map(|(unit, index)| expiry(call, index, unit, command, now_ms)).transpose()
    }
}

/// The expiry in argument `index`, as a time in milliseconds.
pub(super) fn expiry(call: &Call<'_>, index: usize, unit: Unit, command: &str, now_ms: i64) -> Result<i64, Halt> {
    let number = call.integer(index)?;
    let scale = if matches!(unit, Unit::Ex | Unit::Exat) { 1000 } else { 1 };
    let start = if unit.is_absolute() { 0 } else { now_ms };
    (number > 0)
        .then(|| number.checked_mul(scale)?.checked_add(start))
        .flatten()
        .ok_or_else(|| Halt::Error(format!("ERR invalid expire time in '{command}' command")))
}
