//! EVAL and EVALSHA of a user's script of whose keys some are folded: one call of the script behind keyfold's own lines
//! ([`crate::user_script`]).
//!
//! ```text
//! EVALSHA sha' 2 bucket plain  v1 v2  1 user:7 7 512 nonce+head "" 0  again 2 2 1
//!         │    └─ physical ─┘  └─┬─┘  └─────────┬──────────────────┘  │     │ │ └ how many keys are folded, below zero where
//!         │                  the user's     of each folded key        │     │ │   it only reads
//!         of the wrapped script                                       │     how many keys and arguments are the user's
//!                                                                     the answer where keyfold has to read once more
//! ```
//! Of a folded key these are its number among the keys, its name, the field, the longest stored value (nothing for a key of
//! its own), what a spilled value is named by, whether it is a set or a hash, and the number of its spots ([`write_spot`]): none
//! where it simply lies in a field or under a zipped name.
//!
//! Sets and hashes are told by the same: the script takes their packed form apart and puts it together again. For those in parts it
//! has the script that carries out commands on these (`parts.lua`).
//!
//! It is called by its hash; a server that doesn't know it answers NOSCRIPT and gets the text, and the user's script beside
//! it, which it would know without keyfold: by that it is called where no key is folded.
//!
//! A value that a codec wrote means nothing to the server. So where there may be one, the keys are read first, and the call
//! says of each such value what it means. Before the user's script begins, at the same moment, it is looked whether there is
//! any other by now: then nothing is done, and it is all done once more. What the script writes no codec encodes; that is
//! made up for behind it ([`Recode`]).
//!
//! A function of a library (FCALL) is called the same way ([`FunctionCall`](super::FunctionCall)): a script calls it, with some
//! arguments of keyfold's own behind the user's.
//!
//! What the script reads isn't seen here. Where its client may cache that, the folded keys are looked at once more behind it:
//! when they expire the server won't tell. What becomes of them in between, it does.

use std::borrow::Cow;
use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use crate::command::Id;
use crate::exchange::key::{Key, Spot, Strange};
use crate::exchange::load::{Load, Loading};
use crate::exchange::recode::{Recode, Recoded};
use crate::exchange::{Effect, Env, Io, Step, done};
use crate::layout::{Located, Place, spill_head};
use crate::resp::{Reply, write_command};
use crate::user_script::UserScript;

/// When the sweep looks for what a script has given an expiry.
const LOOK_AFTER_MS: i64 = 60_000;
/// How often a call begins again before it gives up: each time another client has written one of its keys.
const MAX_ATTEMPTS: u32 = 1000;
/// The longest value where it is a string of its own: longer than any.
const NO_LIMIT: &[u8] = b"4294967296";

/// Such a call under way.
#[derive(Debug)]
pub(crate) struct UserCall {
    script: Arc<UserScript>,
    /// EVAL_RO, EVALSHA_RO or FCALL_RO.
    reads_only: bool,
    /// The request.
    request: Vec<Vec<u8>>,
    /// What stands behind its arguments.
    also: Vec<Vec<u8>>,
    /// Its keys, in their order.
    keys: Vec<(Vec<u8>, Located)>,
    /// What is sent behind the script.
    behind: Behind,
    phase: Phase,
    attempts: u32,
    /// Somebody is told of what it reads.
    for_cache: bool,
}

/// What stands behind the script in a call.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    /// The number of keys, the keys, the arguments, and what the first line is told.
    pub(crate) args: Vec<Vec<u8>>,
    /// What answers where keyfold has to read once more; empty where that can't be.
    again: Vec<u8>,
    /// Sets or hashes are among the keys.
    pub(crate) has_collections: bool,
}

#[derive(Debug)]
enum Phase {
    /// What a script can't understand is being read.
    Reading(Box<Load>),
    /// EVALSHA was sent.
    ByHash,
    /// SCRIPT LOAD of the user's script, whose reply counts for nothing, and EVAL.
    Loaded,
    /// EVAL.
    Whole,
    /// It has answered, and what it wrote is encoded.
    Recoding { recode: Box<Recode>, answer: Vec<u8> },
    /// It is looked when what it may have read expires.
    Noting { load: Box<Load>, answer: Vec<u8> },
}

impl UserCall {
    /// Starts the call of `script` that this request is, its keys in the order of the request; with the number of replies to
    /// come. Behind its arguments it gets what is `also` there. Where it is `for_cache`, somebody is told of what it reads.
    #[expect(clippy::too_many_arguments, reason = "all of a call")]
    pub(crate) fn start<'k>(
        command: Id,
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'k [u8], Located)>,
        script: &Arc<UserScript>,
        also: Vec<Vec<u8>>,
        for_cache: bool,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut call = Self {
            script: Arc::clone(script),
            reads_only: reads_only(command),
            request: args.iter().map(|arg| arg.to_vec()).collect(),
            also,
            keys: keys.map(|(key, located)| (key.to_vec(), located)).collect(),
            behind: Behind::default(),
            phase: Phase::ByHash,
            attempts: 0,
            for_cache,
        };
        let replies = call.begin(env, wire);
        (call, replies)
    }

    /// Reads what has to be read, or calls at once.
    fn begin(&mut self, env: &mut Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let strange = self.keys.iter().filter(|(_, located)| may_be_strange(located, env));
        let mut load =
            Load::located(env, strange.map(|(key, located)| (key.as_slice(), located.clone()))).apart().leaving_parts();
        if load.keys().is_empty() {
            return self.call(&[], env, wire);
        }
        let replies = load.send(wire);
        self.phase = Phase::Reading(Box::new(load));
        replies
    }

    fn call(&mut self, read: &[Key], env: &mut Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let request: Vec<&[u8]> = self.request.iter().map(Vec::as_slice).collect();
        let keys = self.keys.iter().map(|(key, located)| (key.as_slice(), located.clone()));
        self.behind = behind(self.reads_only, (&request, &self.also), keys, &self.script, read, env);
        let sha = self.script.wrapped_sha(self.behind.has_collections);
        self.send(if self.reads_only { b"EVALSHA_RO" } else { b"EVALSHA" }, sha.as_bytes(), wire);
        self.phase = Phase::ByHash;
        1
    }

    fn send(&self, command: &[u8], script: &[u8], wire: &mut Vec<u8>) {
        let args: Vec<&[u8]> =
            [command, script].into_iter().chain(self.behind.args.iter().map(Vec::as_slice)).collect();
        write_command(wire, &args);
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.phase {
            Phase::Reading(load) => match load.handle_reply(reply, env, io.wire) {
                Loading::Wait => Step::Wait,
                Loading::More(replies) => Step::More(replies),
                Loading::Failed(refusal) => refusal.end(io),
                Loading::Ready => {
                    let Phase::Reading(load) = mem::replace(&mut self.phase, Phase::ByHash) else { return Step::Wait };
                    if let Some(error) = load.keys().iter().find_map(Key::undecodable) {
                        return done(io, format!("-{error}\r\n").as_bytes());
                    }
                    Step::More(self.call(load.keys(), env, io.wire))
                }
            },
            Phase::ByHash if reply.starts_with(b"-NOSCRIPT") => {
                let is_script = self.script.function().is_none();
                if is_script {
                    write_command(io.wire, &[b"SCRIPT", b"LOAD", self.script.body()]);
                }
                let text = self.script.wrapped(self.behind.has_collections);
                self.send(if self.reads_only { b"EVAL_RO" } else { b"EVAL" }, &text, io.wire);
                self.phase = if is_script { Phase::Loaded } else { Phase::Whole };
                Step::More(1 + u32::from(is_script))
            }
            Phase::Loaded => {
                self.phase = Phase::Whole;
                Step::Wait
            }
            Phase::ByHash | Phase::Whole if self.behind.is_again(reply) => self.begin_again(env, io),
            Phase::ByHash | Phase::Whole => self.recode(&naming_the_users(&self.script, reply), env, io),
            Phase::Recoding { recode, answer } => match recode.handle_reply(reply, env, io.wire) {
                Recoded::Wait => Step::Wait,
                Recoded::More(replies) => Step::More(replies),
                Recoded::Done => {
                    let answer = mem::take(answer);
                    self.note_expiries(&answer, env, io)
                }
                Recoded::Unexpected => Step::Unexpected,
            },
            Phase::Noting { load, answer } => match load.take_expiries(reply, env, io.wire) {
                Some(step) => step,
                None => done(io, answer),
            },
        }
    }

    fn begin_again(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        for namespace in self.keys.iter().filter_map(|(_, located)| located.namespace()) {
            env.stats.namespace(namespace).count_conflict();
        }
        self.attempts += 1;
        if self.attempts == MAX_ATTEMPTS {
            return done(
                io,
                b"-ERR keyfold: other clients changed the keys each time this script was to run; it did not, try again\r\n",
            );
        }
        Step::More(self.begin(env, io.wire))
    }

    /// The call has this answer: what it wrote is encoded first.
    fn recode(&mut self, answer: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let writes = !self.reads_only && !self.script.says_no_writes();
        let keys = self.keys.iter().filter(|_| writes).map(|(key, _)| key.as_slice());
        let Some((recode, replies)) = Recode::start(keys, env, io.wire) else {
            return self.note_expiries(answer, env, io);
        };
        self.phase = Phase::Recoding { recode: Box::new(recode), answer: answer.to_vec() };
        Step::More(replies)
    }

    /// Looks when what the call may have read expires, where that is to be known, before it is answered.
    fn note_expiries(&mut self, answer: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let wants = self.for_cache && !answer.starts_with(b"-");
        let keys = self.keys.iter().filter(|_| wants).map(|(key, located)| (key.as_slice(), located.clone()));
        let mut load = Load::of_expiries(env, keys);
        if load.keys().is_empty() {
            return done(io, answer);
        }
        let replies = load.send(io.wire);
        self.phase = Phase::Noting { load: Box::new(load), answer: answer.to_vec() };
        Step::More(replies)
    }

    /// The first key that had to be read once more, where one had to be.
    pub(crate) fn contended_key(&self) -> Option<&[u8]> {
        let Phase::Reading(load) = &self.phase else { return None };
        load.keys().first().filter(|_| self.attempts > 0).map(|key| &key.logical[..])
    }
}

impl Behind {
    /// Whether the server says that keyfold has to read once more.
    fn is_again(&self, reply: &[u8]) -> bool {
        !self.again.is_empty() && Reply::parse(reply) == Ok(Reply::Simple(&self.again))
    }
}

/// Whether a command calls a script that may only read.
pub(crate) fn reads_only(command: Id) -> bool {
    matches!(command, Id::EvalRo | Id::EvalshaRo | Id::FcallRo)
}

/// Whether what lies there may be something that a script can't understand.
pub(crate) fn may_be_strange(located: &Located, env: &Env<'_>) -> bool {
    // A string of its own lies there as it is, also where codecs wrote other places of its namespace before.
    if matches!(located, Located::Placed(place) if place.kind.is_raw()) {
        return false;
    }
    let is_theirs = |place: &Option<Place>| place.as_ref().is_some_and(|place| place.kind.packing().is_some());
    let is_coded = located.namespace().is_some_and(|index| !env.layout.namespace(index).codecs.is_empty());
    is_coded || matches!(located, Located::Moving(moving) if is_theirs(&moving.old))
}

/// What stands behind the script in a call of it: the request `args` with what is `also` there. `keys` are its keys, in their
/// order; `read` is what was read of them.
pub(crate) fn behind<'k>(
    reads_only: bool,
    (args, also_given): (&[&[u8]], &[Vec<u8>]),
    keys: impl Iterator<Item = (&'k [u8], Located)>,
    script: &UserScript,
    read: &[Key],
    env: &mut Env<'_>,
) -> Behind {
    let writes = !reads_only && !script.says_no_writes();
    let keys: Vec<_> = keys.collect();
    let known: HashMap<&[u8], &Key> = read.iter().map(|key| (key.logical.as_slice(), key)).collect();
    let others = &args[3 + keys.len()..];
    let (mut physical, mut also, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let (mut folded, mut again, mut has_collections) = (0_i64, Vec::new(), false);
    for (number, (key, located)) in (1..).zip(&keys) {
        if matches!(located, Located::Plain | Located::Reserved) {
            physical.push(key.to_vec());
            continue;
        }
        folded += 1;
        let simple =
            matches!(located, Located::Placed(place) if !place.kind.is_framed()) && !may_be_strange(located, env);
        let unread;
        let key = match known.get(key) {
            Some(key) => *key,
            None => {
                unread = Key::at(key, located.clone());
                &unread
            }
        };
        has_collections |= key.collection().is_some();
        physical.push(key.physical().to_vec());
        told.extend(tell(number, key, env));
        if let Some(place) = key.bucket().filter(|_| writes) {
            note_writes(place, key, others, env);
        }
        if simple {
            told.push(b"0".to_vec());
            continue;
        }
        told.push(key.spots().len().to_string().into_bytes());
        for (nth, spot) in key.spots().iter().enumerate() {
            let number = if nth == 0 { number } else { keys.len() + also.len() + 1 };
            if nth > 0 {
                also.push(spot.physical(&key.logical).to_vec());
            }
            write_spot(spot, number, &mut told);
        }
        if again.is_empty() {
            again = format!("again {:x}", (env.nonces)()).into_bytes();
        }
    }
    let counts = [keys.len().to_string(), (others.len() + also_given.len()).to_string()];
    told.push(again.clone());
    told.extend(counts.map(String::into_bytes));
    told.push(if writes { folded } else { -folded }.to_string().into_bytes());
    physical.extend(also);
    let count = physical.len().to_string().into_bytes();
    let others = others.iter().map(|arg| arg.to_vec()).chain(also_given.iter().cloned());
    Behind { args: [count].into_iter().chain(physical).chain(others).chain(told).collect(), again, has_collections }
}

/// The reply to a call, with the user's script or function where the server says in which script an error happened.
pub(crate) fn naming_the_users<'r>(script: &UserScript, reply: &'r [u8]) -> Cow<'r, [u8]> {
    if !reply.starts_with(b"-") {
        return Cow::Borrowed(reply);
    }
    let with_name = |name: &[u8]| {
        script.wrapped_shas().fold(reply.to_vec(), |reply, wrapped| replaced(&reply, wrapped.as_bytes(), name))
    };
    Cow::Owned(match script.function() {
        None => with_name(script.sha.as_bytes()),
        Some(_) if memchr::memmem::find(reply, b" on @user_script:").is_none() => reply.to_vec(),
        Some(function) => replaced(&with_name(&function.name), b"user_script:", b"user_function:"),
    })
}

/// The text with `with` in place of each `what`.
fn replaced(text: &[u8], what: &[u8], with: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = memchr::memmem::find(rest, what) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(with);
        rest = &rest[at + what.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// What the script's first line is told of a folded key, the `number`th, but for its spots.
fn tell(number: usize, key: &Key, env: &mut Env<'_>) -> [Vec<u8>; 6] {
    let place = key.spots().first().and_then(|spot| spot.place.as_ref());
    let (field, longest, named_by) = match place {
        Some(place) if place.kind.is_field() => {
            let longest = env.layout.namespace(place.namespace).value_limit.to_string();
            let named_by = [&(env.nonces)().to_be_bytes(), &*spill_head(place.origin)].concat();
            (place.field.to_vec(), longest.into_bytes(), named_by)
        }
        // A zipped key is the server's; one that is moving, or framed, has a stand-in for a bucket.
        Some(place) if place.kind.is_raw() && !key.is_moving() => (Vec::new(), Vec::new(), Vec::new()),
        _ => (Vec::new(), NO_LIMIT.to_vec(), 0_u64.to_be_bytes().to_vec()),
    };
    let kind = key.collection().map_or(Vec::new(), |kind| kind.to_string().into_bytes());
    [number.to_string().into_bytes(), key.logical.clone(), field, longest, named_by, kind]
}

/// Appends what the script is told of a place where a key may lie: what it is, the number of its physical key, the field, what
/// names of spilled values begin with, what lies there that a script can't understand, and what that means.
fn write_spot(spot: &Spot, number: usize, told: &mut Vec<Vec<u8>>) {
    let (kind, field, head): (&[u8], &[u8], Vec<u8>) = match &spot.place {
        None => (b"string", b"", Vec::new()),
        Some(place) if place.kind.is_bucket() => (b"field", &place.field, spill_head(place.origin).into_vec()),
        Some(place) if place.kind.is_field() => (b"theirs", &place.field, Vec::new()),
        Some(place) if place.kind.is_framed() => (b"framed", b"", Vec::new()),
        Some(_) => (b"string", b"", Vec::new()),
    };
    let (stored, means) = match spot.strange() {
        None => (Vec::new(), Vec::new()),
        Some(Strange { stored, means: None }) => ([b"+", stored].concat(), b"-".to_vec()),
        Some(Strange { stored, means: Some(value) }) => ([b"+", stored].concat(), [b"+", &*value].concat()),
    };
    told.extend([kind.to_vec(), number.to_string().into_bytes(), field.to_vec(), head, stored, means]);
}

/// What a script writes isn't seen here. Its bucket is looked through after a while, for what expires in it; and values may be
/// spilled where one of the arguments is so long, or what a codec had made shorter.
fn note_writes(place: &Place, key: &Key, args: &[&[u8]], env: &Env<'_>) {
    env.note_expiry(place, Some(env.now_ms + LOOK_AFTER_MS));
    let longest = env.layout.namespace(place.namespace).value_limit;
    let decoded = || key.spots().iter().filter_map(|spot| spot.strange()?.means);
    let is_long = |bytes: &[u8]| bytes.len() > longest;
    // Members may come to more in all than each.
    if key.collection().is_some() || args.iter().copied().any(is_long) || decoded().any(|value| is_long(&value)) {
        env.stats.namespace(place.namespace).note_spilled();
    }
}

/// SCRIPT EXISTS: a script that the server knows and keyfold doesn't is no use to whoever has folded keys, and is sent once
/// more.
#[derive(Debug)]
pub(crate) struct ScriptsExist {
    /// Whether keyfold knows each.
    pub(crate) known: Vec<bool>,
}

impl ScriptsExist {
    /// Takes the server's answer, which is a number for each.
    pub(crate) fn handle_reply(&self, reply: &[u8], io: &mut Io<'_>) -> Step {
        match Reply::parse(reply) {
            Ok(Reply::Array(found)) => {
                io.answer.extend_from_slice(format!("*{}\r\n", self.known.len()).as_bytes());
                for (found, is_known) in found.zip(&self.known) {
                    let exists = *is_known && found == Reply::Integer(1);
                    io.answer.extend_from_slice(if exists { b":1\r\n" } else { b":0\r\n" });
                }
                Step::Done(Effect::None)
            }
            Ok(Reply::Error(_)) => done(io, reply),
            _ => Step::Unexpected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::RETIRE_MS;
    use crate::layout::{Layout, LayoutFile};
    use crate::record::SetsAs;
    use crate::user_script::Scripts;

    #[test]
    fn spilled_values_stay_as_long_as_elsewhere() {
        let script = Scripts::default().note(b"", false);
        let retires = format!("'{}')", str::from_utf8(RETIRE_MS).unwrap());
        assert!(String::from_utf8(script.wrapped(false)).unwrap().contains(&retires));
    }

    const LAYOUT: &str = "
        [[namespace]]
        keys = 'n:{id:int}'
        bucket = { span = 10 }
        [[namespace]]
        keys = 'h:{id:int}'
        bucket = { span = 10 }
        codec = 'hex'
    ";
    const BODY: &[u8] = b"return redis.call('INCR', KEYS[1])";

    fn layout() -> Layout {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let (index, namespace) = layout.iter().find(|(_, namespace)| !namespace.codec.is_none()).unwrap();
        layout.written_by(index, &namespace.codec, None).unwrap()
    }

    fn shown(wire: &mut Vec<u8>) -> String {
        String::from_utf8_lossy(&std::mem::take(wire)).into_owned()
    }

    #[test]
    fn errors_name_the_users_script() {
        let layout = layout();
        let context = crate::drive::Context::without_data(&layout, crate::exchange::ServerInfo::default());
        let nonces = &mut || 7;
        let mut env = context.env(1, nonces);
        let script = Scripts::default().note(BODY, false);
        let args: [&[u8]; 5] = [b"EVAL", BODY, b"1", b"n:15", b"x"];
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let keys = [(args[3], layout.locate(args[3]))].into_iter();
        let (mut call, 1) = UserCall::start(Id::Eval, &args, keys, &script, Vec::new(), false, &mut env, &mut wire)
        else {
            panic!()
        };
        let sent = shown(&mut wire);
        let (wrapped, own) = (format!("{:?}", script.wrapped_sha(false)), format!("{:?}", script.sha));
        assert!(
            sent.starts_with("*16\r\n$7\r\nEVALSHA\r\n") && sent.contains(&wrapped) && sent.ends_with("$1\r\n1\r\n"),
            "{sent}"
        );
        let io = &mut Io { wire: &mut wire, answer: &mut answer };
        assert!(matches!(call.handle_reply(b"-NOSCRIPT No matching script.\r\n", &mut env, io), Step::More(2)));
        assert!(String::from_utf8_lossy(io.wire).starts_with("*3\r\n$6\r\nSCRIPT\r\n"));
        assert!(String::from_utf8_lossy(io.wire).contains("*16\r\n$4\r\nEVAL\r\n"));
        assert!(matches!(call.handle_reply(b"$1\r\nx\r\n", &mut env, io), Step::Wait));
        let error = |sha: &str| format!("-ERR no script: {sha}, on @user_script:1.\r\n");
        assert!(matches!(call.handle_reply(error(&wrapped).as_bytes(), &mut env, io), Step::Done(_)));
        assert_eq!(String::from_utf8(answer).unwrap(), error(&own));
    }

    /// Its slots outlast the codec: values in other places may have been written by them.
    #[test]
    fn a_string_of_its_own_is_the_servers_once_its_codec_is_left() {
        let coded = Layout::parse_file("[[namespace]]\nkeys = 'p:{name}'\ncodec = 'hex'\n").unwrap();
        let (index, namespace) = coded.iter().next().unwrap();
        let coded = coded.written_by(index, &namespace.codec, None).unwrap();
        let file = LayoutFile::parse("[[namespace]]\nkeys = 'p:{name}'\n").unwrap();
        let moving = coded.plan_fold(&file).unwrap().layout;
        let layout = moving.settled(&[index]);
        let args: [&[u8]; 4] = [b"EVAL", BODY, b"1", b"p:x"];
        let located = layout.locate(args[3]);
        assert!(matches!(&located, Located::Placed(place) if place.kind.is_raw()), "{located:?}");
        assert!(!layout.namespace(index).codecs.is_empty());
        let context = crate::drive::Context::without_data(&layout, crate::exchange::ServerInfo::default());
        let nonces = &mut || 7;
        let (mut env, mut wire) = (context.env(1, nonces), Vec::new());
        let script = Scripts::default().note(BODY, false);
        let keys = [(args[3], located)].into_iter();
        let (_, replies) = UserCall::start(Id::Eval, &args, keys, &script, Vec::new(), false, &mut env, &mut wire);
        let sent = shown(&mut wire);
        assert!(replies == 1 && sent.contains("EVALSHA"), "{sent}");
        // Neither a field, nor a longest value, nor another type, nor a spot.
        assert!(sent.contains(&format!("$3\r\np:x\r\n{}$1\r\n0\r\n", "$0\r\n\r\n".repeat(4))), "{sent}");
    }

    #[test]
    fn what_codecs_wrote_goes_along_and_is_read_again_where_it_has_changed() {
        let layout = layout();
        let context = crate::drive::Context::without_data(&layout, crate::exchange::ServerInfo::default());
        let nonces = &mut || 7;
        let mut env = context.env(1, nonces);
        let script = Scripts::default().note(BODY, false);
        let args: [&[u8]; 4] = [b"EVAL", BODY, b"1", b"h:15"];
        let located = layout.locate(args[3]);
        let place = located.clone().place().unwrap();
        let reply = |value: &[u8]| {
            let writes = layout.physical_writes(SetsAs::Sets, Some(&place), args[3], value, None, || 1);
            let stored = writes.main.value();
            [format!("${}\r\n", stored.len()).as_bytes(), stored, b"\r\n"].concat()
        };
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let keys = [(args[3], located)].into_iter();
        let (mut call, 1) = UserCall::start(Id::Eval, &args, keys, &script, Vec::new(), false, &mut env, &mut wire)
        else {
            panic!()
        };
        assert!(shown(&mut wire).contains("HGET") && call.contended_key().is_none());
        let io = &mut Io { wire: &mut wire, answer: &mut answer };
        for value in [&b"00ff00ff00ff00ff"[..], b"abcdefabcdefabcdef"] {
            assert!(matches!(call.handle_reply(&reply(value), &mut env, io), Step::More(1)));
            let sent = shown(io.wire);
            assert!(sent.contains("EVALSHA") && sent.contains(&format!("+{}\r\n", value.escape_ascii())), "{sent}");
            assert!(matches!(call.handle_reply(b"+again 7\r\n", &mut env, io), Step::More(1)));
            assert!(shown(io.wire).contains("HGET"));
            assert_eq!(call.contended_key(), Some(args[3]));
        }
        assert!(matches!(call.handle_reply(b"$-1\r\n", &mut env, io), Step::More(1)));
        // It says what the call with another nonce would be answered: that is the script's own answer.
        assert!(matches!(call.handle_reply(b"+again 8\r\n", &mut env, io), Step::More(1)));
        // The script has written, and what it wrote is encoded.
        io.wire.clear();
        assert!(matches!(call.handle_reply(b"$16\r\n00ff00ff00ff00ff\r\n", &mut env, io), Step::More(1)));
        assert!(shown(io.wire).contains("HSET"));
        assert!(matches!(call.handle_reply(b"-OOM no room\r\n", &mut env, io), Step::Done(_)));
        assert_eq!(answer, b"+again 8\r\n");
    }
}
