//! Files that may be packed, by gzip, zstd or xz: what they hold, as it comes.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use zstd_safe::{DCtx, InBuffer, OutBuffer, get_error_name};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const BUFFER_BYTES: usize = 256 << 10;

/// Reads what was packed, or what is there where it wasn't. `first` are its first bytes, at least six where it has as many,
/// and `rest` what comes behind them.
pub(crate) fn unpacked(first: Vec<u8>, rest: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let starts_with = |magic: &[u8]| first.starts_with(magic);
    let [gzip, zstd, xz] = [GZIP, ZSTD, XZ].map(starts_with);
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(first).chain(rest));
    Ok(if gzip {
        Box::new(MultiGzDecoder::new(whole))
    } else if zstd {
        Box::new(Unpacked::new(whole)?)
    } else if xz {
        Box::new(XzReader::new(whole, true))
    } else {
        Box::new(whole)
    })
}

/// Reads what zstd packed.
struct Unpacked<R> {
    packed: R,
    context: DCtx<'static>,
    /// Whether a frame has begun and has not ended.
    is_within: bool,
}

impl<R: BufRead> Unpacked<R> {
    fn new(packed: R) -> io::Result<Self> {
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read(packed: &[u8]) -> io::Result<Vec<u8>> {
        let (first, rest) = packed.split_at(packed.len().min(16));
        let mut bytes = Vec::new();
        unpacked(first.to_vec(), Cursor::new(rest.to_vec()))?.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn what_is_packed_and_what_is_not_read_the_same() {
        let text = b"user:1\nuser:2\n".repeat(20_000);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&text).unwrap();
        let mut zstd = Vec::with_capacity(text.len());
        zstd_safe::compress(&mut zstd, &text, 3).unwrap();
        for packed in [text.clone(), gzip.finish().unwrap(), zstd] {
            assert!(read(&packed).unwrap() == text);
        }
        assert_eq!(read(b"").unwrap(), b"");
        assert_eq!(read(b"k").unwrap(), b"k");
    }

    /// `printf 'user:1\nuser:2\n' | xz`
    const PACKED_BY_XZ: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x0, 0x0, 0x4, 0xe6, 0xd6, 0xb4, 0x46, 0x2, 0x0, 0x21, 0x1, 0x16, 0x0, 0x0, 0x0,
        0x74, 0x2f, 0xe5, 0xa3, 0x1, 0x0, 0xd, 0x75, 0x73, 0x65, 0x72, 0x3a, 0x31, 0xa, 0x75, 0x73, 0x65, 0x72, 0x3a,
        0x32, 0xa, 0x0, 0x0, 0x0, 0xab, 0xe4, 0x74, 0xfd, 0x23, 0x5f, 0xc6, 0x91, 0x0, 0x1, 0x26, 0xe, 0x8, 0x1b, 0xe0,
        0x4, 0x1f, 0xb6, 0xf3, 0x7d, 0x1, 0x0, 0x0, 0x0, 0x0, 0x4, 0x59, 0x5a,
    ];

    #[test]
    fn what_xz_packed_is_read_and_what_is_cut_off_is_an_error() {
        assert_eq!(read(PACKED_BY_XZ).unwrap(), b"user:1\nuser:2\n");
        assert_eq!(read(&[PACKED_BY_XZ, PACKED_BY_XZ].concat()).unwrap(), b"user:1\nuser:2\n".repeat(2));
        assert!(read(&PACKED_BY_XZ[..40]).is_err());
    }
}
