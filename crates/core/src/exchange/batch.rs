//! Several physical commands sent as one, and their replies gathered.

use std::borrow::Cow;
use std::mem;

use crate::exchange::reply_kind::{Refusal, ReplyKind};
use crate::resp::{Reply, ReplyScanner, write_command};
use crate::server_info::ServerInfo;

/// The script that carries out several commands at one moment, without MULTI.
const AT_ONCE: &str = include_str!("at_once.lua");

/// Commands that a server takes even when it is out of memory, as long as they aren't within a MULTI.
const NEVER_GROW: &[&[u8]] = &[
    b"DEL",
    b"GET",
    b"HDEL",
    b"HGET",
    b"HLEN",
    b"HMGET",
    b"HSCAN",
    b"PEXPIRETIME",
    b"PTTL",
    b"SCAN",
    b"STRLEN",
    b"TYPE",
    b"UNLINK",
];

/// Commands for one [`Batch`], as bytes.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    bytes: Vec<u8>,
    kinds: Vec<ReplyKind>,
    /// One of them may need memory.
    may_grow: bool,
}

impl Commands {
    /// Appends a command of keyfold's own, whose reply is of the kind that it has.
    pub(crate) fn push(&mut self, args: &[&[u8]]) {
        write_command(&mut self.bytes, args);
        self.kinds.push(args.first().map_or(ReplyKind::Any, |name| ReplyKind::of(name)));
        self.may_grow |= !args.first().is_some_and(|name| NEVER_GROW.contains(name));
    }

    /// Appends a command of a client's, whose reply is for the client to judge.
    pub(crate) fn push_passed(&mut self, args: &[&[u8]]) {
        write_command(&mut self.bytes, args);
        self.kinds.push(ReplyKind::Any);
        self.may_grow = true;
    }

    /// Appends a command that is encoded already.
    pub(crate) fn push_bytes(&mut self, command: &[u8]) {
        self.bytes.extend_from_slice(command);
        self.kinds.push(ReplyKind::Any);
        self.may_grow = true;
    }

    /// Sends the commands, which only read, as one; it has one reply: an array of theirs.
    pub(crate) fn send_at_once(&self, server: &ServerInfo, wire: &mut Vec<u8>) {
        write_at_once(server.read_only_eval(), &self.bytes, wire);
    }

    /// Appends the commands as they are, or within MULTI and EXEC.
    fn write(&self, within_multi: bool, wire: &mut Vec<u8>) {
        if within_multi {
            write_command(wire, &[b"MULTI"]);
        }
        wire.extend_from_slice(&self.bytes);
        if within_multi {
            write_command(wire, &[b"EXEC"]);
        }
    }

    /// How many commands there are.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.kinds.len()).unwrap_or(u32::MAX)
    }
}

/// The replies to commands that were sent together.
#[derive(Debug)]
pub(crate) struct Batch {
    kinds: Vec<ReplyKind>,
    /// How many replies have come.
    taken: usize,
    left: u32,
    atomic: bool,
    failure: Option<Vec<u8>>,
    aborted: bool,
    /// A reply was of a kind that its command doesn't have.
    unexpected: bool,
    /// Within MULTI and EXEC only the reply to EXEC, which is an array of those to the commands.
    replies: Vec<Vec<u8>>,
    /// The commands once more, if all of them are among [`NEVER_GROW`]: to be sent without MULTI if it is refused.
    instead: Option<Vec<u8>>,
}

impl Batch {
    /// Sends the commands so that nothing happens between them: alone, or within MULTI and EXEC. Here as below with the
    /// number of replies to come.
    pub(crate) fn send_atomic(commands: &Commands, wire: &mut Vec<u8>) -> (Self, u32) {
        if commands.count() <= 1 { Self::send(commands, wire) } else { Self::send_transaction(commands, wire) }
    }

    /// The same, for commands that nobody needs any more.
    pub(crate) fn begin_atomic(commands: Commands, wire: &mut Vec<u8>) -> (Self, u32) {
        let is_alone = commands.count() <= 1;
        commands.write(!is_alone, wire);
        let left = commands.count() + if is_alone { 0 } else { 2 };
        let instead = (!is_alone && !commands.may_grow).then_some(commands.bytes);
        (Self { instead, ..Self::awaiting(commands.kinds, left, !is_alone) }, left)
    }

    /// Sends the commands within MULTI and EXEC, however few they are.
    pub(crate) fn send_transaction(commands: &Commands, wire: &mut Vec<u8>) -> (Self, u32) {
        commands.write(true, wire);
        let instead = (!commands.may_grow).then(|| commands.bytes.clone());
        let left = commands.count() + 2;
        (Self { instead, ..Self::awaiting(commands.kinds.clone(), left, true) }, left)
    }

    /// Sends the commands without MULTI, if a server out of memory has refused to queue them though they need none;
    /// the number of replies to come. None where nothing is to be sent.
    pub(crate) fn again(&mut self, wire: &mut Vec<u8>) -> Option<u32> {
        let is_full = self.failure.as_deref().is_some_and(|error| error.starts_with(b"-OOM "));
        let commands = self.instead.take().filter(|_| is_full && !self.unexpected)?;
        write_at_once(b"EVAL", &commands, wire);
        (self.failure, self.left) = (None, 1);
        Some(1)
    }

    /// Sends the commands one after another; another client's may come between them.
    pub(crate) fn send(commands: &Commands, wire: &mut Vec<u8>) -> (Self, u32) {
        commands.write(false, wire);
        (Self::awaiting(commands.kinds.clone(), commands.count(), false), commands.count())
    }

    fn awaiting(kinds: Vec<ReplyKind>, left: u32, atomic: bool) -> Self {
        Self {
            kinds,
            taken: 0,
            left,
            atomic,
            failure: None,
            aborted: false,
            unexpected: false,
            replies: Vec::new(),
            instead: None,
        }
    }

    /// Takes the next reply. Once all are there, or one of them is none that could have come: each just as it came, or
    /// why they can't be gone by.
    pub(crate) fn handle_reply(&mut self, reply: &[u8]) -> Option<Result<Vec<Vec<u8>>, Refusal>> {
        self.is_last(reply).then(|| self.take())
    }

    /// Takes the next reply; true once all are there, or one of them is none that could have come.
    pub(crate) fn is_last(&mut self, reply: &[u8]) -> bool {
        self.left = self.left.saturating_sub(1);
        let is_error = matches!(reply.first(), Some(b'-' | b'!'));
        if !self.atomic {
            self.unexpected |= !self.kinds.get(self.taken).is_some_and(|kind| kind.fits(reply));
            self.replies.push(reply.to_vec());
        } else if is_error {
            // The first error says why; EXEC's own says only that there was one.
            self.failure.get_or_insert_with(|| reply.to_vec());
        } else if self.left == 0 {
            self.take_exec(reply);
        } else {
            let expected: &[u8] = if self.taken == 0 { b"+OK\r\n" } else { b"+QUEUED\r\n" };
            self.unexpected |= reply != expected;
        }
        self.taken += 1;
        self.left == 0 || self.unexpected
    }

    /// Takes the reply to EXEC.
    fn take_exec(&mut self, reply: &[u8]) {
        let Ok(Reply::Array(mut elements)) = Reply::parse(reply) else {
            self.aborted = Reply::parse(reply) == Ok(Reply::Nil);
            self.unexpected |= !self.aborted;
            return;
        };
        let are_as_many = elements.len() == self.kinds.len();
        let fit = self.kinds.iter().all(|kind| elements.next_raw().is_some_and(|reply| kind.fits(reply)));
        self.unexpected |= !are_as_many || !fit;
        self.replies.push(reply.to_vec());
    }

    /// Whether EXEC answered nil: a watched key had changed, and nothing was carried out.
    pub(crate) fn aborted(&self) -> bool {
        self.aborted
    }

    /// The reply to each command, just as it came.
    ///
    /// # Errors
    /// The error reply, where the commands weren't carried out, or that the replies can't be trusted.
    pub(crate) fn take(&mut self) -> Result<Vec<Vec<u8>>, Refusal> {
        self.check()?;
        let replies = mem::take(&mut self.replies);
        match replies.first().filter(|_| self.atomic) {
            Some(array) => Ok(split_array(array).unwrap_or_default()),
            None => Ok(replies),
        }
    }

    /// The same as one array.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub(crate) fn take_array(&mut self) -> Result<Vec<u8>, Refusal> {
        self.check()?;
        let mut replies = mem::take(&mut self.replies);
        if self.atomic {
            return Ok(replies.pop().unwrap_or_default());
        }
        let mut array = format!("*{}\r\n", replies.len()).into_bytes();
        replies.iter().for_each(|reply| array.extend_from_slice(reply));
        Ok(array)
    }

    /// Whether the commands were carried out.
    fn check(&mut self) -> Result<(), Refusal> {
        match self.failure.take() {
            _ if self.unexpected => Err(Refusal::Unexpected),
            Some(error) => Err(Refusal::Error(error)),
            None => Ok(()),
        }
    }
}

/// Commands as one call of the script that carries each of them out, whatever becomes of the others.
pub(crate) fn at_once(commands: impl Iterator<Item = Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
    let mut words = [&b"EVAL"[..], AT_ONCE.as_bytes(), b"0"].map(<[u8]>::to_vec).to_vec();
    for command in commands {
        words.push(command.len().to_string().into_bytes());
        words.extend(command);
    }
    words
}

/// Appends encoded commands as one call of a script, by `EVAL` or `EVAL_RO`, that carries them out.
fn write_at_once(eval: &[u8], commands: &[u8], wire: &mut Vec<u8>) {
    let mut words: Vec<Cow<'_, [u8]>> = [eval, AT_ONCE.as_bytes(), b"0"].map(Cow::Borrowed).to_vec();
    let mut rest = commands;
    while let Ok(Some(end)) = ReplyScanner::default().scan(rest) {
        let (command, others) = rest.split_at(end);
        rest = others;
        if let Ok(Reply::Array(args)) = Reply::parse(command) {
            let args: Vec<&[u8]> = args.filter_map(Reply::bytes).collect();
            words.push(Cow::Owned(args.len().to_string().into_bytes()));
            words.extend(args.into_iter().map(Cow::Borrowed));
        }
    }
    write_command(wire, &words.iter().map(AsRef::as_ref).collect::<Vec<_>>());
}

/// The elements of an array reply, each as it came; none where it is no array.
pub(crate) fn split_array(reply: &[u8]) -> Option<Vec<Vec<u8>>> {
    let Ok(Reply::Array(mut elements)) = Reply::parse(reply) else { return None };
    let mut replies = Vec::with_capacity(elements.len().min(1024));
    while let Some(element) = elements.next_raw() {
        replies.push(element.to_vec());
    }
    Some(replies)
}
