//! Several sets: SINTER, SINTERCARD, SUNION, SDIFF, and SINTERSTORE, SUNIONSTORE, SDIFFSTORE. Redis 7.0 t_set.c.

use super::{answer_count, answer_set};
use crate::collection::{Collection, Set};
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::resp::word::is_word;
use crate::string::{Call, Flow, Halt, SYNTAX_ERROR, Space};

/// SINTER key …: what is in all of them.
pub(super) fn sinter(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show(intersection, call, space, answer)
}

/// SUNION key …: what is in any of them.
pub(super) fn sunion(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show(union, call, space, answer)
}

/// SDIFF key …: what is in the first alone.
pub(super) fn sdiff(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    show(difference, call, space, answer)
}

/// SINTERSTORE destination key …: how many members the destination has now.
pub(super) fn sinterstore(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    store(intersection, Event::SInterStore, call, space, answer)
}

/// SUNIONSTORE destination key …: how many members the destination has now.
pub(super) fn sunionstore(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    store(union, Event::SUnionStore, call, space, answer)
}

/// SDIFFSTORE destination key …: how many members the destination has now.
pub(super) fn sdiffstore(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    store(difference, Event::SDiffStore, call, space, answer)
}

/// SINTERCARD numkeys key … [LIMIT limit]: how many members are in all of them, counted up to the limit; 0 is none.
pub(super) fn sintercard(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let count = positive(call.args[1]).filter(|count| *count > 0).ok_or("ERR numkeys should be greater than 0")?;
    let rest = &call.args[2..];
    if count > rest.len() {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let (keys, options) = rest.split_at(count);
    let limit = match limit(options)? {
        0 => usize::MAX,
        limit => limit,
    };
    answer_count(answer, in_all(&sets(space, keys)?).take(limit).count());
    Ok(())
}

/// The last LIMIT among the options; 0 where there is none.
fn limit(options: &[&[u8]]) -> Result<usize, Halt> {
    let mut limit = 0;
    for option in options.chunks(2) {
        limit = match option {
            [word, number] if is_word(word, "LIMIT") => positive(number).ok_or("ERR LIMIT can't be negative")?,
            _ => return Err(SYNTAX_ERROR.into()),
        };
    }
    Ok(limit)
}

fn positive(number: &[u8]) -> Option<usize> {
    usize::try_from(parse_integer(number)?).ok()
}

/// What an operation makes of sets, of which some aren't there.
type Operation = fn(&[Option<&Set>]) -> Set;

fn show(operation: Operation, call: &Call<'_>, space: &Space, answer: &mut Answer<'_>) -> Flow {
    answer_set(answer, &operation(&sets(space, &call.args[1..])?));
    Ok(())
}

/// Keeps the result under the destination, whatever was there; an empty one is no key.
fn store(operation: Operation, event: Event, call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let destination = call.args[1];
    let result = operation(&sets(space, &call.args[2..])?);
    answer_count(answer, result.len());
    if !result.is_empty() {
        space.put_collection(destination, Collection::Set(result), None);
        space.note(event, destination);
    } else if space.exists(destination) {
        space.remove(destination);
        space.note(Event::Del, destination);
    }
    Ok(())
}

/// The sets under these keys, none where there is nothing. All types are checked, whatever comes of the first.
fn sets<'s>(space: &'s Space, keys: &[&[u8]]) -> Result<Vec<Option<&'s Set>>, Halt> {
    keys.iter().map(|key| space.set(key)).collect()
}

fn intersection(sets: &[Option<&Set>]) -> Set {
    in_all(sets).map(<[u8]>::to_vec).collect()
}

/// The members of the smallest that are in all others.
fn in_all<'s>(sets: &[Option<&'s Set>]) -> impl Iterator<Item = &'s [u8]> {
    let all: Vec<&Set> = sets.iter().copied().collect::<Option<_>>().unwrap_or_default();
    let smallest = all.iter().copied().min_by_key(|set| set.len());
    smallest.into_iter().flat_map(Set::iter).filter(move |member| all.iter().all(|set| set.contains(member)))
}

fn union(sets: &[Option<&Set>]) -> Set {
    sets.iter().flatten().flat_map(|set| set.iter()).map(<[u8]>::to_vec).collect()
}

fn difference(sets: &[Option<&Set>]) -> Set {
    let Some((Some(first), others)) = sets.split_first() else { return Set::default() };
    let is_alone = |member: &&[u8]| !others.iter().flatten().any(|other| other.contains(member));
    first.iter().filter(is_alone).map(<[u8]>::to_vec).collect()
}
