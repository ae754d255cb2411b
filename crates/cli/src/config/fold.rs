//! What `keyfold fold` and `keyfold unfold` are to do.

use keyfold_core::layout::LayoutFile;
use keyfold_core::placement::Handmade;
use keyfold_core::template::Templates;
use keyfold_server::Target;

use super::{source, target};
use crate::flags::fold::{FoldFlags, MoveFlags, UnfoldFlags};
use crate::layout::file;

/// Where keys are to go.
pub(crate) enum Direction {
    /// Where this file says, out of handmade hashes by these rules where there are any: one for each of the file's
    /// namespaces.
    Fold { file: LayoutFile, from: Option<Vec<Handmade>>, raise_limits: bool },
    /// Back under their own names.
    Unfold { clean: bool },
}

pub(crate) struct Fold {
    pub(crate) target: Target,
    pub(crate) direction: Direction,
    pub(crate) flags: MoveFlags,
}

pub(crate) fn resolve_fold(flags: FoldFlags) -> anyhow::Result<Fold> {
    let FoldFlags { moving, layout, source, raise_limits } = flags;
    let mut file = file::read(&layout)?;
    let all = file.namespaces.iter().map(|namespace| &namespace.keys);
    check_names(&moving.namespace, all, &format!("the layout {}", layout.display()))?;
    if !moving.namespace.is_empty() {
        file.namespaces.retain(|namespace| moving.namespace.iter().any(|name| namespace.keys.are_called(name)));
    }
    let from = source::resolve(&source, &file)?;
    Ok(resolve(moving, Direction::Fold { file, from, raise_limits }))
}

pub(crate) fn resolve_unfold(flags: UnfoldFlags) -> Fold {
    let UnfoldFlags { moving, clean } = flags;
    resolve(moving, Direction::Unfold { clean })
}

fn resolve(flags: MoveFlags, direction: Direction) -> Fold {
    Fold { target: target::resolve(&flags.upstream), direction, flags }
}

/// Refuses a name that no namespace has.
pub(crate) fn check_names<'k>(
    named: &[String],
    all: impl Iterator<Item = &'k Templates>,
    place: &str,
) -> anyhow::Result<()> {
    let all: Vec<&Templates> = all.collect();
    match named.iter().find(|name| !all.iter().any(|keys| keys.are_called(name))) {
        None => Ok(()),
        Some(name) => {
            let all: Vec<&str> = all.iter().map(|keys| keys.source()).collect();
            anyhow::bail!("{place} has no namespace `{name}`; it has: {}", all.join(", "))
        }
    }
}
