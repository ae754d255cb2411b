//! What long work came to, kept as it goes: a file with a line of JSON for each step. Work that ended early goes on from it.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A file of entries, each a line.
#[derive(Debug)]
pub struct Journal<T> {
    path: PathBuf,
    file: File,
    entries: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens a file, or begins one, with what it holds. Lines that are no such entry stay in it and are not looked at, as
    /// the last is where the program was killed in its midst.
    ///
    /// # Errors
    /// Where the file can't be read or written.
    pub fn open(path: &Path) -> anyhow::Result<(Self, Vec<T>)> {
        let told = || format!("the results in {}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(told)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(path).with_context(told)?;
        let text = fs::read_to_string(path).with_context(told)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").with_context(told)?;
        }
        let entries = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok((Self { path: path.to_owned(), file, entries: PhantomData }, entries))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an entry behind the others.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn add(&mut self, entry: &T) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.file.write_all(&line).with_context(|| format!("the results in {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_goes_on_from_what_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("of/results.jsonl");
        let (mut journal, entries) = Journal::<(u32, String)>::open(&path).unwrap();
        assert_eq!(entries, []);
        let entries = [1, 2, 3].map(|number| (number, format!("entry {number}")));
        entries[..2].iter().for_each(|entry| journal.add(entry).unwrap());
        fs::write(&path, fs::read_to_string(&path).unwrap() + "[3,\"ent").unwrap();
        let (mut journal, known) = Journal::<(u32, String)>::open(&path).unwrap();
        assert_eq!(known, entries[..2]);
        journal.add(&entries[2]).unwrap();
        assert_eq!(Journal::<(u32, String)>::open(&path).unwrap().1, entries);
    }
}
