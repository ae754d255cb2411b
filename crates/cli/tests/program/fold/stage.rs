//! A server with plain keys, and movers on it.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, Stdio};

use keyfold_testkit::{Server, Value, Wire, found};
use tempfile::TempDir;

/// Ints that are dense, uuids, and any text; short values only, so that longer ones spill.
pub(crate) const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 128 }\n\
     [[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 16 }\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 4 }\n";

/// The same keys in other buckets, and text packed by a table.
pub(crate) const OTHER_LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n\
     [[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 64 }\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 32 }\n\
     text_table = 'AQIKIgEAAS8BYQ'\n";

/// Far enough for no test to see it: 2040.
const LATE_MS: i64 = 2_209_000_000_123;

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn assert_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }

    /// Somewhere, on either stream.
    #[track_caller]
    pub(crate) fn assert_says(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text) || self.stderr.contains(text), "{text}: {}\n{}", self.stdout, self.stderr);
        self
    }
}

/// A server, and a directory for layouts.
pub(crate) struct Stage {
    pub(crate) server: Server,
    dir: TempDir,
}

impl Stage {
    /// The newest server of the machine; none where it has none.
    pub(crate) fn newest(args: &[&str]) -> Option<Self> {
        Some(Self::of(found().pop()?.start(args).unwrap()))
    }

    fn of(server: Server) -> Self {
        Self { server, dir: TempDir::new().unwrap() }
    }

    /// A run to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finished(self.command(args).output().unwrap())
    }

    /// A run without a terminal, and with nothing in the environment that says anything.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
        for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
            command.env_remove(variable);
        }
        command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// A layout's file.
    pub(crate) fn layout(&self, text: &str) -> String {
        let path = self.dir.path().join(format!("layout-{:x}.toml", text.len()));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `keyfold fold --yes`.
    pub(crate) fn fold(&self, layout: &str, args: &[&str]) -> Ran {
        let (url, path) = (self.server.url(), self.layout(layout));
        self.run(&[&["fold", &url, "--layout", &path, "--yes"], args].concat())
    }

    /// A fold that goes on in the background.
    pub(crate) fn begin_fold(&self, layout: &str, args: &[&str]) -> Child {
        let (url, path) = (self.server.url(), self.layout(layout));
        let mut command = self.command(&[&["fold", &url, "--layout", &path, "--yes"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// An unfold that goes on in the background.
    pub(crate) fn begin_unfold(&self, args: &[&str]) -> Child {
        let mut command = self.command(&[&["unfold", &self.server.url(), "--yes"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// `keyfold unfold --yes`.
    pub(crate) fn unfold(&self, args: &[&str]) -> Ran {
        let url = self.server.url();
        self.run(&[&["unfold", &url, "--yes"], args].concat())
    }

    /// `keyfold verify`, to end well.
    #[track_caller]
    pub(crate) fn verify(&self) {
        self.run(&["verify", &self.server.url(), "--skip-encodings"]).assert_code(0);
    }

    pub(crate) fn connect(&self) -> Wire {
        self.server.connect().unwrap()
    }

    /// Every key of every database with its type, its bytes and when it expires; keyfold's own of database 0 aside.
    pub(crate) fn keyspace(&self) -> Keyspace {
        let mut wire = self.connect();
        let mut all = Keyspace::new();
        for database in 0..16_u32 {
            ok(&mut wire, &[b"SELECT", database.to_string().as_bytes()]);
            for key in keys(&mut wire) {
                if !key.starts_with(b"keyfold:") {
                    let held =
                        [&b"TYPE"[..], b"DUMP", b"PEXPIRETIME"].map(|command| wire.call(&[command, &key]).unwrap());
                    all.insert((database, key), held);
                }
            }
        }
        all
    }

    /// Names that begin as keyfold's own do, in any database.
    pub(crate) fn own_keys(&self) -> Vec<String> {
        let mut wire = self.connect();
        let mut own = Vec::new();
        for database in 0..16_u32 {
            ok(&mut wire, &[b"SELECT", database.to_string().as_bytes()]);
            let names = keys(&mut wire).into_iter().filter(|key| key.starts_with(b"~") || key.starts_with(b"keyfold:"));
            own.extend(names.map(|key| key.escape_ascii().to_string()));
        }
        own
    }
}

/// A keyspace, key by key.
pub(crate) type Keyspace = BTreeMap<(u32, Vec<u8>), [Vec<u8>; 3]>;

/// Says where two differ: all of it would be too much.
#[track_caller]
pub(crate) fn assert_same(before: &Keyspace, after: &Keyspace, what: &str) {
    for (key, held) in before {
        let found = after.get(key).unwrap_or_else(|| panic!("{what}: {} is lost", key.1.escape_ascii()));
        assert_eq!(
            held.each_ref().map(|part| part.escape_ascii().to_string()),
            found.each_ref().map(|part| part.escape_ascii().to_string()),
            "{what}: {}",
            key.1.escape_ascii()
        );
    }
    let more = after.keys().find(|key| !before.contains_key(*key));
    assert!(more.is_none(), "{what}: {} came from nowhere", more.unwrap().1.escape_ascii());
}

/// Every server at hand.
pub(crate) fn on_every_server(args: &[&str], body: impl Fn(&Stage)) {
    for binary in found() {
        body(&Stage::of(binary.start(args).unwrap()));
    }
}

/// What a child of [`Stage::begin_fold`] came to.
pub(crate) fn finish(child: Child) -> Ran {
    finished(child.wait_with_output().unwrap())
}

pub(crate) fn finished(output: std::process::Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Keys of every kind that the layout folds, and of some that it doesn't, in two databases; strings alone.
pub(crate) fn fill(wire: &mut Wire) {
    let late = LATE_MS.to_string();
    let long = vec![b'x'; 1000];
    for database in [&b"0"[..], b"5"] {
        ok(wire, &[b"SELECT", database]);
        for id in 0..300_u32 {
            ok(wire, &[b"SET", format!("user:{id}").as_bytes(), (id * 7919).to_string().as_bytes()]);
            let uuid = format!("sess:{:08x}-e89b-12d3-a456-426614174000", id.wrapping_mul(0x9E37_79B9));
            ok(wire, &[b"SET", uuid.as_bytes(), format!("token {id}").as_bytes()]);
        }
        let sets: &[&[&[u8]]] = &[
            &[b"user:1000", b""],
            &[b"user:1001", b"42", b"PXAT", late.as_bytes()],
            &[b"user:1002", b"\x01\xff\x00"],
            &[b"user:1003", b"\xff", b"PXAT", late.as_bytes()],
            &[b"user:1004", &long],
            &[b"user:1005", &long, b"PXAT", late.as_bytes()],
            &[b"user:1006", b"after 2054", b"PXAT", b"3000000000000"],
            &[b"user:9223372036854775807", b"-9223372036854775808"],
            &[b"user:007", b"not canonical"],
            &[b"sess:123E4567-E89B-12D3-A456-426614174000", b"upper case"],
            &[b"page:\xff\n\"\\\x00", b"binary name"],
            &[b"page:", b"no path", b"PXAT", late.as_bytes()],
            &[b"plain\x00\xfe", b"\x00"],
            &[b"", b"the empty key"],
        ];
        for set in sets {
            ok(wire, &[&[&b"SET"[..]], *set].concat());
        }
    }
    ok(wire, &[b"SELECT", b"0"]);
}

#[track_caller]
pub(crate) fn ok(wire: &mut Wire, args: &[&[u8]]) {
    let reply = wire.call(args).unwrap();
    assert_eq!(reply.escape_ascii().to_string(), "+OK\\r\\n", "{}", args[0].escape_ascii());
}

fn keys(wire: &mut Wire) -> Vec<Vec<u8>> {
    let Value::Array(keys) = wire.ask(&[b"KEYS", b"*"]).unwrap() else { panic!("KEYS answers an array") };
    keys.iter().map(|key| key.bytes().unwrap().to_vec()).collect()
}

/// The reply as a person would read it.
pub(crate) fn said(wire: &mut Wire, line: &str) -> String {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    wire.call(&args).unwrap().escape_ascii().to_string()
}
