//! Writes hashtables anew that needn't be any, while clients go on.
//!
//! ```text
//! WATCH key ▶ TYPE, OBJECT, PEXPIRETIME, DUMP ▶ MULTI, RESTORE key … REPLACE, EXEC ▶ OBJECT ENCODING
//! ```
//! RESTORE loads a hash as a listpack where the limits allow that. EXEC does nothing if anybody wrote to the
//! key since WATCH, and then all is begun again: no write is lost, and no reader ever sees the key absent.
//! The key's expiry is kept to the millisecond, and so is the age that eviction goes by.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use keyfold_core::resp::Reply;
use keyfold_server::Commands;
use keyfold_server::reply::{read, read_if};
use keyfold_server::time::Moment;

use super::patient::Patient;

/// A key that is written to all the time is left alone after so many tries.
const TRIES: u32 = 20;
/// Larger ones would hold the server up for more than a few milliseconds.
const UP_TO_BYTES: u64 = 1 << 20;

/// A hashtable within the limits.
pub(super) struct Candidate<'k> {
    pub(super) key: &'k [u8],
    pub(super) bytes: Option<u64>,
}

/// What came of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is a listpack now.
    Packed,
    /// It is a table as before.
    Left,
}

/// What came of all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rewriter {
    pub(super) packed: u64,
    pub(super) saved_bytes: u64,
    /// Written to all the time.
    pub(super) busy: u64,
    /// Too large to be moved without holding the server up.
    pub(super) too_large: u64,
    /// Tables after all: the server's limits are lower than it was said.
    pub(super) still_tables: u64,
    /// Tries that somebody's write made void.
    pub(super) conflicts: u64,
    /// The longest that one EXEC took, the way there and back included.
    pub(super) longest_pause: Duration,
}

/// A key as it was read, and where it goes again.
struct Copied {
    payload: Vec<u8>,
    /// Milliseconds since 1970; none where it stays for ever.
    expires_at_ms: Option<i64>,
    idle_seconds: Option<i64>,
    frequency: Option<i64>,
}

impl Rewriter {
    /// Writes one anew.
    pub(super) fn rewrite(&mut self, patient: &mut Patient, candidate: &Candidate<'_>) -> anyhow::Result<Outcome> {
        if candidate.bytes.is_some_and(|bytes| bytes > UP_TO_BYTES) {
            self.too_large += 1;
            return Ok(Outcome::Left);
        }
        for _ in 0..TRIES {
            let Some(copied) = copy(patient, candidate.key)? else {
                patient.server.ask::<()>(&[b"UNWATCH"])?;
                return Ok(Outcome::Left);
            };
            let began = Instant::now();
            let written = put(patient, candidate.key, &copied)?;
            self.longest_pause = self.longest_pause.max(began.elapsed());
            if written {
                return self.verify(patient, candidate.key);
            }
            self.conflicts += 1;
        }
        self.busy += 1;
        Ok(Outcome::Left)
    }

    /// So many bytes are saved by the one that was packed last.
    pub(super) fn note_saving(&mut self, bytes: u64) {
        self.saved_bytes += bytes;
    }

    fn verify(&mut self, patient: &mut Patient, key: &[u8]) -> anyhow::Result<Outcome> {
        let encoding = patient.ask(&[b"OBJECT", b"ENCODING", key])?;
        if read_if(&encoding).is_some_and(|encoding: String| encoding == "hashtable") {
            self.still_tables += 1;
            return Ok(Outcome::Left);
        }
        self.packed += 1;
        Ok(Outcome::Packed)
    }
}

/// Watches the key and reads it; none where it is no hashtable any more.
fn copy(patient: &mut Patient, key: &[u8]) -> anyhow::Result<Option<Copied>> {
    let knows_expiry_time = !patient.server.version().number.starts_with("6.");
    let mut commands = Commands::default();
    commands.push(&[b"WATCH", key]);
    commands.push(&[b"TYPE", key]);
    commands.push(&[b"OBJECT", b"ENCODING", key]);
    commands.push(&[b"OBJECT", b"IDLETIME", key]);
    commands.push(&[b"OBJECT", b"FREQ", key]);
    // Before 7.0 there is no PEXPIRETIME; the time and what is left of it are the next best.
    commands.push(&[if knows_expiry_time { b"PEXPIRETIME" } else { b"PTTL" }, key]);
    commands.push(&[b"TIME"]);
    commands.push(&[b"DUMP", key]);
    let replies = patient.ask_all(&commands)?;
    let [watched, kind, encoding, idle, frequency, expiry, time, payload] = replies.as_slice() else {
        return Err(anyhow!("the server answered less than it was asked"));
    };
    for reply in [watched, expiry, payload] {
        refuse_error(Reply::parse(reply)?)?;
    }
    let is = |reply: &[u8], wanted: &str| read_if(reply).is_some_and(|word: String| word == wanted);
    let is_table = is(kind, "hash") && is(encoding, "hashtable");
    let (Some(payload), true) = (read_if(payload), is_table) else { return Ok(None) };
    let expires_at_ms = match read_if(expiry) {
        Some(-1) => None,
        Some(at) if at >= 0 && knows_expiry_time => Some(at),
        Some(left) if left >= 0 => Some(read::<Moment>(time)?.0 + left),
        _ => return Ok(None),
    };
    Ok(Some(Copied { payload, expires_at_ms, idle_seconds: read_if(idle), frequency: read_if(frequency) }))
}

/// Puts the key back in place of itself, unless somebody wrote to it.
fn put(patient: &mut Patient, key: &[u8], copied: &Copied) -> anyhow::Result<bool> {
    let decimal = |number: i64| number.to_string().into_bytes();
    let expires_at = decimal(copied.expires_at_ms.unwrap_or(0));
    // Which of the two a server counts depends on its policy; it answers an error to the other.
    let age = match (copied.idle_seconds, copied.frequency) {
        (Some(seconds), _) => vec![b"IDLETIME".to_vec(), decimal(seconds)],
        (None, Some(frequency)) => vec![b"FREQ".to_vec(), decimal(frequency)],
        (None, None) => Vec::new(),
    };
    let mut restore: Vec<&[u8]> = vec![b"RESTORE", key, &expires_at, &copied.payload, b"REPLACE"];
    restore.extend(copied.expires_at_ms.map(|_| &b"ABSTTL"[..]));
    restore.extend(age.iter().map(Vec::as_slice));
    let mut transaction = Commands::default();
    transaction.push(&[b"MULTI"]);
    transaction.push(&restore);
    transaction.push(&[b"EXEC"]);
    // Whatever the pace: the sooner after WATCH, the fewer writes come in between.
    let replies = patient.server.ask_all(&transaction)?;
    patient.spend(transaction.len() as u64);
    let [_, queued, executed] = replies.as_slice() else {
        return Err(anyhow!("the server answered less than it was asked"));
    };
    refuse_error(Reply::parse(queued)?)?;
    match Reply::parse(executed)? {
        Reply::Nil => Ok(false),
        Reply::Array(mut results) => {
            results.try_for_each(refuse_error)?;
            Ok(true)
        }
        other => {
            refuse_error(other)?;
            Err(anyhow!("EXEC answered what it never does"))
        }
    }
}

fn refuse_error(reply: Reply<'_>) -> anyhow::Result<()> {
    match reply {
        Reply::Error(error) => {
            Err(anyhow!("a hash can't be written anew: {}; it is as it was", String::from_utf8_lossy(error)))
        }
        _ => Ok(()),
    }
}
