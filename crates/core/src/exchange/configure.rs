//! CONFIG SET: the server's answer, and then what it has set, as far as keyfold goes by it.

use std::sync::Arc;

use crate::clients::Clients;
use crate::exchange::{Io, Step, done};
use crate::notify::Classes;
use crate::resp::word::is_word;

/// Whether a request sets anything.
pub(crate) fn sets(args: &[&[u8]]) -> bool {
    matches!(args, [config, set, ..] if is_word(config, "CONFIG") && is_word(set, "SET"))
}

/// Such a request under way, and behind it the question what is set.
#[derive(Debug)]
pub(crate) struct Configure {
    clients: Arc<Clients>,
    answer: Option<Vec<u8>>,
}

impl Configure {
    /// Asks, behind the request; there are two replies to come.
    pub(crate) fn start(clients: Arc<Clients>, wire: &mut Vec<u8>) -> Self {
        Classes::ask(wire);
        Self { clients, answer: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], io: &mut Io<'_>) -> Step {
        let Some(answer) = &self.answer else {
            self.answer = Some(reply.to_vec());
            return Step::Wait;
        };
        // A server that doesn't say goes on as before.
        if let Some(classes) = Classes::read(reply) {
            self.clients.notifications().follow(classes);
        }
        done(io, answer)
    }
}
