//! Steps drawn from bytes, so that a fuzzer and a property test can both make and shrink them.

use std::fmt;

/// Every placement, with limits so small that values spill.
pub const LAYOUT: &str = r#"
[[namespace]]
keys = "s:{id:int}"
bucket = { span = 4 }
value_limit = 12

[[namespace]]
keys = "c:{id:hex}"
bucket = { count = 2 }
value_limit = 20

[[namespace]]
keys = "b:{id:int}:{part}"
bucket = { by = "id" }

[[namespace]]
keys = "z:{path}"
"#;

/// An application's own hashes of keys, each with the field, and the key and its value as clients read it:
/// deflated, or as it is where it doesn't inflate, be it the bytes of a frame that has expired.
pub const HASHES: [[&[u8]; 5]; 3] = [
    [b"sbucket:0", b"1", b"\x78\x9c\x33\x34\x34\x04\x00\x01\x29\x00\x94", b"s:1", b"111"],
    [b"sbucket:0", b"2", b"\x05\0\0\0\0\x01x", b"s:2", b"\x05\0\0\0\0\x01x"],
    [b"sbucket:2", b"9", b"7", b"s:9", b"7"],
];

/// The same templates, otherwise placed.
pub const OTHER_LAYOUT: &str = r#"
[[namespace]]
keys = "s:{id:int}"
bucket = { count = 1 }
value_limit = 16
cluster = true

[[namespace]]
keys = "c:{id:hex}"
placement = "zipped"
cluster = true

[[namespace]]
keys = "b:{id:int}:{part}"
bucket = { count = 5 }
text_table = "AQF4Ag0K"

[[namespace]]
keys = "z:{path}"
placement = "plain"
"#;

/// The first layout's places with codecs, and one of its own keys that holds frames.
pub const CODED_LAYOUT: &str = r#"
[[namespace]]
keys = "s:{id:int}"
bucket = { span = 4 }
value_limit = 12
codec = "zstd"

[[namespace]]
keys = "c:{id:hex}"
bucket = { count = 2 }
value_limit = 20
codec = "hex"

[[namespace]]
keys = "b:{id:int}:{part}"
bucket = { by = "id" }
codec = "fsst"

[[namespace]]
keys = "z:{path}"
codec = "zstd"
"#;

/// The second layout's, with others.
pub const OTHER_CODED_LAYOUT: &str = r#"
[[namespace]]
keys = "s:{id:int}"
bucket = { count = 1 }
value_limit = 16
cluster = true
codec = "fsst"

[[namespace]]
keys = "c:{id:hex}"
codec = "zstd"

[[namespace]]
keys = "b:{id:int}:{part}"
bucket = { count = 5 }
codec = "uuid"

[[namespace]]
keys = "z:{path}"
bucket = { count = 3 }
codec = { name = "zstd", level = 3 }
"#;

/// The keys that commands name: in buckets of each kind, zipped, plain, and two that stay plain because
/// they are not what their template has.
pub const KEYS: [&[u8]; 12] = [
    b"s:1",
    b"s:2",
    b"s:9",
    b"c:ab12",
    b"c:0123456789abcdef",
    b"b:1:x",
    b"b:1:\xff\r\n",
    b"z:foo",
    b"z:",
    b"plain",
    b"s:01",
    b"c:AB",
];

/// One command of one client.
#[derive(Clone, Debug)]
pub struct Step {
    /// When, in milliseconds since 1970.
    pub now_ms: i64,
    /// Which client's, 0 or 1.
    pub client: usize,
    /// The command.
    pub command: Vec<Vec<u8>>,
    /// The other client's command, which comes after so many physical commands.
    pub intruder: Option<(usize, Vec<Vec<u8>>)>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |command: &[Vec<u8>]| {
            command.iter().map(|arg| format!("\"{}\"", arg.escape_ascii())).collect::<Vec<_>>().join(" ")
        };
        write!(f, "{} client {}: {}", self.now_ms, self.client, show(&self.command))?;
        match &self.intruder {
            None => Ok(()),
            Some((after, command)) => write!(f, "\n    after {after}, client {}: {}", 1 - self.client, show(command)),
        }
    }
}

/// What each command takes, one letter an argument that is drawn:
/// k key, v value, i integer, x index, b bit, s seconds, m milliseconds, S and M the same since 1970.
const COMMANDS: &[&str] = &[
    "GET k",
    "SET k v",
    "SET k v",
    "SET k v EX s",
    "SET k v PX m NX",
    "SET k v KEEPTTL",
    "SET k v XX GET",
    "SET k v NX",
    "SET k v NX GET",
    "SET k v PXAT M",
    "SET k v EXAT S XX",
    "SETNX k v",
    "SETEX k s v",
    "PSETEX k m v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k",
    "GETEX k PX m",
    "GETEX k PERSIST",
    "GETEX k PXAT M",
    "MGET k k k",
    "MSET k v k v k v",
    "MSET k v",
    "MSETNX k v k v",
    "INCR k",
    "DECR k",
    "INCRBY k i",
    "DECRBY k i",
    "INCRBYFLOAT k i",
    "APPEND k v",
    "STRLEN k",
    "GETRANGE k x x",
    "SETRANGE k x v",
    "DEL k",
    "DEL k k k",
    "UNLINK k k",
    "EXISTS k k",
    "TOUCH k k",
    "TYPE k",
    "EXPIRE k s",
    "EXPIRE k s GT",
    "PEXPIRE k m NX",
    "PEXPIRE k m LT",
    "PEXPIRE k m",
    "EXPIREAT k S",
    "PEXPIREAT k M XX",
    "TTL k",
    "PTTL k",
    "EXPIRETIME k",
    "PEXPIRETIME k",
    "PERSIST k",
    "RENAME k k",
    "RENAMENX k k",
    "COPY k k",
    "COPY k k REPLACE",
    "SETBIT k b 1",
    "SETBIT k b 0",
    "GETBIT k b",
    "BITCOUNT k",
    "BITCOUNT k x x",
    "BITPOS k 1",
    "BITOP AND k k k",
    "BITOP NOT k k",
    "BITFIELD k SET u8 0 200 GET u4 4",
    "BITFIELD k OVERFLOW SAT INCRBY i8 8 100",
    "BITFIELD_RO k GET u8 0",
    "LCS k k",
    "LCS k k LEN",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
];

const EDGES: &[&str] = &["9223372036854775807", "-9223372036854775808", "9223372036854775808", "", "01", " 1", "abc"];

/// Values that codecs make something of, and one that none does.
const TEXTS: [&str; 6] = [
    "0.5",
    "0123456789abcdef0123456789abcdef",
    "f3d72fe1-750b-47c0-9526-4728852a4e5b",
    "role=admin;name=ada",
    r#"{"id":9,"name":"User 9","email":"user9@example.com","role":"editor","active":true}"#,
    "role=reader;role=reader;role=admin;role=reader;role=reader;role=admin;role=reader;role=reader;role=reader;",
];

/// Draws steps until the bytes are used up.
#[derive(Debug)]
pub struct Steps<'a> {
    bytes: &'a [u8],
    now_ms: i64,
    resp3: bool,
}

impl<'a> Steps<'a> {
    /// Steps from a time on, in milliseconds since 1970.
    pub fn new(bytes: &'a [u8], now_ms: i64) -> Self {
        let mut steps = Self { bytes, now_ms, resp3: false };
        steps.resp3 = steps.below(2) == 1;
        steps
    }

    /// Whether the clients begin with HELLO 3.
    pub fn speaks_resp3(&self) -> bool {
        self.resp3
    }

    /// The next step, none at the end.
    pub fn next_step(&mut self) -> Option<Step> {
        if self.bytes.is_empty() {
            return None;
        }
        let head = self.byte();
        self.now_ms += [0, 0, 0, 1, 7, 1_000, 6_000, 100_000][usize::from(head & 7)];
        let client = usize::from(head >> 3 & 1);
        let command = self.command();
        let intruder = (head >> 4 & 3 == 3).then(|| (usize::from(head >> 6), self.command()));
        Some(Step { now_ms: self.now_ms, client, command, intruder })
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    fn command(&mut self) -> Vec<Vec<u8>> {
        let shape = COMMANDS[self.below(COMMANDS.len())];
        shape.split(' ').map(|word| self.argument(word)).collect()
    }

    fn argument(&mut self, word: &str) -> Vec<u8> {
        match word {
            "k" => KEYS[self.below(KEYS.len())].to_vec(),
            "v" => self.value(),
            "i" => self.integer(),
            "x" => (i64::from(self.byte() % 48) - 8).to_string().into_bytes(),
            "b" => self.byte().to_string().into_bytes(),
            "s" => self.time(0, 1_000),
            "m" => self.time(0, 1),
            "S" => self.time(self.now_ms, 1_000),
            "M" => self.time(self.now_ms, 1),
            word => word.as_bytes().to_vec(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let kind = self.byte();
        let len = usize::from(kind >> 3);
        match kind & 7 {
            0 => Vec::new(),
            1 => self.integer(),
            2 => (0..len % 8).map(|_| self.byte() & 0x3f).collect(),
            3 => vec![b'a'; len],
            4 => vec![self.byte(); 3 * len],
            5 => b"1234567890123456789012345"[..len.min(25)].to_vec(),
            6 => TEXTS[len % TEXTS.len()].as_bytes().to_vec(),
            _ => (0..len).map(|_| self.byte()).collect(),
        }
    }

    fn integer(&mut self) -> Vec<u8> {
        match self.byte() {
            edge @ 0..=31 => EDGES[usize::from(edge) % EDGES.len()].as_bytes().to_vec(),
            number @ 32..=127 => (i64::from(number) - 80).to_string().into_bytes(),
            number => (i64::from(number) << self.below(56)).to_string().into_bytes(),
        }
    }

    /// A time after `base_ms`, in units of so many milliseconds.
    fn time(&mut self, base_ms: i64, unit_ms: i64) -> Vec<u8> {
        let after_ms = match self.byte() {
            edge @ 0..=7 => return EDGES[usize::from(edge) % EDGES.len()].as_bytes().to_vec(),
            // Past what the short form of an expiry holds.
            8..=15 => 40 * 365 * 86_400_000,
            few @ 16..=31 => i64::from(few) - 18,
            many => (i64::from(many) - 64) * 100,
        };
        ((base_ms + after_ms).div_euclid(unit_ms)).to_string().into_bytes()
    }
}
