//! The promise of a choice, held against the core's own placement of every key.

use std::collections::HashMap;
use std::num::NonZero;

use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::layout::{Layout, Located};
use keyfold_core::memory::{Limits, Model, PartsCost, Placed, Server, ValueShape};
use keyfold_core::template::Template;
use keyfold_testkit::random::Random;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::judge::MOST_ENTRIES;
use super::*;
use crate::codec::Record;
use crate::population::{Blocks, SampledKey};
use crate::sample::{Block, BlockSample};

/// How keys of a kind are made: the i-th.
type Generator = fn(u64, &mut Random) -> String;

fn uuid(high: u64, low: u64) -> String {
    let low = low >> 2 | 1 << 63;
    let (a, b, c, d, e) = (high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff);
    format!("sess:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

/// A clock of 100 ns that starts anywhere, low bits first; the node and the sequence never change.
fn uuid_v1(i: u64, random: &mut Random) -> String {
    let time = 0x01ef_1234_5678_0000 + i * 7919 + random.below(1000);
    let high = (time & 0xffff_ffff) << 32 | (time >> 32 & 0xffff) << 16 | 0x1000 | time >> 48;
    uuid(high, 0x9abc_0242_ac11_0002 << 2)
}

fn uuid_v4(_: u64, random: &mut Random) -> String {
    uuid(random.bits() & !0xf000 | 0x4000, random.bits())
}

/// Milliseconds, then chance.
fn uuid_v7(i: u64, random: &mut Random) -> String {
    uuid((1_726_000_000_000 + i * 3) << 16 | 0x7000 | random.below(1 << 12), random.bits())
}

/// 128 bits of chance written as a uuid, as databases make them of an MD5: of any variant and version.
fn uuid_of_chance(_: u64, random: &mut Random) -> String {
    let (high, low) = (random.bits(), random.bits());
    let (a, b, c, d, e) = (high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffff_ffff_ffff);
    format!("sess:{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

/// Each kind of ids, with the template that analysis would find.
const KINDS: [(&str, &str, Generator); 16] = [
    ("dense", "user:{id:int}", |i, _| format!("user:{}", 1_000_000 + i)),
    ("dense from 0, padded", "user:{id:int(9)}", |i, _| format!("user:{i:09}")),
    ("one in 100", "user:{id:int}", |i, random| format!("user:{}", i * 100 + random.below(100))),
    ("one in 2", "user:{id:int}", |i, random| format!("user:{}", i * 2 + random.below(2))),
    ("one in 5", "user:{id:int}", |i, random| format!("user:{}", i * 5 + random.below(5))),
    ("runs of 300", "user:{id:int}", |i, _| format!("user:{}", i / 300 * 10_007 + i % 300)),
    ("runs of 20", "user:{id:int}", |i, _| format!("user:{}", i / 20 * 1000 + i % 20)),
    ("skewed", "user:{id:int}", |i, random| format!("user:{}", i * i / 64 * 8 + random.below(8))),
    ("timestamps", "e:{ms:int}", |i, random| format!("e:{}", 1_726_000_000_000 + i * 40 + random.below(40))),
    ("uuid v1", "sess:{id:uuid}", uuid_v1),
    ("uuid v4", "sess:{id:uuid}", uuid_v4),
    ("uuid v7", "sess:{id:uuid}", uuid_v7),
    ("uuid of chance", "sess:{id:uuid}", uuid_of_chance),
    ("hex", "h:{id:hex}", |_, random| format!("h:{:016x}", random.bits())),
    ("short hex", "h:{id:hex}", |_, random| format!("h:{:012x}", random.below(1 << 48))),
    ("text", "w:{word}", |i, random| format!("w:{:x}-{i}", random.below(1 << 20))),
];

struct Family {
    template: Template,
    keys: Vec<Vec<u8>>,
}

impl Family {
    fn new(template: &str, keys: impl Iterator<Item = String>) -> Self {
        let mut keys: Vec<_> = keys.map(String::into_bytes).collect();
        keys.sort();
        keys.dedup();
        Self { template: Template::parse(template).unwrap(), keys }
    }

    fn generated(template: &str, keys: u64, generator: Generator) -> Self {
        let mut random = Random::new(keys);
        Self::new(template, (0..keys).map(|i| generator(i, &mut random)))
    }

    fn of_kind(name: &str, keys: u64) -> Self {
        let (_, template, generator) = KINDS.into_iter().find(|kind| kind.0 == name).unwrap();
        Self::generated(template, keys, generator)
    }

    fn value(key: &[u8]) -> Vec<u8> {
        let sum = key.iter().fold(1_u64, |sum, byte| sum.wrapping_mul(31) + u64::from(*byte));
        (sum % (1 << 31)).to_string().into_bytes()
    }

    fn choose(&self, max_bytes: usize, aims: &Aims) -> Choice {
        let ids = self.template.placeholders()[0].kind.is_int();
        let mut sample = BlockSample::new(max_bytes);
        for key in &self.keys {
            let id = || -> Option<u64> {
                let digits = key.split(|byte| !byte.is_ascii_digit()).find(|run| !run.is_empty())?;
                std::str::from_utf8(digits).ok()?.parse().ok()
            };
            let block = if ids { Block::of_id(id().unwrap()) } else { Block::of_bytes(key) };
            sample.offer(block, (0, key), ValueShape::of(&Self::value(key)), false);
        }
        let (kept, within) = (sample.kept_blocks(), sample.kept_within());
        let blocks = if ids { Blocks::Ids(0) } else { Blocks::Keys };
        let sample: Vec<SampledKey> = sample.into_keys();
        choose(
            &Population {
                template: &self.template,
                collection: None,
                keys: self.keys.len() as u64,
                sample: &sample,
                blocks,
                kept,
                within,
                slots_seen: 1.0,
            },
            aims,
        )
    }

    /// The layout of a choice.
    fn layout(&self, choice: &Choice) -> Layout {
        let Rule { placement, value_limit, field_limit } = &choice.rule;
        let line = placement.lines(&self.template);
        let keys = self.template.source();
        let text = format!(
            "[[namespace]]\nkeys = {keys:?}\n{line}\nvalue_limit = {value_limit}\nfield_limit = {field_limit}\n"
        );
        Layout::parse_file(&text).unwrap()
    }

    /// The true fill of its buckets.
    fn fill(&self, layout: &Layout) -> Fill {
        let mut buckets: HashMap<Vec<u8>, u64> = HashMap::new();
        for key in &self.keys {
            if let Located::Placed(place) = layout.locate(key)
                && place.kind.is_bucket()
            {
                *buckets.entry(place.physical.into_vec()).or_default() += 1;
            }
        }
        Fill::new(buckets.into_values().collect())
    }
}

fn aims() -> Aims {
    let server = Server::redis(7, 0);
    Aims::new(Model::for_server(server), server, Limits::default())
}

/// Everything is in the sample.
const ALL: usize = 1 << 30;
/// A few thousand keys are.
const PART: usize = 1_200_000;

fn keeps_its_promise(name: &str, family: &Family, choice: &Choice, bytes_within: f64) {
    let layout = family.layout(choice);
    if choice.verdict == Verdict::Fold {
        let fill = family.fill(&layout);
        let scant = fill.below(LEAST_ENTRIES);
        // The bucket of the highest ids is still being filled.
        let spans = choice.rule.placement.as_span().is_some();
        let within = fill.share_within(MOST_ENTRIES) >= 0.99 || (spans && scant <= 1);
        assert!(within, "{name}: {scant} of {} are scant; {:?}", fill.buckets(), choice.rule);
        let no_room = choice.notes.iter().any(|note| note.starts_with("Room for"));
        assert!(no_room || fill.above(MOST_ENTRIES / 4 * 5 / 4) == 0, "{name}: no room to grow");
    }
    let model = aims().model;
    let mut placed = Placed::new(&model, &layout);
    family.keys.iter().for_each(|key| placed.add(key, &Family::value(key), None));
    let (true_bytes, promised) = (placed.total_bytes() as f64, choice.bytes_after as f64);
    let off = promised / true_bytes - 1.0;
    assert!(off.abs() < bytes_within, "{name}: promised {promised}, takes {true_bytes}, {off}; {:?}", choice.rule);
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn all_ids_seen_buckets_are_filled_as_promised() {
    for (name, template, generator) in KINDS {
        for keys in [1000, 50_000] {
            let family = Family::generated(template, keys, generator);
            let choice = family.choose(ALL, &aims());
            keeps_its_promise(&format!("{name}, {keys}"), &family, &choice, 0.001);
            assert_eq!(choice.verdict, Verdict::Fold, "{name}, {keys}");
        }
    }
}

#[test]
fn some_ids_seen_buckets_are_filled_as_promised() {
    for (name, template, generator) in KINDS {
        let family = Family::generated(template, 200_000, generator);
        let choice = family.choose(PART, &aims());
        keeps_its_promise(name, &family, &choice, 0.03);
        assert_eq!(choice.verdict, Verdict::Fold, "{name}");
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn strides_equal_to_the_count_fill_buckets_too() {
    for stride in [126, 128, 500, 512, 1000] {
        let strided = |stride| Family::new("a:{id:int}", (0..60_000_u64).map(move |i| format!("a:{}", i * stride)));
        let choice = strided(stride).choose(ALL, &aims());
        keeps_its_promise(&format!("stride {stride}"), &strided(stride), &choice, 0.001);
        // And with a stride of the very count that was chosen.
        let Some(count) = choice.rule.placement.as_count() else { panic!("{choice:?}") };
        let family = strided(count.count());
        let choice = family.choose(ALL, &aims());
        keeps_its_promise(&format!("stride {}", count.count()), &family, &choice, 0.001);
    }
}

#[test]
fn dense_ids_share_a_span_that_fills_a_size_class() {
    let family = Family::generated(KINDS[0].1, 100_000, KINDS[0].2);
    let choice = family.choose(ALL, &aims());
    // 7 bytes and 8 for each entry: 127 of them fit into 1,024.
    assert_eq!(choice.rule.placement.line(&family.template), "bucket = { span = 127 }", "{:#?}", choice.alternatives);
    let at_128 = choice.alternatives.iter().find(|other| other.what.contains("span = 128")).unwrap();
    assert!(at_128.bytes as f64 > 1.15 * choice.bytes_after as f64, "{at_128:?}");
    assert!(choice.curve.len() > 8 && choice.curve.contains(&choice.chosen.unwrap()));
    assert!(choice.relies_on.iter().all(Setting::is_met));
}

/// What a survey keeps of a family.
const SURVEYED: usize = crate::summary::SAMPLE_BYTES;
/// Ids that a *count* spreads as chance does.
const SPREAD: [&str; 6] = ["uuid v4", "uuid v7", "uuid of chance", "hex", "short hex", "one in 100"];

/// The choice for keys that there may be so many times as many of, one day: with room for them, and what it says
/// of other counts is true.
fn leaves_room(name: &str, keys: u64, max_bytes: usize, growth: u64) {
    let family = Family::of_kind(name, keys);
    let choice = family.choose(max_bytes, &Aims { growth: growth as f64, ..aims() });
    let case = format!("{name}, {keys} keys, sample of {max_bytes} bytes, growth {growth}");
    assert_eq!(choice.verdict, Verdict::Fold, "{case}");
    let layout = family.layout(&choice);
    let fill = family.fill(&layout);
    assert!(fill.share_within(MOST_ENTRIES) >= 0.99, "{case}: {} are scant", fill.below(LEAST_ENTRIES));
    let promised = choice.fill.as_ref().unwrap();
    for (share, within) in [(0.01, 0.12), (0.5, 0.04), (0.99, 0.12)] {
        let (promised, is) = (promised.quantile(share) as f64, fill.quantile(share) as f64);
        assert!((promised / is - 1.0).abs() < within, "{case}: {promised} entries at {share}, is {is}");
    }
    if keys * growth > 1_000_000 {
        return;
    }
    let grown = Family::of_kind(name, keys * growth).fill(&layout);
    let is_full = grown.quantile(0.999) > MOST_ENTRIES;
    let says_so = choice.notes.iter().any(|note| note.contains("instead of") && note.contains("keyfold fold"));
    let says_kinds = choice.notes.iter().any(|note| note.contains("buckets of their own"));
    assert!(!says_kinds, "{case}: {:?}", choice.notes);
    assert_eq!(is_full, says_so, "{case}: {} entries, grown; {:?}", grown.quantile(1.0), choice.notes);
    assert!(!is_full, "{case}: no room");
    for other in choice.alternatives.iter().filter(|other| other.what.contains("count")) {
        let count: f64 = other.what.trim_matches(|c: char| !c.is_ascii_digit()).parse().unwrap();
        let is_even = (60.0..400.0).contains(&(keys as f64 / count));
        assert!(!(is_even && other.why_not.contains("fewer than")), "{case}: {other:?}");
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn random_ids_leave_room_to_grow() {
    for name in SPREAD {
        for (keys, growth) in [(10_000, 1), (10_000, 4), (40_000, 2), (40_000, 4)] {
            for max_bytes in [ALL, SURVEYED] {
                leaves_room(name, keys, max_bytes, growth);
            }
        }
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn two_hundred_thousand_random_ids_leave_room_to_grow() {
    for name in SPREAD {
        leaves_room(name, 200_000, ALL, 1);
        for growth in [1, 2, 4] {
            leaves_room(name, 200_000, SURVEYED, growth);
        }
    }
}

#[test]
#[ignore = "takes long: `make test-long`"]
fn a_million_random_ids_leave_room_to_grow() {
    for (name, growth) in [("uuid v4", 4), ("uuid of chance", 2)] {
        leaves_room(name, 1_000_000, SURVEYED, growth);
    }
}

/// Names as packages have them: parts that come again and again, and a few letters of their own.
fn package(i: u64, random: &mut Random) -> String {
    let kind = ["lib", "python3-", "golang-github-", "node-"][usize::try_from(random.below(4)).unwrap()];
    let end = ["", "-dev", "-doc", "-common"][usize::try_from(random.below(4)).unwrap()];
    format!("pkg:{kind}{i:x}{end}")
}

#[test]
fn text_that_repeats_is_packed_by_a_table() {
    let with_tables = Aims { text_tables: true, ..aims() };
    for (keys, max_bytes, within) in [(3_000, ALL, 0.001), (50_000, ALL, 0.001), (200_000, PART, 0.03)] {
        let family = Family::generated("pkg:{name}", keys, package);
        let choice = family.choose(max_bytes, &with_tables);
        let case = format!("{keys} keys, sample of {max_bytes} bytes");
        assert_eq!(choice.verdict, Verdict::Fold, "{case}");
        assert!(choice.rule.placement.text_table().is_some(), "{case}: {:?}", choice.rule);
        keeps_its_promise(&case, &family, &choice, within);
        let without = family.choose(max_bytes, &Aims { text_tables: false, ..aims() });
        assert!(choice.bytes_after as f64 * 1.2 < without.bytes_after as f64, "{case}");
        let said = choice.notes.iter().any(|note| note.contains("packed by a table of"));
        let weighed =
            choice.alternatives.iter().any(|other| other.what == without.rule.placement.line(&family.template));
        assert!(said && weighed, "{case}: {:?} {:?}", choice.notes, choice.alternatives);
    }
}

#[test]
fn a_table_that_saves_too_little_is_not_taken() {
    let with_tables = Aims { text_tables: true, ..aims() };
    // All chance; too few keys for what a table takes itself; no text at all.
    let chance: Generator = |_, random| format!("w:{}", text_of_chance(random));
    for (template, keys, generator) in [("w:{word}", 20_000, chance), ("user:{id:int}", 20_000, KINDS[0].2)] {
        let choice = Family::generated(template, keys, generator).choose(ALL, &with_tables);
        assert_eq!(choice.verdict, Verdict::Fold, "{template}");
        assert!(choice.rule.placement.text_table().is_none(), "{template}: {:?}", choice.notes);
    }
}

/// Twelve characters, each of 80.
fn text_of_chance(random: &mut Random) -> String {
    (0..12).map(|_| char::from(u8::try_from(b'!' as u64 + random.below(80)).unwrap())).collect()
}

/// A node of a cluster, and places by slot.
fn cluster_aims(server: Server) -> Aims {
    let model = Model::for_server(server).in_cluster_mode(true);
    let aims = Aims::new(model, server, Limits::default());
    assert!(aims.by_slot);
    aims
}

/// What is promised of a family on a node of a cluster is what its keys take, one by one in their places.
fn keeps_its_promise_in_a_cluster(name: &str, family: &Family, max_bytes: usize, within: f64) {
    for server in [Server::redis(7, 0), Server::redis(8, 0), Server::valkey(8, 0), Server::valkey(9, 1)] {
        let aims = Aims { min_saving: 0.0, ..cluster_aims(server) };
        let choice = family.choose(max_bytes, &aims);
        let layout = family.layout(&choice);
        let plain = Layout::parse_file("").unwrap();
        for (layout, promised) in [(&plain, choice.bytes_now), (&layout, choice.bytes_after)] {
            let mut placed = Placed::new(&aims.model, layout);
            family.keys.iter().for_each(|key| placed.add(key, &Family::value(key), None));
            let off = promised as f64 / placed.total_bytes() as f64 - 1.0;
            assert!(off.abs() < within, "{server}, {name}: {off}; {:?}", choice.rule);
        }
        assert!(choice.rule.placement.is_plain() || choice.rule.placement.is_by_slot(), "{:?}", choice.rule);
    }
}

#[test]
fn all_keys_of_a_cluster_seen_their_bytes_are_as_promised() {
    for (name, keys) in [("dense", 30_000), ("uuid v4", 30_000), ("text", 5_000)] {
        keeps_its_promise_in_a_cluster(name, &Family::of_kind(name, keys), ALL, 0.001);
    }
    let tagged = (0..20_000).map(|i| format!("cart:{{{}}}:{}", i / 40 * 7919, i % 40));
    keeps_its_promise_in_a_cluster("tagged", &Family::new("cart:{{{user:int}}}:{item:int}", tagged), ALL, 0.001);
}

#[test]
fn some_keys_of_a_cluster_seen_their_bytes_are_as_promised() {
    for (name, keys) in [("uuid v4", 120_000), ("dense", 120_000), ("one in 5", 120_000)] {
        keeps_its_promise_in_a_cluster(name, &Family::of_kind(name, keys), PART, 0.03);
    }
}

#[test]
fn few_keys_a_slot_are_left_as_they_are() {
    let family = Family::of_kind("dense", 2_000);
    let choice = family.choose(ALL, &cluster_aims(Server::valkey(9, 1)));
    assert_ne!(choice.verdict, Verdict::Fold);
    // Shorter names may still save; if nothing does, it says that slots have too few.
    if let Verdict::Leave(why) = &choice.verdict {
        assert!(why.contains("each slot has a bucket of its own, of 1."), "{why}");
    }
    let fold = choice.alternatives.iter().find(|other| other.what.contains("count = 1 ")).unwrap();
    assert!(fold.bytes > choice.bytes_now, "{fold:?}");
    assert!(fold.why_not.contains("saves nothing") || fold.why_not.contains("more bytes"), "{fold:?}");
}

#[test]
fn it_says_from_how_many_keys_on_folding_pays() {
    for server in [Server::redis(7, 0), Server::valkey(9, 1)] {
        let aims = cluster_aims(server);
        let few = Family::of_kind("uuid v4", 3_000).choose(ALL, &aims);
        assert_ne!(few.verdict, Verdict::Fold);
        let pays = few.pays_from_keys.unwrap();
        let said = format!("{:?} {:?}", few.verdict, few.notes);
        assert!(said.contains("keys on"), "{said}");
        let verdict = |keys: u64| Family::of_kind("uuid v4", keys).choose(ALL, &aims).verdict;
        assert_eq!(verdict(pays * 11 / 10), Verdict::Fold, "{server}: {pays}");
        assert_ne!(verdict(pays * 8 / 10), Verdict::Fold, "{server}: {pays}");
    }
}

#[test]
fn beside_many_other_keys_a_family_pays_for_no_tables_of_slots() {
    let (family, alone) = (Family::of_kind("uuid v4", 50_000), cluster_aims(Server::redis(8, 0)));
    let among = Aims { all_keys: (5_000_000, 0), ..alone.clone() };
    let (alone, among) = (family.choose(ALL, &alone), family.choose(ALL, &among));
    assert!(alone.bytes_now > 2 * among.bytes_now, "{} {}", alone.bytes_now, among.bytes_now);
    assert!(among.saving() > 0.3 && among.verdict == Verdict::Fold, "{}", among.saving());
}

#[test]
fn six_keys_a_slot_are_folded_into_one_bucket_each() {
    let family = Family::of_kind("uuid v4", 100_000);
    let choice = family.choose(ALL, &cluster_aims(Server::redis(7, 0)));
    assert_eq!(choice.verdict, Verdict::Fold);
    assert_eq!(choice.rule.placement.as_count().map(keyfold_core::placement::Count::count), Some(1));
    assert!(choice.notes.iter().any(|note| note.contains("a bucket of its own, of 6.1 entries")), "{:?}", choice.notes);
    assert!(choice.saving() > 0.5, "{}", choice.saving());
}

/// A set of so many bytes, packed, and in parts where it may lie so.
fn set(key: String, packed: u64, plain: u32, in_parts: Option<PartsCost>) -> SampledKey {
    SampledKey {
        database: 0,
        key: key.into_bytes().into(),
        value: ValueShape::Bytes(packed),
        has_expiry: false,
        plain_bytes: NonZero::new(plain),
        in_parts: in_parts.map(Box::new),
    }
}

fn chosen_for(template: &str, sample: &[SampledKey]) -> Choice {
    chosen_with(template, sample, &[])
}

fn chosen_with(template: &str, sample: &[SampledKey], codings: &[Coding]) -> Choice {
    let template = Template::parse(template).unwrap();
    let population = Population {
        template: &template,
        collection: Some(CollectionKind::Set),
        keys: sample.len() as u64,
        sample,
        blocks: Blocks::Keys,
        kept: 1.0,
        within: 1.0,
        slots_seen: 1.0,
    };
    let server = Server::redis(7, 0);
    choose_among(&population, &Aims::new(Model::for_server(server), server, Limits::default()), codings)
}

const IN_PARTS: PartsCost = PartsCost { keys: 20, bytes: 24_000 };

#[test]
fn a_few_large_sets_are_folded_and_a_few_small_ones_are_not() {
    for (template, key) in [("room:{id:int}", "room:"), ("room:{name}", "room:of-")] {
        let large: Vec<_> = (0..20).map(|i| set(format!("{key}{i}"), 40_000, 330_000, Some(IN_PARTS))).collect();
        let choice = chosen_for(template, &large);
        assert_eq!(choice.verdict, Verdict::Fold, "{template}");
        assert!(choice.rule.value_limit <= 1024 && choice.after.keys >= 20.0 * 20.0, "{choice:?}");
        let promised = 20.0 * 24_000.0;
        assert!((promised..promised * 1.05).contains(&(choice.bytes_after as f64)), "{}", choice.bytes_after);
        let small: Vec<_> = (0..20).map(|i| set(format!("{key}{i}"), 600, 4000, Some(IN_PARTS))).collect();
        assert!(matches!(chosen_for(template, &small).verdict, Verdict::Leave(_)), "{template}");
    }
}

/// A fold trains the codec anew, and what comes over the limit then lies in parts.
#[test]
fn what_a_codec_leaves_of_sets_of_many_members_has_room_below_the_limit() {
    let template = Template::parse("seen:{id:int}").unwrap();
    for seed in 0..6 {
        let mut random = Random::new(seed);
        let mut record = |id: u64| {
            // As a table has them.
            let mut pages: Vec<_> =
                (0..550 + random.below(100)).map(|page| format!("page-{page}").into_bytes()).collect();
            pages.sort_by_key(|page| xxh3_64_with_seed(page, seed));
            let value = Collection::of_texts(CollectionKind::Set, pages).packed().into();
            Record { key: format!("seen:{id}").into_bytes().into(), value }
        };
        let records: Vec<Record> = (0..400).map(&mut record).collect();
        let codings = crate::codec::weigh(&template, Some(CollectionKind::Set), &records, 400, &mut |work| {
            work();
            1.0
        });
        let in_parts = PartsCost { keys: 2, bytes: 9_000 };
        let of = |record: &Record| {
            set(String::from_utf8_lossy(&record.key).into(), record.value.len() as u64, 30_000, Some(in_parts))
        };
        let sample: Vec<_> = records.iter().map(of).collect();
        let choice = chosen_with("seen:{id:int}", &sample, &codings);
        let is_taken = |coding: &&Coding| choice.codec.as_ref().is_some_and(|codec| codec.is(coding));
        let coding = codings.iter().find(is_taken).unwrap();
        assert!(coding.dictionary.is_some(), "{coding:?}");
        let coded = coding.coded(sample.iter().map(|sampled| (&*sampled.key, sampled.value)), 400);
        let longest = coded.iter().map(|coded| coded.len).max().unwrap();
        let limit = choice.rule.value_limit;
        assert!(limit * 2 >= longest * 3 && limit <= longest * 3, "{seed}: {longest} {limit}");
    }
}

#[test]
fn small_sets_beside_large_ones_stay_in_their_buckets() {
    let sets: Vec<_> = (0..1000)
        .map(|i| match i % 10 {
            0 => set(format!("tags:{i}"), 40_000, 330_000, Some(IN_PARTS)),
            _ => set(format!("tags:{i}"), 120 + i % 60, 900, None),
        })
        .collect();
    let choice = chosen_for("tags:{id:int}", &sets);
    assert_eq!(choice.verdict, Verdict::Fold);
    assert!((180..=1024).contains(&choice.rule.value_limit), "{:?}", choice.rule);
    assert!(
        choice.notes.iter().any(|note| note.starts_with("10.00 % of them have more than 32 members")),
        "{choice:?}"
    );
    assert!(!choice.notes.iter().any(|note| note.contains("spilled")), "{:?}", choice.notes);
}
