//! Random commands sent to a plain server and a subject, their replies compared, and the first difference
//! shrunk to the few commands that it takes.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `behind` | what keyfold stands before, and what it is compared with |
//! | `in_script` | commands that a script carries out |
//! | `collections` | sets and hashes: their keys, the layout that folds them, the commands |
//! | `commands` | which commands, how often |
//! | `grammar` | how the table is written, and commands made of it |
//! | `keys` | keys, and the layouts that fold them before a cluster |
//! | `arguments` | keys, values, numbers, times |
//! | `cached` | clients with caches behind two keyfolds, whose values must come to be the server's |
//! | `heard` | keyspace notifications, as a subscriber of each side hears them |
//! | `later` | commands of later servers, and what they are to answer where the plain server hasn't got them |
//! | `slots` | the slots that a command names |
//! | `generate` | epochs: commands in pipelines and transactions, a second connection that interferes |
//! | `oracle` | what the plain side is asked where keyfold does more than a node |
//! | `replay` | plays an epoch on both sides |
//! | `stage` | starts both sides |
//! | `moving` | namespaces that are on the move, and keys in their old places |
//! | `script_queue` | commands beside scripts in a transaction |
//! | `script_text` | random Lua scripts on declared keys |
//! | `scripts` | calls them on both sides |
//! | `shrink` | finds the operations that a difference takes |
//!
//! A seed makes the same operations every time, whatever the servers answer. What need not be the same byte
//! for byte is known to [`crate::compare::KNOWN`] alone.

mod arguments;
mod behind;
mod cached;
mod collections;
mod commands;
mod generate;
mod grammar;
mod heard;
mod in_script;
mod keys;
mod later;
mod moving;
mod oracle;
mod replay;
mod script_queue;
mod script_text;
mod scripts;
mod shrink;
mod slots;
mod stage;

use std::fmt;
use std::time::Duration;

use arguments::Payloads;
use generate::{FieldsExpire, Generator, Op, Trial};
use keys::{group_of_collections, groups};
use later::Later;
use replay::{Mismatch, Replay};

use crate::servers::Binary;
use crate::sides::{Sides, shown};
use crate::wire::{Wire, WireError};

pub use behind::Behind;
pub use cached::{
    CACHED_LAYOUT, CODED_CACHED_LAYOUT, CacheFailure, CacheOptions, CacheSides, CachesAgreed, Stale, Telling,
    run_caches,
};
pub use collections::COLLECTIONS_LAYOUT;
pub use keys::{CLUSTER_LAYOUT, CODED_CLUSTER_LAYOUT};
pub use moving::{Former, Way};
pub use scripts::{CalledAs, ScriptDifference, ScriptFailure, ScriptOptions, run_scripts};
pub use stage::{CacheStage, Stage, StageError};

/// Operations between one emptying of the servers and the next.
const EPOCH: usize = 2000;
/// How long a reply may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a reply may take while it is shrunk.
const SHRINK_TIMEOUT: Duration = Duration::from_secs(2);
/// How long shrinking may take.
const SHRINK_WITHIN: Duration = Duration::from_secs(60);
/// Commands before a difference that are told.
const TOLD: usize = 30;

/// Which protocols connections speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// RESP2 only.
    Resp2,
    /// RESP3 only.
    Resp3,
    /// Either, and switches between them.
    Both,
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// About how many commands.
    pub commands: u64,
    /// The same seed makes the same commands.
    pub seed: u64,
    /// Which protocols.
    pub protocols: Protocols,
    /// What the two sides are.
    pub behind: Behind,
    /// The servers are later than Redis 7.0, whose bounds of encodings folded keys have: those are not compared.
    pub later: bool,
    /// Compares keyspace notifications of folded keys too.
    pub notifications: bool,
    /// Sets and hashes in place of strings.
    pub collections: bool,
    /// Half of the commands on them by scripts of one command each.
    pub in_scripts: bool,
    /// The subject is a keyfold, which has commands of later servers than the one behind it.
    pub is_keyfold: bool,
}

/// The version whose bounds of encodings folded keys have.
const LIKE: &str = "redis 7.0";

/// Whether a server is later than the version whose bounds of encodings folded keys have ([`Options::later`]).
pub fn is_later(binary: &Binary) -> bool {
    !binary.name().starts_with(LIKE)
}

impl Default for Options {
    fn default() -> Self {
        Self {
            commands: 100_000,
            seed: 1,
            protocols: Protocols::Both,
            behind: Behind::Server,
            later: false,
            notifications: false,
            collections: false,
            in_scripts: false,
            is_keyfold: true,
        }
    }
}

/// How a run ended that found no difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Commands that were compared.
    pub commands: u64,
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The two sides answered differently.
    #[error(transparent)]
    Difference(Box<Difference>),
    /// One of them can't be reached.
    #[error("cannot connect: {0}")]
    Connection(#[from] WireError),
}

/// The first difference of a run.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Difference {
    /// The run's seed.
    pub seed: u64,
    /// How many commands had agreed.
    pub agreed: u64,
    /// The last commands, as redis-cli takes them; the one that differs last.
    pub last: Vec<String>,
    /// The plain server's reply, escaped.
    pub plain: String,
    /// The subject's.
    pub subject: String,
    /// What the keys of the command hold on the plain server, and on the subject.
    pub keys: Vec<String>,
    /// The few commands that it takes, from empty servers on.
    pub least: Vec<String>,
    /// What the plain server answers to the last of them.
    pub least_plain: String,
    /// What the subject answers.
    pub least_subject: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}, after {} commands that agreed; the last:", self.seed, self.agreed)?;
        for line in &self.last {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "  plain:   {}\n  subject: {}", self.plain, self.subject)?;
        for line in &self.keys {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "shrunk to {} from empty servers on:", self.least.len())?;
        for line in &self.least {
            writeln!(f, "    {line}")?;
        }
        write!(f, "  plain:   {}\n  subject: {}", self.least_plain, self.least_subject)
    }
}

/// Runs random commands on both sides until there are enough or one differs. Both are emptied. `progress` is
/// told now and then how many were compared.
///
/// # Errors
/// The first difference, or a side that can't be reached.
pub fn run(sides: Sides, options: &Options, mut progress: impl FnMut(u64)) -> Result<Agreed, Failure> {
    let folded: Vec<_> = match options.collections {
        true => folded_of_collections(),
        false => groups(options.behind).into_iter().flat_map(|group| group.folded).collect(),
    };
    let heard = options.notifications.then(|| folded.iter().cloned().collect());
    let later = Later::ask(&mut Wire::connect(sides.plain)?, folded)?;
    let payloads = payloads(sides)?;
    let trial = Trial {
        behind: options.behind,
        protocols: options.protocols,
        later: later.clone(),
        payloads,
        is_keyfold: options.is_keyfold,
        collections: options.collections.then(|| fields_expire(sides)).transpose()?,
        in_scripts: options.in_scripts,
    };
    let mut generator = Generator::new(options.seed, trial);
    let keys = generator.keys();
    let replay = Replay {
        sides,
        keys: &keys,
        new_commands: &later,
        behind: options.behind,
        later: options.later,
        heard: heard.as_ref(),
    };
    let mut commands = 0;
    while commands < options.commands {
        let ops = generator.epoch(EPOCH.min(usize::try_from(options.commands).unwrap_or(EPOCH)));
        if let Some(mismatch) = replay.play(&ops, TIMEOUT)? {
            let agreed = commands + mismatch.index as u64;
            return Err(Failure::Difference(Box::new(report(&replay, options.seed, agreed, &ops, &mismatch))));
        }
        commands += ops.len() as u64;
        progress(commands);
    }
    Ok(Agreed { commands })
}

fn report(replay: &Replay<'_>, seed: u64, agreed: u64, ops: &[Op], mismatch: &Mismatch) -> Difference {
    let state = key_states(replay.sides, &ops[mismatch.index], replay.keys);
    let (least, least_mismatch) =
        shrink::shrink(ops, mismatch, SHRINK_WITHIN, |ops| replay.play(ops, SHRINK_TIMEOUT).ok().flatten());
    let last = &ops[(mismatch.index + 1).saturating_sub(TOLD)..=mismatch.index];
    Difference {
        seed,
        agreed,
        last: last.iter().map(cli_line).collect(),
        plain: mismatch.plain.clone(),
        subject: mismatch.subject.clone(),
        keys: state,
        least: least.iter().map(cli_line).collect(),
        least_plain: least_mismatch.plain,
        least_subject: least_mismatch.subject,
    }
}

/// What each side holds now under the keys that a command names. Commands that came after it in its pipeline
/// have run, too.
fn key_states(sides: Sides, op: &Op, keys: &[Vec<u8>]) -> Vec<String> {
    let Ok(mut link) = sides.connect(SHRINK_TIMEOUT) else { return Vec::new() };
    let mut lines = Vec::new();
    for key in keys.iter().filter(|key| op.args[1..].contains(key)) {
        for command in ["TYPE", "GET", "PTTL", "SMEMBERS", "HGETALL"] {
            let replies = link.call(&[command.as_bytes().to_vec(), key.clone()]);
            let [plain, subject] = [&replies[0], &replies[1]].map(shown);
            lines.push(format!("{command} {}: plain {plain}, subject {subject}", key.escape_ascii()));
        }
    }
    lines
}

/// A command as redis-cli takes it, and what is to be known about when it was sent.
fn cli_line(op: &Op) -> String {
    let words: Vec<String> = op.args.iter().map(|arg| cli_word(arg)).collect();
    let mut line = words.join(" ");
    if op.second {
        line = format!("(second connection) {line}");
    }
    if op.wait_ms > 0 {
        line = format!("{line}   (and wait {} ms)", op.wait_ms);
    } else if !op.read {
        line.push_str("   (pipelined with the next)");
    }
    line
}

fn cli_word(arg: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-:.*?/=+#,".contains(byte);
    if !arg.is_empty() && arg.iter().all(plain) {
        return String::from_utf8_lossy(arg).into_owned();
    }
    // redis-cli takes these escapes, and a single quote as it is.
    format!("\"{}\"", arg.escape_ascii().to_string().replace("\\'", "'"))
}

/// The keys of collections that keyfold has in buckets.
fn folded_of_collections() -> Vec<Vec<u8>> {
    let keys::Group { folded, sets, hashes, .. } = group_of_collections();
    let is_folded = |key: &Vec<u8>| !key.starts_with(b"set:") && !key.starts_with(b"hash:");
    [folded, sets, hashes].concat().into_iter().filter(is_folded).collect()
}

/// Whether the plain server has fields that expire.
fn fields_expire(sides: Sides) -> Result<FieldsExpire, WireError> {
    let reply = Wire::connect(sides.plain)?.call(&[b"HPTTL", b"none", b"FIELDS", b"1", b"f"])?;
    Ok(FieldsExpire(!reply.starts_with(b"-ERR unknown command")))
}

/// What DUMP answers on the plain server for strings of every encoding, and for sets and hashes.
fn payloads(sides: Sides) -> Result<Payloads, WireError> {
    let mut wire = Wire::connect(sides.plain)?;
    let long = b"abcabcabd".repeat(40);
    let values: [&[u8]; 7] = [b"", b"12", b"-40000", b"9223372036854775807", b"text", b"\x00\x01\xff", &long];
    let mut payloads = Vec::new();
    for value in values {
        wire.call(&[b"SET", b"payload", value])?;
        payloads.extend(wire.ask(&[b"DUMP", b"payload"])?.bytes().map(<[u8]>::to_vec));
    }
    let mut made = |commands: &[&[&[u8]]]| {
        wire.call(&[b"DEL", b"payload"])?;
        commands.iter().try_for_each(|command| wire.call(command).map(drop))?;
        Ok::<_, WireError>(wire.ask(&[b"DUMP", b"payload"])?.bytes().unwrap_or_default().to_vec())
    };
    let sets = vec![
        made(&[&[b"SADD", b"payload", b"1", b"2", b"70000"]])?,
        made(&[&[b"SADD", b"payload", b"a", b"007", b"7", b"\0"]])?,
        made(&[&[b"SADD", b"payload", &long]])?,
    ];
    let hashes = vec![
        made(&[&[b"HSET", b"payload", b"f", b"v", b"7", b"7"]])?,
        made(&[&[b"HSET", b"payload", b"f", &long, b"", b""]])?,
    ];
    Ok(Payloads { strings: payloads, sets, hashes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_makes_the_same_operations() {
        for behind in Behind::ALL {
            for collections in [None, Some(FieldsExpire(true))] {
                let (protocols, later, payloads) = (Protocols::Both, Later::default(), Payloads::default());
                let trial =
                    Trial { behind, protocols, later, payloads, is_keyfold: true, collections, in_scripts: false };
                let epoch = |seed| Generator::new(seed, trial.clone()).epoch(500);
                assert_eq!(epoch(5), epoch(5));
                assert_ne!(epoch(5), epoch(6));
            }
        }
    }

    #[test]
    fn lines_are_as_redis_cli_takes_them() {
        let op =
            Op { read: true, ..Op::new(vec![b"SET".to_vec(), b"user:1:logins".to_vec(), b"\x00 'a\"\r".to_vec()]) };
        assert_eq!(cli_line(&op), r#"SET user:1:logins "\x00 'a\"\r""#);
    }
}
