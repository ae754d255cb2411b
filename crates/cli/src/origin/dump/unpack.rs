//! What zstd packed, as it comes.

use std::io::{self, BufRead, Read};

use zstd_safe::{DCtx, InBuffer, OutBuffer, get_error_name};

/// Reads what was packed.
pub(super) struct Unpacked<R> {
    packed: R,
    context: DCtx<'static>,
    /// Whether a frame has begun and has not ended.
    is_within: bool,
}

impl<R: BufRead> Unpacked<R> {
    pub(super) fn new(packed: R) -> io::Result<Self> {
        let mut context = DCtx::create();
        context.init().map_err(failed)?;
        Ok(Self { packed, context, is_within: false })
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let packed = self.packed.fill_buf()?;
            let is_over = packed.is_empty();
            let (mut from, mut to) = (InBuffer::around(packed), OutBuffer::around(into));
            let hint = if is_over && !self.is_within {
                0
            } else {
                self.context.decompress_stream(&mut to, &mut from).map_err(failed)?
            };
            let (taken, count) = (from.pos(), to.pos());
            self.packed.consume(taken);
            self.is_within = hint > 0;
            // One that ends within a frame is cut off, which whoever reads the dump notices.
            if count > 0 || is_over || into.is_empty() {
                return Ok(count);
            }
        }
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("it can't be unpacked: {}", get_error_name(code)))
}
