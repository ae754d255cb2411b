//! The answer to HELLO.

use crate::resp::Reply;

/// A server's answer to HELLO, with the id of the client's own connection.
pub(super) fn answer_hello(reply: &[u8], id: u64, out: &mut Vec<u8>) {
    let Ok(Reply::Array(mut fields) | Reply::Map(mut fields)) = Reply::parse(reply) else {
        out.extend_from_slice(reply);
        return;
    };
    let head = reply.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    out.extend_from_slice(&reply[..head]);
    while let (Some(name), Some(value)) = (fields.next_raw(), fields.next_raw()) {
        out.extend_from_slice(name);
        if Reply::parse(name) == Ok(Reply::Bulk(b"id")) {
            out.extend_from_slice(format!(":{id}\r\n").as_bytes());
        } else {
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_answer_shows_the_clients_id() {
        let mut out = Vec::new();
        answer_hello(b"%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:123\r\n", 7, &mut out);
        assert_eq!(out, b"%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n");
        out.clear();
        answer_hello(b"-ERR no\r\n", 7, &mut out);
        assert_eq!(out, b"-ERR no\r\n");
    }
}
