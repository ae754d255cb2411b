//! Fields as numbers: HINCRBY, HINCRBYFLOAT. Redis 7.0 t_hash.c.
//!
//! A field keeps its expiry. Floats are the server's, as those of strings are: it adds them in a hash on the scratch key.

use super::write::edit;
use crate::collection::Field;
use crate::notify::Event;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::string::{Call, Flow, Halt, HelpRequest, Reply, SCRATCH, Space};

/// HINCRBY key field integer: the new value.
pub(super) fn hincrby(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, name) = (call.args[1], call.args[2]);
    let by = call.integer(3)?;
    let old = match space.hash(key)?.and_then(|hash| hash.get(name)) {
        Some(field) => parse_integer(&field.value).ok_or("ERR hash value is not an integer")?,
        None => 0,
    };
    let sum = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
    replace_value(space, key, name, sum.to_string().into_bytes())?;
    space.note(Event::HIncrBy, key);
    answer.integer(sum);
    Ok(())
}

/// HINCRBYFLOAT key field number: the new value, as a string. The number is looked at before the key's type.
pub(super) fn hincrbyfloat(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, name, by) = (call.args[1], call.args[2], call.args[3]);
    let Some(replies) = space.help() else {
        let old = space.hash(key).ok().flatten().and_then(|hash| hash.get(name));
        return Err(Halt::Ask(sum_ask(old.map(|field| field.value.clone()), by)));
    };
    let sum = match replies.into_iter().nth_back(1) {
        Some(Reply::Bytes(sum)) => sum,
        Some(Reply::Error(error)) => return Err(Halt::Error(error)),
        _ => return Err("ERR keyfold: unexpected reply to HINCRBYFLOAT".into()),
    };
    replace_value(space, key, name, sum.clone())?;
    space.note(Event::HIncrByFloat, key);
    answer.bulk(&sum);
    Ok(())
}

fn sum_ask(old: Option<Vec<u8>>, by: &[u8]) -> HelpRequest {
    const FIELD: &[u8] = b"f";
    let mut commands = Vec::with_capacity(3);
    if let Some(old) = old {
        commands.push(vec![b"HSET".to_vec(), SCRATCH.to_vec(), FIELD.to_vec(), old]);
    }
    commands.push(vec![b"HINCRBYFLOAT".to_vec(), SCRATCH.to_vec(), FIELD.to_vec(), by.to_vec()]);
    commands.push(vec![b"DEL".to_vec(), SCRATCH.to_vec()]);
    HelpRequest { commands }
}

/// Writes a value and leaves the field's expiry as it is.
fn replace_value(space: &mut Space, key: &[u8], name: &[u8], value: Vec<u8>) -> Flow {
    let hash = edit(space, key)?;
    match hash.get_mut(name) {
        Some(field) => field.value = value,
        None => {
            hash.insert(name.to_vec(), Field { value, expires_at_ms: None });
        }
    }
    Ok(())
}
