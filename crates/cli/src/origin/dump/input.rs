//! The bytes of a dump: a file or standard input, unpacked where that is compressed. What is no dump is named by what it
//! looks like, with what to do.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use keyfold_rdb::{Dump, DumpError};

use crate::origin::place::DumpPlace;
use crate::packed::unpacked;

/// Enough to tell what it is.
const LOOKED_AT_BYTES: u64 = 16;

/// A dump that is being read, from whatever it comes.
pub(super) type AnyDump = Dump<Box<dyn Read + Send>>;

/// A dump whose head was read.
pub(super) struct Opened {
    pub(super) dump: AnyDump,
    /// How many bytes of the file have been read, compressed as they are.
    pub(super) read_bytes: Arc<AtomicU64>,
    /// How many the file has; 0 of standard input.
    pub(super) file_bytes: u64,
}

/// Opens it, and reads its head.
pub(super) fn open(place: &DumpPlace) -> anyhow::Result<Opened> {
    let read_bytes = Arc::new(AtomicU64::new(0));
    let (raw, file_bytes): (Box<dyn Read + Send>, u64) = match place {
        DumpPlace::File(path) => {
            let file = File::open(path).with_context(|| format!("can't read {place}"))?;
            let bytes = file.metadata().map_or(0, |file| file.len());
            (Box::new(file), bytes)
        }
        DumpPlace::Stdin => (Box::new(io::stdin()), 0),
    };
    let mut counted = Counted { reader: raw, read_bytes: Arc::clone(&read_bytes) };
    let mut first = Vec::new();
    counted.by_ref().take(LOOKED_AT_BYTES).read_to_end(&mut first).with_context(|| format!("can't read {place}"))?;
    let what = first.clone();
    let reader = unpacked(first, counted).with_context(|| format!("can't read {place}"))?;
    match Dump::open(reader) {
        Ok(dump) => Ok(Opened { dump, read_bytes, file_bytes }),
        Err(DumpError::NoDump) => bail!("{place}: {}", no_dump(&what)),
        Err(error) => Err(anyhow::Error::new(error).context(format!("can't read {place}"))),
    }
}

/// What a file is that is no dump, and what to do instead.
fn no_dump(first: &[u8]) -> String {
    match first {
        [b'f', b'i', b'l', b'e', b' ', ..] => {
            "this is the manifest of an append-only file: name the file ….base.rdb that it lists, which is a dump".to_owned()
        }
        [b'*', b'0'..=b'9', ..] => {
            "this is an append-only file of commands, not a dump: let its server write one by BGSAVE, or by \
             `redis-cli --rdb dump.rdb`"
                .to_owned()
        }
        [b'{', ..] => {
            "this is no dump of a server's; of records as `keyfold export` writes them, `keyfold import` fills a server, \
             which can be looked at"
                .to_owned()
        }
        [] => "there is nothing in it".to_owned(),
        _ => format!("{}; what else is a server's name is written as redis://NAME", DumpError::NoDump),
    }
}

/// A reader that says how much was read.
struct Counted<R> {
    reader: R,
    read_bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// What opening such a file says.
    fn opened(bytes: &[u8]) -> Result<u32, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let opened = open(&DumpPlace::File(file.path().to_owned()));
        opened.map(|opened| opened.dump.head().format).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn packed_or_not() {
        let dump = b"REDIS0010\xff\0\0\0\0\0\0\0\0";
        assert_eq!(opened(dump), Ok(10));
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(dump).unwrap();
        assert_eq!(opened(&gzip.finish().unwrap()), Ok(10));
        let mut zstd = Vec::with_capacity(100);
        zstd_safe::compress(&mut zstd, dump, 3).unwrap();
        assert_eq!(opened(&zstd), Ok(10));
    }

    #[test]
    fn what_is_no_dump_is_named() {
        for (bytes, said) in [
            (&b"file appendonly.aof.1.base.rdb seq 1 type b\n"[..], "manifest"),
            (b"*2\r\n$6\r\nSELECT\r\n", "append-only file of commands"),
            (b"{\"key\":\"a\"}\n", "keyfold import"),
            (b"", "nothing in it"),
            (b"#!/bin/sh\n", "no dump of Redis or Valkey"),
            (b"REDIS", "no dump of Redis or Valkey"),
        ] {
            let error = opened(bytes).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        assert!(opened(b"REDIS0010\xfa").unwrap_err().contains("cut off"));
    }
}
