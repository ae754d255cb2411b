//! Keyspace notifications of folded keys, as a subscriber of each side hears them.
//!
//! Compared is, key by key, the sequence of events on the channels of keys, and that on the channels of events. That a key has
//! expired is told when it is removed, which is at another time on each side: of these it is counted how many there were.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use super::generate::Op;
use crate::reply::Value;
use crate::sides::Sides;
use crate::wire::{Wire, WireError};

/// What servers are asked to publish. Beside `A` Redis 7.0 doesn't say that it has `n` too.
const SETTING: &[u8] = b"KEg$shxn";
/// Behind all that was published before.
const FENCE: &[u8] = b"differential:fence";
/// How long it may take until a key that has expired is removed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks whether it is.
const PAUSE: Duration = Duration::from_millis(5);

/// Of each key and database, and of both kinds of channels, which events there were.
type Events = BTreeMap<Vec<u8>, Vec<Vec<u8>>>;

/// One side's subscriber, and who speaks to it.
struct Ear {
    speaker: Wire,
    listener: Wire,
    events: Events,
    expired: BTreeMap<Vec<u8>, u64>,
}

/// Subscribers of both sides.
pub(super) struct Ears {
    ears: [Ear; 2],
    fences: u64,
    folded: BTreeSet<Vec<u8>>,
}

impl Ears {
    /// Has both sides publish what happens to keys, and subscribes; at the subject in this protocol.
    pub(super) fn open(sides: Sides, protocol: &[u8], folded: BTreeSet<Vec<u8>>) -> Result<Self, WireError> {
        let ears = [Ear::open(sides.plain, b"2")?, Ear::open(sides.subject, protocol)?];
        Ok(Self { ears, fences: 0, folded })
    }

    /// What both have heard of the last commands, where that differs, for a person.
    pub(super) fn compare(&mut self) -> Result<Option<[String; 2]>, WireError> {
        self.listen()?;
        let [plain, subject] = &mut self.ears;
        let [plain, subject] = [plain, subject].map(|ear| std::mem::take(&mut ear.events));
        Ok((plain != subject).then(|| {
            let different = |one: &Events, other: &Events| {
                let lines = one.iter().filter(|(name, events)| other.get(*name) != Some(events));
                let lines =
                    lines.map(|(name, events)| format!("{}: {}", name.escape_ascii(), events.concat().escape_ascii()));
                lines.collect::<Vec<_>>().join("; ")
            };
            [different(&plain, &subject), different(&subject, &plain)]
        }))
    }

    /// Waits until a key that may have expired has been removed on both sides, if on one; what each has heard of that, where
    /// it differs.
    pub(super) fn compare_expired(&mut self, op: &Op) -> Result<Option<[String; 2]>, WireError> {
        let since = Instant::now();
        loop {
            // The plain server removes a key when somebody looks at it.
            let look: [&[u8]; 2] = [b"EXISTS", &op.args[1]];
            for database in [&b"1"[..], b"0"] {
                self.ears[0].speaker.call(&[b"SELECT", database])?;
                self.ears[0].speaker.call(&look)?;
            }
            self.listen()?;
            let [plain, subject] = &self.ears;
            if plain.expired == subject.expired {
                return Ok(None);
            }
            if since.elapsed() > PATIENCE {
                return Ok(Some([plain, subject].map(|ear| format!("expired: {:?}", ear.expired_shown()))));
            }
            thread::sleep(PAUSE);
        }
    }

    /// Hears all that was published until now.
    fn listen(&mut self) -> Result<(), WireError> {
        self.fences += 1;
        let fence = self.fences.to_string();
        for ear in &mut self.ears {
            ear.speaker.call(&[b"PUBLISH", FENCE, fence.as_bytes()])?;
            ear.listen_until(fence.as_bytes(), &self.folded)?;
        }
        Ok(())
    }
}

impl Ear {
    fn open(address: std::net::SocketAddr, protocol: &[u8]) -> Result<Self, WireError> {
        let (mut speaker, mut listener) = (Wire::connect(address)?, Wire::connect(address)?);
        speaker.call(&[b"CONFIG", b"SET", b"notify-keyspace-events", SETTING])?;
        listener.call(&[b"HELLO", protocol])?;
        listener.call(&[b"PSUBSCRIBE", b"__key*__:*"])?;
        listener.call(&[b"SUBSCRIBE", FENCE])?;
        Ok(Self { speaker, listener, events: Events::new(), expired: BTreeMap::new() })
    }

    fn listen_until(&mut self, fence: &[u8], folded: &BTreeSet<Vec<u8>>) -> Result<(), WireError> {
        loop {
            let message = Value::parse(&self.listener.reply()?)?;
            let (Value::Array(parts) | Value::Push(parts)) = &message else { continue };
            let parts: Vec<&[u8]> = parts.iter().filter_map(Value::bytes).collect();
            match parts[..] {
                [b"message", _, said] if said == fence => return Ok(()),
                [b"pmessage", _, channel, said] => self.note(channel, said, folded),
                _ => {}
            }
        }
    }

    fn note(&mut self, channel: &[u8], said: &[u8], folded: &BTreeSet<Vec<u8>>) {
        let Some(at) = channel.windows(3).position(|three| three == b"__:") else { return };
        let (kind, name) = (&channel[..at], &channel[at + 3..]);
        let (key, event) = if kind.starts_with(b"__keyspace@") { (name, said) } else { (said, name) };
        // What isn't said of a folded key by its name is a bucket's, which nobody is to hear, or a plain key's.
        let is_inner = key.first() == Some(&b'~') || key.starts_with(b"keyfold:");
        if !folded.contains(key) && !is_inner {
            return;
        }
        let whose = [kind, b" ", key].concat();
        if event == b"expired" {
            *self.expired.entry(whose).or_default() += 1;
        } else {
            self.events.entry(whose).or_default().push([b" ", event].concat());
        }
    }

    fn expired_shown(&self) -> Vec<String> {
        self.expired.iter().map(|(key, count)| format!("{} {count}", key.escape_ascii())).collect()
    }
}
