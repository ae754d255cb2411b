//! Values of families, read to see what codecs make of them.

use std::time::Instant;

use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_survey::codec::{self, Coding, Record};
use keyfold_survey::population::{Population, SampledKey};

use crate::scan::{Values, Wanted};

/// How much is read, in bytes of values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Of one family.
    pub(crate) family_bytes: u64,
    /// Of all families together.
    pub(crate) all_bytes: u64,
}

/// Reads values of one family after the other, and keeps none of them.
pub(crate) struct Weighing<'i> {
    /// None where nothing is to be read, or nothing more can be.
    values: Option<Box<dyn Values>>,
    family_bytes: u64,
    left_bytes: u64,
    progress: Progress,
    interrupt: &'i Interrupt,
    /// What is to be known of it.
    pub(crate) notes: Vec<String>,
}

impl<'i> Weighing<'i> {
    /// For so many families, read by `values`; without them no codec is weighed.
    pub(crate) fn new(
        values: Option<Box<dyn Values>>,
        bounds: Bounds,
        families: usize,
        interrupt: &'i Interrupt,
    ) -> Self {
        let Bounds { family_bytes, all_bytes } = bounds;
        let progress = Progress::new("weighing codecs", families);
        Self { values, family_bytes, left_bytes: all_bytes, progress, interrupt, notes: Vec::new() }
    }

    /// How many commands were sent.
    pub(crate) fn commands(&self) -> u64 {
        self.values.as_ref().map_or(0, |values| values.commands())
    }

    /// Says of which keys values will be asked for, by the even samples of the families in their order.
    pub(crate) fn expect<'s>(&mut self, families: impl Iterator<Item = &'s [SampledKey]>) {
        let Some(values) = &mut self.values else { return };
        let (mut left_bytes, mut keys) = (self.left_bytes, Vec::new());
        for even in families {
            let wanted = codec::wanted(even, self.family_bytes.min(left_bytes));
            left_bytes = left_bytes.saturating_sub(wanted.iter().map(|sampled| sampled.value.len()).sum());
            keys.extend(wanted.into_iter().map(Wanted::of));
        }
        if let Err(error) = values.expect(keys) {
            self.lost(&error);
        }
    }

    fn lost(&mut self, error: &anyhow::Error) {
        self.notes.push(format!("values can't be read, and codecs are not weighed any further: {error:#}"));
        self.values = None;
    }

    /// What codecs make of a family's values, by those of some of the keys of an even sample; nothing where none makes
    /// them shorter, or there is nothing to read.
    pub(crate) fn codings(&mut self, population: &Population<'_>, even: &[SampledKey]) -> Vec<Coding> {
        self.progress.advance(1);
        if self.interrupt.wanted() && self.values.take().is_some() {
            self.notes.push("stopped early: of some families no codec was weighed".to_owned());
        }
        let Some(values) = &mut self.values else { return Vec::new() };
        let wanted = codec::wanted(even, self.family_bytes.min(self.left_bytes));
        let keys: Vec<Wanted<'_>> = wanted.into_iter().map(Wanted::of).collect();
        self.left_bytes = self.left_bytes.saturating_sub(keys.iter().map(|wanted| wanted.len).sum());
        let read = match values.read(&keys, population.collection) {
            Ok(read) => read,
            Err(error) => {
                self.lost(&error);
                return Vec::new();
            }
        };
        let record = |(wanted, value): (&Wanted<'_>, Option<Vec<u8>>)| {
            // What has grown since is as long as it was when bytes were bounded, or left out.
            let value = value.filter(|value| value.len() as u64 <= codec::LONGEST_BYTES)?;
            Some(Record { key: wanted.key.into(), value: value.into() })
        };
        let records: Vec<Record> = keys.iter().zip(read).filter_map(record).collect();
        codec::weigh(population.template, population.collection, &records, population.keys, &mut stopwatch)
    }
}

/// What the survey times codecs with.
pub(crate) fn stopwatch(work: &mut dyn FnMut()) -> f64 {
    let started = Instant::now();
    work();
    started.elapsed().as_secs_f64() * 1e6
}
