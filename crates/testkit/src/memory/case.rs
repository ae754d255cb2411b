//! One set of data and the way it is held.

use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::layout::Layout;
use keyfold_core::memory::{BucketCost, Keyspace, Limits, Model, Placed, SetCost, ValueShape};

use crate::cluster::SLOTS;
use crate::coded::{Pair, train};
use crate::random::Random;

/// When the records that expire do, in milliseconds since 1970: in 2046.
pub const EXPIRES_AT_MS: i64 = 2_400_000_000_000;
/// How many records a bucket is to hold.
const PER_BUCKET: usize = 100;
/// Members and values of the made-up sets and hashes, in letters.
const LETTERS: usize = 24;

/// Members of a collection that lies in parts.
const LARGE_MEMBERS: usize = 1000;

/// A logical key and its value.
#[derive(Clone, Debug)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// Whether it expires, at [`EXPIRES_AT_MS`].
    pub expires: bool,
}

/// What a server is to hold.
#[derive(Clone, Debug)]
pub enum Data {
    /// Strings, as keys of their own.
    Strings(Vec<Record>),
    /// Strings, placed by a layout.
    Placed(Vec<Record>, Box<Layout>),
    /// Hashes: key, and fields with their values.
    Hashes(Vec<(Vec<u8>, Vec<Record>)>),
    /// Sets: key and members.
    Sets(Vec<(Vec<u8>, Vec<Vec<u8>>)>),
}

/// Data with a name, and the settings it is meant for.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is, for the table.
    pub name: String,
    /// The number of strings, fields or members.
    pub records: usize,
    /// What is loaded.
    pub data: Data,
    /// The server's settings.
    pub limits: Limits,
    /// Whether the server is a node of a cluster.
    pub in_cluster: bool,
}

impl Case {
    /// Strings as keys of their own.
    pub fn plain(name: &str, records: Vec<Record>) -> Self {
        Self::new(format!("{name}, plain"), records.len(), Data::Strings(records))
    }

    /// Strings placed by the layout in `text`, in which `COUNT` is as many buckets as hold 100 each, at least two, on a
    /// server that takes the layout's values.
    ///
    /// # Panics
    /// Where the text is no layout.
    pub fn folded(name: &str, records: Vec<Record>, text: &str) -> Self {
        let count = (records.len() / PER_BUCKET).max(2);
        let layout = Layout::parse_file(&text.replace("COUNT", &count.to_string())).expect("a layout");
        let value_limit = layout.namespaces().iter().map(|namespace| namespace.value_limit).max().unwrap_or(0);
        let mut limits = Limits::default();
        limits.hash_value_bytes = limits.hash_value_bytes.max(value_limit as u64);
        let data = Data::Placed(records, Box::new(layout));
        Self { limits, ..Self::new(format!("{name}, folded"), 0, data).counted() }
    }

    /// The same on a node of a cluster.
    #[must_use]
    pub fn in_cluster(self) -> Self {
        Self { in_cluster: true, ..self }
    }

    /// Strings placed by a layout, on a server that takes its values and fields.
    pub fn placed(name: &str, records: Vec<Record>, layout: Layout) -> Self {
        let limits_of = layout.namespaces().iter().map(|namespace| namespace.value_limit.max(namespace.field_limit));
        let needed = limits_of.max().unwrap_or(0);
        let mut limits = Limits::default();
        limits.hash_value_bytes = limits.hash_value_bytes.max(needed as u64);
        Self { limits, ..Self::new(name.to_owned(), records.len(), Data::Placed(records, Box::new(layout))) }
    }

    fn new(name: String, records: usize, data: Data) -> Self {
        Self { name, records, data, limits: Limits::default(), in_cluster: false }
    }

    fn counted(mut self) -> Self {
        self.records = match &self.data {
            Data::Strings(records) | Data::Placed(records, _) => records.len(),
            Data::Hashes(hashes) => hashes.iter().map(|(_, fields)| fields.len()).sum(),
            Data::Sets(sets) => sets.iter().map(|(_, members)| members.len()).sum(),
        };
        self
    }

    /// What `model`, which knows the case's limits, says that it takes.
    pub fn predict(&self, model: &Model) -> u64 {
        match &self.data {
            Data::Strings(records) => {
                let mut keyspace = Keyspace::new(model);
                for Record { key, value, expires } in records {
                    keyspace.add_string(key.as_slice(), ValueShape::of(value), *expires);
                }
                keyspace.total_bytes()
            }
            Data::Placed(records, layout) => {
                let mut placed = Placed::new(model, layout);
                for Record { key, value, expires } in records {
                    placed.add(key, value, expires.then_some(EXPIRES_AT_MS));
                }
                placed.total_bytes()
            }
            Data::Hashes(hashes) => {
                let mut keyspace = Keyspace::new(model);
                for (key, fields) in hashes {
                    let mut hash = BucketCost::default();
                    for field in fields {
                        hash.add(model, ValueShape::of(&field.key), ValueShape::of(&field.value));
                    }
                    keyspace.add_hash(key.as_slice(), &hash, false);
                }
                keyspace.total_bytes()
            }
            Data::Sets(sets) => {
                let mut keyspace = Keyspace::new(model);
                for (key, members) in sets {
                    let mut set = SetCost::default();
                    members.iter().for_each(|member| set.add(model, ValueShape::of(member)));
                    keyspace.add_set(key.as_slice(), &set, false);
                }
                keyspace.total_bytes()
            }
        }
    }
}

/// The made-up cases, of about so many records each.
pub fn seeded(records: usize) -> Vec<Case> {
    let mut cases = vec![
        Case::plain("int → int", ints(records, false)),
        Case::folded("int → int", ints(records, false), &namespace("user:{id:int}", "bucket = { span = 128 }")),
        Case::plain("int → int, TTL", ints(records, true)),
        Case::folded("int → int, TTL", ints(records, true), &namespace("user:{id:int}", "bucket = { count = COUNT }")),
        Case::plain("uuid → 24 letters", uuids(records, false)),
        Case::folded(
            "uuid → 24 letters",
            uuids(records, false),
            &namespace("sess:{id:uuid}", "bucket = { count = COUNT }"),
        ),
        Case::plain("uuid → 24 letters, TTL", uuids(records, true)),
        Case::folded(
            "uuid → 24 letters, TTL",
            uuids(records, true),
            &namespace("sess:{id:uuid}", "bucket = { count = COUNT }"),
        ),
        Case::folded("uuid → 24 letters, zipped", uuids(records, true), &namespace("sess:{id:uuid}", "")),
        Case::folded(
            "mixed lengths, spilling",
            mixed(records),
            &namespace("page:{path}", "bucket = { count = COUNT }"),
        ),
    ];
    let packed = |name: &str, kind: CollectionKind, collections: Vec<Record>| {
        let rule = format!("bucket = {{ count = COUNT }}\ntype = \"{kind}\"\nvalue_limit = 192");
        Case::folded(name, collections, &namespace("kept:{id:int}", &rule))
    };
    cases.push(packed("sets of 5 × 24 letters", CollectionKind::Set, packed_sets(records)));
    cases.push(packed("sessions of 5 fields", CollectionKind::Hash, packed_sessions(records)));
    cases.push(sessions_by_a_vocabulary(records));
    cases.push(packed("sets of 1,000 in parts", CollectionKind::Set, large(records, CollectionKind::Set)));
    cases.push(packed("hashes of 1,000 in parts", CollectionKind::Hash, large(records, CollectionKind::Hash)));
    cases.extend([120, 500].map(|members| sets(records, members)));
    cases.extend([(120, 24), (500, 24), (600, 24), (1500, 24), (100, 100)].map(|(n, len)| hashes(records, n, len)));
    cases
}

/// Made-up cases for a node of a cluster, of so many records each.
pub fn seeded_in_cluster(records: usize) -> Vec<Case> {
    let bucket = buckets_in_slots(records);
    let mut cases = ints_and_uuids_in_cluster(records, false);
    cases.extend(ints_and_uuids_in_cluster(records, true));
    let others = [
        folded_by_slot(
            "uuid → 24 letters, 3 a slot",
            uuids(records, false),
            "sess:{id:uuid}",
            "bucket = { count = 3 }",
        ),
        folded_by_slot("uuid → 24 letters, zipped", uuids(records, true), "sess:{id:uuid}", ""),
        Case::plain("mixed lengths", mixed(records)),
        folded_by_slot("mixed lengths, spilling", mixed(records), "page:{path}", &bucket),
        Case::plain("hash tags", carts(records)),
        folded_by_slot("hash tags", carts(records), "cart:{{{user:int}}}:{item:int}", "bucket = { by = \"user\" }"),
    ];
    cases.extend(others.map(Case::in_cluster));
    cases
}

/// The two most usual kinds of records on a node of a cluster: as they are, and in as many buckets in each slot as hold
/// about 100 each, at the least one.
pub fn ints_and_uuids_in_cluster(records: usize, expire: bool) -> Vec<Case> {
    let (int, uuid) = (if expire { "int → int, TTL" } else { "int → int" }, "uuid → 24 letters");
    let uuid = if expire { format!("{uuid}, TTL") } else { uuid.to_owned() };
    let bucket = buckets_in_slots(records);
    let books = || {
        let mut records = ints(records, expire);
        records.iter_mut().for_each(|record| record.key.splice(..4, *b"set-allBooksBelongToUser").for_each(drop));
        records
    };
    let cases = [
        Case::plain(int, books()),
        folded_by_slot(int, books(), "set-allBooksBelongToUser:{id:int}", &bucket),
        Case::plain(&uuid, uuids(records, expire)),
        folded_by_slot(&uuid, uuids(records, expire), "sess:{id:uuid}", &bucket),
    ];
    cases.map(Case::in_cluster).into()
}

fn folded_by_slot(name: &str, records: Vec<Record>, keys: &str, rule: &str) -> Case {
    Case::folded(name, records, &format!("cluster = true\n{}", namespace(keys, rule)))
}

fn buckets_in_slots(records: usize) -> String {
    format!("bucket = {{ count = {} }}", (records / usize::from(SLOTS) / PER_BUCKET).max(1))
}

fn namespace(keys: &str, placement: &str) -> String {
    format!("[[namespace]]\nkeys = \"{keys}\"\n{placement}\n")
}

/// `user:1000000` and on, each a number of 31 bits.
fn ints(records: usize, expires: bool) -> Vec<Record> {
    let mut random = Random::new(1);
    let record = |id| Record {
        key: format!("user:{}", 1_000_000 + id).into_bytes(),
        value: random.below(1 << 31).to_string().into_bytes(),
        expires,
    };
    (0..records).map(record).collect()
}

/// `sess:` and a uuid, each 24 letters.
fn uuids(records: usize, expires: bool) -> Vec<Record> {
    let mut random = Random::new(2);
    let record = |_| Record { key: uuid(&mut random), value: letters(&mut random, LETTERS), expires };
    (0..records).map(record).collect()
}

/// Keys and values of many lengths, numbers among them, one in four expiring.
fn mixed(records: usize) -> Vec<Record> {
    let mut random = Random::new(3);
    let record = |id: usize| {
        let (key_len, value_len) = (random.index(60), random.index(90));
        let key = [format!("page:{id}/").into_bytes(), letters(&mut random, key_len)].concat();
        let value = match random.below(3) {
            0 => random.below(20_000).to_string().into_bytes(),
            _ => letters(&mut random, value_len),
        };
        Record { key, value, expires: random.chance(25) }
    };
    (0..records).map(record).collect()
}

/// `cart:{1000000}:7`: all of one user's, which are 1 to 79, in one slot.
fn carts(records: usize) -> Vec<Record> {
    let mut random = Random::new(7);
    let carts = (1_000_000..).flat_map(|user| (0..=random.below(79)).map(move |item| (user, item)));
    let record = |(user, item): (u64, u64)| Record {
        key: format!("cart:{{{user}}}:{item}").into_bytes(),
        value: (user * 31 + item).to_string().into_bytes(),
        expires: false,
    };
    carts.take(records).map(record).collect()
}

/// Sets of five members as folding keeps them, of letters or, one in three, of integers; one in four expires.
fn packed_sets(records: usize) -> Vec<Record> {
    let mut random = Random::new(8);
    (0..records)
        .map(|id| {
            let members = (0..5).map(|_| match id % 3 {
                0 => random.below(100_000_000).to_string().into_bytes(),
                _ => letters(&mut random, LETTERS),
            });
            kept(id, &Collection::of_texts(CollectionKind::Set, members.collect()), id % 4 == 0)
        })
        .collect()
}

/// Hashes of a user, an address, an agent, a token and a time, as folding keeps them; all expire.
fn packed_sessions(records: usize) -> Vec<Record> {
    let mut random = Random::new(9);
    (0..records)
        .map(|id| {
            let agent = format!("Mozilla/5.0 (X11; Linux x86_64) rv:{}", 60 + random.below(70));
            let fields = [
                ("uid", random.below(10_000_000).to_string().into_bytes()),
                ("ip", format!("10.{}.{}.{}", random.below(256), random.below(256), random.below(256)).into_bytes()),
                ("ua", agent.into_bytes()),
                ("csrf", format!("{:016x}", random.bits()).into_bytes()),
                ("seen", (1_700_000_000 + random.below(10_000_000)).to_string().into_bytes()),
            ];
            let texts = fields.into_iter().flat_map(|(name, value)| [name.as_bytes().to_vec(), value]).collect();
            kept(id, &Collection::of_texts(CollectionKind::Hash, texts), true)
        })
        .collect()
}

/// The same by a vocabulary that was trained by some of them.
fn sessions_by_a_vocabulary(records: usize) -> Case {
    let sessions = packed_sessions(records);
    let pairs: Vec<Pair<'_>> = sessions.iter().take(1000).map(|record| (&record.key[..], &record.value[..])).collect();
    let (learn, judge) = pairs.split_at(pairs.len() * 3 / 4);
    let count = (records / PER_BUCKET).max(1);
    let rule = format!("bucket = {{ count = {count} }}\ntype = \"hash\"\nvalue_limit = 192\ncodec = \"fields\"");
    let layout = Layout::parse_file(&namespace("kept:{id:int}", &rule)).expect("a layout");
    let trained = train(&layout, learn, judge, records as u64);
    assert!(trained.namespaces()[0].codecs.written().is_some(), "there is something to learn");
    Case::placed("sessions of 5 fields by a vocabulary, folded", sessions, trained)
}

/// Sets of a thousand integers or letters, and hashes of a thousand fields, which lie in parts.
fn large(records: usize, kind: CollectionKind) -> Vec<Record> {
    let mut random = Random::new(11);
    (0..(records / LARGE_MEMBERS).max(20))
        .map(|id| {
            let texts = (0..LARGE_MEMBERS).flat_map(|member| match kind {
                CollectionKind::Set if id % 2 == 0 => vec![(10_000_000 + member * 7919).to_string().into_bytes()],
                CollectionKind::Set => vec![letters(&mut random, LETTERS)],
                CollectionKind::Hash => {
                    vec![format!("item{member:07}").into_bytes(), random.below(1 << 20).to_string().into_bytes()]
                }
            });
            kept(id, &Collection::of_texts(kind, texts.collect()), false)
        })
        .collect()
}

fn kept(id: usize, collection: &Collection, expires: bool) -> Record {
    Record { key: format!("kept:{}", 1_000_000 + id).into_bytes(), value: collection.packed(), expires }
}

/// Sets of 24 letters a member.
fn sets(records: usize, members: usize) -> Case {
    let mut random = Random::new(4);
    let set = |id| (format!("set:{id}").into_bytes(), (0..members).map(|_| letters(&mut random, LETTERS)).collect());
    let sets = (0..(records / members).max(1)).map(set).collect();
    Case::new(format!("sets of {members}"), 0, Data::Sets(sets)).counted()
}

/// Hashes with fields of 14 letters.
fn hashes(records: usize, fields: usize, value_len: usize) -> Case {
    let mut random = Random::new(5);
    let mut field = || Record { key: letters(&mut random, 14), value: letters(&mut random, value_len), expires: false };
    let hash = |id| (format!("hash:{id}").into_bytes(), (0..fields).map(|_| field()).collect());
    let hashes = (0..(records / fields).max(1)).map(hash).collect();
    Case::new(format!("hashes of {fields}, values of {value_len}"), 0, Data::Hashes(hashes)).counted()
}

fn letters(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| *random.pick(b"abcdefghijklmnopqrstuvwxyz")).collect()
}

fn uuid(random: &mut Random) -> Vec<u8> {
    let (high, low) = (random.bits() & !0xf000 | 0x4000, random.bits() >> 2 | 1 << 63);
    let (a, b, c, d, e) = (high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff);
    format!("sess:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}").into_bytes()
}
