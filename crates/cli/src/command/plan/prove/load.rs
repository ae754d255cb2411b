//! Writes keys into a private server, plain or where a layout places them, and reads them.

use anyhow::Context;
use keyfold_core::codec::Stored;
use keyfold_core::frame;
use keyfold_core::layout::{Layout, Place, PlaceKind, spill_name};
use keyfold_core::memory::ValueShape;
use keyfold_survey::population::SampledKey;
use redis::Pipeline;

use crate::print::progress::Progress;
use crate::scan::Values;
use crate::server::Server;

/// Commands sent at a time.
pub(super) const PIPELINE: usize = 500;
/// When keys that expire do: long after the proof.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;
/// Neighbours in the sample are read far apart: a step that shares no factor with most numbers of keys.
const READ_STEP: usize = 7919;

/// Keys to load, and where they go: as they are, or where a layout places them.
pub(super) struct Load<'k> {
    pub(super) keys: &'k [&'k SampledKey],
    pub(super) layout: Option<&'k Layout>,
}

/// Where a key lies.
enum Lies {
    Alone(Vec<u8>),
    /// By itself, as a frame.
    Framed(Place),
    InBucket(Place),
}

/// Any value of this shape.
fn made_up(shape: ValueShape) -> Vec<u8> {
    match shape {
        ValueShape::Integer(number) => number.to_string().into_bytes(),
        ValueShape::Bytes(len) => vec![b'x'; usize::try_from(len).unwrap_or(0)],
    }
}

impl Load<'_> {
    fn locate(&self, key: &[u8]) -> Lies {
        match self.layout.and_then(|layout| layout.locate(key).place()) {
            Some(place) if place.kind == PlaceKind::Bucket => Lies::InBucket(place),
            Some(place) if place.kind == PlaceKind::Framed => Lies::Framed(place),
            Some(place) => Lies::Alone(place.physical.to_vec()),
            None => Lies::Alone(key.to_vec()),
        }
    }

    /// Whether what is stored depends on more than the value's length.
    fn is_coded(&self, sampled: &SampledKey) -> bool {
        let place = self.layout.and_then(|layout| Some((layout, layout.locate(&sampled.key).place()?)));
        let coded = place.is_some_and(|(layout, place)| layout.namespace(place.namespace).codecs.written().is_some());
        coded && matches!(sampled.value, ValueShape::Bytes(_))
    }

    /// The values: real ones where a codec stores them, and made-up ones where only their length matters, or where
    /// the key is gone.
    fn values(&self, chunk: &[&SampledKey], real: &mut Values) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut values: Vec<_> = chunk.iter().map(|sampled| made_up(sampled.value)).collect();
        let coded: Vec<usize> = (0..chunk.len()).filter(|index| self.is_coded(chunk[*index])).collect();
        let keys: Vec<(&[u8], u64)> =
            coded.iter().map(|index| (chunk[*index].key.as_ref(), chunk[*index].value.len())).collect();
        if keys.is_empty() {
            return Ok(values);
        }
        for (index, value) in coded.into_iter().zip(real.read(&keys)?) {
            if let Some(value) = value {
                values[index] = value;
            }
        }
        Ok(values)
    }

    /// Writes them all; `real` reads values of the server that the plan is for.
    pub(super) fn write(&self, server: &mut Server, real: &mut Values, progress: &mut Progress) -> anyhow::Result<()> {
        let mut nonce = 1 << 63;
        for chunk in self.keys.chunks(PIPELINE) {
            let values = self.values(chunk, real)?;
            let mut pipeline = redis::pipe();
            for (SampledKey { key, has_expiry, .. }, value) in chunk.iter().zip(&values) {
                let expires_at_ms = has_expiry.then_some(EXPIRES_AT_MS);
                match (self.locate(key), self.layout) {
                    (Lies::InBucket(place), Some(layout)) => {
                        nonce += 1;
                        write_field(&mut pipeline, layout, &place, key, value, expires_at_ms, nonce);
                    }
                    (Lies::Framed(place), Some(layout)) => {
                        let stored = layout.namespace(place.namespace).encode_own(key, value);
                        set(&mut pipeline, &place.physical, &stored, expires_at_ms);
                    }
                    (Lies::Alone(name), _) => set(&mut pipeline, &name, value, expires_at_ms),
                    (Lies::InBucket(_) | Lies::Framed(_), None) => {}
                }
            }
            server.query_all::<()>(&pipeline).context("can't load keys to prove the plan with")?;
            progress.advance(chunk.len());
        }
        Ok(())
    }

    /// Reads every key once, neighbours far apart.
    pub(super) fn read(&self, server: &mut Server) -> anyhow::Result<()> {
        let keys = self.keys;
        let step = if keys.len().is_multiple_of(READ_STEP) { 1 } else { READ_STEP };
        let order: Vec<usize> = (0..keys.len()).map(|i| i * step % keys.len()).collect();
        for chunk in order.chunks(PIPELINE) {
            let mut pipeline = redis::pipe();
            for index in chunk {
                match self.locate(&keys[*index].key) {
                    Lies::Alone(name) => pipeline.cmd("GET").arg(name).ignore(),
                    Lies::Framed(place) => pipeline.cmd("GET").arg(place.physical.as_slice()).ignore(),
                    Lies::InBucket(place) => {
                        pipeline.cmd("HGET").arg(place.physical.as_slice()).arg(place.field.as_slice()).ignore()
                    }
                };
            }
            server.query_all::<()>(&pipeline).context("can't read what the plan was proved with")?;
        }
        Ok(())
    }
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
            set(pipeline, &spill_name(place.stem, nonce, key), &content, None);
            let mut pointer = Vec::new();
            frame::encode_spill(nonce, slot, expires_at_ms, &mut pointer);
            pointer
        }
    };
    pipeline.cmd("HSET").arg(place.physical.as_slice()).arg(place.field.as_slice()).arg(stored).ignore();
}
