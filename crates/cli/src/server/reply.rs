//! Replies between the client library, which reads them into values, and the core, which takes them as they came.

use redis::{ServerError, Value};

/// The bytes of a reply in RESP2, as the server sent them.
pub(crate) fn encode(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.extend_from_slice(b"$-1\r\n"),
        Value::Int(number) => line(b':', number.to_string().as_bytes(), out),
        Value::Okay => out.extend_from_slice(b"+OK\r\n"),
        Value::SimpleString(text) => line(b'+', text.as_bytes(), out),
        Value::ServerError(error) => line(b'-', error_text(error).as_bytes(), out),
        Value::BulkString(bytes) => {
            line(b'$', bytes.len().to_string().as_bytes(), out);
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        Value::Array(elements) => {
            line(b'*', elements.len().to_string().as_bytes(), out);
            elements.iter().for_each(|element| encode(element, out));
        }
        // The tools' connections speak RESP2, which has nothing else.
        other => line(b'-', format!("ERR keyfold: unexpected reply {other:?}").as_bytes(), out),
    }
}

/// The error's line: its code, then what the server says of it.
pub(crate) fn error_text(error: &ServerError) -> String {
    match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    }
}

fn line(kind: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_what_they_were() {
        let text = b"*6\r\n$-1\r\n:-7\r\n+OK\r\n+QUEUED\r\n$3\r\na\r\n\r\n-BUSYKEY Target key name already exists.\r\n";
        let value = redis::parse_redis_value(text).unwrap();
        let mut out = Vec::new();
        encode(&value, &mut out);
        assert_eq!(out.escape_ascii().to_string(), text.escape_ascii().to_string());
    }
}
