//! One command on a great many keys, carried out as several on some of them each.
//!
//! A server answers nobody else while it carries out a command or a MULTI, and every key costs it about a microsecond:
//! a bucket is searched for each. So MGET, EXISTS, TOUCH, DEL and UNLINK of more than [`KEYS_AT_ONCE`] keys go in
//! steps of so many, one after the other, and what other clients ask goes between them. What such a command sees or
//! does is then no single moment; within MULTI and EXEC it is one, as is every command on fewer keys.
//!
//! ```text
//! MGET k1 … k1300 ─▶ MGET k1 … k512 ─▶ MGET k513 … k1024 ─▶ MGET k1025 … k1300 ─▶ the elements of all, in order
//! ```

use crate::command::Id;
use crate::exchange::native::Delete;
use crate::exchange::{Effect, Env, Exchange, Io, Step, UnderWay, Work, done};
use crate::layout::Located;
use crate::notify::Notices;
use crate::resp::{Answer, Protocol, Reply};
use crate::string::{MOST_ANSWERED_BYTES, Run, TOO_MUCH_ASKED};

/// Keys of one step: about half a millisecond of the server's time.
pub(crate) const KEYS_AT_ONCE: usize = 512;

/// How the answers to the steps become one.
#[derive(Debug)]
enum Total {
    /// The elements of arrays, as they came.
    Elements(Vec<u8>),
    Sum(i64),
}

/// A command on many keys, under way.
#[derive(Debug)]
pub(crate) struct Pieces {
    id: Id,
    /// Its name as it came.
    name: Vec<u8>,
    run: Run,
    /// The keys, one behind the other, and where each ends.
    keys: Vec<u8>,
    ends: Vec<usize>,
    /// How many keys have been asked for.
    asked: usize,
    step: Option<Exchange>,
    total: Total,
    protocol: Protocol,
    /// What is published of what it does.
    notices: Option<Notices>,
}

impl Pieces {
    /// Whether a command on so many keys may go in steps.
    pub(crate) fn may_take(command: Id, keys: usize) -> bool {
        keys > KEYS_AT_ONCE && matches!(command, Id::Mget | Id::Exists | Id::Touch | Id::Del | Id::Unlink)
    }

    /// Starts a command all of whose arguments are keys; with the number of replies to come.
    pub(crate) fn start(
        id: Id,
        run: Run,
        args: &[&[u8]],
        protocol: Protocol,
        notices: Option<Notices>,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let (keys, ends) = (Vec::new(), Vec::with_capacity(args.len() - 1));
        let total = if id == Id::Mget { Total::Elements(Vec::new()) } else { Total::Sum(0) };
        let mut pieces =
            Self { id, name: args[0].to_vec(), run, keys, ends, asked: 0, step: None, total, protocol, notices };
        for key in &args[1..] {
            pieces.keys.extend_from_slice(key);
            pieces.ends.push(pieces.keys.len());
        }
        let replies = pieces.send_next(env, wire);
        (pieces, replies)
    }

    fn send_next(&mut self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let until = self.ends.len().min(self.asked + KEYS_AT_ONCE);
        let mut args: Vec<&[u8]> = vec![&self.name];
        for index in self.asked..until {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            args.push(&self.keys[start..self.ends[index]]);
        }
        self.asked = until;
        let deletes = matches!(self.id, Id::Del | Id::Unlink);
        let keys: Vec<_> = args[1..].iter().map(|key| (*key, env.layout.locate(key))).collect();
        let is_moving = keys.iter().any(|(_, located)| matches!(located, Located::Moving(_)));
        let (under_way, replies) = if deletes && !is_moving && self.notices.is_none() {
            let (delete, replies) = Delete::start(args[0], keys.into_iter(), wire);
            (UnderWay::Delete(Box::new(delete)), replies)
        } else {
            let (work, replies) = Work::start(self.run, &args, keys.into_iter(), self.protocol, env, wire);
            (UnderWay::Work(Box::new(work.publishing(self.notices))), replies)
        };
        self.step = Some(Exchange(under_way));
        replies
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let Some(step) = &mut self.step else { return Step::Wait };
        let mut answer = Vec::new();
        let next = step.handle_reply(reply, env, &mut Io { wire: io.wire, answer: &mut answer });
        if !matches!(next, Step::Done(_)) {
            return next;
        }
        if let Err(error) = self.add(&answer) {
            return done(io, &error);
        }
        if self.asked < self.ends.len() {
            return Step::More(self.send_next(env, io.wire));
        }
        let mut whole = Answer::new(io.answer, self.protocol);
        match &self.total {
            Total::Sum(sum) => whole.integer(*sum),
            Total::Elements(elements) => {
                whole.array(self.ends.len());
                io.answer.extend_from_slice(elements);
            }
        }
        Step::Done(Effect::None)
    }

    /// Adds the answer to a step; what is no such answer ends the command as it is.
    fn add(&mut self, answer: &[u8]) -> Result<(), Vec<u8>> {
        match (&mut self.total, Reply::parse(answer)) {
            (Total::Sum(sum), Ok(Reply::Integer(count))) => *sum += count,
            (Total::Elements(elements), Ok(Reply::Array(parts))) => {
                if elements.len() + parts.raw().len() > MOST_ANSWERED_BYTES {
                    return Err(format!("-{TOO_MUCH_ASKED}\r\n").into_bytes());
                }
                elements.extend_from_slice(parts.raw());
            }
            _ => return Err(answer.to_vec()),
        }
        Ok(())
    }
}
