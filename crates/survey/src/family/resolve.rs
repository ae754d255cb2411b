//! Which branches of the tree are one family after all.
//!
//! Branches that differ in one step only are alternatives there. Step by step, again until nothing changes:
//!
//! | alternatives | become |
//! | --- | --- |
//! | digits beside hexadecimal of that length | hexadecimal |
//! | `0042` beside `1042`, always of that width | a padded number |
//! | what is rare beside text | text |
//! | keys that have no placeholder at all | text |
//! | many words that hold alike | text: `pages.de`, `pages.fr` … |
//! | text of several depths: `/a`, `/a/b`, `/a/b/c` | text to the end |
//! | text with other delimiters in it: `film:Oh, what a war:1969` | the text up to the delimiter that ends it |
//!
//! Few words stay apart: `user:{id}:name` and `user:{id}:email` are two families, `app:user:` and `app:order:` too.

use std::collections::BTreeMap;

use keyfold_core::template::Type;

use super::column::Column;
use super::path::{Path, Step, StepKind, paths};
use super::segment::{MAX_SEGMENTS, is_literal, may_be_hex, shape};
use super::trie::Node;
use super::{Family, Tally};

/// So many words that hold alike are one text: as namespaces, or as the last part of keys.
const MANY_WORDS: usize = 16;
/// Between two placeholders, fewer words are a part that varies.
const MANY_WORDS_BETWEEN: usize = 3;
/// What is rarer than one in so many beside text is text, too.
const RARE_WORD: u64 = 20;
/// The same for a word that is one of two parts or more that vary.
const RARE_PART: u64 = 8;
/// The same for numbers and the like.
const RARE_TYPE: u64 = 50;
/// A shorter text that is rarer than one in so many beside the deeper one doesn't stand for it.
const RARE_SHALLOW: u64 = 10;
/// A placeholder that had one value in at least so many keys is a literal.
const MANY_KEYS: u64 = 16;
const MAX_ROUNDS: usize = 8;
/// With more paths than this, comparing all with all takes too long.
const MAX_COMPARED: usize = 3000;

pub(super) fn resolve<L: Tally>(root: Node<L>) -> Vec<Family<L>> {
    let mut all = paths(root);
    for _ in 0..MAX_ROUNDS {
        let before: Vec<String> = signatures(&all);
        for at in 0..MAX_SEGMENTS {
            all = unify_step(all, at);
        }
        all = unify_depths(all);
        all = absorb_special(all);
        if signatures(&all) == before {
            break;
        }
    }
    all.iter_mut().for_each(literals);
    families(all)
}

fn signatures<L>(paths: &[Path<L>]) -> Vec<String> {
    paths.iter().map(|path| path.steps.iter().map(Step::signature).collect()).collect()
}

/// Paths that amount to one template are one family.
fn families<L: Tally>(paths: Vec<Path<L>>) -> Vec<Family<L>> {
    let mut families: BTreeMap<String, Family<L>> = BTreeMap::new();
    for path in paths {
        let (template, holes, name) = path.template();
        let Path { count: keys, tally, .. } = path;
        match families.get_mut(&name) {
            Some(family) => {
                family.keys += keys;
                family.tally.merge(tally);
            }
            None => {
                families.insert(name.clone(), Family { template, name, keys, tally, holes });
            }
        }
    }
    families.into_values().collect()
}

impl<L: Tally> Path<L> {
    /// Takes in a path that differs at `at` only, which becomes text unless `kind` says otherwise.
    fn absorb(&mut self, other: Self, at: usize, kind: Option<Type>) {
        for (i, (mine, step)) in self.steps.iter_mut().zip(other.steps).enumerate() {
            if i == at {
                mine.absorb(step);
                if let Some(kind) = kind {
                    mine.kind = StepKind::Typed(kind);
                }
            } else {
                for (column, other) in mine.columns.iter_mut().zip(step.columns) {
                    column.merge(other);
                }
            }
        }
        self.count += other.count;
        self.tally.merge(other.tally);
    }
}

/// Paths that are the same but for step `at`, together.
fn unify_step<L: Tally>(all: Vec<Path<L>>, at: usize) -> Vec<Path<L>> {
    let mut groups: BTreeMap<String, Vec<Path<L>>> = BTreeMap::new();
    let mut result = Vec::new();
    for path in all {
        let Some(step) = path.steps.get(at) else {
            result.push(path);
            continue;
        };
        let mut context = format!("{:?}", step.delimiter);
        for (i, step) in path.steps.iter().enumerate() {
            context.push_str(&if i == at { String::from(" * ") } else { step.signature() });
        }
        groups.entry(context).or_default().push(path);
    }
    for alternatives in groups.into_values() {
        result.extend(Alternatives { at, paths: alternatives }.unify());
    }
    result
}

/// Paths that differ in one step.
struct Alternatives<L> {
    at: usize,
    paths: Vec<Path<L>>,
}

impl<L: Tally> Alternatives<L> {
    fn unify(mut self) -> Vec<Path<L>> {
        self.hex();
        self.padded();
        self.same();
        if self.paths.len() > 1 {
            self.singles();
            self.words();
            self.rare();
        }
        self.paths
    }

    fn kind(&self, index: usize) -> &StepKind {
        &self.paths[index].steps[self.at].kind
    }

    fn find(&self, is: impl Fn(&StepKind) -> bool) -> Option<usize> {
        (0..self.paths.len()).find(|index| is(self.kind(*index)))
    }

    /// Merges those that `take` says into the path at `into`.
    fn merge(&mut self, into: usize, kind: Option<Type>, take: impl Fn(&Path<L>) -> bool) {
        let mut target = self.paths.swap_remove(into);
        let (taken, left) = std::mem::take(&mut self.paths).into_iter().partition(|path| take(path));
        self.paths = left;
        for path in taken {
            target.absorb(path, self.at, kind);
        }
        self.paths.push(target);
    }

    /// What has become the same.
    fn same(&mut self) {
        let mut merged: Vec<Path<L>> = Vec::new();
        for path in std::mem::take(&mut self.paths) {
            match merged.iter_mut().find(|one| one.steps[self.at].kind == path.steps[self.at].kind) {
                Some(one) => merge_same(one, path),
                None => merged.push(path),
            }
        }
        self.paths = merged;
    }

    fn hex(&mut self) {
        let at = self.at;
        if let Some(text) = self.find(|kind| *kind == StepKind::Text)
            && self.paths[text].steps[at].columns[0].is_hex()
        {
            self.paths[text].steps[at].kind = StepKind::Typed(Type::Hex);
        }
        let Some(hex) = self.find(|kind| *kind == StepKind::Typed(Type::Hex)) else { return };
        let (shortest, longest) = self.paths[hex].steps[at].columns[0].len();
        let most = self.paths[hex].count;
        self.merge(hex, Some(Type::Hex), |path| {
            let step = &path.steps[at];
            let fits = |len: (usize, usize)| len.0 >= shortest && len.1 <= longest;
            path.count <= most
                && match &step.kind {
                    StepKind::Word(word) => may_be_hex(word) && fits((word.len(), word.len())),
                    StepKind::Typed(Type::Uuid) | StepKind::Shape(_) => false,
                    StepKind::Typed(_) | StepKind::Text => step.columns[0].may_be_hex() && fits(step.columns[0].len()),
                }
        });
    }

    fn padded(&mut self) {
        let at = self.at;
        let Some(padded) = self.find(|kind| matches!(kind, StepKind::Typed(Type::Padded(_)))) else { return };
        let StepKind::Typed(Type::Padded(width)) = *self.kind(padded) else { return };
        let one_width = |path: &Path<L>| {
            let width = usize::from(width);
            path.steps[at].kind == StepKind::Typed(Type::Int) && path.steps[at].columns[0].len() == (width, width)
        };
        let is_other_number = |path: &Path<L>| match path.steps[at].kind {
            StepKind::Typed(Type::Int) => !one_width(path),
            StepKind::Typed(Type::Padded(other)) => other != width,
            _ => false,
        };
        if self.paths.iter().any(is_other_number) {
            // Of several widths, none is the family's: all that begin with a zero are text beside numbers.
            let is_padded = |path: &Path<L>| matches!(path.steps[at].kind, StepKind::Typed(Type::Padded(_)));
            self.paths[padded].steps[at].become_text();
            self.merge(padded, None, is_padded);
        } else {
            self.merge(padded, Some(Type::Padded(width)), one_width);
        }
    }

    /// Keys without any placeholder are there once each.
    fn singles(&mut self) {
        let at = self.at;
        let is_word = |path: &Path<L>| matches!(path.steps[at].kind, StepKind::Word(_));
        let others_vary = self.paths[0].steps.iter().enumerate().any(|(i, step)| i != at && step.is_hole());
        if others_vary || at + 1 != self.paths[0].steps.len() {
            return;
        }
        self.words_of_shapes();
        let has_text = self.find(|kind| *kind == StepKind::Text).is_some();
        let words = self.paths.iter().filter(|path| is_word(path)).count();
        if (words > 1 || has_text)
            && let Some(into) = self
                .find(|kind| *kind == StepKind::Text)
                .or_else(|| self.find(|kind| matches!(kind, StepKind::Word(_))))
        {
            self.merge(into, None, is_word);
        }
    }

    /// Words that came before their shape was one.
    fn words_of_shapes(&mut self) {
        let at = self.at;
        let shapes = (0..self.paths.len()).filter_map(|index| match self.kind(index) {
            StepKind::Shape(shape) => Some(shape.clone()),
            _ => None,
        });
        for wanted in shapes.collect::<Vec<_>>() {
            let is = |path: &Path<L>| match &path.steps[at].kind {
                StepKind::Word(word) => shape(word).is_some_and(|(shape, _)| shape == wanted),
                _ => false,
            };
            let (mut words, left): (Vec<_>, Vec<_>) = std::mem::take(&mut self.paths).into_iter().partition(|p| is(p));
            self.paths = left;
            for word in &mut words {
                shape_word(&mut word.steps[at]);
            }
            for word in words {
                let same = self.paths.iter_mut().find(|path| path.steps[at].kind == word.steps[at].kind);
                if let Some(path) = same {
                    merge_same(path, word);
                }
            }
        }
    }

    /// Many words that hold alike are values of a placeholder.
    fn words(&mut self) {
        let at = self.at;
        let steps = &self.paths[0].steps;
        let (before, after) = (steps[..at].iter().any(Step::is_hole), steps[at + 1..].iter().any(Step::is_hole));
        let many = if before && after { MANY_WORDS_BETWEEN } else { MANY_WORDS };
        let words = (0..self.paths.len()).filter(|index| matches!(self.kind(*index), StepKind::Word(_)));
        let Some(heaviest) = words.max_by_key(|index| self.paths[*index].count) else { return };
        let alike: Vec<bool> = (0..self.paths.len())
            .map(|index| {
                let is_word = matches!(self.kind(index), StepKind::Word(_));
                is_word && self.paths[heaviest].tally.resembles(&self.paths[index].tally)
            })
            .collect();
        if alike.iter().filter(|alike| **alike).count() < many {
            return;
        }
        let text = self.find(|kind| *kind == StepKind::Text);
        let names: Vec<Step> = alike
            .iter()
            .zip(&self.paths)
            .filter(|(alike, _)| **alike)
            .map(|(_, path)| path.steps[at].clone())
            .collect();
        let is_alike = |path: &Path<L>| names.iter().any(|step| step.kind == path.steps[at].kind);
        self.merge(text.unwrap_or(heaviest), None, is_alike);
    }

    /// What is rare beside text.
    fn rare(&mut self) {
        let at = self.at;
        let Some(text) = self.find(|kind| *kind == StepKind::Text) else { return };
        let most = self.paths[text].count;
        self.merge(text, None, |path| {
            let rare = match path.steps[at].kind {
                StepKind::Typed(_) => RARE_TYPE,
                StepKind::Word(_) | StepKind::Shape(_) | StepKind::Text => RARE_WORD,
            };
            path.count.saturating_mul(rare) < most
        });
    }
}

/// Makes a word the shape that it has.
fn shape_word(step: &mut Step) {
    let StepKind::Word(word) = &step.kind else { return };
    let Some((shape, holes)) = shape(word) else { return };
    let columns = holes.iter().map(|hole| {
        let mut column = Column::default();
        column.add(hole);
        column
    });
    let columns = columns.collect();
    drop(holes);
    step.columns = columns;
    step.kind = StepKind::Shape(shape);
}

/// Takes in a path of the same steps.
fn merge_same<L: Tally>(path: &mut Path<L>, other: Path<L>) {
    for (mine, step) in path.steps.iter_mut().zip(other.steps) {
        for (column, other) in mine.columns.iter_mut().zip(step.columns) {
            column.merge(other);
        }
    }
    path.count += other.count;
    path.tally.merge(other.tally);
}

/// Text of several depths after one beginning is one text to the end.
fn unify_depths<L: Tally>(mut all: Vec<Path<L>>) -> Vec<Path<L>> {
    // The shallow first: they take in the deeper ones.
    all.sort_by_key(|path| path.steps.len());
    let mut result: Vec<Path<L>> = Vec::new();
    for path in all {
        match result.iter_mut().find(|shallow| is_deeper(shallow, &path)) {
            Some(shallow) => {
                if let Some(column) = shallow.steps.last_mut().and_then(|step| step.columns.first_mut()) {
                    column.merge_unknown();
                }
                shallow.count += path.count;
                shallow.tally.merge(path.tally);
            }
            None => result.push(path),
        }
    }
    result
}

/// Whether `deep` goes on with text where `shallow` ends with it.
fn is_deeper<L>(shallow: &Path<L>, deep: &Path<L>) -> bool {
    let last = shallow.steps.len() - 1;
    if deep.steps.len() <= last + 1 || shallow.steps[last].kind != StepKind::Text {
        return false;
    }
    let begins_alike = shallow.steps[..last]
        .iter()
        .zip(&deep.steps)
        .all(|(one, other)| one.delimiter == other.delimiter && one.kind == other.kind);
    let is_slash = deep.steps[last].delimiter == Some(b'/');
    let goes_on = deep.steps[last].kind == StepKind::Text
        && deep.steps[last..].iter().all(|step| match step.kind {
            StepKind::Text => true,
            StepKind::Word(_) | StepKind::Typed(_) | StepKind::Shape(_) => is_slash,
        });
    begins_alike && goes_on && (is_slash || shallow.count.saturating_mul(RARE_SHALLOW) >= deep.count)
}

/// A path with a word or a type where a far more frequent one has text is a part of that. The frequent first, so that a path finds the most frequent one that covers it.
fn absorb_special<L: Tally>(mut all: Vec<Path<L>>) -> Vec<Path<L>> {
    if all.len() > MAX_COMPARED {
        return all;
    }
    all.sort_by_key(|path| std::cmp::Reverse(path.count));
    let mut result: Vec<Path<L>> = Vec::new();
    for path in all {
        match result.iter_mut().find(|general| covers(general, &path)) {
            Some(general) => {
                let is_as_deep = general.steps.len() == path.steps.len();
                for (mine, step) in general.steps.iter_mut().zip(path.steps) {
                    if mine.kind == StepKind::Text && is_as_deep {
                        mine.absorb(step);
                    } else if mine.kind == StepKind::Text {
                        mine.columns.iter_mut().for_each(Column::merge_unknown);
                    }
                }
                general.count += path.count;
                general.tally.merge(path.tally);
            }
            None => result.push(path),
        }
    }
    result
}

fn covers<L: Tally>(general: &Path<L>, path: &Path<L>) -> bool {
    if is_word_of(general, path) || is_cut_text_of(general, path) {
        return true;
    }
    if general.count / RARE_WORD <= path.count || general.steps.len() > path.steps.len() {
        return false;
    }
    let step_covers = |(one, other): (&Step, &Step)| {
        one.delimiter == other.delimiter && (one.kind == StepKind::Text || one.kind == other.kind)
    };
    let (Some((last, begin)), at) = (general.steps.split_last(), general.steps.len() - 1) else { return false };
    if general.steps.len() == path.steps.len() {
        return general.steps.iter().zip(&path.steps).all(step_covers);
    }
    // Text to the end has what is deeper, where nothing there is a family of its own.
    let is_plain = |step: &Step| matches!(step.kind, StepKind::Text | StepKind::Word(_));
    last.kind == StepKind::Text
        && begin.iter().zip(&path.steps).all(step_covers)
        && path.steps[at..].iter().all(is_plain)
}

/// Whether a path is one of those that became the text of `general`, only more frequent: it has words where that has
/// text, two texts at least in all, and is rare or holds alike.
fn is_word_of<L: Tally>(general: &Path<L>, path: &Path<L>) -> bool {
    let mut words = 0;
    let same = general.steps.len() == path.steps.len()
        && general.steps.iter().zip(&path.steps).all(|(one, other)| {
            let is_word = one.kind == StepKind::Text && matches!(other.kind, StepKind::Word(_));
            words += usize::from(is_word);
            one.delimiter == other.delimiter && (is_word || one.kind == other.kind)
        });
    let texts = general.steps.iter().filter(|step| step.kind == StepKind::Text).count();
    same && texts > words && is_part_of(general, path)
}

/// Whether a path is `general` with text that was cut at other delimiters than the one that ends it there. A segment
/// has no delimiter in it, so this is exact: `general` as a template has these keys.
fn is_cut_text_of<L: Tally>(general: &Path<L>, path: &Path<L>) -> bool {
    let mut rest = path.steps.iter();
    let same = general.steps.iter().all(|one| match (&one.kind, one.delimiter) {
        (StepKind::Text, Some(_)) => rest.any(|other| other.delimiter == one.delimiter),
        _ => rest.next().is_some_and(|other| other.kind == one.kind && other.delimiter == one.delimiter),
    });
    let is_longer = path.steps.len() > general.steps.len();
    is_longer && same && rest.next().is_none() && is_part_of(general, path)
}

/// Whether a path is rare beside `general`, or holds alike and isn't the more frequent one.
fn is_part_of<L: Tally>(general: &Path<L>, path: &Path<L>) -> bool {
    path.count <= general.count / RARE_PART || path.count <= general.count / 2 && general.tally.resembles(&path.tally)
}

/// Placeholders that only ever had one value are literals.
fn literals<L>(path: &mut Path<L>) {
    let is_single = path.steps.iter().filter(|step| step.is_hole()).count() == 1;
    for step in &mut path.steps {
        if let [column] = step.columns.as_slice()
            && let Some(only) = column.only().filter(|only| is_literal(only))
            && match step.kind {
                StepKind::Typed(_) => path.count >= MANY_KEYS,
                // A word by itself is no family.
                StepKind::Text => path.count >= MANY_KEYS || is_single,
                StepKind::Word(_) | StepKind::Shape(_) => false,
            }
        {
            *step = Step { kind: StepKind::Word(only.into()), columns: Vec::new(), delimiter: step.delimiter };
        }
    }
}
