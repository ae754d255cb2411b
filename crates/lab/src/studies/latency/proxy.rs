//! A keyfold before the server under study, in this process.

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_proxy::address::{ListenAddress, Route, ServerAddress};
use keyfold_proxy::config::ServerTls;
use keyfold_proxy::{Config, Handle};
use keyfold_server::Target;
use keyfold_server::layout::activate::activate;
use tempfile::TempDir;

use crate::bench::Bench;

/// It ends by [`Through::stop`], or with the process.
pub(super) struct Through {
    handle: Handle,
    target: Target,
    _directory: TempDir,
}

impl Through {
    /// Puts the layout in force on a server that has none, and starts to serve.
    pub(super) fn start(bench: &Bench<'_>, layout: &Layout) -> anyhow::Result<Self> {
        let layout = activate(&mut bench.connect()?, None, layout)?;
        let directory =
            tempfile::Builder::new().prefix("keyfold-").tempdir().context("can't make a private directory")?;
        let socket = directory.path().join("keyfold.sock");
        let mut config = Config::new(bench.target().address.clone(), layout);
        config.server_tls = bench.target().tls.clone();
        config.listen.push(ListenAddress::Unix(socket.clone()));
        let handle = keyfold_proxy::start(config)?;
        let address = ServerAddress { route: Route::Unix(socket), user: None, password: None, database: 0 };
        Ok(Self { handle, target: Target { address, tls: ServerTls::default() }, _directory: directory })
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    /// Ends it. The layout stays in the server.
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.handle.stop();
        Ok(self.handle.join()?)
    }
}
