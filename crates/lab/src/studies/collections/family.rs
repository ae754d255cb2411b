//! The sets and hashes that are weighed, made up.

use anyhow::Context;
use keyfold_core::codec::{CodecRule, Kinds, Owner, Sample, candidates};
use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::named;
use keyfold_survey::random::Random;

/// Members of each small one.
const FEW: u64 = 5;
/// Sessions by which a vocabulary is trained, and by which it is judged.
const TRAINED_BY: u64 = 4000;
const JUDGED_BY: u64 = 1000;
/// What the layout allows a whole small one, and the server's limit has to be.
pub(super) const SMALL_VALUE_LIMIT: u64 = 256;

named! {
    /// Sets or hashes that are alike.
    pub(super) enum Family {
        Integers = "one set of integers of 8 digits",
        Texts = "one set of 24 letters",
        Fields = "one hash of item1234567 → integer",
        Sets = "sets of 5 × 24 letters",
        Sessions = "sessions of 5 fields",
    }
}

/// One set or hash.
pub(super) struct Made {
    pub(super) key: Vec<u8>,
    /// Members, or names and values by turns.
    pub(super) texts: Vec<Vec<u8>>,
}

impl Family {
    pub(super) fn is_large(self) -> bool {
        matches!(self, Self::Integers | Self::Texts | Self::Fields)
    }

    pub(super) fn kind(self) -> CollectionKind {
        match self {
            Self::Integers | Self::Texts | Self::Sets => CollectionKind::Set,
            Self::Fields | Self::Sessions => CollectionKind::Hash,
        }
    }

    /// For an axis.
    pub(super) fn short_name(self) -> &'static str {
        match self {
            Self::Integers => "large: integers",
            Self::Texts => "large: 24 letters",
            Self::Fields => "large: hash",
            Self::Sets => "small: 24 letters",
            Self::Sessions => "small: sessions",
        }
    }

    /// So many members or fields, all in one or five in each.
    pub(super) fn make(self, members: u64, seed: u64) -> Vec<Made> {
        let mut random = Random::new(seed);
        if self.is_large() {
            let texts = (0..members).flat_map(|number| self.member(number, &mut random)).collect();
            return vec![Made { key: b"large:1".to_vec(), texts }];
        }
        self.small_ones(0..members / FEW, &mut random)
    }

    fn small_ones(self, ids: std::ops::Range<u64>, random: &mut Random) -> Vec<Made> {
        ids.map(|id| {
            let texts = match self {
                Self::Sessions => session(random),
                _ => (0..FEW).flat_map(|number| self.member(number, random)).collect(),
            };
            Made { key: format!("small:{id}").into_bytes(), texts }
        })
        .collect()
    }

    /// A member, or a field's name and its value.
    fn member(self, number: u64, random: &mut Random) -> Vec<Vec<u8>> {
        match self {
            Self::Integers => vec![(10_000_000 + number * 397).to_string().into_bytes()],
            Self::Fields => vec![
                format!("item{:07}", 1_000_000 + number).into_bytes(),
                random.below(1_000_000).to_string().into_bytes(),
            ],
            Self::Texts | Self::Sets | Self::Sessions => vec![random.letters(24)],
        }
    }

    /// How keyfold keeps them: large ones by the layout's defaults, small ones 48 to a bucket.
    pub(super) fn layout(self) -> anyhow::Result<Layout> {
        let (kind, keys) = (self.kind(), if self.is_large() { "large" } else { "small" });
        let mut text =
            format!("[[namespace]]\nkeys = \"{keys}:{{id:int}}\"\ntype = \"{kind}\"\nbucket = {{ span = 48 }}\n");
        if !self.is_large() {
            text += &format!("value_limit = {SMALL_VALUE_LIMIT}\n");
        }
        Layout::parse_file(&text).context("the study's layout")
    }

    /// The same by a vocabulary of names and values, which was trained by others of the family.
    pub(super) fn layout_by_fields(self, members: u64, seed: u64) -> anyhow::Result<Layout> {
        let (layout, mut random) = (self.layout()?, Random::new(seed ^ 1 << 40));
        let first = members / FEW;
        let seen = self.small_ones(first..first + TRAINED_BY + JUDGED_BY, &mut random);
        let packed: Vec<_> = seen.iter().map(|one| one.collection(self.kind()).packed()).collect();
        let templates = &layout.namespace(NamespaceIndex(0)).keys;
        let sample = |(one, value)| {
            let Made { key, .. }: &Made = one;
            let value: &Vec<u8> = value;
            Sample { owner: Owner::new(templates, key), value }
        };
        let samples: Vec<_> = seen.iter().zip(&packed).map(sample).collect();
        let (train, judged) = samples.split_at(usize::try_from(TRAINED_BY)?);
        let found = candidates(&Kinds::default(), &CodecRule::named("fields"), train, judged, first.max(1));
        let best = found.into_iter().next().context("sessions have no names in common")?;
        layout.written_by(NamespaceIndex(0), &best.rule, best.dictionary.as_deref()).context("no slot is free")
    }
}

impl Made {
    pub(super) fn collection(&self, kind: CollectionKind) -> Collection {
        Collection::of_texts(kind, self.texts.clone())
    }
}

/// Who, from where, by which program, against forgery, and when last.
fn session(random: &mut Random) -> Vec<Vec<u8>> {
    const PROGRAMS: [&str; 5] =
        ["Mozilla/5.0 (X11; Linux)", "Mozilla/5.0 (Mac)", "curl/8.4", "okhttp/4.9", "Mozilla/5.0 (iPhone)"];
    let bytes = [(); 4].map(|()| random.below(256).to_string());
    let fields = [
        ("uid", random.below(1_000_000).to_string()),
        ("ip", bytes.join(".")),
        ("ua", (*random.pick(&PROGRAMS)).to_owned()),
        ("csrf", format!("{:016x}", random.below(u64::MAX))),
        ("seen", (1_700_000_000 + random.below(10_000_000)).to_string()),
    ];
    fields.into_iter().flat_map(|(name, value)| [name.as_bytes().to_vec(), value.into_bytes()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_as_many_members_as_are_asked_for_and_no_two_alike() {
        for family in Family::ALL {
            let made = family.make(1000, 7);
            let members: usize = made.iter().map(|one| one.collection(family.kind()).len()).sum();
            assert_eq!((members, made.len()), (1000, if family.is_large() { 1 } else { 200 }), "{family}");
            let layout = family.layout().unwrap();
            assert!(made.iter().all(|one| layout.locate(&one.key).place().is_some()), "{family}");
        }
    }

    #[test]
    fn a_vocabulary_shortens_sessions_that_it_has_not_seen() {
        let (family, place) = (Family::Sessions, NamespaceIndex(0));
        let (plain, by_fields) = (family.layout().unwrap(), family.layout_by_fields(1000, 7).unwrap());
        let stored = |layout: &Layout| -> usize {
            let stored = |one: &Made| {
                let packed = one.collection(family.kind()).packed();
                match layout.namespace(place).encode(&one.key, &packed, None) {
                    keyfold_core::codec::Stored::InPlace(stored) => stored.len(),
                    keyfold_core::codec::Stored::Spilled { .. } => panic!("it fits its bucket"),
                }
            };
            family.make(1000, 7).iter().map(stored).sum()
        };
        assert!(stored(&by_fields) * 3 < stored(&plain) * 2);
    }
}
