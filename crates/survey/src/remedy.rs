//! What sets and hashes that are hashtables would take if the server packed them: by a higher limit of its own, or, of sets
//! of texts before Redis 7.2, as hashes with empty values.
//!
//! Nothing has to be folded for that. What it costs is time: a packed collection is searched from its start, and a limit holds
//! for every one on the server. So it is proposed up to a length that is searched within some microseconds.

use std::collections::BTreeMap;

use keyfold_core::collection::Collection;
use keyfold_core::memory::{BucketCost, Limits, Model, SetCost, ValueShape};

use crate::choose::{Alternative, Choice, Setting, Verdict};
use crate::number::grouped;
use crate::observation::{Content, Encoding, Kind, Observation, Sampled};

/// A list of more entries takes more than some microseconds to be searched (`choose/read_times.tsv`).
const MOST_ENTRIES: u64 = 1024;
/// Longer members and values have little of a hashtable's price to lose.
const MOST_VALUE_BYTES: u64 = 1024;
/// An intset is searched by halves, and moved as a whole when it is written: so many integers within some microseconds.
const MOST_INTEGERS: u64 = 8192;

/// A limit says what becomes of those that are written from then on.
pub const REWRITTEN: &str = "What is a hashtable already stays one until it is written anew: `keyfold doctor URL --rewrite` does \
                             that to hashes while clients go on, DUMP and RESTORE to a set, a restart from a dump to all";

/// How hashtables come to be packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Sets of integers, by a higher limit.
    Integers,
    /// Other sets, by higher limits.
    Set,
    /// Hashes, by higher limits.
    Hash,
    /// Sets that the application keeps as hashes with empty values.
    SetAsHash,
}

/// What a way takes for the largest that it is meant for.
#[derive(Clone, Copy, Debug, Default)]
struct Need {
    entries: u64,
    longest: u64,
}

/// What was counted of a family's hashtables.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    keys: u64,
    bytes: u64,
    /// Of some of them members are known: how many these are, and what they would take.
    looked_into: u64,
    after_bytes: u64,
    needs: BTreeMap<Way, Need>,
}

/// What can be done without folding.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// Settings of the server that have to be higher.
    pub settings: Vec<Setting>,
    /// Whether the application has to keep sets as hashes with empty values.
    pub sets_as_hashes: bool,
    /// How many bytes the family takes then.
    pub bytes: f64,
}

impl Tables {
    /// Looks at a key that takes so many bytes.
    pub(crate) fn add(&mut self, model: &Model, observation: &Observation, bytes: u64) {
        let Content::Elements(elements) = observation.content else { return };
        if observation.encoding != Encoding::Hashtable {
            return;
        }
        self.keys += 1;
        self.bytes += bytes;
        let shapes = shapes(observation);
        if shapes.is_empty() {
            return;
        }
        self.looked_into += 1;
        let packed = Packed::of(model, observation, elements, &shapes).filter(|packed| packed.bytes < bytes);
        self.after_bytes += packed.as_ref().map_or(bytes, |packed| packed.bytes);
        if let Some(Packed { way, need, .. }) = packed {
            self.needs.entry(way).or_default().widen(need);
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.keys += other.keys;
        self.bytes += other.bytes;
        self.looked_into += other.looked_into;
        self.after_bytes += other.after_bytes;
        other.needs.into_iter().for_each(|(way, need)| self.needs.entry(way).or_default().widen(need));
    }

    /// What can be done for a family that takes so many bytes, and has so many times as many keys as were seen; none where nothing
    /// is known to help.
    pub(crate) fn remedy(&self, limits: &Limits, family_bytes: f64, scale: f64) -> Option<Remedy> {
        let after = self.after_bytes as f64 * self.keys as f64 / self.looked_into.max(1) as f64;
        let saved = (self.bytes as f64 - after) * scale;
        let settings: Vec<Setting> = self.needs.iter().flat_map(|(way, need)| way.settings(*need, limits)).collect();
        let sets_as_hashes = self.needs.contains_key(&Way::SetAsHash);
        (saved > 0.0).then(|| Remedy { settings, sets_as_hashes, bytes: (family_bytes - saved).max(0.0) })
    }
}

impl Need {
    fn widen(&mut self, other: Self) {
        *self = Self { entries: self.entries.max(other.entries), longest: self.longest.max(other.longest) };
    }
}

impl Way {
    /// The settings that are too low for it.
    fn settings(self, need: Need, limits: &Limits) -> impl Iterator<Item = Setting> {
        // With room to grow: the next that is larger unpacks.
        let roomy =
            |least: u64, most: u64| least.checked_next_power_of_two().map_or(least, |more| more.min(most)).max(least);
        let (entries, longest) = (roomy(need.entries, MOST_ENTRIES), roomy(need.longest, MOST_VALUE_BYTES));
        let both = match self {
            Self::Integers => {
                [("set-max-intset-entries", roomy(need.entries, MOST_INTEGERS), limits.intset_entries); 2]
            }
            Self::Set => [
                ("set-max-listpack-entries", entries, limits.set_entries),
                ("set-max-listpack-value", longest, limits.set_value_bytes),
            ],
            Self::Hash | Self::SetAsHash => [
                ("hash-max-listpack-entries", entries, limits.hash_entries),
                ("hash-max-listpack-value", longest, limits.hash_value_bytes),
            ],
        };
        let settings = both.into_iter().take(if self == Self::Integers { 1 } else { 2 });
        let setting = |(name, needs, has)| Setting { name, needs, has, bytes_without: None };
        let is_met = move |name: &str, has: u64| match name.ends_with("-value") {
            true => need.longest <= has,
            false => need.entries <= has,
        };
        settings.filter(move |(name, _, has)| !is_met(name, *has)).map(setting)
    }
}

impl Remedy {
    /// Tells of it beside what was weighed for the same family. Where settings alone save as much as folding, nothing is folded.
    pub fn tell(&self, choice: &mut Choice) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, not negative")]
        let bytes = self.bytes.round() as u64;
        if choice.verdict == Verdict::Fold && !self.sets_as_hashes && bytes <= choice.bytes_after {
            choice.leave("packed by the server itself they take no more than folded".to_owned());
        }
        if choice.verdict == Verdict::Fold {
            let times = self.bytes / choice.bytes_after.max(1) as f64;
            let why_not = format!("{times:.2} times the bytes, and nothing to be folded");
            let (what, read_us) = (self.describe(), choice.read_us_now);
            choice.alternatives.push(Alternative { what, bytes, read_us, why_not });
        } else {
            let each = self.bytes / choice.now.keys.max(1.0);
            choice.other_ways.push(format!("{}: {each:.1} bytes a key. {REWRITTEN}", self.describe()));
        }
    }

    /// What has to be done, for people.
    pub fn describe(&self) -> String {
        let set = |setting: &Setting| {
            format!("CONFIG SET {} {} (it is {})", setting.name, setting.needs, grouped(setting.has))
        };
        let mut all: Vec<String> = self.settings.iter().map(set).collect();
        if self.sets_as_hashes {
            all.push("keep the sets as hashes with empty values, which this server packs".to_owned());
        }
        if all.is_empty() {
            all.push(
                "write them anew, as they are within the server's limits, unless fields of theirs expire".to_owned(),
            );
        }
        all.join(", ")
    }
}

/// One collection as the server would pack it.
struct Packed {
    way: Way,
    need: Need,
    bytes: u64,
}

impl Packed {
    /// None where it is out of reach. Elements that were not looked at are as those that were.
    fn of(model: &Model, key: &Observation, elements: u64, shapes: &[(ValueShape, ValueShape)]) -> Option<Self> {
        let no_limits = Limits {
            hash_entries: u64::MAX,
            hash_value_bytes: u64::MAX,
            set_entries: u64::MAX,
            set_value_bytes: u64::MAX,
            intset_entries: u64::MAX,
        };
        let model = model.clone().with_limits(no_limits);
        let longest = shapes.iter().map(|(name, value)| name.len().max(value.len())).max().unwrap_or(0);
        let is_short = elements <= MOST_ENTRIES && longest <= MOST_VALUE_BYTES;
        let are_integers = shapes.iter().all(|(name, _)| matches!(name, ValueShape::Integer(_)));
        let all = || {
            let times = usize::try_from(elements).unwrap_or(usize::MAX);
            shapes.iter().copied().cycle().take(times)
        };
        let (key_len, has_expiry) = (key.key.len() as u64, key.has_expiry);
        let as_hash = || {
            let mut cost = BucketCost::default();
            all().for_each(|(name, value)| cost.add(&model, name, value));
            model.hash_bytes(key_len, &cost, has_expiry)
        };
        let as_set = || {
            let mut cost = SetCost::default();
            all().for_each(|(name, _)| cost.add(&model, name));
            (!cost.is_table()).then(|| model.set_bytes(key_len, &cost, has_expiry))
        };
        let need = Need { entries: elements, longest };
        match key.kind {
            Kind::Set if are_integers => {
                let bytes = as_set().filter(|_| elements <= MOST_INTEGERS)?;
                Some(Self { way: Way::Integers, need, bytes })
            }
            Kind::Set if is_short => Some(match as_set() {
                Some(bytes) => Self { way: Way::Set, need, bytes },
                None => Self { way: Way::SetAsHash, need, bytes: as_hash() },
            }),
            Kind::Hash if is_short => Some(Self { way: Way::Hash, need, bytes: as_hash() }),
            _ => None,
        }
    }
}

/// The elements that were looked at: names with values, members with empty ones.
pub(crate) fn shapes(observation: &Observation) -> Vec<(ValueShape, ValueShape)> {
    let empty = ValueShape::Bytes(0);
    match (&observation.members, &observation.sample) {
        (Some(Collection::Set(set)), _) => set.iter().map(|member| (ValueShape::of(member), empty)).collect(),
        (Some(Collection::Hash(hash)), _) => {
            hash.iter().map(|(name, field)| (ValueShape::of(name), ValueShape::of(&field.value))).collect()
        }
        (None, Some(Sampled::Members(members))) => {
            members.iter().map(|member| (ValueShape::of(member), empty)).collect()
        }
        (None, Some(Sampled::Fields(fields))) => {
            fields.iter().map(|(name, value)| (ValueShape::of(name), ValueShape::of(value))).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use keyfold_core::collection::CollectionKind;
    use keyfold_core::memory::Server;

    use super::*;

    fn key(kind: CollectionKind, texts: Vec<String>) -> Observation {
        let members = Collection::of_texts(kind, texts.into_iter().map(String::into_bytes).collect());
        Observation {
            key: b"a:1"[..].into(),
            kind: Kind::parse(kind.name().as_bytes()),
            encoding: Encoding::Hashtable,
            content: Content::Elements(members.len() as u64),
            usage_bytes: None,
            has_expiry: false,
            sample: None,
            members: Some(members),
        }
    }

    fn remedy(server: Server, keys: &[(Observation, u64)]) -> Option<Remedy> {
        let (mut tables, model) = (Tables::default(), Model::for_server(server));
        keys.iter().for_each(|(key, bytes)| tables.add(&model, key, *bytes));
        let now: u64 = keys.iter().map(|(_, bytes)| bytes).sum();
        tables.remedy(&Limits::default(), now as f64, 1.0)
    }

    #[test]
    fn each_kind_has_its_own_limits() {
        let long = "x".repeat(100);
        let hash = key(CollectionKind::Hash, vec!["name".into(), long.clone(), "n".into(), "1".into()]);
        let found = remedy(Server::redis(7, 0), &[(hash, 500)]).unwrap();
        assert_eq!(found.describe(), "CONFIG SET hash-max-listpack-value 128 (it is 64)");
        assert!((150.0..260.0).contains(&found.bytes), "{}", found.bytes);
        let integers = || key(CollectionKind::Set, (0..2000).map(|i| (i * 70_000).to_string()).collect());
        let found = remedy(Server::redis(8, 0), &[(integers(), 80_000), (integers(), 80_000)]).unwrap();
        assert_eq!(found.describe(), "CONFIG SET set-max-intset-entries 2048 (it is 512)");
        assert!((16_000.0..18_000.0).contains(&found.bytes), "{}", found.bytes);
        let texts = || key(CollectionKind::Set, (0..200).map(|i| format!("member {i}")).collect());
        let found = remedy(Server::redis(8, 0), &[(texts(), 20_000)]).unwrap();
        assert_eq!(found.describe(), "CONFIG SET set-max-listpack-entries 256 (it is 128)");
        let found = remedy(Server::redis(7, 0), &[(texts(), 20_000)]).unwrap();
        assert!(
            found.sets_as_hashes && found.describe().starts_with("keep the sets as hashes"),
            "{}",
            found.describe()
        );
    }

    #[test]
    fn what_is_within_the_limits_is_written_anew() {
        let integers = key(CollectionKind::Set, (0..300).map(|i| (i * 70_000).to_string()).collect());
        let found = remedy(Server::redis(7, 0), &[(integers, 12_000)]).unwrap();
        assert_eq!(
            found.describe(),
            "write them anew, as they are within the server's limits, unless fields of theirs expire"
        );
        assert!(found.settings.is_empty() && found.bytes < 2000.0, "{}", found.bytes);
    }

    #[test]
    fn what_is_too_large_stays_as_it_is() {
        let many = key(CollectionKind::Hash, (0..4000).map(|i| i.to_string()).collect());
        let long = key(CollectionKind::Set, vec!["x".repeat(2000)]);
        assert_eq!(remedy(Server::redis(8, 0), &[(many, 200_000), (long, 3000)]), None);
    }
}
