//! The commands that are measured.

use crate::redis_benchmark::RANDOM_KEY as KEY;

/// What the keys hold before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// 24 letters.
    Texts,
    /// `1000`.
    Integers,
    /// `1000`, for a day.
    Expiring,
}

impl Values {
    /// What follows SET and the key.
    pub(super) fn words(self) -> &'static [&'static [u8]] {
        match self {
            Self::Texts => &[b"abcdefghijklmnopqrstuvwx"],
            Self::Integers => &[b"1000"],
            Self::Expiring => &[b"1000", b"EX", b"86400"],
        }
    }
}

/// The cheapest form of a command on a folded key at the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Floor {
    /// What keyfold sends, which is one request.
    AsSent,
    /// This one, with as many of them as one command of the row: on `{bucket}`, and [`FIELD`] in it.
    Of(usize, &'static [&'static str]),
}

/// Stands for a bucket in [`Floor::Of`].
pub(super) const BUCKET: &str = "{bucket}";

/// The field, in the middle of each bucket.
pub(super) const FIELD: &str = "64";

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) values: Values,
    pub(super) command: &'static [&'static str],
    pub(super) floor: Floor,
}

const fn sent(name: &'static str, values: Values, command: &'static [&'static str]) -> Row {
    Row { name, values, command, floor: Floor::AsSent }
}

const TEN_KEYS: &[&str] = &["MGET", KEY, KEY, KEY, KEY, KEY, KEY, KEY, KEY, KEY, KEY];
const TEN_PAIRS: &[&str] =
    &["MSET", KEY, "1", KEY, "2", KEY, "3", KEY, "4", KEY, "5", KEY, "6", KEY, "7", KEY, "8", KEY, "9", KEY, "10"];

/// All rows, reads first; what removes keys comes last.
pub(super) const ROWS: &[Row] = &[
    sent("GET", Values::Texts, &["GET", KEY]),
    sent("STRLEN", Values::Texts, &["STRLEN", KEY]),
    sent("EXISTS", Values::Texts, &["EXISTS", KEY]),
    sent("TTL", Values::Expiring, &["TTL", KEY]),
    Row {
        name: "MGET of 10",
        values: Values::Texts,
        command: TEN_KEYS,
        floor: Floor::Of(10, &["HGET", BUCKET, FIELD]),
    },
    sent("SET", Values::Texts, &["SET", KEY, "xxx"]),
    sent("SET EX", Values::Expiring, &["SET", KEY, "xxx", "EX", "86400"]),
    Row {
        name: "MSET of 10",
        values: Values::Integers,
        command: TEN_PAIRS,
        floor: Floor::Of(10, &["HSET", BUCKET, FIELD, "5"]),
    },
    sent("SETNX", Values::Texts, &["SETNX", KEY, "xxx"]),
    sent("SET NX EX", Values::Texts, &["SET", KEY, "xxx", "NX", "EX", "86400"]),
    sent("SET XX", Values::Texts, &["SET", KEY, "xxx", "XX"]),
    sent("GETSET", Values::Texts, &["GETSET", KEY, "xxx"]),
    sent("GETEX EX", Values::Expiring, &["GETEX", KEY, "EX", "86400"]),
    sent("EXPIRE", Values::Expiring, &["EXPIRE", KEY, "86400"]),
    sent("APPEND", Values::Texts, &["APPEND", KEY, ""]),
    sent("SETRANGE", Values::Texts, &["SETRANGE", KEY, "3", "xxx"]),
    sent("SETBIT", Values::Texts, &["SETBIT", KEY, "7", "1"]),
    sent("BITFIELD", Values::Texts, &["BITFIELD", KEY, "INCRBY", "u8", "8", "1"]),
    sent("INCR", Values::Integers, &["INCR", KEY]),
    sent("INCR with TTL", Values::Expiring, &["INCR", KEY]),
    sent("INCRBYFLOAT", Values::Integers, &["INCRBYFLOAT", KEY, "0.5"]),
    sent("GETDEL", Values::Texts, &["GETDEL", KEY]),
    Row { name: "DEL", values: Values::Texts, command: &["DEL", KEY], floor: Floor::Of(1, &["HDEL", BUCKET, FIELD]) },
];

/// A counter that all clients count on.
pub(super) const HOT: Row = sent("INCR with TTL", Values::Expiring, &["INCR", KEY]);
