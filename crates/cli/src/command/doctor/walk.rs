//! Walks the hashes of a server, a batch at a time: how each is held, what it takes, and what is in it where
//! that matters.

use std::collections::HashSet;

use keyfold_core::collection::CollectionKind;
use keyfold_core::layout::{Layout, Physical};
use keyfold_core::memory::{Allocator, Model, Server as ModelServer, is_cluster_mode};
use keyfold_core::placement::name::ADMINISTRATION_PREFIX;
use keyfold_core::resp::Reply;
use keyfold_core::walk::KeyWalk;
use keyfold_report::progress::Progress;
use keyfold_server::Commands;
use keyfold_server::reply::{code, read_if};
use keyfold_survey::diagnosis::{Encoding, FamilyName, Models, Observation, Seen};

use super::bucket::{Folded, Reading};
use super::patient::Patient;
use super::rewrite::{Candidate, Outcome, Rewriter};
use super::{Denied, Walked};
use super::{names, partitions};
use crate::scan::{self, Database, Databases, Round};

/// Names that the server looks at for one SCAN, and what that counts as.
const SCAN_COUNT: u64 = 500;
const SCAN_OPS: u64 = SCAN_COUNT / 10;
/// So many fields read count as one.
const FIELDS_OF_AN_OP: u64 = 50;
/// Hashes asked about at once.
const HASHES_AT_ONCE: usize = 100;
/// Bytes of hashes read at once, as far as one can know before.
const READ_AT_ONCE_BYTES: u64 = 4 << 20;
/// A hash whose size nobody tells is taken for this.
const UNKNOWN_BYTES: u64 = 64 << 10;
/// More of a hash is not read: the rest will be like it.
const FIELDS_OF_ONE: u64 = 10_000;
const BYTES_OF_ONE: u64 = 1 << 20;
/// Bytes that one step of HSCAN over a table should bring.
const STEP_BYTES: u64 = 256 << 10;

/// One hash, as it was asked about.
struct Hash {
    key: Vec<u8>,
    family: FamilyName,
    encoding: Encoding,
    entries: u64,
    bytes: Option<u64>,
}

/// The walk, and all that it needs along the way.
struct HashWalk<'a> {
    patient: &'a mut Patient,
    seen: &'a mut Observation,
    layout: Option<Layout>,
    models: Models,
    rewriter: Option<&'a mut Rewriter>,
    database: u32,
    denied: Denied,
    /// Whether this server makes tables of hashes with expiring fields.
    expiry_unpacks: bool,
}

/// Walks all databases, or those named.
pub(super) fn walk(
    patient: &mut Patient,
    wanted: &Databases,
    seen: &mut Observation,
    rewriter: Option<&mut Rewriter>,
) -> anyhow::Result<Walked> {
    let layout = seen.layout.known().cloned();
    let (model, in_cluster_mode) = model(patient)?;
    let models = Models::new(&model, seen.settings.hash_value_bytes.value);
    let version = patient.server.version();
    let expiry_unpacks = version.flavor == "Valkey" && !version.number.starts_with("8.");
    let mut round = Round::new(scan::chosen(&mut patient.server, wanted)?);
    let mut walk =
        HashWalk { patient, seen, layout, models, rewriter, database: 0, denied: Denied::default(), expiry_unpacks };
    while let Some(Database { number: database, keys }) = round.enter_next(&mut walk.patient.server)? {
        walk.database = database;
        if walk.hashes(keys)? == Walked::Stopped {
            return Ok(Walked::Stopped);
        }
        // Before a cluster partitions of one key lie at several nodes.
        if !in_cluster_mode
            && partitions::walk(walk.patient, &model, database, keys, &mut walk.seen.partitions)? == Walked::Stopped
        {
            return Ok(Walked::Stopped);
        }
        let layout = walk.layout.as_ref();
        if names::walk(walk.patient, layout, database, keys, &mut walk.seen.leftovers)? == Walked::Stopped {
            return Ok(Walked::Stopped);
        }
    }
    Ok(if walk.denied.hashes > 0 { Walked::Denied(walk.denied) } else { Walked::Whole })
}

/// The server's memory model, and whether it is a node of a cluster.
fn model(patient: &mut Patient) -> anyhow::Result<(Model, bool)> {
    let about = patient.server.info("server")?;
    let server = ModelServer::from_info(about.text()).unwrap_or_else(|| ModelServer::redis(7, 0));
    let stats = read_if::<String>(&patient.ask(&[b"MEMORY", b"MALLOC-STATS"])?);
    let allocator = stats.and_then(|stats| Allocator::from_malloc_stats(&stats)).unwrap_or_default();
    Ok((Model::for_server(server).with_allocator(allocator), is_cluster_mode(about.text())))
}

impl HashWalk<'_> {
    fn hashes(&mut self, keys: u64) -> anyhow::Result<Walked> {
        let what = format!("hashes of database {}", self.database);
        let mut progress = Progress::new(what, usize::try_from(keys).unwrap_or(usize::MAX));
        let mut walk = KeyWalk::new(SCAN_COUNT).of_type(b"hash");
        while let Some(names) = self.patient.server.next_names(&mut walk)? {
            self.patient.spend(SCAN_OPS);
            // A step may bring a name twice; steps apart are as the server has it.
            let mut known = HashSet::new();
            let names: Vec<_> = names.into_iter().filter(|name| known.insert(name.clone())).collect();
            for names in names.chunks(HASHES_AT_ONCE) {
                if self.patient.is_stopped() {
                    return Ok(Walked::Stopped);
                }
                self.batch(names)?;
            }
            progress.advance(usize::try_from(SCAN_COUNT)?);
            if !walk.is_over() && self.patient.is_stopped() {
                return Ok(Walked::Stopped);
            }
        }
        Ok(Walked::Whole)
    }

    fn batch(&mut self, names: &[Vec<u8>]) -> anyhow::Result<()> {
        // keyfold's own administration is as it is.
        let names: Vec<&Vec<u8>> = names.iter().filter(|name| !name.starts_with(ADMINISTRATION_PREFIX)).collect();
        let hashes = self.ask_about(&names)?;
        let (mut reading, mut bytes) = (Vec::new(), 0);
        for hash in hashes {
            if !self.is_worth_reading(&hash) {
                self.count(&hash, None, false);
                continue;
            }
            bytes += hash.bytes.unwrap_or(UNKNOWN_BYTES).min(BYTES_OF_ONE);
            reading.push(hash);
            if bytes >= READ_AT_ONCE_BYTES {
                self.read(&std::mem::take(&mut reading))?;
                bytes = 0;
            }
        }
        self.read(&reading)
    }

    /// Those that are hashes still, and how they are held.
    fn ask_about(&mut self, names: &[&Vec<u8>]) -> anyhow::Result<Vec<Hash>> {
        let mut commands = Commands::default();
        for name in names {
            commands.push(&[b"OBJECT", b"ENCODING", name]);
            commands.push(&[b"HLEN", name]);
            commands.push(&[b"MEMORY", b"USAGE", name]);
        }
        let replies = self.patient.ask_all(&commands)?;
        let mut hashes = Vec::with_capacity(names.len());
        for (&name, replies) in names.iter().zip(replies.chunks_exact(3)) {
            let encoding = match Reply::parse(&replies[0])? {
                Reply::Bulk(b"hashtable") => Encoding::Table,
                Reply::Bulk(_) => Encoding::Packed,
                Reply::Error(error) if code(error) == b"NOPERM" => {
                    self.denied.hashes += 1;
                    self.denied.reason = String::from_utf8_lossy(error).trim_start_matches("NOPERM ").to_owned();
                    continue;
                }
                _ => continue,
            };
            let (entries, bytes) = (read_if(&replies[1]), read_if(&replies[2]));
            let Some(entries) = entries.filter(|entries| *entries > 0) else { continue };
            let family = self.family_of(name);
            hashes.push(Hash { key: name.clone(), family, encoding, entries, bytes });
        }
        Ok(hashes)
    }

    fn family_of(&self, key: &[u8]) -> FamilyName {
        match self.layout.as_ref().map(|layout| layout.read_physical(key)) {
            // A handmade one, out of which keys are being moved, isn't keyfold's.
            Some(Physical::Bucket(namespace)) if Layout::origin_of(key).is_some() => FamilyName::Namespace(namespace),
            _ => self.seen.families.name_of(key),
        }
    }

    /// Tables, for what made them so; keyfold's buckets, for what is stored in them; a few of all others.
    fn is_worth_reading(&self, hash: &Hash) -> bool {
        hash.encoding == Encoding::Table
            || matches!(hash.family, FamilyName::Namespace(_))
            || self.seen.families.wants_contents(&hash.family)
    }

    fn read(&mut self, hashes: &[Hash]) -> anyhow::Result<()> {
        let mut commands = Commands::default();
        hashes.iter().for_each(|hash| step(hash, b"0", &mut commands));
        let replies = self.patient.ask_all(&commands)?;
        for (hash, reply) in hashes.iter().zip(replies) {
            if let Some(first) = read_if(&reply) {
                let reading = self.read_on(hash, first)?;
                self.judge(hash, &reading)?;
            }
        }
        Ok(())
    }

    /// Reads a hash from its first step on, as far as is needed.
    fn read_on<'h>(&mut self, hash: &'h Hash, first: Step) -> anyhow::Result<Reading<'h>> {
        let mut reading = Reading::new(self.database, &hash.key);
        let (mut cursor, mut items) = first;
        loop {
            self.take(&mut reading, hash, &items);
            let is_enough = reading.contents.fields >= FIELDS_OF_ONE || reading.contents.bytes >= BYTES_OF_ONE;
            if cursor == b"0" || is_enough {
                return Ok(reading);
            }
            let mut commands = Commands::default();
            step(hash, &cursor, &mut commands);
            let reply = self.patient.ask_all(&commands)?.pop();
            let Some(next) = reply.and_then(|reply| read_if(&reply)) else { return Ok(reading) };
            (cursor, items) = next;
        }
    }

    fn take(&mut self, reading: &mut Reading<'_>, hash: &Hash, items: &[Vec<u8>]) {
        let folded = match (&hash.family, &self.layout) {
            (FamilyName::Namespace(namespace), Some(layout)) => Some(Folded { layout, namespace: *namespace }),
            _ => None,
        };
        reading.take(items, &self.models, folded, &mut self.seen.leftovers);
        self.patient.spend(items.len() as u64 / (2 * FIELDS_OF_AN_OP));
    }

    /// Counts a hash that was read, and writes it anew where that is wanted and helps.
    fn judge(&mut self, hash: &Hash, reading: &Reading<'_>) -> anyhow::Result<()> {
        let contents = &reading.contents;
        let needless =
            hash.encoding == Encoding::Table && self.seen.settings.would_pack(hash.entries, contents.longest_bytes());
        let expiring = needless && self.expiry_unpacks && self.has_expiring_fields(&hash.key)?;
        if needless
            && !expiring
            && let Some(rewriter) = self.rewriter.as_deref_mut()
        {
            let candidate = Candidate { key: &hash.key, bytes: hash.bytes };
            if rewriter.rewrite(self.patient, &candidate)? == Outcome::Packed {
                let packed = contents.packed_bytes(&self.models, hash.key.len() as u64, hash.entries);
                let table = contents.table_bytes(&self.models, hash.key.len() as u64, hash.entries);
                rewriter.note_saving(table.saturating_sub(packed));
                let packed =
                    Hash { encoding: Encoding::Packed, key: hash.key.clone(), family: hash.family.clone(), ..*hash };
                self.count(&packed, Some(reading), false);
                return Ok(());
            }
        }
        self.count(hash, Some(reading), expiring);
        Ok(())
    }

    fn has_expiring_fields(&mut self, key: &[u8]) -> anyhow::Result<bool> {
        let Some(fields) = read_if::<Vec<Vec<u8>>>(&self.patient.ask(&[b"HKEYS", key])?) else { return Ok(false) };
        let count = fields.len().to_string();
        let command: [&[u8]; 4] = [b"HTTL", key, b"FIELDS", count.as_bytes()];
        let command: Vec<&[u8]> = command.into_iter().chain(fields.iter().map(Vec::as_slice)).collect();
        let left = read_if::<Vec<i64>>(&self.patient.ask(&command)?);
        Ok(left.is_some_and(|left| left.iter().any(|seconds| *seconds >= 0)))
    }

    fn count(&mut self, hash: &Hash, reading: Option<&Reading<'_>>, expiring_fields: bool) {
        let seen = Seen {
            database: self.database,
            key: &hash.key,
            encoding: hash.encoding,
            entries: hash.entries,
            bytes: hash.bytes,
            contents: reading.map(|reading| &reading.contents),
            expiring_fields,
        };
        let Observation { families, settings, partitions, .. } = &mut *self.seen;
        if matches!(hash.family, FamilyName::Pattern(_)) {
            partitions.add(self.database, CollectionKind::Hash, &hash.key, hash.entries, hash.bytes.unwrap_or(0));
        }
        families.add(hash.family.clone(), &seen, settings, &self.models);
    }
}

/// Where HSCAN goes on, and the fields and values that it brought.
type Step = (Vec<u8>, Vec<Vec<u8>>);

/// A step of HSCAN: as many fields as are worth one. A listpack comes whole, whatever one asks for.
fn step(hash: &Hash, cursor: &[u8], commands: &mut Commands) {
    let each = (hash.bytes.unwrap_or(0) / hash.entries.max(1)).max(1);
    let count = (STEP_BYTES / each).clamp(10, 1000).to_string();
    commands.push(&[b"HSCAN", &hash.key, cursor, b"COUNT", count.as_bytes()]);
}
