//! A few keys at a fixed time, for the tests beside the commands.

use super::{Call, Collected, Entry, Halt, Held, HelpRequest, Reply, Space, finish};
use crate::collection::{Collection, Hash};
use crate::command::table;
use crate::dialect::Dialect;
use crate::resp::{Answer, Protocol};
use crate::server_info::ServerInfo;

/// A space that commands are run on one by one, each on what the one before left.
pub(crate) struct Fixture {
    space: Space,
    server: ServerInfo,
    newest_commands: bool,
}

/// No keys, at `now_ms`.
pub(crate) fn now_is(now_ms: i64) -> Fixture {
    Fixture { space: Space::new(now_ms), server: ServerInfo::default(), newest_commands: true }
}

impl Fixture {
    /// The same behind this server, with what later ones have or without.
    pub(crate) fn behind(mut self, name: &str, version: &str, newest_commands: bool) -> Self {
        self.server = ServerInfo { name: name.to_owned(), version: version.to_owned() };
        self.newest_commands = newest_commands;
        self
    }

    pub(crate) fn string(&mut self, key: &str, value: &str) {
        self.load(key, value, None);
    }

    pub(crate) fn string_until(&mut self, key: &str, value: &str, expires_at_ms: i64) {
        self.load(key, value, Some(expires_at_ms));
    }

    pub(crate) fn other(&mut self, key: &str, kind: &str) {
        self.space.load(key.as_bytes(), Held::Other(kind.as_bytes().to_vec()));
    }

    pub(crate) fn set(&mut self, key: &str, members: &[&str]) {
        self.set_until(key, members, None);
    }

    pub(crate) fn set_until(&mut self, key: &str, members: &[&str], expires_at_ms: Option<i64>) {
        let members = members.iter().map(|member| member.as_bytes().to_vec()).collect();
        let held = Held::Collection(Collected { collection: Collection::Set(members), expires_at_ms });
        self.space.load(key.as_bytes(), held);
    }

    pub(crate) fn hash(&mut self, key: &str, hash: Hash) {
        let held = Held::Collection(Collected { collection: Collection::Hash(hash), expires_at_ms: None });
        self.space.load(key.as_bytes(), held);
    }

    fn load(&mut self, key: &str, value: &str, expires_at_ms: Option<i64>) {
        let entry = Entry { value: value.as_bytes().to_vec(), expires_at_ms };
        self.space.load(key.as_bytes(), Held::String(entry));
    }

    /// Hands over the replies to an ask.
    pub(crate) fn answers(&mut self, replies: Vec<Reply>) {
        self.space.answer_ask(replies);
    }

    /// The same with other random numbers.
    pub(crate) fn seeded(mut self, seed: u64) -> Self {
        self.space = self.space.seeded(seed);
        self
    }

    /// The RESP2 reply.
    pub(crate) fn run(&mut self, args: &[&str]) -> String {
        self.run_in(Protocol::Resp2, args)
    }

    /// The reply in this protocol.
    pub(crate) fn run_in(&mut self, protocol: Protocol, args: &[&str]) -> String {
        String::from_utf8(self.run_bytes(protocol, &of_texts(args))).unwrap()
    }

    /// The same of bytes.
    pub(crate) fn run_bytes(&mut self, protocol: Protocol, args: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, protocol);
        let flow = self.flow(args, &mut answer);
        finish(flow, &mut answer).unwrap();
        out
    }

    /// What the command asks the server.
    pub(crate) fn ask(&mut self, args: &[&str]) -> HelpRequest {
        let mut out = Vec::new();
        match self.flow(&of_texts(args), &mut Answer::new(&mut out, Protocol::Resp2)) {
            Err(Halt::Ask(ask)) => ask,
            other => panic!("no ask: {other:?}"),
        }
    }

    fn flow(&mut self, args: &[&[u8]], answer: &mut Answer<'_>) -> Result<(), Halt> {
        let command = table().resolve(args).unwrap();
        let run = command.run.or(command.members).unwrap();
        let dialect = Dialect::new(&self.server, self.newest_commands);
        run(&Call { args, dialect }, &mut self.space, answer)
    }

    /// Notes from now on what happens to keys.
    pub(crate) fn noting_events(mut self) -> Self {
        self.space = self.space.noting_events(true);
        self
    }

    /// What has happened to keys since the space began.
    pub(crate) fn events(&self) -> Vec<String> {
        self.space.events().map(|(key, event)| format!("{event} {}", key.escape_ascii())).collect()
    }

    /// The keys written since the space began.
    pub(crate) fn changed(&self) -> Vec<String> {
        self.space.changes().map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }
}

fn of_texts<'t>(args: &[&'t str]) -> Vec<&'t [u8]> {
    args.iter().map(|arg| arg.as_bytes()).collect()
}

#[test]
fn events_are_those_of_redis_in_its_order() {
    for (command, events) in [
        ("SET a v", &["set a"][..]),
        ("SET none v PX 100", &["new none", "set none", "expire none"]),
        ("SET a v KEEPTTL GET", &["set a"]),
        ("SET a v NX", &[]),
        ("SETNX none v", &["new none", "set none"]),
        ("SETEX a 10 v", &["set a", "expire a"]),
        ("GETSET a v", &["set a"]),
        ("MSET a 1 none 2 none 3", &["set a", "new none", "set none", "set none"]),
        ("MSETNX a 1 none 2", &[]),
        ("APPEND a \"\"", &["append a"]),
        ("SETRANGE none 2 x", &["new none", "setrange none"]),
        ("INCR a", &["incrby a"]),
        ("DECRBY none 3", &["new none", "incrby none"]),
        ("SETBIT a 1 0", &[]),
        ("SETBIT a 1 1", &["setbit a"]),
        ("BITFIELD a SET u8 0 53", &[]),
        ("BITFIELD a GET u8 0", &[]),
        ("BITFIELD a SET u8 0 7 SET u8 1 9", &["setbit a"]),
        ("BITOP NOT none a", &["new none", "set none"]),
        ("BITOP NOT a none", &["del a"]),
        ("DEL a none e a", &["del a", "del e"]),
        ("GETDEL a", &["del a"]),
        ("GETDEL none", &[]),
        ("GETEX a PX 5", &["expire a"]),
        ("GETEX a PXAT 5", &["del a"]),
        ("GETEX a PERSIST", &[]),
        ("GETEX e PERSIST", &["persist e"]),
        ("GETEX a", &[]),
        ("EXPIRE a 10", &["expire a"]),
        ("EXPIRE a 10 XX", &[]),
        ("EXPIRE a -1", &["del a"]),
        ("PERSIST e", &["persist e"]),
        ("PERSIST a", &[]),
        ("RENAME a e", &["new e", "rename_from a", "rename_to e"]),
        ("RENAME a a", &[]),
        ("RENAMENX a e", &[]),
        ("COPY a e", &[]),
        ("COPY a e REPLACE", &["new e", "copy_to e"]),
        ("DELIFEQ a 5", &["del a"]),
        ("DELIFEQ a 6", &[]),
    ] {
        let mut keys = now_is(1000).noting_events();
        keys.string("a", "5");
        keys.string_until("e", "v", 5000);
        let args: Vec<&str> = command.split(' ').map(|word| word.trim_matches('"')).collect();
        keys.run(&args);
        assert_eq!(keys.events(), events, "{command}");
        if !events.is_empty() {
            assert!(!keys.changed().is_empty(), "{command}");
        }
    }
    let mut silent = now_is(1000);
    silent.run(&["SET", "a", "v"]);
    assert!(silent.events().is_empty());
}
