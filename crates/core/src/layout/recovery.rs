//! A layout that was lost, put in force again.
//!
//! What the data was when the layout was lost nobody knows: all of it may be there, or none, or what was there before
//! it was folded. So a layout is *put back* with every namespace moving from plain: keys are looked for in both
//! places, which is right in each of these cases, and a walk over the keys settles it again.
//!
//! ```text
//! settled as A ───── lost ────▶ moving, from plain (put back) to A ──walk──▶ settled as A
//! moving from A to B ─ lost ──▶ moving, from A to B
//! ```

use std::collections::BTreeMap;

use super::former::Former;
use super::naming::{Generations, name_hash, same_places};
use super::overlap::shared_keys;
use super::{FileNamespace, Heads, Layout, LayoutFile, Namespace, NamespaceIndex};
use crate::codec::{CodecRule, Codecs};
use crate::placement::Placement;
use crate::placement::name::{Generation, Stem};

impl Layout {
    /// The layout that takes the place of this one, which was lost.
    #[must_use]
    pub fn put_back(&self) -> Self {
        let namespaces = self.namespaces.iter().cloned().map(Namespace::put_back).collect();
        Self::new(self.revision.next(), self.generations.clone(), namespaces).with_cache(self.cache)
    }

    /// The same layout in the next epoch, for a process that must make sure that nobody serves a newer one.
    #[must_use]
    pub fn affirmed(&self) -> Self {
        Self { revision: self.revision.next(), ..self.clone() }
    }

    /// The layout that takes the place of this one where the server says an `older` one again: perhaps the data went
    /// back with it, and perhaps it didn't. So keys are looked for where either says.
    ///
    /// # Errors
    /// A namespace whose keys would have to be looked for in more than two places, or by two sets of templates.
    pub fn united(&self, older: &Self) -> Result<Self, String> {
        let mut generations = self.generations.clone();
        older.namespaces.iter().flat_map(Namespace::rules).for_each(|(placement, stem)| {
            if placement.has_names() {
                generations.note(stem);
            }
        });
        let in_older = |namespace: &Namespace| older.find(&namespace.keys).map(|index| older.namespace(index));
        let mut namespaces = Vec::with_capacity(self.namespaces.len());
        for namespace in &self.namespaces {
            namespaces.push(namespace.united(in_older(namespace))?);
        }
        for gone in older.namespaces.iter().filter(|gone| self.find(&gone.keys).is_none()) {
            let former = Former::plain(&gone.keys, gone.field_limit);
            namespaces.push(
                Namespace { placement: Placement::plain(), former: None, stem: former.stem, ..gone.clone() }
                    .united(Some(gone))?,
            );
        }
        if let Some(clash) = shared_keys(&namespaces) {
            return Err(format!("{}, and by the other layout of `{}`", clash.in_use, clash.keys));
        }
        let mut revision = self.revision.next();
        revision.epoch = revision.epoch.max(older.revision.epoch.next());
        Ok(Self::new(revision, generations, namespaces).with_cache(self.cache))
    }

    /// The same with the codec slots that are recorded for its names; where the two differ, the record is the newer.
    #[must_use]
    pub fn with_recorded(mut self, slots: &BTreeMap<Stem, Codecs>) -> Self {
        for namespace in &mut self.namespaces {
            if let Some(recorded) = slots.get(&namespace.stem) {
                namespace.codecs = namespace.codecs.united(recorded).unwrap_or_else(|| recorded.clone());
            }
        }
        self
    }

    /// Whether it was put back, and nobody has yet looked where its keys lie.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt().next().is_some()
    }

    /// Refuses clients' writes for as long as this layout is served and is in doubt.
    pub fn refuse_writes_in_doubt(&mut self) {
        self.refuses_writes = self.is_in_doubt();
    }

    /// Whether clients are refused writes.
    pub fn refuses_writes(&self) -> bool {
        self.refuses_writes
    }

    /// The namespaces that were put back.
    pub fn in_doubt(&self) -> impl Iterator<Item = NamespaceIndex> {
        let is_put_back = |namespace: &Namespace| namespace.former.as_ref().is_some_and(|former| former.put_back);
        self.iter().filter(move |(_, namespace)| is_put_back(namespace)).map(|(index, _)| index)
    }
}

impl Namespace {
    fn put_back(mut self) -> Self {
        if !self.placement.is_plain() && self.former.is_none() {
            let former = Former::plain(&self.keys, self.field_limit);
            self.former = Some(Former { put_back: true, ..former });
        }
        self
    }
}

/// A rule by which keys may lie: the stem of its names, the placement and the field limit.
type Rule = (Stem, Placement, usize);

impl Namespace {
    fn all_rules(&self) -> impl Iterator<Item = Rule> {
        let former = self.former.iter().map(|former| (former.stem, former.placement.clone(), former.field_limit));
        std::iter::once((self.stem, self.placement.clone(), self.field_limit)).chain(former)
    }

    /// This namespace, whose keys are looked for where `older` says as well; without an `older`, under their own names.
    fn united(&self, older: Option<&Self>) -> Result<Self, String> {
        let plain = Former::plain(&self.keys, self.field_limit);
        let plain = (plain.stem, plain.placement, plain.field_limit);
        let own = (self.stem, self.placement.clone(), self.field_limit);
        let is_same = |one: &Rule, other: &Rule| {
            same_places((&one.1, one.2), (&other.1, other.2)) && (one.0 == other.0 || !one.1.has_names())
        };
        let theirs: Vec<Rule> = older.map_or_else(|| vec![plain], |older| older.all_rules().collect());
        let mut others: Vec<Rule> = Vec::new();
        for rule in self.all_rules().chain(theirs) {
            if !is_same(&rule, &own) && !others.iter().any(|other| is_same(other, &rule)) {
                others.push(rule);
            }
        }
        let unclear = || format!("keys of {} may lie in more than two places", self.keys);
        let codecs = match older {
            Some(older) => self.codecs.united(&older.codecs).ok_or_else(unclear)?,
            None => self.codecs.clone(),
        };
        let former = match others.pop() {
            None => None,
            Some(_) if !others.is_empty() => return Err(unclear()),
            Some((stem, placement, field_limit)) => Some(Former { stem, placement, field_limit, put_back: true }),
        };
        Ok(Self { former, codecs, ..self.clone() })
    }
}

impl LayoutFile {
    /// The layout by which data that is there is found again: each namespace under the newest names that were found
    /// of it, with the codec slots that are recorded for them.
    pub fn over(&self, heads: &Heads, slots: &BTreeMap<Stem, Codecs>) -> Layout {
        let mut generations = Generations::default();
        heads.iter().for_each(|(stem, _)| generations.note(stem));
        let namespaces = self.namespaces.iter().map(|wanted| {
            let hash = name_hash(&wanted.keys, &wanted.placement, wanted.field_limit);
            let generation = heads.highest(hash).filter(|_| wanted.placement.has_names());
            let stem = Stem { hash, generation: generation.unwrap_or(Generation(0)) };
            if wanted.placement.has_names() {
                generations.note(stem);
            }
            wanted.with_slots(stem, slots.get(&stem)).put_back()
        });
        let namespaces = namespaces.collect();
        Layout::new(Layout::default().revision.next(), generations, namespaces).with_cache(self.cache)
    }
}

impl FileNamespace {
    /// The namespace with the slots that its values are stored by so far, where there are any.
    fn with_slots(&self, stem: Stem, slots: Option<&Codecs>) -> Namespace {
        let new = self.with_stem(stem, None);
        let Some(slots) = slots else { return new };
        let codec = slots.written().map_or_else(CodecRule::none, |slot| slot.rule.clone());
        self.with_stem(stem, Some(&Namespace { codec, codecs: slots.clone(), ..new }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n\
         [[namespace]]\nkeys = 'page:{path}'\nplacement = 'plain'\n";

    fn settled() -> Layout {
        Layout::parse_file(FILE).unwrap()
    }

    #[test]
    fn what_was_settled_is_looked_for_in_both_places() {
        let back = settled().put_back();
        assert_eq!(back.epoch(), settled().epoch().next());
        assert_eq!(back.in_doubt().collect::<Vec<_>>(), [NamespaceIndex(0)]);
        assert_eq!(back.namespaces()[0].stem, settled().namespaces()[0].stem);
        assert!(!back.namespaces()[1].is_moving(), "plain keys have one place");
        assert!(back.follows(&settled()).is_ok());
        let read = Layout::from_stored(&back.to_stored()).unwrap();
        assert_eq!(read, back);
        assert!(!back.settled(&[NamespaceIndex(0)]).is_in_doubt());
    }

    #[test]
    fn what_was_moving_goes_on_moving() {
        let other = LayoutFile::parse(&FILE.replace("128", "64")).unwrap();
        let moving = settled().plan_fold(&other).unwrap().layout;
        let back = moving.put_back();
        assert_eq!(back.namespaces(), moving.namespaces());
        assert!(back.epoch() > moving.epoch() && !back.is_in_doubt());
    }

    #[test]
    fn a_layout_and_the_one_before_are_one() {
        let file =
            |rule: &str| LayoutFile::parse(&format!("[[namespace]]\nkeys = 'user:{{id:int}}'\n{rule}\n")).unwrap();
        let plain = Layout::default();
        let to_a = plain.plan_fold(&file("bucket = { span = 8 }")).unwrap();
        let a = to_a.layout.settled(&to_a.moving);
        let to_b = a.plan_fold(&file("bucket = { span = 9 }")).unwrap();
        let b = to_b.layout.settled(&to_b.moving);
        let back = b.plan_unfold(&[NamespaceIndex(0)]).unwrap();
        let unfolded = back.layout.settled(&back.moving);
        let stages = [&plain, &to_a.layout, &a, &to_b.layout, &b, &back.layout, &unfolded];
        for pair in stages.windows(2) {
            let united = pair[1].united(pair[0]).unwrap();
            assert!(united.epoch() > pair[1].epoch());
            assert!(united.follows(pair[0]).is_ok() && united.follows(pair[1]).is_ok());
            for stage in pair {
                for (placement, stem) in stage.namespaces().iter().flat_map(|one| one.rules()) {
                    assert!(!placement.has_names() || united.has_in_use(stem), "{stem}");
                }
            }
            assert_eq!(Layout::from_stored(&united.to_stored()).unwrap(), united);
        }
        assert!(a.united(&plain).unwrap().is_in_doubt());
        assert!(to_b.layout.united(&plain).unwrap_err().contains("user:{id:int}"));
    }

    #[test]
    fn data_is_found_again_under_the_newest_names() {
        let file = LayoutFile::parse(FILE).unwrap();
        let stem = settled().namespaces()[0].stem;
        let newest = Stem { generation: Generation(3), ..stem };
        let mut heads = Heads::default();
        for stem in [newest, Stem { generation: Generation(1), ..stem }] {
            heads.note(format!("~{stem}:7").as_bytes(), 2);
        }
        heads.note(b"~zzzz:7", 0);
        let layout = file.over(&heads, &BTreeMap::new());
        assert_eq!(layout.namespaces()[0].stem, newest);
        assert!(layout.is_in_doubt());
        let unaccounted: Vec<String> =
            heads.unaccounted(&layout).iter().map(|(stem, found)| found.line(*stem)).collect();
        assert_eq!(unaccounted.len(), 2, "{unaccounted:?}");
        assert!(
            unaccounted.contains(&"~zzzz: 1 name, such as \"~zzzz:7\" in database 0".to_owned()),
            "{unaccounted:?}"
        );
        // Names that are found are never given again.
        let plain = LayoutFile::parse(&FILE.replace("bucket = { span = 128 }", "placement = 'plain'")).unwrap();
        let settled = layout.settled(&[NamespaceIndex(0)]).plan_fold(&plain).unwrap();
        let folded = settled.layout.settled(&settled.moving).plan_fold(&file).unwrap();
        let again = folded.layout.namespaces().iter().find(|one| one.stem.hash == stem.hash).unwrap();
        assert_eq!(again.stem.generation, Generation(4));
    }
}
