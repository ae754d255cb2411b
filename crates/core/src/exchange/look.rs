//! A command that reads one key in a bucket and writes nothing: one HGET, and what the command's function makes of it.
//!
//! That is all where the value lies in its field, as nearly all do. Where it is spilled, or the function needs the server's
//! help, a [`Work`] goes on from the same reply: the field isn't read a second time, because what the client has sent behind
//! this command may have changed it by then.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::collection::PackedView;
use crate::command::Id;
use crate::exchange::glance::glance;
use crate::exchange::key::{decode, unpack};
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
    id: Id,
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
    pub(crate) fn start(
        (id, run): (Id, Run),
        args: &[&[u8]],
        place: &Place,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Self {
        write_command(wire, &physical_read(Some(place), args[1]));
        let args = args.iter().map(|arg| KeyBytes::from_slice(arg)).collect();
        Self { args, id, run, namespace: place.namespace, protocol, work: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some(work) = &mut self.work {
            return work.handle_reply(reply, env, io);
        }
        let held = match Reply::parse(reply) {
            Ok(Reply::Nil) => Held::Nothing,
            Ok(Reply::Bulk(stored)) => match InField::read(stored, &self.args[1], self.namespace, env) {
                Some(InField::Value(value, _)) if self.glance(&value, env, io) => return Step::Done(Effect::None),
                Some(found) => found.held(&self.args[1], self.namespace, env),
                None => return self.work_out(reply, env, io),
            },
            _ => return Refusal::of(reply).end(io),
        };
        let before = io.answer.len();
        if self.answer(held, env, io) {
            return Step::Done(Effect::None);
        }
        io.answer.truncate(before);
        self.work_out(reply, env, io)
    }

    /// Answers from a collection as it is packed; false where it has to be taken apart.
    fn glance(&self, value: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> bool {
        if env.layout.namespace(self.namespace).collection().is_none() {
            return false;
        }
        let args: SmallVec<[&[u8]; 4]> = self.args.iter().map(SmallVec::as_slice).collect();
        let view = PackedView::of(value);
        view.is_some_and(|view| glance(self.id, &args, &view, &mut Answer::new(io.answer, self.protocol)))
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

    /// Works the command out from what was read, where one look does not tell.
    fn work_out(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let args: Vec<&[u8]> = self.args.iter().map(SmallVec::as_slice).collect();
        let key = (args[1], env.layout.locate(args[1]));
        // It would read the same field by the same one command.
        let mut asked = Vec::new();
        let (work, replies) = Work::start(self.run, &args, std::iter::once(key), self.protocol, env, &mut asked);
        debug_assert_eq!(replies, 1, "one field is one command");
        self.work.insert(Box::new(work)).take_replies(&[reply.to_vec()], env, io)
    }
}

/// What a key holds by what is stored in its field; none where its value lies elsewhere.
pub(super) fn held_in_field(stored: &[u8], key: &[u8], namespace: NamespaceIndex, env: &Env<'_>) -> Option<Held> {
    InField::read(stored, key, namespace, env).map(|found| found.held(key, namespace, env))
}

/// What lies in a key's field.
enum InField<'s> {
    /// Its value, a collection's packed, and when the frame around it expires.
    Value(Cow<'s, [u8]>, Option<i64>),
    /// Nothing that is the key's any more.
    Nothing,
    /// What can't be decoded, and why.
    Unreadable(Option<i64>, String),
}

impl<'s> InField<'s> {
    /// Decodes what is stored; none where the value lies elsewhere.
    fn read(stored: &'s [u8], key: &[u8], namespace: NamespaceIndex, env: &Env<'_>) -> Option<Self> {
        let frame = match Frame::decode(stored) {
            Ok(Frame { body: Body::Spill { .. } | Body::Parts { .. }, .. }) => return None,
            Ok(frame) => frame,
            Err(error) => return Some(Self::Unreadable(None, error.to_string())),
        };
        let expires_at_ms = frame.expires_at_ms;
        env.note_read_until(key, expires_at_ms);
        if frame.expired(env.now_ms) {
            return Some(Self::Nothing);
        }
        Some(match decode(env, namespace, key, &frame, None) {
            Ok(Some(value)) => Self::Value(value, expires_at_ms),
            Ok(None) => Self::Nothing,
            Err(why) => Self::Unreadable(expires_at_ms, why),
        })
    }

    /// What the key holds by that.
    fn held(self, key: &[u8], namespace: NamespaceIndex, env: &Env<'_>) -> Held {
        let collection = env.layout.namespace(namespace).collection();
        let unread = |expires_at_ms, why: &str| {
            let why = WhyUnread::Undecodable(failure(key, why));
            Held::Unread(Unread { origin: key.to_vec(), expires_at_ms, collection, why })
        };
        match (self, collection) {
            (Self::Nothing, _) => Held::Nothing,
            (Self::Unreadable(expires_at_ms, why), _) => unread(expires_at_ms, &why),
            (Self::Value(value, expires_at_ms), None) => {
                Held::String(Entry { value: value.into_owned(), expires_at_ms })
            }
            (Self::Value(value, expires_at_ms), Some(kind)) => match unpack(kind, &value, expires_at_ms) {
                Ok(collected) => {
                    env.note_read_until(key, collected.next_member_expiry(env.now_ms));
                    Held::Collection(collected)
                }
                Err(why) => unread(expires_at_ms, &why),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;
    use crate::drive::Context;
    use crate::exchange::ServerInfo;
    use crate::layout::Layout;
    use crate::string;

    /// What has expired is gone, whatever of it a command would need.
    #[test]
    fn what_has_expired_is_not_there() {
        const NOW_MS: i64 = 1_700_000_000_000;
        let layout = "[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n\
             [[namespace]]\nkeys = 's:{id:int}'\ntype = 'set'\nbucket = { span = 10 }\n\
             [[namespace]]\nkeys = 'h:{id:int}'\ntype = 'hash'\nbucket = { span = 10 }\n";
        let layout = Layout::parse_file(layout).unwrap();
        let context = Context::without_data(&layout, ServerInfo::default());
        let nonces = &mut || 7;
        for (key, value, request) in [
            ("n:15", &b"x"[..], "STRLEN n:15"),
            ("s:15", b"\x40\x01a", "SISMEMBER s:15 a"),
            ("s:15", b"\x40\x01a", "SCARD s:15"),
            ("h:15", b"\x42\x01f\xd1", "HEXISTS h:15 f"),
            ("h:15", b"\x42\x01f\xd1", "HLEN h:15"),
        ] {
            let place = layout.locate(key.as_bytes()).place().unwrap();
            let mut stored = Vec::new();
            Body::Raw(value).encode(Some(NOW_MS), &mut stored);
            let reply = [format!("${}\r\n", stored.len()).as_bytes(), &stored, b"\r\n"].concat();
            let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let command = table().resolve(&args).unwrap();
            let run = command.run.or(command.members).unwrap();
            for (now_ms, answer) in [(NOW_MS, ":1\r\n"), (NOW_MS + 1, ":0\r\n")] {
                let mut env = context.env(now_ms, nonces);
                let (mut wire, mut out) = (Vec::new(), Vec::new());
                let mut look = Look::start((command.id, run), &args, &place, Protocol::Resp2, &mut wire);
                let step = look.handle_reply(&reply, &mut env, &mut Io { wire: &mut wire, answer: &mut out });
                assert!(matches!(step, Step::Done(_)), "{request}");
                assert_eq!(String::from_utf8_lossy(&out), answer, "{request} at {now_ms}");
            }
        }
    }

    /// What a client sends behind a command may change the field before it would be read a second time.
    #[test]
    fn a_field_is_read_once() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let context = Context::without_data(&layout, ServerInfo::default());
        let nonces = &mut || 7;
        let mut env = context.env(1, nonces);
        let place = layout.locate(b"n:15").place().unwrap();
        let mut spilled = Vec::new();
        Body::Spill { nonce: 3, slot: None }.encode(None, &mut spilled);
        for (name, stored, next) in [("dump", b"x".to_vec(), "SET"), ("strlen", spilled, "STRLEN")] {
            let (mut wire, mut answer) = (Vec::new(), Vec::new());
            let args: [&[u8]; 2] = [name.as_bytes(), b"n:15"];
            let run = string::lookup(name.as_bytes()).unwrap();
            let mut look = Look::start((Id::Other, run), &args, &place, Protocol::Resp2, &mut wire);
            wire.clear();
            let reply = [format!("${}\r\n", stored.len()).as_bytes(), &stored, b"\r\n"].concat();
            let io = &mut Io { wire: &mut wire, answer: &mut answer };
            assert!(matches!(look.handle_reply(&reply, &mut env, io), Step::More(_)), "{name}");
            let sent = String::from_utf8_lossy(&wire).into_owned();
            assert!(sent.contains(next) && !sent.contains("HGET") && answer.is_empty(), "{name}: {sent}");
        }
    }
}
