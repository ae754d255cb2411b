//! WAIT and WAITAOF on a connection of the client's own, about writes that travelled on others.
//!
//! A server waits for what the connection itself was the last to hand to the replicas. So something is handed to them
//! first, which comes after all that the client has written, because all of it was answered before. A message in a
//! sharded channel is such a thing: replicas get it, no key is written, and no pattern of a subscriber matches it.
//! Servers before 7.0 don't know it; to them any command will do. Nodes of a cluster hand such messages to each other and
//! not to replicas: there a key of keyfold's own, in a slot of the node's, is written and removed at one moment.

use crate::admin::{WAIT_CHANNEL, wait_key};
use crate::exchange::reply_kind::ReplyKind;
use crate::exchange::{Io, Step, done};
use crate::resp::write_command;
use crate::server_info::ServerInfo;
use crate::slot::Slot;

const WRITE_AND_REMOVE: &[u8] = b"redis.call('SET', KEYS[1], '') return redis.call('DEL', KEYS[1])";

/// Sends what replicas get; it has one reply.
pub(crate) fn announce(server: &ServerInfo, wire: &mut Vec<u8>) -> Announced {
    if server.major() >= 7 {
        write_command(wire, &[b"SPUBLISH", WAIT_CHANNEL, b""]);
        Announced { kind: ReplyKind::of(b"SPUBLISH"), reply: None }
    } else {
        write_command(wire, &[b"PING"]);
        Announced { kind: ReplyKind::of(b"PING"), reply: None }
    }
}

/// The same to the node of a cluster that has this slot.
pub(crate) fn announce_in(slot: Slot, wire: &mut Vec<u8>) -> Announced {
    write_command(wire, &[b"EVAL", WRITE_AND_REMOVE, b"1", &wait_key(slot)]);
    Announced { kind: ReplyKind::Integer, reply: None }
}

/// Something under way to the replicas, and WAIT behind it.
#[derive(Debug)]
pub(crate) struct Announced {
    kind: ReplyKind,
    reply: Option<Vec<u8>>,
}

impl Announced {
    /// Takes the reply to the announcement, then WAIT's.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], io: &mut Io<'_>) -> Step {
        let Some(announced) = self.reply.take() else {
            self.reply = Some(reply.to_vec());
            return if self.kind.fits(reply) { Step::Wait } else { Step::Unexpected };
        };
        // Without it WAIT speaks of nothing that the client wrote.
        let failed = announced.starts_with(b"-") && !reply.starts_with(b"-");
        done(io, if failed { &announced } else { reply })
    }
}
