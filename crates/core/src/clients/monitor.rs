//! MONITOR: what clients ask, a line each, to those who want to see it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use super::Entry;

/// Lines that may wait for a client that doesn't take them.
const MAX_WAITING_BYTES: usize = 64 << 20;

/// The clients that see what all others ask.
#[derive(Debug, Default)]
pub(crate) struct Monitors {
    entries: RwLock<Vec<Arc<Entry>>>,
    count: AtomicUsize,
}

impl Monitors {
    /// Whether there is any: what every request asks.
    pub(crate) fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn add(&self, entry: &Arc<Entry>) {
        self.change(|entries| entries.push(Arc::clone(entry)));
    }

    pub(crate) fn remove(&self, id: u64) {
        if self.any() {
            self.change(|entries| entries.retain(|entry| entry.id() != id));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Entry>>)) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        change(&mut entries);
        self.count.store(entries.len(), Ordering::Relaxed);
    }

    /// Shows a request of this client, in this database.
    pub(crate) fn show(&self, now_ms: i64, database: u32, address: &str, args: &[&[u8]]) {
        let line = line(now_ms, database, address, args);
        for entry in &*self.entries.read().unwrap_or_else(PoisonError::into_inner) {
            entry.feed(&line, MAX_WAITING_BYTES);
        }
    }
}

/// `+1339518083.107412 [0 127.0.0.1:60866] "keys" "*"`
fn line(now_ms: i64, database: u32, address: &str, args: &[&[u8]]) -> Vec<u8> {
    let shown_address = match address.strip_suffix(":0") {
        Some(path) if path.starts_with('/') => format!("unix:{path}"),
        _ => address.to_owned(),
    };
    let (seconds, micros) = (now_ms.div_euclid(1000), now_ms.rem_euclid(1000) * 1000);
    let mut line = format!("+{seconds}.{micros:06} [{database} {shown_address}]").into_bytes();
    for arg in args {
        line.extend_from_slice(b" \"");
        arg.iter().for_each(|byte| quote(*byte, &mut line));
        line.push(b'"');
    }
    line.extend_from_slice(b"\r\n");
    line
}

/// As `sdscatrepr` of Redis writes a byte.
fn quote(byte: u8, line: &mut Vec<u8>) {
    match byte {
        b'\\' | b'"' => line.extend([b'\\', byte]),
        b'\n' => line.extend(b"\\n"),
        b'\r' => line.extend(b"\\r"),
        b'\t' => line.extend(b"\\t"),
        0x07 => line.extend(b"\\a"),
        0x08 => line.extend(b"\\b"),
        b' '..=b'~' => line.push(byte),
        _ => line.extend(format!("\\x{byte:02x}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_server() {
        let line = line(1_339_518_083_107, 2, "127.0.0.1:60866", &[b"SET", b"a \"\\\n\xff\x07", b""]);
        assert_eq!(
            String::from_utf8(line).unwrap(),
            "+1339518083.107000 [2 127.0.0.1:60866] \"SET\" \"a \\\"\\\\\\n\\xff\\a\" \"\"\r\n"
        );
    }
}
