//! A command of another type (a list's, a hash's …) that names a folded key, whose keys are strings.
//!
//! Where the key exists the answer is WRONGTYPE. Where it doesn't, a command that only reads, or that can
//! only take away, goes to the server as it came, which has no such key either; one that would create a key
//! of its type is refused.

use crate::exchange::load::{Load, Loading};
use crate::exchange::{Effect, Env, Io, Step};
use crate::resp::{Answer, Protocol, write_command};
use crate::string::{Held, Space, WRONG_TYPE};

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct Foreign {
    protocol: Protocol,
    load: Load,
    args: Vec<Vec<u8>>,
    /// The error where no key exists and the command would create one.
    refusal: Option<String>,
    passed_on: bool,
}

impl Foreign {
    /// Reads the folded keys; with the number of replies to come.
    pub(crate) fn start(
        args: &[&[u8]],
        folded: &[usize],
        refusal: Option<String>,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut load = Load::new(env, folded.iter().map(|index| args[*index]));
        let replies = load.send(wire);
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        (Self { protocol, load, args, refusal, passed_on: false }, replies)
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if self.passed_on {
            io.answer.extend_from_slice(reply);
            return Step::Done(Effect::None);
        }
        match self.load.handle_reply(reply, env, io.wire) {
            Loading::Wait => return Step::Wait,
            Loading::More(replies) => return Step::More(replies),
            Loading::Failed(error) => {
                io.answer.extend(error);
                return Step::Done(Effect::None);
            }
            Loading::Ready => {}
        }
        let mut space = Space::new(env.now_ms);
        let filled = self.load.fill(&mut space);
        let exists = self.load.keys().iter().any(|key| *space.held(&key.logical) != Held::Nothing);
        let mut answer = Answer::new(io.answer, self.protocol);
        match (filled, &self.refusal) {
            (Err(message), _) => answer.error(&message),
            (Ok(()), _) if exists => answer.error(WRONG_TYPE),
            (Ok(()), Some(refusal)) => answer.error(refusal),
            (Ok(()), None) => {
                write_command(io.wire, &self.args.iter().map(Vec::as_slice).collect::<Vec<_>>());
                self.passed_on = true;
                return Step::More(1);
            }
        }
        Step::Done(Effect::None)
    }
}
