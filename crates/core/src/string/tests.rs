//! A few keys at a fixed time, for the tests beside the commands.

use super::{Call, Entry, Halt, Held, HelpRequest, Reply, Space, finish};
use crate::command::table;
use crate::dialect::Dialect;
use crate::resp::{Answer, Protocol};
use crate::server_info::ServerInfo;

/// A space that commands are run on one by one, each on what the one before left.
pub(super) struct Fixture {
    space: Space,
    server: ServerInfo,
    newest_commands: bool,
}

/// No keys, at `now_ms`.
pub(super) fn now_is(now_ms: i64) -> Fixture {
    Fixture { space: Space::new(now_ms), server: ServerInfo::default(), newest_commands: true }
}

impl Fixture {
    /// The same behind this server, with what later ones have or without.
    pub(super) fn behind(mut self, name: &str, version: &str, newest_commands: bool) -> Self {
        self.server = ServerInfo { name: name.to_owned(), version: version.to_owned() };
        self.newest_commands = newest_commands;
        self
    }

    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.load(key, value, None);
    }

    pub(super) fn string_until(&mut self, key: &str, value: &str, expires_at_ms: i64) {
        self.load(key, value, Some(expires_at_ms));
    }

    pub(super) fn other(&mut self, key: &str, kind: &str) {
        self.space.load(key.as_bytes(), Held::Other(kind.as_bytes().to_vec()));
    }

    fn load(&mut self, key: &str, value: &str, expires_at_ms: Option<i64>) {
        let entry = Entry { value: value.as_bytes().to_vec(), expires_at_ms };
        self.space.load(key.as_bytes(), Held::String(entry));
    }

    /// Hands over the replies to an ask.
    pub(super) fn answers(&mut self, replies: Vec<Reply>) {
        self.space.answer_ask(replies);
    }

    /// The RESP2 reply.
    pub(super) fn run(&mut self, args: &[&str]) -> String {
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, Protocol::Resp2);
        let flow = self.flow(args, &mut answer);
        finish(flow, &mut answer).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// What the command asks the server.
    pub(super) fn ask(&mut self, args: &[&str]) -> HelpRequest {
        let mut out = Vec::new();
        match self.flow(args, &mut Answer::new(&mut out, Protocol::Resp2)) {
            Err(Halt::Ask(ask)) => ask,
            other => panic!("no ask: {other:?}"),
        }
    }

    fn flow(&mut self, args: &[&str], answer: &mut Answer<'_>) -> Result<(), Halt> {
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        let run = table().resolve(&args).unwrap().run.unwrap();
        let dialect = Dialect::new(&self.server, self.newest_commands);
        run(&Call { args: &args, dialect }, &mut self.space, answer)
    }

    /// The keys written since the space began.
    pub(super) fn changed(&self) -> Vec<String> {
        self.space.changes().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }
}
