//! EVAL and EVALSHA of a user's script of whose keys some are folded: one call of the script behind keyfold's own lines
//! ([`crate::user_script`]).
//!
//! ```text
//! EVALSHA sha' 2 bucket plain  v1 v2  1 user:7 7 512 nonce+head 1
//!         │    └─ physical ─┘  └─┬─┘  └────────┬──────────────┘ └ how many keys are folded, below zero where it only reads
//!         │                  the user's    of each folded key: its number among the keys, its name, the field, the longest
//!         │                                stored value (nothing for a key of its own), and what a spilled value is named by
//!         of the wrapped script
//! ```
//! It is called by its hash; a server that doesn't know it answers NOSCRIPT and gets the text, and the user's script beside
//! it, which it would know without keyfold: by that it is called where no key is folded.
//!
//! What the script reads isn't seen here. Where its client may cache that, the folded keys are looked at once more behind it: when
//! they expire the server won't tell. What becomes of them in between, it does.

use std::sync::Arc;

use crate::command::Id;
use crate::exchange::{Effect, Env, Io, Step, done};
use crate::frame::{Frame, is_raw};
use crate::layout::{Located, Place, spill_head};
use crate::resp::{Reply, write_command};
use crate::user_script::UserScript;

/// When the sweep looks for what a script has given an expiry.
const LOOK_AFTER_MS: i64 = 60_000;

/// Such a call under way.
#[derive(Debug)]
pub(crate) struct UserCall {
    script: Arc<UserScript>,
    /// EVAL_RO or EVALSHA_RO.
    reads_only: bool,
    /// What stands behind the script.
    args: Vec<Vec<u8>>,
    /// The fields that it may have read for a cache.
    read: Vec<ReadField>,
    /// The script's, kept until these have been looked at.
    answer: Vec<u8>,
    replies: Replies,
}

/// Where a key lies that a script may have read.
#[derive(Debug)]
struct ReadField {
    key: Vec<u8>,
    bucket: Vec<u8>,
    field: Vec<u8>,
}

/// Which reply comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replies {
    /// To EVALSHA.
    ByHash,
    /// To SCRIPT LOAD of the user's script, whatever it says; then to EVAL.
    Loaded,
    /// To EVAL.
    Whole,
    /// To HGET of the field that stands here among those that it may have read.
    Field(usize),
}

impl UserCall {
    /// Sends the call of `script` that this request is, its keys in the order of the request; it has one reply. Where it is
    /// `for_cache`, somebody is told of what it reads.
    pub(crate) fn start<'k>(
        command: Id,
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'k [u8], Located)>,
        script: &Arc<UserScript>,
        for_cache: bool,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Self {
        let reads_only = matches!(command, Id::EvalRo | Id::EvalshaRo);
        let writes = !reads_only && !script.says_no_writes();
        let (mut physical, mut told, mut read) = (Vec::new(), Vec::new(), Vec::new());
        let mut folded = 0_i64;
        for (number, (key, located)) in (1..).zip(keys) {
            let Located::Placed(place) = located else {
                physical.push(key.to_vec());
                continue;
            };
            folded += 1;
            told.extend(tell(number, key, &place, env));
            if writes && place.kind.is_field() {
                note_writes(&place, args, env);
            }
            if for_cache && place.kind.is_field() {
                read.push(ReadField {
                    key: key.to_vec(),
                    bucket: place.physical.to_vec(),
                    field: place.field.to_vec(),
                });
            }
            physical.push(place.physical.into_vec());
        }
        told.push(if writes { folded } else { -folded }.to_string().into_bytes());
        let others = args[3 + physical.len()..].iter().map(|arg| arg.to_vec());
        let args = [args[2].to_vec()].into_iter().chain(physical).chain(others).chain(told).collect();
        let call =
            Self { script: Arc::clone(script), reads_only, args, read, answer: Vec::new(), replies: Replies::ByHash };
        call.send(if reads_only { b"EVALSHA_RO" } else { b"EVALSHA" }, call.script.wrapped_sha().as_bytes(), wire);
        call
    }

    fn send(&self, command: &[u8], script: &[u8], wire: &mut Vec<u8>) {
        let args: Vec<&[u8]> = [command, script].into_iter().chain(self.args.iter().map(Vec::as_slice)).collect();
        write_command(wire, &args);
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if self.replies == Replies::Loaded {
            self.replies = Replies::Whole;
            return Step::Wait;
        }
        if let Replies::Field(number) = self.replies {
            return self.note_expiry(number, reply, env, io);
        }
        if self.replies == Replies::ByHash && reply.starts_with(b"-NOSCRIPT") {
            self.replies = Replies::Loaded;
            write_command(io.wire, &[b"SCRIPT", b"LOAD", self.script.body()]);
            self.send(if self.reads_only { b"EVAL_RO" } else { b"EVAL" }, &self.script.wrapped(), io.wire);
            return Step::More(2);
        }
        if !reply.starts_with(b"-") {
            return self.look(reply, io);
        }
        // The server says in which script it happened: to the user that is the script as it was sent here.
        let (wrapped, own) = (self.script.wrapped_sha(), self.script.sha);
        let mut rest = reply;
        while let Some(at) = memchr::memmem::find(rest, wrapped.as_bytes()) {
            io.answer.extend_from_slice(&rest[..at]);
            io.answer.extend_from_slice(own.as_bytes());
            rest = &rest[at + own.as_bytes().len()..];
        }
        done(io, rest)
    }

    /// Asks when what the script may have read expires, where that is to be known, before it is answered.
    fn look(&mut self, answer: &[u8], io: &mut Io<'_>) -> Step {
        if self.read.is_empty() {
            return done(io, answer);
        }
        self.answer = answer.to_vec();
        for ReadField { bucket, field, .. } in &self.read {
            write_command(io.wire, &[b"HGET", bucket, field]);
        }
        self.replies = Replies::Field(0);
        Step::More(u32::try_from(self.read.len()).unwrap_or(u32::MAX))
    }

    /// Takes the reply to HGET of the field with this number. Of what can't be read its reader is told at once.
    fn note_expiry(&mut self, number: usize, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let until = match Reply::parse(reply) {
            Ok(Reply::Bulk(stored)) if !is_raw(stored) => {
                Frame::decode(stored).map_or(Some(env.now_ms), |frame| frame.expires_at_ms)
            }
            Ok(Reply::Bulk(_) | Reply::Nil) => None,
            Ok(Reply::Error(_)) => Some(env.now_ms),
            _ => return Step::Unexpected,
        };
        env.note_read_until(&self.read[number].key, until);
        if number + 1 == self.read.len() {
            return done(io, &self.answer);
        }
        self.replies = Replies::Field(number + 1);
        Step::Wait
    }
}

/// What the script's first line is told of a folded key, the `number`th.
fn tell(number: usize, key: &[u8], place: &Place, env: &mut Env<'_>) -> [Vec<u8>; 5] {
    let (longest, named_by) = if place.kind.is_field() {
        let longest = env.layout.namespace(place.namespace).value_limit.to_string();
        (longest.into_bytes(), [&(env.nonces)().to_be_bytes(), &*spill_head(place.origin)].concat())
    } else {
        (Vec::new(), Vec::new())
    };
    [number.to_string().into_bytes(), key.to_vec(), place.field.to_vec(), longest, named_by]
}

/// What a script writes isn't seen here. Its bucket is looked through after a while, for what expires in it; and values may be
/// spilled where one of the arguments is so long.
fn note_writes(place: &Place, args: &[&[u8]], env: &Env<'_>) {
    env.note_expiry(place, Some(env.now_ms + LOOK_AFTER_MS));
    let longest = env.layout.namespace(place.namespace).value_limit;
    if args[3..].iter().any(|arg| arg.len() > longest) {
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
    use crate::layout::Layout;
    use crate::user_script::Scripts;

    #[test]
    fn spilled_values_stay_as_long_as_elsewhere() {
        let script = Scripts::default().note(b"", false);
        let retires = format!("'{}')", str::from_utf8(RETIRE_MS).unwrap());
        assert!(String::from_utf8(script.wrapped()).unwrap().contains(&retires));
    }

    #[test]
    fn errors_name_the_users_script() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let context = crate::drive::Context::without_data(&layout, crate::exchange::ServerInfo::default());
        let nonces = &mut || 7;
        let mut env = context.env(1, nonces);
        let script = Scripts::default().note(b"return redis.call('INCR', KEYS[1])", false);
        let args: [&[u8]; 5] = [b"EVAL", b"return redis.call('INCR', KEYS[1])", b"1", b"n:15", b"x"];
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let keys = [(args[3], layout.locate(args[3]))].into_iter();
        let mut call = UserCall::start(Id::Eval, &args, keys, &script, false, &mut env, &mut wire);
        let sent = String::from_utf8_lossy(&wire).into_owned();
        let (wrapped, own) = (format!("{:?}", script.wrapped_sha()), format!("{:?}", script.sha));
        assert!(
            sent.starts_with("*11\r\n$7\r\nEVALSHA\r\n") && sent.contains(&wrapped) && sent.ends_with("$1\r\n1\r\n"),
            "{sent}"
        );
        wire.clear();
        let io = &mut Io { wire: &mut wire, answer: &mut answer };
        assert!(matches!(call.handle_reply(b"-NOSCRIPT No matching script.\r\n", &env, io), Step::More(2)));
        assert!(String::from_utf8_lossy(io.wire).starts_with("*3\r\n$6\r\nSCRIPT\r\n"));
        assert!(String::from_utf8_lossy(io.wire).contains("*11\r\n$4\r\nEVAL\r\n"));
        assert!(matches!(call.handle_reply(b"$1\r\nx\r\n", &env, io), Step::Wait));
        let error = |sha: &str| format!("-ERR no script: {sha}, on @user_script:1.\r\n");
        assert!(matches!(call.handle_reply(error(&wrapped).as_bytes(), &env, io), Step::Done(_)));
        assert_eq!(String::from_utf8(answer).unwrap(), error(&own));
    }
}
