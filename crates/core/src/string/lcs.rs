//! LCS: the longest common subsequence of two strings.
//!
//! The replies, which of several equally long subsequences is found included, are those of lcsCommand
//! (t_string.c, Redis 7.0.15), and so are its limits: it refuses pairs whose table of 4-byte lengths would
//! exceed `proto-max-bulk-len`. Here that table is one row of lengths and, to walk back, one bit a cell.

use super::{Call, Flow, Halt, MAX_STRING_BYTES, SYNTAX_ERROR, Space, integer};
use crate::resp::Answer;
use crate::resp::word::is_word;

const NO_STRINGS: &str = "ERR The specified keys must contain string values";
const BOTH: &str = "ERR If you want both the length and indexes, please just use IDX.";
const TOO_LONG: &str = "ERR String too long for LCS";
const TOO_LARGE: &str = "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len";

/// LCS key key [LEN] [IDX] [MINMATCHLEN length] [WITHMATCHLEN]: the subsequence, its length, or the
/// ranges it is made of, from the last to the first.
pub(super) fn lcs(call: &Call<'_>, space: &mut Space, answer: &mut Answer<'_>) -> Flow {
    let (a, b) = match (space.string(call.args[1]), space.string(call.args[2])) {
        (Ok(a), Ok(b)) => (a.map_or(&[][..], |entry| &entry.value), b.map_or(&[][..], |entry| &entry.value)),
        (Err(halt @ (Halt::Large | Halt::Undecodable(_))), _)
        | (_, Err(halt @ (Halt::Large | Halt::Undecodable(_)))) => {
            return Err(halt);
        }
        _ => return Err(NO_STRINGS.into()),
    };
    let options = Options::parse(&call.args[3..])?;
    check_size(a.len(), b.len())?;

    let table = Table::build(a, b, options.indexes || !options.length);
    if options.indexes {
        let ranges = table.ranges(a, b);
        options.write_ranges(&ranges, table.length, answer);
    } else if options.length {
        answer.integer(i64::from(table.length));
    } else {
        let text: Vec<u8> =
            table.ranges(a, b).iter().rev().flat_map(|range| &a[range.a..range.a + range.len]).copied().collect();
        answer.bulk(&text);
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    length: bool,
    indexes: bool,
    with_match_length: bool,
    min_match_length: i64,
}

impl Options {
    fn parse(mut args: &[&[u8]]) -> Result<Self, Halt> {
        let mut options = Self::default();
        while let [word, rest @ ..] = args {
            args = rest;
            match word {
                word if is_word(word, "idx") => options.indexes = true,
                word if is_word(word, "len") => options.length = true,
                word if is_word(word, "withmatchlen") => options.with_match_length = true,
                word if is_word(word, "minmatchlen") => {
                    let [length, rest @ ..] = rest else { return Err(SYNTAX_ERROR.into()) };
                    options.min_match_length = integer(length)?;
                    args = rest;
                }
                _ => return Err(SYNTAX_ERROR.into()),
            }
        }
        if options.indexes && options.length { Err(BOTH.into()) } else { Ok(options) }
    }

    fn write_ranges(&self, ranges: &[Range], length: u32, answer: &mut Answer<'_>) {
        let wanted = |range: &&Range| as_integer(range.len) >= self.min_match_length;
        answer.map(2);
        answer.bulk(b"matches");
        answer.array(ranges.iter().filter(wanted).count());
        for range in ranges.iter().filter(wanted) {
            answer.array(if self.with_match_length { 3 } else { 2 });
            for start in [range.a, range.b] {
                answer.array(2);
                answer.integer(as_integer(start));
                answer.integer(as_integer(start + range.len - 1));
            }
            if self.with_match_length {
                answer.integer(as_integer(range.len));
            }
        }
        answer.bulk(b"len");
        answer.integer(i64::from(length));
    }
}

/// The server's limits on the lengths, and on the table it would build.
fn check_size(a: usize, b: usize) -> Result<(), Halt> {
    let (a, b) = (u64::try_from(a).unwrap_or(u64::MAX), u64::try_from(b).unwrap_or(u64::MAX));
    if a.max(b) >= u64::from(u32::MAX - 1) {
        return Err(TOO_LONG.into());
    }
    let table_bytes = u128::from(a + 1) * u128::from(b + 1) * 4;
    if table_bytes > u128::from(MAX_STRING_BYTES.cast_unsigned()) { Err(TOO_LARGE.into()) } else { Ok(()) }
}

/// Bytes that are equal in both strings, without a gap; `len` is at least 1.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    a: usize,
    b: usize,
    len: usize,
}

/// The length found, and the way back through it.
struct Table {
    length: u32,
    width: usize,
    /// A bit for each pair of bytes, a row for each byte of `a`: drop the byte of `a` rather than that of
    /// `b`, as what is left without it has the longer subsequence.
    drops_a: Vec<u64>,
}

impl Table {
    /// Works out all lengths; the way back only where it is needed. Time: the product of the lengths.
    fn build(a: &[u8], b: &[u8], way_back: bool) -> Self {
        let width = b.len();
        let mut drops_a = vec![0; if way_back { (a.len() * width).div_ceil(64) } else { 0 }];
        // One row, overwritten from the left: what is right of `j` is still the row above.
        let mut row = vec![0_u32; width + 1];
        for (i, byte) in a.iter().enumerate() {
            let mut without_both = 0;
            for (j, other) in b.iter().enumerate() {
                let (without_a, without_b) = (row[j + 1], row[j]);
                row[j + 1] = if byte == other { without_both + 1 } else { without_a.max(without_b) };
                without_both = without_a;
                if way_back && without_a > without_b {
                    let cell = i * width + j;
                    drops_a[cell / 64] |= 1 << (cell % 64);
                }
            }
        }
        Self { length: row[width], width, drops_a }
    }

    /// The ranges, from the last to the first.
    fn ranges(&self, a: &[u8], b: &[u8]) -> Vec<Range> {
        let mut ranges: Vec<Range> = Vec::new();
        let (mut i, mut j) = (a.len(), b.len());
        while i > 0 && j > 0 {
            if a[i - 1] == b[j - 1] {
                match ranges.last_mut() {
                    Some(range) if range.a == i && range.b == j => {
                        *range = Range { a: i - 1, b: j - 1, len: range.len + 1 };
                    }
                    _ => ranges.push(Range { a: i - 1, b: j - 1, len: 1 }),
                }
                (i, j) = (i - 1, j - 1);
            } else {
                let cell = (i - 1) * self.width + (j - 1);
                if self.drops_a[cell / 64] >> (cell % 64) & 1 == 1 { i -= 1 } else { j -= 1 }
            }
        }
        ranges
    }
}

fn as_integer(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::bits::tests::{holding, run};
    use super::super::{Entry, Held, Space};
    use super::{TOO_LARGE, TOO_LONG, check_size};

    fn texts() -> Space {
        let mut space = holding(b"ohmytext");
        space.load(b"b", Held::String(Entry { value: b"mynewtext".to_vec(), expires_at_ms: None }));
        space
    }

    #[test]
    fn text_and_length() {
        let mut space = texts();
        assert_eq!(run(&mut space, "LCS k b"), "$6 mytext");
        assert_eq!(run(&mut space, "LCS k b LEN"), ":6");
        assert_eq!(run(&mut space, "LCS k none"), "$0");
    }

    #[test]
    fn ranges_from_the_last_to_the_first() {
        let mut space = texts();
        assert_eq!(
            run(&mut space, "LCS k b IDX"),
            "*4 $7 matches *2 *2 *2 :4 :7 *2 :5 :8 *2 *2 :2 :3 *2 :0 :1 $3 len :6"
        );
        assert_eq!(
            run(&mut space, "LCS k b IDX MINMATCHLEN 4 WITHMATCHLEN"),
            "*4 $7 matches *1 *3 *2 :4 :7 *2 :5 :8 :4 $3 len :6"
        );
    }

    #[test]
    fn errors() {
        let mut space = texts();
        assert_eq!(run(&mut space, "LCS k list nonsense"), "-ERR The specified keys must contain string values");
        assert_eq!(run(&mut space, "LCS k b MINMATCHLEN"), "-ERR syntax error");
        assert_eq!(run(&mut space, "LCS k b MINMATCHLEN x"), "-ERR value is not an integer or out of range");
        assert_eq!(
            run(&mut space, "LCS k b LEN IDX"),
            "-ERR If you want both the length and indexes, please just use IDX."
        );
    }

    #[test]
    fn limits_are_those_of_the_servers_table() {
        assert_eq!(check_size(11_584, 11_584), Ok(()));
        assert_eq!(check_size(11_585, 11_585), Err(TOO_LARGE.into()));
        assert_eq!(check_size(0, u32::MAX as usize - 1), Err(TOO_LONG.into()));
    }
}
