//! What a script has written, in a namespace that writes by a codec: a script can't encode, so it is written once more.
//!
//! Nothing depends on it. A value that no codec wrote is as good in such a namespace as one that a codec did, and only takes
//! more room: so where another client has changed it meanwhile, or the server takes no writes, it stays as it is.

use crate::exchange::Env;
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::reply_kind::Refusal;
use crate::exchange::script::CompareAndSet;
use crate::exchange::store;
use crate::resp::Reply;

/// Keys whose values are being encoded.
#[derive(Debug)]
pub(crate) struct Recode {
    load: Load,
    writes: Option<CompareAndSet>,
}

/// How it goes on after a reply.
#[derive(Debug)]
pub(crate) enum Recoded {
    /// More replies are to come.
    Wait,
    /// More commands were written, with so many replies.
    More(u32),
    /// It has ended.
    Done,
    /// The reply can't be trusted.
    Unexpected,
}

impl Recode {
    /// Begins to read those of the keys whose values are written by a codec, with the number of replies to come; none where
    /// there are none.
    pub(crate) fn start<'k>(
        keys: impl Iterator<Item = &'k [u8]>,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Option<(Self, u32)> {
        let is_coded = |key: &&[u8]| {
            let namespace = env.layout.locate(key).namespace();
            namespace.is_some_and(|index| env.layout.namespace(index).codecs.written().is_some())
        };
        let mut load = Load::new(env, keys.filter(is_coded)).apart();
        if load.keys().is_empty() {
            return None;
        }
        let replies = load.send(wire);
        Some((Self { load, writes: None }, replies))
    }

    /// Takes the next reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, wire: &mut Vec<u8>) -> Recoded {
        if let Some(writes) = &self.writes {
            return match Reply::parse(reply) {
                Ok(Reply::Error(error)) if error.starts_with(b"NOSCRIPT") => {
                    writes.send_with_text(wire);
                    Recoded::More(1)
                }
                Ok(Reply::Integer(_) | Reply::Error(_)) => Recoded::Done,
                _ => Recoded::Unexpected,
            };
        }
        match self.load.handle_reply(reply, env, wire) {
            Loading::Wait => Recoded::Wait,
            Loading::More(replies) => Recoded::More(replies),
            Loading::Failed(Refusal::Error(_)) => Recoded::Done,
            Loading::Failed(Refusal::Unexpected) => Recoded::Unexpected,
            Loading::Ready => match self.plan(env) {
                Some(writes) => {
                    writes.send(wire);
                    self.writes = Some(writes);
                    Recoded::More(1)
                }
                None => Recoded::Done,
            },
        }
    }

    /// What is to be written; none where all is well.
    fn plan(&self, env: &mut Env<'_>) -> Option<CompareAndSet> {
        let mut writes = CompareAndSet::default();
        let mut written = Vec::new();
        for key in self.load.keys() {
            let (Ok(held), true) = (key.held(), is_uncoded(key, env)) else { continue };
            store::plan_write(env, &mut writes, key, &held).ok()?;
            written.push(key.clone());
        }
        store::check_all(&mut writes, &written, env.now_ms);
        Some(writes).filter(|writes| !writes.is_empty())
    }
}

/// Whether a value lies where it is written to, and no codec wrote it though one would now.
fn is_uncoded(key: &Key, env: &Env<'_>) -> bool {
    let [here, ..] = key.spots() else { return false };
    let (Some(place), Ok(held)) = (&here.place, key.held()) else { return false };
    let Some((value, _)) = store::value_of(&held) else { return false };
    let namespace = env.layout.namespace(place.namespace);
    here.is_stored() && here.strange().is_none() && !here.is_stored_as_written_now(namespace, &key.logical, &value)
}
