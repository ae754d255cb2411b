//! A cluster with plain keys, and movers on it.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use keyfold_testkit::cluster::{Cluster, Options};
use keyfold_testkit::{Binary, Value};
use tempfile::TempDir;

use super::stage::{Ran, finished};

/// Ints, uuids, and any text; short values only, so that longer ones spill.
pub(crate) const LAYOUT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n\
     [[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 1 }\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 1 }\n";

/// The same keys in other buckets.
pub(crate) const OTHER_LAYOUT: &str = "cluster = true\n[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 2 }\n\
     [[namespace]]\nkeys = 'sess:{id:uuid}'\nbucket = { count = 3 }\n\
     [[namespace]]\nkeys = 'page:{path}'\nbucket = { count = 2 }\n";

/// Far enough for no test to see it: 2040.
const LATE_MS: &str = "2209000000123";

/// Every key with its type, its bytes and when it expires.
pub(crate) type Keyspace = BTreeMap<Vec<u8>, String>;

/// Three primaries with a replica each, and a directory for layouts.
pub(crate) struct ClusterStage {
    pub(crate) cluster: Cluster,
    dir: TempDir,
}

impl ClusterStage {
    pub(crate) fn start(binary: &Binary, options: &Options) -> Self {
        Self { cluster: Cluster::start(binary, 3, 1, options).unwrap(), dir: TempDir::new().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        let addresses = [0, 1, 2].map(|node| self.cluster.node(node).address().to_string());
        format!("cluster://{}", addresses.join(","))
    }

    /// What a key that [`Self::fill`] writes holds.
    pub(crate) fn value(of: &str, number: u64) -> Vec<u8> {
        format!("{of} {}", number * 7919).into_bytes()
    }

    /// Keys of every kind that the layouts fold, so many of each, and some that they don't.
    pub(crate) fn fill(&self, many: u64) {
        let mut client = self.cluster.client();
        let mut set = |args: &[&[u8]]| {
            let answer = client.call(args[0], &[&[&b"SET"[..]], args].concat()).unwrap();
            assert_eq!(format!("{answer:?}"), format!("{:?}", Value::Simple(b"OK".to_vec())));
        };
        let long = vec![b'x'; 1000];
        for id in 0..many {
            set(&[format!("user:{id}").as_bytes(), &Self::value("user", id)]);
            set(&[format!("page:{id}").as_bytes(), &Self::value("page", id)]);
            let uuid = format!("sess:{:08x}-e89b-12d3-a456-426614174000", id.wrapping_mul(0x9E37_79B9) & 0xffff_ffff);
            set(&[uuid.as_bytes(), b"token", b"PXAT", LATE_MS.as_bytes()]);
        }
        let sets: &[&[&[u8]]] = &[
            &[b"user:1000000", b""],
            &[b"user:1000001", b"42", b"PXAT", LATE_MS.as_bytes()],
            &[b"user:1000002", b"\x01\xff\x00"],
            &[b"user:1000003", &long],
            &[b"user:1000004", &long, b"PXAT", LATE_MS.as_bytes()],
            &[b"user:007", b"not canonical"],
            &[b"page:{user:1}", b"with a hash tag"],
            &[b"page:\xff\n\"\\\x00", b"binary name"],
            &[b"plain\x00\xfe", b"\x00"],
        ];
        sets.iter().for_each(|args| set(args));
    }

    /// A run to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        finished(command(args).output().unwrap())
    }

    fn layout(&self, text: &str) -> String {
        let path = self.dir.path().join(format!("layout-{:x}.toml", text.len()));
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `keyfold fold --yes`.
    pub(crate) fn fold(&self, layout: &str, args: &[&str]) -> Ran {
        finished(self.begin_fold(layout, args).wait_with_output().unwrap())
    }

    /// A fold that goes on in the background.
    pub(crate) fn begin_fold(&self, layout: &str, args: &[&str]) -> Child {
        let (url, path) = (self.url(), self.layout(layout));
        let mut command = command(&[&["fold", &url, "--layout", &path, "--yes"], args].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// `keyfold unfold --yes`.
    pub(crate) fn unfold(&self, args: &[&str]) -> Ran {
        self.run(&[&["unfold", &self.url(), "--yes"], args].concat())
    }

    /// `keyfold verify`, to end well.
    #[track_caller]
    pub(crate) fn verify(&self) {
        self.run(&["verify", &self.url(), "--skip-encodings"]).assert_code(0);
    }

    /// All keys of all primaries; keyfold's own aside.
    pub(crate) fn keyspace(&self) -> Keyspace {
        let mut all = Keyspace::new();
        for node in self.cluster.primaries().unwrap() {
            let node = self.cluster.node(node);
            for key in keys(node).into_iter().filter(|key| !key.starts_with(b"keyfold:")) {
                let held = ["TYPE", "DUMP", "PEXPIRETIME"]
                    .map(|command| format!("{:?}", node.call_bytes(&[command.as_bytes(), &key]).unwrap()));
                let before = all.insert(key.clone(), held.join(" "));
                assert!(before.is_none(), "{} is at two nodes", key.escape_ascii());
            }
        }
        all
    }

    /// Names that begin as keyfold's own do, on any primary; but for those that last a second.
    pub(crate) fn own_keys(&self) -> Vec<String> {
        let nodes = self.cluster.primaries().unwrap();
        let names = nodes.into_iter().flat_map(|node| keys(self.cluster.node(node)));
        let own = names.filter(|key| key.starts_with(b"~") || key.starts_with(b"keyfold:"));
        own.filter(|key| !key.ends_with(b":fence")).map(|key| key.escape_ascii().to_string()).collect()
    }
}

fn keys(node: &keyfold_testkit::cluster::Node) -> Vec<Vec<u8>> {
    let Value::Array(keys) = node.call(&["KEYS", "*"]).unwrap() else { panic!("KEYS answers an array") };
    keys.iter().map(|key| key.bytes().unwrap().to_vec()).collect()
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keyfold"));
    for variable in ["KEYFOLD_UPSTREAM", "KEYFOLD_PASSWORD", "KEYFOLD_LOG"] {
        command.env_remove(variable);
    }
    command.args(args).env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Says where two differ: all of it would be too much.
#[track_caller]
pub(crate) fn assert_same_keys(before: &Keyspace, after: &Keyspace, what: &str) {
    for (key, held) in before {
        let found = after.get(key).unwrap_or_else(|| panic!("{what}: {} is lost", key.escape_ascii()));
        assert_eq!(held, found, "{what}: {}", key.escape_ascii());
    }
    let more = after.keys().find(|key| !before.contains_key(*key));
    assert!(more.is_none(), "{what}: {} came from nowhere", more.unwrap().escape_ascii());
}
