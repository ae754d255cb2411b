//! What `keyfold train` is to do.

use anyhow::bail;
use keyfold_core::codec::{CodecRule, Kinds};
use keyfold_server::Target;

use super::target;
use crate::flags::train::TrainFlags;

pub(crate) struct Train {
    pub(crate) target: Target,
    /// Another codec than the layout names.
    pub(crate) codec: Option<CodecRule>,
    pub(crate) flags: TrainFlags,
}

pub(crate) fn resolve(flags: TrainFlags) -> anyhow::Result<Train> {
    let codec = flags.codec.as_deref();
    if let Some(codec) = codec.filter(|codec| *codec != "auto" && Kinds::default().find(codec).is_none()) {
        bail!("there is no codec {codec}; there are zstd, fsst, fields, hex, uuid, and auto");
    }
    Ok(Train { target: target::resolve(&flags.upstream), codec: codec.map(CodecRule::named), flags })
}
