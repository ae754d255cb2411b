//! One data set, plain and folded, each on an empty server of its own.

use std::time::Instant;

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_server::layout::activate::activate;
use keyfold_server::{OwnServer, Server, listpack, memory};
use std::path::Path;

use crate::data_sets::records::{DataSet, Record};
use crate::load::{PIPELINE, read_back, write};
use crate::through::Through;

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
        let through = Through::start(own.target(), layout)?;
        let mut client = Server::connect(through.target()).context("keyfold does not answer")?;
        let written = Instant::now();
        write(&mut client, &set.name, records, "folded")?;
        read_back(&mut client, &set.name, records, written)?;
        drop(client);
        through.stop()
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

/// The server's `used_memory`, once it no longer changes.
fn used_memory(gauge: &mut Server) -> anyhow::Result<i64> {
    Ok(memory::settled(|| gauge.used_memory())?.try_into()?)
}
