//! Dumps: any bytes come to an end or are refused, whatever the pieces in which they come; what a beginning of them holds is
//! the beginning of what they hold; and what is kept is bounded by how much there was.
#![no_main]

use std::io::{self, Read};

use keyfold_rdb::{Dump, Record, Value};
use libfuzzer_sys::fuzz_target;

/// A compressed string of three bytes may come to so many, and a number of one byte be written in twenty.
const MOST_TIMES_AS_MANY: usize = 264;

fuzz_target!(|data: &[u8]| {
    for head in [&b"REDIS0011"[..], b"VALKEY080"] {
        let whole = [head, data].concat();
        let all = read(whole.as_slice());
        assert_eq!(all, read(OneByOne(&whole)), "in pieces");
        let cut = head.len() + data.first().map_or(0, |first| data.len() * usize::from(*first) / 256);
        assert!(all.starts_with(&read(&whole[..cut])), "cut off after {cut} bytes");
        let kept: usize = all.iter().map(kept_bytes).sum();
        assert!(kept <= whole.len() * MOST_TIMES_AS_MANY, "{kept} bytes of {}", whole.len());
    }
});

/// All records up to where it can't be read on.
fn read(reader: impl Read) -> Vec<Record> {
    let mut records = Vec::new();
    let Ok(mut dump) = Dump::open(reader) else { return records };
    while let Ok(Some(record)) = dump.next(&mut |_| ()) {
        records.push(record);
    }
    records
}

fn kept_bytes(record: &Record) -> usize {
    record.key.len()
        + match &record.value {
            Value::String(text) => text.head.len(),
            Value::Collection(_) => 0,
        }
}

/// Gives one byte at a time.
struct OneByOne<'d>(&'d [u8]);

impl Read for OneByOne<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(1);
        self.0.read(&mut into[..most])
    }
}
