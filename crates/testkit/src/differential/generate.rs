//! Random operations from a seed, in epochs that each begin with empty servers.

use std::collections::BTreeSet;

use super::Protocols;
use super::arguments::{Arguments, Payloads, Slot};
use super::behind::Behind;
use super::collections;
use super::commands::{COMMANDS, INTERFERENCE, is_tried};
use super::grammar::Form;
use super::in_script;
use super::keys::{Group, group_of_collections, groups};
use super::later::Later;
use super::slots::{goes_in_parts, is, slots_of};
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
    behind: Behind,
    later: Later,
    arguments: Arguments,
    forms: Vec<(u64, Form)>,
    total_weight: u64,
    interference: Vec<Form>,
    /// Sets and hashes are tried, and no strings.
    collections: bool,
    /// Half of the commands are carried out by scripts.
    in_scripts: bool,
}

/// What is tried.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) behind: Behind,
    pub(super) protocols: Protocols,
    pub(super) later: Later,
    pub(super) payloads: Payloads,
    pub(super) is_keyfold: bool,
    /// Sets and hashes, where fields may expire.
    pub(super) collections: Option<FieldsExpire>,
    /// Half of the commands on those in scripts, and none that makes what scripts refuse: fields that expire.
    pub(super) in_scripts: bool,
}

/// Whether the servers have fields that expire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldsExpire(pub(super) bool);

impl Generator {
    pub(super) fn new(seed: u64, trial: Trial) -> Self {
        let Trial { behind, protocols, later, payloads, is_keyfold, collections, in_scripts } = trial;
        let (commands, interference, groups): (Vec<_>, _, _) = match collections {
            Some(FieldsExpire(do_expire)) => {
                let expiring = collections::FIELD_EXPIRY.iter().filter(|_| do_expire);
                let commands = collections::COMMANDS.iter().chain(expiring).copied().collect();
                (commands, collections::INTERFERENCE, vec![group_of_collections()])
            }
            None => {
                let commands = COMMANDS.iter().copied().filter(|(_, form)| is_tried(form, behind));
                let later = later.forms(is_keyfold && behind == Behind::Server);
                (commands.chain(later).collect(), INTERFERENCE, groups(behind))
            }
        };
        Self {
            random: Random::new(seed),
            protocols,
            behind,
            arguments: Arguments::new(groups, payloads),
            forms: commands.iter().map(|(weight, form)| (*weight, Form::parse(form))).collect(),
            total_weight: commands.iter().map(|(weight, _)| weight).sum(),
            later,
            interference: interference.iter().map(|form| Form::parse(form)).collect(),
            collections: collections.is_some(),
            in_scripts,
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
        for group in self.arguments.groups().iter().filter(|group| !group.other.is_empty()) {
            ops.extend(
                ["RPUSH @ a b", "HSET @ f v", "SADD @ a b", "ZADD @ 1 a"].iter().zip(&group.other).map(with_key),
            );
        }
        while ops.len() < count {
            self.step(&mut ops);
        }
        ops.push(Op::said("DISCARD"));
        let databases: &[u8] = if self.behind.is_cluster() { &[0] } else { &[1, 0] };
        for database in databases {
            ops.push(Op::said(&format!("SELECT {database}")));
            ops.push(Op::said("KEYS *"));
            for key in self.keys() {
                let content: &[&str] = if self.collections { &["SMEMBERS", "HGETALL"] } else { &[] };
                for command in ["GET", "PTTL", "TYPE"].iter().chain(content) {
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
            30..33 if self.collections => {}
            0..25 => self.transaction(ops),
            25..27 => ops.push(Op::said("FLUSHDB")),
            27..29 if self.protocols == Protocols::Both => self.switch_protocol(ops),
            29 => ops.push(Op::said(if self.random.chance(50) { "FLUSHALL" } else { "FLUSHALL ASYNC" })),
            30..33 => self.set_and_encoding(ops),
            _ => ops.push(self.command()),
        }
    }

    fn command(&mut self) -> Op {
        let group = self.arguments.group(&mut self.random);
        self.command_of(group)
    }

    /// A command, most of whose keys are of one group.
    fn command_of(&mut self, group: usize) -> Op {
        loop {
            let mut at = self.random.below(self.total_weight);
            let mut form = &self.forms[0].1;
            for (weight, candidate) in &self.forms {
                form = candidate;
                if at < *weight {
                    break;
                }
                at -= weight;
            }
            let mut args = form.fill(&self.arguments, group, &mut self.random);
            if self.in_scripts && in_script::goes_far(&args) {
                continue;
            }
            if self.in_scripts && self.random.chance(50) {
                args = in_script::wrapped(args);
            }
            // A cluster's node refuses patterns of SORT.
            let sorts_by_others = is(&args, "SORT") && args.len() > 3;
            let is_one_servers = goes_in_parts(&args) || slots_of(&args).len() <= 1 && !sorts_by_others;
            if self.behind != Behind::ClusterAsServer || is_one_servers {
                return Op::new(args);
            }
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let group = self.arguments.group(&mut self.random);
        self.key_of(group)
    }

    fn key_of(&mut self, group: usize) -> Vec<u8> {
        if self.collections {
            let slot = if self.random.chance(50) { Slot::SetKey } else { Slot::HashKey };
            return self.arguments.fill(slot, group, &mut self.random);
        }
        self.arguments.fill(Slot::StringKey, group, &mut self.random)
    }

    fn value(&mut self) -> Vec<u8> {
        self.arguments.fill(Slot::Value, 0, &mut self.random)
    }

    fn switch_protocol(&mut self, ops: &mut Vec<Op>) {
        let hello = *self.random.pick(&["HELLO 2", "HELLO 3", "HELLO 3", "HELLO 2", "HELLO", "HELLO 4", "HELLO x"]);
        ops.push(Op::said(hello));
    }

    fn set_and_encoding(&mut self, ops: &mut Vec<Op>) {
        let key = self.key();
        let value = self.value();
        ops.push(Op::new(vec![b"SET".to_vec(), key.clone(), value]));
        ops.push(Op::new(vec![b"OBJECT".to_vec(), b"ENCODING".to_vec(), key]));
    }

    /// Nothing else is sent between a short expiry and the wait for it, so that no side is early.
    fn expiring(&mut self, ops: &mut Vec<Op>) {
        let key = self.key();
        let value = self.value();
        let short = (1 + self.random.below(5)).to_string().into_bytes();
        let args = match if self.collections { 3 } else { self.random.below(4) } {
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
        let group = self.arguments.group(&mut self.random);
        let watched = self.random.chance(50).then(|| self.key_of(group));
        let mut slots = BTreeSet::new();
        if let Some(key) = &watched {
            let watch = Op::new(vec![b"WATCH".to_vec(), key.clone()]);
            slots.append(&mut slots_of(&watch.args));
            ops.push(watch);
            let between = self.command_of(group);
            if self.random.chance(20) && !between.args.contains(key) && self.may_join(&between.args, &slots) {
                ops.push(between);
            }
            if self.random.chance(40) {
                self.interfere(ops, group, key);
            }
        }
        ops.push(Op::said("MULTI"));
        for _ in 0..self.random.below(8) {
            let op = self.command_of(group);
            if self.is_for_transactions(&op.args, &slots) {
                slots.append(&mut slots_of(&op.args));
                ops.push(op);
            }
        }
        if let Some(key) = watched.filter(|_| self.random.chance(15)) {
            self.interfere(ops, group, &key);
        }
        ops.push(Op::said(if self.random.chance(85) { "EXEC" } else { "DISCARD" }));
    }

    /// Whether a command may stand where keys of these slots are watched: what needs a connection of the client's own at
    /// another node is refused.
    fn may_join(&self, args: &[Vec<u8>], slots: &BTreeSet<u16>) -> bool {
        !self.behind.is_cluster() || !slots_of(args).is_empty() && slots_of(args).is_subset(slots)
    }

    /// Whether a command may be one of a transaction that has keys of these slots.
    fn is_for_transactions(&self, args: &[Vec<u8>], slots: &BTreeSet<u16>) -> bool {
        let is_one = self.behind != Behind::ClusterAsServer || slots.union(&slots_of(args)).count() <= 1;
        // Nor can a script have this one on a key that it shares with others.
        let is_of_objects = self.in_scripts && is(args, "OBJECT");
        let args = in_script::carried_out(args);
        is_one && !is_of_objects && !self.later.models(args) && !is_refused_in_transactions(args, &self.arguments)
    }

    /// A command that changes what the key holds.
    fn change(&mut self, group: usize, key: &[u8]) -> Vec<Vec<u8>> {
        let Group { sets, hashes, .. } = &self.arguments.groups()[group];
        let fresh = self.random.below(u64::MAX).to_string().into_bytes();
        let of = |keys: &[Vec<u8>]| keys.iter().any(|known| known == key);
        let key = key.to_vec();
        match (of(sets), of(hashes)) {
            (true, _) => vec![b"SADD".to_vec(), key, fresh],
            (_, true) => vec![b"HSET".to_vec(), key, b"changed".to_vec(), fresh],
            _ => vec![b"APPEND".to_vec(), key, b"x".to_vec()],
        }
    }

    /// The second connection acts at a known moment: after what was sent, before what will be.
    fn interfere(&mut self, ops: &mut Vec<Op>, group: usize, key: &[u8]) {
        if let Some(before) = ops.last_mut() {
            before.read = true;
        }
        let form = self.random.pick(&self.interference).clone();
        let mut args = form.fill(&self.arguments, group, &mut self.random);
        // A change that is taken back goes unnoticed by a WATCH on a folded key: docs/differences.md.
        let is_across = self.behind == Behind::ClusterAsServer && slots_of(&args).len() > 1;
        if self.random.chance(60) || is_across || args[1..].iter().any(|arg| arg == key) {
            args = self.change(group, key);
        }
        ops.push(Op { second: true, read: true, ..Op::new(args) });
    }
}

/// A command with a key in the place of `@`.
fn with_key((line, key): (&&str, &Vec<u8>)) -> Op {
    let mut op = Op::said(line);
    op.args[1].clone_from(key);
    op
}

/// What docs/differences.md says is refused inside MULTI.
fn is_refused_in_transactions(args: &[Vec<u8>], arguments: &Arguments) -> bool {
    const REFUSED: &[&[u8]] =
        &[b"SELECT", b"HELLO", b"AUTH", b"CLIENT", b"SCAN", b"KEYS", b"DBSIZE", b"RANDOMKEY", b"FLUSHDB", b"FLUSHALL"];
    let is = |word: &[u8]| args[0].eq_ignore_ascii_case(word);
    // A command on folded keys and another type's command on a key they share, or that others join to them, can't be
    // worked out in one.
    let names = |of: fn(&Group) -> &Vec<Vec<u8>>| {
        args[1..].iter().any(|arg| arguments.groups().iter().any(|group| of(group).contains(arg)))
    };
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let works_out = |command: &keyfold_core::command::Command| {
        command.run.is_some() || command.members.is_some() && !arguments.groups()[0].sets.is_empty()
    };
    let other_type = !keyfold_core::command::table().resolve(&words).is_some_and(works_out);
    let plain =
        names(|group| &group.plain) || args[1..].iter().any(|arg| arg.first().is_none_or(|first| *first == b'\0'));
    let collections = names(|group| &group.sets) || names(|group| &group.hashes);
    let shares = (other_type && (plain || collections))
        || names(|group| &group.other) && (plain || names(|group| &group.folded));
    REFUSED.iter().any(|word| is(word))
        || shares
        || (is(b"COPY") && args.iter().any(|arg| as_server_reads(arg).eq_ignore_ascii_case(b"DB")))
}

/// What a server reads of a word that may be an option: up to the first NUL.
fn as_server_reads(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}
