//! Bytes of a dump, counted and summed up.

use std::io::{self, Read};

use crc::{CRC_64_REDIS, Crc, Digest, Table};

use crate::error::DumpError;

static CRC: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_REDIS);

/// So much of a long string is kept; of the rest only its length is known.
pub const KEPT_BYTES: usize = 64 << 10;

const BUFFER_BYTES: usize = 1 << 18;

/// A reader that knows how far it is, and the checksum of all up to there.
pub(crate) struct Input<R> {
    reader: R,
    buffer: Box<[u8]>,
    /// What of the buffer has been taken, and what is there.
    taken: usize,
    filled: usize,
    /// What of the taken has been summed up.
    summed: usize,
    /// Bytes of buffers before this one.
    before: u64,
    /// So much of a text is kept.
    pub(crate) kept: usize,
    digest: Digest<'static, u64, Table<16>>,
}

impl<'b> Input<&'b [u8]> {
    /// Of one value, each of whose texts is kept whole.
    pub(crate) fn of_value(bytes: &'b [u8]) -> Self {
        Self::with_buffer(bytes, bytes.len().clamp(1, BUFFER_BYTES), usize::MAX)
    }
}

impl<R: Read> Input<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self::with_buffer(reader, BUFFER_BYTES, KEPT_BYTES)
    }

    fn with_buffer(reader: R, bytes: usize, kept: usize) -> Self {
        let buffer = vec![0; bytes].into_boxed_slice();
        Self { reader, buffer, taken: 0, filled: 0, summed: 0, before: 0, kept, digest: CRC.digest() }
    }

    /// How many bytes have been taken.
    pub(crate) fn at(&self) -> u64 {
        self.before + self.taken as u64
    }

    pub(crate) fn damaged(&self, what: &'static str) -> DumpError {
        DumpError::Damaged { at: self.at(), what }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DumpError> {
        if self.taken == self.filled {
            self.fill()?;
        }
        let byte = self.buffer[self.taken];
        self.taken += 1;
        Ok(byte)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DumpError> {
        let mut bytes = [0; N];
        self.exact(&mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn exact(&mut self, into: &mut [u8]) -> Result<(), DumpError> {
        let mut done = 0;
        while done < into.len() {
            let there = self.some(into.len() - done)?;
            into[done..done + there.len()].copy_from_slice(there);
            done += there.len();
        }
        Ok(())
    }

    /// The next so many bytes. What a file says of a length is believed piece by piece, as it comes.
    pub(crate) fn bytes(&mut self, len: u64) -> Result<Vec<u8>, DumpError> {
        let mut bytes = Vec::new();
        let mut left = len;
        while left > 0 {
            let there = self.some(usize::try_from(left).unwrap_or(usize::MAX))?;
            bytes.extend_from_slice(there);
            left -= there.len() as u64;
        }
        Ok(bytes)
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<(), DumpError> {
        let mut left = len;
        while left > 0 {
            left -= self.some(usize::try_from(left).unwrap_or(usize::MAX))?.len() as u64;
        }
        Ok(())
    }

    /// The checksum of all that has been taken.
    pub(crate) fn checksum(&mut self) -> u64 {
        self.sum_up();
        self.digest.clone().finalize()
    }

    /// Some bytes, at least one and at most so many.
    fn some(&mut self, most: usize) -> Result<&[u8], DumpError> {
        if self.taken == self.filled {
            self.fill()?;
        }
        let from = self.taken;
        self.taken = self.filled.min(from.saturating_add(most));
        Ok(&self.buffer[from..self.taken])
    }

    fn fill(&mut self) -> Result<(), DumpError> {
        self.sum_up();
        self.before += self.taken as u64;
        (self.taken, self.filled, self.summed) = (0, 0, 0);
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return Err(DumpError::CutOff(self.before)),
                Ok(count) => {
                    self.filled = count;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn sum_up(&mut self) {
        self.digest.update(&self.buffer[self.summed..self.taken]);
        self.summed = self.taken;
    }
}
