//! One command on both sides: on the server, with all that is to be compared around it, and on a space.

use keyfold_core::collection::{Collection, Set};
use keyfold_core::command::table;
use keyfold_core::dialect::Dialect;
use keyfold_core::exchange::ServerInfo;
use keyfold_core::resp::{Answer, Elements, Protocol, Reply};
use keyfold_core::string::{self, Call, Collected, Held, Space, finish};

use super::generate::KEYS;
use crate::server::Connection;

/// Where the last event of a command is told from those of the next.
const END: &str = "__keyevent@0__:end";

/// What the server showed of a command.
pub(super) struct Observed {
    /// The first and last millisecond the command may have seen.
    pub(super) times_ms: std::ops::Range<i64>,
    pub(super) reply: Vec<u8>,
    /// False where the command was refused before it was queued: nothing but the reply is known.
    pub(super) ran: bool,
    /// Whether the server counted a change.
    pub(super) wrote: bool,
    /// The keys that were looked at, by their place in [`KEYS`].
    pub(super) keys: Vec<(usize, Seen)>,
    /// What was published, as `event key`.
    pub(super) events: Vec<String>,
}

/// What the server holds under a key.
pub(super) struct Seen {
    kind: Vec<u8>,
    /// Of a set.
    members: Option<Set>,
    /// -1 never, -2 no key.
    expiry: i64,
}

/// A connection for commands, and one that hears of keys.
pub(super) struct Watched {
    pub(super) connection: Connection,
    events: Connection,
}

impl Watched {
    pub(super) fn new(mut connection: Connection, mut events: Connection) -> Self {
        connection.one(&["config", "set", "notify-keyspace-events", "Eg$shlzn"]);
        events.one(&["psubscribe", "__keyevent@0__:*"]);
        Self { connection, events }
    }

    /// Runs a command in a transaction that shows its time and its effects.
    pub(super) fn observe(&mut self, command: &[Vec<u8>], all_keys: bool) -> Observed {
        let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
        let named = |index: &usize| all_keys || command[1..].iter().any(|arg| arg == KEYS[*index]);
        let indexes: Vec<usize> = (0..KEYS.len()).filter(named).collect();
        let mut batch = vec![
            words(&[b"multi"]),
            words(&[b"info", b"server", b"persistence"]),
            command.to_vec(),
            words(&[b"time"]),
            words(&[b"info", b"persistence"]),
        ];
        for index in &indexes {
            batch.extend([&b"type"[..], b"smembers", b"pexpiretime"].map(|look| words(&[look, KEYS[*index]])));
        }
        batch.push(words(&[b"exec"]));
        let replies = self.connection.run(&batch);
        let events = self.forget_events();
        let Ok(Reply::Array(mut parts)) = Reply::parse(replies.last().unwrap()) else {
            let reply = replies[2].clone();
            return Observed { times_ms: 0..0, reply, ran: false, wrote: false, keys: Vec::new(), events };
        };
        let before = text(&mut parts);
        let reply = parts.next_raw().unwrap().to_vec();
        let time = parts.next().unwrap();
        let after = text(&mut parts);
        let changes = |info: &str| info_number(info, "rdb_changes_since_last_save:");
        let keys = indexes.into_iter().map(|index| (index, Seen::read(&mut parts))).collect();
        Observed {
            times_ms: info_number(&before, "server_time_usec:") / 1000..time.time_us().unwrap() / 1000,
            reply,
            ran: true,
            wrote: changes(&before) != changes(&after),
            keys,
            events,
        }
    }

    /// What was published up to now.
    pub(super) fn forget_events(&mut self) -> Vec<String> {
        self.connection.one(&["publish", END, "x"]);
        let mut events = Vec::new();
        loop {
            let message = self.events.read_reply();
            let Ok(Reply::Array(parts)) = Reply::parse(&message) else { panic!("a message is an array") };
            let parts: Vec<&[u8]> = parts.map(|part| part.bytes().unwrap()).collect();
            if parts[2] == END.as_bytes() {
                return events;
            }
            let event = parts[2].strip_prefix(b"__keyevent@0__:").unwrap();
            events.push(format!("{} {}", event.escape_ascii(), parts[3].escape_ascii()));
        }
    }
}

impl Seen {
    fn read(parts: &mut Elements<'_>) -> Self {
        let kind = parts.next().unwrap().bytes().unwrap().to_vec();
        let members = match parts.next() {
            Some(Reply::Array(members)) => Some(members.map(|member| member.bytes().unwrap().to_vec()).collect()),
            _ => None,
        };
        let Some(Reply::Integer(expiry)) = parts.next() else { panic!("PEXPIRETIME answers an integer") };
        Self { kind, members, expiry }
    }
}

fn text(parts: &mut Elements<'_>) -> String {
    String::from_utf8(parts.next().unwrap().bytes().unwrap().to_vec()).unwrap()
}

fn info_number(info: &str, field: &str) -> i64 {
    info.lines().find_map(|line| line.strip_prefix(field)).unwrap().parse().unwrap()
}

/// What each of [`KEYS`] holds.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) held: Vec<Held>,
}

impl Default for Model {
    fn default() -> Self {
        Self { held: vec![Held::Nothing; KEYS.len()] }
    }
}

impl Model {
    /// What the keys hold that a command names.
    pub(super) fn of<'a>(&'a self, command: &'a [Vec<u8>]) -> impl Iterator<Item = &'a Held> + std::fmt::Debug {
        let is_named = |key: &[u8]| command[1..].iter().any(|arg| arg == key);
        let held: Vec<&Held> =
            KEYS.iter().zip(&self.held).filter(|(key, _)| is_named(key)).map(|(_, held)| held).collect();
        held.into_iter()
    }

    /// The members under a key; none where it holds no set.
    pub(super) fn members(&self, key: &[u8], now_ms: i64) -> Vec<Vec<u8>> {
        let space = self.space(now_ms);
        let set = space.set(key).ok().flatten();
        set.into_iter().flat_map(Set::iter).map(<[u8]>::to_vec).collect()
    }

    /// Whether any key expires in this millisecond.
    pub(super) fn expires_at(&self, at_ms: i64) -> bool {
        let space = self.space(at_ms);
        KEYS.iter().any(|key| space.expiry(key) == Some(Some(at_ms)))
    }

    /// Whether what is under a key has expired, and may still be there.
    pub(super) fn has_expired(&self, key: &[u8], now_ms: i64) -> bool {
        let held = KEYS.iter().zip(&self.held).find(|(known, _)| **known == key);
        held.is_some_and(|(_, held)| *held != Held::Nothing) && !self.space(now_ms).exists(key)
    }

    /// The first key that the server holds otherwise.
    pub(super) fn differs_from(&self, observed: &Observed, now_ms: i64) -> Option<String> {
        let space = self.space(now_ms);
        observed.keys.iter().find_map(|(index, Seen { kind, members, expiry })| {
            let held = space.held(KEYS[*index]);
            let expires = expiry == &space.expiry(KEYS[*index]).flatten().unwrap_or(-1);
            let same = match held {
                Held::Nothing => *expiry == -2,
                Held::String(_) => kind == b"string" && expires,
                Held::Collection(Collected { collection: Collection::Set(set), .. }) => {
                    members.as_ref() == Some(set) && expires
                }
                Held::Collection(_) => kind == b"hash" && expires,
                Held::Other(other) => kind == other && expires,
                Held::Unread(_) => false,
            };
            (!same).then(|| format!("  key {index}: server {members:?} until {expiry}, keyfold {held:?}"))
        })
    }

    /// Takes over what the server holds.
    pub(super) fn resume_from(&mut self, observed: &Observed) {
        for (index, Seen { members, expiry, .. }) in &observed.keys {
            let expires_at_ms = (*expiry != -1).then_some(*expiry);
            let held = &mut self.held[*index];
            match (members, held) {
                (_, held) if *expiry == -2 => *held = Held::Nothing,
                (Some(set), held) => {
                    *held = Held::Collection(Collected { collection: Collection::Set(set.clone()), expires_at_ms });
                }
                (None, Held::String(entry)) => entry.expires_at_ms = expires_at_ms,
                (None, Held::Collection(collected)) => collected.expires_at_ms = expires_at_ms,
                (None, _) => {}
            }
        }
    }

    fn space(&self, now_ms: i64) -> Space {
        let mut space = Space::new(now_ms);
        self.fill(&mut space);
        space
    }

    fn fill(&self, space: &mut Space) {
        for (key, held) in KEYS.iter().zip(&self.held) {
            space.load(key, held.clone());
        }
    }
}

/// What a command came to on a space.
pub(super) struct Outcome {
    pub(super) reply: Vec<u8>,
    pub(super) after: Model,
    /// Whether a write was marked.
    pub(super) wrote: bool,
    /// What is to be published, but for what has expired.
    pub(super) events: Vec<String>,
}

/// Runs a command on what `model` holds.
pub(super) fn run(
    model: &Model,
    command: &[Vec<u8>],
    now_ms: i64,
    protocol: Protocol,
    server: &ServerInfo,
    seed: u64,
    asks: &mut Connection,
) -> Outcome {
    let mut space = Space::new(now_ms).noting_events(true).seeded(seed);
    model.fill(&mut space);
    let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let resolved = table().resolve(&args).unwrap();
    let function = resolved.run.or(resolved.members).unwrap();
    let call = Call { args: &args, dialect: Dialect::new(server, false) };
    let mut reply = Vec::new();
    loop {
        let mut answer = Answer::new(&mut reply, protocol);
        let flow = function(&call, &mut space, &mut answer);
        let Err(ask) = finish(flow, &mut answer) else { break };
        assert!(reply.is_empty() && space.changes().next().is_none(), "asked after it had begun to answer");
        space.answer_ask(ask_server(asks, &ask.commands));
    }
    let after = changed(model, &space);
    let wrote = space.changes().next().is_some();
    let shown = space.events().map(|(key, event)| format!("{event} {}", key.escape_ascii()));
    let events = shown.filter(|event| !event.starts_with("expired ")).collect();
    Outcome { reply, after, wrote, events }
}

/// What the keys hold where these members are removed from one of them.
pub(super) fn without(model: &Model, key: &[u8], members: &[Vec<u8>], now_ms: i64) -> Model {
    let mut space = model.space(now_ms);
    if !members.is_empty() {
        let set = space.edit_set(key).unwrap();
        members.iter().for_each(|member| assert!(set.remove(member)));
        space.drop_if_empty(key);
    }
    changed(model, &space)
}

fn changed(model: &Model, space: &Space) -> Model {
    let mut after = model.clone();
    for (key, held) in space.changes() {
        let index = KEYS.iter().position(|known| *known == key).unwrap();
        after.held[index] = held.clone();
    }
    after
}

fn ask_server(connection: &mut Connection, commands: &[Vec<Vec<u8>>]) -> Vec<string::Reply> {
    let mut batch = vec![vec![b"multi".to_vec()]];
    batch.extend_from_slice(commands);
    batch.push(vec![b"exec".to_vec()]);
    let replies = connection.run(&batch);
    let Ok(Reply::Array(parts)) = Reply::parse(replies.last().unwrap()) else { panic!("EXEC answers an array") };
    parts.map(crate::server::help_of).collect()
}
