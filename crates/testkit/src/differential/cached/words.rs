//! The commands of random clients with caches and of random writers, the keys that they name, and layouts that fold these in
//! every way.

use std::fmt;

use keyfold_core::layout::{Layout, Located};

use crate::random::Random;

/// A namespace of each way to fold: buckets, values of which some spill; keys of their own under short names; values that are
/// frames. Keys of `plain` are in none.
pub const CACHED_LAYOUT: &str = r#"[[namespace]]
keys = "user:{id:int}"
bucket = { span = 64 }
value_limit = 32

[[namespace]]
keys = "cart:{id:int}"
bucket = { count = 2 }

[[namespace]]
keys = "post:{id:int}:{part}"
bucket = { by = "id" }

[[namespace]]
keys = "zip:{id:int}"

[[namespace]]
keys = "own:{id:int}"
placement = "framed"
codec = "hex"
"#;

/// The same with a codec each.
pub const CODED_CACHED_LAYOUT: &str = r#"[[namespace]]
keys = "user:{id:int}"
bucket = { span = 64 }
value_limit = 32
codec = "zstd"

[[namespace]]
keys = "cart:{id:int}"
bucket = { count = 2 }
codec = "hex"

[[namespace]]
keys = "post:{id:int}:{part}"
bucket = { by = "id" }
codec = { name = "zstd", level = 3 }

[[namespace]]
keys = "zip:{id:int}"
codec = "zstd"

[[namespace]]
keys = "own:{id:int}"
placement = "framed"
codec = "hex"
"#;

/// What keys begin with, for clients that are told by prefix.
pub(super) const PREFIXES: [&str; 6] = ["user:", "cart:", "post:", "zip:", "own:", "plain"];
/// Keys of each family.
const KEYS: u64 = 12;

/// Writes, where `A` and `B` stand for keys, `V` for a number, `LONG` for a text that spills or is compressed, `HEX` for one
/// that the codec hex writes, `MS` for a time that is over soon. A line comes as often as it stands here.
const WRITES: &[&str] = &[
    "SET A V",
    "SET A V",
    "SET A V",
    "SET A LONG",
    "SET A LONG",
    "SET A HEX",
    "SET A V PX MS",
    "SET A LONG PX MS",
    "SET A V KEEPTTL",
    "PSETEX A MS V",
    "MSET A V B LONG plain3 V",
    "MSET A LONG user:3 V cart:3 V",
    "MSETNX A V B V",
    "SETNX A V",
    "GETSET A V",
    "DEL A",
    "DEL A B",
    "UNLINK A",
    "GETDEL A",
    "APPEND A V",
    "APPEND A LONG",
    "SETRANGE A 3 V",
    "SETBIT A 5 1",
    "INCR A",
    "INCRBYFLOAT A 0.5",
    "RENAME A B",
    "RENAMENX A B",
    "COPY A B REPLACE",
    "BITOP NOT A B",
    "PEXPIRE A MS",
    "EXPIRE A 0",
    "EXPIRE A 100",
    "PERSIST A",
    "GETEX A PERSIST",
    "GETEX A PX MS",
    "EVAL return(redis.call('SET',KEYS[1],ARGV[1])) 1 A V",
    "EVAL return(redis.call('APPEND',KEYS[1],ARGV[1])) 1 A V",
    "EVAL redis.call('DEL',KEYS[2])return(redis.call('SET',KEYS[1],ARGV[1],'PX',ARGV[2])) 2 A B LONG MS",
];

/// Reads whose answer is the value of each of their keys.
const READS: &[&str] = &[
    "GET A",
    "GET A",
    "GET A",
    "MGET A B",
    "MGET A B",
    "EVAL_RO return(redis.call('GET',KEYS[1])) 1 A",
    "EVAL return(redis.call('GET',KEYS[1])) 1 A",
];

/// A command of words without spaces.
#[derive(Clone, Debug)]
pub(super) struct Command {
    text: String,
    /// What it is carried out for, where it doesn't say so itself.
    about: String,
}

impl Command {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), about: String::new() }
    }

    /// Commands in a transaction, which carries them out by its last.
    pub(super) fn transaction(commands: Vec<Self>) -> Vec<Self> {
        let about = commands.iter().map(|command| command.text.as_str()).collect::<Vec<_>>().join("; ");
        let exec = Self { text: "EXEC".to_owned(), about };
        [vec![Self::new("MULTI")], commands, vec![exec]].concat()
    }

    /// As it is sent.
    pub(super) fn words(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ')
    }

    /// The keys that it names, in their order.
    pub(super) fn keys(&self) -> Vec<String> {
        let is_key = |word: &&str| PREFIXES.iter().any(|prefix| word.starts_with(prefix));
        self.words().filter(is_key).map(str::to_owned).collect()
    }

    /// Whether it may change what is known of a key.
    pub(super) fn concerns(&self, key: &str) -> bool {
        let all = ["FLUSHALL", "KILL", "TRACKING"];
        self.words().chain(self.about.split([' ', ';'])).any(|word| word == key || all.contains(&word))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.about.is_empty() { Ok(()) } else { write!(f, " ({})", self.about) }
    }
}

/// Every key.
pub(super) fn all_keys() -> Vec<String> {
    PREFIXES.iter().flat_map(|prefix| (0..KEYS).map(|id| key_of(prefix, id))).collect()
}

fn key_of(prefix: &str, id: u64) -> String {
    if prefix == "post:" { format!("{prefix}{}:{id}", id % 3) } else { format!("{prefix}{id}") }
}

fn key(random: &mut Random) -> String {
    let prefix = *random.pick(&PREFIXES);
    key_of(prefix, random.below(KEYS))
}

fn fill(form: &str, random: &mut Random) -> Command {
    let word = |word: &str| match word {
        "A" | "B" => key(random),
        "V" => random.below(1000).to_string(),
        "LONG" => "x".repeat(20 + random.index(1000)),
        "HEX" => format!("{:016x}{:016x}", random.bits(), random.bits()),
        "MS" => (1 + random.below(30)).to_string(),
        word => word.to_owned(),
    };
    Command::new(form.split(' ').map(word).collect::<Vec<_>>().join(" "))
}

/// A read that answers the value of each of its keys.
pub(super) fn read(random: &mut Random) -> Command {
    let form = *random.pick(READS);
    fill(form, random)
}

/// A write, or some in a transaction.
pub(super) fn writes(random: &mut Random) -> Vec<Command> {
    let write = |random: &mut Random| {
        let form = *random.pick(WRITES);
        fill(form, random)
    };
    if random.chance(10) {
        return Command::transaction((0..=random.below(3)).map(|_| write(random)).collect());
    }
    vec![write(random)]
}

/// What somebody does to a key's place in the server who knows nothing of keyfold, and what that is to be called.
pub(super) fn past(layout: &Layout, random: &mut Random) -> (Vec<Vec<u8>>, Command) {
    let key = key(random);
    let shown = Command::new(format!("past keyfold changes {key}"));
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
    let args = match layout.locate(key.as_bytes()) {
        Located::Placed(place) if place.kind.is_field() => words(&[b"HDEL", &place.physical, &place.field]),
        Located::Placed(place) => words(&[b"UNLINK", &place.physical]),
        _ if random.chance(50) => words(&[b"SET", key.as_bytes(), b"past"]),
        _ => words(&[b"SET", key.as_bytes(), b"past", b"PX", b"5"]),
    };
    (args, shown)
}
