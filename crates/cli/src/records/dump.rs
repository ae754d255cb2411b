//! Files of records, one a line: written to a place beside and renamed when they are whole, read line by line.
//! A name that ends in `.gz` is packed; `-` is standard input or output.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, anyhow};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::{Record, jsonl};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// A dump being written.
pub(crate) struct Writer {
    path: Option<PathBuf>,
    /// None once it is finished.
    sink: Sink,
    line: Vec<u8>,
}

enum Sink {
    Stdout(BufWriter<io::Stdout>),
    Plain(BufWriter<NamedTempFile>),
    Packed(GzEncoder<BufWriter<NamedTempFile>>),
}

impl Writer {
    /// Begins a dump; nothing lies at `path` before [`Self::finish`], and what lay there stays until then.
    pub(crate) fn create(path: Option<&Path>) -> anyhow::Result<Self> {
        let path = path.filter(|path| path.as_os_str() != "-");
        let sink = match path {
            None => Sink::Stdout(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())),
            Some(path) => {
                let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let mut name = path.file_name().context("--out names no file")?.to_owned();
                name.push(".");
                let file = tempfile::Builder::new().prefix(&name).suffix(".part").tempfile_in(dir);
                let file = file.with_context(|| format!("can't write in {}", dir.display()))?;
                let file = BufWriter::with_capacity(BUFFER_BYTES, file);
                if is_packed(path) {
                    Sink::Packed(GzEncoder::new(file, Compression::fast()))
                } else {
                    Sink::Plain(file)
                }
            }
        };
        Ok(Self { path: path.map(Path::to_owned), sink, line: Vec::new() })
    }

    /// Writes a record's line.
    pub(crate) fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        self.line.clear();
        jsonl::encode(record, &mut self.line)?;
        let written = match &mut self.sink {
            Sink::Stdout(sink) => sink.write_all(&self.line),
            Sink::Plain(sink) => sink.write_all(&self.line),
            Sink::Packed(sink) => sink.write_all(&self.line),
        };
        written.map_err(|error| self.failed(error))
    }

    /// Ends the dump: what was written is on disk, and then under its name.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let path = self.path.clone().unwrap_or_default();
        let name = |error: io::Error| anyhow!(error).context(format!("can't write {}", path.display()));
        let file = match self.sink {
            Sink::Stdout(mut sink) => return Ok(sink.flush()?),
            Sink::Plain(file) => file,
            Sink::Packed(packed) => packed.finish().map_err(name)?,
        };
        let file = file.into_inner().map_err(|error| name(error.into_error()))?;
        file.as_file().sync_all().map_err(name)?;
        file.persist(&path).map_err(|error| name(error.error))?;
        Ok(())
    }

    fn failed(&self, error: io::Error) -> anyhow::Error {
        match &self.path {
            Some(path) => anyhow!(error).context(format!("can't write {}", path.display())),
            None => anyhow!(error),
        }
    }
}

/// A dump being read.
pub(crate) struct Reader {
    name: String,
    lines: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    /// Bytes of the file read so far, packed or not.
    bytes: Rc<Cell<usize>>,
}

/// Counts what is read.
struct Counted<R>(R, Rc<Cell<usize>>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.set(self.1.get() + read);
        Ok(read)
    }
}

impl Reader {
    /// Opens a dump.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin { "standard input".to_owned() } else { path.display().to_string() };
        let raw: Box<dyn Read> = if is_stdin {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(path).with_context(|| format!("can't read {name}"))?)
        };
        let bytes = Rc::new(Cell::new(0));
        let raw = Counted(raw, Rc::clone(&bytes));
        let lines: Box<dyn BufRead> = if is_packed(path) {
            let raw = BufReader::with_capacity(BUFFER_BYTES, raw);
            Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(raw)))
        } else {
            Box::new(BufReader::with_capacity(BUFFER_BYTES, raw))
        };
        Ok(Self { name, lines, line: Vec::new(), number: 0, bytes })
    }

    /// The next record and the number of its line; none at the end. Empty lines are passed over.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<(u64, Record)>> {
        loop {
            self.line.clear();
            self.number += 1;
            let (name, number) = (&self.name, self.number);
            let read = self.lines.read_until(b'\n', &mut self.line);
            let bytes = read.with_context(|| format!("{name}:{number}: can't be read"))?;
            if bytes == 0 {
                return Ok(None);
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            // Whoever gives another file altogether learns it by its first line.
            let hint = if number == 1 { "; is it a dump that keyfold export wrote?" } else { "" };
            let record = jsonl::parse(&self.line).map_err(|error| anyhow!("{name}:{number}: {error}{hint}"))?;
            return Ok(Some((number, record)));
        }
    }

    /// Bytes of the file read since this was last asked.
    pub(crate) fn take_bytes(&mut self) -> usize {
        self.bytes.take()
    }

    /// Where the record that was read last is: file and line.
    pub(crate) fn at(&self, number: u64) -> String {
        format!("{}:{number}", self.name)
    }
}

fn is_packed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Content;

    fn record(key: &str) -> Record {
        Record { database: 0, key: key.into(), content: Content::String(b"v".to_vec()), expires_at_ms: None }
    }

    #[test]
    fn a_dump_is_there_once_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["dump.jsonl", "dump.jsonl.gz"] {
            let path = dir.path().join(name);
            let mut writer = Writer::create(Some(&path)).unwrap();
            writer.write(&record("a")).unwrap();
            assert!(!path.exists());
            writer.write(&record("b")).unwrap();
            writer.finish().unwrap();
            let mut reader = Reader::open(&path).unwrap();
            assert_eq!(reader.next().unwrap(), Some((1, record("a"))));
            assert_eq!(reader.next().unwrap(), Some((2, record("b"))));
            assert_eq!(reader.next().unwrap(), None);
        }
        Writer::create(Some(&dir.path().join("never"))).unwrap().write(&record("a")).unwrap();
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "{left:?}");
    }

    #[test]
    fn a_mistake_has_its_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump.jsonl");
        std::fs::write(&path, "{\"key\":\"a\",\"value\":\"\"}\n\n{\"key\":\"b\"\n").unwrap();
        let mut reader = Reader::open(&path).unwrap();
        assert!(reader.next().unwrap().is_some());
        let error = reader.next().unwrap_err().to_string();
        assert!(error.contains("dump.jsonl:3: ") && !error.contains("export"), "{error}");
        std::fs::write(&path, b"REDIS0011\xfa\x09redis-ver").unwrap();
        let error = Reader::open(&path).unwrap().next().unwrap_err().to_string();
        assert!(
            error.contains("dump.jsonl:1: ") && error.ends_with("is it a dump that keyfold export wrote?"),
            "{error}"
        );
    }
}
