//! Real records: `*.jsonl.gz`, one `["key","value"]` a line.
//!
//! Read from the directory that `KEYFOLD_DATA` names, or from `../shared/data` beside the workspace.

use std::env;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;

use super::case::{Case, Record};

/// The files, each with the shape of its keys.
const FILES: [(&str, &str); 11] = [
    ("access_logs", "log:{source}:{line:int}"),
    ("cities_json", "city:{id:int}"),
    ("city_state_int", "{id:int}"),
    ("cldr_text", "l10n:{text}"),
    ("debian_json", "pkg:{name}"),
    ("debian_sha256", "{sum:hex}"),
    ("stix_uuid_json", "{id:uuid}"),
    ("sx_posts_html", "post:{id:int}:body"),
    ("tldr_md", "{page}"),
    ("words_alpha", "{word}"),
    ("words_phonemes", "w:{word}"),
];
/// Stored bytes over which a value is spilled: over most values, not over all.
const VALUE_LIMIT: usize = 4096;

/// The directory, where it is there.
pub fn directory() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let directory = env::var_os("KEYFOLD_DATA").map_or_else(beside, PathBuf::from);
    directory.is_dir().then_some(directory)
}

/// Each file's records plain and folded, the first `limit` of them.
///
/// # Errors
/// Where a file isn't there, or not of that form.
pub fn cases(directory: &Path, limit: usize) -> impl Iterator<Item = io::Result<[Case; 2]>> {
    FILES.iter().map(move |(name, keys)| {
        let records = read(&directory.join(format!("{name}.jsonl.gz")), limit)?;
        let layout =
            format!("[[namespace]]\nkeys = \"{keys}\"\nbucket = {{ count = COUNT }}\nvalue_limit = {VALUE_LIMIT}\n");
        Ok([Case::plain(name, records.clone()), Case::folded(name, records, &layout)])
    })
}

fn read(path: &Path, limit: usize) -> io::Result<Vec<Record>> {
    let lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let record = |line: io::Result<String>| {
        let (key, value): (String, String) = serde_json::from_str(&line?)?;
        Ok(Record { key: key.into_bytes(), value: value.into_bytes(), expires: false })
    };
    lines.take(limit).map(record).collect()
}
