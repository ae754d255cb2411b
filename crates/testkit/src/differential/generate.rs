//! Random operations from a seed, in epochs that each begin with empty servers.

use super::Protocols;
use super::arguments::{Arguments, Slot};
use super::commands::{COMMANDS, INTERFERENCE};
use super::grammar::Form;
use crate::random::Random;

/// Of 100,000 steps so many let a key expire; each takes a wait.
const EXPIRING_PER_100_000: u64 = 40;
/// How long to wait for it, in milliseconds.
const WAIT_MS: u64 = 25;

/// One command, and when its reply is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Op {
    /// The command.
    pub(super) args: Vec<Vec<u8>>,
    /// Whether the second connection sends it.
    pub(super) second: bool,
    /// Its reply, and all before it, are read before anything more is sent.
    pub(super) read: bool,
    /// How long to wait once they are read.
    pub(super) wait_ms: u64,
}

impl Op {
    pub(super) fn new(args: Vec<Vec<u8>>) -> Self {
        Self { args, second: false, read: false, wait_ms: 0 }
    }

    fn said(line: &str) -> Self {
        Self::new(line.split(' ').map(|word| word.as_bytes().to_vec()).collect())
    }
}

/// Makes epochs of operations.
#[derive(Debug)]
pub(super) struct Generator {
    random: Random,
    protocols: Protocols,
    arguments: Arguments,
    forms: Vec<(u64, Form)>,
    total_weight: u64,
    interference: Vec<Form>,
}

impl Generator {
    pub(super) fn new(seed: u64, protocols: Protocols, payloads: Vec<Vec<u8>>) -> Self {
        Self {
            random: Random::new(seed),
            protocols,
            arguments: Arguments::new(payloads),
            forms: COMMANDS.iter().map(|(weight, form)| (*weight, Form::parse(form))).collect(),
            total_weight: COMMANDS.iter().map(|(weight, _)| weight).sum(),
            interference: INTERFERENCE.iter().map(|form| Form::parse(form)).collect(),
        }
    }

    /// Every key that operations name.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        self.arguments.keys()
    }

    /// About `count` operations, a first few to begin with and the state of every key at the end.
    pub(super) fn epoch(&mut self, count: usize) -> Vec<Op> {
        let protocol = match self.protocols {
            Protocols::Resp2 => 2,
            Protocols::Resp3 => 3,
            Protocols::Both => 2 + self.random.below(2),
        };
        let mut ops = vec![Op::said(&format!("HELLO {protocol}"))];
        ops.extend(["RPUSH list:a a b", "HSET hash:a f v", "SADD set:a a b", "ZADD zset:a 1 a"].map(Op::said));
        while ops.len() < count {
            self.step(&mut ops);
        }
        ops.push(Op::said("DISCARD"));
        for database in [1, 0] {
            ops.push(Op::said(&format!("SELECT {database}")));
            ops.push(Op::said("KEYS *"));
            for key in self.keys() {
                for command in ["GET", "PTTL", "TYPE"] {
                    ops.push(Op::new(vec![command.as_bytes().to_vec(), key.clone()]));
                }
            }
        }
        ops.push(Op::said("ECHO end"));
        self.set_reads(&mut ops);
        ops
    }

    /// Pipelines of random depth.
    fn set_reads(&mut self, ops: &mut [Op]) {
        let mut depth = 1;
        let mut left = depth;
        for op in ops {
            left -= 1;
            op.read |= left == 0;
            if op.read {
                depth = if self.random.chance(30) { 1 } else { 1 + self.random.below(100) };
                left = depth;
            }
        }
    }

    fn step(&mut self, ops: &mut Vec<Op>) {
        if self.random.below(100_000) < EXPIRING_PER_100_000 {
            return self.expiring(ops);
        }
        match self.random.below(1000) {
            0..25 => self.transaction(ops),
            25..27 => ops.push(Op::said("FLUSHDB")),
            27..29 if self.protocols == Protocols::Both => self.switch_protocol(ops),
            29 => ops.push(Op::said(if self.random.chance(50) { "FLUSHALL" } else { "FLUSHALL ASYNC" })),
            30..33 => self.set_and_encoding(ops),
            _ => ops.push(self.command()),
        }
    }

    fn command(&mut self) -> Op {
        let mut at = self.random.below(self.total_weight);
        let mut form = &self.forms[0].1;
        for (weight, candidate) in &self.forms {
            form = candidate;
            if at < *weight {
                break;
            }
            at -= weight;
        }
        Op::new(form.fill(&self.arguments, &mut self.random))
    }

    fn key(&mut self) -> Vec<u8> {
        self.arguments.fill(Slot::StringKey, &mut self.random)
    }

    fn switch_protocol(&mut self, ops: &mut Vec<Op>) {
        let hello = *self.random.pick(&["HELLO 2", "HELLO 3", "HELLO 3", "HELLO 2", "HELLO", "HELLO 4", "HELLO x"]);
        ops.push(Op::said(hello));
    }

    fn set_and_encoding(&mut self, ops: &mut Vec<Op>) {
        let key = self.key();
        let value = self.arguments.fill(Slot::Value, &mut self.random);
        ops.push(Op::new(vec![b"SET".to_vec(), key.clone(), value]));
        ops.push(Op::new(vec![b"OBJECT".to_vec(), b"ENCODING".to_vec(), key]));
    }

    /// Nothing else is sent between a short expiry and the wait for it, so that no side is early.
    fn expiring(&mut self, ops: &mut Vec<Op>) {
        let key = self.key();
        let value = self.arguments.fill(Slot::Value, &mut self.random);
        let short = (1 + self.random.below(5)).to_string().into_bytes();
        let args = match self.random.below(4) {
            0 => vec![b"SET".to_vec(), key, value, b"PX".to_vec(), short],
            1 => vec![b"PSETEX".to_vec(), key, short, value],
            2 => vec![b"GETEX".to_vec(), key, b"PX".to_vec(), short],
            _ => vec![b"PEXPIRE".to_vec(), key, short],
        };
        if let Some(before) = ops.last_mut() {
            before.read = true;
        }
        ops.push(Op { read: true, wait_ms: WAIT_MS, ..Op::new(args) });
    }

    fn transaction(&mut self, ops: &mut Vec<Op>) {
        let watched = self.random.chance(50).then(|| self.key());
        if let Some(key) = &watched {
            ops.push(Op::new(vec![b"WATCH".to_vec(), key.clone()]));
            let between = self.command();
            if self.random.chance(20) && !between.args.contains(key) {
                ops.push(between);
            }
            if self.random.chance(40) {
                self.interfere(ops, key);
            }
        }
        ops.push(Op::said("MULTI"));
        for _ in 0..self.random.below(8) {
            let op = self.command();
            if !is_refused_in_transactions(&op.args) {
                ops.push(op);
            }
        }
        if let Some(key) = watched.filter(|_| self.random.chance(15)) {
            self.interfere(ops, &key);
        }
        ops.push(Op::said(if self.random.chance(85) { "EXEC" } else { "DISCARD" }));
    }

    /// The second connection acts at a known moment: after what was sent, before what will be.
    fn interfere(&mut self, ops: &mut Vec<Op>, key: &[u8]) {
        if let Some(before) = ops.last_mut() {
            before.read = true;
        }
        let form = self.random.pick(&self.interference).clone();
        let mut args = form.fill(&self.arguments, &mut self.random);
        // A change that is taken back goes unnoticed by a WATCH on a folded key: docs/differences.md.
        if self.random.chance(60) || args[1..].iter().any(|arg| arg == key) {
            args = vec![b"APPEND".to_vec(), key.to_vec(), b"x".to_vec()];
        }
        ops.push(Op { second: true, read: true, ..Op::new(args) });
    }
}

/// What docs/differences.md says is refused inside MULTI.
fn is_refused_in_transactions(args: &[Vec<u8>]) -> bool {
    const REFUSED: &[&[u8]] =
        &[b"SELECT", b"HELLO", b"AUTH", b"CLIENT", b"SCAN", b"KEYS", b"DBSIZE", b"RANDOMKEY", b"FLUSHDB", b"FLUSHALL"];
    let is = |word: &[u8]| args[0].eq_ignore_ascii_case(word);
    // A command on folded keys and another type's command on a key they share, or that others join to them, can't be
    // worked out in one.
    let names = |of: &[&str]| args[1..].iter().any(|arg| of.iter().any(|start| arg.starts_with(start.as_bytes())));
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let other_type = keyfold_core::command::table().resolve(&words).is_none_or(|command| command.run.is_none());
    let plain = names(&["plain:", "user:007", "sess:00000000-0000-4000-8000-00000000000A", "h:0", "h:A", "\0"])
        || args[1..].iter().any(Vec::is_empty);
    let shares = (other_type && plain)
        || names(&["list:", "hash:", "set:", "zset:"])
            && (plain || names(&["user:", "sess:", "h:", "cnt:", "post:", "page:"]));
    REFUSED.iter().any(|word| is(word))
        || shares
        || (is(b"COPY") && args.iter().any(|arg| as_server_reads(arg).eq_ignore_ascii_case(b"DB")))
}

/// What a server reads of a word that may be an option: up to the first NUL.
fn as_server_reads(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}
