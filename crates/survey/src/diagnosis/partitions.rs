//! Sets and hashes that an application seems to have split by hand, each into several keys by a hash of the member:
//!
//! ```text
//! followers:123:7        beginning, separator, number of the partition
//! followers:{id:int}     the template of the family's beginnings
//! ```
//! Names tell which families may be such: the numbers are 0 to n-1, and nearly every beginning has each of them. Of those some
//! keys are looked at: no member may be in two partitions of one key, as one would be in sets by hour, or by page.

use std::collections::{BTreeMap, HashSet};

use keyfold_core::collection::CollectionKind;
use keyfold_core::collection::parts::HEADER_BYTES;
use keyfold_core::memory::{Model, ValueShape};

use super::family::offer;
use super::finding::Example;
use super::pattern::{UUID_LEN, is_uuid};
use crate::in_parts::InParts;

/// Who splits by hand has as many partitions at least, and at most.
const FEWEST_PARTITIONS: usize = 4;
const MOST_PARTITIONS: usize = 1024;
/// Nobody has to split what the server packs by any of its default limits.
const SMALL_MEMBERS: u64 = 128;
/// Beginnings that are remembered of each family, to be looked at.
const BEGINNINGS: usize = 3;
/// More families than this are not told apart.
const FAMILIES: usize = 512;
/// An integer of more digits is no `{id:int}` for certain.
const INT_DIGITS: usize = 18;
/// Bytes between words of a name that neither a shell nor a pattern takes for something else, once escaped.
const SEPARATORS: &[u8] = b":._-/|#@{}";
/// As many members that were looked at say what all are like.
const SHAPES: usize = 1000;
/// What a key in parts takes besides its parts: its header behind a tag and a nonce, and its field.
const FIELD_BYTES: u64 = HEADER_BYTES as u64 + 9 + 8;
/// A key's share of the table of keys: a pointer or two.
const TABLE_SHARE_BYTES: u64 = 12;

/// A part of a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Word {
    Literal(String),
    Int,
    Uuid,
}

/// By what the partitions of a family are known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartitionedName {
    database: u32,
    is_hash: bool,
    words: Vec<Word>,
    separator: char,
}

/// What was counted of a family whose names end in a number.
#[derive(Clone, Debug, Default)]
pub struct Partitioned {
    /// Keys by their number.
    by_number: Vec<u64>,
    /// Whether some have a number beyond all that partitions have.
    has_larger: bool,
    /// Members or fields of all.
    pub members: u64,
    /// Those of the largest.
    most_members: u64,
    /// What all take.
    pub bytes: u64,
    /// The largest.
    pub examples: Vec<Example>,
    beginnings: Vec<Vec<u8>>,
    verdict: Option<Verdict>,
}

/// What a look at some keys of a family has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether no member was in two partitions of a key.
    pub are_disjoint: bool,
    /// Whether a partition expires.
    pub expires: bool,
    /// Whether a key is called as the beginning itself.
    pub is_beginning_used: bool,
    /// What all would take as sets or hashes in parts, one for each beginning.
    pub folded_bytes: u64,
}

/// A beginning, as it was looked at.
#[derive(Clone, Debug, Default)]
pub struct LookedAt {
    /// Whether a key is called so.
    pub is_used: bool,
    /// Whether one of its partitions expires.
    pub expires: bool,
    /// Some members of each partition, with empty values, or fields.
    pub partitions: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// All families of sets and hashes whose names end in a number behind a template.
#[derive(Clone, Debug, Default)]
pub struct Partitions {
    families: BTreeMap<PartitionedName, Partitioned>,
}

/// A family to look at.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Which it is.
    pub name: PartitionedName,
    /// Some of its beginnings.
    pub beginnings: Vec<Vec<u8>>,
    /// How many partitions each has.
    pub partitions: usize,
}

impl Partitions {
    /// Whether a key of this name could be a partition.
    pub fn may_be(key: &[u8]) -> bool {
        split(key).is_some_and(|(beginning, ..)| words_of(beginning).is_some())
    }

    /// Counts a set or hash, where its name is that of a partition.
    pub fn add(&mut self, database: u32, kind: CollectionKind, key: &[u8], members: u64, bytes: u64) {
        let Some((beginning, separator, number)) = split(key) else { return };
        let Some(words) = words_of(beginning) else { return };
        let is_hash = kind == CollectionKind::Hash;
        let name = PartitionedName { database, is_hash, words, separator: separator.into() };
        if self.families.len() >= FAMILIES && !self.families.contains_key(&name) {
            return;
        }
        let family = self.families.entry(name).or_default();
        family.members += members;
        family.most_members = family.most_members.max(members);
        family.bytes += bytes;
        let mut example = Example::new(database, key, bytes);
        example.entries = Some(members);
        offer(&mut family.examples, example);
        let Some(number) = number.filter(|number| *number < MOST_PARTITIONS) else {
            family.has_larger = true;
            return;
        };
        if family.by_number.len() <= number {
            family.by_number.resize(number + 1, 0);
        }
        family.by_number[number] += 1;
        if family.beginnings.len() < BEGINNINGS && !family.beginnings.iter().any(|known| known == beginning) {
            family.beginnings.push(beginning.to_vec());
        }
    }

    /// The families of this database whose names are those of partitions.
    pub fn wanted(&self, database: u32) -> Vec<Wanted> {
        let such = self.families.iter().filter(|(name, family)| name.database == database && family.may_be_by_hand());
        such.map(|(name, family)| Wanted {
            name: name.clone(),
            beginnings: family.beginnings.clone(),
            partitions: family.partitions(),
        })
        .collect()
    }

    /// Takes what was seen of some beginnings of a family.
    pub fn look(&mut self, name: &PartitionedName, looked: &[LookedAt], model: &Model) {
        if let Some(family) = self.families.get_mut(name) {
            family.verdict = family.judge(name, looked, model);
        }
    }

    /// All families.
    pub fn iter(&self) -> impl Iterator<Item = (&PartitionedName, &Partitioned)> {
        self.families.iter()
    }
}

impl Partitioned {
    /// How many partitions a key has.
    pub fn partitions(&self) -> usize {
        self.by_number.len()
    }

    /// How many keys they are partitions of: as many as have the number that most have, since an empty one isn't there.
    pub fn logical_keys(&self) -> u64 {
        self.by_number.iter().copied().max().unwrap_or(0)
    }

    /// All partitions.
    pub fn keys(&self) -> u64 {
        self.by_number.iter().sum()
    }

    /// What a look has shown, where one was taken.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// As many members as no key has more of.
    pub fn members_at_most(&self) -> u64 {
        self.most_members * self.partitions() as u64
    }

    /// Members of a key, on average.
    fn members_of_each(&self) -> u64 {
        self.members / self.logical_keys().max(1)
    }

    /// Whether names and sizes are as those of partitions.
    fn may_be_by_hand(&self) -> bool {
        let most = self.logical_keys();
        !self.has_larger
            && self.partitions() >= FEWEST_PARTITIONS
            && self.by_number.iter().all(|keys| keys * 2 >= most)
            && self.members_of_each() > SMALL_MEMBERS
    }

    /// None where too little was seen, as keys went meanwhile.
    fn judge(&self, name: &PartitionedName, looked: &[LookedAt], model: &Model) -> Option<Verdict> {
        let all = || looked.iter().flat_map(|key| key.partitions.iter().flatten());
        let shapes: Vec<_> =
            all().take(SHAPES).map(|(name, value)| (ValueShape::of(name), ValueShape::of(value))).collect();
        let key_len = self.beginnings.first()?.len() as u64;
        let (keys, members) = (self.logical_keys(), self.members_of_each());
        let cost = InParts::default().cost(model, name.kind(), key_len, members, &shapes)?;
        let each = cost.bytes + cost.keys * TABLE_SHARE_BYTES + key_len + FIELD_BYTES;
        let are_disjoint = looked.iter().all(|key| {
            let mut known = HashSet::new();
            key.partitions.iter().flatten().all(|(name, _)| known.insert(name))
        });
        Some(Verdict {
            are_disjoint,
            expires: looked.iter().any(|key| key.expires),
            is_beginning_used: looked.iter().any(|key| key.is_used),
            folded_bytes: keys * each,
        })
    }
}

impl PartitionedName {
    /// Whether they are sets or hashes.
    pub fn kind(&self) -> CollectionKind {
        if self.is_hash { CollectionKind::Hash } else { CollectionKind::Set }
    }

    /// The database they are in.
    pub fn database(&self) -> u32 {
        self.database
    }

    /// The byte before the number.
    pub fn separator(&self) -> char {
        self.separator
    }

    /// The partition of this number.
    pub fn partition(&self, beginning: &[u8], number: usize) -> Vec<u8> {
        [beginning, self.separator.to_string().as_bytes(), number.to_string().as_bytes()].concat()
    }

    /// The template that all beginnings match: `followers:{id:int}`.
    pub fn template(&self) -> String {
        let mut placeholders = 0;
        let mut named = |kind: &str| {
            placeholders += 1;
            let number = if placeholders == 1 { String::new() } else { placeholders.to_string() };
            format!("{{id{number}:{kind}}}")
        };
        let word = |word: &Word| match word {
            Word::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
            Word::Int => named("int"),
            Word::Uuid => named("uuid"),
        };
        self.words.iter().map(word).collect()
    }

    /// A glob that all partitions match, and perhaps others: `followers:*:*`.
    pub fn glob(&self) -> String {
        let word = |word: &Word| match word {
            Word::Literal(text) => text.clone(),
            Word::Int | Word::Uuid => "*".to_owned(),
        };
        format!("{}{}*", self.words.iter().map(word).collect::<String>(), self.separator)
    }

    /// An extended regular expression that all partitions match, and only these; its first group is the beginning.
    pub fn expression(&self) -> String {
        let word = |word: &Word| match word {
            Word::Literal(text) => text.chars().map(escaped).collect(),
            Word::Int => "[0-9]+".to_owned(),
            Word::Uuid => "[0-9a-f-]{36}".to_owned(),
        };
        let beginning: String = self.words.iter().map(word).collect();
        format!("^({beginning}){}[0-9]+$", escaped(self.separator))
    }
}

/// As expressions of `sed` between slashes have it.
fn escaped(byte: char) -> String {
    if byte.is_ascii_alphanumeric() || ":_-#@".contains(byte) { byte.to_string() } else { format!("\\{byte}") }
}

/// A name's beginning, the separator, and the number behind it: none where that is larger than any.
fn split(key: &[u8]) -> Option<(&[u8], u8, Option<usize>)> {
    let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (rest, number) = key.split_at(key.len() - digits);
    let (separator, beginning) = rest.split_last()?;
    let is_canonical = number == b"0" || number.first().is_some_and(|first| *first != b'0');
    let is_separator = SEPARATORS.contains(separator) && !b"{}".contains(separator);
    (is_canonical && is_separator).then(|| {
        let number = str::from_utf8(number).ok().and_then(|number| number.parse().ok());
        (beginning, *separator, number)
    })
}

/// The words of a beginning; none where no template could be made of it for certain, or all of it is literal.
fn words_of(beginning: &[u8]) -> Option<Vec<Word>> {
    if !beginning.first()?.is_ascii_alphabetic() && beginning.first() != Some(&b'{') {
        return None;
    }
    let mut words = Vec::new();
    let mut literal = String::new();
    let mut rest = beginning;
    while let Some(first) = rest.first() {
        let is_id = is_uuid(rest) && !rest.get(UUID_LEN).is_some_and(u8::is_ascii_alphanumeric);
        let len = if is_id { UUID_LEN } else { rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count() };
        let (word, after) = rest.split_at(len.max(1));
        let is_int = word.iter().all(u8::is_ascii_digit);
        if is_id && word.iter().any(u8::is_ascii_uppercase)
            || is_int && (word.len() > INT_DIGITS || word.len() > 1 && *first == b'0')
            || len == 0 && !SEPARATORS.contains(first)
        {
            return None;
        }
        if is_id || is_int {
            words.extend((!literal.is_empty()).then(|| Word::Literal(std::mem::take(&mut literal))));
            words.push(if is_id { Word::Uuid } else { Word::Int });
        } else {
            literal.extend(word.iter().copied().map(char::from));
        }
        rest = after;
    }
    let has_id = !words.is_empty();
    words.extend((!literal.is_empty()).then_some(Word::Literal(literal)));
    has_id.then_some(words)
}

#[cfg(test)]
mod tests {
    use keyfold_core::memory::Server;
    use keyfold_core::template::Template;

    use super::*;

    fn only(partitions: &Partitions) -> (PartitionedName, Partitioned) {
        let all: Vec<_> = partitions.iter().collect();
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].0.clone(), all[0].1.clone())
    }

    fn named(keys: &[&str]) -> Partitions {
        let mut partitions = Partitions::default();
        keys.iter().for_each(|key| partitions.add(0, CollectionKind::Set, key.as_bytes(), 500, 9000));
        partitions
    }

    #[test]
    fn names_become_templates_globs_and_expressions() {
        for (key, template, glob, expression) in [
            ("followers:123:7", "followers:{id:int}", "followers:*:*", "^(followers:[0-9]+):[0-9]+$"),
            ("{f:12}:7", "{{f:{id:int}}}", "{f:*}:*", r"^(\{f:[0-9]+\}):[0-9]+$"),
            (
                "v2.shop:1:cart:22_0",
                "v2.shop:{id:int}:cart:{id2:int}",
                "v2.shop:*:cart:*_*",
                r"^(v2\.shop:[0-9]+:cart:[0-9]+)_[0-9]+$",
            ),
            ("u:abcdefab-cdef-abcd-efab-cdefabcdefab/3", "u:{id:uuid}", "u:*/*", r"^(u:[0-9a-f-]{36})\/[0-9]+$"),
        ] {
            assert!(Partitions::may_be(key.as_bytes()));
            let (name, _) = only(&named(&[key]));
            assert_eq!((name.template().as_str(), name.glob().as_str()), (template, glob), "{key}");
            assert_eq!(name.expression(), expression, "{key}");
            let (beginning, ..) = split(key.as_bytes()).unwrap();
            let parsed = Template::parse(template).unwrap();
            assert!(parsed.texts(beginning).is_some(), "{key}");
            assert!(parsed.texts(key.as_bytes()).is_none(), "a partition is no key of the template: {key}");
        }
    }

    #[test]
    fn other_names_are_none() {
        for key in [
            "followers:0",
            "followers:123:07",
            "followers:0123:7",
            "followers:123:x",
            "followers:123:",
            "1:2",
            "12",
            "",
            "a b:1:2",
            "a'b:1:2",
            "a$:1:2",
            "followers:ABCDEFAB-cdef-abcd-efab-cdefabcdefab:1",
            "a:1234567890123456789:0",
            "~tnrO:1:2",
        ] {
            assert!(!Partitions::may_be(key.as_bytes()), "{key}");
            assert_eq!(named(&[key]).iter().count(), 0, "{key}");
        }
    }

    /// So many beginnings with so many partitions each.
    fn dense(keys: usize, partitions: usize, members: u64) -> Partitions {
        let mut all = Partitions::default();
        for (key, number) in (0..keys).flat_map(|key| (0..partitions).map(move |number| (key, number))) {
            all.add(0, CollectionKind::Set, format!("f:{key}:{number}").as_bytes(), members, 20 * members);
        }
        all
    }

    #[test]
    fn numbers_must_be_dense_and_sets_large() {
        let wanted = |partitions: &Partitions| partitions.wanted(0).len();
        let sixteen = dense(50, 16, 100);
        let (_, family) = only(&sixteen);
        assert_eq!((family.logical_keys(), family.partitions(), family.keys()), (50, 16, 800));
        assert_eq!(family.members_at_most(), 1600);
        let looks = &sixteen.wanted(0)[0];
        assert_eq!((looks.partitions, looks.beginnings.len()), (16, BEGINNINGS));
        assert_eq!((sixteen.wanted(1).len(), wanted(&dense(1, 4, 100))), (0, 1));
        assert_eq!((wanted(&dense(50, 16, 8)), wanted(&dense(50, 3, 1000))), (0, 0), "small sets, few partitions");
        for other in ["f:7:16", "f:7:20", "f:7:5000", "f:7:99999999999999999999999"] {
            let mut holes = sixteen.clone();
            holes.add(0, CollectionKind::Set, other.as_bytes(), 100, 2000);
            assert_eq!(wanted(&holes), 0, "{other}");
        }
        let mut gone = Partitions::default();
        for number in (0..16).filter(|number| *number != 5) {
            gone.add(0, CollectionKind::Set, format!("f:1:{number}").as_bytes(), 100, 2000);
        }
        assert_eq!(wanted(&gone), 0);
    }

    fn verdict(looked: &[LookedAt]) -> Option<Verdict> {
        let mut partitions = dense(50, 16, 500);
        let (name, _) = only(&partitions);
        partitions.look(&name, looked, &Model::for_server(Server::redis(7, 0)));
        only(&partitions).1.verdict().copied()
    }

    fn looked(members: impl Fn(usize, usize) -> usize) -> LookedAt {
        let partition =
            |number| (0..100).map(|nth| (members(number, nth).to_string().into_bytes(), Vec::new())).collect();
        LookedAt { partitions: (0..16).map(partition).collect(), ..LookedAt::default() }
    }

    #[test]
    fn a_look_tells_partitions_from_others() {
        let modulo = looked(|number, nth| 10_000_000 + nth * 16 + number);
        let found = verdict(std::slice::from_ref(&modulo)).unwrap();
        assert!(found.are_disjoint && !found.expires && !found.is_beginning_used, "{found:?}");
        let each = found.folded_bytes / (50 * 16 * 500);
        assert!((4..8).contains(&each), "{each} bytes for a member of 8 digits");
        let by_hour = looked(|number, nth| 10_000_000 + nth + number);
        assert!(!verdict(&[modulo.clone(), by_hour]).unwrap().are_disjoint);
        let expiring = LookedAt { expires: true, ..modulo.clone() };
        let used = LookedAt { is_used: true, ..modulo };
        let found = verdict(&[expiring, used]).unwrap();
        assert!(found.are_disjoint && found.expires && found.is_beginning_used, "two keys may have the same members");
        assert_eq!(verdict(&[LookedAt::default()]), None, "all went meanwhile");
    }

    #[test]
    fn families_are_bounded() {
        let mut partitions = Partitions::default();
        for word in 0..2 * FAMILIES {
            partitions.add(0, CollectionKind::Hash, format!("a{word}:1:0").as_bytes(), 1, 1);
        }
        assert_eq!(partitions.iter().count(), FAMILIES);
    }
}
