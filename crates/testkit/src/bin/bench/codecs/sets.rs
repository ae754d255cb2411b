//! Sets of records to compress, each with the shape of its keys and the way they are folded.

use std::path::Path;

use anyhow::Context;
use keyfold_lab::data_sets::records;
use keyfold_testkit::memory::Record;
use keyfold_testkit::random::Random;

/// How keys are spread over buckets; the size is tried.
#[derive(Clone, Copy)]
pub(super) enum Spread {
    /// So many ids to a bucket, of which a fifth is not there; by this part, where there are several.
    Span(Option<&'static str>),
    /// As many buckets as give a mean.
    Count,
}

/// The key and the value of a number.
type MadeUp = fn(u64) -> (String, Vec<u8>);

/// A set.
pub(super) struct Set {
    pub(super) name: &'static str,
    keys: &'static str,
    spread: Spread,
    /// Bytes over which a value or a field is kept elsewhere.
    limits: (usize, usize),
    /// How many times less than plain strings it is meant to take on Redis 7.0, at least.
    pub(super) floor: f64,
    made_up: Option<MadeUp>,
}

const fn read(name: &'static str, keys: &'static str, spread: Spread, limits: (usize, usize), floor: f64) -> Set {
    Set { name, keys, spread, limits, floor, made_up: None }
}

const fn made_up(name: &'static str, keys: &'static str, spread: Spread, floor: f64, record: MadeUp) -> Set {
    Set { name, keys, spread, limits: (1024, 64), floor, made_up: Some(record) }
}

/// Made up, and so always there; then those of `--data`.
pub(super) const SETS: [Set; 15] = [
    made_up("profiles", "user:{id:int}", Spread::Span(None), 3.0, profile),
    made_up("tokens", "token:{id:uuid}", Spread::Count, 2.0, token),
    made_up("parents", "parent:{id:uuid}", Spread::Count, 2.0, parent),
    made_up("noise", "noise:{id:int}", Spread::Span(None), 1.0, noise),
    read("cities_json", "city:{id:int}", Spread::Span(None), (512, 64), 4.4),
    read("debian_json", "pkg:{name}", Spread::Count, (640, 96), 3.8),
    read("stix_uuid_json", "{id:uuid}", Spread::Count, (4096, 64), 4.3),
    read("access_logs", "log:{source}:{n:int}", Spread::Span(Some("n")), (576, 64), 5.2),
    read("tldr_md", "{language}/{platform}/{page}", Spread::Count, (3456, 96), 3.1),
    read("sx_posts_html", "post:{id:int}:body", Spread::Count, (8192, 64), 3.2),
    read("cldr_text", "l10n:{locale}:{what}:{code}", Spread::Count, (64, 64), 3.3),
    read("debian_sha256", "{sha256:hex}", Spread::Count, (192, 64), 2.9),
    read("words_phonemes", "w:{word}", Spread::Count, (64, 64), 3.8),
    read("words_alpha", "{word}", Spread::Count, (64, 64), 4.0),
    read("city_state_int", "{id:int}", Spread::Span(None), (64, 64), 5.0),
];

/// Means of entries to a bucket that are tried: the allocator's size classes decide between them.
const ENTRIES: [usize; 7] = [76, 84, 92, 100, 108, 116, 124];

impl Set {
    /// Its records, where they are at hand.
    pub(super) fn records(&self, data: Option<&Path>, made_up: u64) -> anyhow::Result<Option<Vec<Record>>> {
        if let Some(record) = self.made_up {
            let record = |number| {
                let (key, value) = record(number);
                Record { key: key.into_bytes(), value, expires: false }
            };
            return Ok(Some((0..made_up).map(record).collect()));
        }
        let Some(path) = data.map(|data| data.join(format!("{}.jsonl.gz", self.name))).filter(|path| path.is_file())
        else {
            return Ok(None);
        };
        let read = records::read(&path, usize::MAX).with_context(|| format!("reading {}", path.display()))?;
        let record = |read: records::Record| Record { key: read.key, value: read.value, expires: false };
        Ok(Some(read.records.into_iter().map(record).collect()))
    }

    /// Layouts for so many records, of which every fifth id is missing, with each of several sizes of buckets: the
    /// bucket rule, and the text.
    pub(super) fn layouts(&self, records: usize, codec: &str) -> Vec<(String, String)> {
        ENTRIES.iter().map(|entries| self.layout(records, *entries, codec)).collect()
    }

    fn layout(&self, records: usize, entries: usize, codec: &str) -> (String, String) {
        let Self { keys, limits: (value_limit, field_limit), .. } = self;
        let rule = match self.spread {
            Spread::Span(None) => format!("span = {}", entries * 5 / 4),
            Spread::Span(Some(part)) => format!("span = {}, of = \"{part}\"", entries * 5 / 8),
            Spread::Count => format!("count = {}", (records / entries).max(2)),
        };
        let text = format!(
            "[[namespace]]\nkeys = \"{keys}\"\nbucket = {{ {rule} }}\nvalue_limit = {value_limit}\nfield_limit = {field_limit}\ncodec = \"{codec}\"\n"
        );
        (rule, text)
    }
}

const FIRST: [&str; 12] = ["Ada", "Bert", "Cleo", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivo", "June", "Karl", "Lena"];
const LAST: [&str; 10] =
    ["Abel", "Brandt", "Costa", "Dietz", "Ekberg", "Ferrari", "Gruber", "Hughes", "Ivanov", "Jansen"];
const CITIES: [&str; 8] = ["Aarhus", "Bergen", "Coimbra", "Dresden", "Espoo", "Freiburg", "Ghent", "Haarlem"];

/// A cached profile: JSON that names its own id.
pub(super) fn profile(number: u64) -> (String, Vec<u8>) {
    let mut random = Random::new(number + 1);
    let (first, last, city) = (random.pick(&FIRST), random.pick(&LAST), random.pick(&CITIES));
    let (day, month) = (1 + random.below(28), 1 + random.below(12));
    let id = 100_000 + number;
    let value = format!(
        r#"{{"id":{id},"name":"{first} {last}","email":"{}.{}{}@example.com","city":"{city}","created":"20{:02}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z","plan":"{}","verified":{},"balance":{}.{:02},"roles":["{}"],"avatar":"https://img.example.com/{id}/{:08x}.png","locale":"{}"}}"#,
        first.to_lowercase(),
        last.to_lowercase(),
        random.below(1000),
        random.below(26),
        random.below(24),
        random.below(60),
        random.below(60),
        random.pick(&["free", "team", "business"]),
        random.chance(80),
        random.below(5000),
        random.below(100),
        random.pick(&["reader", "editor", "owner"]),
        random.below(1 << 32),
        random.pick(&["en-GB", "de-DE", "fr-FR", "pt-PT", "fi-FI"]),
    );
    (format!("user:{id}"), value.into_bytes())
}

fn uuid(random: &mut Random) -> String {
    let hex = format!("{:016x}{:016x}", random.bits(), random.bits());
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}

/// A token's hash in hexadecimal.
fn token(number: u64) -> (String, Vec<u8>) {
    let mut random = Random::new(number + 1);
    let key = format!("token:{}", uuid(&mut random));
    (key, format!("{:016x}{:016x}", random.bits(), random.bits()).into_bytes())
}

/// A uuid that points to another.
fn parent(number: u64) -> (String, Vec<u8>) {
    let mut random = Random::new(number + 1);
    (format!("parent:{}", uuid(&mut random)), uuid(&mut random).into_bytes())
}

/// Bytes that nothing compresses.
fn noise(number: u64) -> (String, Vec<u8>) {
    let mut random = Random::new(number + 1);
    (format!("noise:{}", 100_000 + number), (0..32).flat_map(|_| random.bits().to_be_bytes()).collect())
}
