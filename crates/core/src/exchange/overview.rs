//! INFO: the server's text, in which what concerns clients and keys speaks of keyfold's clients and of logical keys.
//!
//! | line | what it says here |
//! | --- | --- |
//! | `connected_clients`, `blocked_clients`, `total_connections_received` | of this keyfold's clients |
//! | `total_commands_processed`, `instantaneous_ops_per_sec` | of their requests |
//! | `keyspace_hits`, `keyspace_misses` | of their reads, as the answers tell |
//! | `dbN:keys=` | logical keys, as DBSIZE counts them; see [`Keyspace`](crate::clients::Keyspace) for how fresh |
//!
//! All else is the server's.

use std::sync::Arc;

use crate::clients::Clients;
use crate::exchange::info::{section, wants_section};
use crate::exchange::keyspace::Size;
use crate::exchange::{Effect, Env, Io, Step, done};
use crate::resp::{Answer, Protocol, Reply};

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
    counting: Option<(Size, i64)>,
}

impl Overview {
    /// What takes the server's reply to INFO with these arguments.
    pub(crate) fn new(clients: Arc<Clients>, database: u32, args: &[&[u8]], protocol: Protocol) -> Self {
        let has_section = wants_section(args);
        Self { clients, database, protocol, has_section, text: Vec::new(), counting: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &Env<'_>, io: &mut Io<'_>) -> Step {
        if let Some((size, since_ms)) = &mut self.counting {
            let mut counted = Vec::new();
            let step = size.handle_reply(reply, env, &mut Io { wire: io.wire, answer: &mut counted });
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
            && !env.layout.is_empty()
            && self.clients.keyspace().is_due(self.database, env.now_ms)
        {
            self.counting = Some((Size::start(io.wire), env.now_ms));
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
            "blocked_clients" => clients.blocked().to_string(),
            "total_connections_received" => clients.came().to_string(),
            "total_commands_processed" => clients.requests().to_string(),
            "instantaneous_ops_per_sec" => clients.requests_per_second().to_string(),
            "keyspace_hits" => clients.lookups().hits.to_string(),
            "keyspace_misses" => clients.lookups().misses.to_string(),
            _ if env.layout.is_empty() => return None,
            _ => {
                let database = name.strip_prefix("db")?.parse().ok()?;
                let (_, rest) = value.strip_prefix("keys=")?.split_once(',')?;
                format!("keys={},{rest}", clients.keyspace().keys(database)?)
            }
        };
        Some(format!("{name}:{shown}\r\n"))
    }
}
