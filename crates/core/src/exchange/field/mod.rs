//! Writes that look at the old value, in one round trip: a script reads the field, decides, and writes.
//!
//! | command | script | what it does |
//! | --- | --- | --- |
//! | INCR, DECR, INCRBY, DECRBY of what expires | `counter.lua` | adds |
//! | SETNX, SET with NX, XX, GET, KEEPTTL, GETSET | `replace.lua` | puts another value there |
//! | EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT, PERSIST | `expire.lua` | changes when the value expires |
//! | GETEX, GETDEL | `take.lua` | the same or removes it, and answers it |
//! | APPEND, SETRANGE | `splice.lua` | puts bytes into it |
//! | SETBIT | `set_bit.lua` | sets or clears a bit of it |
//! | INCRBYFLOAT, BITFIELD | `on_scratch.lua` | has the server carry out its own command on a copy |
//!
//! Each begins with `frame.lua`, which reads the field, and `frame_write.lua`, which can write one. A script does what is ordinary and nothing else:
//! what a codec wrote, spilled values, what would no longer fit, numbers that Lua has not exactly, are left as they are, and
//! the command is worked out ([`Outcome::work_out`]) as if there were no script. So errors are worded in one place.
//!
//! What a script is not asked for at all: arguments that are wrong or odd (an expiry that is over), keys that are being
//! moved, namespaces that write by a codec.

use crate::admin::scratch_key;
use crate::command::Id;
use crate::exchange::outcome::Outcome;
use crate::exchange::script::{Script, without_place};
use crate::exchange::{Effect, Env, Io, ReplyKind, Step, done};
use crate::frame;
use crate::layout::Place;
use crate::number::parse_integer;
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol, write_command};
use crate::string::{ExpireCommand, ExpireForm, GetexCommand, Run, SetCommand, SetForm, written_within_doubles};

/// A script behind what all of them begin with, and the hash of both.
macro_rules! script {
    ($file:literal, $sha:literal) => {
        Script {
            source: concat!(include_str!("frame.lua"), include_str!("frame_write.lua"), include_str!($file)),
            sha: $sha,
        }
    };
}

const COUNTER: Script = script!("counter.lua", b"b80da47fb54eccb418a0b247a6380a7cb99bd168");
const REPLACE: Script = script!("replace.lua", b"593d3e80f01cf7486589a7a0dc98c86e64a5c938");
const EXPIRE: Script = script!("expire.lua", b"eb64469e9da12eae7cb4a93788647c5cb56eb274");
const TAKE: Script = script!("take.lua", b"1cbf30b09afff2a644f857dfe91fdb40dd44de11");
const SET_BIT: Script = script!("set_bit.lua", b"5e9584254f89352a77c7cf96dd3229cff9b31c12");
const ON_SCRATCH: Script = script!("on_scratch.lua", b"9013b9b0c6d377c6b39d9877e87708e662b761a8");
const SPLICE: Script = script!("splice.lua", b"59f8184217c5aa8b16b6736b682f1da8e875ab34");

/// What a script answers where it has done nothing.
const UNSURE: &[u8] = b"+?\r\n";

/// Numbers up to this are exact in Lua, and their sums are seen to be too large.
const EXACT: i64 = 1 << 53;

/// Arguments that a command on a scratch key may have: Lua has so many at hand for one call.
const SCRATCH_ARGS: usize = 1000;

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

/// A script, what it is given, and what its reply means.
#[derive(Debug)]
pub(crate) struct Call {
    script: &'static Script,
    words: Vec<Vec<u8>>,
    reading: Reading,
    /// It has a scratch key too.
    on_scratch: bool,
}

impl Call {
    fn new<const N: usize>(script: &'static Script, reading: Reading, words: [&[u8]; N]) -> Self {
        Self { script, words: words.map(<[u8]>::to_vec).to_vec(), reading, on_scratch: false }
    }

    /// What carries out this command on a field; none where it is to be worked out.
    pub(crate) fn of(command: Id, args: &[&[u8]], place: &Place, env: &Env<'_>) -> Option<Self> {
        let namespace = env.layout.namespace(place.namespace);
        let codec_writes = namespace.codecs.written().is_some();
        match command {
            _ if !place.kind.is_field() => None,
            // Integers are stored without a codec.
            Id::Incr | Id::Decr | Id::Incrby | Id::Decrby => Self::increment(args),
            _ if codec_writes => None,
            Id::Set => Self::replace(SetForm::Set, args, place, env),
            Id::Setnx => Self::replace(SetForm::Setnx, args, place, env),
            Id::Getset => Self::replace(SetForm::Getset, args, place, env),
            Id::Expire => Self::expire(ExpireForm::Expire, args, place, env),
            Id::Pexpire => Self::expire(ExpireForm::Pexpire, args, place, env),
            Id::Expireat => Self::expire(ExpireForm::Expireat, args, place, env),
            Id::Pexpireat => Self::expire(ExpireForm::Pexpireat, args, place, env),
            Id::Persist => Some(Self::new(&EXPIRE, Reading::Integer, [b"", b""])),
            Id::Getex => {
                let GetexCommand { expires_at_ms, persists } = GetexCommand::read(args, env.now_ms)?;
                let since = since(expires_at_ms, place, env)?;
                (persists || !since.is_empty()).then(|| Self::new(&TAKE, Reading::Bulk, [&since]))
            }
            Id::Getdel => Some(Self::new(&TAKE, Reading::Bulk, [b"DEL"])),
            // Scripts aren't sent what couldn't fit.
            Id::Append | Id::Setrange if args[args.len() - 1].len() > namespace.value_limit => None,
            Id::Append => Some(Self::new(&SPLICE, Reading::Integer, [args[2], b""])),
            Id::Setrange => {
                let offset = parse_integer(args[2]).filter(|offset| (0..EXACT).contains(offset))?;
                Some(Self::new(&SPLICE, Reading::Integer, [args[3], offset.to_string().as_bytes()]))
            }
            Id::Setbit if matches!(args[3], b"0" | b"1") => {
                let offset = parse_integer(args[2]).and_then(|offset| u64::try_from(offset).ok())?;
                let fits = is_within(offset, namespace.value_limit);
                fits.then(|| Self::new(&SET_BIT, Reading::Integer, [offset.to_string().as_bytes(), args[3]]))
            }
            Id::Incrbyfloat => Some(Self::on_scratch(Reading::Bulk, args)),
            Id::Bitfield if args.len() <= SCRATCH_ARGS => {
                let last_bit = written_within_doubles(args)?;
                is_within(last_bit, namespace.value_limit).then(|| Self::on_scratch(Reading::Array, args))
            }
            _ => None,
        }
    }

    fn on_scratch(reading: Reading, args: &[&[u8]]) -> Self {
        let words = args.iter().enumerate().filter(|(index, _)| *index != 1).map(|(_, arg)| arg.to_vec());
        Self { script: &ON_SCRATCH, words: words.collect(), reading, on_scratch: true }
    }

    /// INCR and its like.
    pub(crate) fn increment(args: &[&[u8]]) -> Option<Self> {
        let by = increment(args)?;
        (-EXACT < by && by < EXACT).then(|| Self::new(&COUNTER, Reading::Integer, [by.to_string().as_bytes()]))
    }

    fn expire(form: ExpireForm, args: &[&[u8]], place: &Place, env: &Env<'_>) -> Option<Self> {
        let expire = ExpireCommand::read(form, args, env.now_ms).ok()?.ok()?;
        let since = since(Some(expire.expires_at_ms), place, env)?;
        Some(Self::new(&EXPIRE, Reading::Integer, [&since, expire.conditions().as_bytes()]))
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
        let since = since(set.expires_at_ms, place, env)?;
        let stored_len = frame::raw_len(set.value, set.expires_at_ms);
        env.stats.namespace(place.namespace).count_encoded(set.value.len(), stored_len);
        let expiry = if set.keeps_expiry() { b"KEEP" } else { &since[..] };
        let reading = match form {
            _ if set.wants_old() => Reading::Bulk,
            SetForm::Setnx => Reading::Flag,
            _ => Reading::Ok,
        };
        Some(Self::new(&REPLACE, reading, [condition, old, expiry, set.value]))
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

/// An expiry as scripts take it, in the five bytes of a frame, empty for never; none where it is over or too far. Noted for
/// the sweep.
fn since(expires_at_ms: Option<i64>, place: &Place, env: &Env<'_>) -> Option<Vec<u8>> {
    let Some(at) = expires_at_ms else { return Some(Vec::new()) };
    let since = frame::short_expiry(at).filter(|_| at > env.now_ms)?;
    env.note_expiry(place, expires_at_ms);
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
        let Script { sha, .. } = started.call.script;
        started.send(b"EVALSHA", sha, env, wire);
        started
    }

    fn send(&self, command: &[u8], script: &[u8], env: &Env<'_>, wire: &mut Vec<u8>) {
        let longest = env.layout.namespace(self.place.namespace).value_limit;
        let longest = itoa::Buffer::new().format(longest).to_owned();
        let scratch = self.call.on_scratch.then(|| scratch_key(&self.place.physical));
        let mut args = vec![command, script, if scratch.is_some() { b"2" } else { b"1" }, &self.place.physical[..]];
        args.extend(scratch.as_deref());
        args.extend([&self.place.field, longest.as_bytes()]);
        args.extend(self.call.words.iter().map(Vec::as_slice));
        write_command(wire, &args);
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Outcome {
        if reply == UNSURE {
            return Outcome::work_out(self.run, &self.args, &self.place, self.protocol, env, io.wire);
        }
        Outcome::Ended(self.answer(reply, env, io))
    }

    fn answer(&self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if reply.starts_with(b"-NOSCRIPT") {
            self.send(b"EVAL", self.call.script.source.as_bytes(), env, io.wire);
            return Step::More(1);
        }
        if reply.starts_with(b"-") {
            return done(io, &without_place(reply));
        }
        let kind = match self.call.reading {
            Reading::Integer => ReplyKind::Integer,
            Reading::Bulk => ReplyKind::Bulk,
            Reading::Array => ReplyKind::Array,
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
    fn the_hashes_are_the_texts() {
        [COUNTER, REPLACE, EXPIRE, TAKE, SPLICE, SET_BIT, ON_SCRATCH].iter().for_each(Script::assert_sha);
    }
}
