//! `keyfold probe`: whether a keyfold lives or is ready, for whoever has no HTTP client.

use keyfold_proxy::config::ServerTls;
use keyfold_server::Operators;

use crate::flags::probe::ProbeFlags;

pub(crate) fn run(flags: &ProbeFlags) -> anyhow::Result<()> {
    let path = if flags.live { "/livez" } else { "/readyz" };
    Operators::new(flags.address.clone(), &ServerTls::default(), None)?.get(path).map(drop)
}
