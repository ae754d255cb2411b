//! A command that no server known to us has: the server is asked whether it knows it.
//!
//! One that it doesn't know has no effect, so it may be sent: the server's own error answers it. One that it
//! knows (a module's, a newer server's) is refused where it may name a folded key, and queued within MULTI.

use crate::command::table;
use crate::exchange::{Effect, Io, Step};
use crate::resp::{Answer, Protocol, Reply, write_command};

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct Probe {
    protocol: Protocol,
    args: Vec<Vec<u8>>,
    when_known: WhenKnown,
    sent: bool,
}

/// What becomes of a command that the server knows.
#[derive(Debug)]
pub(crate) enum WhenKnown {
    /// It may name a folded key: this error.
    Refuse(String),
    /// It has been queued.
    Queued,
    /// It has been queued, and may name a folded key: this error, which spoils the queue.
    RefuseQueued(String),
}

impl Probe {
    /// Asks the server for the command; there is one reply.
    pub(crate) fn start(args: &[&[u8]], when_known: WhenKnown, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        // Of a command that is known it is the subcommand that isn't.
        let is_container = table().lookup(args[0]).is_some_and(|command| command.is_container);
        let name = args[..if is_container { 2.min(args.len()) } else { 1 }].join(&b'|');
        write_command(wire, &[b"COMMAND", b"INFO", &name]);
        Self { protocol, args: args.iter().map(|arg| arg.to_vec()).collect(), when_known, sent: false }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], io: &mut Io<'_>) -> Step {
        let spoils = !matches!(self.when_known, WhenKnown::Refuse(_));
        if self.sent {
            io.answer.extend_from_slice(reply);
            return Step::Done(if spoils { Effect::SpoilQueue } else { Effect::None });
        }
        let known = match Reply::parse(reply) {
            Ok(Reply::Array(mut commands)) => !matches!(commands.next(), None | Some(Reply::Nil)),
            // Whether it exists can't be told; it is treated as one that does.
            _ => true,
        };
        if !known {
            write_command(io.wire, &self.args.iter().map(Vec::as_slice).collect::<Vec<_>>());
            self.sent = true;
            return Step::More(1);
        }
        let mut answer = Answer::new(io.answer, self.protocol);
        match &self.when_known {
            WhenKnown::Queued => answer.simple("QUEUED"),
            WhenKnown::Refuse(message) => answer.error(message),
            WhenKnown::RefuseQueued(message) => {
                answer.error(message);
                return Step::Done(Effect::SpoilQueue);
            }
        }
        Step::Done(Effect::None)
    }
}
