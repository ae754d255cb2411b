//! Where a reply ends, and what it says: RESP2 and RESP3 as servers write them.
//!
//! ```text
//! + - : _ , # (    a line                     +OK\r\n
//! $ ! =            a length, that many bytes  $5\r\nhello\r\n     $-1\r\n is nil
//! * ~ >            a length, that many values *2\r\n:1\r\n:2\r\n  *-1\r\n is nil
//! %                a length, twice as many    %1\r\n+a\r\n:1\r\n
//! |                the same, and then the value that it is about
//! ```
//! The core has a reader of its own; this one is written apart, so that the two check each other.

use std::fmt;

/// A reply nested deeper than this is malformed; no server nests so deep.
const MAX_DEPTH: usize = 64;

/// Bytes that are not RESP.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not RESP at byte {at}: {}", .bytes.escape_ascii())]
pub struct Malformed {
    /// Where, from the start of the reply.
    pub at: usize,
    /// The bytes from there on, at most 32.
    pub bytes: Vec<u8>,
}

impl Malformed {
    fn at(at: usize, bytes: &[u8]) -> Self {
        let rest = &bytes[at.min(bytes.len())..];
        Self { at, bytes: rest[..rest.len().min(32)].to_vec() }
    }
}

/// Finds the end of the first reply in bytes that come in pieces. What is whole is not looked at again.
#[derive(Clone, Debug)]
pub struct Scanner {
    /// What lies before is whole values of the reply.
    at: usize,
    /// Values still to come; an aggregate's head adds its elements.
    missing: u64,
}

impl Default for Scanner {
    fn default() -> Self {
        Self { at: 0, missing: 1 }
    }
}

impl Scanner {
    /// The reply's length in bytes once it is whole. `bytes` starts where it started the last time, and
    /// has at least what it had then.
    ///
    /// # Errors
    /// Where the bytes are not RESP.
    pub fn scan(&mut self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        while self.missing > 0 {
            let Some(head) = Head::read(bytes, self.at)? else { return Ok(None) };
            let Some(end) = head.end(bytes)? else { return Ok(None) };
            let children = head.children();
            // An attribute stands before a value and is none itself.
            let own = u64::from(head.kind != b'|');
            self.missing = (self.missing - own).checked_add(children).ok_or_else(|| Malformed::at(self.at, bytes))?;
            self.at = end;
        }
        Ok(Some(self.at))
    }
}

/// The line that every value begins with.
#[derive(Clone, Copy, Debug)]
struct Head<'a> {
    kind: u8,
    line: &'a [u8],
    /// The length that the line says, where it says one; none is nil.
    len: Option<usize>,
    /// After the line's break.
    body: usize,
}

impl<'a> Head<'a> {
    fn read(bytes: &'a [u8], start: usize) -> Result<Option<Self>, Malformed> {
        let Some((&kind, rest)) = bytes.get(start..).and_then(<[u8]>::split_first) else { return Ok(None) };
        if !b"+-:_,#($!=*~>%|".contains(&kind) {
            return Err(Malformed::at(start, bytes));
        }
        let Some(len) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        let line = &rest[..len];
        let mut head = Self { kind, line, len: None, body: start + 1 + len + 2 };
        if head.has_len() && !(line == b"-1" && b"$*".contains(&kind)) {
            head.len = Some(parse_len(line).ok_or_else(|| Malformed::at(start, bytes))?);
        }
        Ok(Some(head))
    }

    fn has_len(&self) -> bool {
        self.is_blob() || b"*~>%|".contains(&self.kind)
    }

    fn is_blob(&self) -> bool {
        b"$!=".contains(&self.kind)
    }

    /// How many values follow as a part of this one.
    fn children(&self) -> u64 {
        let len = self.len.unwrap_or(0) as u64;
        match self.kind {
            b'*' | b'~' | b'>' => len,
            b'%' | b'|' => len * 2,
            _ => 0,
        }
    }

    /// Where the value ends, its children aside; none where its bytes are not all there yet.
    fn end(&self, bytes: &[u8]) -> Result<Option<usize>, Malformed> {
        let (true, Some(len)) = (self.is_blob(), self.len) else { return Ok(Some(self.body)) };
        let end = self.body + len;
        match bytes.get(end..end + 2) {
            None => Ok(None),
            Some(b"\r\n") => Ok(Some(end + 2)),
            Some(_) => Err(Malformed::at(end, bytes)),
        }
    }
}

/// Plain digits, of a length that a reply may have.
fn parse_len(line: &[u8]) -> Option<usize> {
    if line.is_empty() || line.len() > 10 || !line.iter().all(u8::is_ascii_digit) {
        return None;
    }
    str::from_utf8(line).ok()?.parse().ok()
}

/// What a reply says. RESP2 and RESP3 forms stay apart.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Value {
    /// `+`
    Simple(Vec<u8>),
    /// `-` or `!`, its code first.
    Error(Vec<u8>),
    /// `:`
    Integer(i64),
    /// `$`
    Bulk(Vec<u8>),
    /// `$-1` of RESP2, `_` of RESP3.
    Nil,
    /// `*-1` of RESP2.
    NilArray,
    /// `*`
    Array(Vec<Value>),
    /// `~`, in the order that the server sent.
    Set(Vec<Value>),
    /// `>`
    Push(Vec<Value>),
    /// `%`, in the order that the server sent.
    Map(Vec<(Value, Value)>),
    /// `,` as text: `inf`, `1.5`.
    Double(Vec<u8>),
    /// `#`
    Boolean(bool),
    /// `(` as text.
    BigNumber(Vec<u8>),
    /// `=`, its three-letter format first: `txt:…`.
    Verbatim(Vec<u8>),
}

impl Value {
    /// Reads one whole reply. Attributes are read over.
    ///
    /// # Errors
    /// Where it is not RESP, not whole, or followed by more.
    pub fn parse(reply: &[u8]) -> Result<Self, Malformed> {
        let (value, end) = Self::parse_at(reply, 0, 0)?;
        if end == reply.len() { Ok(value) } else { Err(Malformed::at(end, reply)) }
    }

    fn parse_at(bytes: &[u8], start: usize, depth: usize) -> Result<(Self, usize), Malformed> {
        let malformed = || Malformed::at(start, bytes);
        let head = Head::read(bytes, start)?.filter(|_| depth <= MAX_DEPTH).ok_or_else(malformed)?;
        let end = head.end(bytes)?.ok_or_else(malformed)?;
        let (children, end) = Self::parse_children(bytes, &head, end, depth)?;
        let blob = || bytes[head.body..head.body + head.len.unwrap_or(0)].to_vec();
        let line = || head.line.to_vec();
        let value = match (head.kind, head.len) {
            (b'+', _) => Self::Simple(line()),
            (b'-', _) => Self::Error(line()),
            (b':', _) => Self::Integer(parse_integer(head.line).ok_or_else(malformed)?),
            (b'_', _) | (b'$', None) => Self::Nil,
            (b'*', None) => Self::NilArray,
            (b'$', _) => Self::Bulk(blob()),
            (b'!', _) => Self::Error(blob()),
            (b'=', _) => Self::Verbatim(blob()),
            (b',', _) => Self::Double(line()),
            (b'(', _) => Self::BigNumber(line()),
            (b'#', _) if head.line == b"t" || head.line == b"f" => Self::Boolean(head.line == b"t"),
            (b'*', _) => Self::Array(children),
            (b'~', _) => Self::Set(children),
            (b'>', _) => Self::Push(children),
            (b'%', _) => Self::Map(pairs(children)),
            (b'|', _) => return Self::parse_at(bytes, end, depth + 1),
            _ => return Err(malformed()),
        };
        Ok((value, end))
    }

    fn parse_children(
        bytes: &[u8],
        head: &Head<'_>,
        mut end: usize,
        depth: usize,
    ) -> Result<(Vec<Self>, usize), Malformed> {
        let mut children = Vec::new();
        for _ in 0..head.children() {
            let (child, child_end) = Self::parse_at(bytes, end, depth + 1)?;
            children.push(child);
            end = child_end;
        }
        Ok((children, end))
    }

    /// The bytes of a string, simple, bulk or verbatim (without its format).
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Simple(bytes) | Self::Bulk(bytes) => Some(bytes),
            Self::Verbatim(bytes) => bytes.get(4..),
            _ => None,
        }
    }

    /// An integer, as `:` or as the text of a string.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            _ => parse_integer(self.bytes()?),
        }
    }

    /// The elements of an array, set or push.
    pub fn elements(&self) -> Option<&[Self]> {
        match self {
            Self::Array(values) | Self::Set(values) | Self::Push(values) => Some(values),
            _ => None,
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// As redis-cli would show it, on one line and every byte told apart.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple(text) => write!(f, "{}", text.escape_ascii()),
            Self::Error(text) => write!(f, "(error) {}", text.escape_ascii()),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Bulk(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Nil => f.write_str("(nil)"),
            Self::NilArray => f.write_str("(nil array)"),
            Self::Array(values) => f.debug_list().entries(values).finish(),
            Self::Set(values) => f.debug_set().entries(values).finish(),
            Self::Push(values) => f.write_str("(push) ").and_then(|()| f.debug_list().entries(values).finish()),
            Self::Map(entries) => f.debug_map().entries(entries.iter().map(|(key, value)| (key, value))).finish(),
            Self::Double(text) => write!(f, "(double) {}", text.escape_ascii()),
            Self::Boolean(value) => write!(f, "({value})"),
            Self::BigNumber(text) => write!(f, "(big) {}", text.escape_ascii()),
            Self::Verbatim(text) => write!(f, "(verbatim) \"{}\"", text.escape_ascii()),
        }
    }
}

fn parse_integer(text: &[u8]) -> Option<i64> {
    str::from_utf8(text).ok()?.parse().ok()
}

fn pairs(values: Vec<Value>) -> Vec<(Value, Value)> {
    let mut values = values.into_iter();
    let mut pairs = Vec::new();
    while let (Some(key), Some(value)) = (values.next(), values.next()) {
        pairs.push((key, value));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLIES: &[&[u8]] = &[
        b"+OK\r\n",
        b"-ERR no such key\r\n",
        b":-7\r\n",
        b"$5\r\nhe\r\no\r\n",
        b"$0\r\n\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n+x\r\n",
        b"_\r\n",
        b",inf\r\n",
        b"#t\r\n",
        b"(3492890328409238509324850943850943825024385\r\n",
        b"!8\r\nERR a\r\nb\r\n",
        b"=7\r\ntxt:abc\r\n",
        b"~2\r\n:1\r\n:2\r\n",
        b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n",
        b"%2\r\n+a\r\n:1\r\n+b\r\n%1\r\n+c\r\n:2\r\n",
        b"|1\r\n+ttl\r\n:5\r\n*1\r\n|1\r\n+ttl\r\n:6\r\n:1\r\n",
    ];

    #[test]
    fn every_split_ends_at_the_same_byte() {
        for reply in REPLIES {
            let mut stream = reply.to_vec();
            stream.extend_from_slice(b"+next\r\n");
            for split in 0..reply.len() {
                let mut scanner = Scanner::default();
                assert_eq!(scanner.scan(&stream[..split]), Ok(None), "{} at {split}", reply.escape_ascii());
                assert_eq!(scanner.scan(&stream), Ok(Some(reply.len())), "{} at {split}", reply.escape_ascii());
            }
        }
    }

    #[test]
    fn whole_replies_parse_and_parts_do_not() {
        for reply in REPLIES {
            assert!(Value::parse(reply).is_ok(), "{}", reply.escape_ascii());
            for split in 0..reply.len() {
                assert!(Value::parse(&reply[..split]).is_err(), "{} at {split}", reply.escape_ascii());
            }
        }
    }

    #[test]
    fn values_read_as_they_say() {
        let shown = |reply: &[u8]| format!("{:?}", Value::parse(reply).unwrap());
        assert_eq!(shown(REPLIES[3]), r#""he\r\no""#);
        assert_eq!(shown(REPLIES[8]), r#"[1, ["a", (nil)], x]"#);
        assert_eq!(shown(REPLIES[17]), "{a: 1, b: {c: 2}}");
        assert_eq!(shown(REPLIES[18]), "[1]");
        assert_eq!(Value::parse(b"$2\r\n42\r\n").unwrap().integer(), Some(42));
        assert_eq!(Value::parse(REPLIES[14]).unwrap().bytes(), Some(b"abc".as_slice()));
    }

    #[test]
    fn nonsense_is_told() {
        let malformed: [&[u8]; 6] = [b"PONG\r\n", b"$x\r\n", b"$-2\r\n", b"*+1\r\n:1\r\n", b"$1\r\nab\r\n", b"~-1\r\n"];
        for reply in malformed {
            assert!(Scanner::default().scan(reply).is_err(), "{}", reply.escape_ascii());
            assert!(Value::parse(reply).is_err(), "{}", reply.escape_ascii());
        }
        assert!(Value::parse(&b"*1\r\n".repeat(100_000)).is_err());
        assert_eq!(Scanner::default().scan(&b"*9999999999\r\n".repeat(1000)), Ok(None));
    }
}
