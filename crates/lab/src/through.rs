//! A keyfold before a server, in this process.

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_proxy::address::ListenAddress;
use keyfold_proxy::{Config, Handle};
use keyfold_server::Target;
use tempfile::TempDir;

/// Far more than studies and demos have, and few enough for any machine's limit of open files.
const MOST_CLIENTS: usize = 400;

/// It ends by [`Through::stop`], or with the process.
pub struct Through {
    handle: Handle,
    target: Target,
    _directory: TempDir,
}

impl Through {
    /// Starts to serve by a layout that is in force on the server.
    ///
    /// # Errors
    /// There is no place for its socket, or the server can't be reached.
    pub fn start(server: &Target, layout: &Layout) -> anyhow::Result<Self> {
        Self::start_by(server, Config::new(server.address.clone(), layout.clone()))
    }

    /// The same where nothing expires: it writes nothing to the server but what clients do.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub(crate) fn start_without_sweep(server: &Target, layout: &Layout) -> anyhow::Result<Self> {
        let mut config = Config::new(server.address.clone(), layout.clone());
        config.sweep.fields_per_second = 0;
        Self::start_by(server, config)
    }

    fn start_by(server: &Target, mut config: Config) -> anyhow::Result<Self> {
        let directory =
            tempfile::Builder::new().prefix("keyfold-").tempdir().context("can't make a private directory")?;
        let socket = directory.path().join("keyfold.sock");
        config.limits.max_clients = MOST_CLIENTS;
        config.server_tls = server.tls.clone();
        config.listen.push(ListenAddress::Unix(socket.clone()));
        let handle = keyfold_proxy::start(config)?;
        Ok(Self { handle, target: Target::on_socket(socket), _directory: directory })
    }

    /// The way to it.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Ends it. The layout stays in the server.
    ///
    /// # Errors
    /// A thread of it died.
    pub fn stop(self) -> anyhow::Result<()> {
        self.handle.stop();
        Ok(self.handle.join()?)
    }
}
