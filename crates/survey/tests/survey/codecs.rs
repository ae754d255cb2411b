//! Which codec is chosen for which values, with which placement, and what is promised of it.

use std::collections::BTreeMap;

use keyfold_core::codec::pack;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::memory::{BucketCost, Limits, Model, Placed, Server, ValueShape};
use keyfold_core::placement::Placement;
use keyfold_core::template::Template;
use keyfold_survey::choose::{Aims, Choice, Verdict, choose_among};
use keyfold_survey::codec::{Coding, Record, select, wanted, weigh};
use keyfold_survey::plan::{self, Heading, Plan};
use keyfold_survey::population::{Blocks, Population, SampledKey};
use keyfold_testkit::random::Random;

const KEYS: u64 = 3000;
/// Microseconds for each value, whatever the codec: only bytes decide.
const US: f64 = 1.0;

/// How the values of a kind are made: the i-th.
type Generator = fn(u64, &mut Random) -> Vec<u8>;

/// Records of one family, and what is known of them.
struct Family {
    template: Template,
    records: Vec<(String, Vec<u8>)>,
    sample: Vec<SampledKey>,
}

impl Family {
    fn new(value: impl Fn(u64, &mut Random) -> Vec<u8>) -> Self {
        let mut random = Random::new(11);
        let records: Vec<_> = (0..KEYS).map(|i| (format!("k:{}", 100_000 + i), value(i, &mut random))).collect();
        let sampled = |(key, value): &(String, Vec<u8>)| SampledKey {
            database: 0,
            key: key.as_bytes().into(),
            value: ValueShape::of(value),
            has_expiry: false,
            plain_bytes: None,
            in_parts: None,
        };
        let sample = records.iter().map(sampled).collect();
        Self { template: Template::parse("k:{id:int}").unwrap(), records, sample }
    }

    fn expiring(mut self) -> Self {
        self.sample.iter_mut().for_each(|sampled| sampled.has_expiry = true);
        self
    }

    fn population(&self) -> Population<'_> {
        let (template, sample) = (&self.template, self.sample.as_slice());
        Population {
            template,
            collection: None,
            keys: KEYS,
            sample,
            blocks: Blocks::Ids(0),
            kept: 1.0,
            within: 1.0,
            slots_seen: 1.0,
        }
    }

    fn codings(&self, most_bytes: u64) -> Vec<Coding> {
        let values: BTreeMap<&[u8], &[u8]> =
            self.records.iter().map(|(key, value)| (key.as_bytes(), value.as_slice())).collect();
        let record =
            |sampled: &SampledKey| Record { key: sampled.key.clone(), value: values[sampled.key.as_ref()].into() };
        let records: Vec<Record> = wanted(&self.sample, most_bytes).into_iter().map(record).collect();
        let timed = records.len().min(400) as f64;
        weigh(&self.template, None, &records, KEYS, &mut |work| {
            work();
            US * timed
        })
    }

    fn choose(&self, aims: &Aims) -> (Choice, Vec<Coding>) {
        let codings = self.codings(4 << 20);
        (choose_among(&self.population(), aims, &codings), codings)
    }

    /// What all records take by the layout of a choice, by the core's own encoding of each value.
    fn bytes(&self, choice: &Choice, codings: &[Coding], model: &Model) -> u64 {
        let family = plan::Family { template: self.template.clone(), keys: KEYS, choice: choice.clone() };
        let mut layout = Plan::new(vec![family], None).layout().unwrap();
        let coding = choice.codec.as_ref().map(|codec| codings.iter().find(|one| one.rule == codec.rule).unwrap());
        let dictionary = coding.and_then(|coding| coding.dictionary.as_deref());
        if let Some(coding) = coding {
            layout = layout.written_by(NamespaceIndex(0), &coding.rule, dictionary).unwrap();
        }
        let mut placed = Placed::new(model, &layout);
        for ((key, value), sampled) in self.records.iter().zip(&self.sample) {
            placed.add(key.as_bytes(), value, sampled.has_expiry.then_some(2_000_000_000_000));
        }
        let mut keyspace = placed.keyspace();
        if let Some(dictionary) = dictionary {
            let mut hash = BucketCost::default();
            hash.add(model, ValueShape::Bytes(32), ValueShape::Bytes(pack(dictionary).len() as u64));
            keyspace.add_hash(20, &hash, false);
        }
        keyspace.total_bytes()
    }
}

fn aims() -> Aims {
    let server = Server::redis(7, 0);
    Aims::new(Model::for_server(server), server, Limits::default())
}

/// With the settings that a choice relies on.
fn model(choice: &Choice) -> Model {
    let mut limits = Limits::default();
    for setting in choice.relies_on.iter().filter(|setting| setting.name == "hash-max-listpack-value") {
        limits.hash_value_bytes = limits.hash_value_bytes.max(setting.needs);
    }
    Model::for_server(Server::redis(7, 0)).with_limits(limits)
}

fn json(i: u64, random: &mut Random) -> Vec<u8> {
    let (n, city) = (random.below(1_000_000), ["Lisbon", "Oslo", "Quito", "Perth"][random.index(4)]);
    let id = 100_000 + i;
    format!(
        r#"{{"id":{id},"name":"User {n}","email":"user{n}@example.com","city":"{city}","visits":{},"active":{}}}"#,
        random.below(5000),
        n.is_multiple_of(2)
    )
    .into_bytes()
}

fn words(_: u64, random: &mut Random) -> Vec<u8> {
    let words = ["north ", "station ", "west ", "harbour ", "bridge ", "of the ", "old ", "market ", "gate ", "hill "];
    (0..3 + random.index(3)).map(|_| words[random.index(10)]).collect::<String>().into_bytes()
}

fn hex(_: u64, random: &mut Random) -> Vec<u8> {
    format!("{:016x}{:016x}", random.bits(), random.bits()).into_bytes()
}

fn uuid(_: u64, random: &mut Random) -> Vec<u8> {
    let hex = format!("{:016x}{:016x}", random.bits(), random.bits());
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]).into_bytes()
}

fn integer(_: u64, random: &mut Random) -> Vec<u8> {
    random.below(1 << 40).to_string().into_bytes()
}

/// No byte below 0x20, so that raw values are no frames.
fn noise(_: u64, random: &mut Random) -> Vec<u8> {
    (0..60).map(|_| 0x20 + u8::try_from(random.below(0xe0)).unwrap()).collect()
}

fn document(i: u64, random: &mut Random) -> Vec<u8> {
    (0..30).flat_map(|part| json(i * 30 + part, random)).collect()
}

/// The promise of a choice against the core's own encoding of every record.
fn keeps_its_promise(name: &str, family: &Family, choice: &Choice, codings: &[Coding]) {
    let (promised, is) = (choice.bytes_after as f64, family.bytes(choice, codings, &model(choice)) as f64);
    assert!((promised / is - 1.0).abs() < 0.02, "{name}: promised {promised}, takes {is}: {:?}", choice.rule);
}

#[test]
fn each_kind_of_values_has_the_codec_that_suits_it() {
    let kinds: [(&str, Generator, &[&str]); 6] = [
        ("json", json, &["zstd"]),
        ("words", words, &["zstd", "fsst"]),
        ("hex", hex, &["hex"]),
        ("uuid", uuid, &["uuid"]),
        ("integers", integer, &[]),
        ("noise", noise, &[]),
    ];
    for (name, value, expected) in kinds {
        for family in [Family::new(value), Family::new(value).expiring()] {
            let (choice, codings) = family.choose(&aims());
            let codec = choice.codec.as_ref().map(|codec| codec.rule.name.as_str());
            assert_eq!(codec.is_none(), expected.is_empty(), "{name}: {codec:?}");
            assert!(codec.is_none_or(|codec| expected.contains(&codec)), "{name}: {codec:?}");
            assert!(codings.iter().all(|coding| coding.ratio() >= 1.0), "{name}");
            assert_eq!(choice.verdict, Verdict::Fold, "{name}");
            keeps_its_promise(name, &family, &choice, &codings);
        }
    }
}

/// The codec that `auto` has a family's values written by, where the candidate of the fewest bytes takes so many
/// microseconds for each, and so many the others.
fn auto(value: Generator, [shortest_us, others_us]: [f64; 2]) -> Result<String, String> {
    let family = Family::new(value);
    let layout =
        Layout::parse_file("[[namespace]]\nkeys = 'k:{id:int}'\nplacement = 'framed'\ncodec = 'auto'\n").unwrap();
    let record =
        |(key, value): &(String, Vec<u8>)| Record { key: key.as_bytes().into(), value: value.as_slice().into() };
    let records: Vec<Record> = family.records.iter().map(record).collect();
    let (mut measured, timed) = (0, 400.0);
    let selection = select(&layout.namespaces()[0], None, &records, KEYS, false, &mut |work| {
        work();
        measured += 1;
        // Three rounds of writing, three of reading.
        timed * if measured <= 6 { shortest_us } else { others_us }
    });
    selection.taken.clone().map(|_| selection.candidate().unwrap().rule.name.clone())
}

#[test]
fn auto_takes_what_a_plan_names_and_weighs_time_as_it_does() {
    for value in [json, hex, uuid, noise] {
        let (choice, _) = Family::new(value).choose(&aims());
        assert_eq!(auto(value, [US, US]).ok(), choice.codec.map(|codec| codec.rule.name));
    }
    assert_eq!(auto(hex, [1000.0, 1000.0]).unwrap_err(), "the best codec saves less than its time is worth");
    assert_eq!(auto(hex, [1000.0, US]).unwrap(), "fsst");
}

#[test]
fn a_codec_is_never_promised_to_cost() {
    for value in [json, words, noise, document] {
        let family = Family::new(value);
        let without = choose_among(&family.population(), &aims(), &[]);
        let (with, _) = family.choose(&aims());
        assert!(with.bytes_after <= without.bytes_after);
        if let Some(codec) = with.codec {
            assert_eq!(codec.bytes_without, without.bytes_after);
        }
    }
}

#[test]
fn large_values_are_compressed_in_keys_of_their_own() {
    let family = Family::new(document);
    let (choice, codings) = family.choose(&aims());
    assert_eq!((&choice.verdict, &choice.rule.placement), (&Verdict::Zip, &Placement::zipped().with_codec()));
    assert!(choice.relies_on.is_empty() && choice.saving() > 0.5, "{}", choice.saving());
    keeps_its_promise("documents", &family, &choice, &codings);
}

#[test]
fn values_of_which_few_were_read_are_like_those() {
    let family = Family::new(json);
    let all = family.codings(4 << 20);
    let few = family.codings(70_000);
    assert!(few[0].judged_by * 4 < all[0].judged_by, "{} {}", few[0].judged_by, all[0].judged_by);
    let choice = choose_among(&family.population(), &aims(), &few);
    keeps_its_promise("few", &family, &choice, &few);
}

#[test]
fn a_setting_that_is_too_low_leaves_two_ways() {
    // Text of which a codec leaves more than 64 bytes.
    let long = |_: u64, random: &mut Random| -> Vec<u8> { (0..6).flat_map(|_| hex(0, random)).chain(*b"!").collect() };
    let family = Family::new(long);
    let (choice, _) = family.choose(&aims());
    let setting = choice.relies_on.iter().find(|setting| setting.name == "hash-max-listpack-value").unwrap();
    assert!(!setting.is_met() && choice.codec.is_some(), "{setting:?}");
    let raise = format!("CONFIG SET hash-max-listpack-value {} (it is 64)", setting.needs);
    let said = choice.notes.iter().find(|note| note.contains(&raise)).unwrap();
    assert!(said.contains("placement = \"framed\""), "{said}");

    let (kept, codings) = family.choose(&Aims { keeps_settings: true, ..aims() });
    assert!(kept.relies_on.iter().all(keyfold_survey::choose::Setting::is_met), "{:?}", kept.relies_on);
    assert_eq!(kept.rule.placement, Placement::zipped().with_codec());
    assert!(kept.codec.is_some() && kept.bytes_after > choice.bytes_after);
    keeps_its_promise("kept", &family, &kept, &codings);
}

#[test]
fn the_file_names_the_codec_and_says_why() {
    let family = Family::new(json);
    let (choice, _) = family.choose(&aims());
    let family = plan::Family { template: family.template, keys: KEYS, choice };
    let plan = Plan::new(vec![family], None);
    let text = plan.to_toml(&Heading::default());
    let layout = Layout::parse_file(&text).unwrap();
    assert_eq!(layout.namespaces()[0].codec.name, "zstd");
    for said in ["codec = \"zstd\"\n", "zstd stores values of", "codec = \"none\"", "that it was not trained by"] {
        assert!(text.contains(said), "{said}: {text}");
    }
}
