//! Parts of a string: APPEND, GETRANGE (SUBSTR), SETRANGE, STRLEN. Redis 7.0 t_string.c.

use super::{Call, Entry, Flow, Halt, MAX_STRING_BYTES, Space};
use crate::notify::Event;
use crate::resp::Answer;

/// A length as an answer. No buffer is longer than an `i64` counts.
pub(super) fn length(bytes: &[u8]) -> i64 {
    i64::try_from(bytes.len()).unwrap_or(i64::MAX)
}

/// Refuses a string that would be longer than the server allows.
fn check_length(size: i64, append: i64) -> Result<(), Halt> {
    match size.checked_add(append) {
        Some(total) if total <= MAX_STRING_BYTES => Ok(()),
        _ => Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into()),
    }
}

/// STRLEN key: the length in bytes, 0 where there is none.
pub(super) fn strlen(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let len = space.string(call.args[1])?.map_or(0, |entry| length(&entry.value));
    answer.integer(len);
    Ok(())
}

/// APPEND key value: the new length. The expiry stays.
pub(super) fn append(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, tail) = (call.args[1], call.args[2]);
    if let Some(entry) = space.string(key)? {
        check_length(length(&entry.value), length(tail))?;
        space.check_growth(entry.value.len() + tail.len())?;
    } else {
        space.check_growth(tail.len())?;
    }
    let len = if let Some(entry) = space.edit(key) {
        entry.value.extend_from_slice(tail);
        length(&entry.value)
    } else {
        space.put(key, Entry { value: tail.to_vec(), expires_at_ms: None });
        length(tail)
    };
    space.note(Event::Append, key);
    answer.integer(len);
    Ok(())
}

/// GETRANGE key start end: the bytes from start to end, both included; negative ones count from the end.
pub(super) fn getrange(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let start = call.integer(2)?;
    let end = call.integer(3)?;
    let value = space.string(call.args[1])?.map_or(&[][..], |entry| &entry.value);
    answer.bulk(slice(value, start, end));
    Ok(())
}

fn slice(value: &[u8], start: i64, end: i64) -> &[u8] {
    if start < 0 && end < 0 && start > end {
        return &[];
    }
    // An end before the first byte is taken as the first byte, so GETRANGE 0 -100 gives one byte.
    let from_end = |at: i64| if at < 0 { length(value).saturating_add(at).max(0) } else { at };
    let start = usize::try_from(from_end(start)).unwrap_or(usize::MAX);
    let end = usize::try_from(from_end(end)).unwrap_or(usize::MAX).saturating_add(1).min(value.len());
    value.get(start..end).unwrap_or(&[])
}

/// SETRANGE key offset value: overwrites from offset on, zeros filling the gap; the new length.
pub(super) fn setrange(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (key, patch) = (call.args[1], call.args[3]);
    let offset = call.integer(2)?;
    let start = usize::try_from(offset).map_err(|_| Halt::from("ERR offset is out of range"))?;
    let len = space.string(key)?.map_or(0, |entry| length(&entry.value));
    if patch.is_empty() {
        answer.integer(len);
        return Ok(());
    }
    check_length(offset, length(patch))?;
    if offset + length(patch) > len {
        space.check_growth(start + patch.len())?;
    }
    if !space.exists(key) {
        space.put(key, Entry::default());
    }
    if let Some(entry) = space.edit(key) {
        let end = start + patch.len();
        if entry.value.len() < end {
            entry.value.resize(end, 0);
        }
        entry.value[start..end].copy_from_slice(patch);
        answer.integer(length(&entry.value));
        space.note(Event::SetRange, key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Fixture, now_is};

    #[test]
    fn ranges_at_the_edges() {
        let mut keys = now_is(1000);
        keys.string("k", "hello");
        for (start, end, reply) in [
            ("0", "-1", "$5\r\nhello\r\n"),
            ("0", "-100", "$1\r\nh\r\n"),
            ("-100", "-100", "$1\r\nh\r\n"),
            ("-1", "-2", "$0\r\n\r\n"),
            ("5", "9", "$0\r\n\r\n"),
            ("3", "1", "$0\r\n\r\n"),
            ("-9223372036854775808", "9223372036854775807", "$5\r\nhello\r\n"),
            ("9223372036854775807", "9223372036854775807", "$0\r\n\r\n"),
            ("x", "1", "-ERR value is not an integer or out of range\r\n"),
        ] {
            assert_eq!(keys.run(&["GETRANGE", "k", start, end]), reply, "{start} {end}");
        }
        assert_eq!(keys.run(&["SUBSTR", "none", "0", "-1"]), "$0\r\n\r\n");
    }

    #[test]
    fn setrange_fills_and_refuses() {
        let mut keys: Fixture = now_is(1000);
        assert_eq!(keys.run(&["SETRANGE", "k", "5", ""]), ":0\r\n");
        assert_eq!(keys.changed(), Vec::<String>::new());
        assert_eq!(keys.run(&["SETRANGE", "k", "2", "ab"]), ":4\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$4\r\n\0\0ab\r\n");
        assert_eq!(keys.run(&["SETRANGE", "k", "1", "x"]), ":4\r\n");
        assert_eq!(keys.run(&["GET", "k"]), "$4\r\n\0xab\r\n");
        assert_eq!(keys.run(&["SETRANGE", "k", "-1", "x"]), "-ERR offset is out of range\r\n");
        let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n";
        assert_eq!(keys.run(&["SETRANGE", "k", "536870912", "x"]), too_long);
        assert_eq!(keys.run(&["SETRANGE", "k", "9223372036854775807", "x"]), too_long);
    }

    #[test]
    fn append_keeps_the_expiry() {
        let mut keys = now_is(1000);
        keys.string_until("k", "a", 5000);
        assert_eq!(keys.run(&["APPEND", "k", "b"]), ":2\r\n");
        assert_eq!(keys.run(&["PTTL", "k"]), ":4000\r\n");
        assert_eq!(keys.run(&["APPEND", "new", ""]), ":0\r\n");
        assert_eq!(keys.run(&["EXISTS", "new"]), ":1\r\n");
    }
}
