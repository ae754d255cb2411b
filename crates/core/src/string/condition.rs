//! Conditions on what a key holds: IFEQ and its kin of SET and DELEX, DELIFEQ, and DIGEST, by which two of them compare.
//!
//! Redis 8.4 (`setGenericCommand`, `delexCommand`, `digestCommand`) and Valkey 8.1 to 9.2 (`setGenericCommand`,
//! `delifeqCommand`). A digest is the value's XXH3 of 64 bits, seed 0, in 16 hexadecimal digits.

use xxhash_rust::xxh3::xxh3_64;

use super::{Call, Flow, Halt, Space, WRONG_TYPE};
use crate::dialect::Since;
use crate::notify::Event;
use crate::resp::Answer;
use crate::resp::word::is_word;

/// How many hexadecimal digits a digest has.
const DIGEST_LEN: usize = 16;

/// What the value of a key is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Value,
    Digest,
}

/// A condition, without what is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    by: By,
    /// It holds where the two are equal; else where they aren't.
    equal: bool,
}

impl Condition {
    /// The condition that a word says.
    pub(super) fn parse(word: &[u8]) -> Option<Self> {
        [
            ("IFEQ", By::Value, true),
            ("IFNE", By::Value, false),
            ("IFDEQ", By::Digest, true),
            ("IFDNE", By::Digest, false),
        ]
        .into_iter()
        .find_map(|(name, by, equal)| is_word(word, name).then_some(Self { by, equal }))
    }

    /// The first servers whose SET has it.
    pub(super) fn since(self) -> Since {
        match (self.by, self.equal) {
            (By::Value, true) => Since::SET_IFEQ,
            (By::Value, false) => Since::SET_IFNE,
            (By::Digest, _) => Since::DIGEST,
        }
    }

    /// Whether it holds where there is no key.
    pub(super) fn holds_of_nothing(self) -> bool {
        !self.equal
    }

    /// Whether it holds of a value.
    ///
    /// # Errors
    /// What should be a digest has another length. Servers look at nothing else of it.
    pub(super) fn holds(self, value: &[u8], other: &[u8]) -> Result<bool, Halt> {
        let are_equal = match self.by {
            By::Value => value == other,
            By::Digest if other.len() != DIGEST_LEN => {
                return Err("ERR must be exactly 16 hexadecimal characters".into());
            }
            By::Digest => digest_of(value).as_bytes().eq_ignore_ascii_case(other),
        };
        Ok(are_equal == self.equal)
    }
}

fn digest_of(value: &[u8]) -> String {
    format!("{:0DIGEST_LEN$x}", xxh3_64(value))
}

/// DIGEST key: the digest of its value, or nil.
pub(super) fn digest(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    match space.string(call.args[1])? {
        Some(entry) => answer.bulk(digest_of(&entry.value).as_bytes()),
        None => answer.nil(),
    }
    Ok(())
}

/// DELEX key [IFEQ value | IFNE value | IFDEQ digest | IFDNE digest]: 1 where the key is gone, else 0.
///
/// Without a condition it may be of any type. Where there is no key nothing of a condition is looked at.
pub(super) fn delex(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let is_meant = match call.args[2..] {
        [] => space.exists(key),
        [word, other] => match space.string(key) {
            Ok(None) => false,
            Ok(Some(entry)) => Condition::parse(word)
                .ok_or_else(|| Halt::from("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?
                .holds(&entry.value, other)?,
            Err(Halt::Error(error)) if error == WRONG_TYPE => {
                return Err("ERR Key should be of string type if conditions are specified".into());
            }
            Err(halt) => return Err(halt),
        },
        _ => return Err("ERR wrong number of arguments for 'delex' command".into()),
    };
    remove_if(is_meant, key, space, answer);
    Ok(())
}

/// DELIFEQ key value: 1 where the key held this and is gone, else 0.
pub(super) fn delifeq(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let key = call.args[1];
    let is_meant = space.string(key)?.is_some_and(|entry| entry.value == call.args[2]);
    remove_if(is_meant, key, space, answer);
    Ok(())
}

fn remove_if(is_meant: bool, key: &[u8], space: &mut Space, answer: &mut Answer<'_>) {
    if is_meant {
        space.remove(key);
        space.note(Event::Del, key);
    }
    answer.integer(i64::from(is_meant));
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::tests::now_is;

    /// The digest of a value.
    pub(in crate::string) fn digest(value: &str) -> String {
        super::digest_of(value.as_bytes())
    }

    const WRONG_DIGEST: &str = "-ERR must be exactly 16 hexadecimal characters\r\n";

    #[test]
    fn digests_are_those_of_redis() {
        let mut keys = now_is(1000);
        for (value, digest) in [
            ("", "2d06800538d394c2"),
            ("123", "404a763b3f4c8c9a"),
            ("hello", "9555e8555c62dcfd"),
            ("Hello world", "b6acb9d84a38ff74"),
            (
                "v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd",
                "00006c38adf31777",
            ),
        ] {
            keys.string("k", value);
            assert_eq!(keys.run(&["DIGEST", "k"]), format!("$16\r\n{digest}\r\n"), "{value}");
        }
        keys.other("l", "list");
        assert_eq!(keys.run(&["DIGEST", "none"]), "$-1\r\n");
        assert!(keys.run(&["DIGEST", "l"]).starts_with("-WRONGTYPE "));
    }

    #[test]
    fn delex_looks_at_the_number_of_arguments_then_the_key_then_the_condition() {
        let mut keys = now_is(1000);
        keys.string("k", "hello");
        keys.other("l", "list");
        let arity = "-ERR wrong number of arguments for 'delex' command\r\n";
        assert_eq!(keys.run(&["DELEX", "none", "IFEQ"]), arity);
        assert_eq!(keys.run(&["DELEX", "none", "IFEQ", "a", "b"]), arity);
        for condition in ["IFEQ", "IFNE", "IFDEQ", "IFDNE", "NOPE"] {
            assert_eq!(keys.run(&["DELEX", "none", condition, "x"]), ":0\r\n");
            let wrong = "-ERR Key should be of string type if conditions are specified\r\n";
            assert_eq!(keys.run(&["DELEX", "l", condition, "x"]), wrong);
        }
        let invalid = "-ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE\r\n";
        assert_eq!(keys.run(&["DELEX", "k", "NOPE", "x"]), invalid);
        assert_eq!(keys.run(&["DELEX", "k", "IFDEQ", "9555e8555c62dcf"]), WRONG_DIGEST);
        assert_eq!(keys.changed(), Vec::<String>::new());
    }

    #[test]
    fn delex_removes_what_the_condition_holds_of() {
        for (condition, other, is_gone) in [
            ("ifeq\0x", "hello", true),
            ("IFEQ", "Hello", false),
            ("IFNE", "hello", false),
            ("IFNE", "", true),
            ("IFDEQ", "9555E8555C62DCFD", true),
            ("IFDEQ", "zzzzzzzzzzzzzzzz", false),
            ("IFDNE", "9555e8555c62dcfd", false),
            ("IFDNE", "0000000000000000", true),
        ] {
            let mut keys = now_is(1000);
            keys.string("k", "hello");
            assert_eq!(keys.run(&["DELEX", "k", condition, other]), format!(":{}\r\n", u8::from(is_gone)));
            assert_eq!(keys.run(&["EXISTS", "k"]), format!(":{}\r\n", u8::from(!is_gone)), "{condition} {other}");
        }
        let mut keys = now_is(1000);
        keys.other("l", "list");
        assert_eq!(keys.run(&["DELEX", "l"]), ":1\r\n");
        assert_eq!(keys.run(&["DELEX", "l"]), ":0\r\n");
    }

    #[test]
    fn delifeq_removes_what_is_equal() {
        let mut keys = now_is(1000);
        keys.string_until("k", "a", 2000);
        keys.other("l", "list");
        assert_eq!(keys.run(&["DELIFEQ", "k", "A"]), ":0\r\n");
        assert_eq!(keys.run(&["DELIFEQ", "k", "a"]), ":1\r\n");
        assert_eq!(keys.run(&["DELIFEQ", "k", "a"]), ":0\r\n");
        assert!(keys.run(&["DELIFEQ", "l", "a"]).starts_with("-WRONGTYPE "));
        assert_eq!(keys.changed(), ["k"]);
    }
}
