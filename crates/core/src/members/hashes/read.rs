//! Commands that look at the fields of a hash: HGET, HMGET, HGETALL, HKEYS, HVALS, HEXISTS, HLEN, HSTRLEN. Redis 7.0 t_hash.c.

use super::count;
use crate::collection::Hash;
use crate::resp::Answer;
use crate::string::{Call, Flow, Space};

/// HGET key field: the value, or nil.
pub(super) fn hget(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let hash = space.hash(call.args[1])?;
    answer_value(hash, call.args[2], answer);
    Ok(())
}

/// HMGET key field …: for each the value, or nil.
pub(super) fn hmget(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let hash = space.hash(call.args[1])?;
    let fields = &call.args[2..];
    answer.array(fields.len());
    fields.iter().for_each(|field| answer_value(hash, field, answer));
    Ok(())
}

/// A field's value, or nil.
pub(super) fn answer_value(hash: Option<&Hash>, field: &[u8], answer: &mut Answer<'_>) {
    match hash.and_then(|hash| hash.get(field)) {
        Some(field) => answer.bulk(&field.value),
        None => answer.nil(),
    }
}

/// HGETALL key: all fields with their values, as a map.
pub(super) fn hgetall(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let hash = space.hash(call.args[1])?;
    answer.map(hash.map_or(0, Hash::len));
    for (name, field) in hash.iter().flat_map(|hash| hash.iter()) {
        answer.bulk(name);
        answer.bulk(&field.value);
    }
    Ok(())
}

/// HKEYS key: all fields.
pub(super) fn hkeys(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let hash = space.hash(call.args[1])?;
    answer.array(hash.map_or(0, Hash::len));
    hash.iter().flat_map(|hash| hash.iter()).for_each(|(name, _)| answer.bulk(name));
    Ok(())
}

/// HVALS key: all values.
pub(super) fn hvals(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let hash = space.hash(call.args[1])?;
    answer.array(hash.map_or(0, Hash::len));
    hash.iter().flat_map(|hash| hash.iter()).for_each(|(_, field)| answer.bulk(&field.value));
    Ok(())
}

/// HEXISTS key field: 1 where it is there, else 0.
pub(super) fn hexists(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let is_there = space.hash(call.args[1])?.is_some_and(|hash| hash.get(call.args[2]).is_some());
    answer.integer(i64::from(is_there));
    Ok(())
}

/// HLEN key: how many fields there are.
pub(super) fn hlen(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    answer.integer(count(space.hash(call.args[1])?.map_or(0, Hash::len)));
    Ok(())
}

/// HSTRLEN key field: the length of its value, 0 where it isn't there.
pub(super) fn hstrlen(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let hash = space.hash(call.args[1])?;
    answer.integer(count(hash.and_then(|hash| hash.get(call.args[2])).map_or(0, |field| field.value.len())));
    Ok(())
}
