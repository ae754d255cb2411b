//! What keyfold sends for a command on a folded key: its cheapest form at the server, where that is one request.

use std::time::SystemTime;

use anyhow::Context as _;
use keyfold_core::drive::{Context, Conversations, Outside};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::layout::Layout;
use keyfold_testkit::{Server, Wire, reply};

/// One request of keyfold's, word by word.
pub(crate) type Words = Vec<Vec<u8>>;

/// A keyfold without sockets of its own, that carries out commands one after the other.
pub(crate) struct Sender<'l> {
    conversations: Conversations<'l, ()>,
    wire: Wire,
}

impl<'l> Sender<'l> {
    pub(crate) fn new(layout: &'l Layout, server: &Server) -> anyhow::Result<Self> {
        let info = ServerInfo { name: server.flavor().name().to_owned(), version: server.version().to_string() };
        Ok(Self { conversations: Conversations::new(Context::without_data(layout, info)), wire: server.connect()? })
    }

    /// Carries out a command and gives what was sent at first, where that was one request without a NUL (which nobody can
    /// hand to a program).
    pub(crate) fn sent(&mut self, command: &[&[u8]]) -> anyhow::Result<Option<Words>> {
        let mut first = Vec::new();
        for later_ms in 0..100 {
            first = self.carry_out(command, later_ms)?;
            if !first.iter().flatten().flatten().any(|byte| *byte == 0) {
                break;
            }
        }
        let words = first.pop().filter(|words| first.is_empty() && !words.iter().flatten().any(|byte| *byte == 0));
        Ok(words)
    }

    /// The same of a command that was carried out before, so that what keyfold learns from its answer counts: that a counter
    /// expires, that a set lies in parts, and in which of them a member is.
    pub(crate) fn sent_again(&mut self, command: &[&[u8]]) -> anyhow::Result<Option<Words>> {
        self.sent(command)?;
        self.sent(command)
    }

    fn carry_out(&mut self, command: &[&[u8]], later_ms: i64) -> anyhow::Result<Vec<Words>> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let mut nonce = 0;
        let mut nonces = || {
            nonce += 1;
            nonce
        };
        let outside = &mut Outside { now_ms: i64::try_from(now.as_millis())? + later_ms, nonces: &mut nonces };
        self.conversations.begin(command, (), outside)?;
        let first = std::mem::take(self.conversations.wire());
        let mut to_send = first.clone();
        loop {
            if let Some(((), answer)) = self.conversations.poll_answer() {
                anyhow::ensure!(!answer.starts_with(b"-"), "{}", answer.escape_ascii());
                return requests(&first);
            }
            self.wire.send_bytes(&to_send)?;
            let reply = self.wire.reply()?;
            self.conversations.handle_reply(&reply, outside)?;
            to_send = std::mem::take(self.conversations.wire());
        }
    }
}

/// Requests one behind the other, as arrays.
fn requests(mut bytes: &[u8]) -> anyhow::Result<Vec<Words>> {
    let mut requests = Vec::new();
    while !bytes.is_empty() {
        let len = reply::Scanner::default().scan(bytes)?.context("it is whole")?;
        let request = reply::Value::parse(&bytes[..len])?;
        let words = request.elements().context("a request is an array")?;
        requests.push(words.iter().filter_map(|word| word.bytes().map(<[u8]>::to_vec)).collect());
        bytes = &bytes[len..];
    }
    Ok(requests)
}
