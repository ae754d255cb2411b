//! Reads a client's requests: arrays of bulk strings, or inline commands.
//!
//! ```text
//! *2\r\n $3\r\n GET\r\n $6\r\n user:7\r\n      an array of bulk strings
//! GET user:7\r\n                               an inline command, words quoted as redis-cli quotes them
//! ```
//!
//! Limits and error texts are those of `networking.c` in Redis 7.0. The reader keeps its place between
//! calls: each byte is looked at once, however small the pieces are that it arrives in.

use std::ops::Range;

use smallvec::SmallVec;

/// The arguments of one request, the command's name first. Never empty.
pub type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// A line (an inline command, or the text of a length) may be this long, as in Redis.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// How large a request may be.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Arguments in one request; Redis allows 1,048,576.
    pub max_args: usize,
    /// Bytes of one argument; `proto-max-bulk-len`, 512 MiB by default.
    pub max_bulk_bytes: usize,
    /// Bytes of a whole request.
    pub max_request_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { max_args: 1024 * 1024, max_bulk_bytes: 512 << 20, max_request_bytes: 1 << 30 }
    }
}

impl RequestLimits {
    /// What a client may send before it has authenticated: ten arguments of 16 KiB, as in Redis.
    pub const UNAUTHENTICATED: Self = Self { max_args: 10, max_bulk_bytes: 16_384, max_request_bytes: 256 * 1024 };
}

/// A request that breaks the protocol. The connection can't go on after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The array's length isn't a number, or is over the limit.
    #[error("Protocol error: invalid multibulk length")]
    MultibulkLength,
    /// An argument doesn't start with `$`.
    #[error("Protocol error: expected '$', got '{}'", char::from(*.0))]
    ExpectedBulk(u8),
    /// An argument's length isn't a number, or is over the limit.
    #[error("Protocol error: invalid bulk length")]
    BulkLength,
    /// The array's length goes on for 64 KiB without a line end.
    #[error("Protocol error: too big mbulk count string")]
    MultibulkCountTooLong,
    /// An argument's length goes on for 64 KiB without a line end.
    #[error("Protocol error: too big bulk count string")]
    BulkCountTooLong,
    /// An inline command over 64 KiB.
    #[error("Protocol error: too big inline request")]
    InlineTooLong,
    /// An inline command whose quotes don't close.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// The whole request is over the limit.
    #[error("keyfold: a request of more than {0} bytes; raise --max-request-bytes if it is meant")]
    RequestTooLarge(usize),
}

/// What one call to [`RequestReader::read`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// More bytes are needed.
    Incomplete,
    /// Nothing to do in the first so many bytes: an empty line, or an array of no elements.
    Nothing(usize),
    /// A request ends after so many bytes; [`RequestReader::args`] shows it.
    Request(usize),
}

/// A resumable reader of requests.
#[derive(Debug, Default)]
pub struct RequestReader {
    limits: RequestLimits,
    /// How far the request has been read.
    position: usize,
    /// Arguments still to come; none before the head has been read.
    left: Option<usize>,
    /// The length of the argument being read, once its head has been.
    bulk: Option<usize>,
    args: Vec<Range<usize>>,
    inline: Vec<Vec<u8>>,
    done: bool,
}

impl RequestReader {
    /// A reader that keeps to `limits`.
    pub fn new(limits: RequestLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Changes the limits, from the next request on.
    pub fn set_limits(&mut self, limits: RequestLimits) {
        self.limits = limits;
    }

    /// Reads on. `input` starts at the request's first byte on every call until the request is complete.
    ///
    /// # Errors
    /// What breaks the protocol or a limit; the reader is of no use after that.
    pub fn read(&mut self, input: &[u8]) -> Result<Read, ProtocolError> {
        if self.done {
            self.start_over();
        }
        let read = match input.first() {
            None => Ok(Read::Incomplete),
            Some(b'*') => self.read_array(input),
            Some(_) => self.read_inline(input),
        }?;
        match read {
            Read::Incomplete if input.len() > self.limits.max_request_bytes => {
                return Err(ProtocolError::RequestTooLarge(self.limits.max_request_bytes));
            }
            Read::Incomplete => {}
            Read::Nothing(_) | Read::Request(_) => self.done = true,
        }
        Ok(read)
    }

    /// The arguments of the request that [`read`](Self::read) just found at the start of `input`.
    pub fn args<'a>(&'a self, input: &'a [u8]) -> Args<'a> {
        if self.inline.is_empty() {
            self.args.iter().map(|range| &input[range.clone()]).collect()
        } else {
            self.inline.iter().map(Vec::as_slice).collect()
        }
    }

    /// Whether the request was an inline command, whose bytes a server would read with other limits.
    pub fn is_inline(&self) -> bool {
        !self.inline.is_empty()
    }

    fn start_over(&mut self) {
        *self = Self { limits: self.limits, args: std::mem::take(&mut self.args), ..Self::default() };
        self.args.clear();
        self.args.shrink_to(64);
    }

    fn read_array(&mut self, input: &[u8]) -> Result<Read, ProtocolError> {
        if self.left.is_none() {
            let Some(line) = self.read_line(input, ProtocolError::MultibulkCountTooLong)? else {
                return Ok(Read::Incomplete);
            };
            let count = parse_length(&input[line]).ok_or(ProtocolError::MultibulkLength)?;
            if count <= 0 {
                return Ok(Read::Nothing(self.position));
            }
            let count = usize::try_from(count).map_err(|_| ProtocolError::MultibulkLength)?;
            if count > self.limits.max_args {
                return Err(ProtocolError::MultibulkLength);
            }
            self.left = Some(count);
        }
        while self.left != Some(0) {
            if !self.read_bulk(input)? {
                return Ok(Read::Incomplete);
            }
            self.left = self.left.map(|left| left - 1);
        }
        Ok(Read::Request(self.position))
    }

    /// Reads one argument; false when it isn't all there yet.
    fn read_bulk(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => {
                if let Some(&kind) = input.get(self.position)
                    && kind != b'$'
                {
                    return Err(ProtocolError::ExpectedBulk(kind));
                }
                let Some(line) = self.read_line(input, ProtocolError::BulkCountTooLong)? else { return Ok(false) };
                let len = parse_length(&input[line])
                    .and_then(|len| usize::try_from(len).ok())
                    .filter(|len| *len <= self.limits.max_bulk_bytes)
                    .ok_or(ProtocolError::BulkLength)?;
                if self.position.saturating_add(len) > self.limits.max_request_bytes {
                    return Err(ProtocolError::RequestTooLarge(self.limits.max_request_bytes));
                }
                self.bulk = Some(len);
                len
            }
        };
        let end = self.position + len;
        if input.len() < end + 2 {
            return Ok(false);
        }
        self.args.push(self.position..end);
        self.position = end + 2;
        self.bulk = None;
        Ok(true)
    }

    /// The text of a head line, without its kind and its line end; the position moves behind it.
    fn read_line(&mut self, input: &[u8], too_long: ProtocolError) -> Result<Option<Range<usize>>, ProtocolError> {
        let start = self.position;
        let Some(end) = memchr::memchr(b'\r', &input[start..]) else {
            return if input.len() - start > MAX_LINE_BYTES { Err(too_long) } else { Ok(None) };
        };
        if input.len() < start + end + 2 {
            return Ok(None);
        }
        self.position = start + end + 2;
        Ok(Some(start + 1..start + end))
    }

    fn read_inline(&mut self, input: &[u8]) -> Result<Read, ProtocolError> {
        let Some(end) = memchr::memchr(b'\n', &input[self.position..]).map(|end| end + self.position) else {
            self.position = input.len();
            return if input.len() > MAX_LINE_BYTES { Err(ProtocolError::InlineTooLong) } else { Ok(Read::Incomplete) };
        };
        if end > MAX_LINE_BYTES {
            return Err(ProtocolError::InlineTooLong);
        }
        let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
        self.inline = split_words(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        self.position = end + 1;
        Ok(if self.inline.is_empty() { Read::Nothing(end + 1) } else { Read::Request(end + 1) })
    }
}

/// A length as `string2ll` reads it: canonical decimal, a sign allowed.
fn parse_length(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (itoa::Buffer::new().format(number).as_bytes() == text).then_some(number)
}

/// Splits an inline command into words as `sdssplitargs` does; none where quotes don't close.
fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() || rest[0] == 0 {
            return Some(words);
        }
        let (word, after) = split_word(rest)?;
        words.push(word);
        rest = after;
    }
}

fn split_word(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | 0 => break,
            b'"' | b'\'' => {
                at = read_quoted(text, at, &mut word)?;
                break;
            }
            other => {
                word.push(other);
                at += 1;
            }
        }
    }
    Some((word, &text[at..]))
}

/// Reads a quoted part that opens at `open`; where it ends, which must be the word's end too.
fn read_quoted(text: &[u8], open: usize, word: &mut Vec<u8>) -> Option<usize> {
    let quote = text[open];
    let mut at = open + 1;
    loop {
        let byte = *text.get(at)?;
        if byte == quote {
            let ends = text.get(at + 1).is_none_or(|next| next.is_ascii_whitespace() || *next == 0x0b);
            return ends.then_some(at + 1);
        }
        if byte == b'\\' && quote == b'"' {
            at = read_escape(text, at, word)?;
        } else if byte == b'\\' && text.get(at + 1) == Some(&b'\'') {
            word.push(b'\'');
            at += 2;
        } else {
            word.push(byte);
            at += 1;
        }
    }
}

/// Reads an escape in double quotes that starts at `at`; where it ends.
fn read_escape(text: &[u8], at: usize, word: &mut Vec<u8>) -> Option<usize> {
    let hex = |at: usize| text.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    if text.get(at + 1) == Some(&b'x')
        && let (Some(high), Some(low)) = (hex(at + 2), hex(at + 3))
    {
        word.push(u8::try_from(high * 16 + low).unwrap_or(0));
        return Some(at + 4);
    }
    word.push(match *text.get(at + 1)? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    });
    Some(at + 2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resp::write_command;

    fn read_all(input: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let mut reader = RequestReader::default();
        match reader.read(input)? {
            Read::Request(end) => {
                assert_eq!(end, input.len());
                Ok(reader.args(input).iter().map(|arg| arg.to_vec()).collect())
            }
            Read::Incomplete | Read::Nothing(_) => Ok(Vec::new()),
        }
    }

    #[test]
    fn arrays_and_inline_commands() {
        let words = |text: &str| text.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(read_all(b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"), Ok(words("GET a")));
        assert_eq!(read_all(b"  GET\ta \r\n"), Ok(words("GET a")));
        assert_eq!(
            read_all(b"SET 'it\\'s' \"\\x41\\n\\q\"\n"),
            Ok(vec![b"SET".to_vec(), b"it's".to_vec(), b"A\nq".to_vec()])
        );
        assert_eq!(read_all(b"\r\n"), Ok(vec![]));
        assert_eq!(read_all(b"*0\r\n"), Ok(vec![]));
        assert_eq!(read_all(b"*-1\r\n"), Ok(vec![]));
    }

    #[test]
    fn errors_are_the_servers() {
        let message = |input: &[u8]| read_all(input).unwrap_err().to_string();
        assert_eq!(message(b"*x\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(message(b"*1048577\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(message(b"*1\r\n+"), "Protocol error: expected '$', got '+'");
        assert_eq!(message(b"*1\r\n*1\r\n"), "Protocol error: expected '$', got '*'");
        assert_eq!(message(b"*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(message(b"*1\r\n$01\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(message(b"*1\r\n$536870913\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(message(b"GET \"a\n"), "Protocol error: unbalanced quotes in request");
        assert_eq!(message(&[b'a'; 70_000]), "Protocol error: too big inline request");
        let mut long = b"*".to_vec();
        long.resize(70_000, b'1');
        assert_eq!(message(&long), "Protocol error: too big mbulk count string");
    }

    #[test]
    fn a_request_over_the_limit_is_refused_before_it_is_buffered() {
        let limits = RequestLimits { max_request_bytes: 100, ..RequestLimits::default() };
        let error = RequestReader::new(limits).read(b"*2\r\n$3\r\nGET\r\n$200\r\n");
        assert_eq!(error, Err(ProtocolError::RequestTooLarge(100)));
    }

    proptest! {
        #[test]
        fn every_split_reads_the_same(args in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6), inline: bool) {
            let mut input = Vec::new();
            if inline {
                input.extend_from_slice(b"GET \"a b\" c\r\n");
            } else {
                write_command(&mut input, &args.iter().map(Vec::as_slice).collect::<Vec<_>>());
            }
            let mut reader = RequestReader::default();
            for end in 0..input.len() {
                prop_assert_eq!(reader.read(&input[..end]), Ok(Read::Incomplete));
            }
            prop_assert_eq!(reader.read(&input), Ok(Read::Request(input.len())));
            if !inline {
                prop_assert_eq!(reader.args(&input).to_vec(), args);
            }
        }

        #[test]
        fn hostile_bytes_never_panic(input in prop::collection::vec(prop::sample::select(b"*$+\r\n0123-9\"'\\x a".to_vec()), 0..200)) {
            let mut reader = RequestReader::default();
            let mut rest = input.as_slice();
            while let Ok(Read::Request(end) | Read::Nothing(end)) = reader.read(rest) {
                let _ = reader.args(rest);
                prop_assert!(end > 0 && end <= rest.len());
                rest = &rest[end..];
            }
        }
    }
}
