//! The arguments of the newer commands: times, and fields that are counted: `FIELDS 2 a b`.

use crate::resp::word::is_word;
use crate::string::{Call, Halt, Unit};

const REDIS_NO_FIELDS: &str = "ERR Mandatory argument FIELDS is missing or not at the right position";
const REDIS_OTHER_NUMBER: &str = "ERR The `numfields` parameter must match the number of arguments";
/// Redis's words for a number of fields that is none.
pub(super) const REDIS_NO_NUMBER: &str = "ERR Number of fields must be a positive integer";
/// Valkey's words for a number of fields that is none, or another.
pub(super) const VALKEY_OTHER_NUMBER: &str =
    "ERR numfields should be greater than 0 and match the provided number of fields";

/// The time in argument `index`, in milliseconds since 1970; it may be over. `name` is the command's.
///
/// # Errors
/// No integer, below zero, or too late: for Valkey beyond the signed 64 bits, for Redis beyond 46.
pub(super) fn time_ms(call: &Call<'_>, index: usize, unit: Unit, name: &str, now_ms: i64) -> Result<i64, Halt> {
    let number = call.integer(index)?;
    let is_valkey = call.dialect.is_valkey();
    if number < 0 && !is_valkey {
        return Err("ERR invalid expire time, must be >= 0".into());
    }
    let scale = if matches!(unit, Unit::Ex | Unit::Exat) { 1000 } else { 1 };
    let start = if unit.is_absolute() { 0 } else { now_ms };
    let last = call.dialect.last_field_expiry_ms();
    let at = number.checked_mul(scale).and_then(|time| time.checked_add(start));
    at.filter(|at| number >= 0 && *at <= last)
        .ok_or_else(|| Halt::Error(format!("ERR invalid expire time in '{name}' command")))
}

/// Redis's way: FIELDS stands at `at`, its number behind it, and all others are fields.
pub(super) fn redis_fields<'a>(call: &Call<'a>, at: usize, no_number: &str) -> Result<&'a [&'a [u8]], Halt> {
    if call.args.get(at).is_none_or(|word| !is_word(word, "FIELDS")) {
        return Err(REDIS_NO_FIELDS.into());
    }
    let number = call.args.get(at + 1).and_then(|number| crate::number::parse_integer(number));
    let number = number.filter(|number| *number > 0).ok_or(no_number)?;
    let fields = &call.args[at + 2..];
    if usize::try_from(number) == Ok(fields.len()) { Ok(fields) } else { Err(REDIS_OTHER_NUMBER.into()) }
}

/// Where Valkey finds FIELDS: the first such word from `start` on that isn't the last argument.
pub(super) fn valkey_fields_at(call: &Call<'_>, start: usize) -> Option<usize> {
    let last = call.args.len() - 1;
    (start..last).find(|at| is_word(call.args[*at], "FIELDS"))
}

/// Valkey's way: the number stands at `at`, and all others are fields, or `each` arguments a field.
pub(super) fn valkey_fields<'a>(
    call: &Call<'a>,
    at: usize,
    each: usize,
    other_number: &str,
) -> Result<&'a [&'a [u8]], Halt> {
    let number = call.integer(at)?;
    let fields = &call.args[at + 1..];
    let is_same =
        number > 0 && usize::try_from(number).ok().and_then(|number| number.checked_mul(each)) == Some(fields.len());
    if is_same { Ok(fields) } else { Err(other_number.into()) }
}
