//! A command of another type (a list's, a hash's …) that names a folded key, whose keys are strings.
//!
//! Where the key exists the answer is WRONGTYPE. Where it doesn't, a command that only reads, or that can
//! only take away, goes to the server as it came, which has no such key either; one that would create a key
//! of its type is refused.

use crate::exchange::load::{Load, Loading};
use crate::exchange::{Effect, Env, Io, Step};
use crate::resp::{Answer, Protocol, write_command};
use crate::string::{Held, Space, WRONG_TYPE};

/// What such a command comes to.
#[derive(Clone, Debug)]
pub(crate) struct OnOtherType {
    /// Where the folded keys are among its arguments.
    pub(crate) folded: Vec<usize>,
    /// It works on HyperLogLogs, which are strings of their own form.
    pub(crate) hyperloglog: bool,
    /// The error where no key exists and the command would create one.
    pub(crate) refusal: Option<String>,
}

impl OnOtherType {
    /// The error that answers the command; none where the server is to answer it, which has no such keys.
    pub(crate) fn error<'a>(&'a self, args: &[Vec<u8>], space: &Space) -> Option<&'a str> {
        let mut held = self.folded.iter().filter_map(|index| args.get(*index)).map(|key| space.held(key));
        match held.find(|held| **held != Held::Nothing) {
            None => self.refusal.as_deref(),
            Some(Held::String(entry)) if self.hyperloglog && entry.value.starts_with(b"HYLL") => {
                Some(FOLDED_HYPERLOGLOG)
            }
            Some(_) if self.hyperloglog => Some(NO_HYPERLOGLOG),
            Some(_) => Some(WRONG_TYPE),
        }
    }
}

/// What HyperLogLog commands say of any other string.
const NO_HYPERLOGLOG: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";

const FOLDED_HYPERLOGLOG: &str =
    "ERR keyfold: HyperLogLog commands are not supported on folded keys; keep them under other names";

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct Foreign {
    protocol: Protocol,
    load: Load,
    args: Vec<Vec<u8>>,
    foreign: OnOtherType,
    passed_on: bool,
}

impl Foreign {
    /// Reads the folded keys; with the number of replies to come.
    pub(crate) fn start(
        args: &[&[u8]],
        foreign: &OnOtherType,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut load = Load::new(env, foreign.folded.iter().map(|index| args[*index]));
        let replies = load.send(wire);
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        (Self { protocol, load, args, foreign: foreign.clone(), passed_on: false }, replies)
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
        let mut answer = Answer::new(io.answer, self.protocol);
        match (filled, self.foreign.error(&self.args, &space)) {
            (Err(message), _) => answer.error(&message),
            (Ok(()), Some(error)) => answer.error(error),
            (Ok(()), None) => {
                write_command(io.wire, &self.args.iter().map(Vec::as_slice).collect::<Vec<_>>());
                self.passed_on = true;
                return Step::More(1);
            }
        }
        Step::Done(Effect::None)
    }
}
