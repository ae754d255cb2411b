//! Sets and hashes written through a keyfold that stands before the server under study, and what the model expects of them.
//!
//! The server is weighed while no keyfold is there: its connections have buffers, of which the server frees what is idle by its own
//! clock. Scripts stay in the server, so they are there before as well as after; what their interpreter holds is brought to the same
//! state each time (`settle`).

use std::collections::BTreeMap;

use anyhow::Context;
use keyfold_core::collection::Collection;
use keyfold_core::collection::parts::Header;
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, Place};
use keyfold_core::memory::{BucketCost, Keyspace, Model, ValueShape};
use keyfold_core::record::{Content, PhysicalWrite};
use keyfold_server::layout::activate::activate;
use keyfold_server::layout::dictionaries;
use keyfold_server::{Commands, Server};

use crate::bench::{Bench, Start};
use crate::outcome::Outcome;
use crate::through::Through;
use crate::weight::Weight;

/// Commands sent before their replies are read.
const BATCH: usize = 500;
/// The layout, its copy, the change under way, the answers to it, and the dictionaries.
const OWN_KEYS: u64 = 5;

/// Redis keeps an array for the most arguments that any command of a script had, and of the last of these up to 32 that have up to 64
/// bytes (`script_lua.c`). This has more arguments than any script of keyfold's, and as long ones.
const MOST_ARGUMENTS: &[u8] = b"local names = {}
for i = 1, 1000 do names[i] = string.rep('-', 64) end
redis.call('EXISTS', unpack(names))
return 0";
/// Since 7.4 the memory of Redis's interpreter is in `used_memory` too. Each collection frees half of a stack that is too large.
const COLLECTION: &[u8] = b"for i = 1, 10 do collectgarbage() end return 0";

/// What the interpreter differs by even so, in blocks of 256.
pub(crate) const INTERPRETER_BYTES: u64 = 512;

/// A command's words.
pub(crate) type Words = Vec<Vec<u8>>;

/// A layout that is in force on the server under study.
pub(crate) struct Folding {
    layout: Layout,
    start: Start,
}

impl Bench<'_> {
    /// Whether a layout of the lab's may be in force on this server. Where it may not, `what` is left out.
    pub(crate) fn can_fold(&self, what: &str, outcome: &mut Outcome) -> bool {
        let can = self.prefix_len() == 0 && self.target().address.database == 0;
        if !can {
            outcome.left_out.push(format!("{what}: only database 0 of an empty server takes a layout of the lab's"));
        }
        can
    }
}

impl Folding {
    /// Puts a layout in force on the cleared server. What is `first` is written through keyfold and removed again before the server
    /// is weighed, so that it has run every script.
    pub(crate) fn begin(bench: &mut Bench<'_>, layout: &Layout, first: &[Words]) -> anyhow::Result<Self> {
        bench.clear()?;
        let in_force = put_in_force(bench, layout)?;
        serve(bench, &in_force, |bench, client| write(bench, client, first))?;
        bench.clear()?;
        let layout = put_in_force(bench, layout)?;
        settle(bench)?;
        let start = bench.start_from_here()?;
        Ok(Self { layout, start })
    }

    /// Has a keyfold serve while `work` lasts, which gets a connection to it.
    pub(crate) fn serve<T>(
        &self,
        bench: &mut Bench<'_>,
        work: impl FnOnce(&mut Bench<'_>, &mut Server) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        serve(bench, &self.layout, work)
    }

    /// Writes through keyfold.
    pub(crate) fn write(&self, bench: &mut Bench<'_>, commands: &[Words]) -> anyhow::Result<()> {
        self.serve(bench, |bench, client| write(bench, client, commands))
    }

    /// What was written takes, as measured and as the model says: these collections, which are all that there are.
    pub(crate) fn weigh<'c>(
        &self,
        bench: &mut Bench<'_>,
        model: &Model,
        collections: impl IntoIterator<Item = (&'c [u8], &'c Collection)>,
    ) -> anyhow::Result<(Weight, u64)> {
        settle(bench)?;
        let weight = bench.since(&self.start)?;
        let mut server = bench.connect()?;
        let mut expected = Expected { model, keyspace: Keyspace::new(model), buckets: BTreeMap::new() };
        for (key, collection) in collections {
            expected.add(&mut server, &self.layout, key, collection)?;
        }
        Ok((weight, weight.predicted(&expected.whole())))
    }

    /// Removes all of it, the layout too.
    pub(crate) fn end(self, bench: &mut Bench<'_>) -> anyhow::Result<()> {
        bench.clear()
    }
}

/// Has the server keep the same beside its keys each time, whatever scripts have run.
fn settle(bench: &Bench<'_>) -> anyhow::Result<()> {
    let mut server = bench.connect()?;
    // A collection is made before its own script has left the stack.
    [MOST_ARGUMENTS, COLLECTION, COLLECTION, COLLECTION]
        .iter()
        .try_for_each(|script| server.ask::<()>(&[b"EVAL", script, b"0"]))
}

fn put_in_force(bench: &mut Bench<'_>, layout: &Layout) -> anyhow::Result<Layout> {
    bench.wrote(OWN_KEYS);
    let mut server = bench.connect()?;
    dictionaries::write(&mut server, layout)?;
    activate(&mut server, None, layout)
}

fn serve<T>(
    bench: &mut Bench<'_>,
    layout: &Layout,
    work: impl FnOnce(&mut Bench<'_>, &mut Server) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let through = Through::start_without_sweep(bench.target(), layout)?;
    let mut client = Server::connect(through.target()).context("keyfold does not answer")?;
    let worked = work(bench, &mut client);
    drop(client);
    let stopped = through.stop();
    let worked = worked?;
    stopped.map(|()| worked)
}

fn write(bench: &mut Bench<'_>, client: &mut Server, commands: &[Words]) -> anyhow::Result<()> {
    // No more keys than members: the parts of a collection are fewer.
    bench.wrote(commands.iter().map(|words| words.len() as u64).sum());
    for some in commands.chunks(BATCH) {
        bench.go_on()?;
        client.query_all::<()>(&batch(some)).context("keyfold refused a command of the study")?;
    }
    Ok(())
}

/// Commands to be sent together.
pub(crate) fn batch(commands: &[Words]) -> Commands {
    let mut batch = Commands::default();
    commands.iter().for_each(|words| batch.push(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    batch
}

/// What the model says of the physical keys.
struct Expected<'m> {
    model: &'m Model,
    keyspace: Keyspace<'m>,
    buckets: BTreeMap<Vec<u8>, BucketCost>,
}

impl<'m> Expected<'m> {
    /// Counts one, cut into parts where keyfold cut it: that depends on a seed, which the key's field names.
    fn add(&mut self, server: &mut Server, layout: &Layout, key: &[u8], collection: &Collection) -> anyhow::Result<()> {
        let place = layout.locate(key).place().context("the study's layout places every key")?;
        let (packed, mut seed) = (collection.packed(), Ok(0));
        let drawn = || {
            seed = seed_of(server, &place);
            *seed.as_ref().unwrap_or(&0)
        };
        let writes = layout.physical_writes(self.model.sets_as(), Some(&place), key, &packed, None, drawn);
        for PhysicalWrite { key, content } in writes.iter() {
            match content {
                Content::String { value, .. } => {
                    self.keyspace.add_string(key.as_ref(), ValueShape::of(value), false);
                }
                Content::Field { name, stored } => {
                    let bucket = self.buckets.entry(key.to_vec()).or_default();
                    bucket.add(self.model, ValueShape::of(name), ValueShape::of(stored));
                }
                Content::Members(members) => self.keyspace.add_collection(key.as_ref(), members, false),
            }
        }
        drop(writes);
        seed.map(drop)
    }

    fn whole(mut self) -> Keyspace<'m> {
        for (name, bucket) in &self.buckets {
            self.keyspace.add_hash(name.as_slice(), bucket, false);
        }
        self.keyspace
    }
}

/// From what a large collection was cut by, as the server has it: as long as its nonce.
fn seed_of(server: &mut Server, place: &Place) -> anyhow::Result<u64> {
    let stored: Option<Vec<u8>> = server.ask(&[b"HGET", &place.physical, &place.field])?;
    let stored = stored.context("a collection that was written is not where the layout places it")?;
    match Frame::decode(&stored)?.body {
        Body::Parts { header, .. } => Ok(Header::decode(header).context("no header of a version known here")?.seed),
        Body::Spill { nonce, .. } => Ok(nonce),
        _ => anyhow::bail!("a large collection lies in its bucket"),
    }
}
