//! A read that a replica was asked: whether its answer may be the client's.
//!
//! What a replica holds was so at some moment not long ago, and may be said. What it doesn't hold may all the same be there:
//! the key was just written, or has gone on to another node with its slot, of which a replica that has the rest of the slot
//! knows nothing. So an answer that may mean that a key isn't there is dropped, and so is every error, and the request
//! begins again at the primary.

use crate::clients::LookupKind;
use crate::resp::Reply;

/// A request that a replica was asked.
#[derive(Debug)]
pub(super) struct ReplicaRead {
    args: Vec<Vec<u8>>,
    /// A number that is less is no proof that all keys were there.
    at_least: i64,
}

impl ReplicaRead {
    pub(super) fn new(args: &[&[u8]], lookups: LookupKind) -> Self {
        let at_least = match lookups {
            LookupKind::Counted(keys) => i64::try_from(keys).unwrap_or(i64::MAX),
            _ => 1,
        };
        Self { args: args.iter().map(|arg| arg.to_vec()).collect(), at_least }
    }

    /// The request.
    pub(super) fn args(&self) -> Vec<&[u8]> {
        self.args.iter().map(Vec::as_slice).collect()
    }

    /// Whether this answer may mean that a key is not there. An empty one is of a client that wants none.
    pub(super) fn doubts(&self, answer: &[u8]) -> bool {
        if answer.is_empty() {
            return false;
        }
        match Reply::parse(answer) {
            Ok(Reply::Array(elements)) => {
                let mut elements = elements.peekable();
                elements.peek().is_none() || elements.any(|element| may_be_nothing(element, 1))
            }
            Ok(reply) => may_be_nothing(reply, self.at_least),
            Err(_) => true,
        }
    }
}

fn may_be_nothing(reply: Reply<'_>, at_least: i64) -> bool {
    match reply {
        Reply::Integer(number) => number < at_least,
        Reply::Bulk(bytes) => bytes.is_empty(),
        Reply::Simple(word) => word == b"none",
        Reply::Array(mut elements) | Reply::Map(mut elements) => elements.next().is_none(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_mean_that_a_key_is_not_there_is_doubted() {
        let doubts = |kind, answer: &str| ReplicaRead::new(&[], kind).doubts(answer.as_bytes());
        for answer in [
            "$-1\r\n",
            "_\r\n",
            "*-1\r\n",
            "$0\r\n\r\n",
            ":0\r\n",
            ":-2\r\n",
            "*0\r\n",
            "%0\r\n",
            "+none\r\n",
            "-WRONGTYPE x\r\n",
            "*2\r\n$1\r\na\r\n$-1\r\n",
            "*2\r\n:1\r\n:0\r\n",
            "*1\r\n*-1\r\n",
            "#f\r\n",
            "",
        ] {
            assert_eq!(doubts(LookupKind::One, answer), !answer.is_empty(), "{answer:?}");
        }
        for answer in ["$1\r\na\r\n", ":1\r\n", "*1\r\n$1\r\na\r\n", "%1\r\n$1\r\na\r\n$0\r\n\r\n", "+string\r\n"] {
            assert!(!doubts(LookupKind::One, answer), "{answer:?}");
        }
        assert!(doubts(LookupKind::Counted(3), ":2\r\n") && !doubts(LookupKind::Counted(3), ":3\r\n"));
    }
}
