//! The program, and data written as applications write it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use flate2::Compression;
use flate2::write::ZlibEncoder;
use keyfold_testkit::{Server, Wire};

pub(crate) const MEDIA: &str = "[[namespace]]\nkeys = 'media:{id:int}'\nbucket = { span = 64 }\n";

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

pub(crate) fn keyfold(args: &[&str]) -> Ran {
    let output = command(args).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Folds by this layout, without being asked.
pub(crate) fn fold(server: &Server, layout: &Path, options: &[&str]) -> Ran {
    let url = server.url();
    keyfold(&[&["fold", &url, "--yes", "--layout", layout.to_str().unwrap()], options].concat())
}

pub(crate) fn write_layout(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("layout.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A keyfold that serves what the server's layout says, whatever that comes to be.
pub(crate) struct Proxy {
    child: Child,
    address: String,
}

impl Proxy {
    pub(crate) fn start(server: &Server) -> Self {
        let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--upstream", &server.url()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.strip_prefix("listening on ").unwrap().trim_end().to_owned();
        Self { child, address }
    }

    pub(crate) fn connect(&self) -> Wire {
        Wire::connect(self.address.as_str()).unwrap()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `Zlib.deflate` of Ruby: zlib's own form at its default level.
pub(crate) fn deflate(value: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(value).unwrap();
    encoder.finish().unwrap()
}

/// Writes fields of hashes, many at a time.
pub(crate) fn write_fields(wire: &mut Wire, fields: &[(String, String, Vec<u8>)]) {
    for some in fields.chunks(500) {
        for (hash, field, value) in some {
            wire.send(&[b"HSET", hash.as_bytes(), field.as_bytes(), value]).unwrap();
        }
        for _ in some {
            assert_eq!(wire.reply().unwrap()[0], b':');
        }
    }
}

/// A reply that holds bytes, or nothing.
pub(crate) fn bulk(value: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
}

pub(crate) const NIL: &[u8] = b"$-1\r\n";

/// How many keys the server itself holds, by a glob.
pub(crate) fn names(wire: &mut Wire, glob: &str) -> usize {
    let reply = String::from_utf8_lossy(&wire.call(&[b"KEYS", glob.as_bytes()]).unwrap()).into_owned();
    reply.strip_prefix('*').and_then(|rest| rest.lines().next()?.parse().ok()).unwrap()
}
