//! Records to measure with: made up from their number, so that nothing has to be kept to compare, and real
//! ones from files.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context;
use flate2::read::GzDecoder;
use keyfold_testkit::random::Random;

/// A key and what it holds.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    /// Seconds until it expires.
    pub(crate) ttl_s: Option<u64>,
}

/// `set-allBooksBelongToUser:1000000` and on, each a number of 31 bits.
pub(crate) fn books(number: u64) -> Record {
    let value = Random::nth(number) >> 33;
    Record {
        key: format!("set-allBooksBelongToUser:{}", 1_000_000 + number).into_bytes(),
        value: value.to_string().into_bytes(),
        ttl_s: None,
    }
}

/// The same, each expiring between one and two days from now.
pub(crate) fn books_with_ttl(number: u64) -> Record {
    Record { ttl_s: Some(86_400 + Random::nth(!number) % 86_400), ..books(number) }
}

/// `sess:` and a uuid of version 4, each 24 letters.
pub(crate) fn sessions(number: u64) -> Record {
    let (high, low) = (Random::nth(number * 4 + 1), Random::nth(number * 4 + 2));
    let high = high & !0xf000 | 0x4000;
    let low = low & (u64::MAX >> 2) | 1 << 63;
    let key = format!(
        "sess:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    );
    let letter = |at: u64| b'a' + u8::try_from(Random::nth(number * 4 + 3 + (at << 32)) % 26).unwrap_or(0);
    Record { key: key.into_bytes(), value: (0..24).map(letter).collect(), ttl_s: None }
}

/// Reads a file of records: gzip, one `["key","value"]` a line.
pub(crate) fn read_file(path: &Path) -> anyhow::Result<Vec<Record>> {
    let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let read = |line: std::io::Result<String>| {
        let (key, value): (String, String) = serde_json::from_str(&line?)?;
        Ok(Record { key: key.into_bytes(), value: value.into_bytes(), ttl_s: None })
    };
    lines.map(read).collect::<anyhow::Result<_>>().with_context(|| format!("reading {}", path.display()))
}
