//! A command on folded keys as a script of its own, for a transaction in which a user's script uses the same keys.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use super::UserScript;
use crate::resp::word::is_word;
use crate::resp::{Answer, Elements, Protocol, Reply};

static SCRIPT: LazyLock<Arc<UserScript>> =
    LazyLock::new(|| Arc::new(UserScript::new(include_bytes!("one_command.lua"), false)));

/// The script that carries out the command in its arguments.
pub(crate) fn one_command() -> &'static Arc<UserScript> {
    &SCRIPT
}

/// The reply of the command with these words, by that of the script.
pub(crate) fn reply_of_one_command<'r>(args: &[Vec<u8>], protocol: Protocol, reply: &'r [u8]) -> Cow<'r, [u8]> {
    if let Some(number) = reply.strip_prefix(b"+exactly ") {
        return Cow::Owned([b":", number].concat());
    }
    let shape = args.first().and_then(|name| Shape::of(name, args));
    match (shape, Reply::parse(reply)) {
        (Some(shape), Ok(Reply::Array(elements))) if protocol == Protocol::Resp3 => {
            let mut out = Vec::with_capacity(reply.len());
            shape.write(elements, &mut Answer::new(&mut out, protocol));
            Cow::Owned(out)
        }
        _ => Cow::Borrowed(reply),
    }
}

/// What RESP3 has for an array that a script answers, as scripts speak RESP2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Set,
    Map,
    /// An array of arrays of two.
    Pairs,
}

impl Shape {
    /// That of a command's answer; none where it is an array.
    fn of(name: &[u8], args: &[Vec<u8>]) -> Option<Self> {
        let is_any = |names: &[&str]| names.iter().any(|other| is_word(name, other));
        let is_set = is_any(&["smembers", "sinter", "sunion", "sdiff"]) || is_word(name, "spop") && args.len() > 2;
        match () {
            () if is_set => Some(Self::Set),
            () if is_any(&["hgetall", "lcs"]) => Some(Self::Map),
            () if is_word(name, "hrandfield") && args.len() > 3 => Some(Self::Pairs),
            () => None,
        }
    }

    fn write(self, mut elements: Elements<'_>, answer: &mut Answer<'_>) {
        let len = elements.len();
        match self {
            Self::Set => answer.set(len),
            Self::Map => answer.map(len / 2),
            Self::Pairs => answer.array(len / 2),
        }
        let mut nth = 0;
        while let Some(element) = elements.next_raw() {
            if self == Self::Pairs && nth % 2 == 0 {
                answer.array(2);
            }
            answer.raw(element);
            nth += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_the_commands_own() {
        for (line, protocol, reply, expected) in [
            ("incr k", Protocol::Resp2, "+exactly=9007199254740993 ", ":9007199254740993 "),
            ("LCS a b IDX", Protocol::Resp3, "*4 $3 len :1 :2 :3 ", "%2 $3 len :1 :2 :3 "),
            ("LCS a b IDX", Protocol::Resp2, "*4 $3 len :1 :2 :3 ", "*4 $3 len :1 :2 :3 "),
            ("LCS a b", Protocol::Resp3, "$3 len ", "$3 len "),
            ("MGET a b", Protocol::Resp3, "*2 _ _ ", "*2 _ _ "),
            ("Smembers s", Protocol::Resp3, "*2 $1 a $1 b ", "~2 $1 a $1 b "),
            ("SPOP s", Protocol::Resp3, "$1 a ", "$1 a "),
            ("SPOP s 1", Protocol::Resp3, "*1 $1 a ", "~1 $1 a "),
            ("HGETALL h", Protocol::Resp3, "*2 $1 f $1 v ", "%1 $1 f $1 v "),
            ("HGETALL h", Protocol::Resp3, "-WRONGTYPE ", "-WRONGTYPE "),
            ("HRANDFIELD h 1", Protocol::Resp3, "*1 $1 f ", "*1 $1 f "),
            ("HRANDFIELD h 2 WITHVALUES", Protocol::Resp3, "*4 $1 f $1 v $1 g $1 w ", "*2 *2 $1 f $1 v *2 $1 g $1 w "),
        ] {
            let args: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let [reply, expected] = [reply, expected].map(|text| text.replace(' ', "\r\n").replace('=', " "));
            let said = reply_of_one_command(&args, protocol, reply.as_bytes());
            assert_eq!(said, expected.as_bytes(), "{line}");
        }
    }
}
