//! INFO: the server's text, in which what concerns clients and keys speaks of keyfold's clients and of logical keys.
//!
//! | line | what it says here |
//! | --- | --- |
//! | `connected_clients`, `blocked_clients`, `tracking_clients`, `total_connections_received` | of this keyfold's clients |
//! | `total_commands_processed`, `instantaneous_ops_per_sec` | of their requests |
//! | `keyspace_hits`, `keyspace_misses` | of their reads, as the answers tell |
//! | `redis_mode`, `server_mode`, `cluster_enabled` | what clients are told: whether there is a cluster, of keyfolds |
//! | `dbN:keys=` | logical keys, as DBSIZE counts them; see [`Keyspace`](crate::clients::Keyspace) for how fresh |
//!
//! All else is the server's.

use std::sync::Arc;

use crate::clients::Clients;
use crate::cluster::Front;
use crate::exchange::info::{section, wants_section};
use crate::exchange::keyspace::Size;
use crate::exchange::slot_listing::SlotList;
use crate::exchange::{Effect, Env, Io, Step, done};
use crate::resp::{Answer, Protocol, Reply};
use crate::slot::Slot;

/// INFO under way.
#[derive(Debug)]
pub(crate) struct Overview {
    clients: Arc<Clients>,
    database: u32,
    protocol: Protocol,
    has_section: bool,
    /// The server's text.
    text: Vec<u8>,
    /// The keys of the client's database are being counted, since then.
    counting: Option<(Count, i64)>,
    front: Front,
}

/// DBSIZE of one server, or of a cluster.
#[derive(Debug)]
enum Count {
    Server(Size),
    Slots(Box<SlotList>),
}

impl Overview {
    /// What takes the server's reply to INFO with these arguments.
    pub(crate) fn new(clients: Arc<Clients>, database: u32, front: Front, args: &[&[u8]], protocol: Protocol) -> Self {
        let has_section = wants_section(args);
        Self { clients, database, protocol, has_section, text: Vec::new(), counting: None, front }
    }

    /// The slot that the commands sent last are of, where keys of a cluster are counted.
    pub(crate) fn slot(&self) -> Option<Slot> {
        match &self.counting {
            Some((Count::Slots(list), _)) => Some(list.slot()),
            _ => None,
        }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some((count, since_ms)) = &mut self.counting {
            let mut counted = Vec::new();
            let count_io = &mut Io { wire: io.wire, answer: &mut counted };
            let step = match count {
                Count::Server(size) => size.handle_reply(reply, env, count_io),
                Count::Slots(list) => list.handle_reply(reply, env, count_io),
            };
            if !matches!(step, Step::Done(_)) {
                return step;
            }
            if let Ok(Reply::Integer(keys)) = Reply::parse(&counted) {
                self.clients.keyspace().note(self.database, keys, *since_ms, env.now_ms);
            }
            return self.finish(env, io);
        }
        let Ok(Reply::Bulk(text)) = Reply::parse(reply) else {
            return done(io, reply);
        };
        self.text = text.to_vec();
        if self.shows_own_database()
            && (!env.layout.is_empty() || self.front.before_cluster)
            && self.clients.keyspace().is_due(self.database, env.now_ms)
        {
            let count = match self.front.before_cluster {
                true => Count::Slots(Box::new(SlotList::number(env, self.protocol, io.wire))),
                false => Count::Server(Size::start(io.wire)),
            };
            self.counting = Some((count, env.now_ms));
            return Step::More(1);
        }
        self.finish(env, io)
    }

    fn shows_own_database(&self) -> bool {
        let line = format!("db{}:keys=", self.database);
        self.text.split(|byte| *byte == b'\n').any(|known| known.starts_with(line.as_bytes()))
    }

    fn finish(&self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut shown = Vec::with_capacity(self.text.len() + 1024);
        for line in self.text.split_inclusive(|byte| *byte == b'\n') {
            match self.logical(line, env) {
                Some(logical) => shown.extend(logical.into_bytes()),
                None => shown.extend_from_slice(line),
            }
        }
        if self.has_section {
            shown.extend_from_slice(if shown.is_empty() { b"" } else { b"\r\n" });
            shown.extend_from_slice(section(env).as_bytes());
        }
        Answer::new(io.answer, self.protocol).verbatim(&shown);
        Step::Done(Effect::None)
    }

    /// What a line says here, where that isn't what the server says.
    fn logical(&self, line: &[u8], env: &Env<'_>) -> Option<String> {
        let (name, value) = str::from_utf8(line).ok()?.trim_end().split_once(':')?;
        let clients = &self.clients;
        let shown = match name {
            "connected_clients" => clients.count().to_string(),
            "tracking_clients" => clients.tracking().count().to_string(),
            "blocked_clients" => clients.blocked().to_string(),
            "total_connections_received" => clients.came().to_string(),
            "total_commands_processed" => clients.requests().to_string(),
            "instantaneous_ops_per_sec" => clients.requests_per_second().to_string(),
            "keyspace_hits" => clients.lookups().hits.to_string(),
            "keyspace_misses" => clients.lookups().misses.to_string(),
            "redis_mode" | "server_mode" => self.front.mode()?.to_owned(),
            "cluster_enabled" => self.front.mode().map(|_| i32::from(self.front.announced.is_some()).to_string())?,
            _ if env.layout.is_empty() && !self.front.before_cluster => return None,
            _ => {
                let database = name.strip_prefix("db")?.parse().ok()?;
                let (_, rest) = value.strip_prefix("keys=")?.split_once(',')?;
                format!("keys={},{rest}", clients.keyspace().keys(database)?)
            }
        };
        Some(format!("{name}:{shown}\r\n"))
    }
}
