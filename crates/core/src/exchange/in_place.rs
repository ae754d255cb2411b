//! A command on one large value, carried out by the server where the value lies.
//!
//! A spilled value without a codec is a plain string under a spill's name, so the server's own command works on it,
//! and the proxy never holds it. A command that reads goes out together with a look whether the spill is still there.
//! One that writes goes out in one MULTI:
//!
//! ```text
//! a large spill                                        a small value, or none, that would grow large
//! EVAL: if the pointer is what was read,               SET fresh value (where there is one)
//!         pointer → fresh, RENAME spill fresh          the command, on fresh
//!       else RPUSH fresh                               EVAL: if the field is what was read and fresh is there,
//! the command, on fresh                                        pointer → fresh
//!                                                            else UNLINK fresh
//! ```
//!
//! So each content has a nonce of its own, and a nonce is never used again: whoever was pointed to the old one finds
//! it gone and begins again at the pointer. Where another client was quicker, the command of the first form finds a
//! list, refuses it, and changes nothing; the list is taken away. The server pads, allocates and refuses by its own
//! limits, and its reply is the answer, whatever numbers stand in it.

use crate::exchange::batch::{Batch, Commands};
use crate::exchange::key::Key;
use crate::exchange::retire::retire;
use crate::exchange::script::{CompareAndSet, Otherwise};
use crate::exchange::{Env, Refusal, script};
use crate::frame;
use crate::layout::{Place, spill_name};
use crate::resp::{Reply, write_command};
use crate::string::Held;

/// What a command does to the one value that it names as its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Reads,
    Writes,
}

/// What a command that the server can carry out in place does; none for others.
fn effect_of(name: &[u8]) -> Option<Effect> {
    Some(match name.to_ascii_lowercase().as_slice() {
        b"get" | b"strlen" | b"getrange" | b"substr" | b"getbit" | b"bitcount" | b"bitpos" | b"bitfield_ro"
        | b"dump" => Effect::Reads,
        b"append" | b"setrange" | b"setbit" | b"bitfield" | b"incr" | b"decr" | b"incrby" | b"decrby"
        | b"incrbyfloat" => Effect::Writes,
        _ => return None,
    })
}

/// Whether this command writes, and the server can carry it out in place.
pub(crate) fn writes(name: &[u8]) -> bool {
    effect_of(name) == Some(Effect::Writes)
}

/// The spilled value that a key's bucket points to, where it was left unread and is stored as it is.
fn large_spill(key: &Key) -> Option<u64> {
    match key.spots() {
        [spot] => spot.large_spill().filter(|(_, slot)| slot.is_none()).map(|(nonce, _)| nonce),
        _ => None,
    }
}

/// The place of a key whose value may be spilled, and which isn't being moved.
fn bucket_of(key: &Key) -> Option<&Place> {
    key.bucket().filter(|place| place.kind.is_bucket() && !key.is_moving())
}

/// Such a command under way.
#[derive(Debug)]
pub(crate) struct InPlace {
    form: Form,
    batch: Batch,
}

#[derive(Debug)]
enum Form {
    /// Whether the spill is there, and the answer.
    Read,
    /// The script, and the answer. The name is taken away where the script did nothing.
    Write { fresh: Vec<u8> },
    /// SET perhaps, the answer, and the script.
    Grow,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The answer.
    Answer(Vec<u8>),
    /// The key was changed meanwhile. It has to be read again, after so many replies to what was written to the
    /// wire, which count for nothing.
    Changed(u32),
    /// The server's error; as many replies are to be waited for.
    Failed(Vec<u8>, u32),
    /// A reply that the server can't have meant.
    Unexpected,
}

impl InPlace {
    /// Sends the command `args` on the value of `key`, which holds `held`; none where the server can't carry it out.
    pub(crate) fn start(
        args: &[&[u8]],
        key: &Key,
        held: &Held,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Option<(Self, u32)> {
        let effect = effect_of(args[0])?;
        let place = bucket_of(key)?;
        let spilled = large_spill(key).map(|nonce| spill_name(place.origin, nonce, &key.logical));
        let (form, commands) = match (effect, held, spilled) {
            (Effect::Reads, Held::Unread(_), Some(spill)) => (Form::Read, read(args, &spill)),
            (Effect::Writes, Held::Unread(_), Some(spill)) => write(args, key, place, &spill, env),
            (Effect::Writes, Held::String(_) | Held::Nothing, _) => (Form::Grow, grow(args, key, place, held, env)),
            _ => return None,
        };
        let (batch, replies) = Batch::send_transaction(&commands, wire);
        Some((Self { form, batch }, replies))
    }

    /// Takes the next reply; the outcome once all are there.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], wire: &mut Vec<u8>) -> Option<Outcome> {
        let mut replies = match self.batch.handle_reply(reply)? {
            Ok(replies) => replies,
            Err(Refusal::Error(error)) => return Some(Outcome::Failed(error, 0)),
            Err(Refusal::Unexpected) => return Some(Outcome::Unexpected),
        };
        let (Some(last), Some(before_last)) = (replies.pop(), replies.pop()) else {
            return Some(Outcome::Unexpected);
        };
        let (condition, answer) = match self.form {
            Form::Read | Form::Write { .. } => (before_last, last),
            Form::Grow => (last, before_last),
        };
        Some(match Reply::parse(&condition) {
            Ok(Reply::Integer(1)) => Outcome::Answer(answer),
            // The command was refused, so it made no value, and the script found nothing to point to.
            Ok(Reply::Integer(_)) if matches!(self.form, Form::Grow) && answer.starts_with(b"-") => {
                Outcome::Answer(answer)
            }
            Ok(Reply::Integer(_)) => Outcome::Changed(self.clear(wire)),
            Ok(Reply::Error(_)) => Outcome::Failed(script::without_place(&condition), self.clear(wire)),
            _ => Outcome::Unexpected,
        })
    }

    /// Removes the list that kept a late command from writing.
    fn clear(&self, wire: &mut Vec<u8>) -> u32 {
        let Form::Write { fresh } = &self.form else { return 0 };
        write_command(wire, &[b"UNLINK", fresh]);
        1
    }
}

/// What surrounds a transaction's commands on one key, if the server carries them out on the spilled value itself.
#[derive(Debug, Default)]
pub(crate) struct Hosting {
    /// The name under which the commands find the value.
    pub(crate) name: Vec<u8>,
    /// Commands that go before them, encoded.
    pub(crate) before: Vec<Vec<u8>>,
    /// Commands that go after all others, encoded.
    pub(crate) after: Vec<Vec<u8>>,
}

/// How a transaction that watches `key`, and the spilled value it points to, carries out these commands on it, all of
/// which name it alone; none where the server can't.
pub(crate) fn host<'a>(
    commands: impl Iterator<Item = &'a [u8]>,
    key: &Key,
    held: &Held,
    env: &mut Env<'_>,
) -> Option<Hosting> {
    let effects = commands.map(effect_of).collect::<Option<Vec<_>>>()?;
    let place = bucket_of(key)?;
    let spilled = large_spill(key).map(|nonce| spill_name(place.origin, nonce, &key.logical));
    let expires_at_ms = key.field_expires_at_ms();
    let encoded = |args: &[&[u8]]| {
        let mut command = Vec::new();
        write_command(&mut command, args);
        command
    };
    match (held, spilled) {
        (Held::Unread(_), Some(name)) if !effects.contains(&Effect::Writes) => {
            Some(Hosting { name, ..Hosting::default() })
        }
        (Held::Unread(_), Some(spill)) => {
            let (name, pointer) = fresh_spill(key, place, expires_at_ms, env);
            let point = encoded(&[b"HSET", &place.physical, &place.field, &pointer]);
            let before = vec![point, encoded(&[b"RENAME", &spill, &name])];
            Some(Hosting { name, before, after: Vec::new() })
        }
        (Held::String(_) | Held::Nothing, _) => {
            let (name, before, script) = growing(key, place, held, env);
            let before = before.iter().map(|command| encoded(&command.iter().map(Vec::as_slice).collect::<Vec<_>>()));
            let (before, after) = (before.collect(), vec![script.with_otherwise(Otherwise::Remove)]);
            Some(Hosting { name, before, after })
        }
        _ => None,
    }
}

/// The command with another key.
fn renamed<'a>(args: &[&'a [u8]], name: &'a [u8]) -> Vec<&'a [u8]> {
    let mut renamed = args.to_vec();
    renamed[1] = name;
    renamed
}

fn read(args: &[&[u8]], spill: &[u8]) -> Commands {
    let mut commands = Commands::default();
    commands.push(&[b"EXISTS", spill]);
    commands.push(&renamed(args, spill));
    commands
}

/// A nonce's name, and the field's bytes that point to it.
fn fresh_spill(key: &Key, place: &Place, expires_at_ms: Option<i64>, env: &mut Env<'_>) -> (Vec<u8>, Vec<u8>) {
    let nonce = (env.nonces)();
    let mut pointer = Vec::new();
    frame::encode_spill(nonce, None, expires_at_ms, &mut pointer);
    env.stats.namespace(place.namespace).count_spill();
    (spill_name(place.origin, nonce, &key.logical), pointer)
}

/// The script that lets the field point to the fresh name, if it holds what was read and that hasn't expired.
fn pointing(key: &Key, place: &Place, pointer: &[u8], fresh: &[u8], now_ms: i64) -> CompareAndSet {
    let mut script = CompareAndSet::default();
    script.name_key(fresh);
    key.check(&mut script);
    if let Some(at) = key.field_expires_at_ms().filter(|at| *at >= now_ms) {
        script.check_time(at);
    }
    script.write(&[b"HSET", &place.physical, &place.field, pointer]);
    script
}

fn write(args: &[&[u8]], key: &Key, place: &Place, spill: &[u8], env: &mut Env<'_>) -> (Form, Commands) {
    let (fresh, pointer) = fresh_spill(key, place, key.field_expires_at_ms(), env);
    let mut script = pointing(key, place, &pointer, &fresh, env.now_ms);
    script.check(&[b"EXISTS", spill], Some(b"1"));
    script.write(&[b"RENAME", spill, &fresh]);
    let mut commands = Commands::default();
    commands.push_bytes(&script.with_otherwise(Otherwise::MakeList));
    commands.push(&renamed(args, &fresh));
    (Form::Write { fresh }, commands)
}

fn grow(args: &[&[u8]], key: &Key, place: &Place, held: &Held, env: &mut Env<'_>) -> Commands {
    let (fresh, before, script) = growing(key, place, held, env);
    let mut commands = Commands::default();
    if let Some(command) = before {
        commands.push(&command.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
    commands.push(&renamed(args, &fresh));
    commands.push_bytes(&script.with_otherwise(Otherwise::Remove));
    commands
}

/// A fresh name, what has to be there before a small value grows under it, and the script that comes after.
fn growing(key: &Key, place: &Place, held: &Held, env: &mut Env<'_>) -> (Vec<u8>, Option<[Vec<u8>; 3]>, CompareAndSet) {
    let entry = if let Held::String(entry) = held { Some(entry) } else { None };
    let (fresh, pointer) = fresh_spill(key, place, entry.and_then(|entry| entry.expires_at_ms), env);
    let mut script = pointing(key, place, &pointer, &fresh, env.now_ms);
    script.check(&[b"EXISTS", &fresh], Some(b"1"));
    key.spots().iter().for_each(|spot| retire(&mut script, key, spot, env));
    let before = entry.map(|entry| [b"SET".to_vec(), fresh.clone(), entry.value.clone()]);
    (fresh, before, script)
}
