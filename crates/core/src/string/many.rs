//! Many strings in one command: MGET, MSET, MSETNX. Redis 7.0 t_string.c.

use super::{Call, Entry, Flow, Halt, Space};
use crate::resp::Answer;

/// MGET key …: the values in order; nil where there is none, or another type.
///
/// In the place of a value that can't be decoded stands its error. Nil would say that it isn't there, and an error
/// in place of the array would keep the other values from the client; clients know errors inside arrays from EXEC.
pub(super) fn mget(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let keys = &call.args[1..];
    answer.array(keys.len());
    for key in keys {
        match space.string(key) {
            Ok(Some(entry)) => answer.bulk(&entry.value),
            Err(Halt::Undecodable(error)) => answer.error(&error),
            Err(Halt::Large) => return Err(Halt::Large),
            Ok(None) | Err(_) => answer.nil(),
        }
    }
    Ok(())
}

/// MSET key value …: OK. Expiries are gone, and of a key named twice the last value holds.
pub(super) fn mset(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let pairs = pairs(call, "mset")?;
    write(pairs, space);
    answer.ok();
    Ok(())
}

/// MSETNX key value …: 1 where it wrote all, 0 where one of the keys was there and it wrote none.
pub(super) fn msetnx(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let pairs = pairs(call, "msetnx")?;
    let free = !pairs.iter().step_by(2).any(|key| space.exists(key));
    if free {
        write(pairs, space);
    }
    answer.integer(i64::from(free));
    Ok(())
}

/// Keys and values by turns. An odd number passes the server's arity check and is refused in the command.
fn pairs<'a>(call: &'a Call<'_>, command: &str) -> Result<&'a [&'a [u8]], Halt> {
    let pairs = &call.args[1..];
    if pairs.len() % 2 == 1 {
        return Err(Halt::Error(format!("ERR wrong number of arguments for '{command}' command")));
    }
    Ok(pairs)
}

fn write(pairs: &[&[u8]], space: &mut Space) {
    for pair in pairs.chunks_exact(2) {
        space.put(pair[0], Entry { value: pair[1].to_vec(), expires_at_ms: None });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::now_is;

    #[test]
    fn mget_shows_other_types_as_nil() {
        let mut keys = now_is(1000);
        keys.string("a", "");
        keys.other("l", "list");
        assert_eq!(keys.run(&["MGET", "a", "l", "none", "a"]), "*4\r\n$0\r\n\r\n$-1\r\n$-1\r\n$0\r\n\r\n");
    }

    #[test]
    fn msetnx_is_all_or_nothing() {
        let mut keys = now_is(1000);
        keys.other("l", "list");
        assert_eq!(keys.run(&["MSETNX", "a", "1", "l", "2"]), ":0\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        assert_eq!(keys.run(&["MSETNX", "a", "1", "a", "2"]), ":1\r\n");
        assert_eq!(keys.run(&["GET", "a"]), "$1\r\n2\r\n");
        assert_eq!(keys.run(&["MSET", "a", "1", "b"]), "-ERR wrong number of arguments for 'mset' command\r\n");
    }
}
