//! One command on both sides: on the server, with all that is to be compared around it, and on a space.

use keyfold_core::command::table;
use keyfold_core::dialect::Dialect;
use keyfold_core::resp::{Answer, Elements, Protocol, Reply};
use keyfold_core::string::{self, Call, Entry, Held, Space, finish};

use super::generate::KEYS;
use crate::server::{Connection, help_of};

/// What the server showed of a command.
pub(crate) struct Observed {
    /// The first and last millisecond the command may have seen.
    pub(crate) times_ms: std::ops::Range<i64>,
    pub(crate) reply: Vec<u8>,
    /// False where the command was refused before it was queued: nothing but the reply is known.
    pub(crate) ran: bool,
    /// Whether the server counted a change.
    pub(crate) wrote: bool,
    /// Each key's value and expiry (-1 never, -2 no key) after it.
    pub(crate) keys: Vec<(Option<Vec<u8>>, i64)>,
}

/// Runs a command in a transaction that shows its time and its effects.
pub(crate) fn observe(connection: &mut Connection, command: &[Vec<u8>]) -> Observed {
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let mut batch = vec![
        words(&[b"multi"]),
        words(&[b"info", b"server", b"persistence"]),
        command.to_vec(),
        words(&[b"time"]),
        words(&[b"info", b"persistence"]),
        words(&[&[&b"mget"[..]], &KEYS[..]].concat()),
    ];
    batch.extend(KEYS.iter().map(|key| words(&[b"pexpiretime", key])));
    batch.push(words(&[b"exec"]));
    let replies = connection.run(&batch);
    let Ok(Reply::Array(mut parts)) = Reply::parse(replies.last().unwrap()) else {
        let reply = replies[2].clone();
        return Observed { times_ms: 0..0, reply, ran: false, wrote: false, keys: Vec::new() };
    };
    let before = text(&mut parts);
    let reply = parts.next_raw().unwrap().to_vec();
    let time = parts.next().unwrap();
    let after = text(&mut parts);
    let changes = |info: &str| info_number(info, "rdb_changes_since_last_save:");
    let Some(Reply::Array(values)) = parts.next() else { panic!("MGET answers an array") };
    let keys = values.map(|value| value.bytes().map(<[u8]>::to_vec)).zip(parts.map(integer)).collect();
    Observed {
        times_ms: info_number(&before, "server_time_usec:") / 1000..time_ms(time),
        reply,
        ran: true,
        wrote: changes(&before) != changes(&after),
        keys,
    }
}

fn text(parts: &mut Elements<'_>) -> String {
    String::from_utf8(parts.next().unwrap().bytes().unwrap().to_vec()).unwrap()
}

pub(crate) fn integer(reply: Reply<'_>) -> i64 {
    let Reply::Integer(integer) = reply else { panic!("{reply:?} is no integer") };
    integer
}

pub(crate) fn info_number(info: &str, field: &str) -> i64 {
    info.lines().find_map(|line| line.strip_prefix(field)).unwrap().parse().unwrap()
}

pub(crate) fn time_ms(time: Reply<'_>) -> i64 {
    let Reply::Array(parts) = time else { panic!("TIME answers an array") };
    let parts: Vec<i64> = parts.map(|part| str::from_utf8(part.bytes().unwrap()).unwrap().parse().unwrap()).collect();
    parts[0] * 1000 + parts[1] / 1000
}

/// What each of [`KEYS`] holds.
#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) held: Vec<Held>,
}

impl Default for Model {
    fn default() -> Self {
        Self { held: vec![Held::Nothing; KEYS.len()] }
    }
}

impl Model {
    /// What the keys hold that a command names.
    pub(crate) fn of<'a>(&'a self, command: &'a [Vec<u8>]) -> impl Iterator<Item = &'a Held> + std::fmt::Debug {
        let named: Vec<&Held> = KEYS
            .iter()
            .zip(&self.held)
            .filter(|(key, _)| command[1..].iter().any(|arg| arg == *key))
            .map(|(_, held)| held)
            .collect();
        named.into_iter()
    }

    /// The first key that the server holds otherwise.
    pub(crate) fn differs_from(&self, observed: &Observed, now_ms: i64) -> Option<String> {
        let space = self.space(now_ms);
        KEYS.iter().zip(&observed.keys).find_map(|(key, (value, expiry))| {
            let same = match space.held(key) {
                Held::Nothing => *expiry == -2,
                Held::String(entry) => {
                    value.as_ref() == Some(&entry.value) && *expiry == entry.expires_at_ms.unwrap_or(-1)
                }
                Held::Unread(_) => false,
                Held::Collection(collected) => value.is_none() && *expiry == collected.expires_at_ms.unwrap_or(-1),
                Held::Other(_) => value.is_none() && *expiry == -1,
            };
            let held = space.held(key);
            (!same).then(|| format!("  key {key:?}: server {value:?} until {expiry}, keyfold {held:?}"))
        })
    }

    /// Takes over what the server holds.
    pub(crate) fn resume_from(&mut self, observed: &Observed) {
        for (held, (value, expiry)) in self.held.iter_mut().zip(&observed.keys) {
            match value {
                Some(value) => {
                    let expires_at_ms = (*expiry != -1).then_some(*expiry);
                    *held = Held::String(Entry { value: value.clone(), expires_at_ms });
                }
                None if *expiry == -2 => *held = Held::Nothing,
                None => {}
            }
        }
    }

    fn space(&self, now_ms: i64) -> Space {
        let mut space = Space::new(now_ms);
        for (key, held) in KEYS.iter().zip(&self.held) {
            space.load(key, held.clone());
        }
        space
    }
}

/// Runs a command on what `model` holds: the reply, what is held then, and whether a write was marked.
pub(crate) fn run(
    model: &Model,
    command: &[Vec<u8>],
    now_ms: i64,
    protocol: Protocol,
    asks: &mut Connection,
) -> (Vec<u8>, Model, bool) {
    let mut space = model.space(now_ms);
    let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
    let function = table().resolve(&args).unwrap().run.unwrap();
    let mut out = Vec::new();
    loop {
        let mut answer = Answer::new(&mut out, protocol);
        let flow = function(&Call { args: &args, dialect: Dialect::default() }, &mut space, &mut answer);
        let Err(ask) = finish(flow, &mut answer) else { break };
        assert!(out.is_empty() && space.changes().next().is_none(), "asked after it had begun to answer");
        space.answer_ask(ask_server(asks, &ask.commands));
    }
    let mut after = model.clone();
    let mut wrote = false;
    for (key, held) in space.changes() {
        wrote = true;
        let index = KEYS.iter().position(|known| *known == key).unwrap();
        after.held[index] = held.clone();
    }
    (out, after, wrote)
}

/// Has the server carry out an ask.
pub(crate) fn ask_server(connection: &mut Connection, commands: &[Vec<Vec<u8>>]) -> Vec<string::Reply> {
    let mut batch = vec![vec![b"multi".to_vec()]];
    batch.extend_from_slice(commands);
    batch.push(vec![b"exec".to_vec()]);
    let replies = connection.run(&batch);
    let Ok(Reply::Array(parts)) = Reply::parse(replies.last().unwrap()) else { panic!("EXEC answers an array") };
    parts.map(help_of).collect()
}
