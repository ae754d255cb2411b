//! The secrets that namespaces may be keyed by, from the files that `--secret-file` names.
//!
//! Every command that reads a layout takes them from here, so that none can forget them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use keyfold_core::placement::{Secret, Secrets};

static GIVEN: OnceLock<Secrets> = OnceLock::new();

/// Reads the files, once, before any command begins.
pub fn start(files: &[PathBuf]) -> anyhow::Result<()> {
    let secrets = files.iter().map(|path| read(path)).collect::<anyhow::Result<_>>()?;
    GIVEN.get_or_init(|| secrets);
    Ok(())
}

/// The secrets that were given.
pub fn given() -> &'static Secrets {
    GIVEN.get_or_init(Secrets::default)
}

fn read(path: &Path) -> anyhow::Result<Arc<Secret>> {
    let bytes = fs::read(path).with_context(|| format!("--secret-file: can't read {}", path.display()))?;
    Ok(Arc::new(Secret::new(&bytes).with_context(|| format!("--secret-file {}", path.display()))?))
}
