//! Commands to the server under study, many at a time.

use std::collections::HashSet;

use anyhow::Context;
use xxhash_rust::xxh3::xxh3_64;

use keyfold_report::progress::Progress;
use keyfold_server::interrupt::{Interrupt, Interrupted};
use keyfold_server::{Commands, Server};

/// Commands sent before their replies are read.
const BATCH: usize = 500;

/// The lab's keys that may be there.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// By SET, each once.
    strings: u64,
    /// By what may come to one key several times: a hash of its name.
    others: HashSet<u64>,
}

impl Written {
    /// By whoever writes without a writer.
    pub(super) fn add(&mut self, keys: u64) {
        self.strings += keys;
    }

    /// The most keys that there can be.
    pub(super) fn keys(&self) -> u64 {
        self.strings + self.others.len() as u64
    }
}

/// A connection on which commands go in batches. A name of a key gets the lab's prefix here.
pub(crate) struct Writer<'b> {
    pub(super) server: Server,
    pub(super) prefix: &'b [u8],
    pub(super) written: &'b mut Written,
    pub(super) interrupt: &'b Interrupt,
    pub(super) progress: Progress,
    pub(super) requests: Commands,
}

impl Writer<'_> {
    /// A string, under a key of its own that was not written before.
    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.written.strings += 1;
        let key = [self.prefix, key].concat();
        self.send(&[b"SET", &key, value])
    }

    /// One field.
    pub(crate) fn hset(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> anyhow::Result<()> {
        self.on_key(b"HSET", key, &[field, value])
    }

    /// Any command that writes to one key, which is its first argument.
    pub(crate) fn on_key(&mut self, command: &[u8], key: &[u8], rest: &[&[u8]]) -> anyhow::Result<()> {
        let key = [self.prefix, key].concat();
        self.written.others.insert(xxh3_64(&key));
        self.send(&[&[command, &key], rest].concat())
    }

    /// Any command that only reads one key, which is its first argument.
    pub(crate) fn read(&mut self, command: &[u8], key: &[u8], rest: &[&[u8]]) -> anyhow::Result<()> {
        let key = [self.prefix, key].concat();
        self.send(&[&[command, &key], rest].concat())
    }

    /// Strings under keys of their own, by one MSET.
    pub(crate) fn mset(&mut self, records: &[(Vec<u8>, &[u8])]) -> anyhow::Result<()> {
        self.written.strings += records.len() as u64;
        let named: Vec<_> = records.iter().map(|(key, value)| ([self.prefix, key].concat(), *value)).collect();
        let pairs = named.iter().flat_map(|(key, value)| [key.as_slice(), value]);
        self.send(&std::iter::once(&b"MSET"[..]).chain(pairs).collect::<Vec<_>>())
    }

    /// Any command that only reads keys, which are its arguments.
    pub(crate) fn read_all(&mut self, command: &[u8], keys: &[Vec<u8>]) -> anyhow::Result<()> {
        let keys: Vec<_> = keys.iter().map(|key| [self.prefix, key].concat()).collect();
        self.send(&std::iter::once(command).chain(keys.iter().map(Vec::as_slice)).collect::<Vec<_>>())
    }

    fn send(&mut self, args: &[&[u8]]) -> anyhow::Result<()> {
        self.requests.push(args);
        if self.requests.len() == BATCH { self.flush() } else { Ok(()) }
    }

    /// Sends what is left and reads all replies. Returns once the server has carried out everything.
    pub(crate) fn flush(&mut self) -> anyhow::Result<()> {
        if self.requests.is_empty() {
            return Ok(());
        }
        if self.interrupt.wanted() {
            return Err(Interrupted.into());
        }
        self.server.query_all::<()>(&self.requests).context("the server refused a command of the study")?;
        self.progress.advance(self.requests.len());
        self.requests.clear();
        Ok(())
    }
}
