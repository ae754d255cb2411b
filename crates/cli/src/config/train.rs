//! What `keyfold train` is to do.

use std::num::NonZero;

use anyhow::bail;
use keyfold_core::codec::{CodecRule, Kinds};
use keyfold_server::Target;

use super::target;
use crate::flags::train::TrainFlags;

pub(crate) struct Train {
    pub(crate) target: Target,
    /// The namespaces that are meant, by their templates; all where none is named.
    pub(crate) namespaces: Vec<String>,
    /// Another codec than the layout names.
    pub(crate) codec: Option<CodecRule>,
    pub(crate) force: bool,
    pub(crate) dry_run: bool,
    pub(crate) max_ops: Option<NonZero<u32>>,
    pub(crate) json: bool,
}

pub(crate) fn resolve(flags: TrainFlags) -> anyhow::Result<Train> {
    let TrainFlags { upstream, namespace: namespaces, codec, force, dry_run, pace, json } = flags;
    if let Some(codec) = codec.as_deref().filter(|codec| *codec != "auto" && Kinds::default().find(codec).is_none()) {
        bail!("there is no codec {codec}; there are zstd, fsst, hex, uuid, and auto");
    }
    let codec = codec.as_deref().map(CodecRule::named);
    let target = target::resolve(upstream);
    Ok(Train { target, namespaces, codec, force, dry_run, max_ops: pace.max_ops, json })
}
