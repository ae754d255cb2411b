//! Commands that give a hash fields and take them: HSET, HMSET, HSETNX, HDEL. Redis 7.0 t_hash.c.
//!
//! A field that is given a value doesn't expire any more.

use super::count;
use crate::collection::{Field, Hash};
use crate::notify::Event;
use crate::resp::Answer;
use crate::string::{Call, Flow, Halt, Space, WRONG_TYPE};

/// HSET key field value …: how many of the fields are new.
pub(super) fn hset(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let created = set_all(call, "hset", space)?;
    answer.integer(created);
    Ok(())
}

/// HMSET key field value …: OK.
pub(super) fn hmset(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    set_all(call, "hmset", space)?;
    answer.ok();
    Ok(())
}

fn set_all(call: &Call<'_>, name: &str, space: &mut Space) -> Result<i64, Halt> {
    let (key, pairs) = (call.args[1], &call.args[2..]);
    if !pairs.len().is_multiple_of(2) {
        return Err(wrong_number_of_arguments(name));
    }
    let hash = edit(space, key)?;
    let mut created = 0;
    for pair in pairs.chunks_exact(2) {
        let field = Field { value: pair[1].to_vec(), expires_at_ms: None };
        created += i64::from(hash.insert(pair[0].to_vec(), field).is_none());
    }
    space.note(Event::HSet, key);
    Ok(created)
}

/// The error that only the command itself can find.
pub(super) fn wrong_number_of_arguments(name: &str) -> Halt {
    Halt::Error(format!("ERR wrong number of arguments for '{name}' command"))
}

/// The hash under a key, to write to it; a new one where there is nothing.
///
/// # Errors
/// The key holds another type.
pub(super) fn edit<'s>(space: &'s mut Space, key: &[u8]) -> Result<&'s mut Hash, Halt> {
    space.hash(key)?;
    space.edit_hash(key).ok_or_else(|| WRONG_TYPE.into())
}

/// HSETNX key field value: 1 where it wrote, 0 where the field was there.
pub(super) fn hsetnx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, name, value) = (call.args[1], call.args[2], call.args[3]);
    let is_free = space.hash(key)?.is_none_or(|hash| hash.get(name).is_none());
    if is_free {
        edit(space, key)?.insert(name.to_vec(), Field { value: value.to_vec(), expires_at_ms: None });
        space.note(Event::HSet, key);
    }
    answer.integer(i64::from(is_free));
    Ok(())
}

/// HDEL key field …: how many were there. The key goes with its last field.
pub(super) fn hdel(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, fields) = (call.args[1], &call.args[2..]);
    space.hash(key)?;
    let mut removed = 0;
    let has_changed = space.try_edit_hash(key, |hash| {
        removed = fields.iter().filter(|field| hash.remove(field).is_some()).count();
        removed > 0
    });
    if has_changed {
        space.note(Event::HDel, key);
        space.drop_if_empty(key);
    }
    answer.integer(count(removed));
    Ok(())
}
