//! `bundles` (sorentwo, 2015): structures of many fields, as strings and as hashes.
//!
//! Each structure is written and read back by one command and one round trip, in the way that its form allows. Memory is
//! read after every field has been looked for, so that no hash holds the old half of a table.

use std::time::Instant;

use anyhow::{Context, bail};
use keyfold_core::codec::{CodecRule, Stored};
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::memory::{BucketCost, Keyspace, Model, ValueShape};
use keyfold_report::number::count;
use keyfold_report::plot::{Bars, Origin, Plot};

use crate::bench::Bench;
use crate::options::Options;
use crate::outcome::{Outcome, Table};
use crate::study::{About, Study};
use crate::writer::Writer;
use keyfold_survey::random::Random;

const VALUE: &str = "hash-max-listpack-value";
/// The original's sizes.
const STRUCTURES: u64 = 1001;
const FIELDS: usize = 101;
const VALUE_HEX: usize = 200;
/// The default of servers, and the original's second setting.
const VALUE_LIMITS: [u64; 2] = [64, 1024];
/// Times each structure is read; the fastest counts, as what else the machine does only slows.
const PASSES: usize = 3;
/// The original's savings against strings, in percent: of memory, and of the time to read.
const ORIGINAL_MEMORY: f64 = 30.0;
const ORIGINAL_READ: f64 = 26.0;
/// All fields of a structure in one bucket, as `keyfold` places them.
const LAYOUT: &str =
    "[[namespace]]\nkeys = \"bundle:{id:int}:field:{field:int}\"\nbucket = { by = \"id\" }\nvalue_limit = 256\n";

pub(crate) struct Bundles;

/// A way to keep a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Strings,
    /// With this limit of a value's bytes.
    Hashes(u64),
    /// In keyfold's buckets, with the larger limit.
    By,
    /// The same, with hexadecimal text kept as bytes.
    Hex,
}

const FORMS: [Form; 5] =
    [Form::Strings, Form::Hashes(VALUE_LIMITS[0]), Form::Hashes(VALUE_LIMITS[1]), Form::By, Form::Hex];

/// One structure in one form.
struct Shaped {
    /// The hash; none where every field is a string.
    hash: Option<Vec<u8>>,
    /// Keys or fields, with values.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
}

struct Measured {
    form: Form,
    bytes: u64,
    predicted: u64,
    write_s: f64,
    read_s: f64,
    /// Microseconds that the server spent on one structure's read.
    read_server_us: f64,
}

impl Study for Bundles {
    fn about(&self) -> About {
        About {
            name: "bundles",
            by: "sorentwo",
            year: 2015,
            asks: "What do structures of many fields take, as strings and as hashes, and how fast are they read whole?",
            figure: "1,001 structures of 101 fields with 200 hex characters: about 30 % less memory as hashes with the \
                     value limit at 1024 than as strings, and reads 26 % faster.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let structures = options.sized(200, STRUCTURES, STRUCTURES);
        let mut outcome = Outcome::new(format!("{} structures of {FIELDS} fields", count(structures)));
        let mut measured = Vec::new();
        for form in FORMS {
            if can_have(bench, form, &mut outcome)? {
                measured.push(measure(bench, form, structures, options.seed)?);
            }
        }
        measured.iter().for_each(|one| outcome.hold(one.bytes, one.predicted));
        conclude(&measured, structures, &mut outcome);
        Ok(outcome)
    }
}

fn can_have(bench: &mut Bench<'_>, form: Form, outcome: &mut Outcome) -> anyhow::Result<bool> {
    let limit = match form {
        Form::Strings => return Ok(true),
        Form::Hashes(limit) => limit,
        Form::By | Form::Hex => VALUE_LIMITS[1],
    };
    bench.can_have((VALUE, VALUE_LIMITS[0]), limit, &form.name(), outcome)
}

impl Form {
    fn name(self) -> String {
        match self {
            Self::Strings => "strings".to_owned(),
            Self::Hashes(limit) => format!("hashes, limit {limit}"),
            Self::By => "keyfold, by id".to_owned(),
            Self::Hex => "keyfold, hex as bytes".to_owned(),
        }
    }

    fn layout(self) -> anyhow::Result<Layout> {
        let layout = Layout::parse_file(LAYOUT).context("the study's layout")?;
        if self != Self::Hex {
            return Ok(layout);
        }
        layout.written_by(NamespaceIndex(0), &CodecRule::named("hex"), None).context("no slot is free")
    }

    fn shape(self, layout: &Layout, structure: u64, values: &mut Random) -> anyhow::Result<Shaped> {
        let mut shaped = Shaped { hash: None, parts: Vec::with_capacity(FIELDS) };
        for field in 0..FIELDS {
            let value = values.hex(VALUE_HEX);
            let key = format!("bundle:{structure}:field:{field}").into_bytes();
            let part = match self {
                Self::Strings => (key, value),
                Self::Hashes(_) => {
                    shaped.hash = Some(format!("bundle:{structure}").into_bytes());
                    (format!("field:{field}").into_bytes(), value)
                }
                Self::By | Self::Hex => {
                    let place = layout.locate(&key).place().filter(|place| place.kind.is_bucket());
                    let place = place.context("the study's layout places every field")?;
                    let Stored::InPlace(stored) = layout.namespace(place.namespace).encode(&key, &value, None) else {
                        bail!("a value of {VALUE_HEX} characters does not fit its bucket");
                    };
                    shaped.hash = Some(place.physical.as_slice().to_vec());
                    (place.field.as_slice().to_vec(), stored)
                }
            };
            shaped.parts.push(part);
        }
        Ok(shaped)
    }
}

impl Shaped {
    fn write(&self, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        match &self.hash {
            Some(hash) => {
                let pairs: Vec<&[u8]> = self.parts.iter().flat_map(|(field, value)| [&**field, &**value]).collect();
                writer.on_key(b"HSET", hash, &pairs)?;
            }
            None => {
                let records: Vec<_> = self.parts.iter().map(|(key, value)| (key.clone(), &**value)).collect();
                writer.mset(&records)?;
            }
        }
        writer.flush()
    }

    fn read(&self, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        match &self.hash {
            Some(hash) => writer.read(b"HGETALL", hash, &[])?,
            None => {
                let keys: Vec<_> = self.parts.iter().map(|(key, _)| key.clone()).collect();
                writer.read_all(b"MGET", &keys)?;
            }
        }
        writer.flush()
    }

    /// Looks for each field, which moves a table of the hash on until no old half is left.
    fn settle(&self, writer: &mut Writer<'_>) -> anyhow::Result<()> {
        let Some(hash) = &self.hash else { return Ok(()) };
        self.parts.iter().try_for_each(|(field, _)| writer.read(b"HGET", hash, &[field]))
    }

    fn predict(&self, keyspace: &mut Keyspace<'_>, model: &Model, prefix_len: u64) {
        let mut bucket = BucketCost::default();
        for (name, value) in &self.parts {
            if self.hash.is_some() {
                bucket.add(model, ValueShape::of(name), ValueShape::of(value));
            } else {
                keyspace.add_string(prefix_len + name.len() as u64, ValueShape::of(value), false);
            }
        }
        if let Some(hash) = &self.hash {
            keyspace.add(model.settled_hash_bytes(prefix_len + hash.len() as u64, &bucket, false), false);
        }
    }
}

fn measure(bench: &mut Bench<'_>, form: Form, structures: u64, seed: u64) -> anyhow::Result<Measured> {
    let layout = form.layout()?;
    let mut values = Random::new(seed);
    let shaped = (0..structures).map(|structure| form.shape(&layout, structure, &mut values));
    let shaped = shaped.collect::<anyhow::Result<Vec<_>>>()?;
    let (model, prefix_len) = (bench.model()?, bench.prefix_len());
    let mut keyspace = Keyspace::new(&model);
    shaped.iter().for_each(|one| one.predict(&mut keyspace, &model, prefix_len));
    let start = bench.start()?;
    let what = format!("bundles: {}", form.name());
    let write_s = timed(bench, &format!("{what}, written"), &shaped, Shaped::write)?;
    let before_us = server_us(bench)?;
    let mut read_s = f64::MAX;
    for _ in 0..PASSES {
        read_s = read_s.min(timed(bench, &format!("{what}, read"), &shaped, Shaped::read)?);
    }
    let read_server_us = (server_us(bench)? - before_us) / (shaped.len() * PASSES) as f64;
    timed(bench, &what, &shaped, Shaped::settle)?;
    let weight = bench.since(&start)?;
    let predicted = weight.predicted(&keyspace);
    Ok(Measured { form, bytes: weight.bytes, predicted, write_s, read_s, read_server_us })
}

/// Microseconds that the server has spent on reads of whole structures.
fn server_us(bench: &Bench<'_>) -> anyhow::Result<f64> {
    let info = bench.connect()?.info("commandstats")?;
    Ok(["mget", "hgetall"].into_iter().filter_map(|name| info.spent_us(name)).sum())
}

/// Seconds that it takes to do this with each structure.
fn timed(
    bench: &mut Bench<'_>,
    what: &str,
    shaped: &[Shaped],
    act: fn(&Shaped, &mut Writer<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let mut writer = bench.writer(what, shaped.len() as u64)?;
    let started = Instant::now();
    shaped.iter().try_for_each(|one| act(one, &mut writer))?;
    writer.flush()?;
    Ok(started.elapsed().as_secs_f64())
}

fn conclude(measured: &[Measured], structures: u64, outcome: &mut Outcome) {
    for one in measured {
        outcome.compare_bytes(format!("memory as {}", one.form.name()), None, [one.bytes, one.predicted]);
    }
    let strings = &measured[0];
    for one in &measured[1..] {
        let original = |number| (one.form == Form::Hashes(VALUE_LIMITS[1])).then_some(number);
        let saved = |now: f64, before: f64| Some((1.0 - now / before) * 100.0);
        let name = one.form.name();
        let (measured, predicted) = (one.bytes as f64, one.predicted as f64);
        let numbers = [saved(measured, strings.bytes as f64), saved(predicted, strings.predicted as f64)];
        let numbers = [original(ORIGINAL_MEMORY), numbers[0], numbers[1]];
        outcome.compare(format!("memory less than strings as {name}"), "%", numbers);
        let numbers = [original(ORIGINAL_READ), saved(one.read_s, strings.read_s), None];
        outcome.compare(format!("read in less time than strings as {name}"), "%", numbers);
        let numbers = [None, saved(one.read_server_us, strings.read_server_us), None];
        outcome.compare(format!("the server's own time less to read {name}"), "%", numbers);
    }
    outcome.tables.extend(tables(measured, structures));
    outcome.plots.extend(plots(measured));
    outcome.verdict = verdict(measured);
    outcome.notes.push(
        "Seconds are of this machine, the client's work and whatever else ran on it included; the server's own time is \
         steadier."
            .to_owned(),
    );
    outcome.notes.push(
        "The original ran on Redis 2.8 or 3.0. Since then strings have become smaller (shorter headers since 3.2), and \
         a packed hash of 20 kB is rounded to the allocator's next class, here 24,576 bytes: so less is saved today."
            .to_owned(),
    );
    outcome.notes.push(
        "Under the default limit of 64 bytes a value of 200 characters makes every hash a hashtable, which takes more \
         than packed fields and is no faster to read. keyfold's buckets are written here as its proxy writes them, \
         without the proxy's own time; the field's number is kept as a number, so a bucket takes less than a hash with \
         names. A structure is one command and one round trip in every form: MSET and MGET, HSET and HGETALL."
            .to_owned(),
    );
}

fn tables(measured: &[Measured], structures: u64) -> [Table; 2] {
    let fields = (structures * FIELDS as u64) as f64;
    [
        Table::of(
            "memory",
            "Memory",
            measured,
            &[
                ("form", &|one| one.form.name().into()),
                ("measured_bytes", &|one| one.bytes.into()),
                ("predicted_bytes", &|one| one.predicted.into()),
                ("bytes_per_field", &|one| (one.bytes as f64 / fields, 1).into()),
            ],
        ),
        Table::of(
            "seconds",
            format!("Seconds to write all, and to read all back (the fastest of {PASSES} times)"),
            measured,
            &[
                ("form", &|one| one.form.name().into()),
                ("write_seconds", &|one| (one.write_s, 4).into()),
                ("read_seconds", &|one| (one.read_s, 4).into()),
                ("server_us_per_read", &|one| (one.read_server_us, 1).into()),
            ],
        ),
    ]
}

fn plots(measured: &[Measured]) -> [Plot; 2] {
    let bars = |name: &str, origin, color, value: fn(&Measured) -> f64| Bars {
        name: name.to_owned(),
        origin,
        color,
        values: measured.iter().map(|one| Some(value(one))).collect(),
    };
    let plot = |name, title: &str, y: &str, series| {
        let categories = measured.iter().map(|one| one.form.name()).collect();
        Plot::bars(name, title, "form of a structure", y, categories, series)
    };
    let memory = vec![
        bars("measured", Origin::Measured, 0, |one| one.bytes as f64),
        bars("model", Origin::Predicted, 0, |one| one.predicted as f64),
    ];
    let seconds = vec![
        bars("write", Origin::Measured, 1, |one| one.write_s),
        bars("read", Origin::Measured, 2, |one| one.read_s),
    ];
    [
        plot("memory", "Memory by form", "memory, bytes", memory),
        plot("seconds", "Time to write all structures, and to read them back", "seconds", seconds),
    ]
}

fn verdict(measured: &[Measured]) -> String {
    let strings = &measured[0];
    let find = |form| measured.iter().find(|one| one.form == form);
    let less = |now: f64, before: f64| {
        let percent = (1.0 - now / before) * 100.0;
        if percent >= 0.0 { format!("{percent:.0} % less") } else { format!("{:.0} % more", -percent) }
    };
    let Some(packed) = find(Form::Hashes(VALUE_LIMITS[1])) else {
        return "The server forbids CONFIG, so packed hashes of these values could not be measured.".to_owned();
    };
    let by = find(Form::By).map_or_else(String::new, |by| {
        format!(" keyfold's buckets take {} memory than strings", less(by.bytes as f64, strings.bytes as f64))
    });
    let hex = find(Form::Hex).map_or_else(String::new, |hex| {
        format!(", and {} with hexadecimal text kept as bytes", less(hex.bytes as f64, strings.bytes as f64))
    });
    format!(
        "Packed hashes take {} memory than strings (30 % less in the original). To read them whole takes {} time (26 % \
         less in the original), and {} of the server's own.{by}{hex}.",
        less(packed.bytes as f64, strings.bytes as f64),
        less(packed.read_s, strings.read_s),
        less(packed.read_server_us, strings.read_server_us)
    )
}
