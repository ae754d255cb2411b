//! The option words of SET, GETEX and MSETEX, and the expiry they set. Redis 7.0 `parseExtendedStringArgumentsOrReply`
//! and `getExpireMillisecondsOrReply` (t_string.c); of conditions, Redis 8.4 and Valkey 8.1.

use super::condition::Condition;
use super::{Call, Halt, SYNTAX_ERROR};
use crate::resp::word::is_word;

/// Which command's options: SET, MSETEX and HSETEX know NX, XX and KEEPTTL, SET besides GET and conditions, HSETEX FNX and FXX,
/// GETEX and HGETEX know PERSIST; the expiries are everyone's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Set,
    Getex,
    Msetex,
    /// Valkey's.
    Hsetex,
}

impl Of {
    fn writes(self) -> bool {
        matches!(self, Self::Set | Self::Msetex | Self::Hsetex)
    }
}

/// How an expiry is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
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
    pub(crate) fn parse(option: &[u8]) -> Option<Self> {
        [("EX", Self::Ex), ("PX", Self::Px), ("EXAT", Self::Exat), ("PXAT", Self::Pxat)]
            .into_iter()
            .find_map(|(word, unit)| is_word(option, word).then_some(unit))
    }

    /// Whether it is a time, not a span.
    pub(crate) fn is_absolute(self) -> bool {
        matches!(self, Self::Exat | Self::Pxat)
    }
}

/// The options of one command.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) if_absent: bool,
    pub(crate) if_present: bool,
    /// None of the fields may be there.
    pub(crate) if_fields_absent: bool,
    /// All of the fields must be there.
    pub(crate) if_fields_present: bool,
    /// The condition, and the argument that the value is compared with.
    pub(super) condition: Option<(Condition, usize)>,
    pub(crate) get: bool,
    pub(crate) keep_ttl: bool,
    pub(crate) persist: bool,
    /// The unit, and the argument that holds the number.
    pub(crate) expire: Option<(Unit, usize)>,
}

impl Options {
    /// Reads the options from argument `at` on. A word that contradicts an earlier one is a syntax error, a repeated one is
    /// not, and of repeated expiries the last holds. A repeated condition is an error to Valkey alone.
    pub(crate) fn parse(call: &Call<'_>, of: Of, mut at: usize) -> Result<Self, Halt> {
        let mut options = Self::default();
        while let Some(&word) = call.args.get(at) {
            let has_next = at + 1 < call.args.len();
            if options.take_flag(word, of) {
                at += 1;
            } else if let Some(unit) = options.expiry_unit(word)
                && has_next
            {
                options.expire = Some((unit, at + 1));
                at += 2;
            } else if let Some(condition) = options.condition(word, call, of)
                && has_next
            {
                options.condition = Some((condition, at + 1));
                at += 2;
            } else {
                return Err(SYNTAX_ERROR.into());
            }
        }
        Ok(options)
    }

    fn take_flag(&mut self, word: &[u8], of: Of) -> bool {
        let has_condition = self.condition.is_some();
        let flag = match of {
            _ if of.writes() && is_word(word, "NX") && !self.if_present && !has_condition => &mut self.if_absent,
            _ if of.writes() && is_word(word, "XX") && !self.if_absent && !has_condition => &mut self.if_present,
            _ if of.writes() && is_word(word, "KEEPTTL") && self.expire.is_none() => &mut self.keep_ttl,
            Of::Set if is_word(word, "GET") => &mut self.get,
            Of::Hsetex if is_word(word, "FNX") && !self.if_fields_present => &mut self.if_fields_absent,
            Of::Hsetex if is_word(word, "FXX") && !self.if_fields_absent => &mut self.if_fields_present,
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

    fn condition(&self, word: &[u8], call: &Call<'_>, of: Of) -> Option<Condition> {
        let condition = Condition::parse(word).filter(|condition| call.dialect.knows(condition.since()))?;
        let may_repeat = !call.dialect.is_valkey();
        let fits = self.condition.is_none_or(|(earlier, _)| may_repeat && earlier == condition);
        (of == Of::Set && fits && !self.if_absent && !self.if_present).then_some(condition)
    }

    /// When the key is to expire, or never.
    ///
    /// # Errors
    /// No integer; not above zero, or over the signed 64 bits.
    pub(crate) fn expires_at_ms(&self, call: &Call<'_>, command: &str, now_ms: i64) -> Result<Option<i64>, Halt> {
        self.expire.map(|(unit, index)| expiry(call, index, unit, command, now_ms)).transpose()
    }
}

/// The expiry in argument `index`, as a time in milliseconds.
pub(crate) fn expiry(call: &Call<'_>, index: usize, unit: Unit, command: &str, now_ms: i64) -> Result<i64, Halt> {
    let number = call.integer(index)?;
    let scale = if matches!(unit, Unit::Ex | Unit::Exat) { 1000 } else { 1 };
    let start = if unit.is_absolute() { 0 } else { now_ms };
    (number > 0)
        .then(|| number.checked_mul(scale)?.checked_add(start))
        .flatten()
        .ok_or_else(|| Halt::Error(format!("ERR invalid expire time in '{command}' command")))
}
