//! The file of users, read again and written while keyfold runs.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use keyfold_core::access::UsersFile;
use xxhash_rust::xxh3::xxh3_128;

/// What a file that only its owner may read is made with: it holds hashes of passwords.
const PRIVATE: u32 = 0o600;

/// `--users FILE`, or `--password-file FILE`
#[derive(Clone, Debug)]
pub(crate) struct File {
    path: PathBuf,
    /// A digest of what it said when it was gone by, or written, last.
    known: Arc<Mutex<Option<u128>>>,
}

impl File {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, known: Arc::default() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it says what it said when it was gone by last: then who may come in is as ACL commands have it since.
    pub(crate) fn is_known(&self, text: &[u8]) -> bool {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) == Some(xxh3_128(text))
    }
}

impl UsersFile for File {
    fn read(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.path).map_err(|error| format!("can't read {}: {error}", self.path.display()))
    }

    fn write(&self, text: &[u8]) -> Result<(), String> {
        replace(&self.path, text).map_err(|error| format!("can't write {}: {error}", self.path.display()))?;
        self.note(text);
        Ok(())
    }

    fn note(&self, text: &[u8]) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(xxh3_128(text));
    }
}

/// Writes a file beside the one there is, and puts it in its place by one rename: whoever reads finds the old text or
/// the new one. Its permissions stay; a link is followed.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let mode = fs::metadata(&path).map_or(PRIVATE, |found| found.permissions().mode());
    let mut beside = path.clone().into_os_string();
    beside.push(format!(".{}.new", std::process::id()));
    let written = write_new(Path::new(&beside), text, mode).and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

fn write_new(path: &Path, text: &[u8], mode: u32) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(path)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.acl");
        fs::write(&path, "user a on").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let link = dir.path().join("link.acl");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let file = File::at(link.clone());
        file.write(b"user b on").unwrap();
        assert_eq!(file.read().unwrap(), b"user b on");
        assert!(file.is_known(b"user b on") && !file.is_known(b"user a on"));
        assert_eq!(fs::read(&path).unwrap(), b"user b on");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left beside it");
        assert!(File::at(dir.path().join("none")).write(b"").unwrap_err().starts_with("can't write "));
    }
}
