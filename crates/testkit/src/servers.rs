//! The servers that this machine has: on PATH, and those that `scripts/servers` brought.
//!
//! A test that runs against [`found`] runs against every version at hand, and says which by
//! [`Binary::name`].

use std::collections::HashSet;
use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use keyfold_core::named;

named! {
    /// Which project a server is from.
    pub enum Flavor {
        /// Redis.
        Redis = "redis",
        /// Valkey.
        Valkey = "valkey",
    }
}

/// A server's own version, not the one that Valkey names for compatibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// 8 of 8.0.6.
    pub major: u32,
    /// 0 of 8.0.6.
    pub minor: u32,
    /// 6 of 8.0.6.
    pub patch: u32,
}

impl Version {
    /// Reads `8.0.6`; nothing where it is anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A server that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    path: PathBuf,
    flavor: Flavor,
    version: Version,
}

impl Binary {
    /// Asks a program which server it is; nothing where it is none or does not start.
    pub fn probe(path: &Path) -> Option<Self> {
        let output = Command::new(path).arg("--version").output().ok()?;
        let (flavor, version) = parse_version_line(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { path: path.to_owned(), flavor, version })
    }

    /// The program to start: the server itself, or a launcher that becomes it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it has what came with Redis 7.0, as every Valkey does. What keyfold answers of its own has that server's form.
    pub fn has_redis_7(&self) -> bool {
        self.flavor == Flavor::Valkey || self.version.major >= 7
    }

    /// What it has to be started with to take DEBUG.
    pub fn with_debug(&self) -> &'static [&'static str] {
        if self.has_redis_7() { &["--enable-debug-command", "yes"] } else { &[] }
    }

    /// What it has to be started with, and then asked, so that connections keep the size of their reply buffers: since 7.0 one
    /// of 16 KiB becomes one of 1 KiB where a slow machine leaves it idle for a moment, and memory that is weighed changes.
    /// Nothing before that.
    pub fn still_reply_buffers(&self) -> (&'static [&'static str], &'static [&'static str]) {
        let asked: &[&str] = if self.has_redis_7() { &["DEBUG", "REPLYBUFFER", "RESIZING", "0"] } else { &[] };
        (self.with_debug(), asked)
    }

    /// Redis or Valkey, whatever the program is called.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Both, for messages: `redis 7.0.15`.
    pub fn name(&self) -> String {
        format!("{} {}", self.flavor, self.version)
    }
}

/// Every server on this machine, each version of each flavor once, oldest first, Redis before Valkey.
///
/// Looks at `redis-server` and `valkey-server` in each directory of PATH, then at `*/server` in
/// `target/servers` of the workspace, or in the directory that `KEYFOLD_SERVERS` names.
pub fn found() -> Vec<Binary> {
    let mut seen = HashSet::new();
    let mut binaries: Vec<Binary> = on_path()
        .into_iter()
        .chain(brought())
        .filter_map(|path| Binary::probe(&path))
        .filter(|binary| seen.insert((binary.flavor, binary.version)))
        .collect();
    binaries.sort_by_key(|binary| (binary.flavor, binary.version));
    binaries
}

/// Those of them that have what came with Redis 7.0 ([`Binary::has_redis_7`]).
pub fn found_with_redis_7() -> Vec<Binary> {
    let mut found = found();
    found.retain(Binary::has_redis_7);
    found
}

/// The newest of them whose name begins so, as in `redis 7.0.15` or `valkey`.
///
/// # Errors
/// There is none.
pub fn newest(name: &str) -> Result<Binary, &'static str> {
    let found = found().into_iter().rfind(|binary| binary.name().starts_with(name));
    found.ok_or("there is no such server at hand; `make servers` brings more")
}

fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .flat_map(|dir| ["redis-server", "valkey-server"].map(|program| dir.join(program)))
        .filter(|program| program.is_file())
        .collect()
}

fn brought() -> Vec<PathBuf> {
    let dir = env::var_os("KEYFOLD_SERVERS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers"), PathBuf::from);
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path().join("server")).filter(|launcher| launcher.is_file()).collect()
}

/// Reads `Redis server v=8.0.6 sha=…` and `Valkey server v=9.1.2 sha=…`.
fn parse_version_line(line: &str) -> Option<(Flavor, Version)> {
    let mut words = line.split_whitespace();
    let flavor = match words.next()? {
        "Redis" => Flavor::Redis,
        "Valkey" => Flavor::Valkey,
        _ => return None,
    };
    let version = words.find_map(|word| word.strip_prefix("v="))?;
    Some((flavor, Version::parse(version)?))
}

/// The newest server of each flavor, and all others: what takes long runs on the first, and on the rest now and then.
///
/// # Panics
/// Where there is no server at all.
pub fn newest_and_others() -> (Vec<Binary>, Vec<Binary>) {
    let all = found();
    assert!(!all.is_empty(), "no redis-server or valkey-server; run scripts/ensure-server");
    let newest = |flavor| all.iter().rev().find(|binary| binary.flavor() == flavor).cloned();
    let newest: Vec<Binary> = [Flavor::Redis, Flavor::Valkey].into_iter().filter_map(newest).collect();
    let others = all.into_iter().filter(|binary| !newest.contains(binary)).collect();
    (newest, others)
}

/// Runs a test on each of these servers, all at the same time: most of it is waiting.
///
/// # Panics
/// Where the test does on one of them, or no thread can be had.
pub fn each(binaries: &[Binary], test: impl Fn(&Binary) + Sync) {
    thread::scope(|scope| {
        for binary in binaries {
            let test = &test;
            thread::Builder::new().name(binary.name()).spawn_scoped(scope, move || test(binary)).expect("a thread");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_lines_of_both_flavors() {
        let redis = parse_version_line("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=1");
        assert_eq!(redis, Some((Flavor::Redis, Version { major: 7, minor: 0, patch: 15 })));
        let valkey = parse_version_line("Valkey server v=9.1.2 sha=00000000:0 malloc=jemalloc-5.3.1 bits=64 build=2");
        assert_eq!(valkey, Some((Flavor::Valkey, Version { major: 9, minor: 1, patch: 2 })));
    }

    #[test]
    fn other_programs_are_no_servers() {
        assert_eq!(parse_version_line(""), None);
        assert_eq!(parse_version_line("GNU bash, version 5.2.15"), None);
        assert_eq!(parse_version_line("Redis server v=unstable"), None);
    }

    #[test]
    fn versions_order_by_number() {
        assert!(Version::parse("7.0.15") > Version::parse("7.0.9"));
        assert_eq!(Version::parse("7.0"), None);
        assert_eq!(Version::parse("7.0.1.2"), None);
    }
}
