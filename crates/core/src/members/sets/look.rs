//! What is in a set: SCARD, SISMEMBER, SMISMEMBER, SMEMBERS. Redis 7.0 t_set.c.

use super::{answer_count, answer_set};
use crate::collection::Set;
use crate::resp::Answer;
use crate::string::{Call, Flow, Space};

/// SCARD key: how many members it has.
pub(super) fn scard(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    answer_count(answer, space.set(call.args[1])?.map_or(0, Set::len));
    Ok(())
}

/// SISMEMBER key member: 1 where it is one.
pub(super) fn sismember(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let is_member = space.set(call.args[1])?.is_some_and(|set| set.contains(call.args[2]));
    answer.integer(i64::from(is_member));
    Ok(())
}

/// SMISMEMBER key member …: 1 for each that is one, and 0 for each other.
pub(super) fn smismember(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (set, members) = (space.set(call.args[1])?, &call.args[2..]);
    answer.array(members.len());
    for member in members {
        answer.integer(i64::from(set.is_some_and(|set| set.contains(member))));
    }
    Ok(())
}

/// SMEMBERS key: all members.
pub(super) fn smembers(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match space.set(call.args[1])? {
        Some(set) => answer_set(answer, set),
        None => answer.set(0),
    }
    Ok(())
}
