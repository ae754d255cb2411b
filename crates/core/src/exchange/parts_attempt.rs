//! A command on members of a collection that lay in parts when it was last looked at: one call of the script, if it still does.

use crate::exchange::parts::{Asker, PartsCall};
use crate::exchange::{Env, Io, Step, Work};
use crate::layout::Place;
use crate::resp::{Protocol, Texts};
use crate::string::Run;

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct PartsAttempt {
    call: PartsCall,
    run: Run,
    /// It is worked out after all.
    work: Option<Box<Work>>,
}

impl PartsAttempt {
    /// Sends it; it has one reply. What the client asks behind of the same key must wait, or be joined to this, as this may have to look
    /// at the key after all. None where it has to be looked at first.
    pub(crate) fn start(
        run: Run,
        args: &[&[u8]],
        place: &Place,
        nonce: u64,
        protocol: Protocol,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Option<Self> {
        let asker = Asker { protocol, notices: None, is_in_former_place: false };
        let call = PartsCall::start(args, place, nonce, b"", asker, env, wire)?;
        Some(Self { call, run, work: None })
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some(work) = &mut self.work {
            return work.handle_reply(reply, env, io);
        }
        if let Some(step) = self.call.handle_reply(reply, env, io) {
            return step;
        }
        env.stats.in_parts().forget(self.call.key());
        let args = self.call.args();
        let key = (args[1], env.layout.locate(args[1]));
        let (work, replies) = Work::start(self.run, &args, std::iter::once(key), self.call.protocol(), env, io.wire);
        self.work = Some(Box::new(work));
        Step::More(replies)
    }

    /// Begins to answer with a reply that has begun to come, where it is to be handed on in pieces.
    pub(crate) fn begin_flow(&self, input: &[u8], out: &mut Vec<u8>) -> Option<Texts> {
        match &self.work {
            Some(work) => work.begin_flow(input, out),
            None => self.call.begin_flow(input, out),
        }
    }

    /// The nonce that another call on this key has to name to be joined to this one; none where it may not be.
    pub(crate) fn may_be_followed(&self, key: &[u8]) -> Option<u64> {
        self.call.may_be_followed(key).filter(|_| self.work.is_none())
    }

    /// What it has become, where it is worked out.
    pub(crate) fn work(&self) -> Option<&Work> {
        self.work.as_deref()
    }
}
