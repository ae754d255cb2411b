//! A file of requests, a line each.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use keyfold_report::number::plural;
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_survey::caching::{Bounds, Recorder, Requests};

use crate::origin::DumpPlace;
use crate::packed::unpacked;

/// Enough to tell what it is.
const LOOKED_AT_BYTES: u64 = 512;
/// A longer line is passed over: MONITOR shows whole values.
const LONGEST_LINE_BYTES: u64 = 4 << 20;
/// Lines until the next look whether to go on.
const LINES: u64 = 4096;
const BUFFER_BYTES: usize = 256 << 10;

/// Reads all of it, or as much as there is until Ctrl-C.
pub(super) fn read(place: &DumpPlace, interrupt: &Interrupt, notes: &mut Vec<String>) -> anyhow::Result<Requests> {
    let reading = || format!("can't read the requests in {place}");
    let (raw, file_bytes): (Box<dyn Read + Send>, u64) = match place {
        DumpPlace::File(path) => {
            let file = File::open(path).with_context(reading)?;
            let bytes = file.metadata().map_or(0, |file| file.len());
            (Box::new(file), bytes)
        }
        DumpPlace::Stdin => (Box::new(io::stdin()), 0),
    };
    let done = Arc::new(AtomicU64::new(0));
    let mut counted = Counted { reader: raw, done: Arc::clone(&done) };
    let mut first = Vec::new();
    counted.by_ref().take(LOOKED_AT_BYTES).read_to_end(&mut first).with_context(reading)?;
    let lines = BufReader::with_capacity(BUFFER_BYTES, unpacked(first, counted).with_context(reading)?);
    let mut reader = Lines { lines, recorder: Recorder::new(Bounds::default()), passed_over: 0 };
    let mut progress = Progress::new("bytes of requests read", usize::try_from(file_bytes).unwrap_or(0));
    let mut shown = 0;
    loop {
        let goes_on = reader.some().with_context(reading)?;
        let now = done.load(Ordering::Relaxed);
        progress.advance(usize::try_from(now - shown).unwrap_or(0));
        shown = now;
        if interrupt.wanted() {
            notes.push(format!(
                "stopped: what stands behind {} was not read",
                plural(reader.recorder.seen(), "request")
            ));
            break;
        }
        if !goes_on {
            break;
        }
    }
    if reader.passed_over > 0 {
        notes.push(format!("{} longer than 4 MiB were passed over", plural(reader.passed_over, "line")));
    }
    Ok(reader.recorder.finish())
}

/// Lines, and what they said.
struct Lines<R> {
    lines: R,
    recorder: Recorder,
    passed_over: u64,
}

impl<R: BufRead> Lines<R> {
    /// Takes in some lines. Whether there may be more.
    fn some(&mut self) -> anyhow::Result<bool> {
        let mut line = Vec::new();
        for _ in 0..LINES {
            line.clear();
            if self.lines.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line)? == 0 {
                return Ok(false);
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if line.len() as u64 == LONGEST_LINE_BYTES {
                self.passed_over += 1;
                self.lines.skip_until(b'\n')?;
                continue;
            }
            if self.recorder.seen() == 0 && (line.contains(&0) || line.starts_with(b"REDIS")) {
                bail!("it is no text: of requests there is one to a line (docs/analyze.md, \"Of a cache\")");
            }
            self.recorder.add_line(&line);
        }
        Ok(true)
    }
}

/// A reader that says how much was read.
struct Counted<R> {
    reader: R,
    done: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(into)?;
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> anyhow::Result<(Requests, u64)> {
        let mut reader = Lines { lines: text, recorder: Recorder::new(Bounds::default()), passed_over: 0 };
        while reader.some()? {}
        Ok((reader.recorder.finish(), reader.passed_over))
    }

    #[test]
    fn a_line_is_a_request_and_one_without_end_is_passed_over() {
        let (requests, _) = lines(b"a\nb\r\n\na\nc").unwrap();
        assert_eq!((requests.seen(), requests.sampled_keys()), (4, 3));
        let long = vec![b'x'; 5 << 20];
        let (requests, passed_over) = lines(&[b"a\n", long.as_slice(), b"\nb\n"].concat()).unwrap();
        assert_eq!((requests.seen(), passed_over), (2, 1));
        assert!(lines(b"REDIS0011\xfa\n").is_err() && lines(b"\x00\x01\n").is_err());
    }
}
