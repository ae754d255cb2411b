//! `latency` (nahwinrajan, 2020): does the number of keys change how long a read takes?
//!
//! The same records as strings, as hashes of 1,000 fields, and folded, under reads at a constant rate: the original's 100 a
//! second at first, then more and more until no more are answered. The memory of each form is held against the model.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `form.rs` | the forms, and how each is written and read |
//! | `load.rs` | reads at a constant rate |
//! | `show.rs` | what came of it |

mod form;
mod load;
mod show;

use std::time::Duration;

use keyfold_core::admin::{ANSWERS_KEY, CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use keyfold_core::memory::{Allocator, Limits};
use keyfold_report::number::plural;
use keyfold_server::Target;
use keyfold_server::layout::activate::activate;

use crate::bench::Bench;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::study::{About, Study};
use crate::through::Through;
use form::{Form, Shape};
use load::{Latencies, Load};

const ENTRIES: &str = "hash-max-listpack-entries";
/// With room for the original's 1,000 fields.
const RAISED: u64 = 1024;
/// The original's number of keys.
const RECORDS: u64 = 1_000_000;
const QUICK_RECORDS: u64 = 20_000;
/// The other number of keys.
const FEWER: u64 = 1000;
/// The original's rate, in reads a second.
const ORIGINAL_RATE: u32 = 100;
/// Rates from there on; the first that isn't reached is the last.
const RATES: [u32; 9] = [1000, 8000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000];
const QUICK_RATES: [u32; 4] = [4000, 32_000, 128_000, 512_000];

pub(crate) struct Latency;

/// One form's memory.
struct Weighed {
    form: Form,
    records: u64,
    bytes: u64,
    predicted: u64,
    /// What the model says of a server with the allocator that it comes with.
    bundled: u64,
}

/// One form at all rates.
struct Timed {
    form: Form,
    rates: Vec<Latencies>,
}

impl Study for Latency {
    fn about(&self) -> About {
        About {
            name: "latency",
            by: "nahwinrajan",
            year: 2020,
            asks: "Does the number of keys change how long a read takes?",
            figure: "1,000,000 keys: 62.09 MB as strings and 54.58 MB as 1,000 hashes of 1,000 fields, and no difference \
                     with its “configured value”; at 100 requests a second.",
        }
    }

    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome> {
        let records = options.sized(QUICK_RECORDS, RECORDS, RECORDS);
        let mut outcome =
            Outcome::new(format!("{} of seven digits, {} connections", plural(records, "integer"), load::CLIENTS));
        let default = Limits::default().hash_entries;
        let forms = [Form::Strings, Form::Fewer(FEWER), Form::Hashes(default), Form::Hashes(RAISED), Form::Folded];
        let mut work = Work { bench, options, weighed: Vec::new(), timed: Vec::new() };
        for form in forms {
            work.form(&Shape::new(form, records)?, &mut outcome)?;
        }
        let Work { weighed, timed, .. } = work;
        weighed.iter().for_each(|one| outcome.hold(one.bytes, one.predicted));
        show::conclude(&weighed, &timed, &mut outcome);
        Ok(outcome)
    }
}

/// The study under way.
struct Work<'b, 'l> {
    bench: &'b mut Bench<'l>,
    options: &'b Options,
    weighed: Vec<Weighed>,
    timed: Vec<Timed>,
}

impl Work<'_, '_> {
    fn form(&mut self, shape: &Shape, outcome: &mut Outcome) -> anyhow::Result<()> {
        let default = Limits::default().hash_entries;
        if let Form::Hashes(limit) = shape.form {
            if !self.bench.can_have((ENTRIES, default), limit, &shape.form.name(), outcome)? {
                return Ok(());
            }
        } else {
            self.bench.set(ENTRIES, default)?;
        }
        self.weigh(shape)?;
        let (target, prefix) = (self.bench.target().clone(), self.bench.key(b""));
        self.time(shape, &target, &prefix)?;
        if shape.form == Form::Folded {
            self.through(shape.records, outcome)?;
        }
        Ok(())
    }

    /// Leaves the records on the server.
    fn weigh(&mut self, shape: &Shape) -> anyhow::Result<()> {
        let (form, records, seed) = (shape.form, shape.records, self.options.seed);
        let model = self.bench.model()?;
        let keyspace = shape.expect(&model, self.bench.prefix_len(), seed)?;
        let usual = model.clone().with_allocator(Allocator::BUNDLED);
        let bundled = shape.expect(&usual, self.bench.prefix_len(), seed)?.total_bytes();
        let what = format!("latency: {}", form.name());
        let weight = self.bench.measure(&what, records * 2, |writer| {
            shape.write(writer, seed)?;
            shape.settle(writer)
        })?;
        let predicted = weight.predicted(&keyspace);
        self.weighed.push(Weighed { form, records, bytes: weight.bytes, predicted, bundled });
        Ok(())
    }

    /// Reads at each rate until one isn't reached.
    fn time(&mut self, shape: &Shape, target: &Target, prefix: &[u8]) -> anyhow::Result<()> {
        let quick = self.options.is_quick();
        let (first, each) = if quick { (1200, 700) } else { (10_000, 3000) };
        let rates: &[u32] = if quick { &QUICK_RATES } else { &RATES };
        let loads = std::iter::once((ORIGINAL_RATE, first)).chain(rates.iter().map(|rate| (*rate, each)));
        let mut progress = self.bench.progress(&format!("latency: {}", shape.form.name()), rates.len() as u64 + 1);
        let mut timed = Timed { form: shape.form, rates: Vec::new() };
        for (rate, ms) in loads {
            let load = Load { rate, duration: Duration::from_millis(ms), seed: self.options.seed };
            let latencies = load.run(target, shape, prefix, self.bench.interrupt())?;
            let saturated = latencies.is_saturated();
            timed.rates.push(latencies);
            progress.advance(1);
            if saturated {
                break;
            }
        }
        self.timed.push(timed);
        Ok(())
    }

    /// Reads the folded records, which are there, through keyfold.
    fn through(&mut self, records: u64, outcome: &mut Outcome) -> anyhow::Result<()> {
        let shape = Shape::new(Form::Through, records)?;
        if !self.bench.can_fold(&shape.form.name(), outcome) {
            return Ok(());
        }
        // The layout, its copy, and the change under way.
        self.bench.wrote(3);
        let layout = activate(&mut self.bench.connect()?, None, shape.layout())?;
        let through = Through::start(self.bench.target(), &layout)?;
        let timed = self.time(&shape, &through.target().clone(), b"");
        let stopped = through.stop();
        self.bench.connect()?.ask::<u64>(&[b"DEL", LAYOUT_KEY, COPY_KEY, ANSWERS_KEY, CHANGE_KEY])?;
        timed.and(stopped)
    }
}
