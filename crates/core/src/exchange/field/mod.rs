//! Writes that look at the old value, in one round trip: a script reads the field, decides, and writes.
//!
//! | command | name in the call | file | what it does |
//! | --- | --- | --- | --- |
//! | INCR, DECR, INCRBY, DECRBY of what expires | `ADD` | `counter.lua` | adds |
//! | SETNX, SET with NX, XX, GET, KEEPTTL, GETSET | `SET` | `replace.lua` | puts another value there |
//! | EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST | `EXPIRE` | `expire.lua`, `alive.lua` | changes when the value expires, of whatever type, and in whatever form |
//! | GETEX, GETDEL | `TAKE` | `take.lua` | the same or removes it, and answers it |
//! | APPEND, SETRANGE | `SPLICE` | `splice.lua` | puts bytes into it |
//! | SETBIT | `BIT` | `set_bit.lua` | sets or clears a bit of it |
//! | SADD, SREM, HSET, HMSET, HSETNX, HDEL, HINCRBY | `MEMBERS` | `members.lua`, `expiring.lua`, `packed.lua` | changes a packed set or hash |
//! | INCRBYFLOAT, BITFIELD | `RUN` | `on_scratch.lua` | has the server carry out its own command on a copy |
//!
//! It is one script for all of them, because a call may have several for one bucket ([`Joining`](crate::drive::Joining)):
//!
//! ```text
//! EVALSHA … 1 bucket limit   ADD field 1 by   EXPIRE field 2 at conditions      ─▶  [ sum, 0 or 1 ]
//! EVALSHA … 1 bucket limit   ADD field 1 by                                     ─▶  sum
//! └────────── head ───────┘  └ one command ┘
//! ```
//! It does what is ordinary and nothing else: what a codec wrote, spilled values, what would no longer fit, numbers that Lua
//! has not exactly, are left as they are and answered by `?`, as is all that follows on the same field in the call. Then the
//! command is worked out ([`Outcome::work_out`]) as if there were no script. So errors are worded in one place.
//!
//! What a script is not asked for at all: arguments that are wrong or odd (an expiry that is over), keys that are being
//! moved, namespaces that write by a codec. The codec [`fields`](crate::codec::fields) is the exception: fields are sent as its
//! values have them, with the tag of those (`coded.lua`); what has another tag, or none, is left as it is.

use std::borrow::Cow;

use crate::admin::scratch_key;
use crate::codec::Codecs;
use crate::collection::packed::packed_text;
use crate::collection::{CollectionKind, Vocabulary};
use crate::command::Id;
use crate::exchange::outcome::Outcome;
use crate::exchange::script::{Script, without_place};
use crate::exchange::work::takes_memory;
use crate::exchange::{Effect, Env, Io, ReplyKind, Step, done};
use crate::frame;
use crate::layout::Place;
use crate::number::parse_integer;
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol, write_command};
use crate::string::{ExpireCommand, ExpireForm, GetexCommand, Run, SetCommand, SetForm, written_within_doubles};

const SCRIPT: Script = Script {
    source: concat!(
        include_str!("begin.lua"),
        include_str!("number_of.lua"),
        include_str!("run.lua"),
        include_str!("frame.lua"),
        include_str!("coded.lua"),
        include_str!("each.lua"),
        "elseif name == 'ADD' then\n",
        include_str!("counter.lua"),
        "elseif name == 'SET' then\n",
        include_str!("replace.lua"),
        "elseif name == 'EXPIRE' then\n",
        "local has_gone\nif expiry and value and (argv[at + 5] or '') ~= '' and string.byte(value, coded and 2 or 1) == (coded and 206 or 67) \
         and not kept then\n",
        include_str!("texts.lua"),
        include_str!("alive.lua"),
        "end\nif has_gone then\nanswer = 0\nelseif not unsure then\n",
        include_str!("expire.lua"),
        "end\n",
        "elseif name == 'TAKE' then\n",
        include_str!("take.lua"),
        "elseif name == 'SPLICE' then\n",
        include_str!("splice.lua"),
        "elseif name == 'BIT' then\n",
        include_str!("set_bit.lua"),
        "elseif name == 'MEMBERS' then\n",
        include_str!("texts.lua"),
        include_str!("packed.lua"),
        include_str!("words.lua"),
        "if expires then\n",
        include_str!("expiring.lua"),
        "else\n",
        include_str!("members.lua"),
        "end\nanswer = done\n",
        "elseif name == 'RUN' then\n",
        include_str!("on_scratch.lua"),
        include_str!("end.lua"),
        include_str!("framed.lua"),
        include_str!("coded_again.lua"),
        include_str!("store.lua"),
        include_str!("return.lua"),
    ),
    sha: b"75d617620778d3969f06a52b77d2aaa5fc965e86",
};

/// How each call begins, behind the number of its arguments.
pub(crate) const CALL: &[u8] = b"$7\r\nEVALSHA\r\n$40\r\n75d617620778d3969f06a52b77d2aaa5fc965e86\r\n";

/// What a script answers where it has done nothing.
const UNSURE: &[u8] = b"+?\r\n";

/// Numbers up to this are exact in Lua, and their sums are seen to be too large.
const EXACT: i64 = 1 << 53;

/// Arguments that a command on a scratch key may have: Lua has so many at hand for one call.
const SCRATCH_ARGS: usize = 1000;

/// A command on more members or fields is worked out, and so is one on values that may be longer: the script goes over all of a value
/// for each member, some ten nanoseconds a byte, and the server answers nobody meanwhile.
const MOST_MEMBERS: usize = 32;
const MOST_VALUE_BYTES: usize = 2048;
const MOST_BYTES_GONE_OVER: usize = 8192;

/// Integers of members and fields up to this are packed in six bytes.
const PACKED_EXACT: i64 = 1 << 47;

/// What is made of the script's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// It is the answer: an integer.
    Integer,
    /// It is the answer: a string or nil.
    Bulk,
    /// It is the answer: an array.
    Array,
    /// 1 is OK; nil is nil.
    Ok,
    /// 1 is 1; nil is 0.
    Flag,
    /// Any integer is OK.
    Done,
}

/// How the sets or hashes of a namespace are kept.
#[derive(Clone, Copy, Debug)]
enum Form<'n> {
    /// Packed.
    Whole(CollectionKind),
    /// As hashes by a vocabulary, by a codec whose values have this tag.
    Short(u8, &'n Vocabulary),
}

impl<'n> Form<'n> {
    /// None where they are written by a codec that the script knows nothing of.
    fn of(kind: CollectionKind, codecs: &'n Codecs) -> Option<Self> {
        if codecs.written().is_none() {
            return Some(Self::Whole(kind));
        }
        let (slot, vocabulary) = codecs.vocabulary().filter(|_| kind == CollectionKind::Hash)?;
        Some(Self::Short(frame::coded_tag(slot)?, vocabulary))
    }

    fn kind(self) -> CollectionKind {
        match self {
            Self::Whole(kind) => kind,
            Self::Short(..) => CollectionKind::Hash,
        }
    }

    /// What the script knows it by.
    fn word(self) -> Cow<'static, str> {
        match self {
            Self::Whole(kind) => Cow::Borrowed(kind.name()),
            Self::Short(tag, _) => Cow::Owned(tag.to_string()),
        }
    }

    /// A member, or the name of a field, as it stands there; none for what would make a hash longer than it is without the codec.
    fn member(self, text: &[u8], is_removed: bool) -> Option<Vec<u8>> {
        match self {
            Self::Whole(_) => Some(packed_text(text)),
            Self::Short(_, vocabulary) => {
                let packed = vocabulary.packed_name(text);
                (is_removed || packed.len() <= packed_text(text).len()).then_some(packed)
            }
        }
    }

    /// A field's value, as it stands there.
    fn value(self, text: &[u8]) -> Vec<u8> {
        match self {
            Self::Whole(_) => packed_text(text),
            Self::Short(_, vocabulary) => vocabulary.packed_value(text),
        }
    }
}

/// One such write under way.
#[derive(Debug)]
pub(crate) struct FieldWrite {
    args: Vec<Vec<u8>>,
    place: Place,
    run: Run,
    protocol: Protocol,
    call: Call,
}

/// What the script is to do, and what its reply means.
#[derive(Debug)]
pub(crate) struct Call {
    name: &'static str,
    words: Vec<Vec<u8>>,
    reading: Reading,
    /// When what it writes expires, where it says so.
    expires_at_ms: Option<i64>,
    /// How long the value that it writes is, and what is stored for it.
    encoded: Option<(usize, usize)>,
}

impl Call {
    fn new<const N: usize>(name: &'static str, reading: Reading, words: [&[u8]; N]) -> Self {
        let words = words.map(<[u8]>::to_vec).to_vec();
        Self { name, words, reading, expires_at_ms: None, encoded: None }
    }

    /// What carries out this command on a field; none where it is to be worked out.
    pub(crate) fn of(command: Id, args: &[&[u8]], place: &Place, env: &Env<'_>) -> Option<Self> {
        let namespace = env.layout.namespace(place.namespace);
        let codec_writes = namespace.codecs.written().is_some();
        match command {
            _ if !place.kind.is_field() => None,
            // Integers are stored without a codec.
            Id::Incr | Id::Decr | Id::Incrby | Id::Decrby => Self::increment(args),
            Id::Expire => Self::expire(ExpireForm::Expire, args, place, env),
            Id::Pexpire => Self::expire(ExpireForm::Pexpire, args, place, env),
            Id::Expireat => Self::expire(ExpireForm::Expireat, args, place, env),
            Id::Pexpireat => Self::expire(ExpireForm::Pexpireat, args, place, env),
            Id::Persist => {
                let of = expiring_form(place, &namespace.codecs);
                Some(Self::new("EXPIRE", Reading::Integer, [b"", b"", of.as_bytes()]))
            }
            _ if let Some(kind) = place.kind.collection() => {
                Self::on_members(command, Form::of(kind, &namespace.codecs)?, args, namespace.value_limit)
            }
            _ if codec_writes => None,
            Id::Set => Self::replace(SetForm::Set, args, place, env),
            Id::Setnx => Self::replace(SetForm::Setnx, args, place, env),
            Id::Setex => Self::replace(SetForm::Setex, args, place, env),
            Id::Psetex => Self::replace(SetForm::Psetex, args, place, env),
            Id::Getset => Self::replace(SetForm::Getset, args, place, env),
            Id::Getex => {
                let GetexCommand { expires_at_ms, persists } = GetexCommand::read(args, env.now_ms)?;
                let since = since(expires_at_ms, env)?;
                let take = Self { expires_at_ms, ..Self::new("TAKE", Reading::Bulk, [&since]) };
                (persists || !since.is_empty()).then_some(take)
            }
            Id::Getdel => Some(Self::new("TAKE", Reading::Bulk, [b"DEL"])),
            // Scripts aren't sent what couldn't fit.
            Id::Append | Id::Setrange if args[args.len() - 1].len() > namespace.value_limit => None,
            Id::Append => Some(Self::new("SPLICE", Reading::Integer, [args[2], b""])),
            Id::Setrange => {
                let offset = parse_integer(args[2]).filter(|offset| (0..EXACT).contains(offset))?;
                Some(Self::new("SPLICE", Reading::Integer, [args[3], offset.to_string().as_bytes()]))
            }
            Id::Setbit if matches!(args[3], b"0" | b"1") => {
                let offset = parse_integer(args[2]).and_then(|offset| u64::try_from(offset).ok())?;
                let fits = is_within(offset, namespace.value_limit);
                fits.then(|| Self::new("BIT", Reading::Integer, [offset.to_string().as_bytes(), args[3]]))
            }
            Id::Incrbyfloat => Some(Self::on_scratch(Reading::Bulk, args)),
            Id::Bitfield if args.len() <= SCRATCH_ARGS => {
                let last_bit = written_within_doubles(args)?;
                is_within(last_bit, namespace.value_limit).then(|| Self::on_scratch(Reading::Array, args))
            }
            _ => None,
        }
    }

    /// What carries out a command on sets or hashes that are kept in this form, and may be so long.
    fn on_members(command: Id, form: Form<'_>, args: &[&[u8]], longest: usize) -> Option<Self> {
        let (of, what, reading) = match command {
            Id::Sadd => (CollectionKind::Set, "ADD", Reading::Integer),
            Id::Srem => (CollectionKind::Set, "REMOVE", Reading::Integer),
            Id::Hset => (CollectionKind::Hash, "ADD", Reading::Integer),
            Id::Hmset => (CollectionKind::Hash, "ADD", Reading::Done),
            Id::Hsetnx => (CollectionKind::Hash, "NEW", Reading::Integer),
            Id::Hdel => (CollectionKind::Hash, "REMOVE", Reading::Integer),
            Id::Hincrby => (CollectionKind::Hash, "COUNT", Reading::Integer),
            _ => return None,
        };
        let texts = &args[2..];
        let is_right = match command {
            Id::Hset | Id::Hmset => texts.len().is_multiple_of(2),
            Id::Hincrby => parse_integer(args[3]).is_some_and(|by| (-PACKED_EXACT..PACKED_EXACT).contains(&by)),
            _ => true,
        };
        let is_quick = texts.len() <= MOST_MEMBERS
            && longest <= MOST_VALUE_BYTES
            && texts.len().saturating_mul(longest) <= MOST_BYTES_GONE_OVER;
        let fits = is_quick && texts.iter().map(|text| text.len()).sum::<usize>() <= longest;
        if of != form.kind() || !is_right || !fits {
            return None;
        }
        let mut call = Self::new("MEMBERS", reading, [what.as_bytes(), form.word().as_bytes()]);
        for (index, text) in texts.iter().enumerate() {
            let is_value = of == CollectionKind::Hash && what != "REMOVE" && index % 2 == 1;
            call.words.push(if is_value { form.value(text) } else { form.member(text, what == "REMOVE")? });
        }
        Some(call)
    }

    fn on_scratch(reading: Reading, args: &[&[u8]]) -> Self {
        let words = args.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, arg)| arg.to_vec());
        Self { words: words.collect(), ..Self::new("RUN", reading, []) }
    }

    /// Whether it needs a key where nothing is, besides the bucket.
    fn needs_scratch(&self) -> bool {
        self.name == "RUN"
    }

    /// Whether it may be joined to another call on the same bucket, which is one of the same keys.
    pub(crate) fn may_follow(&self) -> bool {
        !self.needs_scratch()
    }

    /// INCR and its like.
    pub(crate) fn increment(args: &[&[u8]]) -> Option<Self> {
        let by = increment(args)?;
        (-EXACT < by && by < EXACT).then(|| Self::new("ADD", Reading::Integer, [by.to_string().as_bytes()]))
    }

    fn expire(form: ExpireForm, args: &[&[u8]], place: &Place, env: &Env<'_>) -> Option<Self> {
        let expire = ExpireCommand::read(form, args, env.now_ms).ok()?.ok()?;
        let expires_at_ms = Some(expire.expires_at_ms);
        let since = since(expires_at_ms, env)?;
        let of = expiring_form(place, &env.layout.namespace(place.namespace).codecs);
        let call = Self::new("EXPIRE", Reading::Integer, [&since, expire.conditions().as_bytes(), of.as_bytes()]);
        Some(Self { expires_at_ms, ..call })
    }

    fn replace(form: SetForm, args: &[&[u8]], place: &Place, env: &Env<'_>) -> Option<Self> {
        let longest = env.layout.namespace(place.namespace).value_limit;
        let set = SetCommand::read(form, args, env.now_ms).ok().filter(|set| set.value.len() <= longest)?;
        let condition: &[u8] = match (set.if_absent(), set.if_present()) {
            (true, _) => b"NX",
            (false, true) => b"XX",
            (false, false) => b"",
        };
        let old: &[u8] = if set.wants_old() { b"GET" } else { b"" };
        let since = since(set.expires_at_ms, env)?;
        let encoded = Some((set.value.len(), frame::raw_len(set.value, set.expires_at_ms)));
        let expiry = if set.keeps_expiry() { b"KEEP" } else { &since[..] };
        let reading = match form {
            _ if set.wants_old() => Reading::Bulk,
            SetForm::Setnx => Reading::Flag,
            _ => Reading::Ok,
        };
        let call = Self::new("SET", reading, [condition, old, expiry, set.value]);
        Some(Self { expires_at_ms: set.expires_at_ms, encoded, ..call })
    }

    /// Notes what it is about to write: when that expires, for the sweep, and how long it is.
    fn note(&self, place: &Place, env: &Env<'_>) {
        env.note_expiry(place, self.expires_at_ms);
        if let Some((value_len, stored_len)) = self.encoded {
            env.stats.namespace(place.namespace).count_encoded(value_len, stored_len);
        }
    }
}

/// By how much INCR, DECR, INCRBY or DECRBY counts; none where its argument isn't right.
pub(crate) fn increment(args: &[&[u8]]) -> Option<i64> {
    let by = args.get(2).map_or(Some(1), |text| parse_integer(text))?;
    if is_word(&args[0][..4.min(args[0].len())], "DECR") { by.checked_neg() } else { Some(by) }
}

/// Whether a value of this length has the bit.
fn is_within(bit: u64, len: usize) -> bool {
    usize::try_from(bit / 8).is_ok_and(|byte| byte < len)
}

/// What the script knows a hash by, whose fields may expire; empty for other types.
fn expiring_form(place: &Place, codecs: &Codecs) -> Cow<'static, str> {
    if place.kind.collection() != Some(CollectionKind::Hash) {
        return Cow::Borrowed("");
    }
    Form::of(CollectionKind::Hash, codecs).map_or(Cow::Borrowed("hash"), Form::word)
}

/// An expiry as scripts take it, in the five bytes of a frame, empty for never; none where it is over or too far.
fn since(expires_at_ms: Option<i64>, env: &Env<'_>) -> Option<Vec<u8>> {
    let Some(at) = expires_at_ms else { return Some(Vec::new()) };
    let since = frame::short_expiry(at).filter(|_| at > env.now_ms)?;
    Some(since.to_be_bytes()[3..].to_vec())
}

impl FieldWrite {
    /// Sends the call; it has one reply.
    pub(crate) fn start(
        call: Call,
        args: &[&[u8]],
        run: Run,
        place: &Place,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Self {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let started = Self { args, place: place.clone(), run, protocol, call };
        started.call.note(place, env);
        started.send(b"EVALSHA", SCRIPT.sha, env, wire);
        started
    }

    /// Whether it is on this key, and another call may be joined to it.
    pub(crate) fn may_be_followed(&self, key: &[u8]) -> bool {
        self.call.may_follow() && self.args[1] == key
    }

    fn send(&self, command: &[u8], script: &[u8], env: &Env<'_>, wire: &mut Vec<u8>) {
        let longest = env.layout.namespace(self.place.namespace).value_limit;
        let longest = itoa::Buffer::new().format(longest).to_owned();
        let word_count = itoa::Buffer::new().format(self.call.words.len()).to_owned();
        let scratch = self.call.needs_scratch().then(|| scratch_key(&self.place.physical));
        let mut args = vec![command, script, if scratch.is_some() { b"2" } else { b"1" }, &self.place.physical[..]];
        args.extend(scratch.as_deref());
        args.extend([longest.as_bytes(), self.call.name.as_bytes(), &self.place.field, word_count.as_bytes()]);
        args.extend(self.call.words.iter().map(Vec::as_slice));
        write_command(wire, &args);
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Outcome {
        // A server that is out of memory carries out on plain keys what makes less of them, or lets them expire.
        if reply == UNSURE || reply.starts_with(b"-OOM ") && !takes_memory(&self.args[0]) {
            return Outcome::work_out(self.run, &self.args, &self.place, self.protocol, env, io.wire);
        }
        Outcome::Ended(self.answer(reply, env, io))
    }

    fn answer(&self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if reply.starts_with(b"-NOSCRIPT") {
            self.send(b"EVAL", SCRIPT.source.as_bytes(), env, io.wire);
            return Step::More(1);
        }
        if reply.starts_with(b"-") {
            return done(io, &without_place(reply));
        }
        let kind = match self.call.reading {
            Reading::Integer => ReplyKind::Integer,
            Reading::Bulk => ReplyKind::Bulk,
            Reading::Array => ReplyKind::Array,
            Reading::Done if ReplyKind::Integer.fits(reply) => {
                Answer::new(io.answer, self.protocol).ok();
                return Step::Done(Effect::None);
            }
            Reading::Done => return Step::Unexpected,
            Reading::Ok | Reading::Flag => {
                let mut answer = Answer::new(io.answer, self.protocol);
                match (reply, self.call.reading) {
                    (b":1\r\n", Reading::Ok) => answer.ok(),
                    (b":1\r\n", _) => answer.integer(1),
                    (b"$-1\r\n" | b"_\r\n", Reading::Ok) => answer.nil(),
                    (b"$-1\r\n" | b"_\r\n", _) => answer.integer(0),
                    _ => return Step::Unexpected,
                }
                return Step::Done(Effect::None);
            }
        };
        if !kind.fits(reply) {
            return Step::Unexpected;
        }
        io.answer.extend_from_slice(reply);
        Step::Done(Effect::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_texts_and_each_call_begins_with_it() {
        SCRIPT.assert_sha();
        let mut head = Vec::new();
        write_command(&mut head, &[b"EVALSHA", SCRIPT.sha]);
        assert_eq!(head.strip_prefix(b"*2\r\n"), Some(CALL));
    }
}
