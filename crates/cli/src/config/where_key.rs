//! What `keyfold where` is to say, and by which layout.

use std::ffi::OsString;

use keyfold_core::layout::Layout;
use keyfold_server::Target;

use super::target;
use crate::flags::where_key::WhereFlags;
use crate::layout::file;

pub(crate) struct Where {
    pub(crate) key: OsString,
    pub(crate) by: By,
    pub(crate) json: bool,
}

/// Whose layout it is.
pub(crate) enum By {
    File(Layout),
    Server(Target),
}

pub(crate) fn resolve(flags: WhereFlags) -> anyhow::Result<Where> {
    let WhereFlags { key, upstream, layout, json } = flags;
    let by = match layout {
        Some(path) => By::File(file::alone(&file::read(&path)?)?),
        None => By::Server(target::resolve(&upstream)),
    };
    Ok(Where { key, by, json })
}
