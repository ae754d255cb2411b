//! Records, and files of them.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::ZlibEncoder;

/// One key and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub key: Vec<u8>,
    /// What it holds.
    pub value: Vec<u8>,
    /// How long it lives from when it is written.
    pub expires_in_ms: Option<u64>,
}

/// Records of one kind.
#[derive(Clone, Debug)]
pub struct DataSet {
    /// What it is called.
    pub name: String,
    /// Each key once.
    pub records: Vec<Record>,
}

/// Reads at most `limit` records, one `["key", "value"]` a line, from a file that may be gzipped.
pub fn read(path: &Path, limit: usize) -> anyhow::Result<DataSet> {
    let file = File::open(path)?;
    let zipped = path.extension().is_some_and(|extension| extension == "gz");
    let reader: Box<dyn Read> = if zipped { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut records = Vec::new();
    for (number, line) in (1..).zip(BufReader::new(reader).lines().take(limit)) {
        let (key, value): (String, String) = serde_json::from_str(&line?)
            .with_context(|| format!("line {number} is no [\"key\", \"value\"] in JSON"))?;
        records.push(Record { key: key.into_bytes(), value: value.into_bytes(), expires_in_ms: None });
    }
    if records.is_empty() {
        bail!("it holds no records");
    }
    check_unique(&records)?;
    Ok(DataSet { name: name(path), records })
}

/// A key that comes twice would be read back as its last value, and counted twice.
fn check_unique(records: &[Record]) -> anyhow::Result<()> {
    let mut seen = std::collections::HashSet::with_capacity(records.len());
    match (1..).zip(records).find(|(_, record)| !seen.insert(&record.key)) {
        None => Ok(()),
        Some((number, record)) => bail!("line {number}: the key \"{}\" comes twice", record.key.escape_ascii()),
    }
}

/// As an application has it that compresses values by itself: by zlib, where that is shorter.
pub fn deflated(value: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let short = encoder.write_all(value).and_then(|()| encoder.finish()).unwrap_or_default();
    if short.is_empty() || short.len() >= value.len() { value.to_vec() } else { short }
}

/// `cities_json` of `…/cities_json.jsonl.gz`.
fn name(path: &Path) -> String {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    file.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> anyhow::Result<DataSet> {
        let mut file = tempfile::Builder::new().prefix("set").suffix(".jsonl").tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        read(file.path(), 10)
    }

    #[test]
    fn lines_are_records() {
        let set = read_text("[\"a\",\"1\"]\n[\"\\u00e4\",\"\"]\n").unwrap();
        assert_eq!(set.records[1].key, "ä".as_bytes());
        assert_eq!(set.records[1].value, b"");
        assert_eq!(name(Path::new("/x/cities_json.jsonl.gz")), "cities_json");
    }

    #[test]
    fn what_is_wrong_names_its_line() {
        let error = |text: &str| format!("{:#}", read_text(text).unwrap_err());
        assert!(error("[\"a\",\"1\"]\n[\"b\",2]\n").starts_with("line 2 is no"));
        assert!(error("[\"a\",\"1\"]\n[\"a\",\"2\"]\n").starts_with("line 2: the key \"a\" comes twice"));
        assert!(error("").contains("no records"));
    }
}
