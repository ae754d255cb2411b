//! One command on both sides: on the server, with all that is to be compared around it, and on a space.

use std::collections::{BTreeMap, BTreeSet};

use keyfold_core::collection::{Collection, Field, Hash};
use keyfold_core::command::table;
use keyfold_core::dialect::Dialect;
use keyfold_core::resp::{Answer, Protocol, Reply};
use keyfold_core::string::{Call, Collected, Held, Space, finish};

use super::generate::{FIELDS, KEYS};
use crate::server::Connection;
use crate::strings::exchange::{ask_server, info_number, integer, time_ms};

/// What the server holds under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Nothing,
    /// The fields with their values and expiries (-1 never), and the key's expiry.
    Hash(BTreeMap<Vec<u8>, (Vec<u8>, i64)>, i64),
    Other(Vec<u8>),
}

/// What the server showed of a command.
pub(crate) struct Observed {
    /// The first and last millisecond the command may have seen.
    pub(crate) times_ms: std::ops::RangeInclusive<i64>,
    pub(crate) reply: Vec<u8>,
    /// Whether the server counted a change.
    pub(crate) wrote: bool,
    pub(crate) keys: Vec<Shown>,
    /// What it told of keys.
    pub(crate) events: Vec<(Vec<u8>, String)>,
}

/// The connections to a server.
pub(crate) struct Sides {
    pub(crate) connection: Connection,
    pub(crate) asks: Connection,
    pub(crate) events: Connection,
    /// Whether its fields can expire.
    pub(crate) with_expiry: bool,
}

fn words(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

impl Sides {
    /// Runs a command in a transaction that shows its time and its effects. None where it was refused before it was queued,
    /// with the reply.
    pub(crate) fn observe(&mut self, command: &[Vec<u8>], model: &Model) -> Result<Observed, Vec<u8>> {
        let fields = fields_of(command, model);
        let mut batch = vec![words(&[b"multi"])];
        // A server that removes what it finds expired does so now.
        let looks = model.volatile();
        batch.extend(looks.iter().cloned());
        batch.push(words(&[b"info", b"server", b"persistence"]));
        batch.push(words(&[b"publish", b"mark", b"begin"]));
        batch.push(command.to_vec());
        batch.push(words(&[b"publish", b"mark", b"end"]));
        batch.push(words(&[b"time"]));
        batch.push(words(&[b"info", b"persistence"]));
        for key in KEYS {
            batch.extend([words(&[b"type", key]), words(&[b"hgetall", key]), words(&[b"pexpiretime", key])]);
            if self.with_expiry {
                let count = fields.len().to_string();
                let mut command = words(&[b"hpexpiretime", key, b"fields", count.as_bytes()]);
                command.extend(fields.iter().cloned());
                batch.push(command);
            }
        }
        batch.push(words(&[b"exec"]));
        let replies = self.connection.run(&batch);
        let Ok(Reply::Array(mut parts)) = Reply::parse(replies.last().unwrap()) else {
            return Err(replies[looks.len() + 3].clone());
        };
        for _ in &looks {
            parts.next();
        }
        let text = |reply: Reply<'_>| String::from_utf8(reply.bytes().unwrap().to_vec()).unwrap();
        let before = text(parts.next().unwrap());
        parts.next();
        let reply = parts.next_raw().unwrap().to_vec();
        parts.next();
        let time = time_ms(parts.next().unwrap());
        let after = text(parts.next().unwrap());
        let keys = KEYS.map(|_| {
            let kind = parts.next().unwrap().bytes().unwrap().to_vec();
            let all = parts.next_raw().unwrap().to_vec();
            let expires_at_ms = integer(parts.next().unwrap());
            let expiries = if self.with_expiry { parts.next_raw().unwrap().to_vec() } else { Vec::new() };
            shown(kind, &all, expires_at_ms, &fields, &expiries)
        });
        let changes = |info: &str| info_number(info, "rdb_changes_since_last_save:");
        Ok(Observed {
            times_ms: info_number(&before, "server_time_usec:") / 1000..=time,
            reply,
            wrote: changes(&before) != changes(&after),
            keys: keys.into(),
            events: self.events_between_marks(),
        })
    }

    fn events_between_marks(&mut self) -> Vec<(Vec<u8>, String)> {
        let mut events = Vec::new();
        loop {
            let message = self.events.read_reply();
            let Ok(Reply::Array(parts)) = Reply::parse(&message) else { panic!("a message is an array") };
            let parts: Vec<Vec<u8>> = parts.map(|part| part.bytes().unwrap_or_default().to_vec()).collect();
            match parts.last().unwrap().as_slice() {
                b"begin" => events.clear(),
                b"end" => return events,
                key => {
                    let channel = String::from_utf8(parts[parts.len() - 2].clone()).unwrap();
                    events.push((key.to_vec(), channel.rsplit_once(':').unwrap().1.to_owned()));
                }
            }
        }
    }
}

/// Every field that the command or the model names.
fn fields_of(command: &[Vec<u8>], model: &Model) -> Vec<Vec<u8>> {
    let named = command.iter().cloned().chain(FIELDS.map(<[u8]>::to_vec));
    let held = model.hashes().flat_map(|(_, hash)| hash.iter().map(|(name, _)| name.to_vec()));
    named.chain(held).collect::<BTreeSet<_>>().into_iter().collect()
}

fn shown(kind: Vec<u8>, all: &[u8], expires_at_ms: i64, fields: &[Vec<u8>], expiries: &[u8]) -> Shown {
    if kind == b"none" {
        return Shown::Nothing;
    }
    let Ok(Reply::Array(all) | Reply::Map(all)) = Reply::parse(all) else { return Shown::Other(kind) };
    let all: Vec<Vec<u8>> = all.map(|part| part.bytes().unwrap().to_vec()).collect();
    let expiries: Vec<i64> = match Reply::parse(expiries) {
        Ok(Reply::Array(expiries)) => expiries.map(integer).collect(),
        _ => vec![-1; fields.len()],
    };
    let expiry = |name: &[u8]| fields.iter().position(|field| field == name).map_or(-1, |at| expiries[at]);
    let hash = all.chunks_exact(2).map(|pair| (pair[0].clone(), (pair[1].clone(), expiry(&pair[0]))));
    let hash: BTreeMap<_, _> = hash.collect();
    // All its fields have expired, and it isn't removed yet.
    if hash.is_empty() { Shown::Nothing } else { Shown::Hash(hash, expires_at_ms) }
}

/// What each of [`KEYS`] holds.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) held: Vec<Held>,
}

impl Default for Model {
    fn default() -> Self {
        Self { held: vec![Held::Nothing; KEYS.len()] }
    }
}

impl Model {
    fn hashes(&self) -> impl Iterator<Item = (&'static [u8], &Hash)> {
        KEYS.into_iter().zip(&self.held).filter_map(|(key, held)| match held {
            Held::Collection(Collected { collection: Collection::Hash(hash), .. }) => Some((key, hash)),
            _ => None,
        })
    }

    /// Commands that look at all fields which may expire.
    fn volatile(&self) -> Vec<Vec<Vec<u8>>> {
        let look = |(key, hash): (&[u8], &Hash)| {
            let volatile = hash.iter().filter(|(_, field)| field.expires_at_ms.is_some());
            let names: Vec<Vec<u8>> = volatile.map(|(name, _)| name.to_vec()).collect();
            let command: Vec<Vec<u8>> = [words(&[b"hmget", key]), names].concat();
            (command.len() > 2).then_some(command)
        };
        self.hashes().filter_map(look).collect()
    }

    /// The fields of any key that have expired.
    pub(crate) fn lost_fields(&self, now_ms: i64) -> impl Iterator<Item = Vec<u8>> {
        let fields = self.hashes().flat_map(|(_, hash)| hash.iter());
        fields.filter(move |(_, field)| has_expired(field, now_ms)).map(|(name, _)| name.to_vec())
    }

    /// Removes them, and the keys that have no others.
    pub(crate) fn drop_lost(&mut self, now_ms: i64) {
        for held in &mut self.held {
            let Held::Collection(Collected { collection: Collection::Hash(hash), .. }) = held else { continue };
            hash.retain(|_, field| !has_expired(field, now_ms));
            if hash.is_empty() {
                *held = Held::Nothing;
            }
        }
    }

    /// Whether any field or key expires in this very millisecond.
    pub(crate) fn expires_at(&self, now_ms: i64) -> bool {
        let ends = |held: &Held| {
            let Held::Collection(Collected { collection: Collection::Hash(hash), expires_at_ms }) = held else {
                return false;
            };
            *expires_at_ms == Some(now_ms) || hash.iter().any(|(_, field)| field.expires_at_ms == Some(now_ms))
        };
        self.held.iter().any(ends)
    }

    /// The fields of a key, with their values.
    pub(crate) fn fields(&self, key: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let hashes = self.hashes().filter(move |(known, _)| *known == key);
        hashes.flat_map(|(_, hash)| hash.iter()).map(|(name, field)| (name, field.value.as_slice()))
    }

    /// Whether the time of a key is over.
    pub(crate) fn has_expired(&self, key: &[u8], now_ms: i64) -> bool {
        let held = KEYS.iter().zip(&self.held).find(|(known, _)| **known == key).map(|(_, held)| held);
        matches!(held, Some(Held::Collection(Collected { expires_at_ms: Some(at), .. })) if *at < now_ms)
    }

    /// The first key that the server holds otherwise.
    pub(crate) fn differs_from(&self, observed: &Observed, now_ms: i64) -> Option<String> {
        let space = self.space(now_ms);
        KEYS.iter().zip(&observed.keys).find_map(|(key, servers)| {
            let ours = of_held(space.held(key));
            (!is_same(&ours, servers, now_ms))
                .then(|| format!("  key {}\n  server  {servers:?}\n  keyfold {ours:?}", key.escape_ascii()))
        })
    }

    /// Takes over what the server holds.
    pub(crate) fn resume_from(&mut self, observed: &Observed) {
        for (held, shown) in self.held.iter_mut().zip(&observed.keys) {
            let some = |at: i64| (at >= 0).then_some(at);
            *held = match shown {
                Shown::Nothing => Held::Nothing,
                Shown::Other(kind) => Held::Other(kind.clone()),
                Shown::Hash(fields, expires_at_ms) => {
                    let field = |(name, (value, at)): (&Vec<u8>, &(Vec<u8>, i64))| {
                        (name.clone(), Field { value: value.clone(), expires_at_ms: some(*at) })
                    };
                    let collection = Collection::Hash(fields.iter().map(field).collect());
                    Held::Collection(Collected { collection, expires_at_ms: some(*expires_at_ms) })
                }
            };
        }
    }

    fn space(&self, now_ms: i64) -> Space {
        let mut space = Space::new(now_ms).noting_events(true);
        for (key, held) in KEYS.iter().zip(&self.held) {
            space.load(key, held.clone());
        }
        space
    }
}

fn has_expired(field: &Field, now_ms: i64) -> bool {
    field.expires_at_ms.is_some_and(|at| at < now_ms)
}

fn of_held(held: &Held) -> Shown {
    match held {
        Held::Nothing => Shown::Nothing,
        Held::Collection(Collected { collection: Collection::Hash(hash), expires_at_ms }) => {
            let field = |(name, field): (&[u8], &Field)| {
                (name.to_vec(), (field.value.clone(), field.expires_at_ms.unwrap_or(-1)))
            };
            Shown::Hash(hash.iter().map(field).collect(), expires_at_ms.unwrap_or(-1))
        }
        Held::Other(kind) => Shown::Other(kind.clone()),
        other => panic!("nothing makes {other:?}"),
    }
}

fn is_same(ours: &Shown, servers: &Shown, now_ms: i64) -> bool {
    let (Shown::Hash(ours, our_expiry), Shown::Hash(servers, their_expiry)) = (ours, servers) else {
        return ours == servers;
    };
    // In the millisecond of its expiry Redis shows none of a field.
    let is_same_field = |name: &Vec<u8>, (value, at): &(Vec<u8>, i64)| {
        servers.get(name).is_some_and(|(their_value, their_at)| {
            value == their_value && (at == their_at || *at == now_ms && *their_at == -2)
        })
    };
    our_expiry == their_expiry
        && ours.len() == servers.len()
        && ours.iter().all(|(name, field)| is_same_field(name, field))
}

/// What came of a command on a space.
pub(crate) struct Ran {
    pub(crate) reply: Vec<u8>,
    pub(crate) after: Model,
    pub(crate) wrote: bool,
    pub(crate) events: Vec<(Vec<u8>, String)>,
}

/// Runs a command on what `model` holds.
pub(crate) fn run(
    model: &Model,
    command: &[Vec<u8>],
    now_ms: i64,
    (protocol, dialect): (Protocol, Dialect<'_>),
    asks: &mut Connection,
) -> Ran {
    let mut space = model.space(now_ms).seeded(now_ms.unsigned_abs());
    let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let found = table().resolve(&args).unwrap();
    let function = found.members.or(found.run).unwrap();
    let mut reply = Vec::new();
    loop {
        let mut answer = Answer::new(&mut reply, protocol);
        let flow = function(&Call { args: &args, dialect }, &mut space, &mut answer);
        let Err(ask) = finish(flow, &mut answer) else { break };
        assert!(reply.is_empty() && space.changes().next().is_none(), "asked after it had begun to answer");
        space.answer_ask(ask_server(asks, &ask.commands));
    }
    let mut after = model.clone();
    for (key, held) in space.changes() {
        after.held[KEYS.iter().position(|known| *known == key).unwrap()] = held.clone();
    }
    let wrote = space.changes().next().is_some();
    let events = space.events().map(|(key, event)| (key.to_vec(), event.to_string())).collect();
    Ran { reply, after, wrote, events }
}
