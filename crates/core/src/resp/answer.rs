//! Writes answers to clients and commands to servers.
//!
//! One logical reply may look different in RESP2 and RESP3 (nil, maps, sets); [`Answer`] hides that, so
//! that what computes a reply does not ask for the protocol.

/// The protocol a connection speaks, chosen by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// RESP2, what every connection starts with.
    #[default]
    Resp2,
    /// RESP3, after `HELLO 3`.
    Resp3,
}

/// Appends replies, in one protocol, to a buffer.
#[derive(Debug)]
pub struct Answer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Answer<'a> {
    /// An answer that appends to `out`.
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// The protocol written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// `+OK`.
    pub fn ok(&mut self) {
        self.simple("OK");
    }

    /// A simple string. `text` holds no line break.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error: its code and message, as in `ERR syntax error`. Line breaks become spaces.
    pub fn error(&mut self, message: &str) {
        self.out.push(b'-');
        self.out.extend(message.bytes().map(|byte| if byte == b'\r' || byte == b'\n' { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.line(b':', itoa::Buffer::new().format(value).as_bytes());
    }

    /// A number of seconds: a double, in RESP2 its text.
    pub fn milliseconds_as_seconds(&mut self, ms: i64) {
        #[expect(clippy::cast_precision_loss, reason = "times that matter have far fewer digits")]
        let text = (ms as f64 / 1000.0).to_string();
        self.double(text.as_bytes());
    }

    /// A double by its text, in RESP2 the text.
    pub fn double(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// A bulk string.
    pub fn bulk(&mut self, bytes: &[u8]) {
        write_bulk(self.out, bytes);
    }

    /// Text to be shown as it is: a verbatim string, in RESP2 a bulk string.
    pub fn verbatim(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.head(b'=', text.len() + 4);
                self.out.extend_from_slice(b"txt:");
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// No value where a string would stand.
    pub fn nil(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No value where an array would stand, as an EXEC that was aborted answers.
    pub fn nil_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array; `len` elements follow.
    pub fn array(&mut self, len: usize) {
        self.head(b'*', len);
    }

    /// The head of a push, which RESP3 alone has; `len` elements follow.
    pub fn push(&mut self, len: usize) {
        self.head(b'>', len);
    }

    /// The head of a set; `len` elements follow. RESP2 shows an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', len),
            Protocol::Resp3 => self.head(b'~', len),
        }
    }

    /// The head of a map; `len` pairs follow. RESP2 shows a flat array.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.head(b'*', len * 2),
            Protocol::Resp3 => self.head(b'%', len),
        }
    }

    /// Bytes that are already a reply in this protocol.
    pub fn raw(&mut self, reply: &[u8]) {
        self.out.extend_from_slice(reply);
    }

    fn head(&mut self, kind: u8, len: usize) {
        self.line(kind, itoa::Buffer::new().format(len).as_bytes());
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends one command, as an array of bulk strings.
pub fn write_command(out: &mut Vec<u8>, args: &[&[u8]]) {
    out.push(b'*');
    out.extend_from_slice(itoa::Buffer::new().format(args.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    for arg in args {
        write_bulk(out, arg);
    }
}

/// Appends one bulk string.
pub fn write_bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(bytes.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}
