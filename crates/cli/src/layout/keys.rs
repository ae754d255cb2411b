//! Whether the keys of new namespaces are on the server already, as plain keys.
//!
//! Through keyfold such a key would be looked for in its bucket, and be invisible where it is.

use std::time::{Duration, Instant};

use anyhow::bail;
use keyfold_core::glob;
use keyfold_core::layout::{DEFAULT_FIELD_LIMIT, Former, Layout, Namespace, NamespaceIndex, Physical};
use keyfold_core::template::{Template, Type};
use keyfold_core::walk::KeyWalk;
use keyfold_report::number::{count, plural};
use keyfold_server::Server;

use crate::scan::{Database, Round};

/// Keys that the server looks at for one SCAN.
const SCAN_COUNT: u64 = 1000;
/// Between two words on how far it is.
const SAY_EVERY: Duration = Duration::from_secs(2);

/// The keys of one new namespace that are there already.
struct Found {
    namespace: String,
    keys: u64,
    example: String,
    database: u32,
}

/// Refuses where any database holds a key of the namespaces `added` to `layout`.
pub(crate) fn check_absent(server: &mut Server, layout: &Layout, added: &[NamespaceIndex]) -> anyhow::Result<()> {
    let mut found = Vec::new();
    let pattern = pattern_of_keys(layout, added);
    let mut round = Round::all(server)?;
    while let Some(database) = round.enter_next(server)? {
        scan(server, layout, added, &pattern, database, &mut found)?;
    }
    if found.is_empty() {
        return Ok(());
    }
    let lines = found.iter().map(|Found { namespace, keys, example, database }| {
        format!("  {namespace}: {}, such as \"{example}\" in database {database}", plural(*keys, "key"))
    });
    bail!(
        "the server holds plain keys of namespaces that are new; through keyfold they would be invisible:\n{}\n\
         Move them there with `keyfold fold`, while clients go on. If nobody needs them, remove them, or have \
         `keyfold serve` take the layout with --skip-key-check",
        lines.collect::<Vec<_>>().join("\n")
    )
}

fn scan(
    server: &mut Server,
    layout: &Layout,
    added: &[NamespaceIndex],
    pattern: &[u8],
    Database { number: database, keys: total }: Database,
    found: &mut Vec<Found>,
) -> anyhow::Result<()> {
    let (mut walk, mut scanned, mut said) = (KeyWalk::new(SCAN_COUNT).matching(pattern), 0, Instant::now());
    while let Some(keys) = server.next_names(&mut walk)? {
        for key in &keys {
            // A handmade hash may have the name of a key; it is none.
            if layout.read_physical(key) != Physical::Plain {
                continue;
            }
            if let Some(index) = layout.locate(key).namespace().filter(|index| added.contains(index)) {
                note(found, layout.namespace(index).keys.source(), key, database);
            }
        }
        scanned += SCAN_COUNT;
        if said.elapsed() > SAY_EVERY {
            said = Instant::now();
            tracing::info!(database, "looked at about {} of {} keys", count(scanned.min(total)), count(total));
        }
    }
    Ok(())
}

/// SCAN may show a key twice, so counts are "at least about"; what matters is whether there is one.
fn note(found: &mut Vec<Found>, namespace: &str, key: &[u8], database: u32) {
    match found.iter_mut().find(|one| one.namespace == namespace) {
        Some(one) => one.keys += 1,
        None => {
            let example = key.escape_ascii().to_string();
            found.push(Found { namespace: namespace.to_owned(), keys: 1, example, database });
        }
    }
}

/// A glob that all physical names match whose keys are to be moved.
pub(crate) fn pattern_of_moves(layout: &Layout) -> Vec<u8> {
    let moving = layout.moving().filter_map(|namespace| Some((namespace, namespace.former.as_ref()?)));
    let prefixes = moving.flat_map(|(namespace, from)| {
        let own = namespace.keys.literal_prefix();
        let there = from.placement.literal_prefix(&namespace.keys);
        std::iter::once(there).chain(may_have_left_plain(namespace, from).then_some(own))
    });
    common_pattern(prefixes)
}

/// Whether keys may have stayed under their own names because their fields are too long there; they may have a place
/// where the namespace moves to. Up to three numbers or uuids never take more bytes than the usual limit.
fn may_have_left_plain(namespace: &Namespace, from: &Former) -> bool {
    let is_any_length = namespace
        .keys
        .iter()
        .map(Template::placeholders)
        .any(|parts| parts.len() > 3 || parts.iter().any(|part| matches!(part.kind, Type::Text | Type::Hex)));
    from.placement.has_buckets() && (is_any_length || from.field_limit < DEFAULT_FIELD_LIMIT)
}

/// A glob that all keys of these namespaces match.
fn pattern_of_keys(layout: &Layout, added: &[NamespaceIndex]) -> Vec<u8> {
    pattern_of(added.iter().map(|index| layout.namespace(*index)))
}

/// A glob that the keys of all these namespaces match.
pub(crate) fn pattern_of<'n>(namespaces: impl Iterator<Item = &'n Namespace>) -> Vec<u8> {
    common_pattern(namespaces.map(|namespace| namespace.keys.literal_prefix()))
}

/// A glob that all names match which begin with one of these, so that the server sends few others.
fn common_pattern<'p>(mut prefixes: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
    let first = prefixes.next().unwrap_or_default();
    let common = prefixes.fold(first.len(), |common, prefix| {
        first[..common].iter().zip(prefix).take_while(|(one, other)| one == other).count()
    });
    glob::starting_with(&first[..common])
}

#[cfg(test)]
mod tests {
    use keyfold_core::layout::LayoutFile;

    use super::*;

    fn pattern(templates: &[&str]) -> String {
        let file: String = templates
            .iter()
            .map(|keys| format!("[[namespace]]\nkeys = '{keys}'\nbucket = {{ count = 8 }}\n"))
            .collect();
        let layout = Layout::parse_file(&file).unwrap();
        let all: Vec<_> = layout.iter().map(|(index, _)| index).collect();
        String::from_utf8(pattern_of_keys(&layout, &all)).unwrap()
    }

    #[test]
    fn the_pattern_is_what_all_keys_begin_with() {
        assert_eq!(pattern(&["user:{id:int}"]), "user:*");
        assert_eq!(pattern(&["user:{id:int}:a", "users:{id}"]), "user*");
        assert_eq!(pattern(&["a:{id}", "b:{id}"]), "*");
        assert_eq!(pattern(&["a[*]:{id}"]), "a\\[\\*\\]:*");
    }

    fn moves(from: &str, to: &str) -> String {
        let file = |rest: &str| LayoutFile::parse(&format!("[[namespace]]\n{rest}\n")).unwrap();
        let before = Layout::default().plan_fold(&file(from)).unwrap();
        let settled = before.layout.settled(&before.moving);
        String::from_utf8(pattern_of_moves(&settled.plan_fold(&file(to)).unwrap().layout)).unwrap()
    }

    #[test]
    fn moves_look_under_old_names_too_where_fields_may_have_been_too_long() {
        let span = |span: u32, limit: u32| {
            format!("keys = 'user:{{id:int}}'\nbucket = {{ span = {span} }}\nfield_limit = {limit}")
        };
        assert_eq!(moves(&span(8, 64), &span(9, 64)), "~*");
        assert_eq!(moves(&span(8, 2), &span(8, 64)), "*");
        let count = |count: u32| format!("keys = 'pkg:{{name}}'\nbucket = {{ count = {count} }}");
        assert_eq!(moves(&count(8), &count(9)), "*");
    }
}
