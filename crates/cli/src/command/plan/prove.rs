//! A plan held against a private server: keys like those that were seen, loaded plain and by the layout.
//!
//! Values are made up: as long as those of the server and of the same kind, which is all that bytes depend on. Where
//! the sample has not all keys, the prediction is made anew for the keys that are loaded, with as many entries to a
//! bucket.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use keyfold_core::codec::Stored;
use keyfold_core::frame;
use keyfold_core::layout::{Layout, Place, PlaceKind, spill_name};
use keyfold_core::memory::{Keyspace, ValueShape};
use keyfold_survey::choose::{Aims, Prediction, predict};
use keyfold_survey::plan::{Part, Plan};
use keyfold_survey::population::{Population, SampledKey};
use redis::Pipeline;
use serde_json::{Value, json};

use super::gather::{Gathered, Survey};
use crate::config::plan::ProofConfig;
use crate::print::number::plural;
use crate::print::progress::Progress;
use crate::print::table::{Align, render};
use crate::server::version::Version;
use crate::server::{OwnServer, Server, listpack, memory};

/// How far bytes may be from what was predicted.
pub(super) const TOLERANCE_PERCENT: f64 = 5.0;
/// Commands sent at a time.
const PIPELINE: usize = 500;
/// When keys that expire do: long after the proof.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;
/// Neighbours in the sample are read far apart: a step that shares no factor with most numbers of keys.
const READ_STEP: usize = 7919;

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
    plain_bytes: Pair,
    folded_bytes: Pair,
    plain_us: Pair,
    folded_us: Pair,
}

impl Proof {
    /// Whether bytes are as predicted. Times depend on the machine, and are shown only.
    pub(super) fn holds(&self) -> bool {
        [self.plain_bytes, self.folded_bytes].iter().all(|pair| pair.off_percent().abs() <= TOLERANCE_PERCENT)
    }

    pub(super) fn json(&self) -> Value {
        let pair = |pair: &Pair| json!({ "predicted": pair.predicted, "measured": pair.measured });
        json!({
            "server": self.server,
            "keys": self.keys,
            "plain_bytes": pair(&self.plain_bytes),
            "folded_bytes": pair(&self.folded_bytes),
            "plain_read_us": pair(&self.plain_us),
            "folded_read_us": pair(&self.folded_us),
            "holds": self.holds(),
        })
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads =
            [("proved", Align::Left), ("predicted", Align::Right), ("measured", Align::Right), ("off", Align::Right)];
        let keys = self.keys as f64;
        let row = |name: &str, pair: Pair, each: f64| {
            let number = |number: f64| format!("{:.2}", number / each);
            vec![
                name.to_owned(),
                number(pair.predicted),
                number(pair.measured),
                format!("{:+.1} %", pair.off_percent()),
            ]
        };
        let rows = [
            row("bytes a key, plain", self.plain_bytes, keys),
            row("bytes a key, as planned", self.folded_bytes, keys),
            row("µs a read, plain", self.plain_us, 1.0),
            row("µs a read, as planned", self.folded_us, 1.0),
        ];
        writeln!(f, "{}\n", render(&heads, rows))?;
        write!(f, "{} loaded into {} twice; times depend on the machine", plural(self.keys as u64, "key"), self.server)
    }
}

/// Proves the plan.
pub(super) fn prove(
    plan: &Plan,
    survey: &Survey,
    config: &ProofConfig,
    aims: &Aims,
    like: &Version,
) -> anyhow::Result<Proof> {
    let mut trial = Trial::new(plan, survey, config.keys)?;
    let program = config.server.clone().or_else(|| program_like(like));
    let (plain_bytes, plain_us, server, facts) = measure(program.as_deref(), &trial.keys, None)?;
    let aims = Aims { model: facts.model, server: facts.server, limits: facts.limits, ..aims.clone() };
    trial.predict(&aims);
    let (folded_bytes, folded_us, ..) = measure(program.as_deref(), &trial.keys, Some(&trial.layout))?;
    let pair = |predicted: f64, measured: f64| Pair { predicted, measured };
    Ok(Proof {
        server,
        keys: trial.keys.len(),
        plain_bytes: pair(trial.plain_bytes, plain_bytes),
        folded_bytes: pair(trial.folded_bytes, folded_bytes),
        plain_us: pair(trial.plain_us, plain_us),
        folded_us: pair(trial.folded_us, folded_us),
    })
}

/// The keys that are loaded, and what is predicted of them.
struct Trial<'s> {
    keys: Vec<&'s SampledKey>,
    layout: Layout,
    /// For each family its keys, and its rule.
    families: Vec<(&'s Gathered, usize, keyfold_survey::choose::Rule)>,
    plain_bytes: f64,
    folded_bytes: f64,
    plain_us: f64,
    folded_us: f64,
}

impl<'s> Trial<'s> {
    /// Takes at most `most` keys of the families that the plan places, in proportion.
    fn new(plan: &Plan, survey: &'s Survey, most: usize) -> anyhow::Result<Self> {
        let mut plan = Plan { stored: None, ..plan.clone() };
        plan.families.retain(|(_, part)| *part == Part::Namespace);
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
            keys.extend(&gathered.sample[..taken]);
            families.push((gathered, taken, family.choice.rule.clone()));
        }
        let layout = plan.layout().map_err(anyhow::Error::msg)?;
        Ok(Self { keys, layout, families, plain_bytes: 0.0, folded_bytes: 0.0, plain_us: 0.0, folded_us: 0.0 })
    }

    fn predict(&mut self, aims: &Aims) {
        let (mut now, mut after) = (Keyspace::new(&aims.model), Keyspace::new(&aims.model));
        for (gathered, taken, rule) in &self.families {
            let sample = &gathered.sample[..*taken];
            let population =
                Population { keys: *taken as u64, sample, kept: 1.0, within: 1.0, ..gathered.population() };
            let predicted: Prediction = predict(&population, rule, aims);
            predicted.now.add_to(&mut now);
            predicted.after.add_to(&mut after);
            let weight = *taken as f64 / self.keys.len() as f64;
            self.plain_us += predicted.read_us_now * weight;
            self.folded_us += predicted.read_us_after * weight;
        }
        (self.plain_bytes, self.folded_bytes) = (now.total_bytes() as f64, after.total_bytes() as f64);
    }
}

fn gathered<'s>(survey: &'s Survey, family: &keyfold_survey::plan::Family) -> Option<&'s Gathered> {
    survey.families.iter().find(|gathered| gathered.template == family.template)
}

/// A server of the same name on PATH, where there is one.
fn program_like(version: &Version) -> Option<PathBuf> {
    let name = format!("{}-server", version.flavor.to_lowercase());
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(&name)).find(|file| file.is_file())
}

/// Loads the keys into a fresh server and reads them: bytes, µs a read, and the server.
fn measure(
    program: Option<&Path>,
    keys: &[&SampledKey],
    layout: Option<&Layout>,
) -> anyhow::Result<(f64, f64, String, memory::ServerModel)> {
    let own = OwnServer::start(program, None).context("can't start a server to prove the plan on; see --server")?;
    let mut server = own.connect()?;
    if let Some(layout) = layout {
        listpack::raise(&mut server, layout)?;
    }
    let facts = memory::model(&mut server, &[])?;
    let name = server.version().to_string();
    let what = if layout.is_some() { "proving the plan" } else { "proving what is there" };
    // Every command allocates at its first call.
    let warm = &keys[..keys.len().min(PIPELINE)];
    write(&mut server, warm, layout, &mut Progress::new(what, 0))?;
    read(&mut server, warm, layout)?;
    server.ask::<()>(redis::cmd("CONFIG").arg("RESETSTAT"))?;
    server.ask::<()>(redis::cmd("FLUSHALL").arg("SYNC"))?;
    drop(server);
    let empty = used_memory(&own)?;
    let mut server = own.connect()?;
    write(&mut server, keys, layout, &mut Progress::new(what, keys.len()))?;
    // The first reading moves tables that have grown, the second is timed.
    read(&mut server, keys, layout)?;
    server.ask::<()>(redis::cmd("CONFIG").arg("RESETSTAT"))?;
    read(&mut server, keys, layout)?;
    let us = read_us(&mut server)? / keys.len() as f64;
    drop(server);
    Ok((used_memory(&own)? - empty, us, name, facts))
}

/// Where a key lies.
enum Lies {
    Alone(Vec<u8>),
    InBucket(Place),
}

fn locate(key: &[u8], layout: Option<&Layout>) -> Lies {
    match layout.and_then(|layout| layout.locate(key).place()) {
        Some(place) if place.kind == PlaceKind::Bucket => Lies::InBucket(place),
        Some(place) => Lies::Alone(place.physical.to_vec()),
        None => Lies::Alone(key.to_vec()),
    }
}

/// Any value of this shape.
fn value(shape: ValueShape) -> Vec<u8> {
    match shape {
        ValueShape::Integer(number) => number.to_string().into_bytes(),
        ValueShape::Bytes(len) => vec![b'x'; usize::try_from(len).unwrap_or(0)],
    }
}

fn write(
    server: &mut Server,
    keys: &[&SampledKey],
    layout: Option<&Layout>,
    progress: &mut Progress,
) -> anyhow::Result<()> {
    let mut nonce = 1 << 63;
    for chunk in keys.chunks(PIPELINE) {
        let mut pipeline = redis::pipe();
        for SampledKey { key, value: shape, has_expiry } in chunk {
            let expires_at_ms = has_expiry.then_some(EXPIRES_AT_MS);
            let value = value(*shape);
            match (locate(key, layout), layout) {
                (Lies::InBucket(place), Some(layout)) => {
                    nonce += 1;
                    write_field(&mut pipeline, layout, &place, key, &value, expires_at_ms, nonce);
                }
                (Lies::Alone(name), _) => set(&mut pipeline, &name, &value, expires_at_ms),
                (Lies::InBucket(_), None) => {}
            }
        }
        pipeline.query::<()>(server.raw()).context("can't load keys to prove the plan with")?;
        progress.advance(chunk.len());
    }
    Ok(())
}

fn set(pipeline: &mut Pipeline, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
    let command = pipeline.cmd("SET").arg(key).arg(value);
    if let Some(at) = expires_at_ms {
        command.arg("PXAT").arg(at);
    }
    command.ignore();
}

fn write_field(
    pipeline: &mut Pipeline,
    layout: &Layout,
    place: &Place,
    key: &[u8],
    value: &[u8],
    expires_at_ms: Option<i64>,
    nonce: u64,
) {
    let stored = match layout.namespace(place.namespace).encode(key, value, expires_at_ms) {
        Stored::InPlace(stored) => stored,
        Stored::Spilled { content, slot } => {
            set(pipeline, &spill_name(place.id, nonce, key), &content, None);
            let mut pointer = Vec::new();
            frame::encode_spill(nonce, slot, expires_at_ms, &mut pointer);
            pointer
        }
    };
    pipeline.cmd("HSET").arg(place.physical.as_slice()).arg(place.field.as_slice()).arg(stored).ignore();
}

/// Reads every key once, neighbours far apart.
fn read(server: &mut Server, keys: &[&SampledKey], layout: Option<&Layout>) -> anyhow::Result<()> {
    let step = if keys.len().is_multiple_of(READ_STEP) { 1 } else { READ_STEP };
    let order: Vec<usize> = (0..keys.len()).map(|i| i * step % keys.len()).collect();
    for chunk in order.chunks(PIPELINE) {
        let mut pipeline = redis::pipe();
        for index in chunk {
            match locate(&keys[*index].key, layout) {
                Lies::Alone(name) => pipeline.cmd("GET").arg(name).ignore(),
                Lies::InBucket(place) => {
                    pipeline.cmd("HGET").arg(place.physical.as_slice()).arg(place.field.as_slice()).ignore()
                }
            };
        }
        pipeline.query::<()>(server.raw()).context("can't read what the plan was proved with")?;
    }
    Ok(())
}

/// Microseconds that the server spent on reads.
fn read_us(server: &mut Server) -> anyhow::Result<f64> {
    let info: String = server.ask(redis::cmd("INFO").arg("commandstats"))?;
    let usec = |line: &str| {
        let (name, fields) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let usec = fields.split(',').find_map(|field| field.strip_prefix("usec="))?;
        ["get", "hget"].contains(&name).then(|| usec.parse::<f64>().ok())?
    };
    Ok(info.lines().filter_map(usec).sum())
}

/// The server's `used_memory`, once it no longer changes; asked over new connections, whose buffers are alike.
fn used_memory(own: &OwnServer) -> anyhow::Result<f64> {
    Ok(memory::settled(|| own.connect()?.used_memory())? as f64)
}
