//! A command that reads several keys, all in buckets, and writes nothing: their fields at one moment, and what the command's
//! function makes of them.
//!
//! As with one key ([`Look`](super::Look)) that is all where the values lie in their fields. Where one is spilled, a [`Work`]
//! goes on from the same replies.

use smallvec::{SmallVec, smallvec};

use crate::exchange::batch::{Batch, Commands};
use crate::exchange::look::held_in_field;
use crate::exchange::native::KeyBytes;
use crate::exchange::reply_kind::Refusal;
use crate::exchange::{Effect, Env, Io, Look, Step, Work};
use crate::layout::{NamespaceIndex, Place};
use crate::resp::{Answer, Protocol, Reply};
use crate::string::{Call, Held, Run, Space, finish};

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
    fields: Vec<Field>,
    batch: Batch,
    /// It is worked out after all.
    work: Option<Box<Work>>,
}

impl LookAtMany {
    /// Sends the reads of a command all of whose arguments are keys, with the number of replies to come; none where one of
    /// their `places`, in their order, isn't a bucket's.
    pub(crate) fn start<'p>(
        run: Run,
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
        order.dedup_by_key(|index| field_of(*index));
        let mut commands = Commands::default();
        let mut fields = Vec::with_capacity(order.len());
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
        let (batch, replies) = Batch::send_atomic(&commands, wire);
        let args = args.iter().map(|arg| KeyBytes::from_slice(arg)).collect();
        Some((Self { args, run, protocol, fields, batch, work: None }, replies))
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
        match self.batch.take() {
            Err(refusal) => refusal.end(io),
            Ok(replies) => self.answer(&replies, env, io).unwrap_or_else(|refusal| refusal.end(io)),
        }
    }

    fn answer(&mut self, replies: &[Vec<u8>], env: &mut Env<'_>, io: &mut Io<'_>) -> Result<Step, Refusal> {
        let mut space = Space::new(env.now_ms);
        let mut fields = &self.fields[..];
        for raw in replies {
            let bucket_len = 1 + fields.iter().skip(1).take_while(|field| field.shares_reply).count();
            let (bucket, rest) = fields.split_at_checked(bucket_len).ok_or(Refusal::Unexpected)?;
            fields = rest;
            let found: SmallVec<[Reply<'_>; 8]> = match Reply::parse(raw) {
                Ok(Reply::Error(_)) | Err(_) => return Err(Refusal::of(raw)),
                Ok(Reply::Array(elements)) => elements.collect(),
                Ok(one) => smallvec![one],
            };
            if found.len() != bucket_len {
                return Err(Refusal::Unexpected);
            }
            for (field, found) in bucket.iter().zip(found) {
                let key = &self.args[field.key];
                let held = match found {
                    Reply::Nil => Held::Nothing,
                    Reply::Bulk(stored) => match held_in_field(stored, key, field.namespace, env) {
                        Some(held) => held,
                        None => return Ok(self.work_out(replies, env, io)),
                    },
                    _ => return Err(Refusal::Unexpected),
                };
                space.load(key, held);
            }
        }
        let before = io.answer.len();
        if !self.run_on(&mut space, env, io) {
            io.answer.truncate(before);
            return Ok(self.work_out(replies, env, io));
        }
        Ok(Step::Done(Effect::None))
    }

    /// Answers by what the keys hold; false where that takes the server's help.
    fn run_on(&self, space: &mut Space, env: &Env<'_>, io: &mut Io<'_>) -> bool {
        let args: SmallVec<[&[u8]; 16]> = self.args.iter().map(SmallVec::as_slice).collect();
        let mut answer = Answer::new(io.answer, self.protocol);
        let flow = (self.run)(&Call { args: &args, dialect: env.dialect() }, space, &mut answer);
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
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let (mut look, count) = LookAtMany::start(run, &args, places, Protocol::Resp2, &mut wire).unwrap();
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
