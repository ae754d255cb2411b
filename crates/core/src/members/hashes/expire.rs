//! When fields expire: HEXPIRE and its three relatives, HTTL and its three, HPERSIST. Redis 7.4 and Valkey 9.0 t_hash.c.

use super::arguments::{REDIS_NO_NUMBER, VALKEY_OTHER_NUMBER, redis_fields, time_ms, valkey_fields, valkey_fields_at};
use crate::collection::Hash;
use crate::dialect::Dialect;
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::is_word;
use crate::string::{Call, Condition, Flow, Halt, SYNTAX_ERROR, Space, Unit, to_seconds};

/// What came of a command on one field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is no such field.
    NoField,
    /// It has no expiry.
    NoExpiry,
    /// A condition doesn't hold.
    Refused,
    /// It expires at another time, or not any more.
    Changed,
    /// The time is over, and so it is gone.
    Gone,
}

impl Outcome {
    fn code(self) -> i64 {
        match self {
            Self::NoField => -2,
            Self::NoExpiry => -1,
            Self::Refused => 0,
            Self::Changed => 1,
            Self::Gone => 2,
        }
    }
}

/// HEXPIRE key seconds [NX | XX | GT | LT] FIELDS n field …: for each field 1 where the expiry was set, 2 where it is over and
/// the field is gone, 0 where a condition held it back, -2 where there is no such field.
pub(super) fn hexpire(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiries("hexpire", Unit::Ex, call, space, answer)
}

/// HPEXPIRE key milliseconds [NX | XX | GT | LT] FIELDS n field ….
pub(super) fn hpexpire(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiries("hpexpire", Unit::Px, call, space, answer)
}

/// HEXPIREAT key seconds-since-1970 [NX | XX | GT | LT] FIELDS n field ….
pub(super) fn hexpireat(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiries("hexpireat", Unit::Exat, call, space, answer)
}

/// HPEXPIREAT key milliseconds-since-1970 [NX | XX | GT | LT] FIELDS n field ….
pub(super) fn hpexpireat(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_expiries("hpexpireat", Unit::Pxat, call, space, answer)
}

/// One of these commands, as it was read.
struct HexpireCommand<'a> {
    at_ms: i64,
    condition: Condition,
    fields: &'a [&'a [u8]],
}

fn set_expiries(name: &str, unit: Unit, call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let read = if call.dialect.is_valkey() {
        read_valkey(name, unit, call, space)?
    } else {
        Ok(read_redis(name, unit, call, space)?)
    };
    let HexpireCommand { at_ms, condition, fields } = match read {
        Ok(command) => command,
        Err(unsupported) => {
            answer.raw(&unsupported);
            return Ok(());
        }
    };
    space.hash(key)?;
    let now_ms = space.now_ms();
    let outcomes = change_each(space, key, fields, |hash, field| set_expiry(hash, field, at_ms, condition, now_ms));
    note_expiries(&outcomes, key, call.dialect, space);
    answer_outcomes(&outcomes, answer);
    Ok(())
}

/// The type, the time, one condition, the fields.
fn read_redis<'a>(name: &str, unit: Unit, call: &Call<'a>, space: &Space) -> Result<HexpireCommand<'a>, Halt> {
    space.hash(call.args[1])?;
    let at_ms = time_ms(call, 2, unit, name, space.now_ms())?;
    let words = &call.args[3..4];
    let is_condition = ["NX", "XX", "GT", "LT"].iter().any(|word| is_word(words[0], word));
    let (condition, fields_at) = match Condition::parse(words)? {
        Ok(condition) if is_condition => (condition, 4),
        _ => (Condition::default(), 3),
    };
    let fields = redis_fields(call, fields_at, "ERR Parameter `numFields` should be greater than 0")?;
    Ok(HexpireCommand { at_ms, condition, fields })
}

/// Any number of conditions, the fields, the time. The inner error is the reply to a condition that it doesn't know.
fn read_valkey<'a>(
    name: &str,
    unit: Unit,
    call: &Call<'a>,
    space: &Space,
) -> Result<Result<HexpireCommand<'a>, Vec<u8>>, Halt> {
    let fields_at = valkey_fields_at(call, 3).ok_or(VALKEY_OTHER_NUMBER)?;
    let condition = match Condition::parse(&call.args[3..fields_at])? {
        Ok(condition) => condition,
        Err(unsupported) => return Ok(Err(unsupported)),
    };
    let fields = valkey_fields(call, fields_at + 1, 1, VALKEY_OTHER_NUMBER)?;
    let at_ms = time_ms(call, 2, unit, name, space.now_ms())?;
    Ok(Ok(HexpireCommand { at_ms, condition, fields }))
}

/// Has a field expire at a time, where it may.
pub(super) fn set_expiry(hash: &mut Hash, name: &[u8], at_ms: i64, condition: Condition, now_ms: i64) -> Outcome {
    let Some(field) = hash.get_mut(name) else { return Outcome::NoField };
    if !condition.met(field.expires_at_ms, at_ms) {
        return Outcome::Refused;
    }
    field.expires_at_ms = Some(at_ms);
    if at_ms > now_ms {
        return Outcome::Changed;
    }
    hash.remove(name);
    Outcome::Gone
}

/// Has a field stay for ever.
pub(super) fn clear_expiry(hash: &mut Hash, name: &[u8]) -> Outcome {
    match hash.get_mut(name).map(|field| field.expires_at_ms.take()) {
        None => Outcome::NoField,
        Some(None) => Outcome::NoExpiry,
        Some(Some(_)) => Outcome::Changed,
    }
}

/// Changes one field after the other; what came of each.
pub(super) fn change_each(
    space: &mut Space,
    key: &[u8],
    fields: &[&[u8]],
    mut change: impl FnMut(&mut Hash, &[u8]) -> Outcome,
) -> Vec<Outcome> {
    let mut outcomes = vec![Outcome::NoField; fields.len()];
    space.try_edit_hash(key, |hash| {
        for (outcome, field) in outcomes.iter_mut().zip(fields) {
            *outcome = change(hash, field);
        }
        outcomes.iter().any(|outcome| matches!(outcome, Outcome::Changed | Outcome::Gone))
    });
    outcomes
}

/// Says what has happened to the key of which fields were given a time, and removes it with its last one.
pub(super) fn note_expiries(outcomes: &[Outcome], key: &[u8], dialect: Dialect<'_>, space: &mut Space) {
    if outcomes.contains(&Outcome::Gone) {
        space.note(event_of_past_expiry(dialect), key);
        space.drop_if_empty(key);
    } else if outcomes.contains(&Outcome::Changed) {
        space.note(Event::HExpire, key);
    }
}

/// What is told of fields that a command gives a time in the past.
pub(super) fn event_of_past_expiry(dialect: Dialect<'_>) -> Event {
    if dialect.is_valkey() { Event::HExpired } else { Event::HDel }
}

fn answer_outcomes(outcomes: &[Outcome], answer: &mut Answer<'_>) {
    answer.array(outcomes.len());
    outcomes.iter().for_each(|outcome| answer.integer(outcome.code()));
}

/// HPERSIST key FIELDS n field …: for each field 1 where it had an expiry, which is gone, -1 where it had none, -2 where there is
/// no such field.
pub(super) fn hpersist(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let fields = fields_behind_key(call, space, VALKEY_OTHER_NUMBER)?;
    let outcomes = change_each(space, key, fields, clear_expiry);
    if outcomes.contains(&Outcome::Changed) {
        space.note(Event::HPersist, key);
    }
    answer_outcomes(&outcomes, answer);
    Ok(())
}

/// The fields of a command that takes nothing but a key and them. Redis looks at the key's type first, Valkey last.
pub(super) fn fields_behind_key<'a>(
    call: &Call<'a>,
    space: &Space,
    other_number: &str,
) -> Result<&'a [&'a [u8]], Halt> {
    if !call.dialect.is_valkey() {
        space.hash(call.args[1])?;
        return redis_fields(call, 2, REDIS_NO_NUMBER);
    }
    if !is_word(call.args[2], "FIELDS") {
        return Err(SYNTAX_ERROR.into());
    }
    let fields = valkey_fields(call, 3, 1, other_number)?;
    space.hash(call.args[1])?;
    Ok(fields)
}

/// HTTL key FIELDS n field …: for each field the seconds left; -1 where it never expires, -2 where there is no such field.
pub(super) fn httl(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show_expiries(call, space, answer, space.now_ms(), true)
}

/// HPTTL key FIELDS n field …: for each field the milliseconds left, or -1 or -2.
pub(super) fn hpttl(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show_expiries(call, space, answer, space.now_ms(), false)
}

/// HEXPIRETIME key FIELDS n field …: for each field the second since 1970, or -1 or -2.
pub(super) fn hexpiretime(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show_expiries(call, space, answer, 0, true)
}

/// HPEXPIRETIME key FIELDS n field …: for each field the millisecond since 1970, or -1 or -2.
pub(super) fn hpexpiretime(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show_expiries(call, space, answer, 0, false)
}

/// Seconds are those begun to Redis and the nearest to Valkey. In the very millisecond of its expiry Redis has no such field
/// here, as far as the hash is small.
fn show_expiries(call: &Call<'_>, space: &Space, answer: &mut Answer<'_>, start_ms: i64, in_seconds: bool) -> Flow {
    let is_valkey = call.dialect.is_valkey();
    let fields = fields_behind_key(call, space, SYNTAX_ERROR)?;
    let hash = space.hash(call.args[1])?;
    answer.array(fields.len());
    for field in fields {
        let shown = match hash.and_then(|hash| hash.get(field)).map(|field| field.expires_at_ms) {
            None => -2,
            Some(None) => -1,
            Some(Some(at)) if !is_valkey && at <= space.now_ms() => -2,
            Some(Some(at)) if in_seconds && is_valkey => to_seconds(at - start_ms),
            Some(Some(at)) if in_seconds => (at - start_ms).saturating_add(999) / 1000,
            Some(Some(at)) => at - start_ms,
        };
        answer.integer(shown);
    }
    Ok(())
}
