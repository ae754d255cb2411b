//! What a study works with: a cleared server, writers to it, readings of its memory, and the model of it.

use std::path::PathBuf;

use keyfold_core::memory::Model;
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::{Interrupt, Interrupted};
use keyfold_server::{Commands, Server, Target, memory};

use super::gauge::Gauge;
use super::ground::{Ground, Setting};
use super::kept::Kept;
use super::outcome::Outcome;
use super::weight::Weight;
use super::writer::{Writer, Written};

/// A server to study, with the instruments.
pub(crate) struct Bench<'l> {
    ground: &'l mut Ground,
    interrupt: &'l Interrupt,
    gauge: Gauge,
    written: Written,
    /// Limits that the server doesn't tell, as it was asked for them.
    guesses: Vec<String>,
}

impl<'l> Bench<'l> {
    /// Empties the ground, and has the server run every command once, as it allocates at each first call.
    pub(super) fn new(ground: &'l mut Ground, interrupt: &'l Interrupt) -> anyhow::Result<Self> {
        let gauge = Gauge::new(ground.target().clone());
        let mut bench = Self { ground, interrupt, gauge, written: Written::default(), guesses: Vec::new() };
        // A slow command is kept with its arguments, and would be weighed with the keys.
        bench.ground.change("slowlog-log-slower-than", "-1")?;
        bench.warm_up()?;
        Ok(bench)
    }

    fn warm_up(&mut self) -> anyhow::Result<()> {
        let mut writer = self.writer("", 0)?;
        writer.set(b"warm:string", b"1")?;
        writer.mset(&[(b"warm:string".to_vec(), b"1")])?;
        for (command, rest) in [("INCR", vec![]), ("INCRBY", vec![&b"1"[..]]), ("EXPIRE", vec![b"100"])] {
            writer.on_key(command.as_bytes(), b"warm:string", &rest)?;
        }
        for command in ["GET", "MGET", "TTL", "TYPE", "EXISTS"] {
            writer.read(command.as_bytes(), b"warm:string", &[])?;
        }
        writer.hset(b"warm:hash", b"f", b"1")?;
        writer.on_key(b"HINCRBY", b"warm:hash", &[b"f", b"1"])?;
        writer.on_key(b"HMSET", b"warm:hash", &[b"f", b"1"])?;
        for command in ["HGET", "HMGET", "HEXISTS"] {
            writer.read(command.as_bytes(), b"warm:hash", &[b"f"])?;
        }
        for command in ["HGETALL", "HLEN"] {
            writer.read(command.as_bytes(), b"warm:hash", &[])?;
        }
        writer.on_key(b"SADD", b"warm:set", &[b"m"])?;
        writer.read(b"SISMEMBER", b"warm:set", &[b"m"])?;
        for name in ["warm:hash", "warm:set"] {
            writer.read(b"DEL", name.as_bytes(), &[])?;
        }
        writer.flush()?;
        drop(writer);
        let key = self.key(b"warm:string");
        let mut server = self.connect()?;
        server.ask::<String>(&[b"OBJECT", b"ENCODING", &key])?;
        server.ask::<u64>(&[b"MEMORY", b"USAGE", &key])?;
        server.ask::<u64>(&[b"DEL", &key])?;
        drop(server);
        self.weigh()?;
        self.clear()?;
        self.clear()
    }

    /// The server's name and version.
    pub(crate) fn server_name(&self) -> anyhow::Result<String> {
        Ok(self.connect()?.version().to_string())
    }

    /// A connection for what a writer can't do. Weigh only when it is closed.
    pub(crate) fn connect(&self) -> anyhow::Result<Server> {
        self.ground.connect()
    }

    /// A name with the lab's prefix, for commands that no writer sends.
    pub(crate) fn key(&self, name: &[u8]) -> Vec<u8> {
        [self.ground.prefix(), name].concat()
    }

    /// How many bytes longer each name is by the prefix.
    pub(crate) fn prefix_len(&self) -> u64 {
        self.ground.prefix().len() as u64
    }

    /// Ends the study where the user wants it to. For loops that send nothing by a writer.
    pub(crate) fn go_on(&self) -> anyhow::Result<()> {
        if self.interrupt.wanted() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Removes the lab's keys.
    pub(crate) fn clear(&mut self) -> anyhow::Result<()> {
        self.ground.clear(self.written.keys())?;
        self.written = Written::default();
        Ok(())
    }

    /// Sees that the server has this setting, by the name it has since Redis 7.0. It is put back after the study.
    pub(crate) fn set(&mut self, name: &str, value: u64) -> anyhow::Result<Setting> {
        self.ground.change(name, &value.to_string())
    }

    /// The same for a setting that is a word.
    pub(crate) fn set_word(&mut self, name: &str, value: &str) -> anyhow::Result<Setting> {
        self.ground.change(name, value)
    }

    /// Sees that the server has this limit, and says whether it does. One that tells no settings is taken to have its
    /// default, which is noted; with any other limit, `what` is left out.
    pub(crate) fn can_have(
        &mut self,
        (name, default): (&str, u64),
        limit: u64,
        what: &str,
        outcome: &mut Outcome,
    ) -> anyhow::Result<bool> {
        if self.set(name, limit)? == Setting::Is {
            return Ok(true);
        }
        if limit == default {
            outcome.notes.push(format!("The server tells no settings; {name} is taken as {limit}, its default."));
        } else {
            outcome.left_out.push(format!("{what}: the server forbids CONFIG, so {name} can't be set"));
        }
        Ok(limit == default)
    }

    /// Whether others' keys are on the server.
    pub(crate) fn is_shared(&self) -> bool {
        self.ground.is_shared()
    }

    /// Where the server is keyfold's own, the program that it is, for more of them; none inside: the first on PATH.
    pub(crate) fn own_program(&self) -> Option<Option<PathBuf>> {
        self.ground.own_program()
    }

    /// Whether the user wants the lab to end, for what runs beside the bench.
    pub(crate) fn interrupt(&self) -> &'l Interrupt {
        self.interrupt
    }

    /// Where the server is, for what connects by itself.
    pub(crate) fn target(&self) -> &Target {
        self.ground.target()
    }

    /// Notes that so many keys may be there that no writer wrote.
    pub(crate) fn wrote(&mut self, keys: u64) {
        self.written.add(keys);
    }

    /// The lab's mark in the server, as the command that writes it. For a server that evicts: sent now and then, it
    /// keeps the mark in use, and brings it back where it was evicted.
    pub(crate) fn mark(&self) -> Commands {
        self.ground.mark()
    }

    /// Writes commands, and shows how far it is: `total` of them in all.
    pub(crate) fn writer(&mut self, what: &str, total: u64) -> anyhow::Result<Writer<'_>> {
        Ok(Writer {
            server: self.ground.connect()?,
            prefix: self.ground.prefix(),
            written: &mut self.written,
            interrupt: self.interrupt,
            progress: Progress::new(what, usize::try_from(total).unwrap_or(usize::MAX)),
            requests: Commands::default(),
        })
    }

    /// Shows how far a piece of work is.
    #[expect(clippy::unused_self, reason = "studies find all that they work with here")]
    pub(crate) fn progress(&self, what: &str, total: u64) -> Progress {
        Progress::new(what, usize::try_from(total).unwrap_or(usize::MAX))
    }

    /// `used_memory`, settled.
    pub(crate) fn weigh(&mut self) -> anyhow::Result<u64> {
        self.go_on()?;
        self.gauge.weigh()
    }

    /// `used_memory`, where no table of keys can have grown since the last [`Self::weigh`].
    pub(crate) fn weigh_quickly(&mut self) -> anyhow::Result<u64> {
        self.go_on()?;
        self.gauge.read_settled()
    }

    /// Removes the lab's keys and weighs the server without them; [`Self::since`] tells what came to it.
    pub(crate) fn start(&mut self) -> anyhow::Result<Start> {
        self.clear()?;
        self.start_from_here()
    }

    /// The same with what is there, where it is not to be weighed.
    pub(crate) fn start_from_here(&mut self) -> anyhow::Result<Start> {
        let used_bytes = self.weigh()?;
        let keys = self.connect()?.ask(&[b"DBSIZE"])?;
        Ok(Start { used_bytes, keys })
    }

    /// What came to the server since then.
    pub(crate) fn since(&mut self, start: &Start) -> anyhow::Result<Weight> {
        let used_bytes = self.weigh()?;
        Ok(start.weight(used_bytes))
    }

    /// The bytes of what `load` writes on the cleared server.
    pub(crate) fn measure(
        &mut self,
        what: &str,
        total: u64,
        load: impl FnOnce(&mut Writer<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Weight> {
        let start = self.start()?;
        let mut writer = self.writer(what, total)?;
        load(&mut writer)?;
        writer.flush()?;
        drop(writer);
        self.since(&start)
    }

    /// The same, where it takes so long that a study which was stopped shouldn't do it again.
    pub(crate) fn measure_once(
        &mut self,
        kept: &mut Kept,
        what: &str,
        total: u64,
        load: impl FnOnce(&mut Writer<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Weight> {
        if let Some(weight) = kept.find(what) {
            return Ok(weight);
        }
        let weight = self.measure(what, total, load)?;
        kept.add(what, weight)?;
        Ok(weight)
    }

    /// What an earlier run of this study, with this seed and these settings, has measured on a server like this one.
    pub(crate) fn kept(&self, study: &str, seed: u64, settings: &str) -> anyhow::Result<Kept> {
        let conditions = format!("{}, seed {seed}, {settings}, prefix of {}", self.server_name()?, self.prefix_len());
        Ok(Kept::open(self.ground.results().study(study), conditions))
    }

    /// How the server takes memory, by its settings of now.
    pub(crate) fn model(&mut self) -> anyhow::Result<Model> {
        let facts = memory::model(&mut self.connect()?, &[])?;
        self.guesses = facts.guesses;
        Ok(facts.model)
    }

    /// Whether so many bytes more fit the server: its limit, and the machine that it runs on.
    pub(crate) fn fits(&self, bytes: u64) -> anyhow::Result<bool> {
        let room = memory::room_bytes(&mut self.connect()?)?;
        Ok(room.is_none_or(|room| bytes < room))
    }

    /// What the server did not tell the model.
    pub(super) fn into_guesses(self) -> Vec<String> {
        self.guesses
    }
}

/// The server without the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    used_bytes: u64,
    keys: u64,
}

impl Start {
    /// `used_memory` then.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes
    }

    /// What came to it, where the server has this much now.
    pub(crate) fn weight(&self, used_bytes: u64) -> Weight {
        Weight { bytes: used_bytes.saturating_sub(self.used_bytes), before: self.keys }
    }
}
