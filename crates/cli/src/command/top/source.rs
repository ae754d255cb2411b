//! Asks one source: a keyfold, by INFO or by `/status`, or a server.

use std::num::NonZero;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_core::status::Status;
use keyfold_proxy::admin::FullStatus;
use keyfold_server::{Nodes, Server, Target};

use super::behind::{Behind, BehindTold};
use crate::config::top::Source;

/// A source that is silent for longer is away.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// What a source said, and when.
pub(super) struct Look {
    pub(super) at: Instant,
    /// Why it can't be asked, where it can't.
    pub(super) told: Result<Told, String>,
}

/// What a source said.
#[derive(Clone)]
pub(super) enum Told {
    /// It is a keyfold.
    Keyfold(Box<FullStatus>),
    /// It is a server.
    Behind(Box<BehindTold>),
}

/// Asks a source again and again.
pub(super) struct Asker {
    source: Source,
    connected: Option<Connected>,
    max_ops: Option<NonZero<u32>>,
}

enum Connected {
    Keyfold(Box<Server>),
    Behind(Box<Behind>),
}

impl Asker {
    pub(super) fn new(source: Source, max_ops: Option<NonZero<u32>>) -> Self {
        Self { source, connected: None, max_ops }
    }

    /// What it says now. After an error it is connected to anew the next time.
    pub(super) fn look(&mut self) -> Look {
        let told = self.ask().map_err(|error| format!("{error:#}"));
        if told.is_err() {
            self.connected = None;
        }
        Look { at: Instant::now(), told }
    }

    fn ask(&mut self) -> anyhow::Result<Told> {
        let target = match &self.source {
            Source::Operators(operators) => {
                let answer = operators.get("/status")?;
                let status = serde_json::from_slice(&answer);
                return Ok(Told::Keyfold(status.context("what it answers to /status is none of a keyfold's")?));
            }
            Source::Server(target) => target,
        };
        let connected = match self.connected.take() {
            Some(connected) => connected,
            None => connect(target, self.max_ops)?,
        };
        match self.connected.insert(connected) {
            Connected::Behind(behind) => behind.look().map(Box::new).map(Told::Behind),
            Connected::Keyfold(server) => {
                let status = Status::read_info(server.info("keyfold")?.text());
                let clients = server.info("clients")?.number("connected_clients");
                let status = status.context("it was a keyfold, and is none any more")?;
                Ok(Told::Keyfold(Box::new(of_info(status, clients))))
            }
        }
    }
}

/// A keyfold, or else the server.
fn connect(target: &Target, max_ops: Option<NonZero<u32>>) -> anyhow::Result<Connected> {
    let mut server = Server::connect_to_node(target)?;
    server.set_patience(ANSWER_WITHIN)?;
    if Status::read_info(server.info("keyfold")?.text()).is_some() {
        return Ok(Connected::Keyfold(Box::new(server)));
    }
    drop(server);
    Ok(Connected::Behind(Box::new(Behind::new(Nodes::connect(target)?, max_ops))))
}

/// What `/status` would say, as far as INFO says it.
fn of_info(keyfold: Status, clients: u64) -> FullStatus {
    let mut status = FullStatus::default();
    // One that answers INFO lets requests begin.
    status.ready.ok = true;
    status.warnings = keyfold.warnings();
    status.requests = keyfold.requests.unwrap_or_default();
    status.saving = keyfold.saving();
    status.clients.connected = usize::try_from(clients).unwrap_or(usize::MAX);
    status.keyfold = keyfold;
    status
}
