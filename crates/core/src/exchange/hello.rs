//! HELLO: what it asks for, and its answer.

use std::sync::Arc;

use crate::access::User;
use crate::resp::{Protocol, Reply, write_bulk};

/// What HELLO asks for, once it is known to be right.
#[derive(Clone, Debug)]
pub struct Hello {
    pub(crate) protocol: Protocol,
    pub(crate) user: Arc<User>,
    pub(crate) name: Option<Vec<u8>>,
}

/// A server's answer to HELLO, with the id of the client's own connection, and with this mode where there is one.
pub(super) fn answer_hello(reply: &[u8], id: u64, mode: Option<&str>, out: &mut Vec<u8>) {
    let Ok(Reply::Array(mut fields) | Reply::Map(mut fields)) = Reply::parse(reply) else {
        out.extend_from_slice(reply);
        return;
    };
    let head = reply.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    out.extend_from_slice(&reply[..head]);
    while let (Some(name), Some(value)) = (fields.next_raw(), fields.next_raw()) {
        out.extend_from_slice(name);
        match (Reply::parse(name), mode) {
            (Ok(Reply::Bulk(b"id")), _) => out.extend_from_slice(format!(":{id}\r\n").as_bytes()),
            (Ok(Reply::Bulk(b"mode")), Some(mode)) => write_bulk(out, mode.as_bytes()),
            _ => out.extend_from_slice(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_answer_shows_the_clients_id() {
        let mut out = Vec::new();
        answer_hello(b"%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:123\r\n", 7, None, &mut out);
        assert_eq!(out, b"%2\r\n$5\r\nproto\r\n:3\r\n$2\r\nid\r\n:7\r\n");
        out.clear();
        answer_hello(b"*2\r\n$4\r\nmode\r\n$7\r\ncluster\r\n", 7, Some("standalone"), &mut out);
        assert_eq!(out, b"*2\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n");
        out.clear();
        answer_hello(b"-ERR no\r\n", 7, None, &mut out);
        assert_eq!(out, b"-ERR no\r\n");
    }
}
