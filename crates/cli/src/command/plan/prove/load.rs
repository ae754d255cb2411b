//! Writes keys into a private server, plain or where a layout places them, and reads them.

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_core::memory::ValueShape;
use keyfold_core::record::physical_read;
use keyfold_report::progress::Progress;
use keyfold_server::{Commands, Server};
use keyfold_survey::population::SampledKey;

use crate::scan::Values;

/// Commands sent at a time.
pub(super) const PIPELINE: usize = 500;
/// When keys that expire do: long after the proof.
const EXPIRES_AT_MS: i64 = 2_000_000_000_000;
/// Neighbours in the sample are read far apart: a step that shares no factor with most numbers of keys.
const READ_STEP: usize = 7919;

/// Keys to load, and the layout that places them.
pub(super) struct Load<'k> {
    pub(super) keys: &'k [&'k SampledKey],
    pub(super) layout: &'k Layout,
}

/// Any value of this shape.
fn made_up(shape: ValueShape) -> Vec<u8> {
    match shape {
        ValueShape::Integer(number) => number.to_string().into_bytes(),
        ValueShape::Bytes(len) => vec![b'x'; usize::try_from(len).unwrap_or(0)],
    }
}

impl Load<'_> {
    /// Whether what is stored depends on more than the value's length.
    fn is_coded(&self, sampled: &SampledKey) -> bool {
        let place = self.layout.locate(&sampled.key).place();
        let is_coded = place.is_some_and(|place| self.layout.namespace(place.namespace).codecs.written().is_some());
        is_coded && matches!(sampled.value, ValueShape::Bytes(_))
    }

    /// The keys whose real values are loaded.
    pub(super) fn coded_keys(&self) -> Vec<&[u8]> {
        self.keys.iter().filter(|sampled| self.is_coded(sampled)).map(|sampled| sampled.key.as_ref()).collect()
    }

    /// The values: real ones where a codec stores them, and made-up ones where only their length matters, or where
    /// the key is gone.
    fn values(&self, chunk: &[&SampledKey], real: &mut dyn Values) -> anyhow::Result<Vec<Vec<u8>>> {
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
    pub(super) fn write(
        &self,
        server: &mut Server,
        real: &mut dyn Values,
        progress: &mut Progress,
    ) -> anyhow::Result<()> {
        let mut nonce = 1 << 63;
        for chunk in self.keys.chunks(PIPELINE) {
            let values = self.values(chunk, real)?;
            let mut commands = Commands::default();
            for (SampledKey { key, has_expiry, .. }, value) in chunk.iter().zip(&values) {
                let expires_at_ms = has_expiry.then_some(EXPIRES_AT_MS);
                let place = self.layout.locate(key).place();
                let writes = self.layout.physical_writes(place.as_ref(), key, value, expires_at_ms, || {
                    nonce += 1;
                    nonce
                });
                writes.iter().for_each(|write| write.command(|args| commands.push(args)));
            }
            server.query_all::<()>(&commands).context("can't load keys to prove the plan with")?;
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
            let mut commands = Commands::default();
            for index in chunk {
                let key = &keys[*index].key;
                let place = self.layout.locate(key).place();
                commands.push(&physical_read(place.as_ref(), key));
            }
            server.query_all::<()>(&commands).context("can't read what the plan was proved with")?;
        }
        Ok(())
    }
}
