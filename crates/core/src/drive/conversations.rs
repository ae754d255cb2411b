//! Commands over one connection, many at once, each a client of its own to the core.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Context, Conversation, Pipe, Progress, Started};
use crate::clients::Clients;
use crate::layout::Layout;
use crate::resp::ReplyError;
use crate::session::{Peer, Session};

/// What ends a connection.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The server sent what is no reply.
    #[error(transparent)]
    Reply(#[from] ReplyError),
    /// The server sent a reply that nothing had asked for.
    #[error("the server sent a reply that nothing had asked for")]
    Unasked,
    /// The server sent a reply of another kind than the command has.
    #[error("the server answered with '{0}', which is no reply to what was asked")]
    Unexpected(String),
    /// What was begun changes the connection for those who come later, or ends it. It must be given up as well.
    #[error("{0} does not stand by itself")]
    NotByItself(String),
}

/// The time by the server's clock in milliseconds since 1970, and the source of fresh numbers.
pub struct Outside<'o> {
    /// The server's time.
    pub now_ms: i64,
    /// Numbers that are never drawn twice.
    pub nonces: &'o mut dyn FnMut() -> u64,
}

/// Commands under way, each with what its asker wants to know of it when it is answered.
///
/// None waits for another's second round trip. So two commands on one key must not be under way together, unless both
/// only read: whoever drives this waits for the first one. Commands that choose something for those that come later
/// (SELECT, MULTI, WATCH, SUBSCRIBE, HELLO) are not for this: see [`Conversation`].
#[derive(Debug)]
pub struct Conversations<'l, T> {
    context: Context<'l>,
    /// Whoever is under way has a place here, with what is known of it and its answer.
    all: Vec<(Conversation, Option<T>, Vec<u8>)>,
    free: Vec<usize>,
    /// Whose replies come next: a place in `all`, and the request there.
    pipe: Pipe<(usize, u64)>,
    clients: Arc<Clients>,
    wire: Vec<u8>,
    /// Replies to all that was written so far.
    commands: u64,
    answered: VecDeque<(T, Vec<u8>)>,
}

impl<'l, T> Conversations<'l, T> {
    /// For a connection that speaks RESP2, on which nothing is under way.
    pub fn new(context: Context<'l>) -> Self {
        Self {
            context,
            all: Vec::new(),
            free: Vec::new(),
            pipe: Pipe::default(),
            clients: Arc::default(),
            wire: Vec::new(),
            commands: 0,
            answered: VecDeque::new(),
        }
    }

    /// The layout that it goes by.
    pub fn layout(&self) -> &'l Layout {
        self.context.layout()
    }

    /// How many commands are under way, or answered and not taken.
    pub fn under_way(&self) -> usize {
        self.all.len() - self.free.len() + self.answered.len()
    }

    /// How many physical commands were written so far, which is how many replies there will be.
    pub fn commands(&self) -> u64 {
        self.commands
    }

    /// What is to be sent; the driver takes it.
    pub fn wire(&mut self) -> &mut Vec<u8> {
        &mut self.wire
    }

    /// Begins a command on keys; [`Self::poll_answer`] gives `about` back with its answer.
    ///
    /// # Errors
    /// [`DriveError::NotByItself`].
    pub fn begin(&mut self, args: &[&[u8]], about: T, outside: &mut Outside<'_>) -> Result<(), DriveError> {
        let mut env = self.context.env(outside.now_ms, &mut *outside.nonces);
        let at = self.free.pop().unwrap_or_else(|| {
            let session = Session::new(Peer::default(), &self.clients, &env);
            self.all.push((Conversation::new(session), None, Vec::new()));
            self.all.len() - 1
        });
        let (conversation, known, answer) = &mut self.all[at];
        let refused = || DriveError::NotByItself(args.first().unwrap_or(&&b""[..]).escape_ascii().to_string());
        let plan = conversation.plan(args, &env).ok_or_else(refused)?;
        match conversation.begin(&plan, args, None, &mut env, &mut self.wire, answer) {
            Started::Answered => *known = Some(about),
            Started::Sent { slot, replies } => {
                *known = Some(about);
                self.pipe.expect((at, slot), replies);
                self.commands += u64::from(replies);
            }
            Started::Pushes | Started::Close => return Err(refused()),
        }
        self.note_answer(at)
    }

    /// Where a command is answered, another may take its place.
    fn note_answer(&mut self, at: usize) -> Result<(), DriveError> {
        let (conversation, known, answer) = &mut self.all[at];
        if conversation.in_flight() > 0 {
            return Ok(());
        }
        if !conversation.session().is_as_it_began() {
            return Err(DriveError::NotByItself("a command that chooses something for later ones".to_owned()));
        }
        if let Some(about) = known.take() {
            self.answered.push_back((about, std::mem::take(answer)));
            self.free.push(at);
        }
        Ok(())
    }

    /// Takes what the server sent; how many of these bytes were whole replies. The others come again, with more.
    ///
    /// # Errors
    /// The connection must be given up, and what is under way with it.
    pub fn handle_bytes(&mut self, input: &[u8], outside: &mut Outside<'_>) -> Result<usize, DriveError> {
        let mut used = 0;
        while let Some(len) = self.pipe.scan(&input[used..]).map_err(DriveError::Reply)? {
            self.handle_reply(&input[used..used + len], outside)?;
            used += len;
            if used == input.len() {
                break;
            }
        }
        Ok(used)
    }

    /// Takes one whole reply.
    ///
    /// # Errors
    /// The connection must be given up, and what is under way with it.
    pub fn handle_reply(&mut self, reply: &[u8], outside: &mut Outside<'_>) -> Result<(), DriveError> {
        let (at, slot) = *self.pipe.front().ok_or(DriveError::Unasked)?;
        self.pipe.advance();
        let mut env = self.context.env(outside.now_ms, &mut *outside.nonces);
        let (conversation, _, answer) = &mut self.all[at];
        match conversation.handle_reply(slot, reply, &mut env, &mut self.wire, answer) {
            Progress::Unexpected => return Err(DriveError::Unexpected(reply.escape_ascii().to_string())),
            Progress::More(replies) => {
                self.pipe.expect((at, slot), replies);
                self.commands += u64::from(replies);
            }
            Progress::Kept => {}
        }
        self.note_answer(at)
    }

    /// The next command that has been answered, with its answer in RESP2.
    pub fn poll_answer(&mut self) -> Option<(T, Vec<u8>)> {
        self.answered.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::ServerInfo;

    #[test]
    fn commands_are_answered_each_for_itself() {
        let layout = Layout::parse_file("[[namespace]]\nkeys = 'n:{id:int}'\nbucket = { span = 10 }\n").unwrap();
        let server = ServerInfo { name: "redis".into(), version: "7.0.15".into() };
        let mut all = Conversations::new(Context::new(&layout, server));
        let outside = &mut Outside { now_ms: 1_700_000_000_000, nonces: &mut || 7 };
        all.begin(&[b"GET", b"n:5"], "folded", outside).unwrap();
        all.begin(&[b"GET", b"other"], "plain", outside).unwrap();
        all.begin(&[b"GET"], "wrong", outside).unwrap();
        assert_eq!((all.under_way(), all.commands()), (3, 2));
        assert!(all.wire().starts_with(b"*3\r\n$4\r\nHGET\r\n"));
        let input = b"$5\r\nhello\r\n$5\r\nwo";
        assert_eq!(all.handle_bytes(input, outside).unwrap(), 11);
        assert_eq!(all.handle_bytes(b"$5\r\nworld\r\n", outside).unwrap(), 11);
        let answers: Vec<_> = std::iter::from_fn(|| all.poll_answer()).collect();
        assert_eq!(answers[0].0, "wrong");
        assert!(answers[0].1.starts_with(b"-ERR wrong number"));
        assert_eq!(answers[1..], [("folded", b"$5\r\nhello\r\n".to_vec()), ("plain", b"$5\r\nworld\r\n".to_vec())]);
        assert_eq!(all.under_way(), 0);
        assert!(matches!(all.handle_reply(b"+OK\r\n", outside), Err(DriveError::Unasked)));
    }

    #[test]
    fn what_changes_the_connection_is_refused() {
        let layout = Layout::default();
        let outside = &mut Outside { now_ms: 1_700_000_000_000, nonces: &mut || 7 };
        for command in ["SUBSCRIBE news", "MULTI", "QUIT", "CLIENT REPLY OFF", "HELLO 3"] {
            let mut all = Conversations::new(Context::new(&layout, ServerInfo::default()));
            let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            let begun = all.begin(&args, (), outside);
            let ended = begun.and_then(|()| all.handle_reply(b"*2\r\n$2\r\nid\r\n:3\r\n", outside));
            assert!(matches!(ended, Err(DriveError::NotByItself(_))), "{command}: {ended:?}");
        }
        for command in ["SELECT 1", "WATCH a"] {
            let mut all = Conversations::new(Context::new(&layout, ServerInfo::default()));
            let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            all.begin(&args, (), outside).unwrap();
            let ended = (0..3).find_map(|_| all.handle_reply(b"+OK\r\n", outside).err());
            assert!(matches!(ended, Some(DriveError::NotByItself(_))), "{command}: {ended:?}");
        }
    }
}
