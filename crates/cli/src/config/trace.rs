//! Which requests are to be looked at, and which cache there is.

use std::num::NonZero;
use std::time::Duration;

use anyhow::bail;
use keyfold_server::Target;
use keyfold_survey::caching::ServerPolicy;

use super::target;
use crate::flags::origin::OriginFlags;
use crate::flags::trace::TraceFlags;
use crate::origin::DumpPlace;

/// All that a forecast takes.
pub(crate) struct Trace {
    pub(crate) source: TraceSource,
    /// The server whose cache it is; none where none is named: a file can be looked at without.
    pub(crate) server: Option<Target>,
    /// Lines of MONITOR a second, on the mean.
    pub(crate) max_ops: Option<NonZero<u32>>,
    /// How long values are of which it isn't known.
    pub(crate) value_bytes: Option<NonZero<u32>>,
    pub(crate) memory_bytes: Option<f64>,
    pub(crate) policy: Option<ServerPolicy>,
    /// What the server's settings are, where it doesn't say.
    pub(crate) assumed: Vec<(String, u64)>,
}

/// Where requests come from.
pub(crate) enum TraceSource {
    File(DumpPlace),
    Watched(Duration),
}

/// None where no requests are to be looked at.
pub(crate) fn resolve(
    flags: &TraceFlags,
    origin: &OriginFlags,
    max_ops: Option<NonZero<u32>>,
    assumed: &[(String, u64)],
) -> anyhow::Result<Option<Trace>> {
    let source = match (&flags.trace, flags.watch) {
        (Some(path), _) if path.as_os_str() == "-" => TraceSource::File(DumpPlace::Stdin),
        (Some(path), _) => TraceSource::File(DumpPlace::File(path.clone())),
        (None, Some(time)) if time.0.is_zero() => bail!("--watch: name a time, such as 10m"),
        (None, Some(time)) => TraceSource::Watched(time.0),
        (None, None) => return Ok(None),
    };
    let is_watched = matches!(source, TraceSource::Watched(_));
    let server = (is_watched || origin.upstream.address.is_some()).then(|| target::resolve(&origin.upstream));
    let (max_ops, value_bytes) = (max_ops, flags.value_bytes);
    let memory_bytes = flags.max_memory.map(|bytes| bytes.0 as f64);
    let policy = flags.evicts_by.map(Into::into);
    Ok(Some(Trace { source, server, max_ops, value_bytes, memory_bytes, policy, assumed: assumed.to_vec() }))
}
