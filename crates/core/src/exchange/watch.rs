//! WATCH, and what is remembered of it.
//!
//! A key of its own is the server's to watch. A bucket changes more often than a key in it, and that a field expires no
//! server notices; so of keys in buckets it is remembered what they held, as a sum: a transaction whose watch was broken
//! by another key of the bucket goes on. Values are as long as clients like, and sums are sixteen bytes.

use std::collections::{BTreeMap, BTreeSet};

use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::sum::Sum;
use crate::exchange::{Effect, Env, Io, Refusal, Step};
use crate::layout::Epoch;
use crate::resp::write_command;

/// What WATCH found under keys.
#[derive(Debug)]
pub struct Watched {
    /// By the client's name of it, and the database where it was watched.
    keys: BTreeMap<(Vec<u8>, u32), WatchedKey>,
    /// The layout that said where they lie.
    epoch: Epoch,
}

#[derive(Debug)]
struct WatchedKey {
    /// What it held; none for one that lies in no bucket, or couldn't be read.
    sum: Option<Sum>,
    /// When its field expires, or the first field of a hash, of those that hadn't when it was watched.
    expires_at_ms: Option<i64>,
}

impl Watched {
    /// The same, found in this database.
    pub(crate) fn in_database(self, database: u32) -> Self {
        let keys = self.keys.into_iter().map(|((logical, _), key)| ((logical, database), key));
        Self { keys: keys.collect(), ..self }
    }

    /// A transaction begins in this database. Keys that were watched in another can't be looked at from there: whatever
    /// the server notices may have been one of them.
    pub(crate) fn begin_in(&mut self, database: u32) {
        self.keys.iter_mut().filter(|((_, other), _)| *other != database).for_each(|(_, key)| key.sum = None);
    }

    /// Adds what another WATCH found. Of a key that is watched already, the server goes on by what it held then, too.
    pub(crate) fn add(&mut self, other: Self) {
        for (name, key) in other.keys {
            self.keys.entry(name).or_insert(key);
        }
    }

    /// Whether something happened to a key that the server can't have noticed: it has expired, or belongs
    /// elsewhere by now.
    pub(crate) fn is_broken(&self, env: &Env<'_>) -> bool {
        let expired = |key: &WatchedKey| key.expires_at_ms.is_some_and(|at| at < env.now_ms);
        self.epoch != env.layout.epoch() || self.keys.values().any(expired)
    }

    /// When the watch is broken by an expiry that no server notices.
    pub(crate) fn expires_at_ms(&self) -> Option<i64> {
        self.keys.values().filter_map(|key| key.expires_at_ms).min()
    }

    /// Whether every watched key has a sum: then a change that the server noticed may be of another key of its bucket.
    pub(crate) fn may_be_others(&self) -> bool {
        self.keys.values().all(|key| key.sum.is_some())
    }

    /// The keys, as the client named them.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.keys.keys().map(|(logical, _)| logical.as_slice())
    }

    /// Whether one of the keys holds something else than it did, by what was read of them at `now_ms`.
    pub(crate) fn differs_from(&self, now: &[Key], now_ms: i64) -> bool {
        let now: BTreeMap<&[u8], &Key> = now.iter().map(|key| (key.logical.as_slice(), key)).collect();
        self.keys.iter().any(|((logical, _), key)| {
            let now = now.get(logical.as_slice()).copied();
            key.sum.is_none() || now.and_then(|now| now.sum(now_ms)) != key.sum
        })
    }
}

/// WATCH: the physical keys, and what lies under those that are in buckets.
#[derive(Debug)]
pub(crate) struct Watch {
    load: Load,
    answer: Option<Vec<u8>>,
}

impl Watch {
    /// Sends WATCH; it has one reply.
    pub(crate) fn start(keys: &[&[u8]], env: &Env<'_>, wire: &mut Vec<u8>) -> Self {
        let load = Load::for_watch(env, keys.iter().copied());
        let physical = load.keys().iter().flat_map(Key::physicals).collect::<BTreeSet<_>>();
        let mut args: Vec<&[u8]> = vec![b"WATCH"];
        args.extend(physical);
        write_command(wire, &args);
        Self { load, answer: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let loading = if self.answer.is_none() {
            if reply.starts_with(b"-") {
                // What was watched before is watched still.
                io.answer.extend_from_slice(reply);
                return Step::Done(Effect::None);
            }
            if reply != b"+OK\r\n" {
                return Step::Unexpected;
            }
            self.answer = Some(reply.to_vec());
            match self.load.send(io.wire) {
                0 => Loading::Ready,
                replies => Loading::More(replies),
            }
        } else {
            self.load.handle_reply(reply, env, io.wire)
        };
        let is_read = match loading {
            Loading::Wait => return Step::Wait,
            Loading::More(replies) => return Step::More(replies),
            Loading::Ready => true,
            Loading::Failed(Refusal::Unexpected) => return Step::Unexpected,
            Loading::Failed(Refusal::Error(_)) => false,
        };
        io.answer.extend(self.answer.take().unwrap_or_default());
        let watched = |key: &Key| {
            let sum = key.sum(env.now_ms).filter(|_| is_read);
            let expires_at_ms = key.expiries().filter(|at| *at >= env.now_ms).min();
            ((key.logical.clone(), 0), WatchedKey { sum, expires_at_ms })
        };
        let keys = self.load.keys().iter().map(watched).collect();
        Step::Done(Effect::Watching(Watched { keys, epoch: env.layout.epoch() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Context;
    use crate::exchange::ServerInfo;
    use crate::frame::Body;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn bulk(bytes: &[u8]) -> Vec<u8> {
        [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
    }

    fn layout() -> crate::layout::Layout {
        crate::layout::Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap()
    }

    /// What a WATCH at this time finds, where the key's field is told so.
    fn watched(context: &Context<'_>, key: &[u8], reply: &[u8], now_ms: i64) -> Watched {
        let nonces = &mut || 7;
        let (env, mut wire, mut answer) = (context.env(now_ms, nonces), Vec::new(), Vec::new());
        let mut watch = Watch::start(&[key], &env, &mut wire);
        let io = &mut Io { wire: &mut wire, answer: &mut answer };
        assert!(matches!(watch.handle_reply(b"+OK\r\n", &env, io), Step::More(1)));
        let Step::Done(Effect::Watching(watched)) = watch.handle_reply(reply, &env, io) else {
            panic!("it watches");
        };
        watched
    }

    /// A value that expires then, as a server tells it.
    fn expiring(expires_at_ms: i64) -> Vec<u8> {
        let mut stored = Vec::new();
        Body::Raw(b"v").encode(Some(expires_at_ms), &mut stored);
        bulk(&stored)
    }

    #[test]
    fn what_had_expired_may_go_and_what_expires_since_may_not() {
        let layout = layout();
        let context = Context::without_data(&layout, ServerInfo::default());
        let nonces = &mut || 7;
        let (env, mut wire) = (context.env(NOW_MS, nonces), Vec::new());
        for (expires_at_ms, looked_at_ms, differs) in
            [(NOW_MS - 1, NOW_MS, false), (NOW_MS, NOW_MS + 1, true), (NOW_MS + 50, NOW_MS + 51, true)]
        {
            let stored = expiring(expires_at_ms);
            let watched = watched(&context, b"n:1", &stored, NOW_MS);
            for reply in [stored, b"$-1\r\n".to_vec()] {
                let mut now = Load::for_watch(&env, std::iter::once(&b"n:1"[..]));
                assert_eq!(now.send(&mut wire), 1);
                assert!(matches!(now.handle_reply(&reply, &env, &mut wire), Loading::Ready));
                assert_eq!(watched.differs_from(now.keys(), looked_at_ms), differs, "{expires_at_ms} {reply:?}");
            }
        }
    }

    #[test]
    fn a_key_that_is_watched_twice_is_remembered_once_as_it_was_first() {
        let layout = layout();
        let context = Context::without_data(&layout, ServerInfo::default());
        let mut both = watched(&context, b"n:1", b"$2\r\n1a\r\n", NOW_MS);
        both.add(watched(&context, b"n:1", b"$2\r\n1b\r\n", NOW_MS).in_database(0));
        assert_eq!(both.keys().len(), 1);
        let nonces = &mut || 7;
        let (env, mut wire) = (context.env(NOW_MS, nonces), Vec::new());
        for (reply, differs) in [(b"$2\r\n1a\r\n", false), (b"$2\r\n1b\r\n", true)] {
            let mut now = Load::for_watch(&env, std::iter::once(&b"n:1"[..]));
            assert_eq!(now.send(&mut wire), 1);
            assert!(matches!(now.handle_reply(reply, &env, &mut wire), Loading::Ready));
            assert_eq!(both.differs_from(now.keys(), NOW_MS), differs);
        }
        both.add(watched(&context, b"n:1", b"$2\r\n1a\r\n", NOW_MS).in_database(1));
        assert_eq!(both.keys().len(), 2);
    }

    #[test]
    fn what_had_expired_before_a_second_watch_breaks_nothing() {
        let layout = layout();
        let context = Context::without_data(&layout, ServerInfo::default());
        for (expires_at_ms, looked_at_ms, is_broken) in [(NOW_MS - 1, NOW_MS, false), (NOW_MS + 50, NOW_MS + 51, true)]
        {
            let mut both = watched(&context, b"n:1", b"$-1\r\n", NOW_MS - 1000);
            both.add(watched(&context, b"n:2", &expiring(expires_at_ms), NOW_MS));
            assert_eq!(both.is_broken(&context.env(looked_at_ms, &mut || 7)), is_broken, "{expires_at_ms}");
        }
    }
}
