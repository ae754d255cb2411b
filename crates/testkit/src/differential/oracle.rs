//! What the plain side is asked, and what its answers come to.
//!
//! ```text
//! MGET a b        where a and b are in two slots: MGET a, MGET b; one server's answer made of theirs
//! EXEC            of two slots, one of them watched: DISCARD, and keyfold has to refuse
//! all else        as it is
//! ```
//! Before a cluster keyfold carries some commands out in parts that a node refuses by CROSSSLOT, and refuses a transaction
//! that a node carries out where it has both slots.

use std::collections::BTreeSet;

use super::behind::Behind;
use super::slots::{goes_in_parts, is, slots_of};
use crate::compare::raw_elements;
use crate::sides::{Reply, encode};
use crate::wire::Wire;

/// What a node answers to keys of several slots.
const CROSS_SLOT: &[u8] = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n";

/// How the plain side's answer to one command is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// It is the next reply.
    Same,
    /// So many replies come to one.
    Parts(usize),
    /// Keyfold has to refuse; the plain side was asked to forget the transaction.
    Refused,
}

/// What one connection was told that matters for what follows.
#[derive(Clone, Debug)]
pub(super) struct Oracle {
    behind: Behind,
    in_transaction: bool,
    watched: BTreeSet<u16>,
    queued: BTreeSet<u16>,
}

impl Oracle {
    pub(super) fn new(behind: Behind) -> Self {
        Self { behind, in_transaction: false, watched: BTreeSet::new(), queued: BTreeSet::new() }
    }

    /// Writes what the plain side is asked instead of a command that the subject is asked.
    pub(super) fn ask(&mut self, args: &[Vec<u8>], out: &mut Vec<u8>) -> Expected {
        if self.behind != Behind::Cluster {
            out.extend_from_slice(&encode(args));
            return Expected::Same;
        }
        if self.is_refused(args) {
            out.extend_from_slice(&encode(&[b"DISCARD".to_vec()]));
            self.note(args);
            return Expected::Refused;
        }
        let splits = !self.in_transaction && goes_in_parts(args) && slots_of(args).len() > 1;
        self.note(args);
        if !splits {
            out.extend_from_slice(&encode(args));
            return Expected::Same;
        }
        for key in &args[1..] {
            out.extend_from_slice(&encode(&[args[0].clone(), key.clone()]));
        }
        Expected::Parts(args.len() - 1)
    }

    /// Whether a command is an EXEC that keyfold refuses and the plain side may not.
    fn is_refused(&self, args: &[Vec<u8>]) -> bool {
        let slots = self.watched.union(&self.queued).count();
        self.in_transaction && is(args, "EXEC") && args.len() == 1 && !self.watched.is_empty() && slots > 1
    }

    fn note(&mut self, args: &[Vec<u8>]) {
        let is_alone = |name| args.len() == 1 && is(args, name);
        if self.in_transaction {
            if is_alone("EXEC") || is_alone("DISCARD") {
                *self = Self::new(self.behind);
            } else {
                self.queued.append(&mut slots_of(args));
            }
        } else if is_alone("MULTI") {
            self.in_transaction = true;
        } else if is_alone("UNWATCH") {
            self.watched.clear();
        } else if is(args, "WATCH") && slots_of(args).len() == 1 {
            self.watched.append(&mut slots_of(args));
        }
    }
}

impl Expected {
    /// The plain side's answer.
    pub(super) fn read(self, wire: &mut Wire) -> Reply {
        match self {
            Self::Same => wire.reply(),
            Self::Parts(count) => {
                let replies = (0..count).map(|_| wire.reply()).collect::<Result<Vec<_>, _>>()?;
                Ok(joined(&replies))
            }
            Self::Refused => wire.reply().map(|_| CROSS_SLOT.to_vec()),
        }
    }
}

/// What one server would have answered: all elements, or the sum.
fn joined(replies: &[Vec<u8>]) -> Vec<u8> {
    let whole = |reply: &Vec<u8>| str::from_utf8(reply.strip_prefix(b":")?).ok()?.trim_end().parse::<i64>().ok();
    if let Some(numbers) = replies.iter().map(whole).collect::<Option<Vec<i64>>>() {
        return format!(":{}\r\n", numbers.iter().sum::<i64>()).into_bytes();
    }
    if let Some(error) = replies.iter().find(|reply| reply.starts_with(b"-")) {
        return error.clone();
    }
    let elements: Vec<&[u8]> = replies.iter().filter_map(|reply| raw_elements(reply)).flatten().collect();
    let mut answer = format!("*{}\r\n", elements.len()).into_bytes();
    elements.into_iter().for_each(|element| answer.extend_from_slice(element));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(oracle: &mut Oracle, line: &str) -> (String, Expected) {
        let args: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut out = Vec::new();
        let expected = oracle.ask(&args, &mut out);
        let words = String::from_utf8(out).unwrap();
        (words.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect::<Vec<_>>().join(" "), expected)
    }

    #[test]
    fn what_goes_in_parts_is_asked_key_by_key() {
        let mut oracle = Oracle::new(Behind::Cluster);
        assert_eq!(asked(&mut oracle, "mget {1}a {2}a"), ("mget {1}a mget {2}a ".into(), Expected::Parts(2)));
        assert_eq!(asked(&mut oracle, "MGET {1}a {1}b"), ("MGET {1}a {1}b ".into(), Expected::Same));
        assert_eq!(asked(&mut oracle, "MSET {1}a x {2}b x"), ("MSET {1}a x {2}b x ".into(), Expected::Same));
        asked(&mut oracle, "MULTI");
        assert_eq!(asked(&mut oracle, "DEL {1}a {2}a").1, Expected::Same);
        asked(&mut oracle, "EXEC");
        assert_eq!(asked(&mut oracle, "DEL {1}a {2}a {3}a").1, Expected::Parts(3));
        let mut one = Oracle::new(Behind::ClusterAsServer);
        assert_eq!(asked(&mut one, "DEL {1}a {2}a").1, Expected::Same);
    }

    #[test]
    fn what_is_watched_counts_as_part_of_the_transaction() {
        let mut oracle = Oracle::new(Behind::Cluster);
        let mut last = |lines: &[&str]| lines.iter().map(|line| asked(&mut oracle, line).1).last();
        assert_eq!(last(&["WATCH {1}a", "MULTI", "GET {1}b", "EXEC"]), Some(Expected::Same));
        assert_eq!(last(&["WATCH {1}a", "MULTI", "GET {2}b", "EXEC"]), Some(Expected::Refused));
        assert_eq!(last(&["MULTI", "GET {2}b", "EXEC"]), Some(Expected::Same));
    }

    #[test]
    fn answers_to_parts_come_to_one_servers() {
        let of = |replies: &[&str]| {
            let replies: Vec<_> = replies.iter().map(|reply| reply.replace(' ', "\r\n").into_bytes()).collect();
            String::from_utf8(joined(&replies)).unwrap().replace("\r\n", " ")
        };
        assert_eq!(of(&["*1 $1 a ", "*1 $-1 ", "*1 _ "]), "*3 $1 a $-1 _ ");
        assert_eq!(of(&[":1 ", ":0 ", ":1 "]), ":2 ");
        assert_eq!(of(&["*1 $1 a ", "-ERR "]), "-ERR ");
    }
}
