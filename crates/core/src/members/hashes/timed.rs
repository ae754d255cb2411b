//! Fields read or written together with when they expire, or removed as they are read: HGETEX, HSETEX, HGETDEL. Redis 8.0 and
//! Valkey 9.1 t_hash.c.

use super::arguments::{REDIS_NO_NUMBER, VALKEY_OTHER_NUMBER, redis_fields, time_ms, valkey_fields, valkey_fields_at};
use super::expire::{
    Outcome, change_each, clear_expiry, event_of_past_expiry, fields_behind_key, note_expiries, set_expiry,
};
use super::read::answer_value;
use super::write::{edit, wrong_number_of_arguments};
use crate::collection::{Field, Hash};
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::is_word;
use crate::string::{Call, Condition, Flow, Halt, Of, Options, Space, Unit, echo_error};

/// HGETDEL key FIELDS n field …: for each field its value, or nil. They are then gone, and the key with its last one.
pub(super) fn hgetdel(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let fields = fields_behind_key(call, space, VALKEY_OTHER_NUMBER)?;
    answer.array(fields.len());
    if space.hash(key)?.is_none() {
        fields.iter().for_each(|_| answer.nil());
    }
    let has_changed = space.try_edit_hash(key, |hash| {
        let len = hash.len();
        for field in fields {
            answer_value(Some(hash), field, answer);
            hash.remove(field);
        }
        hash.len() < len
    });
    if has_changed {
        space.note(Event::HDel, key);
        space.drop_if_empty(key);
    }
    Ok(())
}

/// HGETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST] FIELDS n field …: for each field its value, or nil; sets or removes
/// their expiries.
pub(super) fn hgetex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, now_ms) = (call.args[1], space.now_ms());
    let is_valkey = call.dialect.is_valkey();
    let (options, fields) = if is_valkey { read_hgetex_valkey(call)? } else { read_hgetex_redis(call, space)? };
    space.hash(key)?;
    let at_ms = options.expire.map(|(unit, index)| time_ms(call, index, unit, "hgetex", now_ms)).transpose()?;
    answer.array(fields.len());
    if space.hash(key)?.is_none() {
        fields.iter().for_each(|_| answer.nil());
    }
    let outcomes = change_each(space, key, fields, |hash, field| {
        answer_value(Some(hash), field, answer);
        match at_ms {
            Some(at_ms) => set_expiry(hash, field, at_ms, Condition::default(), now_ms),
            None if options.persist => clear_expiry(hash, field),
            None => Outcome::Refused,
        }
    });
    if at_ms.is_some() {
        note_expiries(&outcomes, key, call.dialect, space);
    } else if outcomes.contains(&Outcome::Changed) {
        space.note(Event::HPersist, key);
    }
    Ok(())
}

/// The type, one option, its number, the fields.
fn read_hgetex_redis<'a>(call: &Call<'a>, space: &Space) -> Result<(Options, &'a [&'a [u8]]), Halt> {
    space.hash(call.args[1])?;
    let mut options = Options::default();
    let mut fields_at = 2;
    if let Some(unit) = Unit::parse(call.args[2]) {
        options.expire = Some((unit, 3));
        fields_at = 4;
        if call.args.len() <= fields_at + 1 {
            return Err(wrong_number_of_arguments("hgetex"));
        }
        time_ms(call, 3, unit, "hgetex", space.now_ms())?;
    } else if is_word(call.args[2], "PERSIST") {
        options.persist = true;
        fields_at = 3;
    }
    Ok((options, redis_fields(call, fields_at, REDIS_NO_NUMBER)?))
}

/// Any number of options, the fields.
fn read_hgetex_valkey<'a>(call: &Call<'a>) -> Result<(Options, &'a [&'a [u8]]), Halt> {
    let fields_at = valkey_fields_at(call, 0).ok_or(VALKEY_OTHER_NUMBER)?;
    let options = options_before(call, fields_at, Of::Getex)?;
    Ok((options, valkey_fields(call, fields_at + 1, 1, VALKEY_OTHER_NUMBER)?))
}

/// The options that stand before FIELDS.
fn options_before(call: &Call<'_>, fields_at: usize, of: Of) -> Result<Options, Halt> {
    Options::parse(&Call { args: &call.args[..fields_at], ..*call }, of, 2)
}

/// HSETEX key [FNX | FXX] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL] FIELDS n field value …: 1 where all were set, 0 where a
/// condition held them back. Valkey's may also go by whether there is such a key, NX or XX.
pub(super) fn hsetex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, now_ms) = (call.args[1], space.now_ms());
    let read = if call.dialect.is_valkey() { Ok(read_hsetex_valkey(call)?) } else { read_hsetex_redis(call, now_ms)? };
    let (options, pairs) = match read {
        Ok(read) => read,
        Err(unknown) => {
            answer.raw(&unknown);
            return Ok(());
        }
    };
    let exists = space.hash(key)?.is_some();
    if options.if_absent && exists || options.if_present && !exists {
        answer.integer(0);
        return Ok(());
    }
    let at_ms = options.expire.map(|(unit, index)| time_ms(call, index, unit, "hsetex", now_ms)).transpose()?;
    let may_set = let_through(&options, space.hash(key)?, pairs);
    if may_set {
        set_fields(&options, at_ms, pairs, call, space)?;
    }
    answer.integer(i64::from(may_set));
    Ok(())
}

/// Options, and fields with their values.
type OptionsAndPairs<'a> = (Options, &'a [&'a [u8]]);

/// Options with their numbers one after the other, then the fields. The inner error is the reply to an option that it doesn't
/// know.
fn read_hsetex_redis<'a>(call: &Call<'a>, now_ms: i64) -> Result<Result<OptionsAndPairs<'a>, Vec<u8>>, Halt> {
    let mut options = Options::default();
    let mut at = 2;
    while let Some(&word) = call.args.get(at) {
        let unit = Unit::parse(word);
        if is_word(word, "FIELDS") {
            return Ok(Ok((options, redis_pairs(call, at)?)));
        } else if unit.is_some() || is_word(word, "KEEPTTL") {
            if options.expire.is_some() || options.keep_ttl {
                return Err("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified".into());
            }
            options.keep_ttl = unit.is_none();
        } else if is_word(word, "FNX") || is_word(word, "FXX") {
            if options.if_fields_absent || options.if_fields_present {
                return Err("ERR Only one of FXX or FNX arguments can be specified".into());
            }
            options.if_fields_absent = is_word(word, "FNX");
            options.if_fields_present = !options.if_fields_absent;
        } else {
            return Ok(Err(echo_error("unknown argument: ", word)));
        }
        if let Some(unit) = unit {
            at += 1;
            if at >= call.args.len() {
                return Err("ERR missing expire time".into());
            }
            time_ms(call, at, unit, "hsetex", now_ms)?;
            options.expire = Some((unit, at));
        }
        at += 1;
    }
    Err(wrong_number_of_arguments("hsetex"))
}

/// What stands behind FIELDS, which is at `at`: how many pairs, and the pairs.
fn redis_pairs<'a>(call: &Call<'a>, at: usize) -> Result<&'a [&'a [u8]], Halt> {
    if at + 3 >= call.args.len() {
        return Err(wrong_number_of_arguments("hsetex"));
    }
    let number = crate::number::parse_integer(call.args[at + 1]);
    let number = number.filter(|number| (1..=i64::from(i32::MAX)).contains(number));
    let number = number.ok_or("ERR invalid number of fields")?;
    let pairs = &call.args[at + 2..];
    let is_same = pairs.len().is_multiple_of(2) && usize::try_from(number) == Ok(pairs.len() / 2);
    if is_same { Ok(pairs) } else { Err(wrong_number_of_arguments("hsetex")) }
}

fn read_hsetex_valkey<'a>(call: &Call<'a>) -> Result<OptionsAndPairs<'a>, Halt> {
    let fields_at = valkey_fields_at(call, 0).ok_or(VALKEY_OTHER_NUMBER)?;
    let options = options_before(call, fields_at, Of::Hsetex)?;
    Ok((options, valkey_fields(call, fields_at + 1, 2, VALKEY_OTHER_NUMBER)?))
}

/// Whether FNX and FXX let the fields be set.
fn let_through(options: &Options, hash: Option<&Hash>, pairs: &[&[u8]]) -> bool {
    let mut are_there = pairs.iter().step_by(2).map(|name| hash.is_some_and(|hash| hash.get(name).is_some()));
    match (options.if_fields_absent, options.if_fields_present) {
        (true, _) => !are_there.any(|is_there| is_there),
        (_, true) => are_there.all(|is_there| is_there),
        (false, false) => true,
    }
}

fn set_fields(options: &Options, at_ms: Option<i64>, pairs: &[&[u8]], call: &Call<'_>, space: &mut Space) -> Flow {
    let key = call.args[1];
    let is_over = at_ms.is_some_and(|at| at <= space.now_ms());
    let hash = edit(space, key)?;
    for pair in pairs.chunks_exact(2) {
        let kept = hash.get(pair[0]).and_then(|field| field.expires_at_ms).filter(|_| options.keep_ttl);
        if is_over {
            hash.remove(pair[0]);
        } else {
            hash.insert(pair[0].to_vec(), Field { value: pair[1].to_vec(), expires_at_ms: at_ms.or(kept) });
        }
    }
    space.note(Event::HSet, key);
    if at_ms.is_some() && (call.dialect.is_valkey() || !is_over) {
        space.note(Event::HExpire, key);
    }
    if is_over {
        space.note(event_of_past_expiry(call.dialect), key);
        space.drop_if_empty(key);
    }
    Ok(())
}
