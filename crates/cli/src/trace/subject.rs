//! The cache that there is: its server, how much memory it has, and how it evicts.

use std::num::NonZero;

use anyhow::{Context, bail};
use keyfold_core::memory::{Limits, Model, Server as Which};
use keyfold_report::number::{count, plural, tenths};
use keyfold_server::layout::stored;
use keyfold_server::memory::{self, ServerModel, assumed_allocator};
use keyfold_server::{Commands, Server};
use keyfold_survey::caching::{Requests, ServerPolicy};
use keyfold_survey::choose::Aims;
use keyfold_survey::eviction::Eviction;

use crate::config::trace::Trace;

/// Of a value of which nobody says how long it is, where no other's is known either.
const UNKNOWN_VALUE_BYTES: u32 = 100;
/// Lengths that are asked for in one round trip.
const LENGTHS: usize = 500;

/// The cache, as far as it is known.
pub(super) struct Subject {
    /// What it is called.
    pub(super) name: String,
    pub(super) facts: ServerModel,
    pub(super) memory_bytes: Option<f64>,
    pub(super) policy: Option<ServerPolicy>,
    /// Where it can be asked.
    pub(super) server: Option<Server>,
    /// Whether what answers is a keyfold.
    pub(super) is_keyfold: bool,
}

impl Subject {
    /// What the flags and the server say. `notes` has what was guessed.
    pub(super) fn of(trace: &Trace, notes: &mut Vec<String>) -> anyhow::Result<Self> {
        let mut subject = match &trace.server {
            Some(target) => Self::at(Server::connect(target)?, trace, notes)?,
            None => Self::nowhere(trace),
        };
        notes.append(&mut subject.facts.guesses);
        subject.memory_bytes = trace.memory_bytes.or(subject.memory_bytes);
        subject.policy = trace.policy.or(subject.policy);
        Ok(subject)
    }

    fn at(mut server: Server, trace: &Trace, notes: &mut Vec<String>) -> anyhow::Result<Self> {
        let is_keyfold = server.refuse_keyfold().is_err();
        if server.version().is_cluster() && !is_keyfold {
            let address = server.address();
            notes.push(format!(
                "memory and requests are those of the node at {address} alone, one of a cluster's primaries"
            ));
        }
        let facts = memory::model(&mut server, &trace.assumed)?;
        let used = server.info("memory")?;
        let memory_bytes = Some(used.number("maxmemory")).filter(|bytes| *bytes > 0).map(|bytes| bytes as f64);
        let policy = Eviction::of(used.number("maxmemory"), used.field("maxmemory_policy").unwrap_or_default());
        let policy = match policy {
            Some(Eviction::LeastRecent) => Some(ServerPolicy::Recency),
            Some(Eviction::LeastFrequent) => Some(ServerPolicy::Frequency),
            Some(Eviction::Random | Eviction::Expiring) | None => None,
        };
        let name = format!("{} at {}", server.version(), server.address());
        Ok(Self { name, facts, memory_bytes, policy, server: Some(server), is_keyfold })
    }

    /// No server is named.
    fn nowhere(trace: &Trace) -> Self {
        let (server, mut limits) = (Which::redis(7, 0), Limits::default());
        for (name, value) in &trace.assumed {
            match name.as_str() {
                "hash-max-listpack-entries" => limits.hash_entries = *value,
                "hash-max-listpack-value" => limits.hash_value_bytes = *value,
                _ => {}
            }
        }
        let allocator = assumed_allocator(&trace.assumed).unwrap_or_default();
        let model = Model::for_server(server).with_allocator(allocator).with_limits(limits).with_shared_integers(false);
        let guess =
            format!("bytes are those of {server} with its default settings; name a server for those of that one");
        let facts = ServerModel { server, limits, model, guesses: vec![guess] };
        Self { name: server.to_string(), facts, memory_bytes: None, policy: None, server: None, is_keyfold: false }
    }

    /// What folding is to aim at.
    pub(super) fn aims(&self) -> Aims {
        Aims::new(self.facts.model.clone(), self.facts.server, self.facts.limits)
    }

    /// Sees that MONITOR shows keys as applications name them.
    pub(super) fn needs_logical_keys(&mut self) -> anyhow::Result<()> {
        let server = self.server.as_mut().context("there is no server to watch")?;
        if !self.is_keyfold && stored::read(server)?.is_some() {
            bail!(
                "the server at {} holds folded keys, and MONITOR shows their buckets there: watch the keyfold before it",
                server.address()
            );
        }
        Ok(())
    }

    /// Sees that it is known of each value how long it is: asks the server where there is one, and guesses the rest.
    pub(super) fn fill_values(
        &mut self,
        requests: &mut Requests,
        value_bytes: Option<NonZero<u32>>,
        notes: &mut Vec<String>,
    ) {
        if requests.unknown_values() == 0 {
            return;
        }
        let mut lens = match (&mut self.server, value_bytes) {
            (Some(server), None) => lengths(server, requests).unwrap_or_default(),
            _ => Vec::new(),
        }
        .into_iter();
        // In the order in which they were asked for.
        requests.fill_values_asked(|| lens.next().flatten());
        let unknown = requests.unknown_values();
        if unknown == 0 {
            return;
        }
        let mean = requests.mean_value_bytes();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of lengths")]
        let taken =
            value_bytes.map_or_else(|| mean.map_or(UNKNOWN_VALUE_BYTES, |mean| mean.round() as u32), NonZero::get);
        requests.fill_values(taken);
        let source = match (value_bytes, mean) {
            (Some(_), _) => "as --value-bytes says",
            (None, Some(_)) => "as the others have on the mean",
            (None, None) => "as nobody says: --value-bytes does",
        };
        let share = tenths(unknown as f64 * 100.0 / requests.sampled_keys().max(1) as f64);
        let keys =
            if unknown == requests.sampled_keys() { "all keys".to_owned() } else { format!("{share} % of the keys") };
        notes.push(format!("values of {keys} are taken to have {} bytes, {source}", count(u64::from(taken))));
    }
}

/// How long values are of which it isn't known, in the order of their keys; none of keys that are gone or no strings.
fn lengths(server: &mut Server, requests: &Requests) -> anyhow::Result<Vec<Option<u32>>> {
    let unknown: Vec<&[u8]> = requests.sample().filter(|(_, len)| len.is_none()).map(|(key, _)| key).collect();
    let mut lens = Vec::with_capacity(unknown.len());
    for keys in unknown.chunks(LENGTHS) {
        let mut commands = Commands::default();
        keys.iter().for_each(|key| commands.push(&[b"STRLEN", key]));
        for reply in server.ask_all(&commands)? {
            let len = keyfold_server::reply::read::<u64>(&reply).ok();
            lens.push(len.filter(|len| *len > 0).and_then(|len| u32::try_from(len).ok()));
        }
    }
    tracing::debug!("asked for the length of {}", plural(lens.len() as u64, "value"));
    Ok(lens)
}
