//! One command on members of a collection in parts, as a call of the script.

use smallvec::SmallVec;

use crate::collection::CollectionKind;
use crate::collection::parts::{Limits, WHY_DAMAGED, class_of};
use crate::command::{self, Flags};
use crate::exchange::parts::{DAMAGED, HINTED, MOST_MEMBERS, Parts, SCRIPT, UNSURE, begin, begin_parts, counted_by};
use crate::exchange::script::without_place;
use crate::exchange::{Effect, Env, Io, ReplyKind, Step, done, fail, failure};
use crate::layout::{Located, Place};
use crate::members::Excerpt;
use crate::notify::{Event, Notices};
use crate::number::parse_integer;
use crate::record::part_head;
use crate::resp::{Answer, Elements, Protocol, Reply, Texts, write_command};
use crate::stats::Hints;
use crate::string::Call;

/// Words of a command that one call carries out: the server answers nobody else for some 15 µs each. What has more is worked out: to read and
/// write all of a collection is quicker then, unless it is very large.
const MOST_WORDS: usize = 10_240;

/// Words of a command that may be joined to others: the server answers nobody else meanwhile.
const MOST_SHARED_WORDS: usize = 18;

/// A word of a command, on the spot where it is short.
type Word = SmallVec<[u8; 40]>;

/// What is made of the script's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reading {
    /// It is the answer.
    As(ReplyKind),
    /// It is, or the first of an array.
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

    /// Begins the answer of so many texts.
    fn begin(self, texts: usize, answer: &mut Answer<'_>) {
        match self {
            Self::Members => answer.set(texts),
            Self::Fields => answer.map(texts / 2),
            Self::Names | Self::Values => answer.array(texts),
        }
    }

    /// Answers with the parts' texts, as they came.
    fn answer(self, parts: &[Elements<'_>], answer: &mut Answer<'_>) {
        self.begin(parts.iter().map(Elements::len).sum(), answer);
        parts.iter().for_each(|part| answer.raw(part.raw()));
    }
}

/// For whom a command is carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// In which the client is answered.
    pub(crate) protocol: Protocol,
    /// What is published of what it does.
    pub(crate) notices: Option<Notices>,
    /// The collection lies where it is being moved away from.
    pub(crate) is_in_former_place: bool,
}

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct PartsCall {
    args: SmallVec<[Word; 3]>,
    kind: CollectionKind,
    protocol: Protocol,
    /// What its field held when it was seen, and the key, where it only reads.
    seen: Vec<u8>,
    /// Of which parts it was told where members lie.
    nonce: u64,
    /// It lies where it is being moved away from.
    is_in_former_place: bool,
    /// Channels and messages: what is published of it, if it does anything.
    told: Vec<[Vec<u8>; 2]>,
    reading: Reading,
}

/// What the script is asked for.
struct Asked {
    what: &'static str,
    /// It has as many words as it has: how many is not said.
    is_of_one: bool,
    /// In which parts what it names lies, where it comes with hints.
    hints: Hints,
    /// How many words follow each of them.
    step: usize,
    /// What is said in place of the command's own words.
    words: Vec<Vec<u8>>,
    reading: Reading,
}

impl Asked {
    fn with(what: &'static str, words: Vec<Vec<u8>>, reading: Reading) -> Self {
        Self { what, is_of_one: false, hints: Hints::new(), step: 1, words, reading }
    }
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

/// What the script is asked for on members or fields, and what its answer is.
struct OnMembers {
    of: CollectionKind,
    what: &'static str,
    /// The same, where the script is told in which parts they lie: of one member, and of any number.
    hinted: [&'static str; 2],
    reading: Reading,
}

/// That of a command; none where it is worked out.
fn call_of(command: &str, kind: CollectionKind, args: &[&[u8]]) -> Option<OnMembers> {
    use CollectionKind::{Hash, Set};
    const INTEGER: Reading = Reading::As(ReplyKind::Integer);
    const ARRAY: Reading = Reading::As(ReplyKind::Array);
    let (of, what, hinted, reading) = match command {
        "sadd" => (Set, "ADD", ["a", "add"], INTEGER),
        "srem" => (Set, "REMOVE", ["r", "remove"], INTEGER),
        "sismember" => (Set, "HAS", ["h", "has"], Reading::First),
        "smismember" => (Set, "HAS", ["has", "has"], ARRAY),
        "hset" if args.len().is_multiple_of(2) => (Hash, "ADD", ["f", "add"], INTEGER),
        "hmset" if args.len().is_multiple_of(2) => (Hash, "ADD", ["f", "add"], Reading::Done),
        "hdel" => (Hash, "REMOVE", ["r", "remove"], INTEGER),
        "hsetnx" => (Hash, "NEW", ["n", "NEW"], INTEGER),
        "hexists" => (Hash, "HAS", ["h", "has"], Reading::First),
        "hget" => (Hash, "GET", ["g", "get"], Reading::First),
        "hmget" => (Hash, "GET", ["get", "get"], ARRAY),
        "hstrlen" => (Hash, "LENGTH", ["l", "length"], Reading::First),
        "hincrby" => (Hash, "HINCRBY", ["i", "HINCRBY"], Reading::Digits),
        "hincrbyfloat" => (Hash, "HINCRBYFLOAT", ["d", "HINCRBYFLOAT"], Reading::As(ReplyKind::Bulk)),
        _ => return None,
    };
    (of == kind && args.len() <= MOST_WORDS).then_some(OnMembers { of, what, hinted, reading })
}

/// What is published of a command that has done something.
fn event_of(command: &str) -> Option<Event> {
    Some(match command {
        "sadd" => Event::SAdd,
        "srem" => Event::SRem,
        "spop" => Event::SPop,
        "hset" | "hmset" | "hsetnx" => Event::HSet,
        "hdel" => Event::HDel,
        "hincrby" => Event::HIncrBy,
        "hincrbyfloat" => Event::HIncrByFloat,
        _ => return None,
    })
}

impl OnMembers {
    /// What the script is asked for, where hints are wanted of the parts of this nonce.
    fn asked(self, args: &[&[u8]], nonce: u64, env: &Env<'_>) -> Asked {
        let (key, named) = (args[1], &args[2..]);
        let plain = |what, reading| Asked::with(what, Vec::new(), reading);
        let [of_one, of_many] = self.hinted;
        // Each member, or field with its value where it is set.
        let has_values = matches!(self.what, "ADD" | "NEW" | "HINCRBY" | "HINCRBYFLOAT");
        let step = if self.of == CollectionKind::Hash && has_values { 2 } else { 1 };
        let class = |words: &[&[u8]]| {
            let value = (self.of == CollectionKind::Hash).then(|| words.get(1).copied().unwrap_or_default());
            class_of(words[0], value, Limits::DEFAULT.longest)
        };
        let texts = named.chunks(step).map(|words| (class(words), words[0]));
        let Some(hints) = env.stats.in_parts().hints(key, nonce, texts) else { return plain(self.what, self.reading) };
        let is_of_one = named.len() == step && of_one != of_many;
        let what = if is_of_one { of_one } else { of_many };
        Asked { what, is_of_one, hints, step, words: Vec::new(), reading: self.reading }
    }
}

/// The answer that comes with better hints, and these; none where none come.
fn with_hints(reply: &[u8]) -> Option<(&[u8], Elements<'_>)> {
    let first = memchr::memchr(b'\n', reply).filter(|_| reply.first() == Some(&b'*'))? + 1;
    if !reply[first..].starts_with(HINTED) {
        return None;
    }
    let Ok(Reply::Array(mut all)) = Reply::parse(reply) else { return None };
    all.next_raw()?;
    Some((all.next_raw()?, all))
}

/// Whether a command of so many words may share a call.
fn is_short(words: usize) -> bool {
    words <= MOST_SHARED_WORDS
}

/// What the script is asked for by a command; none where it is to be worked out.
fn asked(args: &[&[u8]], kind: CollectionKind, nonce: u64, seen: &[u8], env: &mut Env<'_>) -> Option<Asked> {
    let command = command::table().lookup(args[0])?;
    if let Some(excerpt) = Excerpt::read(command.name, kind, &Call { args, dialect: env.dialect() }) {
        let (what, words) = excerpt_of(&excerpt, || (env.nonces)());
        return Some(Asked::with(what, words, Reading::Excerpt(excerpt)));
    }
    // As long as its header wasn't seen, that may say it all.
    if counted_by(args) == Some(kind) && args.len() == 2 && !seen.is_empty() {
        return Some(Asked::with("COUNT", Vec::new(), Reading::As(ReplyKind::Integer)));
    }
    match Listing::of(command.name) {
        Some((of, listing)) => (of == kind).then(|| Asked::with("ALL", listing.words(), Reading::All(listing))),
        None => Some(call_of(command.name, kind, args)?.asked(args, nonce, env)),
    }
}

impl PartsCall {
    /// Sends what carries out this command on a collection that lies in the parts of this nonce, as far as that is known: it has one
    /// reply. None where it is to be worked out.
    pub(crate) fn start(
        args: &[&[u8]],
        place: &Place,
        nonce: u64,
        seen: &[u8],
        asker: Asker,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Option<Self> {
        let Asker { protocol, notices, is_in_former_place } = asker;
        let kind = place.kind.collection()?;
        let asked = asked(args, kind, nonce, seen, env)?;
        let command = command::table().lookup(args[0])?;
        let writes = command.flags.contains(Flags::WRITE);
        let told = match notices.filter(|_| writes) {
            Some(notices) => notices.messages(args[1], event_of(command.name)?).collect(),
            None => Vec::new(),
        };
        let seen = if writes || seen.is_empty() { Vec::new() } else { [seen, args[1]].concat() };
        let owned = args.iter().map(|arg| Word::from_slice(arg)).collect();
        let call =
            Self { args: owned, kind, protocol, seen, nonce, is_in_former_place, told, reading: asked.reading.clone() };
        call.send(&asked, args, place, [b"EVALSHA", SCRIPT.sha], wire);
        Some(call)
    }

    /// Whether a command's call may be joined to another on the same key.
    pub(crate) fn may_follow(args: &[&[u8]], kind: CollectionKind) -> bool {
        let command = command::table().lookup(args[0]);
        is_short(args.len()) && command.is_some_and(|command| call_of(command.name, kind, args).is_some())
    }

    /// The nonce that another call on this key has to name to be joined to it; none where it may not be.
    pub(crate) fn may_be_followed(&self, key: &[u8]) -> Option<u64> {
        (self.args[1].as_slice() == key && self.is_shared()).then_some(self.nonce)
    }

    /// The key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.args[1]
    }

    /// In which the client is answered.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The command, word by word.
    pub(crate) fn args(&self) -> SmallVec<[&[u8]; 4]> {
        self.args.iter().map(SmallVec::as_slice).collect()
    }

    /// Whether it may be joined to others on the same key, and others to it.
    fn is_shared(&self) -> bool {
        let is_of_some = matches!(self.reading, Reading::Excerpt(_) | Reading::All(_));
        !is_of_some && self.told.is_empty() && is_short(self.args.len())
    }

    fn send(&self, asked: &Asked, command: &[&[u8]], place: &Place, script: [&[u8]; 2], wire: &mut Vec<u8>) {
        let (head, nonce) = (part_head(place.origin), format!("{:016x}", self.nonce));
        let own: SmallVec<[&[u8]; 4]> = asked.words.iter().map(Vec::as_slice).collect();
        let named = if own.is_empty() { &command[2..] } else { &own };
        let mut buffer = itoa::Buffer::new();
        let count = buffer.format(named.len() + asked.hints.len());
        let told_count = if self.told.is_empty() { String::new() } else { (2 * self.told.len()).to_string() };
        let mut words: SmallVec<[&[u8]; 24]> = SmallVec::from_slice(&script);
        words.extend_from_slice(&begin(
            &place.physical,
            &place.field,
            &head,
            self.is_shared(),
            &self.seen,
            nonce.as_bytes(),
        ));
        if !self.told.is_empty() {
            words.extend([&b"TELL"[..], told_count.as_bytes()]);
            words.extend(self.told.iter().flatten().map(Vec::as_slice));
        }
        words.push(asked.what.as_bytes());
        if !asked.is_of_one {
            words.push(count.as_bytes());
        }
        match asked.hints.is_empty() {
            true => words.extend_from_slice(named),
            false => {
                for (hint, named) in asked.hints.iter().zip(named.chunks(asked.step)) {
                    words.push(hint);
                    words.extend_from_slice(named);
                }
            }
        }
        write_command(wire, &words);
    }

    /// Sends it once more, with the script's text.
    fn send_with_text(&self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> Option<()> {
        let args = self.args();
        let place = match env.layout.locate(args[1]) {
            Located::Moving(moving) if self.is_in_former_place => moving.old?,
            located => located.place()?,
        };
        let asked = asked(&args, self.kind, self.nonce, &self.seen, env)?;
        self.send(&asked, &args, &place, [b"EVAL", SCRIPT.source.as_bytes()], wire);
        Some(())
    }

    /// Takes the reply; none where the script declined, and the command is to be worked out.
    pub(crate) fn handle_reply(&self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Option<Step> {
        if reply == UNSURE {
            return None;
        }
        if reply.starts_with(b"-NOSCRIPT") {
            return Some(self.send_with_text(env, io.wire).map_or(Step::Unexpected, |()| Step::More(1)));
        }
        let Some((answer, hints)) = with_hints(reply) else { return Some(self.answer(reply, io)) };
        hints.filter_map(Reply::bytes).for_each(|name| env.stats.in_parts().learn(self.key(), name));
        Some(self.answer(answer, io))
    }

    /// Begins to answer with a reply that has begun to come, where its texts are the answer's: how these are taken from it.
    pub(crate) fn begin_flow(&self, input: &[u8], out: &mut Vec<u8>) -> Option<Texts> {
        let Reading::All(listing) = &self.reading else { return None };
        let (texts, before) = begin_parts(input, listing.texts_each())?;
        listing.begin(texts, &mut Answer::new(out, self.protocol));
        Some(Texts::behind(before))
    }

    fn answer(&self, reply: &[u8], io: &mut Io<'_>) -> Step {
        if reply == DAMAGED {
            return fail(io, self.protocol, &failure(&self.args[1], WHY_DAMAGED));
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
                let mut answer = Answer::new(io.answer, self.protocol);
                let first = match Reply::parse(reply) {
                    Ok(Reply::Array(mut all)) => all.next(),
                    alone => alone.ok(),
                };
                match first {
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
