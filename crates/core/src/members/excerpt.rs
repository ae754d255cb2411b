//! Commands on some members of a collection that is too large to be read whole: by chance, or the next ones of a walk.
//!
//! What they ask for, and the answers that they make of what was found. Where a collection is read whole, `sets` and `hashes` do the same.

use crate::collection::CollectionKind::{self, Hash, Set};
use crate::glob;
use crate::members::cursor::{ScanOptions, is_cursor};
use crate::members::{hashes, sets};
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::string::Call;

/// More members than this are drawn, or come by in a step of a walk, from the whole collection.
const MOST: u64 = 1000;

/// Cursors of walks over large collections: behind this comes where the walk goes on. A server's own are smaller, and
/// clients that keep cursors as floating-point numbers have this one exactly.
const CURSOR: u64 = 1 << 50;

/// Where walks go on is below this: 24 bits of a hash, or while the collection is moved in steps, a server's cursor in what is in no part,
/// or behind it (`crates/core/src/exchange/parts/parts.lua`).
const POSITIONS: u64 = CURSOR;

/// What such a command asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Excerpt {
    /// Members by chance.
    Draw {
        /// Below zero: so many that may be the same; none is one that is answered as it is.
        count: Option<i64>,
        with_values: bool,
        /// They are removed.
        takes: bool,
    },
    /// The next members of a walk.
    Walk {
        /// The position where it goes on.
        from: u64,
        count: u64,
        /// Which of them are answered.
        pattern: Option<Vec<u8>>,
        with_values: bool,
    },
}

impl Excerpt {
    /// What the command of this name asks of a collection of this kind; none where it is none of these, isn't as it should be, or asks for
    /// too much.
    pub(crate) fn read(name: &str, kind: CollectionKind, call: &Call<'_>) -> Option<Self> {
        let draw = |count, with_values, takes| Self::Draw { count, with_values, takes };
        let excerpt = match (kind, name, call.args) {
            (Set, "spop", [_, _]) => draw(None, false, true),
            (Set, "spop", [_, _, count]) => draw(Some(parse_integer(count).filter(|count| *count >= 0)?), false, true),
            (Set, "srandmember", [_, _]) | (Hash, "hrandfield", [_, _]) => draw(None, false, false),
            (Set, "srandmember", [_, _, count]) => draw(Some(parse_integer(count)?), false, false),
            (Hash, "hrandfield", _) => {
                let hashes::Draw { count, with_values } = hashes::Draw::read(call).ok()??;
                draw(Some(count), with_values, false)
            }
            (Set, "sscan", _) => Self::walk(call, sets::scan_options(call).ok()?, false)?,
            (Hash, "hscan", _) => {
                let options = hashes::scan_options(call).ok()?;
                Self::walk(call, options, !options.without_values)?
            }
            _ => return None,
        };
        let most = match &excerpt {
            Self::Draw { count, .. } => count.unwrap_or(1).unsigned_abs(),
            Self::Walk { count, .. } => *count,
        };
        (most <= MOST).then_some(excerpt)
    }

    fn walk(call: &Call<'_>, options: ScanOptions<'_>, with_values: bool) -> Option<Self> {
        if !is_cursor(call.args[2], call.dialect) {
            return None;
        }
        // Whatever isn't ours is from before the collection was so large: the walk begins anew.
        let ours = parse_integer(call.args[2]).and_then(|cursor| u64::try_from(cursor).ok()?.checked_sub(CURSOR));
        Some(Self::Walk {
            from: ours.filter(|from| *from < POSITIONS).unwrap_or(0),
            count: options.count.unsigned_abs().min(MOST),
            pattern: options.pattern.map(<[u8]>::to_vec),
            with_values,
        })
    }

    /// Answers with what was found: members, each followed by its value where values are asked for; before them, in a walk,
    /// where it goes on. None where that isn't what was found.
    pub(crate) fn answer(&self, found: &[Vec<u8>], answer: &mut Answer<'_>) -> Option<()> {
        match self {
            Self::Draw { count: None, .. } => match found.first() {
                Some(member) => answer.bulk(member),
                None => answer.nil(),
            },
            Self::Draw { with_values: true, .. } => {
                let fields = found.chunks_exact(2).map(|pair| (&pair[0][..], &pair[1][..]));
                hashes::answer_fields(found.len() / 2, fields, true, answer);
            }
            Self::Draw { takes, .. } => {
                match takes {
                    true => answer.set(found.len()),
                    false => answer.array(found.len()),
                }
                found.iter().for_each(|member| answer.bulk(member));
            }
            Self::Walk { pattern, with_values, .. } => {
                let (next, found) = found.split_first()?;
                let next = u64::try_from(parse_integer(next)?).ok()?;
                let is_wanted =
                    |one: &&[Vec<u8>]| pattern.as_ref().is_none_or(|pattern| glob::matches(pattern, &one[0]));
                let texts = found.chunks(if *with_values { 2 } else { 1 }).filter(is_wanted).flatten();
                answer.array(2);
                answer.bulk(if next == 0 { 0 } else { CURSOR + next }.to_string().as_bytes());
                answer.array(texts.clone().count());
                texts.for_each(|text| answer.bulk(text));
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::Dialect;
    use crate::resp::Protocol;

    fn read(text: &str) -> Option<Excerpt> {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        let name = text.split(' ').next()?.to_ascii_lowercase();
        let kind = if name.starts_with('h') { Hash } else { Set };
        Excerpt::read(&name, kind, &Call { args: &args, dialect: Dialect::of_every_server() })
    }

    fn answered(text: &str, found: &[&str], protocol: Protocol) -> String {
        let (mut out, found) = (Vec::new(), found.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>());
        read(text).unwrap().answer(&found, &mut Answer::new(&mut out, protocol)).unwrap();
        String::from_utf8(out).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn what_is_asked_for() {
        let draw = |count, with_values, takes| Some(Excerpt::Draw { count, with_values, takes });
        let walk = |from, count, pattern: Option<&str>, with_values| {
            let pattern = pattern.map(|pattern| pattern.as_bytes().to_vec());
            Some(Excerpt::Walk { from, count, pattern, with_values })
        };
        for (text, wanted) in [
            ("SPOP k", draw(None, false, true)),
            ("spop k 0", draw(Some(0), false, true)),
            ("SPOP k -1", None),
            ("SPOP k 1001", None),
            ("SRANDMEMBER k", draw(None, false, false)),
            ("SRANDMEMBER k -1000", draw(Some(-1000), false, false)),
            ("SRANDMEMBER k x", None),
            ("HRANDFIELD k 5 WITHVALUES", draw(Some(5), true, false)),
            ("HRANDFIELD k 5 WITH", None),
            ("SSCAN k 0", walk(0, 10, None, false)),
            ("SSCAN k 17 COUNT 5 match a* count 7", walk(0, 7, Some("a*"), false)),
            ("SSCAN k x", None),
            ("SSCAN k 0 COUNT 0", None),
            ("SSCAN k 1125899906842629 MATCH *", walk(5, 10, None, false)),
            ("HSCAN k 2251799813685247 COUNT 100000", walk(POSITIONS - 1, 1000, None, true)),
            ("HSCAN k 2251799813685248", walk(0, 10, None, true)),
            ("SADD k a", None),
            ("SMEMBERS k", None),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_answered() {
        use Protocol::{Resp2, Resp3};
        for (text, found, protocol, wanted) in [
            ("SPOP k", &["a"][..], Resp2, "$1 a "),
            ("SRANDMEMBER k", &[], Resp2, "$-1 "),
            ("SPOP k 2", &["a", "b"], Resp3, "~2 $1 a $1 b "),
            ("SRANDMEMBER k -2", &["a", "a"], Resp3, "*2 $1 a $1 a "),
            ("HRANDFIELD k 1 WITHVALUES", &["f", "v"], Resp2, "*2 $1 f $1 v "),
            ("HRANDFIELD k 1 WITHVALUES", &["f", "v"], Resp3, "*1 *2 $1 f $1 v "),
            ("SSCAN k 0", &["0", "a"], Resp2, "*2 $1 0 *1 $1 a "),
            ("SSCAN k 0 MATCH b*", &["5", "a", "bc"], Resp2, "*2 $16 1125899906842629 *1 $2 bc "),
            ("HSCAN k 0 MATCH b*", &["0", "a", "b", "b", "x"], Resp2, "*2 $1 0 *2 $1 b $1 x "),
        ] {
            assert_eq!(answered(text, found, protocol), wanted, "{text}");
        }
    }
}
