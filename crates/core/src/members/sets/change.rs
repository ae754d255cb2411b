//! Members come and go: SADD, SREM, SMOVE. Redis 7.0 t_set.c.

use super::{answer_count, edit};
use crate::notify::Event;
use crate::resp::Answer;
use crate::string::{Call, Flow, Space};

/// SADD key member …: how many of them are new.
pub(super) fn sadd(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, members) = (call.args[1], &call.args[2..]);
    let brings_any = match space.set(key)? {
        Some(set) => members.iter().any(|member| !set.contains(member)),
        None => true,
    };
    let mut added = 0;
    if brings_any {
        let set = edit(space, key)?;
        added = members.iter().filter(|member| set.insert(member.to_vec())).count();
        space.note(Event::SAdd, key);
    }
    answer_count(answer, added);
    Ok(())
}

/// SREM key member …: how many of them were there. The key goes with its last member.
pub(super) fn srem(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, members) = (call.args[1], &call.args[2..]);
    let takes_any = space.set(key)?.is_some_and(|set| members.iter().any(|member| set.contains(member)));
    let mut removed = 0;
    if takes_any {
        let set = edit(space, key)?;
        removed = members.iter().filter(|member| set.remove(member)).count();
        space.note(Event::SRem, key);
        space.drop_if_empty(key);
    }
    answer_count(answer, removed);
    Ok(())
}

/// SMOVE source destination member: 1 where it was in the source.
///
/// Of the destination's type nothing is said where there is no source.
pub(super) fn smove(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (from, to, member) = (call.args[1], call.args[2], call.args[3]);
    let is_there = match space.set(from)? {
        Some(source) => {
            let is_there = source.contains(member);
            space.set(to)?;
            is_there
        }
        None => false,
    };
    if is_there && from != to {
        edit(space, from)?.remove(member);
        space.note(Event::SRem, from);
        space.drop_if_empty(from);
        if space.set(to)?.is_none_or(|destination| !destination.contains(member)) {
            edit(space, to)?.insert(member.to_vec());
            space.note(Event::SAdd, to);
        }
    }
    answer.integer(i64::from(is_there));
    Ok(())
}
