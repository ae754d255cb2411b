//! Files that options name: read whole, and the secret in their first line.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// What a file holds, by `what` that is.
pub(super) fn read(path: &Path, what: &str) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("can't read {what} from {}", path.display()))
}

/// Its first line, without what ends it.
pub(super) fn first_line(text: &[u8]) -> &[u8] {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_the_first_line() {
        assert_eq!(first_line(b"secret\r\nmore"), b"secret");
        assert_eq!(first_line(b" s p \n"), b" s p ");
        assert_eq!(first_line(b""), b"");
    }
}
