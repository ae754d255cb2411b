//! A server in a few lines: hashes for buckets, and a space of strings for all else. No I/O, no threads.

use std::collections::BTreeMap;

use keyfold_core::command::table;
use keyfold_core::dialect::Dialect;
use keyfold_core::resp::{Answer, Protocol, Reply};
use keyfold_core::string::{Call, Entry, Held, Space, finish};
use sha1::Digest as _;

type Args = Vec<Vec<u8>>;

/// What the server holds.
#[derive(Clone, Debug)]
pub struct FakeServer {
    strings: Space,
    hashes: BTreeMap<Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>>,
    /// How often each key was written, for WATCH.
    writes: BTreeMap<Vec<u8>, u64>,
    /// The scripts that it knows, by their hashes.
    scripts: BTreeMap<Vec<u8>, Script>,
}

/// What a script of keyfold's does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    CompareAndSet,
    /// The same for many groups.
    Each,
    /// Writes to fields, or a move of keys. There is no Lua here: it answers as if it couldn't do what it was asked for.
    Declined,
}

impl Script {
    /// Which one a text is, by what it says of itself.
    fn of(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        match () {
            () if text.contains("-- keyfold: for each group") => Self::Each,
            () if ["commands on fields of one bucket", "brings keys of their own", "takes keys out of buckets"]
                .iter()
                .any(|what| text.contains(&format!("-- keyfold: {what}"))) =>
            {
                Self::Declined
            }
            () => Self::CompareAndSet,
        }
    }
}

/// What the server remembers of one connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    protocol: Protocol,
    queue: Option<Vec<Args>>,
    watched: BTreeMap<Vec<u8>, (u64, bool)>,
}

impl Connection {
    /// Whether a transaction is open: what comes now is queued, and nothing happens before EXEC.
    pub fn in_transaction(&self) -> bool {
        self.queue.is_some()
    }

    /// Chooses the protocol, as HELLO does.
    pub fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }
}

impl FakeServer {
    /// An empty server at a time, in milliseconds since 1970.
    pub fn new(now_ms: i64) -> Self {
        Self { strings: Space::new(now_ms), hashes: BTreeMap::new(), writes: BTreeMap::new(), scripts: BTreeMap::new() }
    }

    /// Moves the clock.
    pub fn advance_to(&mut self, now_ms: i64) {
        self.strings.set_now_ms(now_ms);
    }

    /// What lies under a key that is no hash.
    pub fn held(&self, key: &[u8]) -> &Held {
        self.strings.held(key)
    }

    /// A field of a hash.
    pub fn field(&self, key: &[u8], field: &[u8]) -> Option<&[u8]> {
        self.hashes.get(key)?.get(field).map(Vec::as_slice)
    }

    /// Every hash, field and value.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8], &[u8])> {
        self.hashes.iter().flat_map(|(key, fields)| {
            fields.iter().map(|(field, value)| (key.as_slice(), field.as_slice(), value.as_slice()))
        })
    }

    /// Gives a hash a field, as an application did before keyfold came.
    pub fn put_field(&mut self, key: &[u8], field: &[u8], value: &[u8]) {
        self.set_field(key, field, value);
    }

    /// Runs one command of a connection and returns its reply.
    pub fn run(&mut self, connection: &mut Connection, args: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, connection.protocol);
        match (args[0].to_ascii_lowercase().as_slice(), &mut connection.queue) {
            (b"multi", None) => {
                connection.queue = Some(Vec::new());
                answer.ok();
            }
            (b"exec", Some(_)) => {
                let queue = connection.queue.take().unwrap_or_default();
                let watched = std::mem::take(&mut connection.watched);
                if watched.iter().any(|(key, watch)| self.watch_of(key) != *watch) {
                    answer.nil_array();
                } else {
                    answer.array(queue.len());
                    for command in queue {
                        self.execute(&command, &mut answer);
                    }
                }
            }
            (_, Some(queue)) => {
                queue.push(args.to_vec());
                answer.simple("QUEUED");
            }
            (b"watch", None) => {
                for key in &args[1..] {
                    connection.watched.insert(key.clone(), self.watch_of(key));
                }
                answer.ok();
            }
            (b"unwatch", None) => {
                connection.watched.clear();
                answer.ok();
            }
            (_, None) => self.execute(args, &mut answer),
        }
        out
    }

    /// How often a key was written, and whether it is there: one that has expired is gone without a write.
    fn watch_of(&self, key: &[u8]) -> (u64, bool) {
        (self.writes.get(key).copied().unwrap_or(0), self.strings.exists(key))
    }

    fn touch(&mut self, key: &[u8]) {
        *self.writes.entry(key.to_vec()).or_default() += 1;
    }

    fn execute(&mut self, args: &[Vec<u8>], answer: &mut Answer<'_>) {
        match args[0].to_ascii_lowercase().as_slice() {
            b"hget" | b"hmget" | b"hset" | b"hsetnx" | b"hincrby" | b"hdel" | b"hscan" => {
                self.hash_command(args, answer);
            }
            b"scan" => self.scan(answer),
            b"script" => {
                let sha = self.learn(&args[2]);
                answer.bulk(&sha);
            }
            b"eval" => {
                let sha = self.learn(&args[1]);
                self.run_script(&sha, args, answer);
            }
            b"evalsha" => self.run_script(&args[1], args, answer),
            b"incrbyfloat" => self.add_float(args, answer),
            b"time" => {
                let now_ms = self.strings.now_ms();
                answer.array(2);
                answer.bulk((now_ms / 1000).to_string().as_bytes());
                answer.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
            }
            b"hello" => answer.map(0),
            _ => self.string_command(args, answer),
        }
    }

    /// Keeps a script; with its hash.
    fn learn(&mut self, text: &[u8]) -> Vec<u8> {
        let sha = sha1::Sha1::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes();
        self.scripts.insert(sha.clone(), Script::of(text));
        sha
    }

    fn run_script(&mut self, sha: &[u8], args: &[Vec<u8>], answer: &mut Answer<'_>) {
        match self.scripts.get(sha) {
            None => answer.error("NOSCRIPT No matching script. Please use EVAL."),
            Some(Script::Declined) => answer.simple("?"),
            Some(Script::Each) => self.compare_and_set_each(args, answer),
            Some(Script::CompareAndSet) => {
                let done = self.compare_and_set(args, answer.protocol());
                answer.integer(i64::from(done));
            }
        }
    }

    fn hash_command(&mut self, args: &[Vec<u8>], answer: &mut Answer<'_>) {
        let key = &args[1];
        match args[0].to_ascii_lowercase().as_slice() {
            b"hget" => bulk_or_nil(self.field(key, &args[2]), answer),
            b"hmget" => {
                answer.array(args.len() - 2);
                args[2..].iter().for_each(|field| bulk_or_nil(self.field(key, field), answer));
            }
            b"hset" => {
                let pairs = args[2..].chunks_exact(2);
                answer.integer(pairs.map(|pair| i64::from(self.set_field(key, &pair[0], &pair[1]))).sum());
            }
            b"hsetnx" if self.field(key, &args[2]).is_some() => answer.integer(0),
            b"hsetnx" => answer.integer(i64::from(self.set_field(key, &args[2], &args[3]))),
            b"hscan" => self.scan_fields(key, &args[2], answer),
            b"hdel" => {
                let deleted = args[2..].iter().map(|field| i64::from(self.delete_field(key, field))).sum();
                answer.integer(deleted);
            }
            _ => self.increment_field(args, answer),
        }
    }

    /// Whether the field is new.
    fn set_field(&mut self, key: &[u8], field: &[u8], value: &[u8]) -> bool {
        self.touch(key);
        self.hashes.entry(key.to_vec()).or_default().insert(field.to_vec(), value.to_vec()).is_none()
    }

    fn delete_field(&mut self, key: &[u8], field: &[u8]) -> bool {
        let Some(fields) = self.hashes.get_mut(key) else { return false };
        let deleted = fields.remove(field).is_some();
        if fields.is_empty() {
            self.hashes.remove(key);
        }
        if deleted {
            self.touch(key);
        }
        deleted
    }

    /// HINCRBY: only where the field is a number in its one decimal form.
    fn increment_field(&mut self, args: &[Vec<u8>], answer: &mut Answer<'_>) {
        let canonical = |text: &[u8]| {
            let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
            (number.to_string().as_bytes() == text).then_some(number)
        };
        let Some(by) = canonical(&args[3]) else { return answer.error("ERR value is not an integer or out of range") };
        let Some(old) = self.field(&args[1], &args[2]).map_or(Some(0), canonical) else {
            return answer.error("ERR hash value is not an integer");
        };
        let Some(sum) = old.checked_add(by) else {
            return answer.error("ERR increment or decrement would overflow");
        };
        self.set_field(&args[1], &args[2], sum.to_string().as_bytes());
        answer.integer(sum);
    }

    /// HSCAN, two fields at a time: a cursor is `>` and the last field that was given.
    fn scan_fields(&self, key: &[u8], cursor: &[u8], answer: &mut Answer<'_>) {
        let last = cursor.strip_prefix(b">");
        let fields = self.hashes.get(key).into_iter().flatten();
        let mut left = fields.filter(|(field, _)| last.is_none_or(|last| field.as_slice() > last)).peekable();
        let some: Vec<_> = left.by_ref().take(2).collect();
        let next = match some.last() {
            Some((field, _)) if left.peek().is_some() => [b">", field.as_slice()].concat(),
            _ => b"0".to_vec(),
        };
        answer.array(2);
        answer.bulk(&next);
        answer.array(2 * some.len());
        for (field, stored) in some {
            answer.bulk(field);
            answer.bulk(stored);
        }
    }

    /// SCAN, all at once.
    fn scan(&self, answer: &mut Answer<'_>) {
        let names: Vec<&[u8]> = self.hashes.keys().map(Vec::as_slice).chain(self.strings.keys()).collect();
        answer.array(2);
        answer.bulk(b"0");
        answer.array(names.len());
        names.into_iter().for_each(|name| answer.bulk(name));
    }

    /// What `compare_and_set_each.lua` does.
    fn compare_and_set_each(&mut self, args: &[Vec<u8>], answer: &mut Answer<'_>) {
        let (keys, rest) = split_count(&args[2..]);
        let mut rest = &rest[keys..];
        let mut changed = Vec::new();
        let mut group = 0;
        while !rest.is_empty() {
            group += 1;
            let (checks, after) = split_count(rest);
            let (writes, after) = split_count(after);
            rest = after;
            let mut holds = true;
            for _ in 0..checks {
                let (len, command) = split_count(rest);
                let (command, after) = command.split_at(len);
                holds = holds && self.holds(command, &after[0], answer.protocol());
                rest = &after[1..];
            }
            for _ in 0..writes {
                let (len, command) = split_count(rest);
                let (command, after) = command.split_at(len);
                if holds {
                    self.execute(command, &mut Answer::new(&mut Vec::new(), answer.protocol()));
                }
                rest = after;
            }
            if !holds {
                changed.push(group);
            }
        }
        answer.array(changed.len());
        changed.into_iter().for_each(|group| answer.integer(group));
    }

    /// What `compare_and_set.lua` does.
    fn compare_and_set(&mut self, args: &[Vec<u8>], protocol: Protocol) -> bool {
        let (keys, rest) = split_count(&args[2..]);
        let (checks, mut rest) = split_count(&rest[keys..]);
        for _ in 0..checks {
            let (len, command) = split_count(rest);
            let (command, after) = command.split_at(len);
            if !self.holds(command, &after[0], protocol) {
                return false;
            }
            rest = &after[1..];
        }
        while !rest.is_empty() {
            let (len, command) = split_count(rest);
            let (command, after) = command.split_at(len);
            self.execute(command, &mut Answer::new(&mut Vec::new(), protocol));
            rest = after;
        }
        true
    }

    /// Whether a check answers as expected.
    fn holds(&mut self, command: &[Vec<u8>], expected: &[u8], protocol: Protocol) -> bool {
        if command[0] == b"TIME" {
            let bound_ms: Option<i64> = str::from_utf8(&expected[1..]).ok().and_then(|text| text.parse().ok());
            let must_be_later = expected[0] == b'>';
            return bound_ms.is_some_and(|bound_ms| (self.strings.now_ms() > bound_ms) == must_be_later);
        }
        self.read(command, protocol) == expected
    }

    /// A check's reply in the script's words: `-` for absent, else `+` and the reply.
    fn read(&mut self, command: &[Vec<u8>], protocol: Protocol) -> Vec<u8> {
        let mut out = Vec::new();
        self.execute(command, &mut Answer::new(&mut out, protocol));
        match Reply::parse(&out) {
            Ok(Reply::Bulk(bytes) | Reply::Simple(bytes)) => [b"+", bytes].concat(),
            Ok(Reply::Integer(number)) => format!("+{number}").into_bytes(),
            _ => b"-".to_vec(),
        }
    }

    /// INCRBYFLOAT in doubles; how exactly a server adds is not what is tried.
    fn add_float(&mut self, args: &[Vec<u8>], answer: &mut Answer<'_>) {
        let float = |text: &[u8]| str::from_utf8(text).ok()?.parse::<f64>().ok().filter(|number| number.is_finite());
        let Ok(old) = self.strings.string(&args[1]).map(Option::<&Entry>::cloned) else {
            return answer.error(keyfold_core::string::WRONG_TYPE);
        };
        let number = old.as_ref().map_or(Some(0.0), |entry| float(&entry.value));
        let (Some(number), Some(by)) = (number, float(&args[2])) else {
            return answer.error("ERR value is not a valid float");
        };
        let value = (number + by).to_string().into_bytes();
        answer.bulk(&value);
        self.touch(&args[1]);
        self.strings.put(&args[1], Entry { value, expires_at_ms: old.and_then(|entry| entry.expires_at_ms) });
    }

    fn string_command(&mut self, args: &[Vec<u8>], answer: &mut Answer<'_>) {
        let name = args[0].as_slice();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let run = table().resolve(&args).and_then(|command| command.run);
        let run = run.unwrap_or_else(|| panic!("the fake server has no {}", name.escape_ascii()));
        let before: Vec<Held> = args.iter().map(|key| self.strings.held(key).clone()).collect();
        let asked = finish(run(&Call { args: &args, dialect: Dialect::default() }, &mut self.strings, answer), answer);
        assert!(asked.is_ok(), "{} asks the fake server for help", name.escape_ascii());
        for (key, before) in args.iter().zip(before) {
            if *self.strings.held(key) != before {
                self.touch(key);
            }
        }
    }
}

/// A number, and the arguments behind it.
fn split_count(args: &[Vec<u8>]) -> (usize, &[Vec<u8>]) {
    let (count, rest) = args.split_first().expect("the script gets all its arguments");
    (str::from_utf8(count).ok().and_then(|text| text.parse().ok()).expect("the script's counts are numbers"), rest)
}

fn bulk_or_nil(value: Option<&[u8]>, answer: &mut Answer<'_>) {
    match value {
        Some(bytes) => answer.bulk(bytes),
        None => answer.nil(),
    }
}
