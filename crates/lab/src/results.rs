//! The folder of results.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Where results go; what can't be written fails with its name.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    dir: PathBuf,
}

impl Results {
    /// Makes the folder, and sees that it can be written to: before anything is done on a server.
    pub(super) fn open(dir: &Path) -> anyhow::Result<Self> {
        let results = Self { dir: dir.to_owned() };
        results.write("study.tmp", b"")?;
        let _ = fs::remove_file(dir.join("study.tmp"));
        Ok(results)
    }

    /// The folder of one study.
    pub(super) fn study(&self, name: &str) -> Self {
        Self { dir: self.dir.join(name) }
    }

    /// Where a file is.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Writes a file whole, or says why not.
    pub(super) fn write(&self, file: &str, content: &[u8]) -> anyhow::Result<()> {
        let path = self.path(file);
        fs::create_dir_all(&self.dir)
            .and_then(|()| fs::write(&path, content))
            .with_context(|| format!("can't write the results to {}", path.display()))
    }

    /// Adds to the end of a file, and sees that it is on the disk.
    pub(super) fn append(&self, file: &str, content: &[u8]) -> anyhow::Result<()> {
        let path = self.path(file);
        let append = || {
            fs::create_dir_all(&self.dir)?;
            let mut file = fs::File::options().create(true).append(true).open(&path)?;
            file.write_all(content)?;
            file.sync_data()
        };
        append().with_context(|| format!("can't write the results to {}", path.display()))
    }

    /// What a file holds; none where it is not there.
    pub(super) fn read(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.path(file)).ok()
    }

    /// Removes a file that is no longer needed.
    pub(super) fn remove(&self, file: &str) {
        let _ = fs::remove_file(self.path(file));
    }
}
