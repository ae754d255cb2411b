//! The server, the proxies before it and the clients, from round to round.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use keyfold_core::layout::Layout;
use keyfold_testkit::load::{Client, Counters, Held, MemberOp, Op, Report};
use keyfold_testkit::random::Random;
use keyfold_testkit::wire::WireError;
use keyfold_testkit::{Binary, Server, Subject, Wire, subject};
use std::net::SocketAddr;
use std::sync::Arc;

/// Values over the limit are spilled, so that those move too.
const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\nvalue_limit = 40\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 256 }\nvalue_limit = 40\n\
     [[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 64 }\nvalue_limit = 60\n\
     [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 64 }\nvalue_limit = 64\n";

/// Folded by another layout in between, buckets become other buckets.
const OTHER_LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\nvalue_limit = 60\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 128 }\nvalue_limit = 40\n\
     [[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\nvalue_limit = 50\n\
     [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 32 }\nvalue_limit = 60\n";

/// What movers say, one behind the other.
const MOVERS_LOG: &str = "movers.log";
/// So much of it is shown where they fail.
const LAST_LINES: usize = 40;

/// How long a keyfold may take to be connected to its server again.
const SERVED_WITHIN: Duration = Duration::from_secs(10);

/// How long the sweep may take to be around.
const SWEPT_WITHIN: Duration = Duration::from_secs(40);

const CLIENTS: u64 = 4;
const KEYS_A_CLIENT: u64 = 60;
/// Sets of one client, and as many hashes.
const COLLECTIONS_A_CLIENT: u64 = 15;
/// Ids from here on are the clients'.
const FIRST_OF_CLIENTS: u64 = 10_000_000;

/// Where a round takes the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    Fold,
    FoldOtherwise,
    Unfold,
}

pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) proxies: Vec<Subject>,
    pub(crate) addresses: Vec<SocketAddr>,
    /// None while they are at work.
    pub(crate) clients: Vec<Client>,
    pub(crate) total: Report,
    /// Movers, keyfolds and servers that were killed, and how often keyfold's own keys were taken away.
    pub(crate) kills: [u64; 4],
    counters: Arc<Counters>,
    keys: u64,
    dir: PathBuf,
    is_kept: bool,
}

impl Stage {
    pub(crate) fn new(binary: &Binary, keys: u64, seed: u64) -> anyhow::Result<Self> {
        let dir = std::env::temp_dir().join(format!("keyfold-crash-{}", std::process::id()));
        fs::create_dir_all(dir.join("aof"))?;
        fs::write(dir.join("layout.toml"), LAYOUT)?;
        fs::write(dir.join("other.toml"), OTHER_LAYOUT)?;
        let aof = dir.join("aof");
        let aof = aof.to_str().context("the directory is not UTF-8")?;
        let server = binary.start(&["--appendonly", "yes", "--appendfsync", "always", "--dir", aof])?;
        fill(&mut server.connect()?, keys)?;
        let proxies = vec![Subject::beside(&server)?, Subject::beside(&server)?];
        let addresses = proxies.iter().map(Subject::address).collect();
        let counters = (0..4).map(|id| format!("user:{}", 2 * FIRST_OF_CLIENTS + id).into_bytes());
        let fields = (0..4).map(|id| (format!("sess:{}", 2 * FIRST_OF_CLIENTS), format!("field {id}")));
        let fields = fields.map(|(key, field)| (key.into_bytes(), field.into_bytes()));
        let counters = Counters::with_fields(counters, fields);
        let clients = (0..CLIENTS).map(|client| {
            let [sets, hashes] = ["tags", "sess"].map(|kind| collections_of(kind, client));
            Client::new(seed ^ client, keys_of(client), &counters).with_collections(sets, hashes)
        });
        let clients = clients.collect();
        for (key, state) in (0..CLIENTS).flat_map(keys_of) {
            let Some(value) = state.as_ref().and_then(|held| held.value.text()) else { continue };
            ensure!(server.connect()?.call(&[b"SET", &key, value])? == b"+OK\r\n", "SET is refused");
        }
        let (total, kills) = (Report::default(), [0; 4]);
        Ok(Self { server, proxies, addresses, clients, total, kills, counters, keys, dir, is_kept: false })
    }

    /// A mover, its output behind the others' in one file.
    pub(crate) fn mover(&self, course: Course, max_ops: Option<u64>) -> anyhow::Result<Child> {
        let log = fs::File::options().create(true).append(true).open(self.dir.join(MOVERS_LOG))?;
        let mut command = Command::new(subject::program());
        let layout = match course {
            Course::Fold => Some("layout.toml"),
            Course::FoldOtherwise => Some("other.toml"),
            Course::Unfold => None,
        };
        command.arg(if layout.is_some() { "fold" } else { "unfold" }).arg(self.server.url()).arg("--yes");
        command.args(layout.into_iter().flat_map(|name| ["--layout".into(), self.dir.join(name)]));
        command.args(max_ops.iter().flat_map(|ops| ["--max-ops".to_owned(), ops.to_string()]));
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.spawn().context("the mover cannot be started")
    }

    /// `keyfold verify`: what it says, where it isn't content, nor becomes so once spilled values that nothing points to
    /// any more have ended and been swept. What is lost or wrong stays so.
    pub(crate) fn verify(&self) -> anyhow::Result<Option<String>> {
        let url = self.server.url();
        let deadline = Instant::now() + SWEPT_WITHIN;
        loop {
            let output = Command::new(subject::program()).args(["verify", &url, "--skip-encodings"]).output()?;
            if output.status.success() {
                return Ok(None);
            }
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            if Instant::now() > deadline {
                return Ok(Some(said));
            }
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Reads every key through a proxy; what is wrong.
    pub(crate) fn check(&mut self) -> anyhow::Result<Vec<String>> {
        let mut wire = Wire::connect(self.addresses[0])?;
        // The server may have begun anew this very moment.
        let deadline = Instant::now() + SERVED_WITHIN;
        while wire.call(&[b"EXISTS", b"user:0"])?.starts_with(b"-") && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        let mut report = Report::default();
        for client in &mut self.clients {
            client.check(&mut wire);
            report.extend(client.take_report());
        }
        let mut wrong = std::mem::take(&mut report.wrong);
        self.total.extend(report);
        wrong.extend(self.counters.check(&mut wire));
        for start in (0..self.keys).step_by(500) {
            let records: Vec<Record> = (start..(start + 500).min(self.keys)).map(Record::of).collect();
            records.iter().try_for_each(|record| send(&mut wire, &record.read.args(&record.key)))?;
            for Record { key, write, read } in records {
                let found = wire.reply()?;
                if !read.is_answer_after(&write, &found) {
                    wrong.push(format!("{}: {}", key.escape_ascii(), found.escape_ascii()));
                }
            }
        }
        Ok(wrong)
    }

    /// What the server says the layout is.
    pub(crate) fn layout(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let mut wire = self.server.connect()?;
        Ok(wire.ask(&[b"GET", b"keyfold:{home}:layout"])?.bytes().map(<[u8]>::to_vec))
    }

    /// Takes away some of what keyfold keeps for itself, or sets the layout back to the one before, where that was
    /// `older`; what was done.
    pub(crate) fn lose(&self, older: &Option<Vec<u8>>, random: &mut Random) -> anyhow::Result<&'static str> {
        let epoch = |text: &[u8]| Some(Layout::from_stored(std::str::from_utf8(text).ok()?).ok()?.epoch());
        let mut wire = self.server.connect()?;
        let now = self.layout()?;
        let is_one_before = match (older.as_deref().and_then(epoch), now.as_deref().and_then(epoch)) {
            (Some(older), Some(now)) => older.next() == now,
            _ => false,
        };
        let (lost, keys) = match random.below(4) {
            0 if is_one_before => {
                let older = older.as_deref().unwrap_or_default();
                wire.call(&[b"MSET", b"keyfold:{home}:layout", older, b"keyfold:{home}:layout:copy", older])?;
                return Ok("the layout (set back)");
            }
            0 | 1 => ("the layout", vec!["keyfold:{home}:layout", "keyfold:{home}:layout:copy"]),
            2 => ("the change", vec!["keyfold:{home}:change", "keyfold:{home}:answers"]),
            _ => (
                "one key",
                vec![*random.pick(&["keyfold:{home}:layout", "keyfold:{home}:layout:copy", "keyfold:{home}:answers"])],
            ),
        };
        for key in keys {
            wire.call(&[b"DEL", key.as_bytes()])?;
        }
        Ok(lost)
    }

    /// What movers said last.
    pub(crate) fn movers_last_words(&self) -> anyhow::Result<String> {
        let log = fs::read_to_string(self.dir.join(MOVERS_LOG))?;
        let lines: Vec<&str> = log.lines().collect();
        Ok(lines[lines.len().saturating_sub(LAST_LINES)..].join("\n"))
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Keeps the directory, and puts the proxies' logs there.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
        let logs = self.proxies.iter().map(Subject::log).chain([self.server.log()]);
        for (number, log) in logs.enumerate() {
            let _ = fs::write(self.dir.join(format!("process-{number}.log")), log);
        }
    }

    pub(crate) fn summary(&self) -> String {
        let [movers, proxies, servers, losses] = self.kills;
        let Report { answers, lost, errors, .. } = &self.total;
        let errors: u64 = errors.values().sum();
        format!(
            "{movers} movers, {proxies} proxies and {servers} servers killed, own keys lost {losses} times; {answers} answers right, none wrong; \
             {errors} errors and {lost} lost connections; nothing lost, nothing back from the dead"
        )
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

fn keys_of(client: u64) -> impl Iterator<Item = (Vec<u8>, Option<Held>)> {
    (0..KEYS_A_CLIENT).map(move |id| {
        let number = FIRST_OF_CLIENTS + client * KEYS_A_CLIENT + id;
        let key = if id % 3 == 0 { format!("page:{number}") } else { format!("user:{number}") };
        let held = (id % 4 > 0).then(|| Held { value: number.to_string().into_bytes().into(), expires_at_ms: None });
        (key.into_bytes(), held)
    })
}

fn collections_of(kind: &str, client: u64) -> impl Iterator<Item = Vec<u8>> {
    let first = FIRST_OF_CLIENTS + client * COLLECTIONS_A_CLIENT;
    (first..first + COLLECTIONS_A_CLIENT).map(move |number| format!("{kind}:{number}").into_bytes())
}

/// A key that is only moved: how it is written, and read.
struct Record {
    key: Vec<u8>,
    write: Op,
    read: Op,
}

impl Record {
    /// One of six is a set, and one a hash. Some of each are long, and some large.
    fn of(id: u64) -> Self {
        let [number, long] = [(id * 7919).to_string().into_bytes(), format!("{id:0100}x").into_bytes()];
        let (kind, write, read) = match id % 6 {
            3 => {
                let members = [number, b"007".to_vec(), format!("tag {id}").into_bytes()].into_iter();
                let more = id.is_multiple_of(33).then_some(long);
                let many = large(id).map(|number| format!("tag {number}").into_bytes());
                (
                    "tags",
                    Op::OnMembers(MemberOp::Add(members.chain(more).chain(many).collect())),
                    Op::OnMembers(MemberOp::Members),
                )
            }
            5 => {
                let fields = [(b"uid".to_vec(), number), (b"ip".to_vec(), b"10.0.0.1".to_vec())].into_iter();
                let more = id.is_multiple_of(35).then_some((b"note".to_vec(), long));
                let many = large(id).map(|number| (format!("field {number}").into_bytes(), b"value".to_vec()));
                (
                    "sess",
                    Op::OnMembers(MemberOp::Put(fields.chain(more).chain(many).collect())),
                    Op::OnMembers(MemberOp::Fields),
                )
            }
            of => {
                let value = if id.is_multiple_of(100) { long } else { number };
                (if of == 0 { "page" } else { "user" }, Op::Set(value), Op::Get)
            }
        };
        Self { key: format!("{kind}:{id}").into_bytes(), write, read }
    }
}

/// Numbers that are in a collection besides, of which some have so many that they are folded into parts, and few that they are moved in
/// steps.
fn large(id: u64) -> std::ops::Range<u64> {
    match id {
        0..6 => 0..6000,
        _ if id % 60 < 6 => 0..300,
        _ => 0..0,
    }
}

fn send(wire: &mut Wire, args: &[Vec<u8>]) -> Result<(), WireError> {
    wire.send(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

fn fill(wire: &mut Wire, keys: u64) -> anyhow::Result<()> {
    for start in (0..keys).step_by(500) {
        let records: Vec<Record> = (start..(start + 500).min(keys)).map(Record::of).collect();
        records.iter().try_for_each(|record| send(wire, &record.write.args(&record.key)))?;
        for Record { key, .. } in records {
            let reply = wire.reply()?;
            ensure!(!reply.starts_with(b"-"), "{} is refused: {}", key.escape_ascii(), reply.escape_ascii());
        }
    }
    Ok(())
}
