//! The server, the keyfolds before it and the clients.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use keyfold_core::eviction::{ServerMemory, evicted_by_server};
use keyfold_core::layout::Layout;
use keyfold_testkit::load::{CacheClient, Report};
use keyfold_testkit::{Binary, Server, Subject, Wire, subject};

/// Buckets, of whose values some spill; names of their own; frames; codecs.
const NAMESPACES: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\nvalue_limit = 64\n\
     [[namespace]]\nkeys = 'cart:{id:int}'\nbucket = { count = 2048 }\ncodec = \"hex\"\n\
     [[namespace]]\nkeys = 'zip:{id:int}'\n\
     [[namespace]]\nkeys = 'own:{id:int}'\nplacement = \"framed\"\ncodec = \"hex\"\n";

const KINDS: [&str; 5] = ["user", "cart", "zip", "own", "user"];
const KEYS_A_CLIENT: u64 = 120_000;

/// How long the sweep may take to be around.
const SWEPT_WITHIN: Duration = Duration::from_secs(60);

pub(crate) struct Stage {
    server: Server,
    proxies: Vec<Subject>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// None while they are at work.
    pub(crate) clients: Vec<CacheClient>,
    vanished: Arc<AtomicU64>,
    mark: u64,
    most: u64,
    by_server: u64,
    kills: u64,
    total: Report,
}

impl Stage {
    pub(crate) fn new(binary: &Binary, clients: u64, bytes: u64, seed: u64) -> anyhow::Result<Self> {
        let server = binary.start(&["--maxmemory-policy", "allkeys-lfu"])?;
        let mark = memory(&server)? + bytes;
        let max = (mark + mark / 10).to_string();
        ensure!(server.connect()?.call(&[b"CONFIG", b"SET", b"maxmemory", max.as_bytes()])? == b"+OK\r\n");
        let layout = Layout::parse_file(&format!("[cache]\nmax_memory = \"{mark}\"\n{NAMESPACES}"))?;
        server.put_in_force(&layout)?;
        let proxies = vec![Subject::beside(&server)?, Subject::beside(&server)?];
        let addresses = proxies.iter().map(Subject::address).collect();
        let vanished = Arc::default();
        let names = |client: u64| {
            let name = move |key: u64| format!("{}:{}", KINDS[(key % 5) as usize], client * KEYS_A_CLIENT + key);
            (0..KEYS_A_CLIENT).map(move |key| name(key).into_bytes())
        };
        let clients = (0..clients).map(|client| CacheClient::new(seed ^ client, names(client), &vanished)).collect();
        let (total, most) = (Report::default(), 0);
        Ok(Self { server, proxies, addresses, clients, vanished, mark, most, by_server: 0, kills: 0, total })
    }

    /// Keys that were found gone.
    pub(crate) fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Relaxed)
    }

    /// Notes how much memory the server takes, and what it has evicted itself.
    pub(crate) fn look(&mut self) -> anyhow::Result<()> {
        self.most = self.most.max(memory(&self.server)?);
        self.by_server = evicted_by_server(&info(&self.server, "stats")?).context("INFO stats says nothing")?;
        Ok(())
    }

    /// Kills a keyfold, and starts another in its place some time later.
    pub(crate) fn kill(&mut self, index: usize, starts_after: Duration) -> anyhow::Result<()> {
        self.proxies[index].kill();
        self.kills += 1;
        thread::sleep(starts_after);
        self.proxies[index] = Subject::beside_at(&self.server, self.addresses[index])?;
        Ok(())
    }

    /// Reads all keys and has the server walked over; what is wrong.
    pub(crate) fn check(&mut self) -> anyhow::Result<Vec<String>> {
        let mut wire = Wire::connect(self.addresses[0])?;
        let mut report = std::mem::take(&mut self.total);
        for client in &mut self.clients {
            client.check(&mut wire);
            report.extend(client.take_report());
        }
        let mut wrong = std::mem::take(&mut report.wrong);
        wrong.extend(report.errors.iter().map(|(error, count)| format!("{count} answers were {error}")));
        wrong.extend(self.verify()?);
        if self.by_server > 0 {
            wrong.push(format!("the server evicted {} keys itself", self.by_server));
        }
        self.total = report;
        Ok(wrong)
    }

    /// `keyfold verify`: what it says where it isn't content, nor becomes so once what nothing points to has been swept.
    fn verify(&self) -> anyhow::Result<Option<String>> {
        let deadline = Instant::now() + SWEPT_WITHIN;
        loop {
            let url = self.server.url();
            let output = Command::new(subject::program()).args(["verify", &url, "--skip-encodings"]).output()?;
            if output.status.success() {
                return Ok(None);
            }
            if Instant::now() > deadline {
                return Ok(Some(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// What has happened so far, in a line.
    pub(crate) fn summary(&self) -> String {
        let there: usize = self.clients.iter().map(CacheClient::may_be_there).sum();
        #[expect(clippy::cast_precision_loss, reason = "percent")]
        let most = 100.0 * self.most as f64 / self.mark as f64;
        format!(
            "{} keys found gone, {there} still there, {} answers right, {} connections lost, {} keyfolds killed; memory at \
             most {most:.1} % of the mark, {} keys evicted by the server",
            self.vanished(),
            self.total.answers,
            self.total.lost,
            self.kills,
            self.by_server
        )
    }
}

fn info(server: &Server, section: &str) -> anyhow::Result<String> {
    let value = server.connect()?.ask(&[b"INFO", section.as_bytes()])?;
    Ok(String::from_utf8_lossy(value.bytes().context("INFO has no text")?).into_owned())
}

fn memory(server: &Server) -> anyhow::Result<u64> {
    Ok(ServerMemory::read(&info(server, "memory")?).context("INFO memory says nothing")?.counted)
}
