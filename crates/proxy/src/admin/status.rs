//! `/status`: all that INFO's section of keyfold says, and how the proxy is, as JSON.
//!
//! `docs/status.schema.json` is made of these types, and so is what `/status/schema` answers; a test compares them.

use keyfold_core::status::Status;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::health::{Health, readiness};
use super::sources::Sources;

/// What is answered to `/status`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "What keyfold answers to /status")]
pub(super) struct FullStatus {
    /// Whether clients are to be sent to it, as `/readyz` has it.
    ready: Health,
    /// Its clients.
    clients: ClientsStatus,
    /// Requests that were begun since it was started.
    requests: u64,
    /// As `INFO keyfold` has it.
    keyfold: Status,
}

/// The clients of a keyfold.
#[derive(Debug, Serialize, JsonSchema)]
struct ClientsStatus {
    /// Connected now.
    connected: usize,
    /// That ever came.
    opened: u64,
    /// That were refused, as there were too many.
    refused: u64,
}

pub(super) fn status(sources: &Sources) -> FullStatus {
    let room = &sources.room;
    let clients = ClientsStatus { connected: room.taken(), opened: room.admitted(), refused: room.refused() };
    let requests = sources.requests();
    FullStatus { ready: readiness(sources), clients, requests, keyfold: sources.status() }
}

/// Its schema.
pub(super) fn schema() -> Schema {
    schema_for!(FullStatus)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

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
}
