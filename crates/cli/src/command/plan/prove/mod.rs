//! A plan held against a private server: keys like those that were seen, loaded plain and by the layout.
//!
//! Values are made up: as long as those of the server and of the same kind, which is all that bytes depend on. Only
//! sets and hashes, and values that a codec is to store, are read, each as it is written. Where the sample has not all keys, the prediction
//! is made anew for the keys that are loaded, with as many entries to a bucket.

mod load;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use keyfold_core::exchange::PARTS_SCRIPT;
use keyfold_core::layout::Layout;
use keyfold_core::memory::Keyspace;
use keyfold_report::number::{count, plural};
use keyfold_report::progress::Progress;
use keyfold_report::room::Room;
use keyfold_report::table::{Column, render};
use keyfold_server::layout::dictionaries;
use keyfold_server::{OwnServer, Server, listpack, memory};
use keyfold_survey::choose::{Aims, Prediction, Rule, predict};
use keyfold_survey::codec::Coding;
use keyfold_survey::plan::{self, Plan};
use keyfold_survey::population::Population;
use serde_json::{Value, json};

use super::gather::{Gathered, Survey};
use crate::config::plan::PlanConfig;
use crate::scan::Values;
use load::{Load, Loaded, Otherwise, PIPELINE};

/// How far bytes may be from what was predicted.
pub(super) const TOLERANCE_PERCENT: f64 = 5.0;

/// One number, predicted and measured.
#[derive(Clone, Copy, Debug)]
struct Pair {
    predicted: f64,
    measured: f64,
}

impl Pair {
    fn off_percent(self) -> f64 {
        (self.predicted / self.measured - 1.0) * 100.0
    }
}

/// What came of it.
pub(super) struct Proof {
    /// The server that it was measured on.
    pub(super) server: String,
    keys: usize,
    /// How many were wanted: where they are more, the sample has no more.
    wanted: usize,
    plain_bytes: Pair,
    folded_bytes: Pair,
    plain_us: Pair,
    folded_us: Pair,
    /// Keys that take otherwise where they are than they do here.
    otherwise: usize,
}

impl Proof {
    /// Whether bytes are as predicted. Times depend on the machine, and are shown only.
    pub(super) fn holds(&self) -> bool {
        [self.plain_bytes, self.folded_bytes].iter().all(|pair| pair.off_percent().abs() <= TOLERANCE_PERCENT)
    }

    /// How many times as long a read takes: of this nothing depends on how fast the machine is.
    fn read_ratio(&self) -> Pair {
        let ratio = |of: fn(Pair) -> f64| of(self.folded_us) / of(self.plain_us).max(f64::MIN_POSITIVE);
        Pair { predicted: ratio(|pair| pair.predicted), measured: ratio(|pair| pair.measured) }
    }

    pub(super) fn json(&self) -> Value {
        let pair = |pair: &Pair| json!({ "predicted": pair.predicted, "measured": pair.measured });
        json!({
            "server": self.server,
            "keys": self.keys,
            "keys_wanted": self.wanted,
            "keys_otherwise": self.otherwise,
            "plain_bytes": pair(&self.plain_bytes),
            "folded_bytes": pair(&self.folded_bytes),
            "plain_read_us": pair(&self.plain_us),
            "folded_read_us": pair(&self.folded_us),
            "read_ratio": pair(&self.read_ratio()),
            "holds": self.holds(),
        })
    }

    /// For people, within so much room.
    pub(super) fn text(&self, room: Room) -> String {
        let heads =
            [Column::name("proved"), Column::number("predicted"), Column::number("measured"), Column::number("off")];
        let keys = self.keys as f64;
        let number = |number: f64| format!("{number:.2}");
        let row = |name: &str, pair: Pair, off: String| {
            vec![name.to_owned(), number(pair.predicted), number(pair.measured), off]
        };
        let off = |pair: Pair| format!("{:+.1} %", pair.off_percent());
        let bytes = |name: &str, pair: Pair| {
            let each = Pair { predicted: pair.predicted / keys, measured: pair.measured / keys };
            row(name, each, off(each))
        };
        let ratio = self.read_ratio();
        let rows = [
            bytes("bytes a key, plain", self.plain_bytes),
            bytes("bytes a key, as planned", self.folded_bytes),
            // Those that are predicted were measured on another machine.
            row("µs a read, plain", self.plain_us, String::new()),
            row("µs a read, as planned", self.folded_us, String::new()),
            row("times as long a read", ratio, off(ratio)),
        ];
        let fewer = match self.keys < self.wanted {
            true => format!(", all that the sample of the families has ({} were wanted)", count(self.wanted as u64)),
            false => String::new(),
        };
        let otherwise = match self.otherwise {
            0 => String::new(),
            keys => format!(
                ".\n{} of them {} more or less where they are than written anew, as here: single fields expire, say, or they were \
                 larger once",
                count(keys as u64),
                if keys == 1 { "takes" } else { "take" }
            ),
        };
        format!(
            "{}\n\n{} loaded into {} twice{fewer}; µs depend on the machine, and the prediction is of another: compare how \
             many times as long a read takes{otherwise}",
            render(&heads, rows, room),
            plural(self.keys as u64, "key"),
            self.server
        )
    }
}

/// Proves the plan.
pub(super) fn prove(
    plan: &Plan,
    survey: &Survey,
    config: &PlanConfig,
    aims: &Aims,
    flavor: &str,
    values: &mut dyn Values,
) -> anyhow::Result<Proof> {
    let mut trial = Trial::new(plan, survey, config.prove_keys)?;
    values.expect(Load::new(&trial.keys, &trial.layout).real_keys())?;
    let program = config.flags.server.clone().or_else(|| program_like(flavor));
    let Measured { bytes: plain_bytes, us: plain_us, server, facts, otherwise } =
        measure(program.as_deref(), &trial, false, values)?;
    // What another server takes says nothing of how it is where it is.
    let is_alike =
        (facts.server, facts.limits, facts.model.allocator()) == (aims.server, aims.limits, aims.model.allocator());
    let otherwise = if is_alike { otherwise } else { Otherwise::default() };
    let aims = Aims { model: facts.model, server: facts.server, limits: facts.limits, ..aims.clone() };
    trial.predict(&aims);
    trial.plain_bytes += otherwise.more_bytes;
    let Measured { bytes: folded_bytes, us: folded_us, .. } = measure(program.as_deref(), &trial, true, values)?;
    let pair = |predicted: f64, measured: f64| Pair { predicted, measured };
    let server = if aims.by_slot { format!("{server} (out of a cluster)") } else { server };
    Ok(Proof {
        server,
        keys: trial.keys.len(),
        wanted: config.prove_keys,
        plain_bytes: pair(trial.plain_bytes, plain_bytes),
        folded_bytes: pair(trial.folded_bytes, folded_bytes),
        plain_us: pair(trial.plain_us, plain_us),
        folded_us: pair(trial.folded_us, folded_us),
        otherwise: otherwise.keys,
    })
}

/// One family of a trial: so many of its keys, and where they go.
struct Part<'s> {
    gathered: &'s Gathered,
    taken: usize,
    rule: Rule,
    coding: Option<&'s Coding>,
}

/// The keys that are loaded, and what is predicted of them.
struct Trial<'s> {
    keys: Vec<Loaded<'s>>,
    layout: Layout,
    families: Vec<Part<'s>>,
    plain_bytes: f64,
    folded_bytes: f64,
    plain_us: f64,
    folded_us: f64,
}

impl<'s> Trial<'s> {
    /// Takes at most `most` keys of the families that the plan places, in proportion.
    fn new(plan: &Plan, survey: &'s Survey, most: usize) -> anyhow::Result<Self> {
        let mut plan = Plan { stored: None, ..plan.clone() };
        plan.families.retain(|(_, part)| *part == plan::Part::Namespace);
        let all: usize =
            plan.families.iter().filter_map(|(family, _)| gathered(survey, family)).map(|one| one.sample.len()).sum();
        if all == 0 {
            bail!("there is nothing to prove: the plan places no keys");
        }
        let share = (most as f64 / all as f64).min(1.0);
        let (mut keys, mut families) = (Vec::new(), Vec::new());
        for (family, _) in &mut plan.families {
            let Some(gathered) = gathered(survey, family) else { continue };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
            let taken = (gathered.sample.len() as f64 * share).ceil() as usize;
            let of_all = taken as f64 / family.keys.max(1) as f64;
            family.choice.rule = family.choice.rule.for_share(&family.template, of_all.min(1.0));
            let collection = gathered.collection;
            keys.extend(gathered.sample[..taken].iter().map(|sampled| Loaded { sampled, collection }));
            let codec = family.choice.codec.as_ref();
            let coding = codec.and_then(|codec| gathered.codings.iter().find(|coding| coding.rule == codec.rule));
            families.push(Part { gathered, taken, rule: family.choice.rule.clone(), coding });
        }
        let layout = plan.layout().map_err(anyhow::Error::msg)?;
        let layout = with_codecs(layout, &families)?;
        Ok(Self { keys, layout, families, plain_bytes: 0.0, folded_bytes: 0.0, plain_us: 0.0, folded_us: 0.0 })
    }

    fn predict(&mut self, aims: &Aims) {
        let (mut now, mut after) = (Keyspace::new(&aims.model), Keyspace::new(&aims.model));
        for Part { gathered, taken, rule, coding } in &self.families {
            let sample = &gathered.sample[..*taken];
            let population = Population {
                keys: *taken as u64,
                sample,
                kept: 1.0,
                within: 1.0,
                slots_seen: 1.0,
                ..gathered.population()
            };
            let predicted: Prediction = predict(&population, rule, aims, *coding);
            predicted.now.add_to(&mut now);
            predicted.after.add_to(&mut after);
            let weight = *taken as f64 / self.keys.len() as f64;
            self.plain_us += predicted.read_us_now * weight;
            self.folded_us += predicted.read_us_after * weight;
        }
        (self.plain_bytes, self.folded_bytes) = (now.total_bytes() as f64, after.total_bytes() as f64);
    }
}

/// The layout with the codecs as they were trained.
fn with_codecs(mut layout: Layout, families: &[Part<'_>]) -> anyhow::Result<Layout> {
    for Part { gathered, coding, .. } in families {
        let found = layout.with_template(&gathered.template).zip(*coding);
        let Some((index, coding)) = found else { continue };
        let written = layout.written_by(index, &coding.rule, coding.dictionary.as_deref());
        layout = written.context("the namespace has no slot left for its codec")?;
    }
    Ok(layout)
}

fn gathered<'s>(survey: &'s Survey, family: &keyfold_survey::plan::Family) -> Option<&'s Gathered> {
    survey.families.iter().find(|gathered| gathered.template == family.template)
}

/// A server of the same name on PATH, where there is one.
fn program_like(flavor: &str) -> Option<PathBuf> {
    let name = format!("{}-server", flavor.to_lowercase());
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(&name)).find(|file| file.is_file())
}

/// What keys took that were loaded into a server.
struct Measured {
    bytes: f64,
    /// Microseconds a read.
    us: f64,
    server: String,
    facts: memory::ServerModel,
    otherwise: Otherwise,
}

/// Loads the keys into a fresh server, as they are or by the plan, and reads them: bytes, µs a read, and the server.
fn measure(
    program: Option<&Path>,
    trial: &Trial<'_>,
    as_planned: bool,
    values: &mut dyn Values,
) -> anyhow::Result<Measured> {
    let own = OwnServer::start(program, None).context("can't start a server to prove the plan on; see --server")?;
    let mut server = own.connect()?;
    let plain = Layout::default();
    let layout = if as_planned { &trial.layout } else { &plain };
    if as_planned {
        listpack::raise(&mut server, layout)?;
    }
    let facts = memory::model(&mut server, &[])?;
    let name = server.version().to_string();
    let what = if as_planned { "proving the plan" } else { "proving what is there" };
    server.ask::<Vec<u8>>(&[b"SCRIPT", b"LOAD", PARTS_SCRIPT.as_bytes()])?;
    // Every command allocates at its first call.
    let mut load = Load::new(&trial.keys, layout);
    let mut warm = Load::new(&trial.keys[..trial.keys.len().min(PIPELINE)], layout);
    warm.write(&mut server, &facts.model, values, &mut Progress::new(what, 0))?;
    warm.read(&mut server)?;
    server.ask::<()>(&[b"FLUSHALL", b"SYNC"])?;
    // What it keeps of commands' latencies goes, here and at the end: other keys are read by other commands.
    server.ask::<()>(&[b"CONFIG", b"RESETSTAT"])?;
    drop(server);
    let empty = used_memory(&own)?;
    let mut server = own.connect()?;
    if as_planned {
        dictionaries::write(&mut server, &trial.layout)?;
    }
    load.write(&mut server, &facts.model, values, &mut Progress::new(what, trial.keys.len()))?;
    // The first reading moves tables that have grown, the second is timed.
    load.read(&mut server)?;
    server.ask::<()>(&[b"CONFIG", b"RESETSTAT"])?;
    load.read(&mut server)?;
    let us = read_us(&mut server)? / trial.keys.len() as f64;
    server.ask::<()>(&[b"CONFIG", b"RESETSTAT"])?;
    drop(server);
    let bytes = used_memory(&own)? - empty;
    Ok(Measured { bytes, us, server: name, facts, otherwise: load.otherwise() })
}

/// Microseconds that the server spent on reads. What a script calls counts twice, half a microsecond for each.
fn read_us(server: &mut Server) -> anyhow::Result<f64> {
    let info = server.info("commandstats")?;
    Ok(["get", "hget", "sismember", "evalsha"].into_iter().filter_map(|name| info.spent_us(name)).sum())
}

/// The server's `used_memory`, once it no longer changes; asked over new connections, whose buffers are alike.
fn used_memory(own: &OwnServer) -> anyhow::Result<f64> {
    Ok(memory::settled(|| own.connect()?.used_memory())? as f64)
}
