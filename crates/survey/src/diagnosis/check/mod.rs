//! One file for each kind of finding.

pub(super) mod eviction;
pub(super) mod filling;
pub(super) mod fragmentation;
pub(super) mod layout;
pub(super) mod leftovers;
pub(super) mod partitions;
pub(super) mod replicas;
pub(super) mod settings;
pub(super) mod tables;

use keyfold_core::layout::Namespace;

use super::mend::Mend;
use super::{FamilyName, Observation};
use crate::number::grouped;

/// How a family is named to a person.
fn place_of(name: &FamilyName, seen: &Observation) -> String {
    match (name, namespace_of(name, seen)) {
        (_, Some(namespace)) => {
            format!("namespace {} {}", namespace.keys.source(), namespace.line())
        }
        (FamilyName::Pattern(pattern), None) => format!("hashes {}", pattern.escape_ascii()),
        (FamilyName::Namespace(_), None) => "a namespace".to_owned(),
    }
}

/// The namespace whose buckets a family is.
fn namespace_of<'s>(name: &FamilyName, seen: &'s Observation) -> Option<&'s Namespace> {
    let FamilyName::Namespace(index) = name else { return None };
    seen.layout.known().map(|layout| layout.namespace(*index))
}

/// The namespaces whose keys lie in buckets.
fn folding(seen: &Observation) -> impl Iterator<Item = &Namespace> {
    let namespaces = seen.layout.known().map(|layout| layout.namespaces()).unwrap_or_default();
    namespaces.iter().filter(|namespace| namespace.placement.has_buckets())
}

/// The command that writes tables anew.
fn rewrite_command(seen: &Observation) -> String {
    format!("keyfold doctor {} --rewrite", seen.names.url)
}

/// Another placement for a namespace that is there: the line for its layout, and the commands that move its keys.
fn other_buckets(seen: &Observation, what: &str, line: Option<String>) -> Mend {
    let url = &seen.names.url;
    let how = match line {
        Some(_) => "write this line in the layout",
        None => "write a `count` of a slot's buckets in the layout, of which each has some hundred entries",
    };
    // The plan's file has the namespaces that are there, too.
    let mend = Mend::advice(format!("{what}: {how}, and have keyfold move the keys, while clients go on"))
        .with_line("shell", format!("keyfold plan {url} --out layout.toml"));
    let mend = match line {
        Some(line) => mend.with_line("layout", line),
        None => mend,
    };
    mend.with_line("shell", format!("keyfold fold {url} --layout layout.toml"))
}

/// `1 hash`, `1,000 hashes`.
fn hashes(number: u64) -> String {
    format!("{} {}", grouped(number), if number == 1 { "hash" } else { "hashes" })
}

/// `1 entry`, `1,000 entries`.
fn entries(number: u64) -> String {
    format!("{} {}", grouped(number), if number == 1 { "entry" } else { "entries" })
}
