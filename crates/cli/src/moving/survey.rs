//! What is there to be moved, and what the server will hold after it: before anything is changed.
//!
//! Every name is looked at. Values are read of a sample that holds whole buckets: those whose name, old or new,
//! falls under a threshold. So what buckets will take is known byte for byte for the sample, and scales.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use keyfold_core::collection::{Collection, CollectionKind, MOST_MEMBERS};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, Located, Moving, Namespace, NamespaceIndex, Physical, Place, spill_name};
use keyfold_core::memory::{BucketCost, Model, Tabled, ValueShape};
use keyfold_core::mover::moved_at_once;
use keyfold_core::placement::handmade::Packing;
use keyfold_core::resp::Reply;
use keyfold_core::walk::{BucketWalk, KeyWalk};
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_server::memory::ServerModel;
use keyfold_server::pace::Pace;
use keyfold_server::reply::read_if;
use keyfold_server::{Commands, Nodes, Server};
use keyfold_survey::survey;

use super::overhead::first_uses_bytes;
use super::sample::{Before, SOME_TIME_MS, Sample, Weighed};
use super::{Family, hashes};
use crate::records::digest;
use crate::records::in_parts::InParts;
use crate::records::inquiry::Fields;
use crate::scan::{Database, Round};

/// Keys of which values are read, about.
const SAMPLE: u64 = 200_000;
/// Keys asked for in one round trip: a server answers nobody else meanwhile.
const AT_ONCE: usize = 125;
/// Slots of the server's table that one SCAN looks at, for the same reason.
const SLOTS_A_SCAN: u64 = 100;
/// Values longer than this are not read whole: what they take follows from their length.
const READ_UP_TO_BYTES: u64 = 4096;
/// The same where a codec will make them shorter, which depends on all of it.
const CODED_UP_TO_BYTES: u64 = 64 << 10;
/// Sets and hashes of more members are not read whole: a server answers nobody else meanwhile.
const READ_WHOLE: u64 = 4096;
/// Of these so many members are read.
const READ_OF_LARGE: u64 = 500;

/// What a survey found.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) families: BTreeMap<usize, Family>,
    /// Of each server.
    pub(crate) servers: Vec<ServerMemory>,
}

/// The memory of one server before a move and after it.
#[derive(Debug)]
pub(crate) struct ServerMemory {
    /// `used_memory` when the survey ended.
    pub(crate) used_bytes: u64,
    /// What it will be, by the memory model.
    pub(crate) after_bytes: u64,
    /// `used_memory_rss` when the survey ended: what the system gave the process.
    pub(crate) rss_bytes: u64,
}

impl Survey {
    /// `used_memory` of all servers together, when it ended.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.servers.iter().map(|server| server.used_bytes).sum()
    }

    /// What that will be.
    pub(crate) fn after_bytes(&self) -> u64 {
        self.servers.iter().map(|server| server.after_bytes).sum()
    }

    /// `used_memory_rss` of all servers together, when it ended.
    pub(crate) fn rss_bytes(&self) -> u64 {
        self.servers.iter().map(|server| server.rss_bytes).sum()
    }

    /// All that lies in old places of these, whether it could be moved or not.
    pub(crate) fn found_in(&self, namespaces: &[NamespaceIndex]) -> u64 {
        namespaces.iter().filter_map(|index| self.families.get(&index.0)).map(Family::found).sum()
    }

    /// Keys to be moved.
    pub(crate) fn keys(&self) -> u64 {
        self.families.values().map(|family| family.keys).sum()
    }
}

/// Looks at all databases of all servers.
pub(crate) fn survey(
    nodes: &mut Nodes,
    layout: &Layout,
    pace: &mut Pace,
    interrupt: &Interrupt,
) -> anyhow::Result<Survey> {
    let (now, model) = models_of(nodes, layout)?;
    // Where nothing moves, there is nothing to look at.
    let is_any_moving = layout.moving().next().is_some();
    let mut rounds = Vec::new();
    for server in nodes.servers() {
        rounds.push(if is_any_moving { Round::all(server)? } else { Round::new(Vec::new()) });
    }
    let of_each: Vec<u64> = rounds.iter().map(Round::keys).collect();
    let all: u64 = of_each.iter().sum();
    let mut progress = Progress::new("looked at keys", usize::try_from(all).unwrap_or(usize::MAX));
    let mut families = BTreeMap::<usize, Family>::new();
    // By database: the nodes of a cluster are even, and their tables go by what all of them have.
    let mut found: BTreeMap<u32, (u64, Weighed)> = BTreeMap::new();
    for (server, mut round) in nodes.servers().iter_mut().zip(rounds) {
        while let Some(Database { number, keys }) = round.enter_next(server)? {
            let mut look = Look {
                server: &mut *server,
                database: number,
                layout,
                pace: &mut *pace,
                share: (SAMPLE as f64 / all.max(1) as f64).min(1.0),
                now: &now,
                model: &model,
                samples: BTreeMap::new(),
                seen: HashSet::new(),
                families: &mut families,
                expiring_fields: None,
            };
            look.walk(interrupt, &mut progress)?;
            let weighed = look.note_samples();
            let (keys_of_all, sum) = found.remove(&number).unwrap_or_default();
            found.insert(number, (keys_of_all + keys, [sum, weighed].into_iter().sum()));
        }
    }
    let mut change = Change::default();
    found.values().for_each(|(keys, weighed)| change.add(&model, *keys, weighed));
    let moves_in_steps = |kind: &CollectionKind| {
        families
            .iter()
            .any(|(index, family)| family.in_steps > 0 && layout.namespaces()[*index].collection() == Some(*kind))
    };
    let in_steps: Vec<CollectionKind> = CollectionKind::ALL.into_iter().filter(moves_in_steps).collect();
    let servers = of_each.iter().zip(nodes.servers());
    let servers = servers.map(|(keys, server)| {
        let memory = server.info("memory")?;
        let (used_bytes, rss_bytes) = (memory.needed::<u64>("used_memory")?, memory.number("used_memory_rss"));
        #[expect(clippy::cast_possible_truncation, reason = "bytes of a server, far below 2^53")]
        let share = (change.bytes as f64 * (*keys as f64 / all.max(1) as f64)) as i64;
        let after_bytes = used_bytes.saturating_add_signed(share) + first_uses_bytes(server, &in_steps)?;
        Ok(ServerMemory { used_bytes, after_bytes, rss_bytes })
    });
    Ok(Survey { families, servers: servers.collect::<anyhow::Result<_>>()? })
}

/// The memory model of these servers as they are set now, and as the layout needs it, at the least: without that nothing is
/// moved.
fn models_of(nodes: &mut Nodes, layout: &Layout) -> anyhow::Result<(Model, Model)> {
    let ServerModel { model, mut limits, .. } = keyfold_server::memory::model_of_all(nodes, &[])?;
    let (entries, value) = keyfold_server::listpack::least(layout);
    limits.hash_entries = limits.hash_entries.max(entries);
    limits.hash_value_bytes = limits.hash_value_bytes.max(value);
    Ok((model.clone(), model.with_limits(limits)))
}

/// What the move adds to `used_memory`.
#[derive(Default)]
struct Change {
    bytes: i64,
}

impl Change {
    fn add(&mut self, model: &Model, keys: u64, weighed: &Weighed) {
        let table = |keys: u64, expiring: u64| model.table_bytes(keys, expiring).cast_signed();
        let after = (keys + weighed.come).saturating_sub(weighed.gone);
        let (before_table, after_table) = (table(keys, weighed.expiring_gone), table(after, weighed.expiring_come));
        // A table is made smaller once a tenth of it is in use or less; else it stays as large as it was.
        let shrinks = after.saturating_mul(10) <= keys.next_power_of_two();
        let tables = if after > keys || shrinks { after_table - before_table } else { 0 };
        #[expect(clippy::cast_possible_truncation, reason = "bytes of a server, far below 2^53")]
        let content = (weighed.new_bytes - weighed.old_bytes) as i64;
        self.bytes += content + tables;
    }
}

/// The look at one database.
struct Look<'a, 'm> {
    server: &'a mut Server,
    database: u32,
    layout: &'m Layout,
    pace: &'a mut Pace,
    /// The share of buckets that is sampled.
    share: f64,
    /// How the server takes memory now, and then.
    now: &'m Model,
    model: &'m Model,
    /// By namespace: chance gives each of them a little more or less than its share, which stands for nothing.
    samples: BTreeMap<usize, Sample<'m>>,
    /// Buckets that have been met, by their digests. While a server's table of keys becomes smaller, SCAN shows some again, and
    /// each stands for many keys.
    seen: HashSet<u128>,
    families: &'a mut BTreeMap<usize, Family>,
    /// Whether fields of hashes expire, once it was asked.
    expiring_fields: Option<bool>,
}

impl<'m> Look<'_, 'm> {
    fn walk(&mut self, interrupt: &Interrupt, progress: &mut Progress) -> anyhow::Result<()> {
        let pattern = crate::layout::keys::pattern_of_moves(self.layout);
        let mut walk = KeyWalk::new(SLOTS_A_SCAN).matching(&pattern);
        while let Some(names) = self.server.next_names(&mut walk)? {
            anyhow::ensure!(!interrupt.wanted(), "interrupted; nothing was changed");
            self.take_names(&names)?;
            self.pace.spend(1);
            progress.advance(usize::try_from(SLOTS_A_SCAN)?);
        }
        Ok(())
    }

    fn take_names(&mut self, names: &[Vec<u8>]) -> anyhow::Result<()> {
        let (mut own, mut buckets) = (Vec::new(), Vec::new());
        for name in names {
            match self.layout.read_physical(name) {
                Physical::Plain => {
                    if let Located::Moving(moving) = self.layout.locate(name)
                        && moving.old.is_none()
                    {
                        own.push((name.to_vec(), name.to_vec(), *moving));
                    }
                }
                Physical::Zipped { key, .. } => {
                    if let Located::Moving(moving) = self.layout.locate(&key)
                        && moving.old.as_ref().is_some_and(|place| place.physical.as_slice() == name)
                    {
                        own.push((name.to_vec(), key, *moving));
                    }
                }
                Physical::Bucket(namespace)
                    if self.layout.is_former_place(namespace, name) && self.seen.insert(digest::name(name)) =>
                {
                    buckets.push((namespace, name.to_vec()));
                }
                _ => {}
            }
        }
        for own in own.chunks(AT_ONCE) {
            self.take_own(own)?;
        }
        for buckets in buckets.chunks(AT_ONCE / 10) {
            self.take_buckets(buckets)?;
        }
        Ok(())
    }

    /// Keys of their own: the type of each, of sets and hashes how many members, the values of the sampled.
    fn take_own(&mut self, keys: &[(Vec<u8>, Vec<u8>, Moving)]) -> anyhow::Result<()> {
        let (of_collections, strings): (Vec<_>, Vec<_>) = keys
            .iter()
            .cloned()
            .partition(|(.., moving)| self.layout.namespace(moving.namespace).collection().is_some());
        self.take_own_strings(&strings)?;
        self.take_own_collections(&of_collections)
    }

    fn take_own_strings(&mut self, keys: &[(Vec<u8>, Vec<u8>, Moving)]) -> anyhow::Result<()> {
        let (mut commands, mut sampled) = (Commands::default(), Vec::new());
        for (physical, key, moving) in keys {
            commands.push(&[b"TYPE", physical]);
            let is_sampled = self.is_sampled(sampled_by(key, moving.new.as_ref()));
            sampled.push(is_sampled);
            if is_sampled {
                commands.push(&[b"PTTL", physical]);
                commands.push(&[b"STRLEN", physical]);
                let is_framed = moving.old.as_ref().is_some_and(|place| place.kind.is_framed());
                let is_coded = is_framed || self.layout.namespace(moving.namespace).codecs.written().is_some();
                let up_to = if is_coded { CODED_UP_TO_BYTES } else { READ_UP_TO_BYTES };
                commands.push(&[b"GETRANGE", physical, b"0", up_to.to_string().as_bytes()]);
            }
        }
        let mut replies = self.ask(&commands)?.into_iter();
        for ((_, key, moving), sampled) in keys.iter().zip(sampled) {
            let kind = replies.next().unwrap_or_default();
            let values: Vec<Vec<u8>> = replies.by_ref().take(if sampled { 3 } else { 0 }).collect();
            if !self.is_of_type(moving.namespace, key, &kind, "string") {
                continue;
            }
            let layout = self.layout;
            let is_framed = moving.old.as_ref().is_some_and(|place| place.kind.is_framed());
            let decode = |stored: &[u8]| {
                let (value, _) = read_stored(None, layout.namespace(moving.namespace), key, stored, None)?;
                Some(value).filter(|_| is_framed)
            };
            let sample = self.sample(moving.namespace);
            sample.count_own();
            if let [ttl, len, value] = values.as_slice() {
                sample.weigh_own(key, moving.old.as_ref(), [ttl, len, value], decode);
            }
        }
        Ok(())
    }

    /// Whether a key is of the type that its namespace moves; those of another are noted.
    fn is_of_type(&mut self, namespace: NamespaceIndex, key: &[u8], reply: &[u8], moved: &str) -> bool {
        let family = self.families.entry(namespace.0).or_default();
        let kind = String::from_utf8_lossy(reply).trim_start_matches('+').trim_end().to_owned();
        let is_moved = kind == moved;
        // One that is gone, and one that another node of the cluster has, or gets, are nobody's here.
        if is_moved {
            family.keys += 1;
        } else if kind != "none" && !kind.starts_with('-') {
            family.other_keys += 1;
            if family.others.len() < 20 {
                family.others.push((self.database, key.to_vec(), kind));
            }
        }
        is_moved
    }

    /// Whether a hash of the server has a field that expires. Which one is told of no hash as a whole.
    fn has_expiring_fields(&mut self) -> anyhow::Result<bool> {
        if let Some(known) = self.expiring_fields {
            return Ok(known);
        }
        let text = String::from_utf8_lossy(&self.server.ask::<Vec<u8>>(&[b"INFO", b"keyspace"])?).into_owned();
        let counts = |name: &str| text.split(name).skip(1).any(|rest| !rest.starts_with('0'));
        Ok(*self.expiring_fields.insert(counts("subexpiry=") || counts("keys_with_volatile_items=")))
    }

    /// Members are read once it is known how many there are: a server answers nobody else while it gives very many.
    fn take_own_collections(&mut self, keys: &[(Vec<u8>, Vec<u8>, Moving)]) -> anyhow::Result<()> {
        let kind_of = |moving: &Moving| self.layout.namespace(moving.namespace).collection();
        let known: Vec<_> =
            keys.iter().filter_map(|(physical, key, moving)| Some((physical, key, moving, kind_of(moving)?))).collect();
        let mut commands = Commands::default();
        for (physical, _, _, kind) in &known {
            commands.push(&[b"TYPE", physical]);
            commands.push(&[if *kind == CollectionKind::Set { b"SCARD" } else { b"HLEN" }, physical]);
        }
        let replies = self.ask(&commands)?;
        commands.clear();
        let mut read = Vec::new();
        let is_large = |reply: &[u8]| read_if::<u64>(reply).is_some_and(|members| members > MOST_MEMBERS);
        let have_expiring_fields = replies.iter().any(|reply| is_large(reply)) && self.has_expiring_fields()?;
        for ((physical, key, moving, kind), replies) in known.into_iter().zip(replies.chunks(2)) {
            let [of_type, members] = replies else { continue };
            if !self.is_of_type(moving.namespace, key, of_type, kind.name()) {
                continue;
            }
            let members = read_if::<u64>(members).unwrap_or(u64::MAX);
            let family = self.families.entry(moving.namespace.0).or_default();
            if kind == CollectionKind::Hash && members > MOST_MEMBERS && have_expiring_fields {
                family.keys -= 1;
                family.may_expire += 1;
                continue;
            }
            let at_once = moved_at_once(self.layout.namespace(moving.namespace));
            family.in_steps += u64::from(members > at_once);
            self.sample(moving.namespace).count_own();
            if self.is_sampled(sampled_by(key, moving.new.as_ref())) {
                commands.push(&[b"PTTL", physical]);
                let most = READ_OF_LARGE.to_string();
                match (kind, members > READ_WHOLE) {
                    (CollectionKind::Set, false) => commands.push(&[b"SMEMBERS", physical]),
                    (CollectionKind::Set, true) => commands.push(&[b"SRANDMEMBER", physical, most.as_bytes()]),
                    (CollectionKind::Hash, false) => commands.push(&[b"HGETALL", physical]),
                    (CollectionKind::Hash, true) => {
                        commands.push(&[b"HRANDFIELD", physical, most.as_bytes(), b"WITHVALUES"]);
                    }
                }
                // What a table takes depends on how it came to be.
                commands.push(&[b"OBJECT", b"ENCODING", physical]);
                commands.push(&[b"MEMORY", b"USAGE", physical]);
                read.push((key, moving.namespace, kind, members));
            }
        }
        let replies = self.ask(&commands)?;
        for ((key, namespace, kind, count), replies) in read.into_iter().zip(replies.chunks(4)) {
            let [ttl, members, encoding, usage] = replies else { continue };
            let Ok(Reply::Array(texts)) = Reply::parse(members) else { continue };
            let texts = texts.filter_map(Reply::bytes).map(<[u8]>::to_vec).collect();
            let collection = Collection::of_texts(kind, texts);
            let expires = matches!(Reply::parse(ttl), Ok(Reply::Integer(left)) if left >= 0);
            let told = read_if(usage).map(|usage| told_bytes(self.now, key, (kind, count, expires), encoding, usage));
            // These come into parts, also where they might be packed.
            if count > moved_at_once(self.layout.namespace(namespace)) {
                self.sample(namespace).weigh_large(key, &collection, count, Before::Own(told), expires);
                continue;
            }
            let packed = self.sample(namespace).weigh_own_collection(key, &collection, told, expires);
            self.families.entry(namespace.0).or_default().packed.add(packed);
        }
        Ok(())
    }

    /// Old buckets: how many fields each has, and of the sampled what they hold.
    fn take_buckets(&mut self, buckets: &[(NamespaceIndex, Vec<u8>)]) -> anyhow::Result<()> {
        let buckets = hashes::leave_out_others(self.server, self.layout, buckets, self.families)?;
        if buckets.is_empty() {
            return Ok(());
        }
        self.look_for_field_ttls(&buckets)?;
        let (sampled, others): (Vec<_>, Vec<_>) =
            buckets.into_iter().partition(|(_, name)| self.is_sampled(digest::name(name)));
        let mut commands = Commands::default();
        others.iter().for_each(|(_, name)| commands.push(&[b"HLEN", name]));
        for ((namespace, _), raw) in others.iter().zip(self.ask(&commands)?) {
            if let Some(fields) = read_if(&raw) {
                self.count_bucket(*namespace, fields);
            }
        }
        let all = self.read(&sampled)?;
        let spills = self.read_spills(&sampled, &all)?;
        for ((namespace, name), fields) in sampled.iter().zip(&all).filter(|(_, fields)| !fields.is_empty()) {
            let without_key = self.weigh_bucket(*namespace, name, fields, &spills);
            self.count_bucket(*namespace, fields.len() as u64 - without_key);
        }
        let own = sampled.iter().zip(&all).filter(|((_, name), _)| self.layout.packing_in(name).is_none());
        let in_parts = own.flat_map(|((namespace, name), fields)| {
            let parts = fields.iter().filter_map(|(field, stored)| Some((field, InParts::of(stored)?)));
            parts.map(|(field, parts)| (*namespace, name.as_slice(), field.as_slice(), parts))
        });
        self.weigh_parts(&in_parts.collect::<Vec<_>>())
    }

    /// Looks at all handmade hashes, not at the sample only: what expires with a field is lost in a move.
    fn look_for_field_ttls(&mut self, buckets: &[(NamespaceIndex, Vec<u8>)]) -> anyhow::Result<()> {
        let is_handmade = |(_, name): &&(NamespaceIndex, Vec<u8>)| self.layout.packing_in(name).is_some();
        let handmade: Vec<_> = buckets.iter().filter(is_handmade).cloned().collect();
        if handmade.is_empty() || !self.has_expiring_fields()? {
            return Ok(());
        }
        let fields = self.read(&handmade)?;
        hashes::look_for_field_ttls(self.server, handmade.iter().zip(&fields), self.families)
    }

    /// Weighs sets and hashes in parts, of each of which some members are read.
    fn weigh_parts(&mut self, all: &[(NamespaceIndex, &[u8], &[u8], InParts)]) -> anyhow::Result<()> {
        if all.is_empty() {
            return Ok(());
        }
        let mut commands = Commands::default();
        InParts::prepare(&mut commands);
        all.iter().for_each(|(_, bucket, field, parts)| parts.draw(bucket, field, &mut commands));
        let replies = self.ask(&commands)?;
        for ((namespace, bucket, field, parts), reply) in all.iter().zip(&replies[1..]) {
            let Some(known) = Reply::parse(reply).ok().and_then(|reply| parts.drawn(reply)) else { continue };
            let Some(key) = self.layout.key_of(*namespace, bucket, field) else { continue };
            self.sample(*namespace).weigh_large(&key, &known, parts.members, Before::InParts, parts.expires);
            let family = self.families.entry(namespace.0).or_default();
            family.in_steps += u64::from(parts.members > moved_at_once(self.layout.namespace(*namespace)));
        }
        Ok(())
    }

    /// The fields of buckets, a step of each at a time; none of what is no hash, or gone.
    fn read(&mut self, buckets: &[(NamespaceIndex, Vec<u8>)]) -> anyhow::Result<Vec<Fields>> {
        let mut walks: Vec<_> = buckets.iter().map(|(namespace, name)| BucketWalk::new(*namespace, name)).collect();
        let mut all = vec![Fields::new(); buckets.len()];
        let mut left: Vec<usize> = (0..buckets.len()).collect();
        while !left.is_empty() {
            let mut commands = Commands::default();
            left.iter().for_each(|at| commands.walk_bucket(&walks[*at]));
            let mut steps = self.ask(&commands)?.into_iter();
            left.retain(|at| {
                let step = steps.next().unwrap_or_default();
                let taken = Reply::parse(&step).ok().and_then(|reply| walks[*at].take(reply).ok());
                let goes_on = taken.is_some() && !walks[*at].is_over();
                let fields = taken.into_iter().flatten();
                all[*at].extend(fields.map(|(field, stored)| (field.to_vec(), stored.to_vec())));
                goes_on
            });
        }
        Ok(all)
    }

    /// The spilled values of these buckets, by their names. Of a string that no codec wrote, nor will, only how long it is matters.
    fn read_spills(
        &mut self,
        buckets: &[(NamespaceIndex, Vec<u8>)],
        all: &[Fields],
    ) -> anyhow::Result<BTreeMap<Vec<u8>, Spilled>> {
        let mut wanted = Vec::new();
        for ((namespace, bucket), fields) in buckets.iter().zip(all) {
            let its = self.layout.namespace(*namespace);
            let is_taken_as_it_is = its.collection().is_none() && its.codecs.written().is_none();
            wanted.extend(fields.iter().filter_map(|(field, stored)| {
                let key = self.layout.key_of(*namespace, bucket, field)?;
                let (name, is_coded) = spill_of(bucket, &key, stored)?;
                Some((name, is_taken_as_it_is && !is_coded))
            }));
        }
        let mut spills = BTreeMap::new();
        for wanted in wanted.chunks(AT_ONCE) {
            let mut commands = Commands::default();
            let last = CODED_UP_TO_BYTES.to_string();
            for (name, by_length) in wanted {
                match by_length {
                    true => commands.push(&[b"STRLEN", name]),
                    false => commands.push(&[b"GETRANGE", name, b"0", last.as_bytes()]),
                }
            }
            for ((name, _), reply) in wanted.iter().zip(self.ask(&commands)?) {
                let spilled = match Reply::parse(&reply) {
                    // Beyond that it takes as much in either place.
                    Ok(Reply::Integer(len)) => Spilled::OfBytes(u64::try_from(len)?.min(CODED_UP_TO_BYTES)),
                    Ok(Reply::Bulk(stored)) if stored.len() as u64 <= CODED_UP_TO_BYTES => {
                        Spilled::Read(stored.to_vec())
                    }
                    _ => continue,
                };
                if !spilled.stored().is_empty() {
                    spills.insert(name.clone(), spilled);
                }
            }
        }
        Ok(spills)
    }

    fn ask(&mut self, commands: &Commands) -> anyhow::Result<Vec<Vec<u8>>> {
        self.pace.spend(commands.len() as u64);
        self.server.ask_all(commands)
    }

    fn count_bucket(&mut self, namespace: NamespaceIndex, fields: u64) {
        self.sample(namespace).count_bucket(fields);
        self.families.entry(namespace.0).or_default().keys += fields;
    }

    /// Returns how many of its fields are the place of no key.
    fn weigh_bucket(
        &mut self,
        namespace: NamespaceIndex,
        name: &[u8],
        fields: &Fields,
        spills: &BTreeMap<Vec<u8>, Spilled>,
    ) -> u64 {
        let (mut bucket, mut without_key) = (BucketCost::default(), 0);
        let packing = self.layout.packing_in(name);
        if packing.is_some() {
            self.families.entry(namespace.0).or_default().hashes.note_read(fields.len());
        }
        for (field, stored) in fields {
            bucket.add(self.model, ValueShape::of(field), ValueShape::of(stored));
            let Some(key) = self.layout.key_of(namespace, name, field) else {
                without_key += 1;
                self.sample(namespace).note_no_key();
                if packing.is_some() {
                    self.families.entry(namespace.0).or_default().hashes.note_no_key(name, field);
                }
                continue;
            };
            if packing.is_none() && InParts::of(stored).is_some() {
                // Weighed by some of its members.
                continue;
            }
            let spill = spill_of(name, &key, stored).and_then(|(name, _)| spills.get_key_value(&name));
            let spilled = spill.map(|(name, spilled)| (name.len(), spilled.stored()));
            let value = spilled.as_ref().map(|(_, stored)| &**stored);
            let read = read_stored(packing, self.layout.namespace(namespace), &key, stored, value);
            let Some((value, expires_at_ms)) = read else { continue };
            if let Some((name_len, stored)) = spilled {
                self.sample(namespace).weigh_spill(name_len, &stored);
            }
            let is_packed = self.layout.namespace(namespace).collection().is_some();
            match Collection::unpack(&value).ok().filter(|_| is_packed) {
                Some(collection) => self.sample(namespace).weigh_collection(&key, &collection, expires_at_ms),
                None => self.sample(namespace).weigh_field(&key, &value, expires_at_ms),
            }
        }
        self.sample(namespace).weigh_bucket(name, &bucket);
        without_key
    }

    /// Hands on what each namespace's sample of this database says of it: how full new buckets will be, and what keys take.
    /// Returns what all of them take.
    fn note_samples(&mut self) -> Weighed {
        let note = |(index, sample): (&usize, &Sample<'_>)| {
            let family = self.families.entry(*index).or_default();
            sample.fills().for_each(|entries| family.filling.add(entries));
            let weighed = sample.weighed();
            family.old_bytes += weighed.old_bytes;
            family.new_bytes += weighed.new_bytes;
            weighed
        };
        self.samples.iter().map(note).sum()
    }

    fn is_sampled(&self, digest: u128) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "any 32 bits of a digest do")]
        let point = f64::from(digest as u32) / f64::from(u32::MAX);
        point <= self.share
    }

    fn sample(&mut self, namespace: NamespaceIndex) -> &mut Sample<'m> {
        self.samples.entry(namespace.0).or_insert_with(|| Sample::new(self.now, self.model, self.layout))
    }
}

/// What a set or hash of its own takes by what the server says of it, without its share of the table of keys.
fn told_bytes(
    model: &Model,
    key: &[u8],
    (kind, members, has_expiry): (CollectionKind, u64, bool),
    encoding: &[u8],
    usage: u64,
) -> u64 {
    let of = match kind {
        CollectionKind::Set => Tabled::Set,
        CollectionKind::Hash => Tabled::Hash,
    };
    let is_table = Reply::parse(encoding).ok().and_then(|reply| reply.bytes()) == Some(b"hashtable");
    survey::told_bytes(model, key.len() as u64, usage, is_table.then_some((of, members)), has_expiry)
}

/// What is known of a spilled value.
enum Spilled {
    Read(Vec<u8>),
    OfBytes(u64),
}

impl Spilled {
    /// What is stored, or something as long.
    fn stored(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Read(stored) => stored.into(),
            Self::OfBytes(len) => vec![b'x'; usize::try_from(*len).unwrap_or(0)].into(),
        }
    }
}

/// The name of the spilled value that a field of a bucket points to, and whether a codec wrote that.
fn spill_of(bucket: &[u8], key: &[u8], stored: &[u8]) -> Option<(Vec<u8>, bool)> {
    match Frame::decode(stored).ok()?.body {
        Body::Spill { nonce, slot } => Some((spill_name(Layout::origin_of(bucket)?, nonce, key), slot.is_some())),
        _ => None,
    }
}

/// A value of a bucket, and a time where it expires; none where it can't be read.
fn read_stored(
    packing: Option<Packing>,
    namespace: &Namespace,
    key: &[u8],
    stored: &[u8],
    spilled: Option<&[u8]>,
) -> Option<(Vec<u8>, Option<i64>)> {
    if let Some(packing) = packing {
        return Some((packing.unpack(stored).ok()?.into_owned(), None));
    }
    let frame = Frame::decode(stored).ok()?;
    let value = match frame.body {
        // Too long to be read, or gone: as it is, it stays outside of buckets on both sides.
        Body::Spill { .. } if spilled.is_none() => Vec::new(),
        _ => namespace.decode(key, &frame, spilled).ok()??.into_owned(),
    };
    Some((value, frame.expires_at_ms.map(|_| SOME_TIME_MS)))
}

/// What decides whether a key is in the sample: the bucket that it goes to, or itself.
fn sampled_by(key: &[u8], new: Option<&Place>) -> u128 {
    match new {
        Some(place) if place.kind.is_bucket() => digest::name(&place.physical),
        _ => digest::name(key),
    }
}
