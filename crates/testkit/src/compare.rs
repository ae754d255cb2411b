//! When two servers' replies to one command are the same answer.
//!
//! Nearly always when their bytes are; [`KNOWN`] is the one list of the commands where they can't be, and
//! says why.

use std::mem;

use crate::reply::{Scanner, Value};

/// How replies are compared. Errors must always be the same bytes, unless nothing is compared at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Byte for byte.
    Exact,
    /// The elements of an array or set, in any order.
    Unordered,
    /// Names with their values, in any order.
    Pairs,
    /// A cursor, and elements of a whole iteration, in any order.
    Page,
    /// The same with names and values.
    PageOfPairs,
    /// As many elements, which are random.
    Drawn,
    /// Integers of seconds, at most one apart.
    Seconds,
    /// An array of such.
    ManySeconds,
    /// Integers of milliseconds, apart at most by the time that the commands took.
    Milliseconds,
    /// An array of such.
    ManyMilliseconds,
    /// The elements of a whole iteration, in any order, each of them once or more.
    Scan,
    /// Some key that exists; another on each side.
    Existing,
    /// The number of keys, once those that have expired were touched; the subject may count those still.
    KeyCount,
    /// Byte for byte right after the value was SET, and not otherwise.
    Encoding,
    /// The fields that HELLO answers, without the connection's id.
    Hello,
    /// The same kind of value.
    Kind,
    /// Not at all.
    Skip,
}

/// Commands whose replies are not compared byte for byte: the command (with its first arguments, of which `*` is any), how they are
/// compared, and why. The first that matches counts.
pub const KNOWN: &[(&str, Compare, &str)] = &[
    ("TTL", Compare::Seconds, "time passes between one server's answer and the other's"),
    ("PTTL", Compare::Milliseconds, "time passes between one server's answer and the other's"),
    ("EXPIRETIME", Compare::Seconds, "a relative expiry counts from when each server ran the command"),
    ("PEXPIRETIME", Compare::Milliseconds, "a relative expiry counts from when each server ran the command"),
    ("KEYS", Compare::Unordered, "the order is that of the server's hash table, whose seed is random"),
    ("SCAN 0", Compare::Scan, "the order is that of the server's hash table, and cursors are its own"),
    ("SCAN", Compare::Kind, "a cursor means something only to the server that gave it"),
    ("SMEMBERS", Compare::Unordered, "the order is that of the server's hash table, whose seed is random"),
    ("SINTER", Compare::Unordered, "the order is that of a hash table, whose seed is random"),
    ("SUNION", Compare::Unordered, "the order is that of a hash table, whose seed is random"),
    ("SDIFF", Compare::Unordered, "the order is that of a hash table, whose seed is random"),
    ("SORT", Compare::Unordered, "members that are alike up to a zero byte are in no order"),
    ("SRANDMEMBER", Compare::Drawn, "members are random"),
    ("SSCAN * 0", Compare::Page, "the order is that of the server's hash table, and cursors are its own"),
    ("SSCAN", Compare::Kind, "a cursor means something only to the server that gave it"),
    ("HGETALL", Compare::Pairs, "the order is that of the server's hash table, whose seed is random"),
    ("HKEYS", Compare::Unordered, "the order is that of the server's hash table, whose seed is random"),
    ("HVALS", Compare::Unordered, "the order is that of the server's hash table, whose seed is random"),
    ("HRANDFIELD", Compare::Drawn, "fields are random"),
    ("HSCAN * 0", Compare::PageOfPairs, "the order is that of the server's hash table, and cursors are its own"),
    ("HSCAN", Compare::Kind, "a cursor means something only to the server that gave it"),
    ("HTTL", Compare::ManySeconds, "time passes between one server's answer and the other's"),
    ("HEXPIRETIME", Compare::ManySeconds, "a relative expiry counts from when each server ran the command"),
    ("HPTTL", Compare::ManyMilliseconds, "time passes between one server's answer and the other's"),
    ("HPEXPIRETIME", Compare::ManyMilliseconds, "a relative expiry counts from when each server ran the command"),
    ("RANDOMKEY", Compare::Existing, "the key is random"),
    (
        "DBSIZE",
        Compare::KeyCount,
        "a server counts keys that have expired until something touches them, a bucket until it is swept",
    ),
    ("HELLO", Compare::Hello, "each connection has an id of its own"),
    ("TIME", Compare::Kind, "time passes"),
    ("CLIENT ID", Compare::Kind, "each connection has an id of its own"),
    ("OBJECT ENCODING", Compare::Encoding, "how a value was edited shows in a plain key, and is not kept in a bucket"),
    ("OBJECT REFCOUNT", Compare::Kind, "small integers of plain keys are shared objects, and fields are not objects"),
    ("OBJECT IDLETIME", Compare::Skip, "a bucket has one access time for all its fields"),
    ("OBJECT FREQ", Compare::Skip, "a bucket has one access frequency for all its fields"),
    ("MEMORY USAGE", Compare::Skip, "to differ here is what folding is for"),
];

impl Compare {
    /// How the replies to a command are compared.
    pub fn of(args: &[Vec<u8>]) -> Self {
        let is = |word: &str, arg: &Vec<u8>| word == "*" || arg.eq_ignore_ascii_case(word.as_bytes());
        let known = KNOWN.iter().find(|(pattern, ..)| {
            let words: Vec<&str> = pattern.split(' ').collect();
            words.len() <= args.len() && words.iter().zip(args).all(|(word, arg)| is(word, arg))
        });
        known.map_or(Self::Exact, |(_, compare, _)| *compare)
    }

    /// The same where the server is later than Redis 7.0, whose bounds of encodings folded keys have.
    pub(crate) fn of_later(self) -> Self {
        if self == Self::Encoding { Self::Kind } else { self }
    }

    /// Whether the driver must have read every earlier reply, because it asks more before it compares.
    pub fn asks_more(self) -> bool {
        matches!(self, Self::Scan | Self::Existing | Self::KeyCount)
    }

    /// Whether two replies are the same answer. Milliseconds may be `slack_ms` apart.
    pub fn agree(self, plain: &[u8], subject: &[u8], slack_ms: i64) -> bool {
        if plain == subject || self == Self::Skip {
            return true;
        }
        let (Ok(plain), Ok(subject)) = (Value::parse(plain), Value::parse(subject)) else { return false };
        if plain.is_error() || subject.is_error() {
            return false;
        }
        match self {
            Self::Exact | Self::Encoding => false,
            Self::Unordered => same_kind(&plain, &subject) && sorted(&plain) == sorted(&subject),
            Self::Pairs => same_kind(&plain, &subject) && pairs(&plain) == pairs(&subject),
            Self::Page => page(&plain, sorted) == page(&subject, sorted),
            Self::PageOfPairs => page(&plain, pairs) == page(&subject, pairs),
            Self::Drawn => same_kind(&plain, &subject) && drawn(&plain) == drawn(&subject),
            Self::Seconds => near(&plain, &subject, 1 + slack_ms / 1000),
            Self::ManySeconds => all_near(&plain, &subject, 1 + slack_ms / 1000),
            Self::Milliseconds => near(&plain, &subject, slack_ms),
            Self::ManyMilliseconds => all_near(&plain, &subject, slack_ms),
            Self::Hello => hello_fields(&plain) == hello_fields(&subject),
            Self::Scan | Self::Existing | Self::KeyCount | Self::Kind => same_kind(&plain, &subject),
            Self::Skip => true,
        }
    }
}

/// What EXEC answers is compared as each queued command's reply is; so a transaction is followed as it is
/// queued.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    queued: Vec<Compare>,
}

impl Queue {
    /// Whether the replies to a command are the same answer, be it queued, the EXEC of what was, or neither.
    pub fn agree(&mut self, args: &[Vec<u8>], compare: Compare, plain: &[u8], subject: &[u8], slack_ms: i64) -> bool {
        if is_queued(plain) {
            self.queued.push(compare);
            return plain == subject;
        }
        let name = args.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let ends = matches!(name.as_slice(), b"EXEC" | b"DISCARD" | b"RESET");
        let queued = if ends { mem::take(&mut self.queued) } else { Vec::new() };
        if name != b"EXEC" || plain == subject {
            return compare.agree(plain, subject, slack_ms);
        }
        let (Some(plain), Some(subject)) = (raw_elements(plain), raw_elements(subject)) else { return false };
        plain.len() == queued.len()
            && subject.len() == queued.len()
            && plain.iter().zip(&subject).zip(&queued).all(|((plain, subject), compare)| {
                // Inside a transaction nothing more can be asked: any answer of the right kind will do.
                let compare =
                    if compare.asks_more() || *compare == Compare::Encoding { Compare::Kind } else { *compare };
                compare.agree(plain, subject, slack_ms)
            })
    }
}

/// What HELLO answers, but for the mode: a node of a cluster says so.
pub(crate) fn without_mode(reply: &[u8]) -> Vec<u8> {
    const MODES: [&[u8]; 2] = [b"$10\r\nstandalone\r\n", b"$7\r\ncluster\r\n"];
    let found =
        MODES.iter().find_map(|mode| Some((reply.windows(mode.len()).position(|window| window == *mode)?, mode)));
    found.map_or_else(
        || reply.to_vec(),
        |(at, mode)| [&reply[..at], b"$4\r\nmode\r\n", &reply[at + mode.len()..]].concat(),
    )
}

/// Whether a reply says that the command waits for EXEC.
pub fn is_queued(reply: &[u8]) -> bool {
    reply == b"+QUEUED\r\n"
}

/// An array's elements, as the bytes that came.
pub(crate) fn raw_elements(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let count = Value::parse(reply).ok()?.elements()?.len();
    let mut rest = &reply[reply.windows(2).position(|pair| pair == b"\r\n")? + 2..];
    let mut elements = Vec::with_capacity(count);
    for _ in 0..count {
        let len = Scanner::default().scan(rest).ok()??;
        let (element, after) = rest.split_at(len);
        elements.push(element);
        rest = after;
    }
    Some(elements)
}

fn same_kind(plain: &Value, subject: &Value) -> bool {
    mem::discriminant(plain) == mem::discriminant(subject)
}

/// Names with their values, sorted: of a map, of an array of pairs, or of one in which they follow one another.
fn pairs(value: &Value) -> Option<Vec<String>> {
    let mut shown: Vec<String> = match value {
        Value::Map(pairs) => pairs.iter().map(|pair| format!("{pair:?}")).collect(),
        _ => match value.elements()? {
            elements if elements.iter().all(|element| element.elements().is_some()) => {
                elements.iter().map(|element| format!("{element:?}")).collect()
            }
            elements => elements.chunks(2).map(|pair| format!("{pair:?}")).collect(),
        },
    };
    shown.sort();
    Some(shown)
}

/// The cursor of a page, and what is on it.
fn page(value: &Value, listed: fn(&Value) -> Option<Vec<String>>) -> Option<(Vec<u8>, Vec<String>)> {
    let [cursor, list] = value.elements()? else { return None };
    Some((cursor.bytes()?.to_vec(), listed(list)?))
}

/// How many elements were drawn; none where one was, that is no array.
fn drawn(value: &Value) -> Option<usize> {
    Some(value.elements()?.len())
}

fn sorted(value: &Value) -> Option<Vec<String>> {
    let mut shown: Vec<String> = value.elements()?.iter().map(|element| format!("{element:?}")).collect();
    shown.sort();
    Some(shown)
}

/// Both not negative (those say "none") and at most so far apart.
fn near(plain: &Value, subject: &Value, apart: i64) -> bool {
    match (plain, subject) {
        (Value::Integer(plain), Value::Integer(subject)) => {
            *plain >= 0 && *subject >= 0 && plain.abs_diff(*subject) <= apart.unsigned_abs()
        }
        _ => false,
    }
}

/// The same element by element; those that say "none" must be equal.
fn all_near(plain: &Value, subject: &Value, apart: i64) -> bool {
    let (Some(plain), Some(subject)) = (plain.elements(), subject.elements()) else { return false };
    plain.len() == subject.len()
        && plain.iter().zip(subject).all(|(one, other)| one == other || near(one, other, apart))
}

fn hello_fields(reply: &Value) -> Option<Vec<(Value, Value)>> {
    let pairs: Vec<(Value, Value)> = match reply {
        Value::Map(pairs) => pairs.clone(),
        _ => reply.elements()?.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect(),
    };
    Some(pairs.into_iter().filter(|(field, _)| field.bytes() != Some(b"id")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Vec<Vec<u8>> {
        line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn times_have_slack_and_their_absence_has_none() {
        let seconds = Compare::of(&command("ttl k"));
        assert!(seconds.agree(b":10\r\n", b":11\r\n", 50));
        assert!(!seconds.agree(b":10\r\n", b":12\r\n", 50));
        assert!(!seconds.agree(b":0\r\n", b":-1\r\n", 50));
        let milliseconds = Compare::of(&command("PEXPIRETIME k"));
        assert!(milliseconds.agree(b":1000\r\n", b":1050\r\n", 50));
        assert!(!milliseconds.agree(b":1000\r\n", b":1051\r\n", 50));
    }

    #[test]
    fn errors_are_never_alike() {
        for (_, compare, _) in KNOWN.iter().filter(|(_, compare, _)| *compare != Compare::Skip) {
            assert!(!compare.agree(b"-ERR a\r\n", b"-ERR b\r\n", 50), "{compare:?}");
        }
    }

    #[test]
    fn nil_has_two_forms() {
        assert!(!Compare::Exact.agree(b"$-1\r\n", b"_\r\n", 50));
    }

    #[test]
    fn exec_compares_each_reply_in_its_own_way() {
        let replies = |ttl: &str, nil: &str| format!("*3\r\n$1\r\na\r\n:{ttl}\r\n{nil}\r\n").into_bytes();
        let exec = |subject: &[u8]| {
            let mut queue = Queue::default();
            for line in ["GET k", "TTL k", "GET none"] {
                let args = command(line);
                assert!(queue.agree(&args, Compare::of(&args), b"+QUEUED\r\n", b"+QUEUED\r\n", 50));
            }
            queue.agree(&command("EXEC"), Compare::Exact, &replies("10", "$-1"), subject, 50)
        };
        assert!(exec(&replies("11", "$-1")));
        assert!(!exec(&replies("13", "$-1")));
        assert!(!exec(&replies("11", "_")));
        assert!(!exec(b"*-1\r\n"));
    }

    #[test]
    fn hello_is_compared_without_the_id() {
        let hello = |id: &str, version: &str| format!("%2\r\n+version\r\n+{version}\r\n+id\r\n:{id}\r\n").into_bytes();
        assert!(Compare::Hello.agree(&hello("1", "7"), &hello("2", "7"), 0));
        assert!(!Compare::Hello.agree(&hello("1", "7"), &hello("1", "8"), 0));
    }
}
