//! What the physical names of a namespace begin with.
//!
//! A name's hash follows from the rules that places follow from, and from nothing else: so the same file finds the same
//! keys on every server, whatever else stands in it and in whatever order, and no namespace ever reads another's
//! buckets. These rules are one text, of which this is an example:
//!
//! ```text
//! keyfold names 1
//! user:{int}:logins            of several templates each, in their order
//! span 128 of 0
//! field limit 64               only where there are buckets
//! cluster no                   or yes, where every place is in the slot of its key
//! ```
//! A namespace that comes back to rules which were in use before takes the next *generation* of their hash, so that it
//! never meets what the first time left behind.

use std::collections::BTreeMap;

use crate::placement::Placement;
use crate::placement::name::{Generation, NameHash, Stem};
use crate::template::Templates;

/// How many hashes a layout remembers the generation of.
pub(super) const MOST_REMEMBERED: usize = 256;

/// The hash in the names of keys that lie by these rules.
pub(super) fn name_hash(templates: &Templates, placement: &Placement, field_limit: usize) -> NameHash {
    let limit = if placement.has_buckets() { format!("field limit {field_limit}\n") } else { String::new() };
    let (keys, rule) = (templates.canonical(), placement.canonical());
    let cluster = if placement.is_by_slot() { "yes" } else { "no" };
    NameHash::of(&format!("keyfold names 1\n{keys}\n{rule}\n{limit}cluster {cluster}\n"))
}

/// Whether the keys of one namespace lie in the same places by both rules.
pub(super) fn same_places(one: (&Placement, usize), other: (&Placement, usize)) -> bool {
    one.0 == other.0 && (one.1 == other.1 || !one.0.has_buckets())
}

/// The highest generation of each hash that was in use so far, also of namespaces that are gone.
///
/// No more than [`MOST_REMEMBERED`] are kept. Where one is forgotten, hashes that are not remembered begin above its
/// generation, so that none is ever used twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Generations {
    pub(super) highest: BTreeMap<NameHash, Generation>,
    /// The generation with which a hash that isn't remembered begins.
    pub(super) first: Generation,
}

impl Generations {
    /// A stem that nobody has used, for keys that come to lie by these rules.
    pub(super) fn take(&mut self, templates: &Templates, placement: &Placement, field_limit: usize) -> Stem {
        let hash = name_hash(templates, placement, field_limit);
        if !placement.has_names() {
            return Stem { hash, generation: Generation(0) };
        }
        let generation = self.highest.get(&hash).map_or(self.first, |highest| highest.next());
        let stem = Stem { hash, generation };
        self.note(stem);
        stem
    }

    /// Remembers that this stem is in use.
    pub(super) fn note(&mut self, stem: Stem) {
        let highest = self.highest.entry(stem.hash).or_insert(stem.generation);
        *highest = stem.generation.max(*highest);
        while self.highest.len() > MOST_REMEMBERED
            && let Some((hash, generation)) = self.lowest()
        {
            self.highest.remove(&hash);
            self.first = self.first.max(generation.next());
        }
    }

    /// The hash with the lowest generation. Forgetting it raises `first`, where all forgotten hashes begin, the least.
    fn lowest(&self) -> Option<(NameHash, Generation)> {
        self.highest.iter().map(|(hash, generation)| (*hash, *generation)).min_by_key(|(_, generation)| *generation)
    }
}

impl Generation {
    /// The one after it.
    fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// The hashes in the names of a namespace's keys.
pub(super) fn hashes_of<'n>(rules: impl Iterator<Item = (&'n Placement, Stem)>) -> Vec<NameHash> {
    rules.filter(|(placement, _)| placement.has_names()).map(|(_, stem)| stem.hash).collect()
}

/// Two namespaces whose keys would lie under the same names, by their positions, the later one first.
pub(super) fn same_names(hashes: &[Vec<NameHash>]) -> Option<(usize, usize)> {
    hashes.iter().enumerate().find_map(|(later, own)| {
        let is_shared = |other: &Vec<NameHash>| other.iter().any(|hash| own.contains(hash));
        hashes[..later].iter().position(is_shared).map(|earlier| (later, earlier))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::layout::{Layout, LayoutFile, NamespaceIndex};
    use crate::placement::{By, Count, TextTable};
    use crate::template::Template;

    fn file(text: &str) -> LayoutFile {
        LayoutFile::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    fn namespace(keys: &str, rest: &str) -> String {
        format!("[[namespace]]\nkeys = {keys:?}\n{rest}\n")
    }

    fn names(layout: &Layout) -> Vec<String> {
        layout.namespaces().iter().map(|namespace| namespace.names().unwrap_or_default()).collect()
    }

    fn name(keys: &str, rest: &str) -> String {
        names(&file(&namespace(keys, rest)).into_layout()).remove(0)
    }

    fn table(symbols: &[&[u8]]) -> String {
        let table = TextTable::new(symbols.iter().map(|symbol| symbol.to_vec()).collect()).unwrap();
        format!("text_table = \"{}\"", table.to_text())
    }

    /// Stored keys would be lost from sight, should one of these ever change.
    #[test]
    fn names_never_change() {
        assert_eq!(name("user:{id:int}:logins", "bucket = { span = 128 }"), "~STRd");
        assert_eq!(name("session:{id:uuid}", "bucket = { count = 16384 }"), "~3zOA");
        assert_eq!(name("post:{id:int}:{part}", "bucket = { by = \"id\" }"), "~ICH7");
        assert_eq!(name("page:{path}", ""), "~6Bk9");
        assert_eq!(name("page:{path}", "codec = \"zstd\""), "~dCtf");
        assert_eq!(name("page:{path}", "placement = \"plain\""), "");
        assert_eq!(name("session:{id:uuid}", "bucket = { count = 1 }\ncluster = true"), "~5Cg0");
        assert_eq!(name("page:{path}", "cluster = true"), "~l4sm");
    }

    #[test]
    fn names_follow_from_what_places_follow_from() {
        let span = "bucket = { span = 128, of = \"a\" }";
        let tables = [&[b"ab".as_slice(), b"c"][..], &[b"c", b"ab"], &[b"ab"]].map(table);
        let rules = [
            ("x:{a:int}:{b:int}:{c}", span),
            ("y:{a:int}:{b:int}:{c}", span),
            ("x:{a:int}:{b:int}:{c:hex}", span),
            ("x:{a:int}:{b:int(3)}:{c}", span),
            ("x{{:{a:int}:{b:int}:{c}", span),
            ("x:{a:int}:{b:int}:{c}", "bucket = { span = 129, of = \"a\" }"),
            ("x:{a:int}:{b:int}:{c}", "bucket = { span = 128, of = \"b\" }"),
            ("x:{a:int}:{b:int}:{c}", "bucket = { span = 128, of = \"a\" }\nfield_limit = 65"),
            ("x:{a:int}:{b:int}:{c}", "bucket = { count = 128 }"),
            ("x:{a:int}:{b:int}:{c}", "bucket = { count = 129 }"),
            ("x:{a:int}:{b:int}:{c}", "bucket = { by = \"a\" }"),
            ("x:{a:int}:{b:int}:{c}", "bucket = { by = \"c\" }"),
            ("x:{a:int}:{b:int}:{c}", ""),
            ("x:{a:int}:{b:int}:{c}", "codec = \"hex\""),
            ("x:{a:int}:{b:int}:{c}", "bucket = { count = 128 }\ncluster = true"),
            ("x:{a:int}:{b:int}:{c}", "cluster = true"),
            ("x:{a:int}:{b:int}:{c}", &format!("{span}\n{}", tables[0])),
            ("x:{a:int}:{b:int}:{c}", &format!("{span}\n{}", tables[1])),
            ("x:{a:int}:{b:int}:{c}", &format!("{span}\n{}", tables[2])),
        ];
        let different: BTreeSet<_> = rules.iter().map(|(keys, rest)| name(keys, rest)).collect();
        assert_eq!(different.len(), rules.len(), "{different:?}");
    }

    #[test]
    fn names_follow_from_nothing_else() {
        let one = name("x:{a:int}:{b:int}:{c}", "bucket = { span = 128, of = \"b\" }");
        let renamed = "bucket = { span = 128, of = \"shop\" }\nvalue_limit = 500\ncodec = \"hex\"";
        assert_eq!(name("x:{user:int}:{shop:int}:{c}", renamed), one);
        assert_eq!(name("page:{path}", "field_limit = 5"), name("page:{what}", ""), "there are no fields");
        assert_eq!(name("page:{path}", "codec = \"zstd\""), name("page:{path}", "codec = \"hex\""));
    }

    #[test]
    fn a_file_finds_the_same_keys_in_whatever_order_it_stands() {
        let [one, two, three] =
            [("a:{x}", ""), ("b:{x:int}", "bucket = { span = 8 }"), ("c:{x}", "bucket = { count = 8 }")]
                .map(|(keys, rest)| namespace(keys, rest));
        let layouts = [[&one, &two, &three], [&three, &one, &two]]
            .map(|parts| file(&parts.map(String::as_str).concat()).into_layout());
        for key in ["a:1", "b:100", "c:x"] {
            let [first, second] = layouts.each_ref().map(|layout| layout.places(key.as_bytes()).next().unwrap());
            assert_eq!((first.physical, first.field), (second.physical, second.field));
        }
    }

    /// Moves the only namespace, and settles it there.
    fn brought(layout: &Layout, rest: &str) -> Layout {
        let planned = layout.plan_fold(&file(&namespace("a:{x:int}", rest))).unwrap();
        planned.layout.follows(layout).unwrap();
        let settled = planned.layout.settled(&planned.moving);
        assert_eq!(Layout::from_stored(&settled.to_stored()).unwrap(), settled);
        settled
    }

    #[test]
    fn a_placement_taken_up_again_has_other_names() {
        let (span, count) = ("bucket = { span = 8 }", "bucket = { count = 8 }");
        let first = brought(&Layout::default(), span);
        let away = first.plan_unfold(&[NamespaceIndex(0)]).unwrap();
        let plain = away.layout.settled(&away.moving);
        assert!(plain.is_empty(), "the namespace is gone, and its generation remembered");
        let second = brought(&plain, span);
        assert_eq!(names(&second)[0], names(&first)[0].clone() + "1");
        let third = brought(&brought(&second, count), span);
        assert_eq!(names(&third)[0], names(&first)[0].clone() + "2");
        let added = Layout::merge(Some(&plain), &file(&namespace("a:{x:int}", span))).unwrap().layout;
        assert_eq!(names(&added), names(&second), "a new namespace meets no leftovers either");
    }

    #[test]
    fn turning_round_keeps_names() {
        let layout = brought(&Layout::default(), "bucket = { span = 8 }");
        let to_count = layout.plan_fold(&file(&namespace("a:{x:int}", "bucket = { count = 8 }"))).unwrap().layout;
        let back = to_count.plan_fold(&file(&namespace("a:{x:int}", "bucket = { span = 8 }"))).unwrap();
        assert_eq!(names(&back.layout), names(&layout));
        assert_eq!(names(&back.layout.settled(&back.moving)), names(&layout));
    }

    #[test]
    fn no_generation_is_used_twice_however_many_are_forgotten() {
        let mut generations = Generations::default();
        let template = Template::parse("{a}:{b}").unwrap();
        let mut used = BTreeSet::new();
        for round in 0..3 {
            for field_limit in 1..=MOST_REMEMBERED + 50 {
                let placement = Placement::from(By::new(&template, "a").unwrap());
                let stem = generations.take(&template.clone().into(), &placement, field_limit);
                assert!(used.insert(stem), "{stem} was in use before, in round {round}");
            }
            assert!(generations.highest.len() <= MOST_REMEMBERED);
        }
    }

    /// Rules of `a:{x}` and of `b:{x}` whose names begin alike. Among so many there are some.
    fn alike() -> (String, String) {
        let count = |template: &Template, count: i64| {
            let placement = Placement::from(Count::new(template, count).unwrap());
            name_hash(&template.clone().into(), &placement, 64)
        };
        let [one, other] = ["a:{x}", "b:{x}"].map(|keys| Template::parse(keys).unwrap());
        let known: BTreeMap<_, _> = (2..10_000).map(|buckets| (count(&one, buckets), buckets)).collect();
        let found = (2..1_000_000).find_map(|buckets| Some((*known.get(&count(&other, buckets))?, buckets)));
        let (one, other) = found.unwrap();
        (
            namespace("a:{x}", &format!("bucket = {{ count = {one} }}")),
            namespace("b:{x}", &format!("bucket = {{ count = {other} }}")),
        )
    }

    #[test]
    fn the_same_names_by_chance_are_refused() {
        let (one, other) = alike();
        let layout = file(&one).into_layout();
        assert_eq!(names(&layout), names(&file(&other).into_layout()));
        let both = one + &other;
        let refused = LayoutFile::parse(&both).unwrap_err().to_string();
        assert!(refused.starts_with("line 5, column 8: `keys`: the physical names of `b:{x}` would be"), "{refused}");
        let refused = layout.plan_fold(&file(&other)).unwrap_err().to_string();
        assert!(refused.contains("by chance; give the namespace another bucket rule"), "{refused}");
    }
}
