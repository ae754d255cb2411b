//! Files of records, one a line, and a last line that says how many: written to a place beside and renamed when they are
//! whole, read line by line. A name that ends in `.gz` is packed; `-` is standard input or output.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, anyhow, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use keyfold_report::number::{count, plural};
use tempfile::NamedTempFile;

use super::Record;
use super::jsonl::{self, Entry};

/// Bytes gathered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// What is said of a dump that isn't whole.
pub(crate) const NO_END: &str = "the dump has no last line that says how many keys it has: it was cut off, as by an export that failed, or \
                                 made by hand (--without-end)";

/// No value of a server comes to more, as base64.
const LONGEST_LINE: u64 = 4 << 30;

/// A dump being written.
pub(crate) struct Writer {
    path: Option<PathBuf>,
    /// None once it is finished.
    sink: Sink,
    line: Vec<u8>,
    records: u64,
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
        Ok(Self { path: path.map(Path::to_owned), sink, line: Vec::new(), records: 0 })
    }

    /// Writes a record's line.
    pub(crate) fn write(&mut self, record: &Record) -> anyhow::Result<()> {
        self.line.clear();
        self.records += 1;
        jsonl::encode(record, &mut self.line)?;
        self.write_line()
    }

    fn write_line(&mut self) -> anyhow::Result<()> {
        let written = match &mut self.sink {
            Sink::Stdout(sink) => sink.write_all(&self.line),
            Sink::Plain(sink) => sink.write_all(&self.line),
            Sink::Packed(sink) => sink.write_all(&self.line),
        };
        written.map_err(|error| self.failed(error))
    }

    /// Ends the dump: what was written is on disk, and then under its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.line.clear();
        jsonl::encode_end(self.records, &mut self.line)?;
        self.write_line()?;
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
    /// Records since the beginning, or since the last line that says how many there are.
    records: u64,
    is_whole: bool,
    /// What a last line says doesn't count.
    is_by_hand: bool,
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
        Ok(Self { name, lines, line: Vec::new(), number: 0, records: 0, is_whole: false, is_by_hand: false, bytes })
    }

    /// Takes it for one that somebody made or changed by hand: whole in any case.
    pub(crate) fn by_hand(self, is_by_hand: bool) -> Self {
        Self { is_by_hand, ..self }
    }

    /// The next record and the number of its line; none at the end. Empty lines are passed over.
    pub(crate) fn next(&mut self) -> anyhow::Result<Option<(u64, Record)>> {
        loop {
            self.line.clear();
            self.number += 1;
            let read = self.read_line();
            let (name, number) = (&self.name, self.number);
            let bytes = read.with_context(|| format!("{name}:{number}: can't be read"))?;
            if bytes == 0 {
                return Ok(None);
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            // Whoever gives another file altogether learns it by its first line.
            let hint = if number == 1 { "; is it a dump that keyfold export wrote?" } else { "" };
            let entry = match jsonl::parse(&self.line) {
                Ok(entry) => entry,
                // Every line that export writes has an end: this one was cut off.
                Err(_) if number > 1 && !self.is_by_hand && self.line.last() != Some(&b'\n') => {
                    self.is_whole = false;
                    return Ok(None);
                }
                Err(error) => bail!("{name}:{number}: {error}{hint}"),
            };
            match entry {
                Entry::Record(record) => {
                    (self.records, self.is_whole) = (self.records + 1, false);
                    return Ok(Some((number, record)));
                }
                Entry::End(_) if self.is_by_hand => {}
                Entry::End(keys) if keys == self.records => (self.records, self.is_whole) = (0, true),
                Entry::End(keys) => bail!(
                    "{name}:{number}: the dump was written with {}, and has {}: lines were lost",
                    plural(keys, "key"),
                    count(self.records)
                ),
            }
        }
    }

    /// Reads a line, of another file altogether only its beginning.
    fn read_line(&mut self) -> io::Result<usize> {
        let is_dump = self.number > 1 || matches!(self.lines.fill_buf()?.trim_ascii_start().first(), None | Some(b'{'));
        let most = if is_dump { LONGEST_LINE } else { 1024 };
        let read = self.lines.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        match is_dump && read as u64 == most {
            true => Err(io::Error::new(io::ErrorKind::InvalidData, "the line is longer than any that export writes")),
            false => Ok(read),
        }
    }

    /// Whether its last line said how many records it has, once it was read to its end.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole || self.is_by_hand
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
            assert!(!reader.is_whole());
            assert_eq!(reader.next().unwrap(), None);
            assert!(reader.is_whole());
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

    #[test]
    fn a_dump_that_was_cut_off_is_not_whole_and_one_that_lacks_lines_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("dump.jsonl");
        let mut writer = Writer::create(Some(&path)).unwrap();
        ["a", "b", "c"].iter().for_each(|key| writer.write(&record(key)).unwrap());
        writer.finish().unwrap();
        let lines: Vec<String> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines.last().unwrap(), "{\"end\":{\"keys\":3}}");
        let read = |lines: &[String]| {
            std::fs::write(&path, lines.join("\n")).unwrap();
            let mut reader = Reader::open(&path).unwrap();
            while reader.next().map_err(|error| error.to_string())?.is_some() {}
            Ok::<_, String>(reader.is_whole())
        };
        assert_eq!(read(&lines), Ok(true));
        assert_eq!(read(&lines[..3]), Ok(false));
        assert_eq!(read(&lines[..0]), Ok(false));
        // Dumps one behind the other.
        assert_eq!(read(&[lines.clone(), lines.clone()].concat()), Ok(true));
        assert_eq!(read(&[&lines[..], &lines[..1]].concat()), Ok(false));
        // In the midst of a line.
        assert_eq!(read(&[lines[0].clone(), lines[1][..9].to_owned()]), Ok(false));
        assert_eq!(read(&[&lines[..], &[lines[1][..9].to_owned()]].concat()), Ok(false));
        std::fs::write(&path, lines[1..].join("\n")).unwrap();
        let mut filtered = Reader::open(&path).unwrap().by_hand(true);
        assert!(filtered.next().unwrap().is_some() && filtered.next().unwrap().is_some());
        assert_eq!((filtered.next().unwrap(), filtered.is_whole()), (None, true));
        assert!(read(&lines[1..]).unwrap_err().contains("written with 3 keys, and has 2"));
    }
}
