//! What `keyfold recode` is to do.

use std::num::NonZero;

use keyfold_server::Target;

use super::target;
use crate::flags::recode::RecodeFlags;

pub(crate) struct Recode {
    pub(crate) target: Target,
    /// The namespaces that are meant, by their templates; all where none is named.
    pub(crate) namespaces: Vec<String>,
    pub(crate) max_ops: Option<NonZero<u32>>,
    pub(crate) list: usize,
    pub(crate) json: bool,
}

pub(crate) fn resolve(flags: RecodeFlags) -> Recode {
    let RecodeFlags { upstream, namespace: namespaces, pace, list, json } = flags;
    Recode { target: target::resolve(upstream), namespaces, max_ops: pace.max_ops, list, json }
}
