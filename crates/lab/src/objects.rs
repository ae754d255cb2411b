//! What is asked for, and where each form keeps it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, ensure};
use keyfold_core::codec::{Candidate, CodecRule, Kinds, Owner, Sample, candidates};
use keyfold_core::frame;
use keyfold_core::layout::{Layout, NamespaceIndex};

use crate::data_sets::records;
use crate::physical::Physical;
use crate::zipf::Zipf;
use keyfold_survey::random::Random;

/// Values are slices of so many letters.
const LETTERS: usize = 1 << 16;
/// The least limit of a value's bytes in a bucket, a server's default.
const LEAST_VALUE_LIMIT: u64 = 64;
/// Objects of a made-up stream have ids from here on.
const FIRST_ID: u64 = 1_000_000;
/// A codec is trained by so many values at most, and chosen by a third as many others.
const TRAINED_BY: usize = 15_000;
/// A file has at least so many keys.
const LEAST_KEYS: usize = 1000;

/// A way to keep objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Each under a key of its own.
    Plain,
    /// In keyfold's buckets of so many, on the mean, if all were there.
    Buckets(u64),
    /// As clients know them, in a cache that keyfold keeps by the key.
    ByKey,
}

impl Form {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Plain => "plain".to_owned(),
            Self::Buckets(entries) => format!("{entries} a bucket"),
            Self::ByKey => "by key".to_owned(),
        }
    }
}

/// Everything that may be asked for.
pub(crate) struct Objects {
    keys: Vec<Vec<u8>>,
    /// What a layout's namespace says of the keys.
    template: String,
    /// On the mean.
    value_bytes: u64,
    values: Values,
    /// What real values are stored by in buckets.
    codec: Option<Candidate>,
}

#[derive(Clone)]
enum Values {
    /// Slices of so many letters.
    MadeUp(Vec<u8>),
    /// One for each key.
    Real(Vec<Vec<u8>>),
}

/// Where an object is.
pub(crate) struct Place {
    /// With the lab's prefix.
    pub(crate) key: Vec<u8>,
    /// None where the key is its own.
    pub(crate) field: Option<Vec<u8>>,
}

impl Objects {
    /// Objects with ids.
    pub(crate) fn made_up(objects: u32, value_bytes: u64, seed: u64) -> Self {
        let keys = (0..u64::from(objects)).map(|id| format!("obj:{}", FIRST_ID + id).into_bytes()).collect();
        Self::with_letters(keys, "obj:{id:int}".to_owned(), value_bytes, seed)
    }

    fn with_letters(keys: Vec<Vec<u8>>, template: String, value_bytes: u64, seed: u64) -> Self {
        Self { keys, template, value_bytes, values: Values::MadeUp(Random::new(seed).letters(LETTERS)), codec: None }
    }

    /// The same keys with made-up values of another size.
    pub(crate) fn with_values(&self, value_bytes: u64) -> Self {
        let (keys, template, values) = (self.keys.clone(), self.template.clone(), self.values.clone());
        Self { keys, template, value_bytes, values, codec: None }
    }

    /// The records of a file, and the codec that its values are best stored by, trained by some of them.
    pub(crate) fn of_records(file: &Path) -> anyhow::Result<Self> {
        let reading = || format!("can't read the records in {}", file.display());
        let records = records::read(file, usize::MAX).with_context(reading)?.records;
        let (keys, values): (Vec<_>, Vec<_>) = records.into_iter().map(|record| (record.key, record.value)).unzip();
        enough(file, &keys)?;
        let value_bytes = values.iter().map(|value| value.len() as u64).sum::<u64>() / values.len() as u64;
        let template = template(&keys);
        let mut objects = Self { keys, template, value_bytes, values: Values::Real(values), codec: None };
        objects.codec = objects.trained()?;
        Ok(objects)
    }

    /// The keys of a file, a request to a line, and the requests as numbers of keys in order.
    pub(crate) fn of_trace(file: &Path, value_bytes: u64, seed: u64) -> anyhow::Result<(Self, Vec<u32>)> {
        let reading = || format!("can't read the requests in {}", file.display());
        let (keys, requests) = read(BufReader::new(File::open(file).with_context(reading)?)).with_context(reading)?;
        enough(file, &keys)?;
        let template = template(&keys);
        Ok((Self::with_letters(keys, template, value_bytes, seed), requests))
    }

    /// The best codec for real values, if any is of use.
    fn trained(&self) -> anyhow::Result<Option<Candidate>> {
        let layout = self.layout(Form::Buckets(1))?;
        let templates = &layout.namespaces().first().context("a layout without its namespace")?.keys;
        let every = self.keys.len().div_ceil(TRAINED_BY * 4 / 3);
        let samples: Vec<_> = (0..)
            .zip(&self.keys)
            .step_by(every)
            .map(|(object, key)| Sample { owner: Owner::new(templates, key), value: self.value(object) })
            .collect();
        let (train, held_out) = samples.split_at(samples.len() * 3 / 4);
        let rule = CodecRule::named("auto");
        Ok(candidates(&Kinds::default(), &rule, train, held_out, self.count()).into_iter().next())
    }

    /// The names of all of them, by their numbers.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Box<[u8]>> {
        self.keys.iter().map(|key| key.as_slice().into())
    }

    pub(crate) fn key(&self, object: u32) -> &[u8] {
        &self.keys[object as usize]
    }

    pub(crate) fn count(&self) -> u64 {
        self.keys.len() as u64
    }

    pub(crate) fn value_bytes(&self) -> u64 {
        self.value_bytes
    }

    pub(crate) fn template(&self) -> &str {
        &self.template
    }

    /// An object's value. A made-up one: letters, from half as many as the mean to half as many more.
    pub(crate) fn value(&self, object: u32) -> &[u8] {
        let letters = match &self.values {
            Values::MadeUp(letters) => letters,
            Values::Real(values) => return &values[object as usize],
        };
        let mut random = Random::new(u64::from(object));
        let len = self.value_bytes / 2 + random.below(self.value_bytes + 1);
        let len = usize::try_from(len).unwrap_or(0).clamp(1, LETTERS);
        let at = usize::try_from(random.below((LETTERS - len) as u64)).unwrap_or(0);
        &letters[at..at + len]
    }

    /// From how many bytes on a value would be spilled: none is.
    pub(crate) fn value_limit(&self) -> u64 {
        let longest = match &self.values {
            Values::MadeUp(_) => self.value_bytes * 3 / 2,
            Values::Real(values) => values.iter().map(Vec::len).max().unwrap_or(0) as u64,
        };
        (longest + 1).next_multiple_of(32).max(LEAST_VALUE_LIMIT)
    }

    /// What a layout's file says of it.
    pub(crate) fn layout_text(&self, form: Form) -> String {
        let Form::Buckets(entries) = form else { return String::new() };
        let (keys, limit) = (&self.template, self.value_limit());
        let buckets = (self.count() / entries).max(2);
        let codec = self.codec.as_ref().map(|codec| format!("codec = {}\n", codec.rule)).unwrap_or_default();
        format!("[[namespace]]\nkeys = {keys:?}\nbucket = {{ count = {buckets} }}\nvalue_limit = {limit}\n{codec}")
    }

    pub(crate) fn layout(&self, form: Form) -> anyhow::Result<Layout> {
        let text = self.layout_text(form);
        let layout = Layout::parse_file(&text).with_context(|| format!("the study's layout for {}", self.template))?;
        match (&self.codec, form) {
            (Some(codec), Form::Buckets(_)) => {
                let dictionary = codec.dictionary.as_deref();
                layout.written_by(NamespaceIndex(0), &codec.rule, dictionary).context("no slot is free")
            }
            _ => Ok(layout),
        }
    }

    /// Where each is written and read.
    pub(crate) fn places(&self, form: Form, prefix: &[u8]) -> anyhow::Result<Vec<Place>> {
        let layout = self.layout(form)?;
        let place = |key: &Vec<u8>| match layout.locate(key).place().filter(|place| place.kind.is_bucket()) {
            Some(place) => {
                Place { key: [prefix, place.physical.as_slice()].concat(), field: Some(place.field.to_vec()) }
            }
            None => Place { key: [prefix, key].concat(), field: None },
        };
        Ok(self.keys.iter().map(place).collect())
    }

    /// All of them, as keyfold stores them in this form.
    pub(crate) fn physical(&self, form: Form) -> anyhow::Result<Physical> {
        let layout = self.layout(form)?;
        let mut physical = Physical::default();
        (0..).zip(&self.keys).for_each(|(object, key)| physical.place(&layout, key, self.value(object)));
        Ok(physical)
    }
}

/// A cache of few keys says nothing.
fn enough(file: &Path, keys: &[Vec<u8>]) -> anyhow::Result<()> {
    ensure!(
        keys.len() >= LEAST_KEYS,
        "{} names {} keys, and a cache of fewer than {LEAST_KEYS} says nothing",
        file.display(),
        keys.len()
    );
    Ok(())
}

/// A value as keyfold's proxy stores it in a bucket.
pub(crate) fn stored(value: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(value.len());
    frame::encode(value, None, &mut stored);
    stored
}

/// Requests by Zipf's law. Which object has which rank is by chance, as neighbours' popularity mostly is.
pub(crate) fn requests(objects: u32, requests: u64, skew: f64, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut of_rank: Vec<u32> = (0..objects).collect();
    for last in (1..of_rank.len()).rev() {
        let other = usize::try_from(random.below(last as u64 + 1)).unwrap_or(0);
        of_rank.swap(last, other);
    }
    let zipf = Zipf::new(objects, skew);
    (0..requests).map(|_| of_rank[zipf.draw(&mut random) as usize - 1]).collect()
}

/// Distinct keys in order, and each line as the number of its key.
fn read(lines: impl BufRead) -> io::Result<(Vec<Vec<u8>>, Vec<u32>)> {
    let (mut numbers, mut keys, mut requests) = (HashMap::new(), Vec::new(), Vec::new());
    for line in lines.split(b'\n') {
        let mut key = line?;
        if key.last() == Some(&b'\r') {
            key.pop();
        }
        if key.is_empty() {
            continue;
        }
        let next = u32::try_from(keys.len()).map_err(|_| io::Error::other("it has too many keys"))?;
        let number = *numbers.entry(key.clone()).or_insert(next);
        if number == next {
            keys.push(key);
        }
        requests.push(number);
    }
    Ok((keys, requests))
}

/// What begins all keys, up to a colon, and an id or any text.
fn template(keys: &[Vec<u8>]) -> String {
    let Some(first) = keys.first() else { return "{key}".to_owned() };
    let common = keys.iter().skip(1).fold(first.len(), |common, key| {
        first[..common].iter().zip(key).take_while(|(one, other)| one == other).count()
    });
    let head = first[..common].iter().rposition(|byte| *byte == b':').map_or(0, |at| at + 1);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b":._-/".contains(byte);
    let head = if first[..head].iter().all(plain) { head } else { 0 };
    let is_id = |key: &Vec<u8>| {
        let rest = key.get(head..).and_then(|rest| std::str::from_utf8(rest).ok());
        rest.is_some_and(|rest| rest.parse::<u32>().is_ok_and(|id| id.to_string() == rest))
    };
    let rest = if keys.iter().all(is_id) { "{id:int}" } else { "{key}" };
    format!("{}{rest}", String::from_utf8_lossy(&first[..head]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(keys: &[&str]) -> Vec<Vec<u8>> {
        keys.iter().map(|key| key.as_bytes().to_vec()).collect()
    }

    #[test]
    fn templates_of_traces() {
        assert_eq!(template(&keys(&["page:0", "page:12"])), "page:{id:int}");
        assert_eq!(template(&keys(&["orm:30:0:1", "orm:17:1:0"])), "orm:{key}");
        assert_eq!(template(&keys(&["a", "b"])), "{key}");
        assert_eq!(template(&keys(&["7", "007"])), "{key}");
        assert_eq!(template(&keys(&["a{b:1", "a{b:2"])), "{key}");
    }

    #[test]
    fn a_line_is_a_request() {
        let (keys, requests) = read(&b"a\nb\r\n\na\nc"[..]).unwrap();
        assert_eq!(keys, [b"a", b"b", b"c"]);
        assert_eq!(requests, [0, 1, 0, 2]);
    }

    #[test]
    fn the_same_requests_and_values_for_the_same_seed() {
        assert_eq!(requests(100, 50, 0.9, 1), requests(100, 50, 0.9, 1));
        assert_ne!(requests(100, 50, 0.9, 1), requests(100, 50, 0.9, 2));
        let objects = Objects::made_up(100, 32, 1);
        assert!((0..100).all(|object| (16..=48).contains(&objects.value(object).len())));
        assert_eq!(objects.value(7), Objects::made_up(100, 32, 1).value(7));
        assert_eq!(objects.with_values(200).value_limit(), 320);
    }

    #[test]
    fn every_object_has_a_place_of_its_own() {
        let objects = Objects::made_up(1000, 32, 1);
        let places = objects.places(Form::Buckets(16), b"lab:").unwrap();
        let distinct: std::collections::HashSet<_> = places.iter().map(|place| (&place.key, &place.field)).collect();
        assert_eq!(distinct.len(), 1000);
        assert!(places.iter().all(|place| place.key.starts_with(b"lab:~") && place.field.is_some()));
        let buckets: std::collections::HashSet<_> = places.iter().map(|place| &place.key).collect();
        assert_eq!(buckets.len(), 62);
    }
}
