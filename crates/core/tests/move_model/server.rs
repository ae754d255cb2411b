//! The server's part in a change of the layout: the three keys, and the steps on them, read from the very bytes
//! that members and coordinators send.

use std::collections::BTreeMap;

use keyfold_core::change::{CHANGE_KEY, COPY_KEY, LEASES_KEY};
use keyfold_core::layout::STORED_KEY;
use keyfold_core::resp::{Reply, ReplyScanner, write_bulk, write_command};

/// What the server holds of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) now_ms: i64,
    pub(crate) leases: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The announcement, and when it is gone.
    pub(crate) change: Option<(Vec<u8>, i64)>,
    pub(crate) epoch: u64,
}

impl Server {
    /// Time passes.
    pub(crate) fn pass(&mut self, ms: i64) {
        self.now_ms += ms;
        if self.change.as_ref().is_some_and(|(_, until_ms)| *until_ms <= self.now_ms) {
            self.change = None;
        }
    }

    /// Answers what a member or a coordinator asks, one MULTI and EXEC; `words` are the commands in between.
    pub(crate) fn ask(&self, wire: &[u8]) -> Vec<u8> {
        let mut words = Vec::new();
        let mut count = 0;
        let mut commands = wire;
        while let Some(command) = next_command(&mut commands) {
            let mut args: Vec<&[u8]> = vec![];
            args.extend(command);
            match args.as_slice() {
                [b"MULTI"] | [b"EXEC"] => continue,
                [b"TIME"] => {
                    let (seconds, micros) = (self.now_ms / 1000, self.now_ms % 1000 * 1000);
                    write_command(&mut words, &[seconds.to_string().as_bytes(), micros.to_string().as_bytes()]);
                }
                [b"HGETALL", key] if *key == LEASES_KEY => {
                    let pairs = self.leases.iter().flat_map(|(member, text)| [member.as_slice(), text]);
                    write_command(&mut words, &pairs.collect::<Vec<_>>());
                }
                read => match self.read(read) {
                    Some(bytes) => write_bulk(&mut words, &bytes),
                    None => words.extend(b"$-1\r\n"),
                },
            }
            count += 1;
        }
        [format!("*{count}\r\n").as_bytes(), &words].concat()
    }

    fn read(&self, command: &[&[u8]]) -> Option<Vec<u8>> {
        match command {
            [b"HGET", key, member] if *key == LEASES_KEY => self.leases.get(*member).cloned(),
            [b"HLEN", key] if *key == LEASES_KEY => Some(self.leases.len().to_string().into_bytes()),
            [b"GET", key] if *key == CHANGE_KEY => self.change.as_ref().map(|(text, _)| text.clone()),
            [b"GET", key] if *key == STORED_KEY => Some(layout_text(self.epoch)),
            _ => panic!("the model's server does not know {command:?}"),
        }
    }

    fn write(&mut self, command: &[&[u8]]) {
        match command {
            [b"HSET", key, member, text] if *key == LEASES_KEY => {
                self.leases.insert(member.to_vec(), text.to_vec());
            }
            [b"HDEL", key, member] if *key == LEASES_KEY => {
                self.leases.remove(*member);
            }
            [b"SET", key, text, b"PX", ms] if *key == CHANGE_KEY => {
                let ms: i64 = std::str::from_utf8(ms).unwrap().parse().unwrap();
                self.change = Some((text.to_vec(), self.now_ms + ms));
            }
            [b"DEL", key] if *key == CHANGE_KEY => self.change = None,
            [b"SET", key, text] if *key == STORED_KEY => self.epoch = epoch_of(Some(text)),
            // Here no key is ever lost, so nobody reads the register's second half.
            [b"SET", key, text] if *key == COPY_KEY => assert_eq!(epoch_of(Some(text)), self.epoch),
            _ => panic!("the model's server does not know {command:?}"),
        }
    }

    /// Carries out a compare-and-set as the script does; whether all checks held.
    pub(crate) fn compare_and_set(&mut self, wire: &[u8], blind: bool) -> bool {
        let mut rest = wire;
        let args: Vec<&[u8]> = next_command(&mut rest).expect("a whole command").collect();
        let number = |bytes: &[u8]| std::str::from_utf8(bytes).unwrap().parse::<usize>().unwrap();
        let mut at = 3 + number(args[2]);
        let checks = number(args[at]);
        at += 1;
        for _ in 0..checks {
            let words = number(args[at]);
            let (command, expected) = (&args[at + 1..at + 1 + words], args[at + 1 + words]);
            at += words + 2;
            let found = self.read(command).map_or_else(|| b"-".to_vec(), |bytes| [b"+", bytes.as_slice()].concat());
            let on_leases = command[1] == LEASES_KEY;
            if found != expected && !(blind && on_leases) {
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

/// The text of an epoch's layout.
pub(crate) fn layout_text(epoch: u64) -> Vec<u8> {
    epoch.to_string().into_bytes()
}

/// The epoch of a layout's text.
pub(crate) fn epoch_of(text: Option<&[u8]>) -> u64 {
    text.map_or(0, |text| std::str::from_utf8(text).unwrap().parse().unwrap())
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
