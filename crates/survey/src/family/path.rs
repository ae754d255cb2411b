//! A branch from the root to an end, and the template that it amounts to.

use keyfold_core::template::{Template, Type};

use super::column::Column;
use super::segment::{Piece, Shape, is_literal};
use super::trie::{Branch, Group, Node};
use super::{Hole, Tally};

/// One segment of a path.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) kind: StepKind,
    pub(super) columns: Vec<Column>,
    pub(super) delimiter: Option<u8>,
}

/// What a segment of a path is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Word(Box<[u8]>),
    Typed(Type),
    Shape(Shape),
    Text,
}

impl Step {
    pub(super) fn is_hole(&self) -> bool {
        !matches!(self.kind, StepKind::Word(_))
    }

    /// The same for steps that stand for the same keys.
    pub(super) fn signature(&self) -> String {
        format!("{:?}{:?}", self.kind, self.delimiter)
    }

    /// Becomes text that has the values of `other`, too.
    pub(super) fn absorb(&mut self, other: Self) {
        self.become_text();
        let Some(mine) = self.columns.first_mut() else { return };
        match &other.kind {
            StepKind::Word(word) => mine.add(word),
            StepKind::Shape(_) => mine.merge_unknown(),
            StepKind::Typed(_) | StepKind::Text => {}
        }
        for column in other.columns {
            mine.merge(column);
        }
    }

    pub(super) fn become_text(&mut self) {
        let kind = std::mem::replace(&mut self.kind, StepKind::Text);
        match kind {
            StepKind::Word(word) => {
                let mut column = Column::default();
                column.add(&word);
                self.columns = vec![column];
            }
            StepKind::Shape(_) => {
                self.columns.truncate(1);
                self.columns.iter_mut().for_each(Column::merge_unknown);
            }
            StepKind::Typed(_) | StepKind::Text => {}
        }
    }
}

/// A branch from the root to an end.
#[derive(Debug)]
pub(super) struct Path<L> {
    pub(super) steps: Vec<Step>,
    pub(super) count: u64,
    pub(super) tally: L,
}

/// All paths of a tree.
pub(super) fn paths<L: Tally>(root: Node<L>) -> Vec<Path<L>> {
    let mut paths = Vec::new();
    flatten(root, &mut Vec::new(), &mut paths);
    paths
}

fn flatten<L: Tally>(node: Node<L>, before: &mut Vec<Step>, paths: &mut Vec<Path<L>>) {
    for (delimiter, group) in node.groups {
        let Group { typed, words, shapes, text, .. } = group;
        let typed = typed.into_iter().map(|(kind, branch)| (StepKind::Typed(kind), branch));
        let words = words.into_iter().map(|(word, branch)| (StepKind::Word(word), branch));
        let shapes = shapes.into_iter().map(|(shape, branch)| (StepKind::Shape(shape), branch));
        let text = text.into_iter().map(|branch| (StepKind::Text, *branch));
        for (kind, branch) in typed.chain(words).chain(shapes).chain(text) {
            let Branch { count, columns, node, leaf } = branch;
            before.push(Step { kind, columns, delimiter });
            if delimiter.is_none() {
                paths.push(Path { steps: before.clone(), count, tally: leaf });
            } else {
                flatten(node, before, paths);
            }
            before.pop();
        }
    }
}

impl<L> Path<L> {
    /// Its template, with where its placeholders stand; none for a single key, whose bytes are then the name.
    pub(super) fn template(&self) -> (Option<Template>, Vec<Hole>, String) {
        if !self.steps.iter().any(Step::is_hole) {
            return (None, Vec::new(), self.literal().escape_ascii().to_string());
        }
        for simpler in 0..=self.steps.len() {
            let (source, holes) = self.source(self.steps.len() - simpler);
            if let Ok(template) = Template::parse(&source) {
                return (Some(template), holes, source);
            }
        }
        (None, Vec::new(), String::from("?"))
    }

    fn literal(&self) -> Vec<u8> {
        let mut key = Vec::new();
        for step in &self.steps {
            if let StepKind::Word(word) = &step.kind {
                key.extend_from_slice(word);
            }
            key.extend(step.delimiter);
        }
        key
    }

    /// The template's text, everything after the first `exact` steps being one text.
    fn source(&self, exact: usize) -> (String, Vec<Hole>) {
        let mut writer = Writer::default();
        for (i, step) in self.steps.iter().enumerate() {
            let segment = u8::try_from(i).unwrap_or(u8::MAX);
            if i >= exact {
                writer.hole(Type::Text, Hole { segment, hole: u8::MAX }, true);
                break;
            }
            let is_last = step.delimiter.is_none();
            match &step.kind {
                StepKind::Word(word) => writer.literal(word),
                StepKind::Typed(kind) => writer.hole(*kind, Hole { segment, hole: 0 }, is_last),
                StepKind::Text => writer.hole(Type::Text, Hole { segment, hole: 0 }, is_last),
                StepKind::Shape(shape) => writer.shape(shape, &step.columns, segment),
            }
            writer.literal(step.delimiter.as_slice());
        }
        (writer.source, writer.holes)
    }
}

/// Writes a template, and gives names to its placeholders.
#[derive(Default)]
struct Writer {
    source: String,
    holes: Vec<Hole>,
    names: Vec<String>,
}

impl Writer {
    fn literal(&mut self, bytes: &[u8]) {
        debug_assert!(is_literal(bytes), "literals were looked at when the key came");
        for char in String::from_utf8_lossy(bytes).chars() {
            if matches!(char, '{' | '}') {
                self.source.push(char);
            }
            self.source.push(char);
        }
    }

    fn shape(&mut self, shape: &Shape, columns: &[Column], segment: u8) {
        let mut columns = columns.iter().zip(0..);
        for piece in shape {
            match (piece, piece.hole()) {
                (Piece::Literal(literal), _) => self.literal(literal),
                (_, Some(kind)) => {
                    let Some((column, hole)) = columns.next() else { return };
                    match column.only() {
                        Some(only) => self.literal(only),
                        None => self.hole(kind, Hole { segment, hole }, false),
                    }
                }
                _ => {}
            }
        }
    }

    fn hole(&mut self, kind: Type, hole: Hole, is_last: bool) {
        let stem = match kind {
            Type::Text if is_last && !self.holes.is_empty() => "part",
            Type::Text => "name",
            _ => "id",
        };
        let same = self.names.iter().filter(|name| name.starts_with(stem)).count();
        let name = if same == 0 { stem.to_owned() } else { format!("{stem}{}", same + 1) };
        self.source.push('{');
        self.source.push_str(&name);
        if kind != Type::Text {
            self.source.push_str(&format!(":{kind}"));
        }
        self.source.push('}');
        self.names.push(name);
        self.holes.push(hole);
    }
}
