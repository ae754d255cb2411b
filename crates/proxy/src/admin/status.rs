//! `/status`: all that INFO's section of keyfold says, and how the proxy and the servers are, as JSON.
//!
//! `docs/status.schema.json` is made of these types, and so is what `/status/schema` answers; a test compares them.

use std::time::SystemTime;

use keyfold_core::admin::move_progress::MoveProgress;
use keyfold_core::layout::{LISTPACK_ENTRIES, LISTPACK_VALUE, ListpackNeed};
use keyfold_core::status::{Saving, Status, Warning};
use schemars::{JsonSchema, Schema, schema_for};
use serde::{Deserialize, Serialize};

use super::health::{Health, troubles};
use super::sources::Sources;
use crate::observation::Observed;

/// Bytes of a gigabyte, as memory is sold.
const GIGABYTE: f64 = 1e9;

/// A server that has used so many of 100 bytes it may use is near to where it evicts keys or refuses writes.
const NEAR_FULL_PERCENT: u128 = 90;

/// What is answered to `/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "What keyfold answers to /status")]
#[non_exhaustive]
pub struct FullStatus {
    /// Whether clients are to be sent to it, as `/readyz` has it.
    pub ready: Health,
    /// What is not as it should be, and what to do: what keeps it from being ready first.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// What its connections call themselves in a server's CLIENT LIST.
    #[serde(default)]
    pub name: String,
    /// When it was started, in milliseconds since 1970.
    #[serde(default)]
    pub started_ms: u64,
    /// Its time now.
    #[serde(default)]
    pub now_ms: u64,
    /// Its clients.
    pub clients: ClientsStatus,
    /// Requests that were begun since it was started.
    pub requests: u64,
    /// What folding saves, over all namespaces; none before the first whole walk of its sweep, or where another sweeps.
    #[serde(default)]
    pub saving: Option<Saving>,
    /// What a gigabyte (10⁹ bytes) costs a month, in US dollars (`--usd-per-gb-month`).
    #[serde(default)]
    pub usd_per_gb_month: Option<f64>,
    /// What is saved a month, by that.
    #[serde(default)]
    pub saved_usd_per_month: Option<f64>,
    /// How far the move that is open has come, where the tool that carries it out says so.
    #[serde(default)]
    pub move_progress: Option<MoveProgress>,
    /// What the servers said last: asked every 15 seconds; those that are away or may not be asked are left out.
    #[serde(default)]
    pub servers: Vec<ServerStatus>,
    /// The cluster behind; none before one server.
    #[serde(default)]
    pub cluster: Option<ClusterStatus>,
    /// As `INFO keyfold` has it.
    pub keyfold: Status,
}

/// The clients of a keyfold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ClientsStatus {
    /// Connected now.
    pub connected: usize,
    /// That ever came.
    pub opened: u64,
    /// That were refused, as there were too many.
    pub refused: u64,
}

/// What a server said of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ServerStatus {
    /// Where it is.
    pub node: String,
    /// `redis` or `valkey`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its `used_memory`, in bytes.
    pub used_memory: Option<u64>,
    /// Its `maxmemory`, in bytes; 0 for no limit.
    pub max_memory: Option<u64>,
    /// Its `hash-max-listpack-entries`.
    pub listpack_entries: Option<u64>,
    /// Its `hash-max-listpack-value`, in bytes.
    pub listpack_value: Option<u64>,
}

/// A cluster, as the worker knows it that knows least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ClusterStatus {
    /// Nodes that have slots.
    pub primaries: u64,
    /// Their replicas.
    pub replicas: u64,
    /// Slots of which it is known who has them, of 16,384.
    pub served_slots: u64,
    /// Slots whose commands wait for a node that may carry them out.
    pub held_slots: u64,
}

pub(super) fn status(sources: &Sources) -> FullStatus {
    let room = &sources.room;
    let keyfold = sources.status();
    let saving = keyfold.saving();
    let servers: Vec<_> = sources.observations.all().into_iter().map(server_status).collect();
    let troubles = troubles(sources);
    let ready = Health::of(&troubles);
    let troubles = troubles.into_iter().map(|(reason, detail)| {
        let detail = format!("Clients are not to be sent here: {detail}.");
        Warning::new(reason.name(), None, detail, reason.advice())
    });
    let needs = sources.layout().listpack_needs();
    let move_progress = sources.observations.move_progress();
    // A cache is near its limit always; what is wrong with it is told by itself.
    let is_cache = keyfold.cache.is_some();
    let of_servers = servers.iter().flat_map(|server| of_server(server, &needs, is_cache));
    FullStatus {
        ready,
        warnings: troubles.chain(keyfold.warnings()).chain(of_servers).chain(of_move(move_progress)).collect(),
        name: sources.membership.connection_name(),
        started_ms: unix_ms(sources.started),
        now_ms: unix_ms(SystemTime::now()),
        clients: ClientsStatus { connected: room.taken(), opened: room.admitted(), refused: room.refused() },
        requests: keyfold.requests.unwrap_or_default(),
        saving,
        usd_per_gb_month: sources.usd_per_gb_month,
        saved_usd_per_month: saving.zip(sources.usd_per_gb_month).map(|(saving, usd)| usd_a_month(saving, usd)),
        move_progress,
        servers,
        cluster: sources.cluster().map(|cluster| ClusterStatus {
            primaries: cluster.primaries,
            replicas: cluster.replicas,
            served_slots: cluster.served_slots,
            held_slots: cluster.held_slots,
        }),
        keyfold,
    }
}

#[expect(clippy::cast_precision_loss, reason = "it is an estimate")]
fn usd_a_month(saving: Saving, usd_per_gb_month: f64) -> f64 {
    saving.saved_bytes as f64 / GIGABYTE * usd_per_gb_month
}

fn server_status((node, observed): (String, Observed)) -> ServerStatus {
    let Observed { name, version, used_memory, max_memory, listpack_entries, listpack_value } = observed;
    ServerStatus { node, name, version, used_memory, max_memory, listpack_entries, listpack_value }
}

/// A tool that ended before it was done.
fn of_move(progress: Option<MoveProgress>) -> Option<Warning> {
    let progress = progress.filter(|progress| progress.stopped)?;
    let text = format!(
        "A move has stopped: {} keys were moved, and there is no word of it for {} s. All keys are reachable.",
        progress.moved,
        progress.silent_ms / 1000
    );
    let advice = "Run the same `keyfold fold` or `keyfold unfold` again: it goes on.";
    Some(Warning::new("move_stopped", None, text, advice))
}

/// What is not as it should be at a server.
fn of_server(server: &ServerStatus, needs: &[ListpackNeed], is_cache: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    for need in needs {
        let has = match need.setting {
            LISTPACK_ENTRIES => server.listpack_entries,
            LISTPACK_VALUE => server.listpack_value,
            _ => None,
        };
        if let Some(has) = has.filter(|has| *has < need.least) {
            let advice = format!("On the server: {}", need.mend(need.setting));
            let text = sentence(&need.unmet(need.setting, has));
            warnings.push(Warning::new("limit_too_small", Some(&server.node), text, advice));
        }
    }
    if let (Some(used), Some(most @ 1..)) = (server.used_memory, server.max_memory)
        && !is_cache
        && u128::from(used) * 100 >= u128::from(most) * NEAR_FULL_PERCENT
    {
        warnings.push(Warning::new(
            "memory_nearly_full",
            Some(&server.node),
            format!(
                "It has used {used} of {most} bytes: soon it evicts keys, whole buckets among them, or refuses writes."
            ),
            "Raise maxmemory, or fold more: `keyfold analyze` says what takes the memory.",
        ));
    }
    warnings
}

/// A message as a sentence.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Milliseconds since 1970.
pub(super) fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Its schema.
pub(super) fn schema() -> Schema {
    schema_for!(FullStatus)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use keyfold_core::layout::Layout;

    use super::*;

    #[test]
    fn the_schema_in_the_documents_is_that_of_the_types() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/status.schema.json");
        let own = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if std::env::var_os("KEYFOLD_WRITE_DOCS").is_some() {
            std::fs::write(&path, &own).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(own == written, "docs/status.schema.json is of other types; write it anew by KEYFOLD_WRITE_DOCS=1");
    }

    #[test]
    fn a_server_that_is_too_small_is_told_of_with_what_mends_it() {
        let layout =
            Layout::parse_file("[[namespace]]\nkeys = 'a:{id:int}'\nbucket = { span = 600 }\nvalue_limit = 80\n");
        let layout = layout.unwrap();
        let warned = |server: &ServerStatus| {
            let found = of_server(server, &layout.listpack_needs(), false).into_iter();
            found.map(|warning| (warning.code, warning.advice)).collect::<Vec<_>>()
        };
        let mut server = ServerStatus { node: "a:1".into(), ..ServerStatus::default() };
        assert_eq!(warned(&server), [], "what isn't known is no reason");
        (server.listpack_entries, server.listpack_value) = (Some(512), Some(64));
        (server.used_memory, server.max_memory) = (Some(900), Some(1000));
        let found = warned(&server);
        assert_eq!(found[0], ("limit_too_small".into(), "On the server: CONFIG SET hash-max-listpack-value 80".into()));
        assert_eq!(found[1].1, "On the server: CONFIG SET hash-max-listpack-entries 600");
        assert_eq!((found.len(), found[2].0.as_str()), (3, "memory_nearly_full"));
        assert_eq!(of_server(&server, &layout.listpack_needs(), true).len(), 2, "a cache is meant to be full");
        (server.listpack_entries, server.listpack_value) = (Some(600), Some(80));
        (server.used_memory, server.max_memory) = (Some(u64::MAX), Some(0));
        assert_eq!(warned(&server), [], "0 is no limit");
    }

    #[test]
    fn an_earlier_keyfolds_status_can_be_read() {
        let earlier = r#"{"ready":{"ok":true,"reasons":[]},"clients":{"connected":1,"opened":1,"refused":0},"requests":7,
            "keyfold":{"version":"0.1.0","server":null,"layout":{"epoch":1,"hash":"x","in_doubt":false,"found_lost":0,
            "put_back":0,"connections_closed":0,"changes":0},"namespaces":[],"sentinels":null,"replicas":null,
            "sweep":{"fields":0,"expired":0,"orphans":0,"noted":0,"lag_ms":0,"walk_ms":0},"large_buckets":[]}}"#;
        let read: FullStatus = serde_json::from_str(earlier).unwrap();
        assert_eq!((read.requests, read.keyfold.requests, read.saving), (7, None, None));
    }
}
