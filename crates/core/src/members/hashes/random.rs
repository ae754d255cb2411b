//! HRANDFIELD: fields by chance, the same ones for the same seed of the space. Redis 7.0 t_hash.c.

use crate::collection::Hash;
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol};
use crate::string::{Call, Flow, Halt, SYNTAX_ERROR, Space};

/// So many fields are drawn for one command at most, where they may repeat. A server sends any number, piece by piece.
const MOST_DRAWN: u64 = 1 << 20;

/// HRANDFIELD key [count [WITHVALUES]]: one field or nil, or `count` different ones; where `count` is below zero so many
/// that may repeat.
pub(super) fn hrandfield(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let Some(Draw { count, with_values }) = Draw::read(call)? else {
        let len = space.hash(key)?.map_or(0, Hash::len);
        let at = draw_below(space, len);
        match space.hash(key)?.and_then(|hash| hash.get_index(at)) {
            Some((name, _)) => answer.bulk(name),
            None => answer.nil(),
        }
        return Ok(());
    };
    let len = space.hash(key)?.map_or(0, Hash::len);
    let drawn = match usize::try_from(count) {
        Ok(count) => draw_different(space, len, count),
        Err(_) => draw_any(space, len, count.unsigned_abs())?,
    };
    let hash = space.hash(key)?;
    let field = |at: &usize| hash?.get_index(*at).map(|(name, field)| (name, field.value.as_slice()));
    let fields = || drawn.iter().filter_map(field);
    answer_fields(fields().count(), fields(), with_values, answer);
    Ok(())
}

/// How many fields are asked for, and whether with their values.
pub(in crate::members) struct Draw {
    pub(in crate::members) count: i64,
    pub(in crate::members) with_values: bool,
}

impl Draw {
    /// Reads the arguments; none where there are none.
    pub(in crate::members) fn read(call: &Call<'_>) -> Result<Option<Self>, Halt> {
        if call.args.len() < 3 {
            return Ok(None);
        }
        let count = call.integer(2)?;
        if count == i64::MIN {
            let (least, most) = (-i64::MAX, i64::MAX);
            return Err(Halt::Error(format!("ERR value is out of range, value must between {least} and {most}")));
        }
        let with_values = match &call.args[3..] {
            [] => false,
            [word] if is_word(word, "WITHVALUES") => true,
            _ => return Err(SYNTAX_ERROR.into()),
        };
        if with_values && count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 {
            return Err("ERR value is out of range".into());
        }
        Ok(Some(Self { count, with_values }))
    }
}

/// A number below `len`, each with the same chance; 0 where there is none.
fn draw_below(space: &mut Space, len: usize) -> usize {
    let scaled = (u128::from(space.draw()) * len as u128) >> 64;
    usize::try_from(scaled).unwrap_or(0)
}

/// So many different places, all where there aren't more, in their order.
fn draw_different(space: &mut Space, len: usize, count: usize) -> Vec<usize> {
    let mut missing = count.min(len);
    let mut drawn = Vec::with_capacity(missing);
    for at in 0..len {
        if missing > 0 && draw_below(space, len - at) < missing {
            drawn.push(at);
            missing -= 1;
        }
    }
    drawn
}

/// So many places, each of them any.
fn draw_any(space: &mut Space, len: usize, count: u64) -> Result<Vec<usize>, Halt> {
    if len == 0 {
        return Ok(Vec::new());
    }
    if count > MOST_DRAWN {
        return Err("ERR keyfold: HRANDFIELD of more than 1048576 fields is not supported on folded keys".into());
    }
    Ok((0..count).map(|_| draw_below(space, len)).collect())
}

/// Answers with these fields, of which there are `count`.
pub(in crate::members) fn answer_fields<'a>(
    count: usize,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    with_values: bool,
    answer: &mut Answer<'_>,
) {
    let in_pairs = with_values && answer.protocol() == Protocol::Resp3;
    answer.array(if with_values && !in_pairs { count * 2 } else { count });
    for (name, value) in fields {
        if in_pairs {
            answer.array(2);
        }
        answer.bulk(name);
        if with_values {
            answer.bulk(value);
        }
    }
}
