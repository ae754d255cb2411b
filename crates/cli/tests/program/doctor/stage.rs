//! A server with hashes on it, a doctor that looks, and hands that do what it says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use keyfold_core::frame;
use keyfold_core::layout::{Layout, Located};
use keyfold_testkit::{Server, Value as Reply, Wire, found};
use serde_json::Value;

/// For what was replaced to be freed in the background; generous, for loaded machines.
const FREED_WITHIN: Duration = Duration::from_secs(30);

/// A command that finds nothing in the environment but servers.
pub(crate) fn keyfold(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// What a doctor said.
#[derive(Debug)]
pub(crate) struct Diagnosis {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
    pub(crate) stderr: String,
}

impl Diagnosis {
    /// The kinds of problems, sorted.
    pub(crate) fn problems(&self) -> Vec<&str> {
        let findings = self.report["findings"].as_array().unwrap();
        let problems = findings.iter().filter(|finding| finding["severity"] == "problem");
        let mut kinds: Vec<_> = problems.map(|finding| finding["kind"].as_str().unwrap()).collect();
        kinds.sort_unstable();
        kinds
    }

    /// The first finding of a kind, notes included.
    pub(crate) fn finding(&self, kind: &str) -> &Value {
        let findings = self.report["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["kind"] == kind).unwrap_or_else(|| panic!("no {kind} in {findings:#?}"))
    }

    /// Nothing was found, and the exit code says so.
    #[track_caller]
    pub(crate) fn assert_well(&self) {
        assert_eq!((self.code, self.problems()), (Some(0), vec![]), "{self:#?}");
    }
}

/// Asks for JSON.
pub(crate) fn doctor(url: &str, args: &[&str]) -> Diagnosis {
    let output = keyfold(&[&["doctor", url, "--json"], args].concat()).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    Diagnosis { code: output.status.code(), report, stderr }
}

/// Asks for text.
pub(crate) fn doctor_text(url: &str, args: &[&str]) -> (Option<i32>, String) {
    let output = keyfold(&[&["doctor", url], args].concat()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Types the shell's lines of a finding's mend, as they are printed.
pub(crate) fn apply(server: &Server, finding: &Value, mend: usize) {
    let lines = finding["mends"][mend]["lines"].as_array().unwrap();
    let shell: Vec<_> =
        lines.iter().filter(|line| line["for"] == "shell").map(|line| line["text"].as_str().unwrap()).collect();
    assert!(!shell.is_empty(), "{finding:#?}");
    for line in shell {
        if let Some(command) = line.strip_prefix(&format!("redis-cli -h 127.0.0.1 -p {} ", server.port())) {
            let args: Vec<_> = command.split(' ').map(str::as_bytes).collect();
            assert_eq!(server.connect().unwrap().call(&args).unwrap(), b"+OK\r\n", "{line}");
        } else {
            let args: Vec<_> = line.strip_prefix("keyfold ").unwrap().split(' ').collect();
            let output = keyfold(&args).output().unwrap();
            assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

/// Every server at hand.
pub(crate) fn on_every_server(args: &[&str], body: impl Fn(&Server)) {
    for binary in found() {
        body(&binary.start(args).unwrap());
    }
}

/// Writes a hash, one HSET a field.
pub(crate) fn write_hash(wire: &mut Wire, key: &[u8], fields: impl IntoIterator<Item = (Vec<u8>, Vec<u8>)>) {
    let mut sent = 0;
    for (field, value) in fields {
        wire.send(&[b"HSET", key, &field, &value]).unwrap();
        sent += 1;
    }
    for _ in 0..sent {
        assert!(wire.reply().unwrap().starts_with(b":"));
    }
}

/// Fields that are numbers, with values like ids.
pub(crate) fn numbers(count: usize) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    (0..count).map(|id| (id.to_string().into_bytes(), (1_155_315_000 + id * 7919).to_string().into_bytes()))
}

/// Everything that the server's hashes hold.
pub(crate) fn contents(wire: &mut Wire) -> BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>> {
    let Reply::Array(keys) = wire.ask(&[b"KEYS", b"*"]).unwrap() else { panic!("KEYS answers an array") };
    let mut all = BTreeMap::new();
    for key in keys.iter().map(|key| key.bytes().unwrap().to_vec()) {
        let Reply::Array(pairs) = wire.ask(&[b"HGETALL", &key]).unwrap() else { continue };
        let bytes = |reply: &Reply| reply.bytes().unwrap().to_vec();
        all.insert(key, pairs.chunks_exact(2).map(|pair| (bytes(&pair[0]), bytes(&pair[1]))).collect());
    }
    all
}

/// How the server holds a key.
pub(crate) fn encoding(wire: &mut Wire, key: &[u8]) -> String {
    String::from_utf8(wire.ask(&[b"OBJECT", b"ENCODING", key]).unwrap().bytes().unwrap().to_vec()).unwrap()
}

/// `used_memory`, once nobody else is connected and nothing is left to be freed: what data takes, and always the
/// same besides.
pub(crate) fn data_bytes(server: &Server) -> i64 {
    let mut wire = server.connect().unwrap();
    let deadline = Instant::now() + FREED_WITHIN;
    loop {
        let info = wire.ask(&[b"INFO"]).unwrap();
        let info = String::from_utf8_lossy(info.bytes().unwrap()).into_owned();
        let field = |name: &str| -> i64 {
            info.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().parse().unwrap()
        };
        if field("lazyfree_pending_objects:") == 0 && field("connected_clients:") == 1 {
            return field("used_memory:");
        }
        assert!(Instant::now() < deadline, "{info}");
    }
}

/// Brings a layout to the server.
pub(crate) fn push_layout(server: &Server, dir: &Path, text: &str) -> Layout {
    let path: PathBuf = dir.join("layout.toml");
    std::fs::write(&path, text).unwrap();
    let push = ["layout", "push", path.to_str().unwrap(), "--upstream", &server.url()];
    assert!(keyfold(&push).output().unwrap().status.success());
    Layout::parse_file(text).unwrap()
}

/// Writes a key where the layout has it, as keyfold would.
pub(crate) fn put(wire: &mut Wire, layout: &Layout, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) {
    let Located::Placed(place) = layout.locate(key) else { panic!("{} is plain", key.escape_ascii()) };
    let mut stored = Vec::new();
    frame::encode(value, expires_at_ms, &mut stored);
    assert_eq!(wire.call(&[b"HSET", &place.physical, &place.field, &stored]).unwrap(), b":1\r\n");
}
