//! Commands beside scripts in a transaction.

use crate::random::Random;

/// Commands: `k` is a string key, `o` a key that may be of another type, `v` a value.
const COMMANDS: &[&str] = &[
    "GET k",
    "GET k",
    "SET k v",
    "SET k v",
    "SET k v EX 5000",
    "SET k v NX GET",
    "SETNX k v",
    "GETSET k v",
    "GETDEL k",
    "GETEX k PERSIST",
    "MGET k k k",
    "MSET k v k v",
    "MSETNX k v k v",
    "DEL k k",
    "UNLINK k",
    "EXISTS k k",
    "TYPE k",
    "STRLEN k",
    "APPEND k v",
    "GETRANGE k 1 -2",
    "SETRANGE k 3 v",
    "INCR k",
    "DECRBY k 7",
    "INCRBY k 9007199254740993",
    "INCRBYFLOAT k 1.25",
    "EXPIRE k 4000",
    "PERSIST k",
    "SETBIT k 70 1",
    "BITCOUNT k",
    "BITOP XOR k k k",
    "BITFIELD k INCRBY u8 0 200 GET i7 3",
    "LCS k k",
    "LCS k k IDX WITHMATCHLEN",
    "RENAME k k",
    "COPY k k REPLACE",
    "HGET k v",
    "LLEN k",
    "LPUSH o v",
    "TYPE o",
    "DEL o",
    "GET o",
    "PUBLISH k v",
    "PING",
    "SCRIPT EXISTS v",
];

/// A command.
pub(super) fn command(random: &mut Random, keys: &[Vec<u8>], others: &[Vec<u8>], values: &[&[u8]]) -> Vec<Vec<u8>> {
    let word = |word: &str, random: &mut Random| match word {
        "k" => random.pick(keys).clone(),
        "o" => random.pick(others).clone(),
        "v" => random.pick(values).to_vec(),
        word => word.as_bytes().to_vec(),
    };
    random.pick(COMMANDS).split(' ').map(|text| word(text, random)).collect()
}
