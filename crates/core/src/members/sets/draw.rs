//! Members by chance: SPOP and SRANDMEMBER. Redis 7.0 t_set.c.
//!
//! Each member has the same chance, and what is drawn comes in the order in which it was drawn.

use super::edit;
use crate::collection::Set;
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::string::{Call, Flow, Halt, MAX_STRING_BYTES, SYNTAX_ERROR, Space};

const NOT_POSITIVE: &str = "ERR value is out of range, must be positive";
const NOT_WITHIN_LONG: &str =
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807";

/// SPOP key: a member, which is then gone, or nil. SPOP key count: so many, or all.
pub(super) fn spop(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match call.args {
        [_, key] => match pop(space, key, 1)?.first() {
            Some(member) => answer.bulk(member),
            None => answer.nil(),
        },
        [_, key, count] => {
            let count = parse_integer(count).and_then(|count| usize::try_from(count).ok()).ok_or(NOT_POSITIVE)?;
            let members = pop(space, key, count)?;
            answer.set(members.len());
            members.iter().for_each(|member| answer.bulk(member));
        }
        _ => return Err(SYNTAX_ERROR.into()),
    }
    Ok(())
}

/// Takes as many members as there are, `count` at most.
fn pop(space: &mut Space, key: &[u8], count: usize) -> Result<Vec<Vec<u8>>, Halt> {
    let len = space.set(key)?.map_or(0, Set::len);
    let count = count.min(len);
    if count == 0 {
        return Ok(Vec::new());
    }
    let indexes: Vec<usize> = (0..count).map(|taken| space.draw_below(len - taken)).collect();
    let set = edit(space, key)?;
    let members = indexes.into_iter().filter_map(|index| set.take(index)).collect();
    space.note(Event::SPop, key);
    space.drop_if_empty(key);
    Ok(members)
}

/// SRANDMEMBER key: a member, or nil. SRANDMEMBER key count: so many, each once; where `count` is below zero, as many as that
/// says, some of them perhaps several times.
pub(super) fn srandmember(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match call.args {
        [_, key] => {
            let len = space.set(key)?.map_or(0, Set::len);
            let index = space.draw_below(len);
            match space.set(key)?.and_then(|set| set.get(index)) {
                Some(member) => answer.bulk(member),
                None => answer.nil(),
            }
            Ok(())
        }
        [_, key, _] => draw_many(key, count_of(call)?, space, answer),
        _ => Err(SYNTAX_ERROR.into()),
    }
}

/// How many are asked for: any number but the one that has none opposite.
fn count_of(call: &Call<'_>) -> Result<i64, Halt> {
    let count = call.integer(2)?;
    if count == i64::MIN { Err(NOT_WITHIN_LONG.into()) } else { Ok(count) }
}

fn draw_many(key: &[u8], count: i64, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let Some(set) = space.set(key)?.cloned() else {
        answer.array(0);
        return Ok(());
    };
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        check_size(&set, wanted)?;
        answer.array(wanted);
        for _ in 0..wanted {
            let index = space.draw_below(set.len());
            answer.bulk(set.get(index).unwrap_or_default());
        }
    } else {
        let mut left = set;
        let wanted = wanted.min(left.len());
        answer.array(wanted);
        for _ in 0..wanted {
            let index = space.draw_below(left.len());
            answer.bulk(&left.take(index).unwrap_or_default());
        }
    }
    Ok(())
}

/// A member may be asked for any number of times; what would take more than the longest string is refused.
fn check_size(set: &Set, times: usize) -> Flow {
    let longest = set.iter().map(<[u8]>::len).max().unwrap_or_default();
    let bytes = i64::try_from(longest.saturating_add(16).saturating_mul(times)).unwrap_or(i64::MAX);
    if bytes > MAX_STRING_BYTES {
        return Err("ERR keyfold: SRANDMEMBER of so many members is not supported on folded keys".into());
    }
    Ok(())
}
