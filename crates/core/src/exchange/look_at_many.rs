//! A command that reads several keys, all in buckets, and writes nothing: their fields at one moment, and what the command's
//! function makes of them.
//!
//! As with one key ([`Look`](super::Look)) that is all where the values lie in their fields. Where one is spilled, a [`Work`]
//! goes on from the same replies.

use smallvec::SmallVec;

use crate::command::Id;
use crate::exchange::batch::{Batch, Commands, split_array};
use crate::exchange::look::held_in_field;
use crate::exchange::native::KeyBytes;
use crate::exchange::reply_kind::Refusal;
use crate::exchange::{Effect, Env, Io, Look, Step, Work};
use crate::frame::is_raw;
use crate::layout::{NamespaceIndex, Place};
use crate::resp::{Answer, Protocol, Reply};
use crate::string::{Call, Held, Run, Space, Unread, WhyUnread, finish};

/// A key, and where in the replies its field is.
#[derive(Clone, Copy, Debug)]
struct Field {
    /// Which argument it is.
    key: usize,
    namespace: NamespaceIndex,
    /// It is in the same bucket as the one before, and so in the same reply.
    shares_reply: bool,
}

/// A reading command on several keys, under way.
#[derive(Debug)]
pub(crate) struct LookAtMany {
    args: SmallVec<[KeyBytes; 4]>,
    run: Run,
    protocol: Protocol,
    /// Each key once, those of one bucket together.
    fields: SmallVec<[Field; 8]>,
    /// Of MGET, which of these each key is.
    field_of_key: SmallVec<[usize; 8]>,
    batch: Batch,
    /// It is worked out after all.
    work: Option<Box<Work>>,
}

impl LookAtMany {
    /// Sends the reads of a command all of whose arguments are keys, with the number of replies to come; none where one of
    /// their `places`, in their order, isn't a bucket's.
    pub(crate) fn start<'p>(
        (id, run): (Id, Run),
        args: &[&[u8]],
        places: impl Iterator<Item = Option<&'p Place>>,
        protocol: Protocol,
        wire: &mut Vec<u8>,
    ) -> Option<(Self, u32)> {
        let places: Option<SmallVec<[&Place; 16]>> =
            places.map(|place| place.filter(|place| Look::may_take(place))).collect();
        let places = places.filter(|places| places.len() == args.len() - 1)?;
        let mut order: SmallVec<[usize; 16]> = (0..places.len()).collect();
        let field_of = |index: usize| (&places[index].physical[..], &places[index].field[..]);
        order.sort_unstable_by_key(|index| field_of(*index));
        let mut field_of_key = SmallVec::new();
        if id == Id::Mget {
            field_of_key.resize(order.len(), 0);
            let mut field = 0;
            for (nth, index) in order.iter().enumerate() {
                field += usize::from(nth > 0 && field_of(*index) != field_of(order[nth - 1]));
                field_of_key[*index] = field;
            }
        }
        order.dedup_by_key(|index| field_of(*index));
        let mut commands = Commands::default();
        let mut fields = SmallVec::with_capacity(order.len());
        for bucket in order.chunk_by(|one, next| places[*one].physical == places[*next].physical) {
            let mut command: SmallVec<[&[u8]; 16]> = SmallVec::new();
            command.push(if bucket.len() == 1 { b"HGET" } else { b"HMGET" });
            command.push(&places[bucket[0]].physical);
            command.extend(bucket.iter().map(|index| &places[*index].field[..]));
            commands.push(&command);
            fields.extend(bucket.iter().enumerate().map(|(nth, index)| Field {
                key: index + 1,
                namespace: places[*index].namespace,
                shares_reply: nth > 0,
            }));
        }
        let (batch, replies) = Batch::begin_atomic(commands, wire);
        let args = args.iter().map(|arg| KeyBytes::from_slice(arg)).collect();
        Some((Self { args, run, protocol, fields, field_of_key, batch, work: None }, replies))
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some(work) = &mut self.work {
            return work.handle_reply(reply, env, io);
        }
        if !self.batch.is_last(reply) {
            return Step::Wait;
        }
        if let Some(replies) = self.batch.again(io.wire) {
            return Step::More(replies);
        }
        match self.batch.take_array() {
            Err(refusal) => refusal.end(io),
            Ok(replies) => self.answer(&replies, env, io).unwrap_or_else(|refusal| refusal.end(io)),
        }
    }

    fn answer(&mut self, replies: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Result<Step, Refusal> {
        let stored = self.stored(replies)?;
        let before = io.answer.len();
        let is_answered = match self.field_of_key.is_empty() {
            true => self.run_on(&stored, env, io),
            false => self.answer_each(&stored, env, io),
        };
        if !is_answered {
            io.answer.truncate(before);
            return Ok(self.work_out(&split_array(replies).unwrap_or_default(), env, io));
        }
        Ok(Step::Done(Effect::None))
    }

    /// What is stored in each field; none where nothing is.
    fn stored<'r>(&self, replies: &'r [u8]) -> Result<SmallVec<[Option<&'r [u8]>; 16]>, Refusal> {
        let Ok(Reply::Array(mut replies)) = Reply::parse(replies) else { return Err(Refusal::Unexpected) };
        let mut stored = SmallVec::with_capacity(self.fields.len());
        let mut take = |found| {
            stored.push(match found {
                Reply::Nil => None,
                Reply::Bulk(bytes) => Some(bytes),
                _ => return Err(Refusal::Unexpected),
            });
            Ok(())
        };
        for bucket in self.fields.chunk_by(|_, next| next.shares_reply) {
            let raw = replies.next_raw().ok_or(Refusal::Unexpected)?;
            match Reply::parse(raw) {
                Ok(Reply::Error(_)) | Err(_) => return Err(Refusal::of(raw)),
                Ok(Reply::Array(elements)) if elements.len() == bucket.len() => {
                    elements.into_iter().try_for_each(&mut take)?;
                }
                Ok(Reply::Array(_)) => return Err(Refusal::Unexpected),
                Ok(_) if bucket.len() > 1 => return Err(Refusal::Unexpected),
                Ok(one) => take(one)?,
            }
        }
        Ok(stored)
    }

    /// What a field's key holds; none where its value lies elsewhere.
    fn held(&self, field: &Field, stored: Option<&[u8]>, env: &Env<'_>) -> Option<Held> {
        match stored {
            None => Some(Held::Nothing),
            Some(stored) => held_in_field(stored, &self.args[field.key], field.namespace, env),
        }
    }

    /// The answer to MGET, as its function gives it, without a space; false where that takes a value that lies elsewhere.
    fn answer_each(&self, stored: &[Option<&[u8]>], env: &Env<'_>, io: &mut Io<'_>) -> bool {
        let mut answer = Answer::new(io.answer, self.protocol);
        answer.array(self.field_of_key.len());
        for field in &self.field_of_key {
            match stored[*field] {
                Some(bytes) if is_raw(bytes) => answer.bulk(bytes),
                found => match self.held(&self.fields[*field], found, env) {
                    None => return false,
                    Some(Held::String(entry)) if entry.expires_at_ms.is_none_or(|at| at >= env.now_ms) => {
                        answer.bulk(&entry.value);
                    }
                    Some(Held::Unread(Unread { why: WhyUnread::Undecodable(error), .. })) => answer.error(&error),
                    Some(_) => answer.nil(),
                },
            }
        }
        true
    }

    /// Answers by what the keys hold; false where that takes the server's help.
    fn run_on(&self, stored: &[Option<&[u8]>], env: &Env<'_>, io: &mut Io<'_>) -> bool {
        let mut space = Space::new(env.now_ms);
        for (field, stored) in self.fields.iter().zip(stored) {
            let Some(held) = self.held(field, *stored, env) else { return false };
            space.load(&self.args[field.key], held);
        }
        let args: SmallVec<[&[u8]; 16]> = self.args.iter().map(SmallVec::as_slice).collect();
        let mut answer = Answer::new(io.answer, self.protocol);
        let flow = (self.run)(&Call { args: &args, dialect: env.dialect() }, &mut space, &mut answer);
        finish(flow, &mut answer).is_ok()
    }

    /// Works the command out from what was read. It would read the same fields by the same commands, in the order in which it
    /// is given the keys.
    fn work_out(&mut self, replies: &[Vec<u8>], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let args: Vec<&[u8]> = self.args.iter().map(SmallVec::as_slice).collect();
        let keys = self.fields.iter().map(|field| (args[field.key], env.layout.locate(args[field.key])));
        let keys: Vec<_> = keys.collect();
        let (work, _) = Work::start(self.run, &args, keys.into_iter(), self.protocol, env, &mut Vec::new());
        self.work.insert(Box::new(work)).take_replies(replies, env, io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Context;
    use crate::exchange::ServerInfo;
    use crate::frame::Body;
    use crate::layout::{Layout, Located};
    use crate::string;

    const KEYS: [&str; 5] = ["n:31", "n:5", "n:32", "n:5", "n:39"];

    /// Sends a command on [`KEYS`], and gives these replies; the step after the last, what was sent then, and the answer.
    fn look(command: &str, replies: &[&[u8]], now_ms: i64) -> (Step, String, String) {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let context = Context::without_data(&layout, ServerInfo::default());
        let nonces = &mut || 7;
        let mut env = context.env(now_ms, nonces);
        let places = KEYS.map(|key| layout.locate(key.as_bytes()));
        let places = places.iter().map(|place| if let Located::Placed(place) = place { Some(place) } else { None });
        let args: Vec<&[u8]> = std::iter::once(command).chain(KEYS).map(str::as_bytes).collect();
        let run = string::lookup(command.as_bytes()).unwrap();
        let id = if command == "mget" { Id::Mget } else { Id::Exists };
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let (mut look, count) = LookAtMany::start((id, run), &args, places, Protocol::Resp2, &mut wire).unwrap();
        assert_eq!(count as usize, replies.len());
        let sent = String::from_utf8(wire.clone()).unwrap();
        assert!(sent.contains("$4\r\nHGET\r\n") && sent.contains("*5\r\n$5\r\nHMGET\r\n"), "{sent}");
        wire.clear();
        let mut step = Step::Wait;
        for reply in replies {
            assert!(matches!(step, Step::Wait));
            step = look.handle_reply(reply, &mut env, &mut Io { wire: &mut wire, answer: &mut answer });
        }
        (step, String::from_utf8_lossy(&wire).into_owned(), String::from_utf8(answer).unwrap())
    }

    /// The replies to MULTI and what is in it, with this in the field of `n:32`.
    fn replies(stored: &[u8]) -> Vec<Vec<u8>> {
        let field = [format!("${}\r\n", stored.len()).as_bytes(), stored, b"\r\n"].concat();
        let (one, three) = (&b"$4\r\nfive\r\n"[..], [b"*3\r\n$-1\r\n", &field[..], b"$4\r\nnine\r\n"].concat());
        let mut exec = [b"*2\r\n".to_vec(), one.to_vec(), three];
        // By the names of their buckets, which stand for ids from 0 and from 30.
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let bucket = |key: &[u8]| layout.locate(key).place().unwrap().physical;
        if bucket(b"n:5") > bucket(b"n:31") {
            exec[1..].reverse();
        }
        [b"+OK\r\n".to_vec(), b"+QUEUED\r\n".to_vec(), b"+QUEUED\r\n".to_vec(), exec.concat()].to_vec()
    }

    fn look_at(command: &str, stored: &[u8], now_ms: i64) -> (Step, String, String) {
        let replies = replies(stored);
        look(command, &replies.iter().map(Vec::as_slice).collect::<Vec<_>>(), now_ms)
    }

    #[test]
    fn keys_of_one_bucket_are_read_together_and_each_once() {
        let mut stored = Vec::new();
        Body::Integer(7).encode(Some(1_700_000_000_000), &mut stored);
        let (step, sent, answer) = look_at("mget", &stored, 1_600_000_000_000);
        assert!(matches!(step, Step::Done(_)) && sent.is_empty());
        assert_eq!(answer, "*5\r\n$-1\r\n$4\r\nfive\r\n$1\r\n7\r\n$4\r\nfive\r\n$4\r\nnine\r\n");
        assert_eq!(look_at("exists", &stored, 1_600_000_000_000).2, ":4\r\n");
        assert_eq!(look_at("exists", &stored, 1_800_000_000_000).2, ":3\r\n");
    }

    /// What a client sends behind a command may change the fields before they would be read a second time.
    #[test]
    fn where_a_value_is_spilled_no_field_is_read_again() {
        let mut spilled = Vec::new();
        Body::Spill { nonce: 3, slot: None }.encode(None, &mut spilled);
        let (step, sent, answer) = look_at("mget", &spilled, 1);
        assert!(matches!(step, Step::More(2)) && answer.is_empty(), "{answer}");
        assert!(sent.contains("STRLEN") && !sent.contains("HGET") && !sent.contains("HMGET"), "{sent}");
    }

    #[test]
    fn an_error_or_nonsense_is_no_answer() {
        let mut damaged = replies(b"x");
        damaged[3] = b"*1\r\n$1\r\nx\r\n".to_vec();
        let damaged: Vec<&[u8]> = damaged.iter().map(Vec::as_slice).collect();
        assert!(matches!(look("mget", &damaged, 1).0, Step::Unexpected));
    }
}
