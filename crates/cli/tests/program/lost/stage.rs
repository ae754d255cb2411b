//! A server with folded keys, and keyfolds before it that are asked until all is well again.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use keyfold_testkit::{Binary, Server, Subject, Wire, found};
use tempfile::TempDir;

/// Two namespaces, with values over the limit.
pub(crate) const LAYOUT: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 64 }\n\
     [[namespace]]\nkeys = 'order:{id:int}'\nbucket = { count = 8 }\n";

/// The same the other way round, the placeholders under other names.
pub(crate) const REORDERED: &str = "[[namespace]]\nkeys = 'order:{number:int}'\nbucket = { count = 8 }\n\
     [[namespace]]\nkeys = 'user:{who:int}'\nbucket = { span = 64 }\n";

/// The same keys in other buckets.
pub(crate) const OTHER: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { span = 32 }\n\
     [[namespace]]\nkeys = 'order:{id:int}'\nbucket = { count = 16 }\n";

/// All that keyfold keeps for itself.
pub(crate) const ADMIN_KEYS: [&str; 5] = [
    "keyfold:{home}:layout",
    "keyfold:{home}:layout:copy",
    "keyfold:{home}:change",
    "keyfold:{home}:answers",
    "keyfold:{home}:sweep",
];

const KEYS: u32 = 200;

pub(crate) struct Stage {
    pub(crate) server: Server,
    dir: TempDir,
}

/// What a run came to.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn assert(&self, code: i32, says: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        for text in says {
            let is_said = self.stdout.contains(text) || self.stderr.contains(text);
            assert!(is_said, "{text:?} is not in:\n{}\n{}", self.stdout, self.stderr);
        }
        self
    }
}

impl Stage {
    /// A server with plain keys.
    pub(crate) fn plain(binary: &Binary, args: &[&str]) -> Self {
        let stage = Self { server: binary.start(args).unwrap(), dir: TempDir::new().unwrap() };
        let mut wire = stage.connect();
        for (key, value) in keys() {
            assert_eq!(wire.call(&[b"SET", key.as_bytes(), value.as_bytes()]).unwrap(), b"+OK\r\n");
        }
        stage
    }

    /// A server with folded keys.
    pub(crate) fn folded(binary: &Binary, args: &[&str]) -> Self {
        let stage = Self::plain(binary, args);
        stage.fold(LAYOUT, &[]).assert(0, &[]);
        stage
    }

    pub(crate) fn connect(&self) -> Wire {
        self.server.connect().unwrap()
    }

    /// A file of this text.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
        for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
            command.env_remove(variable);
        }
        command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    pub(crate) fn fold(&self, layout: &str, args: &[&str]) -> Ran {
        let (url, path) = (self.server.url(), self.file("fold.toml", layout));
        self.run(&[&["fold", &url, "--yes", "--layout", path.to_str().unwrap()], args].concat())
    }

    /// `keyfold layout recover`, with a file where one is given.
    pub(crate) fn recover(&self, layout: Option<&str>, args: &[&str]) -> Ran {
        let url = self.server.url();
        let path = layout.map(|layout| self.file("recover.toml", layout));
        let given = path.as_ref().map(|path| ["--layout", path.to_str().unwrap()]);
        let given = given.as_ref().map_or(&[][..], |given| &given[..]);
        self.run(&[&["layout", "recover", &url], given, args].concat())
    }

    pub(crate) fn lose(&self, keys: &[&str]) {
        let mut wire = self.connect();
        for key in keys {
            wire.call(&[b"DEL", key.as_bytes()]).unwrap();
        }
    }

    /// What lies under a key; none where nothing does.
    pub(crate) fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.connect().ask(&[b"GET", key.as_bytes()]).unwrap().bytes().map(<[u8]>::to_vec)
    }

    pub(crate) fn set(&self, key: &str, value: &[u8]) {
        assert_eq!(self.connect().call(&[b"SET", key.as_bytes(), value]).unwrap(), b"+OK\r\n");
    }

    /// A keyfold before the server, with what it holds.
    pub(crate) fn keyfold(&self) -> Subject {
        Subject::beside(&self.server).unwrap()
    }

    /// Reads all keys through a keyfold: each answer must be right.
    #[track_caller]
    pub(crate) fn assert_all_there(&self, what: &str) {
        let keyfold = self.keyfold();
        let mut wire = Wire::connect(keyfold.address()).unwrap();
        for (key, value) in keys() {
            assert_eq!(get(&mut wire, &key), Ok(Some(value)), "{what}: {key}");
        }
    }
}

/// Every server at hand.
pub(crate) fn on_every_server(body: impl Fn(&Binary, &str)) {
    for binary in found() {
        body(&binary, &binary.name());
    }
}

/// The keys, each with a value that no other has; some are long.
pub(crate) fn keys() -> impl Iterator<Item = (String, String)> {
    let value = |key: &str, id: u32| if id.is_multiple_of(20) { format!("{key:0>100}") } else { format!("of {key}") };
    (0..KEYS).flat_map(move |id| {
        ["user", "order"].map(|family| {
            let key = format!("{family}:{id}");
            let value = value(&key, id);
            (key, value)
        })
    })
}

/// A value; the error, where it is one or the connection is lost.
pub(crate) fn get(wire: &mut Wire, key: &str) -> Result<Option<String>, String> {
    let reply = wire.call(&[b"GET", key.as_bytes()]).map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&reply).into_owned();
    match reply.first() {
        Some(b'-') => Err(text),
        _ if reply == b"$-1\r\n" => Ok(None),
        _ => Ok(text.split("\r\n").nth(1).map(str::to_owned)),
    }
}
