//! One command on members of a collection in parts, as a call of the script.

use crate::collection::CollectionKind;
use crate::command::{self, Flags};
use crate::exchange::parts::{DAMAGED, MOST_MEMBERS, Parts, SCRIPT, UNSURE, WHY_DAMAGED, begin};
use crate::exchange::script::without_place;
use crate::exchange::{Effect, Env, Io, ReplyKind, Step, done, fail, failure};
use crate::layout::Place;
use crate::members::Excerpt;
use crate::number::parse_integer;
use crate::record::part_head;
use crate::resp::{Answer, Elements, Protocol, Reply, write_command};
use crate::string::Call;

/// Members in one call: a script's command takes some thousands of arguments.
const MOST_WORDS: usize = 1000;

/// Words of a command that may be joined to others: the server answers nobody else meanwhile.
const MOST_SHARED_WORDS: usize = 18;

/// What is made of the script's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    /// It is the answer.
    As(ReplyKind),
    /// The first of an array is.
    First,
    /// Any integer is OK.
    Done,
    /// An integer, as a text.
    Digits,
    /// It is made of the texts in an array.
    Excerpt(Excerpt),
    /// It is all that the parts have.
    All(Listing),
}

/// What is answered of all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listing {
    /// Members of a set.
    Members,
    /// Fields with their values.
    Fields,
    /// Names of fields.
    Names,
    /// Values of fields.
    Values,
}

impl Listing {
    /// What a command lists, and of which type.
    fn of(command: &str) -> Option<(CollectionKind, Self)> {
        Some(match command {
            "smembers" => (CollectionKind::Set, Self::Members),
            "hgetall" => (CollectionKind::Hash, Self::Fields),
            "hkeys" => (CollectionKind::Hash, Self::Names),
            "hvals" => (CollectionKind::Hash, Self::Values),
            _ => return None,
        })
    }

    /// What the script is asked for: how many members there may be, and the command that reads of fields what is wanted, where that
    /// isn't all.
    fn words(self) -> Vec<Vec<u8>> {
        let most = MOST_MEMBERS.to_string().into_bytes();
        match self {
            Self::Members | Self::Fields => vec![most],
            Self::Names => vec![most, b"HKEYS".to_vec()],
            Self::Values => vec![most, b"HVALS".to_vec()],
        }
    }

    /// How many texts each member is.
    fn texts_each(self) -> usize {
        if self == Self::Fields { 2 } else { 1 }
    }

    /// Answers with the parts' texts, as they came.
    fn answer(self, parts: &[Elements<'_>], answer: &mut Answer<'_>) {
        let texts = parts.iter().map(Elements::len).sum::<usize>();
        match self {
            Self::Members => answer.set(texts),
            Self::Fields => answer.map(texts / 2),
            Self::Names | Self::Values => answer.array(texts),
        }
        parts.iter().for_each(|part| answer.raw(part.raw()));
    }
}

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct PartsCall {
    args: Vec<Vec<u8>>,
    place: Place,
    kind: CollectionKind,
    protocol: Protocol,
    /// What its field held when it was seen, where it only reads.
    seen: Vec<u8>,
    what: &'static str,
    /// What follows that: of most commands what they name.
    words: Vec<Vec<u8>>,
    reading: Reading,
}

/// What the script is asked for, with what, where the command asks for some members whichever they are.
fn excerpt_of(excerpt: &Excerpt, seed: impl FnOnce() -> u64) -> (&'static str, Vec<Vec<u8>>) {
    let text = |number: u64| number.to_string().into_bytes();
    match *excerpt {
        Excerpt::Draw { count, with_values, takes } => {
            let words = [
                seed() % (1 << 31),
                count.unwrap_or(1).unsigned_abs(),
                count.is_some_and(|count| count < 0).into(),
                with_values.into(),
            ];
            (if takes { "TAKE" } else { "DRAW" }, words.map(text).to_vec())
        }
        Excerpt::Walk { from, count, with_values, .. } => {
            ("WALK", [from, count, with_values.into()].map(text).to_vec())
        }
    }
}

/// What the script is asked for, and what its answer is; none where the command is worked out.
fn call_of(command: &str, kind: CollectionKind, args: &[&[u8]]) -> Option<(&'static str, Reading)> {
    let (of, what, reading) = match command {
        "sadd" => (CollectionKind::Set, "ADD", Reading::As(ReplyKind::Integer)),
        "srem" => (CollectionKind::Set, "REMOVE", Reading::As(ReplyKind::Integer)),
        "sismember" => (CollectionKind::Set, "HAS", Reading::First),
        "smismember" => (CollectionKind::Set, "HAS", Reading::As(ReplyKind::Array)),
        "hset" if args.len().is_multiple_of(2) => (CollectionKind::Hash, "ADD", Reading::As(ReplyKind::Integer)),
        "hmset" if args.len().is_multiple_of(2) => (CollectionKind::Hash, "ADD", Reading::Done),
        "hdel" => (CollectionKind::Hash, "REMOVE", Reading::As(ReplyKind::Integer)),
        "hsetnx" => (CollectionKind::Hash, "NEW", Reading::As(ReplyKind::Integer)),
        "hexists" => (CollectionKind::Hash, "HAS", Reading::First),
        "hget" => (CollectionKind::Hash, "GET", Reading::First),
        "hmget" => (CollectionKind::Hash, "GET", Reading::As(ReplyKind::Array)),
        "hstrlen" => (CollectionKind::Hash, "LENGTH", Reading::First),
        "hincrby" => (CollectionKind::Hash, "HINCRBY", Reading::Digits),
        "hincrbyfloat" => (CollectionKind::Hash, "HINCRBYFLOAT", Reading::As(ReplyKind::Bulk)),
        _ => return None,
    };
    (of == kind && args.len() <= MOST_WORDS).then_some((what, reading))
}

/// Whether a command of so many words may share a call.
fn is_short(words: usize) -> bool {
    words <= MOST_SHARED_WORDS
}

impl PartsCall {
    /// What carries out this command on a collection that lies in parts; none where it is to be worked out.
    pub(crate) fn of(
        args: &[&[u8]],
        place: &Place,
        seen: &[u8],
        protocol: Protocol,
        env: &mut Env<'_>,
    ) -> Option<Self> {
        let (command, kind) = (command::table().lookup(args[0])?, place.kind.collection()?);
        let (what, words, reading) = match Excerpt::read(command.name, kind, &Call { args, dialect: env.dialect() }) {
            Some(excerpt) => {
                let (what, words) = excerpt_of(&excerpt, || (env.nonces)());
                (what, words, Reading::Excerpt(excerpt))
            }
            None => match Listing::of(command.name) {
                Some((of, listing)) => (of == kind).then_some(("ALL", listing.words(), Reading::All(listing)))?,
                None => {
                    let (what, reading) = call_of(command.name, kind, args)?;
                    (what, args[2..].iter().map(|arg| arg.to_vec()).collect(), reading)
                }
            },
        };
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let seen = if command.flags.contains(Flags::WRITE) { Vec::new() } else { seen.to_vec() };
        Some(Self { args, place: place.clone(), kind, protocol, seen, what, words, reading })
    }

    /// Whether a command's call may be joined to another on the same key.
    pub(crate) fn may_follow(args: &[&[u8]], kind: CollectionKind) -> bool {
        let command = command::table().lookup(args[0]);
        is_short(args.len()) && command.is_some_and(|command| call_of(command.name, kind, args).is_some())
    }

    /// Whether it is on this key, and another one may be joined to it.
    pub(crate) fn may_be_followed(&self, key: &[u8]) -> bool {
        self.args[1] == key && self.is_shared()
    }

    /// Whether it may be joined to others on the same key, and others to it.
    fn is_shared(&self) -> bool {
        let is_of_some = matches!(self.reading, Reading::Excerpt(_) | Reading::All(_));
        !is_of_some && is_short(self.args.len())
    }

    /// Sends it; it has one reply.
    pub(crate) fn send(&self, wire: &mut Vec<u8>) {
        self.send_by(b"EVALSHA", SCRIPT.sha, wire);
    }

    fn send_by(&self, command: &[u8], script: &[u8], wire: &mut Vec<u8>) {
        let (head, word_count) =
            (part_head(self.place.origin), itoa::Buffer::new().format(self.words.len()).to_owned());
        let mut args: Vec<&[u8]> = vec![command, script];
        args.extend(begin(&self.place.physical, &self.place.field, &head, self.is_shared(), &self.seen));
        args.extend([self.what.as_bytes(), word_count.as_bytes()]);
        args.extend(self.words.iter().map(Vec::as_slice));
        write_command(wire, &args);
    }

    /// Takes the reply; none where the script declined, and the command is to be worked out.
    pub(crate) fn handle_reply(&self, reply: &[u8], io: &mut Io<'_>) -> Option<Step> {
        (reply != UNSURE).then(|| self.answer(reply, io))
    }

    fn answer(&self, reply: &[u8], io: &mut Io<'_>) -> Step {
        if reply == DAMAGED {
            return fail(io, self.protocol, &failure(&self.args[1], WHY_DAMAGED));
        }
        if reply.starts_with(b"-NOSCRIPT") {
            self.send_by(b"EVAL", SCRIPT.source.as_bytes(), io.wire);
            return Step::More(1);
        }
        if reply.starts_with(b"-") {
            return done(io, &without_place(reply));
        }
        match &self.reading {
            Reading::As(kind) if kind.fits(reply) => {
                io.answer.extend_from_slice(reply);
                Step::Done(Effect::None)
            }
            Reading::Done if ReplyKind::Integer.fits(reply) => {
                Answer::new(io.answer, self.protocol).ok();
                Step::Done(Effect::None)
            }
            Reading::First => {
                let Ok(Reply::Array(mut all)) = Reply::parse(reply) else { return Step::Unexpected };
                let mut answer = Answer::new(io.answer, self.protocol);
                match all.next() {
                    Some(Reply::Integer(number)) => answer.integer(number),
                    Some(Reply::Bulk(bytes)) => answer.bulk(bytes),
                    Some(Reply::Nil) => answer.nil(),
                    _ => return Step::Unexpected,
                }
                Step::Done(Effect::None)
            }
            Reading::Digits => {
                let digits = Reply::parse(reply).ok().and_then(Reply::bytes).and_then(parse_integer);
                let Some(number) = digits else { return Step::Unexpected };
                Answer::new(io.answer, self.protocol).integer(number);
                Step::Done(Effect::None)
            }
            Reading::Excerpt(excerpt) => {
                let found = Reply::parse(reply).ok().and_then(Reply::texts);
                let mut answer = Answer::new(io.answer, self.protocol);
                match found.and_then(|found| excerpt.answer(&found, &mut answer)) {
                    Some(()) => Step::Done(Effect::None),
                    None => Step::Unexpected,
                }
            }
            Reading::All(listing) => {
                match Reply::parse(reply).ok().and_then(|reply| Parts::read(reply, self.kind, listing.texts_each())) {
                    Some(Parts::Whole { parts, .. }) => {
                        listing.answer(&parts, &mut Answer::new(io.answer, self.protocol));
                        Step::Done(Effect::None)
                    }
                    Some(Parts::Unreadable { why, .. }) => fail(io, self.protocol, &failure(&self.args[1], &why)),
                    Some(Parts::Changed) | None => Step::Unexpected,
                }
            }
            Reading::As(_) | Reading::Done => Step::Unexpected,
        }
    }
}
