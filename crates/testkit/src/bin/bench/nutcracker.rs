//! nutcracker (twemproxy), the proxy that keyfold is compared with, where it is on PATH.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_testkit::{Server, Wire};

/// A running nutcracker; killed when dropped.
pub(crate) struct Nutcracker {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

/// Its version, none where there is none.
pub(crate) fn version() -> Option<String> {
    let output = Command::new("nutcracker").arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let version = text.split("nutcracker-").nth(1)?.split_whitespace().next()?;
    Some(version.to_owned())
}

impl Nutcracker {
    /// Starts it before `server`, with one server in its pool and its defaults otherwise.
    pub(crate) fn start(server: &Server) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("keyfold-bench-").tempdir()?;
        let config = dir.path().join("nutcracker.yml");
        let (port, stats) = (free_port()?, free_port()?);
        fs::write(
            &config,
            format!(
                "bench:\n  listen: 127.0.0.1:{port}\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n  \
                 auto_eject_hosts: false\n  servers:\n   - 127.0.0.1:{}:1\n",
                server.port()
            ),
        )?;
        let child = Command::new("nutcracker")
            .arg("-c")
            .arg(&config)
            .args(["-a", "127.0.0.1", "-s", &stats.to_string(), "-o"])
            .arg(dir.path().join("log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting nutcracker")?;
        let started = Self { child, port, _dir: dir };
        started.wait_until_ready()?;
        Ok(started)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn wait_until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let reply = Wire::connect(("127.0.0.1", self.port)).and_then(|mut wire| wire.call(&[b"GET", b"none"]));
            match reply {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(error).context("nutcracker does not answer"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Nutcracker {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
