//! The sweep: removes what has expired from buckets, and retires spilled values that nothing points to.
//!
//! It walks one database by SCAN, a batch at a time; whoever drives it sends each batch, feeds the replies
//! and rests in between. Nothing depends on it but memory: expired values read as absent all the same. It
//! may stop anywhere, run twice, or run on two machines at once.
//!
//! - An expired field is removed only if it still holds the expired value, by compare-and-set.
//! - A spilled value is written together with the field that points to it, under a nonce that is never used
//!   again: once nothing points to it, nothing ever will.

use crate::exchange::{CompareAndSet, Env, RETIRE_MS};
use crate::frame::{Body, Frame};
use crate::layout::{Layout, NamespaceIndex, Physical, Place, PlaceKind, spill_name};
use crate::resp::{Reply, write_command};

/// Physical names asked for in one step of SCAN.
const NAMES_AT_ONCE: &[u8] = b"200";

/// Buckets and spilled values looked at in one batch.
const KEYS_AT_ONCE: usize = 64;

/// What a sweep has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Fields looked at.
    pub fields: u64,
    /// Expired fields found.
    pub expired: u64,
    /// Spilled values found that nothing points to.
    pub orphans: u64,
}

/// A physical key to look at.
#[derive(Clone, Debug)]
enum Suspect {
    Bucket { namespace: NamespaceIndex, name: Vec<u8> },
    Spill { nonce: u64, name: Vec<u8>, physical: Vec<u8>, field: Vec<u8> },
}

/// What the replies to the batch that was sent last are.
#[derive(Debug)]
enum Sent {
    Names,
    Suspects(Vec<Suspect>),
    Removals,
}

/// A walk over one database.
#[derive(Debug)]
pub struct Sweep {
    /// Where SCAN goes on; none once it is around.
    cursor: Option<Vec<u8>>,
    suspects: Vec<Suspect>,
    removals: Vec<Vec<u8>>,
    sent: Sent,
    swept: Swept,
}

impl Default for Sweep {
    fn default() -> Self {
        let (suspects, removals) = (Vec::new(), Vec::new());
        Self { cursor: Some(b"0".to_vec()), suspects, removals, sent: Sent::Removals, swept: Swept::default() }
    }
}

impl Sweep {
    /// What it has done so far.
    pub fn swept(&self) -> Swept {
        self.swept
    }

    /// Writes the next batch of commands; how many replies they have, none at the end of the walk.
    pub fn next(&mut self, wire: &mut Vec<u8>) -> Option<usize> {
        if !self.removals.is_empty() {
            let removals = std::mem::take(&mut self.removals);
            self.sent = Sent::Removals;
            CompareAndSet::send_load(wire);
            wire.extend(removals.iter().flatten());
            return Some(removals.len() + 1);
        }
        if !self.suspects.is_empty() {
            let rest = self.suspects.len().saturating_sub(KEYS_AT_ONCE);
            let suspects = self.suspects.split_off(rest);
            for suspect in &suspects {
                match suspect {
                    Suspect::Bucket { name, .. } => write_command(wire, &[b"HGETALL", name]),
                    Suspect::Spill { physical, field, .. } => write_command(wire, &[b"HGET", physical, field]),
                }
            }
            let replies = suspects.len();
            self.sent = Sent::Suspects(suspects);
            return Some(replies);
        }
        let cursor = self.cursor.as_ref()?;
        write_command(wire, &[b"SCAN", cursor, b"MATCH", b"~*", b"COUNT", NAMES_AT_ONCE]);
        self.sent = Sent::Names;
        Some(1)
    }

    /// Takes the replies to the last batch, in RESP2.
    ///
    /// # Errors
    /// What the server said instead, where it couldn't be asked; the walk may be begun anew.
    pub fn handle_replies(&mut self, replies: &[Vec<u8>], env: &Env<'_>) -> Result<(), String> {
        let sent = std::mem::replace(&mut self.sent, Sent::Removals);
        for (index, raw) in replies.iter().enumerate() {
            let reply = Reply::parse(raw).map_err(|error| error.to_string())?;
            match (&sent, reply) {
                // What was changed meanwhile stays, and is looked at again the next time round.
                (Sent::Removals, _) => {}
                (_, Reply::Error(error)) => return Err(String::from_utf8_lossy(error).into_owned()),
                (Sent::Names, reply) => self.take_names(reply, env),
                (Sent::Suspects(suspects), reply) => match &suspects[index] {
                    Suspect::Bucket { namespace, name } => self.take_bucket(*namespace, name, reply, env),
                    Suspect::Spill { nonce, name, .. } => self.take_owner(*nonce, name, reply),
                },
            }
        }
        Ok(())
    }

    fn take_names(&mut self, reply: Reply<'_>, env: &Env<'_>) {
        let Reply::Array(mut parts) = reply else { return };
        let cursor = parts.next().and_then(Reply::bytes).unwrap_or(b"0");
        self.cursor = (cursor != b"0").then(|| cursor.to_vec());
        let Some(Reply::Array(names)) = parts.next() else { return };
        for name in names.filter_map(Reply::bytes) {
            match env.layout.read_physical(name) {
                Physical::Bucket(namespace) => self.suspects.push(Suspect::Bucket { namespace, name: name.to_vec() }),
                Physical::Spill { namespace, nonce, key } => {
                    env.stats.namespace(namespace).note_spilled();
                    // A spilled value belongs where its key lies; one whose key lies elsewhere isn't ours to judge.
                    let beside =
                        |place: &Place| Some(place.id) == Layout::id_in(name) && place.kind == PlaceKind::Bucket;
                    if let Some(place) = env.layout.places(key).find(beside) {
                        let (physical, field) = (place.physical.to_vec(), place.field.to_vec());
                        self.suspects.push(Suspect::Spill { nonce, name: name.to_vec(), physical, field });
                    }
                }
                _ => {}
            }
        }
    }

    fn take_bucket(&mut self, namespace: NamespaceIndex, bucket: &[u8], reply: Reply<'_>, env: &Env<'_>) {
        let Reply::Array(mut fields) = reply else { return };
        while let (Some(Reply::Bulk(field)), Some(Reply::Bulk(stored))) = (fields.next(), fields.next()) {
            self.swept.fields += 1;
            let Ok(frame) = Frame::decode(stored) else { continue };
            if !frame.expired(env.now_ms) {
                continue;
            }
            self.swept.expired += 1;
            let mut removal = CompareAndSet::default();
            removal.check(&[b"HGET", bucket, field], Some(stored));
            removal.write(&[b"HDEL", bucket, field]);
            if let Body::Spill { nonce, .. } = frame.body
                && let Some(key) = env.layout.key_of(namespace, bucket, field)
                && let Some(id) = Layout::id_in(bucket)
            {
                removal.write(&[b"UNLINK", &spill_name(id, nonce, &key)]);
            }
            let mut command = Vec::new();
            removal.send(&mut command);
            self.removals.push(command);
        }
    }

    fn take_owner(&mut self, nonce: u64, name: &[u8], reply: Reply<'_>) {
        self.swept.fields += 1;
        let points_here = reply
            .bytes()
            .and_then(|stored| Frame::decode(stored).ok())
            .is_some_and(|frame| frame.body.points_to(nonce));
        if !points_here {
            self.swept.orphans += 1;
            let mut command = Vec::new();
            write_command(&mut command, &[b"PEXPIRE", name, RETIRE_MS]);
            self.removals.push(command);
        }
    }
}
