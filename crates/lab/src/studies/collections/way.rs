//! The ways in which a family may be kept: as it is, by what can be done without keyfold, and folded.

use keyfold_core::memory::{BucketCost, Keyspace, Limits, Model, SetCost, ValueShape};
use keyfold_core::record::SetsAs;

use super::family::{Family, Made, SMALL_VALUE_LIMIT};
use crate::folding::Words;
use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_survey::random::Random;

/// A limit of the server's own: its name, its default, and what it is to be.
pub(super) type Limit = (&'static str, u64, u64);

const HASH_ENTRIES: &str = "hash-max-listpack-entries";
const HASH_VALUE: &str = "hash-max-listpack-value";
const SET_ENTRIES: &str = "set-max-listpack-entries";
const INTEGERS: &str = "set-max-intset-entries";
/// The limit that was published for sets as hashes, and the members that were in one. More would be searched for too long.
const PUBLISHED_LIMIT: u64 = 32_768;
const PUBLISHED_MEMBERS: u64 = 30_000;
/// Members of a large one that come first, together: what grows from nothing member by member leaves values behind that are too long for
/// a bucket and too few for parts, and which keyfold only removes some seconds later.
const FIRST: usize = 64;

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Plain,
    /// Packed by the server, as its limit is raised.
    Packed,
    /// A set as a hash with empty values, which is packed.
    AsHash,
    Folded,
    /// By a codec that leaves out what names and values hashes have in common.
    FoldedByFields,
}

impl Way {
    /// Those of a family, on a server that packs small sets so.
    pub(super) fn of(family: Family, sets: SetsAs) -> Vec<Self> {
        let packs_sets = sets == SetsAs::Sets;
        let remedies: &[Self] = match family {
            Family::Integers | Family::Fields => &[Self::Packed],
            Family::Texts if packs_sets => &[Self::Packed, Self::AsHash],
            Family::Texts | Family::Sets => &[Self::AsHash],
            // They are packed already.
            Family::Sessions => &[],
        };
        let by_fields = (family == Family::Sessions).then_some(Self::FoldedByFields);
        [Self::Plain].into_iter().chain(remedies.iter().copied()).chain([Self::Folded]).chain(by_fields).collect()
    }

    pub(super) fn is_folded(self) -> bool {
        matches!(self, Self::Folded | Self::FoldedByFields)
    }

    pub(super) fn name(self, family: Family) -> String {
        match self {
            Self::Plain => "plain".to_owned(),
            Self::Packed => match self.limit(family, 0) {
                Some((name, ..)) => format!("plain, {name} raised"),
                None => "plain, packed".to_owned(),
            },
            Self::AsHash if family.is_large() => format!("as a hash, {HASH_ENTRIES} {PUBLISHED_LIMIT}"),
            Self::AsHash => "as hashes with empty values".to_owned(),
            Self::Folded => "folded".to_owned(),
            Self::FoldedByFields => "folded, codec fields".to_owned(),
        }
    }

    /// Of so many members, how many there are this way.
    pub(super) fn members(self, family: Family, members: u64) -> u64 {
        match self {
            Self::Packed if family != Family::Integers => members.min(PUBLISHED_MEMBERS),
            Self::AsHash if family.is_large() => members.min(PUBLISHED_MEMBERS),
            _ => members,
        }
    }

    /// The limit that it needs.
    pub(super) fn limit(self, family: Family, members: u64) -> Option<Limit> {
        let default = Limits::default();
        match self {
            Self::Packed => Some(match family {
                Family::Integers => (INTEGERS, default.intset_entries, members.max(default.intset_entries)),
                Family::Fields | Family::Sessions => (HASH_ENTRIES, default.hash_entries, PUBLISHED_LIMIT),
                Family::Texts | Family::Sets => (SET_ENTRIES, default.set_entries, PUBLISHED_LIMIT),
            }),
            Self::AsHash if family.is_large() => Some((HASH_ENTRIES, default.hash_entries, PUBLISHED_LIMIT)),
            Self::Folded | Self::FoldedByFields if !family.is_large() => {
                Some((HASH_VALUE, default.hash_value_bytes, SMALL_VALUE_LIMIT))
            }
            _ => None,
        }
    }

    fn kind(self, family: Family) -> CollectionKind {
        if self == Self::AsHash { CollectionKind::Hash } else { family.kind() }
    }

    /// The commands that write a collection: small ones whole, large ones member by member.
    pub(super) fn write(self, family: Family, made: &Made) -> Vec<Words> {
        let command: &[u8] = if self.kind(family) == CollectionKind::Set { b"SADD" } else { b"HSET" };
        let words = |texts: &[Vec<u8>]| -> Words {
            let empty = if self == Self::AsHash { vec![Vec::new()] } else { Vec::new() };
            let texts = texts.iter().flat_map(|text| std::iter::once(text.clone()).chain(empty.clone()));
            [command.to_vec(), made.key.clone()].into_iter().chain(texts).collect()
        };
        if !family.is_large() {
            return vec![words(&made.texts)];
        }
        let each = texts_of_one(family);
        let (first, others) = made.texts.split_at(made.texts.len().min(FIRST * each));
        std::iter::once(words(first)).chain(others.chunks(each).map(words)).collect()
    }

    /// Look-ups by chance of what is there.
    pub(super) fn look_ups(self, family: Family, made: &[Made], count: u64, seed: u64, prefix: &[u8]) -> Vec<Words> {
        let command: &[u8] = match (self, family.kind()) {
            (Self::AsHash, _) => b"HEXISTS",
            (_, CollectionKind::Set) => b"SISMEMBER",
            (_, CollectionKind::Hash) => b"HGET",
        };
        let (mut random, each) = (Random::new(seed), texts_of_one(family));
        let one = |_| {
            let one = random.pick(made);
            let at = random.below((one.texts.len() / each) as u64);
            let text = one.texts.iter().step_by(each).nth(usize::try_from(at).unwrap_or(0));
            vec![command.to_vec(), [prefix, &one.key].concat(), text.cloned().unwrap_or_default()]
        };
        (0..count).map(one).collect()
    }

    /// What the model expects of it, where the server holds it itself.
    pub(super) fn expect<'m>(self, family: Family, made: &[Made], model: &'m Model, prefix_len: u64) -> Keyspace<'m> {
        let mut keyspace = Keyspace::new(model);
        for one in made {
            let key_len = prefix_len + one.key.len() as u64;
            let bytes = match (self, one.collection(family.kind())) {
                (Self::AsHash, Collection::Set(set)) => {
                    let mut cost = BucketCost::default();
                    set.iter().for_each(|member| cost.add(model, ValueShape::of(member), ValueShape::Bytes(0)));
                    model.settled_hash_bytes(key_len, &cost, false)
                }
                (_, Collection::Set(set)) => {
                    let mut cost = SetCost::default();
                    set.iter().for_each(|member| cost.add(model, ValueShape::of(member)));
                    model.settled_set_bytes(key_len, &cost, false)
                }
                (_, Collection::Hash(hash)) => {
                    let mut cost = BucketCost::default();
                    for (name, field) in hash.iter() {
                        cost.add(model, ValueShape::of(name), ValueShape::of(&field.value));
                    }
                    model.settled_hash_bytes(key_len, &cost, false)
                }
            };
            keyspace.add(bytes, false);
        }
        keyspace
    }
}

/// A member is one text, a field two.
fn texts_of_one(family: Family) -> usize {
    if family.kind() == CollectionKind::Set { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &Words) -> String {
        words.iter().map(|word| format!("{} ", word.escape_ascii())).collect()
    }

    #[test]
    fn large_ones_are_written_one_by_one_behind_the_first() {
        let made = &Family::Integers.make(100, 1)[0];
        let commands = Way::Folded.write(Family::Integers, made);
        assert_eq!((commands.len(), commands[0].len()), (1 + 100 - FIRST, 2 + FIRST));
        assert_eq!(line(&commands[1]), "SADD large:1 10025408 ");
        let fields = &Family::Fields.make(100, 1)[0];
        assert!(line(&Way::Plain.write(Family::Fields, fields)[1]).starts_with("HSET large:1 item1000064 "));
    }

    #[test]
    fn a_set_as_a_hash_has_empty_values() {
        let made = &Family::Sets.make(5, 1)[0];
        let commands = Way::AsHash.write(Family::Sets, made);
        assert_eq!((commands.len(), commands[0].len()), (1, 2 + 10));
        assert!(commands[0][3].is_empty() && commands[0][0] == b"HSET");
    }

    #[test]
    fn what_is_looked_for_is_there() {
        let made = Family::Sessions.make(50, 1);
        for look_up in Way::Plain.look_ups(Family::Sessions, &made, 20, 3, b"") {
            let [command, key, name] = &look_up[..] else { panic!("{}", line(&look_up)) };
            let one = made.iter().find(|one| one.key == *key).unwrap();
            assert!(command == b"HGET" && one.texts.iter().step_by(2).any(|text| text == name));
        }
    }

    #[test]
    fn each_server_has_its_remedies() {
        assert_eq!(Way::of(Family::Texts, SetsAs::Hashes), [Way::Plain, Way::AsHash, Way::Folded]);
        assert_eq!(Way::of(Family::Texts, SetsAs::Sets), [Way::Plain, Way::Packed, Way::AsHash, Way::Folded]);
        assert_eq!(Way::Packed.members(Family::Fields, 200_000), PUBLISHED_MEMBERS);
        assert_eq!(Way::Packed.limit(Family::Integers, 200_000), Some((INTEGERS, 512, 200_000)));
    }
}
