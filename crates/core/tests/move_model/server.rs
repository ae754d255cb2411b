//! The server's part in a change of the layout: the keys, and the steps on them, read from the very bytes that members
//! and coordinators send.

use std::collections::BTreeMap;

use keyfold_core::admin::{ANSWERS_KEY, CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use keyfold_core::change::Register;
use keyfold_core::resp::{Reply, ReplyScanner, write_bulk, write_command};

/// What the server holds of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) now_ms: i64,
    pub(crate) answers: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The announcement, and when it is gone.
    pub(crate) change: Option<(Vec<u8>, i64)>,
    /// The two halves of the register, each by the number of a layout.
    pub(crate) layout: Option<u8>,
    pub(crate) copy: Option<u8>,
    /// What witnesses hold, by their keys.
    pub(crate) witnesses: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Server {
    /// Time passes.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        if self.change.as_ref().is_some_and(|(_, until_ms)| *until_ms <= self.now_ms) {
            self.change = None;
        }
    }

    /// What the register holds.
    pub(crate) fn register(&self) -> Register {
        Register { layout: self.layout.map(text_of), copy: self.copy.map(text_of) }
    }

    /// Answers what a member or a coordinator asks.
    pub(crate) fn ask(&self, wire: &[u8]) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        let mut commands = wire;
        while let Some(command) = next_command(&mut commands) {
            let mut args: Vec<&[u8]> = vec![];
            args.extend(command);
            let mut reply = Vec::new();
            match args.as_slice() {
                [b"TIME"] => {
                    let (seconds, micros) = (self.now_ms / 1000, self.now_ms % 1000 * 1000);
                    write_command(&mut reply, &[seconds.to_string().as_bytes(), micros.to_string().as_bytes()]);
                }
                [b"HGETALL", key] if *key == ANSWERS_KEY => {
                    let pairs = self.answers.iter().flat_map(|(member, text)| [member.as_slice(), text]);
                    write_command(&mut reply, &pairs.collect::<Vec<_>>());
                }
                [b"MGET", keys @ ..] => {
                    reply.extend_from_slice(format!("*{}\r\n", keys.len()).as_bytes());
                    keys.iter().for_each(|key| write_found(&mut reply, self.read(&[b"GET", key])));
                }
                read => write_found(&mut reply, self.read(read)),
            }
            replies.push(reply);
        }
        replies
    }

    fn read(&self, command: &[&[u8]]) -> Option<Vec<u8>> {
        match command {
            [b"HGET", key, member] if *key == ANSWERS_KEY => self.answers.get(*member).cloned(),
            [b"GET", key] if *key == CHANGE_KEY => self.change.as_ref().map(|(text, _)| text.clone()),
            [b"GET", key] if *key == LAYOUT_KEY => self.layout.map(text_of),
            [b"GET", key] if *key == COPY_KEY => self.copy.map(text_of),
            [b"GET", key] => self.witnesses.get(*key).cloned(),
            _ => panic!("the model's server does not know {command:?}"),
        }
    }

    fn write(&mut self, command: &[&[u8]]) {
        match command {
            [b"HSET", key, member, text] if *key == ANSWERS_KEY => {
                self.answers.insert(member.to_vec(), text.to_vec());
            }
            [b"SET", key, text, b"PX", ms] if *key == CHANGE_KEY => {
                let ms: i64 = std::str::from_utf8(ms).unwrap().parse().unwrap();
                self.change = Some((text.to_vec(), self.now_ms + ms));
            }
            [b"DEL", key] if *key == CHANGE_KEY => self.change = None,
            [b"DEL", key] if *key == ANSWERS_KEY => self.answers.clear(),
            [b"DEL", key] => drop(self.witnesses.remove(*key)),
            [b"SET", key, text] if *key == LAYOUT_KEY => self.layout = Some(number_of(text)),
            [b"SET", key, text] if *key == COPY_KEY => self.copy = Some(number_of(text)),
            [b"SET", key, held] => drop(self.witnesses.insert(key.to_vec(), held.to_vec())),
            _ => panic!("the model's server does not know {command:?}"),
        }
    }

    /// Carries out a compare-and-set as the script does, or a plain command; whether all checks held.
    pub(crate) fn compare_and_set(&mut self, wire: &[u8], blind: bool) -> bool {
        let mut rest = wire;
        let args: Vec<&[u8]> = next_command(&mut rest).expect("a whole command").collect();
        if let [b"EVAL", _, b"1", key, warning] = args[..] {
            self.write(&[b"SET", key, warning]);
            return true;
        }
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<usize>().unwrap();
        let mut at = 3 + number(args[2]);
        let checks = number(args[at]);
        at += 1;
        for _ in 0..checks {
            let words = number(args[at]);
            let (command, expected) = (&args[at + 1..at + 1 + words], args[at + 1 + words]);
            at += words + 2;
            let found = self.read(command).map_or_else(|| b"-".to_vec(), |bytes| [b"+", bytes.as_slice()].concat());
            let on_answers = command[1] == ANSWERS_KEY;
            if found != expected && !(blind && on_answers) {
                return false;
            }
        }
        while at < args.len() {
            let words = number(args[at]);
            self.write(&args[at + 1..at + 1 + words]);
            at += words + 1;
        }
        true
    }
}

fn write_found(reply: &mut Vec<u8>, found: Option<Vec<u8>>) {
    match found {
        Some(bytes) => write_bulk(reply, &bytes),
        None => reply.extend_from_slice(b"$-1\r\n"),
    }
}

/// The stored form of a layout, which is its number here.
pub(crate) fn text_of(layout: u8) -> Vec<u8> {
    layout.to_string().into_bytes()
}

/// The layout of a stored form.
pub(crate) fn number_of(text: &[u8]) -> u8 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn next_command<'w>(wire: &mut &'w [u8]) -> Option<impl Iterator<Item = &'w [u8]> + use<'w>> {
    let mut scanner = ReplyScanner::default();
    let end = scanner.scan(wire).expect("commands are well formed").filter(|_| !wire.is_empty())?;
    let (command, rest) = wire.split_at(end);
    *wire = rest;
    match Reply::parse(command) {
        Ok(Reply::Array(elements)) => Some(elements.filter_map(Reply::bytes)),
        other => panic!("no command: {other:?}"),
    }
}
