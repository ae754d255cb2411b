//! Families as they come: a tree over the segments of keys, of bounded size.
//!
//! ```text
//! (root) ─ user : ┬ ⟨int⟩ END                 user:{id:int}
//!                 └ ⟨int⟩ : ┬ name END        user:{id:int}:name
//!                           └ email END       user:{id:int}:email
//!        ─ ⟨text⟩ END                         {word}
//! ```
//! Numbers, uuids and hexadecimal are placeholders at once. Words are literals until there are too many beside
//! each other: words of one shape (`user1`, `user2` …) then become that shape, and the rarest of what is left
//! become text. So what is frequent keeps its name, however many others come along, and the tree has at most
//! [`MAX_BRANCHES`] branches whatever the keys are.

use std::collections::BTreeMap;

use keyfold_core::template::Type;

use super::Tally;
use super::column::Column;
use super::segment::{Class, Segment, Segments, Shape, classify, shape};

/// Words and shapes beside each other, at most.
const MAX_SIBLINGS: usize = 128;
/// Below this a crowded tree stops asking for fewer siblings.
const MIN_SIBLINGS: usize = 4;
/// Words of one shape, at most.
const MAX_OF_SHAPE: u32 = 16;
/// Branches in all, at most.
const MAX_BRANCHES: usize = 10_000;

/// The segments that follow one another after the same beginning, by what ends them.
#[derive(Debug)]
pub(super) struct Node<L> {
    pub(super) groups: BTreeMap<Option<u8>, Group<L>>,
}

/// Alternatives for one segment.
#[derive(Debug)]
pub(super) struct Group<L> {
    pub(super) typed: Vec<(Type, Branch<L>)>,
    pub(super) words: BTreeMap<Box<[u8]>, Branch<L>>,
    pub(super) shapes: BTreeMap<Shape, Branch<L>>,
    /// How many words there are of each shape that is not one of `shapes` yet.
    of_shape: BTreeMap<Shape, u32>,
    pub(super) text: Option<Box<Branch<L>>>,
}

/// One alternative, and what follows it.
#[derive(Debug)]
pub(super) struct Branch<L> {
    pub(super) count: u64,
    /// One for each hole: none of a word, one of a type and of text, several of a shape.
    pub(super) columns: Vec<Column>,
    /// What follows; empty at the end of the key.
    pub(super) node: Node<L>,
    /// The keys that end here.
    pub(super) leaf: L,
}

impl<L> Default for Node<L> {
    fn default() -> Self {
        Self { groups: BTreeMap::new() }
    }
}

impl<L> Default for Group<L> {
    fn default() -> Self {
        let (words, shapes, of_shape) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { typed: Vec::new(), words, shapes, of_shape, text: None }
    }
}

impl<L: Tally> Default for Branch<L> {
    fn default() -> Self {
        Self { count: 0, columns: Vec::new(), node: Node::default(), leaf: L::default() }
    }
}

/// The tree. See the module's head.
#[derive(Debug)]
pub(super) struct Trie<L> {
    pub(super) root: Node<L>,
    bounds: Bounds,
}

/// How large the tree is, and may be.
#[derive(Debug)]
struct Bounds {
    branches: usize,
    siblings: usize,
}

impl<L: Tally> Trie<L> {
    pub(super) fn new() -> Self {
        Self { root: Node::default(), bounds: Bounds { branches: 0, siblings: MAX_SIBLINGS } }
    }

    /// Counts a key, and gives the tally of those that are like it so far.
    pub(super) fn leaf(&mut self, segments: &Segments<'_>) -> &mut L {
        if self.bounds.branches > MAX_BRANCHES && self.bounds.siblings > MIN_SIBLINGS {
            self.bounds.siblings /= 2;
            self.root.crowd(&self.bounds);
            self.bounds.branches = self.root.branches();
        }
        descend(&mut self.root, segments, &mut self.bounds, false)
    }

    pub(super) fn branches(&self) -> usize {
        self.bounds.branches
    }
}

fn descend<'t, L: Tally>(
    node: &'t mut Node<L>,
    segments: &[Segment<'_>],
    bounds: &mut Bounds,
    after_hole: bool,
) -> &'t mut L {
    let Some((segment, rest)) = segments.split_first() else { unreachable!("a key has a segment") };
    let group = node.groups.entry(segment.delimiter).or_default();
    let branch = group.branch(segment.bytes, bounds, rest.is_empty() && !after_hole);
    branch.count += 1;
    if rest.is_empty() {
        return &mut branch.leaf;
    }
    let after_hole = after_hole || !branch.columns.is_empty();
    descend(&mut branch.node, rest, bounds, after_hole)
}

impl<L: Tally> Group<L> {
    /// The branch of this segment. `is_alone`: no other key can have its words here, as nothing before it varies
    /// and nothing follows it.
    fn branch(&mut self, bytes: &[u8], bounds: &mut Bounds, is_alone: bool) -> &mut Branch<L> {
        match classify(bytes) {
            Class::Typed(kind) => self.typed(kind, bytes, bounds),
            Class::Text => self.text(bytes, bounds),
            Class::Word => self.word(bytes, bounds, is_alone),
        }
    }

    fn typed(&mut self, kind: Type, bytes: &[u8], bounds: &mut Bounds) -> &mut Branch<L> {
        let at = self.typed.iter().position(|(other, _)| *other == kind).unwrap_or_else(|| {
            bounds.branches += 1;
            self.typed.push((kind, Branch::with_columns(1)));
            self.typed.len() - 1
        });
        let branch = &mut self.typed[at].1;
        branch.columns[0].add(bytes);
        branch
    }

    fn text(&mut self, bytes: &[u8], bounds: &mut Bounds) -> &mut Branch<L> {
        let branch = self.text.get_or_insert_with(|| {
            bounds.branches += 1;
            Box::new(Branch::with_columns(1))
        });
        branch.columns[0].add(bytes);
        branch
    }

    fn word(&mut self, bytes: &[u8], bounds: &mut Bounds, is_alone: bool) -> &mut Branch<L> {
        if !self.words.contains_key(bytes) {
            if let Some((shape, holes)) = shape(bytes) {
                if self.is_shape(&shape, bounds) {
                    let branch = self.shapes.entry(shape).or_default();
                    for (column, hole) in branch.columns.iter_mut().zip(&holes) {
                        column.add(hole);
                    }
                    return branch;
                }
            } else if is_alone {
                return self.text(bytes, bounds);
            }
            if self.words.len() + self.shapes.len() >= bounds.siblings {
                bounds.branches -= self.crowd(bounds.siblings / 2).min(bounds.branches);
            }
            bounds.branches += 1;
        }
        self.words.entry(bytes.into()).or_default()
    }

    /// Whether words of this shape are one branch: after so many of them they are.
    fn is_shape(&mut self, shape: &Shape, bounds: &mut Bounds) -> bool {
        if self.shapes.contains_key(shape) {
            return true;
        }
        let words = self.of_shape.entry(shape.clone()).or_default();
        *words += 1;
        if *words <= MAX_OF_SHAPE {
            return false;
        }
        self.of_shape.remove(shape);
        let holes = shape.iter().filter(|piece| piece.hole().is_some()).count();
        let mut branch = Branch::with_columns(holes);
        let is_one = |word: &[u8]| super::segment::shape(word).is_some_and(|(other, _)| other == *shape);
        for (word, one) in self.words.extract_if(.., |word, _| is_one(word)) {
            bounds.branches -= 1;
            let (_, holes) = super::segment::shape(&word).unwrap_or_default();
            for (column, hole) in branch.columns.iter_mut().zip(&holes) {
                column.add(hole);
            }
            branch.merge(one);
        }
        bounds.branches += 1;
        self.shapes.insert(shape.clone(), branch);
        true
    }

    /// Makes the rarest words and shapes text, so that at most `keep` are left; how many branches fewer.
    fn crowd(&mut self, keep: usize) -> usize {
        let excess = (self.words.len() + self.shapes.len()).saturating_sub(keep);
        if excess == 0 {
            return 0;
        }
        let mut counts: Vec<u64> = self.words.values().chain(self.shapes.values()).map(|one| one.count).collect();
        let (_, limit, _) = counts.select_nth_unstable(excess - 1);
        let (limit, mut left) = (*limit, excess);
        let mut rare = |branch: &Branch<L>| {
            let rare = left > 0 && branch.count <= limit;
            left -= usize::from(rare);
            rare
        };
        let words: Vec<_> = self.words.extract_if(.., |_, branch| rare(branch)).collect();
        let shapes: Vec<_> = self.shapes.extract_if(.., |_, branch| rare(branch)).collect();
        self.of_shape.clear();
        let text = self.text.get_or_insert_with(|| Box::new(Branch::with_columns(1)));
        let before = text.node.branches();
        let mut gone = 0;
        for (word, branch) in words {
            text.columns[0].add(&word);
            gone += 1 + branch.node.branches();
            text.merge_rest(branch);
        }
        for (_, branch) in shapes {
            text.columns[0].merge_unknown();
            for column in branch.columns.iter().cloned() {
                text.columns[0].merge(column);
            }
            gone += 1 + branch.node.branches();
            text.merge_rest(branch);
        }
        (gone + before).saturating_sub(text.node.branches())
    }

    fn merge(&mut self, other: Self) {
        for (kind, branch) in other.typed {
            match self.typed.iter_mut().find(|(mine, _)| *mine == kind) {
                Some((_, mine)) => mine.merge(branch),
                None => self.typed.push((kind, branch)),
            }
        }
        for (word, branch) in other.words {
            self.words.entry(word).or_default().merge(branch);
        }
        for (shape, branch) in other.shapes {
            self.shapes.entry(shape).or_default().merge(branch);
        }
        match (&mut self.text, other.text) {
            (Some(text), Some(other)) => text.merge(*other),
            (text @ None, Some(other)) => *text = Some(other),
            (_, None) => {}
        }
        if self.words.len() + self.shapes.len() > MAX_SIBLINGS {
            self.crowd(MAX_SIBLINGS / 2);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Branch<L>> {
        let typed = self.typed.iter().map(|(_, branch)| branch);
        typed.chain(self.words.values()).chain(self.shapes.values()).chain(self.text.as_deref())
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Branch<L>> {
        let typed = self.typed.iter_mut().map(|(_, branch)| branch);
        typed.chain(self.words.values_mut()).chain(self.shapes.values_mut()).chain(self.text.as_deref_mut())
    }
}

impl<L: Tally> Node<L> {
    fn branches(&self) -> usize {
        self.groups.values().flat_map(Group::all).map(|branch| 1 + branch.node.branches()).sum()
    }

    /// The tallies of all ends.
    pub(super) fn leaves_mut(&mut self) -> Vec<&mut L> {
        let mut leaves = Vec::new();
        for (delimiter, group) in &mut self.groups {
            for branch in group.all_mut() {
                if delimiter.is_none() {
                    leaves.push(&mut branch.leaf);
                } else {
                    leaves.extend(branch.node.leaves_mut());
                }
            }
        }
        leaves
    }

    fn crowd(&mut self, bounds: &Bounds) {
        for group in self.groups.values_mut() {
            group.crowd(bounds.siblings);
            for branch in group.all_mut() {
                branch.node.crowd(bounds);
            }
        }
    }

    fn merge(&mut self, other: Self) {
        for (delimiter, group) in other.groups {
            self.groups.entry(delimiter).or_default().merge(group);
        }
    }
}

impl<L: Tally> Branch<L> {
    fn with_columns(columns: usize) -> Self {
        Self { columns: vec![Column::default(); columns], ..Self::default() }
    }

    fn merge(&mut self, mut other: Self) {
        let columns = std::mem::take(&mut other.columns);
        if self.columns.is_empty() && self.count == 0 {
            self.columns = columns;
        } else {
            for (mine, column) in self.columns.iter_mut().zip(columns) {
                mine.merge(column);
            }
        }
        self.merge_rest(other);
    }

    /// Everything but the columns.
    fn merge_rest(&mut self, other: Self) {
        self.count += other.count;
        self.node.merge(other.node);
        self.leaf.merge(other.leaf);
    }
}
