//! A command that the server carries out under the very names that it came with.
//!
//! Keys of another type than their namespace's stay where they were while they are moved, so commands on them are the server's. One that
//! writes would make a second key under such a name if the first has become something else since it was read: it goes by the script
//! that looks once more, as far as a script can carry it out.

use crate::command::{self, Command, Flags, Id};
use crate::exchange::key::Key;
use crate::exchange::script::{self, CompareAndSet, NOT_AS_READ};
use crate::exchange::{Env, Io, Step, done, store};
use crate::resp::{Protocol, write_command};

/// A script takes so many words of a command.
const MOST_WORDS: usize = 4000;

/// One under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum PassedOn {
    /// As it came.
    Freely,
    /// By the script, if the keys still are what was read.
    IfAsRead,
}

impl PassedOn {
    /// Sends it as it came; one reply.
    pub(super) fn freely(args: &[Vec<u8>], wire: &mut Vec<u8>) -> Self {
        write_command(wire, &words(args));
        Self::Freely
    }

    /// Sends one that names these keys, which were read at this time; one reply.
    pub(super) fn if_as_read(
        args: &[Vec<u8>],
        keys: &[Key],
        now_ms: i64,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Self {
        let words = words(args);
        let command = command::table().resolve(&words).filter(|command| command.server_has(&words, env.dialect()));
        if args.len() > MOST_WORDS || !command.is_some_and(may_be_scripted) {
            return Self::freely(args, wire);
        }
        let mut checks = CompareAndSet::default();
        store::check_all(&mut checks, keys, now_ms);
        checks.send_command(&words, protocol, wire);
        Self::IfAsRead
    }

    /// Whether it went as it came.
    pub(super) fn is_free(self) -> bool {
        matches!(self, Self::Freely)
    }

    /// Takes the reply; none where the keys are something else by now, and nothing was done.
    pub(super) fn handle_reply(&mut self, reply: &[u8], args: &[Vec<u8>], io: &mut Io<'_>) -> Option<Step> {
        match self {
            Self::Freely => Some(done(io, reply)),
            Self::IfAsRead if reply == NOT_AS_READ => None,
            // The server has no such command, and says it better where it isn't asked by a script.
            Self::IfAsRead if script::is_unknown_in_scripts(reply) => {
                *self = Self::freely(args, io.wire);
                Some(Step::More(1))
            }
            Self::IfAsRead => Some(done(io, &script::without_place(reply))),
        }
    }
}

fn words(args: &[Vec<u8>]) -> Vec<&[u8]> {
    args.iter().map(Vec::as_slice).collect()
}

/// Whether it is worth a script, and one can carry it out.
fn may_be_scripted(command: &Command) -> bool {
    let is_free = !command.flags.intersects(Flags::BLOCKING | Flags::NOSCRIPT);
    // Lua hasn't all integers exactly that HINCRBY answers.
    command.flags.contains(Flags::WRITE) && is_free && command.id != Id::Hincrby
}
