//! Writes keys into a private server, plain or where a layout places them, and reads them.

use std::collections::BTreeMap;

use anyhow::Context;
use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::dialect::Dialect;
use keyfold_core::exchange::find_in_parts_command;
use keyfold_core::layout::Layout;
use keyfold_core::memory::{Model, ValueShape};
use keyfold_core::record::{Content, SetsAs, physical_read};
use keyfold_report::progress::Progress;
use keyfold_server::{Commands, Server};
use keyfold_survey::population::SampledKey;

use crate::scan::{Values, Wanted, packed};

/// Commands sent at a time.
pub(super) const PIPELINE: usize = 500;
/// When keys that expire do: long after the proof.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;
/// The databases of a server that isn't told otherwise.
const DATABASES: u32 = 16;
/// Words of one command, an even number: fields come with their values.
const WORDS: usize = 500;
/// Packed values come from whoever has packed them here.
const UNPACKS_NOT: &str = "what was read doesn't unpack";
/// Neighbours in the sample are read far apart: a step that shares no factor with most numbers of keys.
const READ_STEP: usize = 7919;

/// A key to load.
#[derive(Clone, Copy)]
pub(super) struct Loaded<'k> {
    pub(super) sampled: &'k SampledKey,
    /// Which collection it is, where it is no string.
    pub(super) collection: Option<CollectionKind>,
}

/// Keys to load, and the layout that places them.
pub(super) struct Load<'k> {
    keys: &'k [Loaded<'k>],
    layout: &'k Layout,
    /// Of those that lie plain as sets and hashes, or in parts, a member that is there, in the middle.
    members: BTreeMap<usize, Vec<u8>>,
    /// The databases that keys are from, each with the one that they come to.
    databases: BTreeMap<u32, u32>,
    /// What the server that the plan is for has otherwise than it is once it was loaded.
    otherwise: Otherwise,
}

/// Sets and hashes that take more or less where they are than they do once they were written anew: fields of theirs expire, which isn't
/// loaded, or they were larger once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Otherwise {
    pub(super) keys: usize,
    /// What they take more once they were, in bytes.
    pub(super) more_bytes: f64,
}

/// What is off by less, as a share, is taken for the same.
const THE_SAME: f64 = 0.1;

impl Otherwise {
    /// Compares what one takes where it is with what it will.
    fn compare(&mut self, model: &Model, sampled: &SampledKey, collection: &Collection) {
        let Some(told) = sampled.plain_bytes else { return };
        let (told, key_len) = (f64::from(told.get()), sampled.key.len() as u64);
        let fresh = model.collection_bytes(key_len, collection, sampled.has_expiry) as f64;
        let settled = model.settled_collection_bytes(key_len, collection, sampled.has_expiry) as f64;
        if told > fresh.max(settled) * (1.0 + THE_SAME) || told < fresh.min(settled) * (1.0 - THE_SAME) {
            self.keys += 1;
            self.more_bytes += fresh - told;
        }
    }
}

impl Loaded<'_> {
    /// Any value of its shape.
    fn made_up(&self) -> Vec<u8> {
        let text = |len| vec![b'x'; usize::try_from(len).unwrap_or(0)];
        match (self.sampled.value, self.collection) {
            (ValueShape::Integer(number), _) => number.to_string().into_bytes(),
            (ValueShape::Bytes(len), None) => text(len),
            (ValueShape::Bytes(len), Some(CollectionKind::Set)) => {
                packed(CollectionKind::Set, vec![text(len)]).unwrap_or_default()
            }
            (ValueShape::Bytes(len), Some(CollectionKind::Hash)) => {
                packed(CollectionKind::Hash, vec![b"x".to_vec(), text(len)]).unwrap_or_default()
            }
        }
    }
}

impl<'k> Load<'k> {
    pub(super) fn new(keys: &'k [Loaded<'k>], layout: &'k Layout) -> Self {
        let mut databases: BTreeMap<u32, u32> = keys.iter().map(|loaded| (loaded.sampled.database, 0)).collect();
        databases.values_mut().zip((0..DATABASES).cycle()).for_each(|(to, number)| *to = number);
        Self { keys, layout, members: BTreeMap::new(), databases, otherwise: Otherwise::default() }
    }

    /// Has what follows be of the database that this one's keys come to, where what was before isn't.
    fn enter(&self, database: u32, entered: &mut Option<u32>, commands: &mut Commands) {
        let to = self.databases.get(&database).copied().unwrap_or_default();
        if entered.replace(to) != Some(to) {
            commands.push(&[b"SELECT", to.to_string().as_bytes()]);
        }
    }

    /// Whether what is stored depends on more than the value's length: it has members, or a codec stores it.
    fn is_real(&self, Loaded { sampled, collection }: &Loaded<'_>) -> bool {
        let place = self.layout.locate(&sampled.key).place();
        let is_coded = place.is_some_and(|place| self.layout.namespace(place.namespace).codecs.written().is_some());
        collection.is_some() || is_coded && matches!(sampled.value, ValueShape::Bytes(_))
    }

    /// The keys whose real values are loaded.
    pub(super) fn real_keys(&self) -> Vec<Wanted<'k>> {
        self.keys.iter().filter(|loaded| self.is_real(loaded)).map(|loaded| Wanted::of(loaded.sampled)).collect()
    }

    /// The values: real ones of sets and hashes and where a codec stores them, and made-up ones where only their length matters, or
    /// where the key is gone.
    fn values(&self, chunk: &[Loaded<'_>], real: &mut dyn Values) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut values: Vec<_> = chunk.iter().map(Loaded::made_up).collect();
        for collection in [None, Some(CollectionKind::Set), Some(CollectionKind::Hash)] {
            let is_read = |loaded: &Loaded<'_>| loaded.collection == collection && self.is_real(loaded);
            let read: Vec<usize> = (0..chunk.len()).filter(|index| is_read(&chunk[*index])).collect();
            let keys: Vec<Wanted<'_>> = read.iter().map(|index| Wanted::of(chunk[*index].sampled)).collect();
            if keys.is_empty() {
                continue;
            }
            for (index, value) in read.into_iter().zip(real.read(&keys, collection)?) {
                if let Some(value) = value {
                    values[index] = value;
                }
            }
        }
        Ok(values)
    }

    /// What was met when they were written as they are.
    pub(super) fn otherwise(&self) -> Otherwise {
        self.otherwise
    }

    /// Writes them all to a server of this memory; `real` reads values of the server that the plan is for.
    pub(super) fn write(
        &mut self,
        server: &mut Server,
        model: &Model,
        real: &mut dyn Values,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let (mut nonce, sets) = (1 << 63, SetsAs::of(Dialect::new(&server.version().info(), false)));
        let mut entered = None;
        for (chunk, first) in self.keys.chunks(PIPELINE).zip((0..).step_by(PIPELINE)) {
            let values = self.values(chunk, real)?;
            let mut commands = Commands::default();
            for ((Loaded { sampled, collection }, value), index) in chunk.iter().zip(&values).zip(first..) {
                let SampledKey { database, key, has_expiry, .. } = sampled;
                self.enter(*database, &mut entered, &mut commands);
                let expires_at_ms = has_expiry.then_some(EXPIRES_AT_MS);
                let place = self.layout.locate(key).place();
                if collection.is_some() && place.is_none() {
                    let collection = Collection::unpack(value).context(UNPACKS_NOT)?;
                    self.members.insert(index, member_of(&collection));
                    self.otherwise.compare(model, sampled, &collection);
                    write_plain(key, &collection, expires_at_ms, &mut commands);
                    continue;
                }
                let writes = self.layout.physical_writes(sets, place.as_ref(), key, value, expires_at_ms, || {
                    nonce += 1;
                    nonce
                });
                if writes.beside.iter().any(|write| matches!(write.content, Content::Members(_))) {
                    self.members.insert(index, member_of(&Collection::unpack(value).context(UNPACKS_NOT)?));
                }
                writes.iter().for_each(|write| write.command(|args| commands.push(args)));
            }
            server.query_all::<()>(&commands).context("can't load keys to prove the plan with")?;
            progress.advance(chunk.len());
        }
        Ok(())
    }

    /// Reads every key once, neighbours far apart.
    pub(super) fn read(&self, server: &mut Server) -> anyhow::Result<()> {
        let keys = self.keys;
        let step = if keys.len().is_multiple_of(READ_STEP) { 1 } else { READ_STEP };
        let order: Vec<usize> = (0..keys.len()).map(|i| i * step % keys.len()).collect();
        let mut entered = None;
        for chunk in order.chunks(PIPELINE) {
            let mut commands = Commands::default();
            for index in chunk {
                let Loaded { sampled: SampledKey { database, key, .. }, collection } = &keys[*index];
                self.enter(*database, &mut entered, &mut commands);
                let place = self.layout.locate(key).place();
                match (collection, self.members.get(index), &place) {
                    (_, Some(member), Some(place)) => {
                        let find = find_in_parts_command(&place.physical, &place.field, member).unwrap_or_default();
                        commands.push(&find.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    }
                    (Some(CollectionKind::Set), Some(member), None) => commands.push(&[b"SISMEMBER", key, member]),
                    (Some(CollectionKind::Hash), Some(field), None) => commands.push(&[b"HGET", key, field]),
                    _ => commands.push(&physical_read(place.as_ref(), key)),
                }
            }
            server.query_all::<()>(&commands).context("can't read what the plan was proved with")?;
        }
        Ok(())
    }
}

/// Writes a set or hash under its own name.
fn write_plain(key: &[u8], collection: &Collection, expires_at_ms: Option<i64>, commands: &mut Commands) {
    let (command, texts): (&[u8], Vec<&[u8]>) = match collection {
        Collection::Set(set) => (b"SADD", set.iter().collect()),
        Collection::Hash(hash) => (b"HSET", hash.iter().flat_map(|(name, field)| [name, &field.value]).collect()),
    };
    // A table that is filled in one go is larger from the start.
    texts.chunks(WORDS).for_each(|some| commands.push(&[&[command, key], some].concat()));
    if let Some(at) = expires_at_ms {
        commands.push(&[b"PEXPIREAT", key, at.to_string().as_bytes()]);
    }
}

/// The member or field in the middle.
fn member_of(collection: &Collection) -> Vec<u8> {
    let middle = match collection {
        Collection::Set(set) => set.get(set.len() / 2),
        Collection::Hash(hash) => hash.get_index(hash.len() / 2).map(|(name, _)| name),
    };
    middle.unwrap_or_default().to_vec()
}
