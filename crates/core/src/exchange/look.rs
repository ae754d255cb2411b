//! A command that reads one key in a bucket and writes nothing: one HGET, and what the command's function makes of it.
//!
//! That is all where the value lies in its field, as nearly all do. Where it is spilled, or the function needs the server's
//! help, the command is worked out from the start by a [`Work`], which knows how.

use smallvec::SmallVec;

use crate::exchange::key::decode;
use crate::exchange::native::KeyBytes;
use crate::exchange::reply_kind::Refusal;
use crate::exchange::{Effect, Env, Io, Step, Work, failure};
use crate::frame::{Body, Frame};
use crate::layout::{NamespaceIndex, Place};
use crate::record::physical_read;
use crate::resp::{Answer, Protocol, Reply, write_command};
use crate::string::{Call, Entry, Held, Run, Space, Unread, WhyUnread, finish};

/// A reading command under way.
#[derive(Debug)]
pub(crate) struct Look {
    args: SmallVec<[KeyBytes; 2]>,
    run: Run,
    namespace: NamespaceIndex,
    protocol: Protocol,
    /// It is worked out after all.
    work: Option<Box<Work>>,
}

impl Look {
    /// Whether a key in this place can be looked at so: it is a field of a bucket, and the stored bytes are a frame.
    pub(crate) fn may_take(place: &Place) -> bool {
        place.kind.is_field() && place.kind.packing().is_none()
    }

    /// Sends HGET; it has one reply. The key is the first argument.
    pub(crate) fn start(run: Run, args: &[&[u8]], place: &Place, protocol: Protocol, wire: &mut Vec<u8>) -> Self {
        write_command(wire, &physical_read(Some(place), args[1]));
        let args = args.iter().map(|arg| KeyBytes::from_slice(arg)).collect();
        Self { args, run, namespace: place.namespace, protocol, work: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some(work) = &mut self.work {
            return work.handle_reply(reply, env, io);
        }
        let held = match Reply::parse(reply) {
            Ok(Reply::Nil) => Held::Nothing,
            Ok(Reply::Bulk(stored)) => match self.read(stored, env) {
                Some(held) => held,
                None => return self.work_out(env, io),
            },
            _ => return Refusal::of(reply).end(io),
        };
        let before = io.answer.len();
        if self.answer(held, env, io) {
            return Step::Done(Effect::None);
        }
        io.answer.truncate(before);
        self.work_out(env, io)
    }

    /// Answers by what the key holds; false where that takes the server's help.
    fn answer(&self, held: Held, env: &Env<'_>, io: &mut Io<'_>) -> bool {
        let args: SmallVec<[&[u8]; 4]> = self.args.iter().map(SmallVec::as_slice).collect();
        let mut space = Space::new(env.now_ms);
        space.load(args[1], held);
        let mut answer = Answer::new(io.answer, self.protocol);
        let flow = (self.run)(&Call { args: &args, dialect: env.dialect() }, &mut space, &mut answer);
        finish(flow, &mut answer).is_ok()
    }

    /// What the key holds by what is stored in its field; none where its value lies elsewhere.
    fn read(&self, stored: &[u8], env: &Env<'_>) -> Option<Held> {
        let key = &self.args[1];
        let unread = |expires_at_ms, why: &str| {
            let why = WhyUnread::Undecodable(failure(key, why));
            Held::Unread(Unread { origin: key.to_vec(), expires_at_ms, why })
        };
        let frame = match Frame::decode(stored) {
            Ok(Frame { body: Body::Spill { .. }, .. }) => return None,
            Ok(frame) => frame,
            Err(error) => return Some(unread(None, &error.to_string())),
        };
        let expires_at_ms = frame.expires_at_ms;
        env.note_read_until(key, expires_at_ms);
        Some(match decode(env, self.namespace, key, &frame, None) {
            Ok(Some(value)) => Held::String(Entry { value: value.into_owned(), expires_at_ms }),
            Ok(None) => Held::Nothing,
            Err(why) => unread(expires_at_ms, &why),
        })
    }

    /// Begins from the start, where one look does not tell.
    fn work_out(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let args: Vec<&[u8]> = self.args.iter().map(SmallVec::as_slice).collect();
        let located = env.layout.locate(args[1]);
        let (work, replies) =
            Work::start(self.run, &args, std::iter::once((args[1], located)), self.protocol, env, io.wire);
        self.work = Some(Box::new(work));
        Step::More(replies)
    }
}
