//! Finds where a server's reply ends, and looks into it without building a value.
//!
//! ```text
//! +OK\r\n  -ERR …\r\n  :7\r\n  _\r\n  #t\r\n  ,1.5\r\n  (123\r\n        a line
//! $3\r\nabc\r\n  !3\r\n…  =7\r\ntxt:abc\r\n  $-1\r\n                 a length, then so many bytes
//! *2\r\n…  ~2\r\n…  >2\r\n…  %1\r\n…  |1\r\n…  *-1\r\n               a count, then so many replies
//! ```
//!
//! One counter of the elements still to come stands in for a stack: a nested array adds its elements to
//! it. So nesting costs nothing, and the scan stops and resumes at any byte.

/// What can't be a reply. The connection to the server can't go on after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    /// A reply starts with a byte that is no type of RESP2 or RESP3.
    #[error("the server sent a reply of unknown type 0x{0:02x}; is this a Redis or Valkey port?")]
    UnknownType(u8),
    /// A length or count is no number.
    #[error("the server sent a malformed length")]
    Length,
}

/// A resumable search for the end of a reply.
#[derive(Clone, Debug)]
pub struct ReplyScanner {
    position: usize,
    left: u64,
}

impl Default for ReplyScanner {
    fn default() -> Self {
        Self { position: 0, left: 1 }
    }
}

impl ReplyScanner {
    /// Where the reply at the start of `input` ends, or none when it isn't all there. Until it is, every
    /// call gets the same start and at least the bytes of the call before.
    ///
    /// # Errors
    /// Bytes that can't be a reply.
    pub fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, ReplyError> {
        while self.left > 0 {
            let Some(head) = Head::read(input, self.position)? else { return Ok(None) };
            let end = head.end.checked_add(head.payload_bytes).ok_or(ReplyError::Length)?;
            if end > input.len() {
                return Ok(None);
            }
            self.position = end;
            self.left = (self.left - 1).checked_add(head.elements).ok_or(ReplyError::Length)?;
        }
        let end = self.position;
        *self = Self::default();
        Ok(Some(end))
    }
}

/// Where the head of the array ends that `input` begins with, and how many elements follow; none where more bytes are needed.
///
/// # Errors
/// Bytes that can't be a reply.
pub fn array_head(input: &[u8]) -> Result<Option<(usize, u64)>, ReplyError> {
    Ok(Head::read(input, 0)?.map(|head| (head.end, head.elements)))
}

/// Follows one reply while its bytes are handed on in pieces, so that nobody holds all of them.
#[derive(Clone, Debug)]
pub struct ReplyFlow {
    /// Bytes to come of the string that it is in.
    payload_bytes: usize,
    /// Replies to come.
    left: u64,
}

impl Default for ReplyFlow {
    fn default() -> Self {
        Self { payload_bytes: 0, left: 1 }
    }
}

impl ReplyFlow {
    /// How many bytes at the start of `input` belong to the reply and may be handed on, and whether it ends behind
    /// them. What follows those bytes comes first in the next call.
    ///
    /// # Errors
    /// Bytes that can't be a reply.
    pub fn advance(&mut self, input: &[u8]) -> Result<(usize, bool), ReplyError> {
        let mut at = 0;
        loop {
            let passed = self.payload_bytes.min(input.len() - at);
            at += passed;
            self.payload_bytes -= passed;
            if self.payload_bytes > 0 {
                return Ok((at, false));
            }
            if self.left == 0 {
                return Ok((at, true));
            }
            let Some(head) = Head::read(input, at)? else { return Ok((at, false)) };
            at = head.end;
            self.payload_bytes = head.payload_bytes;
            self.left = (self.left - 1).checked_add(head.elements).ok_or(ReplyError::Length)?;
        }
    }
}

/// Hands on the texts of arrays, one behind the other, while the reply that has them is handed on in pieces.
#[derive(Clone, Debug)]
pub struct Texts {
    /// Bytes to come before the first array.
    before: usize,
    /// Bytes to come of the text that it is in.
    payload_bytes: usize,
}

impl Texts {
    /// Those that begin behind so many bytes.
    pub(crate) fn behind(before: usize) -> Self {
        Self { before, payload_bytes: 0 }
    }

    /// Appends the texts of a piece, which [`ReplyFlow`] has cut.
    pub(crate) fn append(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut at = self.before.min(piece.len());
        self.before -= at;
        let mut start = at;
        while at < piece.len() {
            let passed = self.payload_bytes.min(piece.len() - at);
            at += passed;
            self.payload_bytes -= passed;
            // A piece is cut within texts or before heads.
            let Ok(Some(head)) = Head::read(piece, at) else { break };
            if head.elements > 0 || head.kind == b'*' {
                out.extend_from_slice(&piece[start..at]);
                start = head.end;
            }
            at = head.end;
            self.payload_bytes = head.payload_bytes;
        }
        out.extend_from_slice(&piece[start..at]);
    }
}

/// The first line of a reply.
struct Head {
    kind: u8,
    /// The text between the kind and the line's end.
    text: std::ops::Range<usize>,
    end: usize,
    /// Bytes that follow, the line end of a bulk string included.
    payload_bytes: usize,
    /// Replies that follow as parts of this one.
    elements: u64,
}

impl Head {
    fn read(input: &[u8], start: usize) -> Result<Option<Self>, ReplyError> {
        let Some(&kind) = input.get(start) else { return Ok(None) };
        if !known(kind) {
            return Err(ReplyError::UnknownType(kind));
        }
        let ends = |at: &usize| input.get(start + at + 1) == Some(&b'\n');
        let Some(line) = memchr::memchr_iter(b'\r', &input[start..]).find(ends) else { return Ok(None) };
        let end = start + line + 2;
        let text = start + 1..start + line;
        let count = || parse_integer(&input[text.clone()]).ok_or(ReplyError::Length);
        let (payload_bytes, elements) = match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => (0, 0),
            // A length of -1 is nil: nothing follows.
            b'$' | b'!' | b'=' => {
                (usize::try_from(count()?).map_or(Some(0), |len| len.checked_add(2)).ok_or(ReplyError::Length)?, 0)
            }
            b'*' | b'~' | b'>' => (0, u64::try_from(count()?).unwrap_or(0)),
            b'%' => (0, u64::try_from(count()?).unwrap_or(0).checked_mul(2).ok_or(ReplyError::Length)?),
            // An attribute stands before the reply it describes and isn't counted.
            b'|' => {
                let pairs = u64::try_from(count()?).unwrap_or(0);
                (0, pairs.checked_mul(2).and_then(|len| len.checked_add(1)).ok_or(ReplyError::Length)?)
            }
            other => return Err(ReplyError::UnknownType(other)),
        };
        Ok(Some(Self { kind, text, end, payload_bytes, elements }))
    }
}

fn known(kind: u8) -> bool {
    matches!(
        kind,
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' | b'$' | b'!' | b'=' | b'*' | b'~' | b'>' | b'%' | b'|'
    )
}

/// One whole reply, looked at in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Nil, in any of its forms.
    Nil,
    /// A bulk or verbatim string.
    Bulk(&'a [u8]),
    /// A simple string, or a RESP3 number other than an integer, as text.
    Simple(&'a [u8]),
    /// An integer, or a RESP3 boolean as 0 or 1.
    Integer(i64),
    /// An error, its code first, without the leading `-`.
    Error(&'a [u8]),
    /// An array, set or push: so many elements.
    Array(Elements<'a>),
    /// A map: its keys and values in turn.
    Map(Elements<'a>),
}

/// The elements of an aggregate reply, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    left: u64,
    rest: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Reads one whole reply.
    ///
    /// # Errors
    /// Bytes that are no reply, or only a part of one.
    pub fn parse(raw: &'a [u8]) -> Result<Self, ReplyError> {
        let head = Head::read(raw, 0)?.ok_or(ReplyError::Length)?;
        let text = &raw[head.text];
        let payload = || raw.get(head.end..head.end + head.payload_bytes.saturating_sub(2)).ok_or(ReplyError::Length);
        Ok(match head.kind {
            b'+' | b',' | b'(' => Self::Simple(text),
            b'-' => Self::Error(text),
            b':' => Self::Integer(parse_integer(text).ok_or(ReplyError::Length)?),
            b'#' => Self::Integer(i64::from(text == b"t")),
            b'_' => Self::Nil,
            b'$' | b'*' if text == b"-1" => Self::Nil,
            b'!' => Self::Error(payload()?),
            b'=' => Self::Bulk(payload()?.get(4..).ok_or(ReplyError::Length)?),
            b'$' => Self::Bulk(payload()?),
            b'%' => Self::Map(Elements { left: head.elements, rest: &raw[head.end..] }),
            b'|' => {
                // Past the attribute, to the reply it describes.
                let mut attribute = Elements { left: head.elements - 1, rest: &raw[head.end..] };
                attribute.by_ref().for_each(drop);
                return Self::parse(attribute.rest);
            }
            _ => Self::Array(Elements { left: head.elements, rest: &raw[head.end..] }),
        })
    }

    /// What TIME answered, in microseconds since 1970; none where this is no such answer.
    pub fn time_us(self) -> Option<i64> {
        let Self::Array(mut parts) = self else { return None };
        let mut number = || std::str::from_utf8(parts.next()?.bytes()?).ok()?.parse::<i64>().ok();
        let (seconds, micros) = (number()?, number()?);
        seconds.checked_mul(1_000_000)?.checked_add(micros)
    }

    /// The texts of an array of such; none where it is anything else.
    pub(crate) fn texts(self) -> Option<Vec<Vec<u8>>> {
        let Self::Array(texts) = self else { return None };
        texts.map(|text| Some(text.bytes()?.to_vec())).collect()
    }

    /// The bytes of a string reply, none for anything else.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bulk(bytes) | Self::Simple(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'a> Elements<'a> {
    /// So many that `rest` begins with.
    pub(crate) fn of(left: u64, rest: &'a [u8]) -> Self {
        Self { left, rest }
    }

    /// How many elements are left.
    pub fn len(&self) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX)
    }

    /// What is left, as it came.
    pub(crate) fn raw(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether none is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The bytes of the next element, just as they came.
    pub fn next_raw(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let end = ReplyScanner::default().scan(self.rest).ok().flatten()?;
        let (element, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(element)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        Reply::parse(self.next_raw()?).ok()
    }
}

fn parse_integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REPLIES: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR no\r\n",
        b":-7\r\n",
        b"$3\r\na\r\n\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"_\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b"(12345678901234567890\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"!5\r\nERR x\r\n",
        b"*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
        b"%1\r\n+a\r\n~1\r\n:2\r\n",
        b">2\r\n+message\r\n$1\r\nx\r\n",
        b"|1\r\n+ttl\r\n:3\r\n*1\r\n+x\r\n",
    ];

    #[test]
    fn every_split_of_every_reply_ends_at_the_same_place() {
        for reply in REPLIES {
            let mut scanner = ReplyScanner::default();
            for end in 0..reply.len() {
                assert_eq!(scanner.scan(&reply[..end]), Ok(None), "{}", reply.escape_ascii());
            }
            assert_eq!(scanner.scan(reply), Ok(Some(reply.len())), "{}", reply.escape_ascii());
        }
    }

    #[test]
    fn a_reply_is_handed_on_in_pieces_up_to_its_end() {
        for reply in REPLIES {
            let stream = [reply, &b"+next\r\n"[..]].concat();
            for size in 1..stream.len() {
                let (mut flow, mut passed, mut ends) = (ReplyFlow::default(), 0, false);
                let mut there = 0;
                while !ends {
                    there = (there + size).min(stream.len());
                    let (len, last) = flow.advance(&stream[passed..there]).unwrap();
                    (passed, ends) = (passed + len, last);
                }
                assert_eq!(passed, reply.len(), "{} by {size}", reply.escape_ascii());
            }
        }
    }

    #[test]
    fn texts_of_arrays_are_handed_on_one_behind_the_other() {
        let begin = b"*7\r\n$3\r\n\r\n*\r\n:4\r\n+whole\r\n";
        let reply = [&begin[..], b"*2\r\n$1\r\na\r\n$4\r\n\r\n*2\r\n*0\r\n*1\r\n$0\r\n\r\n*1\r\n$2\r\n$1\r\n"].concat();
        for size in 1..=reply.len() {
            let (mut flow, mut texts) = (ReplyFlow::default(), Texts::behind(begin.len()));
            let (mut passed, mut there, mut out, mut ends) = (0, 0, Vec::new(), false);
            while !ends {
                there = (there + size).min(reply.len());
                let (len, last) = flow.advance(&reply[passed..there]).unwrap();
                texts.append(&reply[passed..passed + len], &mut out);
                (passed, ends) = (passed + len, last);
            }
            let expected = b"$1\r\na\r\n$4\r\n\r\n*2\r\n$0\r\n\r\n$2\r\n$1\r\n";
            assert_eq!(out.escape_ascii().to_string(), expected.escape_ascii().to_string(), "by {size}");
        }
    }

    #[test]
    fn replies_are_looked_at_in_place() {
        assert_eq!(Reply::parse(b"$-1\r\n"), Ok(Reply::Nil));
        assert_eq!(Reply::parse(b"=7\r\ntxt:abc\r\n"), Ok(Reply::Bulk(b"abc")));
        assert_eq!(Reply::parse(b"#f\r\n"), Ok(Reply::Integer(0)));
        let Ok(Reply::Array(elements)) = Reply::parse(b"|1\r\n+ttl\r\n:3\r\n*2\r\n+x\r\n*1\r\n:1\r\n") else {
            panic!("no array")
        };
        assert_eq!(elements.len(), 2);
        assert_eq!(elements.map(|element| element.bytes()).collect::<Vec<_>>(), [Some(&b"x"[..]), None]);
    }

    #[test]
    fn nesting_costs_no_stack() {
        let deep = b"*1\r\n".repeat(1_000_000);
        let mut scanner = ReplyScanner::default();
        assert_eq!(scanner.scan(&deep), Ok(None));
        let whole = [deep.as_slice(), b":1\r\n"].concat();
        assert_eq!(scanner.scan(&whole), Ok(Some(whole.len())));
    }

    #[test]
    fn a_line_ends_at_both_its_bytes() {
        assert_eq!(ReplyScanner::default().scan(b"+a\rb\r"), Ok(None));
        assert_eq!(ReplyScanner::default().scan(b"+a\rb\r\n"), Ok(Some(6)));
        assert_eq!(Reply::parse(b"+a\rb\r\n"), Ok(Reply::Simple(b"a\rb")));
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        assert_eq!(ReplyScanner::default().scan(b"HTTP/1.1"), Err(ReplyError::UnknownType(b'H')));
        assert_eq!(ReplyScanner::default().scan(b"H\r"), Err(ReplyError::UnknownType(b'H')));
        assert_eq!(ReplyScanner::default().scan(b"$x\r\n"), Err(ReplyError::Length));
        assert_eq!(ReplyScanner::default().scan(b"%9223372036854775807\r\n"), Ok(None));
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(input in prop::collection::vec(prop::sample::select(b"*$%|>~=!+-:_#,(\r\n0129xt".to_vec()), 0..200)) {
            if let Ok(Some(end)) = ReplyScanner::default().scan(&input) {
                prop_assert!(end <= input.len());
                if let Ok(Reply::Array(elements) | Reply::Map(elements)) = Reply::parse(&input[..end]) {
                    let _ = elements.count();
                }
            }
        }
    }
}
