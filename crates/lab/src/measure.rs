//! One data set, plain and folded, each on an empty server of its own.

use std::time::Instant;

use anyhow::{Context, bail};
use keyfold_core::layout::Layout;
use keyfold_proxy::address::{ListenAddress, Route, ServerAddress};
use keyfold_proxy::config::ServerTls;
use keyfold_proxy::{Config, Handle};
use keyfold_report::progress::Progress;
use keyfold_server::layout::activate::activate;
use keyfold_server::{Commands, OwnServer, Server, Target, listpack, memory};
use std::path::Path;

use crate::data_sets::records::{DataSet, Record};

/// Commands sent at a time.
const PIPELINE: usize = 500;

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The data set's.
    pub name: String,
    /// How many there are.
    pub records: usize,
    /// Bytes over all records.
    pub plain_bytes: i64,
    /// The same, folded.
    pub folded_bytes: i64,
    /// Settings of the server that folds, raised for the layout.
    pub raised: Vec<String>,
    /// The server's name and version.
    pub server: String,
}

impl Measured {
    /// Bytes a record.
    pub fn plain_each(&self) -> f64 {
        self.plain_bytes as f64 / self.records as f64
    }

    /// The same, folded.
    pub fn folded_each(&self) -> f64 {
        self.folded_bytes as f64 / self.records as f64
    }

    /// How many times smaller.
    pub fn ratio(&self) -> f64 {
        self.plain_bytes as f64 / self.folded_bytes as f64
    }
}

/// Measures one set, and reads every record of it back through keyfold.
pub fn measure(set: &DataSet, layout: &Layout, program: Option<&Path>) -> anyhow::Result<Measured> {
    let (server, plain_bytes) = measure_plain(set, program)?;
    let (raised, folded_bytes) = measure_folded(set, layout, program)?;
    let (name, records) = (set.name.clone(), set.records.len());
    Ok(Measured { name, records, plain_bytes, folded_bytes, raised, server })
}

fn measure_plain(set: &DataSet, program: Option<&Path>) -> anyhow::Result<(String, i64)> {
    let own = OwnServer::start(program, None)?;
    let mut gauge = own.connect()?;
    let pass = |records: &[Record]| {
        let (mut client, written) = (own.connect()?, Instant::now());
        write(&mut client, &set.name, records, "plain")?;
        read_back(&mut client, &set.name, records, written)
    };
    pass(first(set))?;
    let empty = emptied(&mut gauge)?;
    pass(&set.records)?;
    let bytes = used_memory(&mut gauge)? - empty;
    Ok((gauge.version().to_string(), bytes))
}

fn measure_folded(set: &DataSet, layout: &Layout, program: Option<&Path>) -> anyhow::Result<(Vec<String>, i64)> {
    let own = OwnServer::start(program, None)?;
    let mut gauge = own.connect()?;
    let raised = listpack::raise(&mut gauge, layout)?;
    let pass = |records: &[Record], layout: &Layout| {
        let (proxy, through) = start_proxy(own.target(), layout)?;
        let mut client = Server::connect(&through).context("keyfold does not answer")?;
        let written = Instant::now();
        write(&mut client, &set.name, records, "folded")?;
        read_back(&mut client, &set.name, records, written)?;
        drop(client);
        proxy.stop();
        Ok::<_, anyhow::Error>(proxy.join()?)
    };
    let in_force = activate(&mut gauge, None, layout)?;
    pass(first(set), &in_force)?;
    let empty = emptied(&mut gauge)?;
    let in_force = activate(&mut gauge, None, layout)?;
    pass(&set.records, &in_force)?;
    Ok((raised, used_memory(&mut gauge)? - empty))
}

/// Records to warm a server up with: it keeps statistics of each command, some 20 KB, from its first call on.
fn first(set: &DataSet) -> &[Record] {
    &set.records[..set.records.len().min(PIPELINE)]
}

/// The `used_memory` of the server with no keys.
fn emptied(gauge: &mut Server) -> anyhow::Result<i64> {
    gauge.ask::<()>(&[b"FLUSHALL", b"SYNC"])?;
    used_memory(gauge)
}

/// A proxy in this process, and the way to it.
pub fn start_proxy(server: &Target, layout: &Layout) -> anyhow::Result<(Handle, Target)> {
    let Route::Unix(beside) = &server.address.route else { bail!("keyfold's own server is not on a unix socket") };
    let socket = beside.with_file_name("keyfold.sock");
    let mut config = Config::new(server.address.clone(), layout.clone());
    config.listen.push(ListenAddress::Unix(socket.clone()));
    let handle = keyfold_proxy::start(config)?;
    let address = ServerAddress { route: Route::Unix(socket), user: None, password: None, database: 0 };
    Ok((handle, Target { address, tls: ServerTls::default() }))
}

/// Writes all records, and shows how far it is.
pub fn write(client: &mut Server, name: &str, records: &[Record], what: &str) -> anyhow::Result<()> {
    let mut progress = Progress::new(format!("{name}: writing {what}"), records.len());
    for chunk in records.chunks(PIPELINE) {
        let mut commands = Commands::default();
        for Record { key, value, expires_in_ms } in chunk {
            match expires_in_ms {
                Some(ms) => commands.push(&[b"SET", key, value, b"PX", ms.to_string().as_bytes()]),
                None => commands.push(&[b"SET", key, value]),
            }
        }
        client.query_all::<()>(&commands).with_context(|| format!("can't write {what} records of {name}"))?;
        progress.advance(chunk.len());
    }
    Ok(())
}

/// Reads every value and every expiry, and compares.
///
/// It has a second use: each look into a table that grows moves it on by a step, so that after as many looks
/// as there are records no table is kept twice, and `used_memory` is what it stays.
pub fn read_back(client: &mut Server, name: &str, records: &[Record], written: Instant) -> anyhow::Result<()> {
    let mut progress = Progress::new(format!("{name}: reading back"), records.len());
    for chunk in records.chunks(PIPELINE) {
        let mut commands = Commands::default();
        chunk.iter().for_each(|record| commands.push(&[b"GET", &record.key]));
        let values: Vec<Option<Vec<u8>>> = client.query_all(&commands).context("can't read values back")?;
        let differs = |(record, value): &(&Record, &Option<Vec<u8>>)| value.as_ref() != Some(&record.value);
        if let Some((record, value)) = chunk.iter().zip(&values).find(differs) {
            bail!("\"{}\" came back as {value:?}", record.key.escape_ascii());
        }
        check_expiries(client, chunk, written)?;
        progress.advance(chunk.len());
    }
    Ok(())
}

fn check_expiries(client: &mut Server, chunk: &[Record], written: Instant) -> anyhow::Result<()> {
    if chunk.iter().all(|record| record.expires_in_ms.is_none()) {
        return Ok(());
    }
    let mut commands = Commands::default();
    chunk.iter().for_each(|record| commands.push(&[b"PTTL", &record.key]));
    let left: Vec<i64> = client.query_all(&commands).context("can't read expiries back")?;
    let passed = u64::try_from(written.elapsed().as_millis())?;
    for (record, left) in chunk.iter().zip(left) {
        let right = match record.expires_in_ms {
            None => left == -1,
            // A second for the clocks of the server and of this process.
            Some(ms) => u64::try_from(left).is_ok_and(|left| left <= ms + 1000 && left + passed + 1000 >= ms),
        };
        if !right {
            bail!("the expiry of \"{}\" came back as {left} ms", record.key.escape_ascii());
        }
    }
    Ok(())
}

/// The server's `used_memory`, once it no longer changes.
fn used_memory(gauge: &mut Server) -> anyhow::Result<i64> {
    Ok(memory::settled(|| gauge.used_memory())?.try_into()?)
}
