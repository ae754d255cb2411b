//! Every metric there is: its name, unit, labels and meaning. `docs/metrics.md` has this table too; a test compares them.
//!
//! Names go by the conventions of Prometheus: base units, `_total` behind counters, what a metric is told apart by as labels
//! and never as part of its name.

use std::fmt::Write;

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Only grows, from 0 at the start.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How many durations were within each bound.
    Histogram,
    /// Always 1: its labels are what it says.
    Info,
}

/// What a metric is counted in, where its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Bytes,
    Seconds,
    None,
}

/// Metrics of one name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Family {
    /// Without its unit, and without what the kind adds.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

/// Declares families, and all of them as `ALL`.
macro_rules! families {
    ($($constant:ident = $kind:ident $unit:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Family = Family {
            name: $name,
            kind: Kind::$kind,
            unit: Unit::$unit,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All of them, in the order in which they are shown.
        pub(super) const ALL: &[Family] = &[$($constant),*];
    };
}

families! {
    BUILD = Info None "keyfold_build" ["version"] "keyfold's version.";
    START_TIME = Gauge Seconds "process_start_time" [] "When the process was started, since 1970.";
    WORKERS = Gauge None "keyfold_workers" [] "Worker threads.";
    READY = Gauge None "keyfold_ready" [] "1 where clients are to be sent to it, as /readyz has it.";
    NOT_READY = Gauge None "keyfold_not_ready" ["reason"] "1 for each reason why clients are not to be sent to it; 0 for the others.";

    COMMANDS = Counter None "keyfold_commands" ["command", "way", "outcome"] "Commands that were answered. `command`: by the servers' table, a subcommand after a bar, `other` for what no known server has. `way`: `native` (a folded key, by the hash command that does the same), `script` (one folded key, by a short script), `worked_out` (folded keys, read and written back), `user_script`, `transaction` (EXEC), `queued` (within MULTI), `keyspace` (SCAN, DBSIZE …), `parts` (by several nodes), `passed_on` (as it came), `local` (by what keyfold knows). `outcome`: `ok`, `error`, `refused` (not carried out by keyfold), `unavailable` (the server was away or lost).";
    COMMAND_DURATION = Histogram Seconds "keyfold_command_duration" ["command"] "From when it was a command's turn among its client's until its answer was there; those that were refused or queued left out.";
    UPSTREAM_DURATION = Histogram Seconds "keyfold_upstream_duration" ["node"] "From when a step was written for a server until its last reply; commands that wait for what other clients do left out.";

    CLIENT_CONNECTIONS = Gauge None "keyfold_client_connections" ["state"] "Clients, each in one state: `idle`, `active` (requests are under way), `held` (the next one waits until it may begin), `blocked` (waits for what other clients do), `subscribed`. At most a second old.";
    CLIENTS_OPENED = Counter None "keyfold_client_connections_opened" [] "Clients that came.";
    CLIENTS_REFUSED = Counter None "keyfold_client_connections_refused" [] "Clients that were refused, as there were --max-clients.";
    CLIENT_RECEIVED = Counter Bytes "keyfold_client_received" [] "Bytes from clients, without what TLS adds.";
    CLIENT_SENT = Counter Bytes "keyfold_client_sent" [] "Bytes to clients, without what TLS adds.";
    REQUESTS_IN_FLIGHT = Gauge None "keyfold_requests_in_flight" [] "Requests that are under way, or whose answers wait for those before. At most a second old.";
    ANSWERS_PARKED = Gauge None "keyfold_answers_parked" [] "Answers that wait for those before. At most a second old.";
    ANSWERS_WAITING = Gauge Bytes "keyfold_answers_waiting" [] "Answers that wait for those before, or for their clients to take them. At most a second old.";

    UPSTREAM_CONNECTIONS = Gauge None "keyfold_upstream_connections" ["lane", "state"] "Connections to servers that carry clients' commands. `lane`: `shared` by clients, or a client's `own`. `state`: `ready`, `connecting`, `away`; `in_use`, `idle`.";
    UPSTREAM_OPENED = Counter None "keyfold_upstream_connections_opened" [] "Connections to servers that came to carry commands.";
    UPSTREAM_LOST = Counter None "keyfold_upstream_connections_lost" [] "Connections to servers that were lost.";
    UPSTREAM_RECEIVED = Counter Bytes "keyfold_upstream_received" [] "Bytes from servers on these connections, without what TLS adds.";
    UPSTREAM_SENT = Counter Bytes "keyfold_upstream_sent" [] "Bytes to servers on these connections, without what TLS adds.";

    NAMESPACE_READS = Counter None "keyfold_namespace_reads" ["namespace"] "Keys read. `namespace`: its template.";
    NAMESPACE_HITS = Counter None "keyfold_namespace_hits" ["namespace"] "Keys read that were there, of requests whose keys are all of this namespace.";
    NAMESPACE_MISSES = Counter None "keyfold_namespace_misses" ["namespace"] "Keys read that were not there.";
    NAMESPACE_WRITES = Counter None "keyfold_namespace_writes" ["namespace"] "Keys written, deleted ones included.";
    NAMESPACE_SPILLS = Counter None "keyfold_namespace_spills" ["namespace"] "Values over value_limit, which got a key of their own.";
    NAMESPACE_CONFLICTS = Counter None "keyfold_namespace_conflicts" ["namespace"] "Commands worked out again because another client was quicker.";
    NAMESPACE_UNDECODABLE = Counter None "keyfold_namespace_undecodable" ["namespace"] "Values whose codec or payload could not be read.";
    NAMESPACE_SWEPT = Counter None "keyfold_namespace_swept" ["namespace"] "Fields that the sweep of this keyfold looked at.";
    NAMESPACE_EXPIRED = Counter None "keyfold_namespace_expired" ["namespace"] "Expired fields that the sweep of this keyfold found; one that its walk and its look at what is due find at once counts twice.";
    NAMESPACE_CODEC_INPUT = Counter Bytes "keyfold_namespace_codec_input" ["namespace"] "Values written to where a codec may shorten them.";
    NAMESPACE_CODEC_OUTPUT = Counter Bytes "keyfold_namespace_codec_output" ["namespace"] "What they were stored as.";
    NAMESPACE_MOVING = Gauge None "keyfold_namespace_moving" ["namespace"] "1 while its keys are being moved, and each lies in one of two places.";
    MOVE_MOVED = Gauge None "keyfold_move_moved_keys" [] "Keys that the tool which moves keys has moved, by its own word; none while no move is open, as all of these.";
    MOVE_KEYS = Gauge None "keyfold_move_keys" [] "Keys that there were to move when it began, about; 0 where they were not counted.";
    MOVE_SILENCE = Gauge Seconds "keyfold_move_silence" [] "How long ago it said so. It does every two seconds; past 30 it has ended before it was done.";
    NAMESPACE_KEYS = Gauge None "keyfold_namespace_keys" ["namespace"] "Keys in buckets, expired ones left out, as the last whole walk of this keyfold's sweep found them; none before the first is over, or where another keyfold sweeps.";
    NAMESPACE_BUCKETS = Gauge None "keyfold_namespace_buckets" ["namespace"] "Buckets, as that walk found them.";
    NAMESPACE_STORED = Gauge Bytes "keyfold_namespace_stored" ["namespace"] "What those buckets take by the memory model, and the parts of large sets and hashes.";
    SAVED = Gauge Bytes "keyfold_saved" ["namespace"] "What the same keys would take as plain ones by the memory model, less what is stored. Spilled values are left out, and what members and fields of more than 64 bytes take of sets and hashes in parts (`keyfold status` weighs these too). What parts take is found from one in 32 of them, and the server's allocator by MEMORY MALLOC-STATS; where it doesn't tell, that of official builds is taken.";

    EVICTED = Counter None "keyfold_evicted_keys" ["namespace", "reason"] "Keys that this keyfold removed as memory was short. Where a cache is kept only, as all of these. `reason`: `cold` (worth the least of what was looked at), `new` (so new that nothing was known of its use).";
    EVICTED_PLAIN = Counter None "keyfold_evicted_plain_keys" [] "Plain keys that it removed for that.";
    EVICTED_BY_SERVER = Counter None "keyfold_evicted_by_server_keys" [] "Keys, whole buckets among them, that servers have evicted by themselves while this keyfold watched; each keyfold sees them all.";
    EVICTED_AGE = Histogram Seconds "keyfold_evicted_age" [] "How long ago keys that this keyfold removed were asked for last, of a sample of them; at most since this keyfold began to note requests.";
    CACHE_MEMORY = Gauge Bytes "keyfold_cache_memory" [] "What servers count of their memory against the limit, all primaries together.";
    CACHE_MAX_MEMORY = Gauge Bytes "keyfold_cache_max_memory" [] "Beyond so much keys leave; 0 where there is no limit yet.";
    CACHE_KEYS = Gauge None "keyfold_cache_keys" [] "How many keys there are, about.";
    CACHE_COUNTERS = Gauge Bytes "keyfold_cache_counters" [] "What it takes in this keyfold to know how often keys are asked for.";
    CACHE_LOOKED_AT = Counter None "keyfold_cache_looked_at_keys" [] "Keys that were looked at to choose some that leave.";
    CACHE_WAITED = Counter None "keyfold_cache_waited_writes" [] "Writes that waited in this keyfold, some milliseconds, until keys had left, as memory was full.";
    CACHE_REFUSED = Counter None "keyfold_cache_refused_writes" [] "Writes that this keyfold refused, as memory was full and keys didn't leave fast enough.";
    CACHE_EVICTS = Gauge None "keyfold_cache_evicts" [] "1 on the keyfold that removes keys.";

    LAYOUT = Info None "keyfold_layout" ["hash"] "A hash of all that the layout says, the same on every keyfold that goes by it.";
    LAYOUT_EPOCH = Gauge None "keyfold_layout_epoch" [] "The layout's version: one more with each change.";
    LAYOUT_IN_DOUBT = Gauge None "keyfold_layout_in_doubt" [] "1 while the layout, which was lost and put back, may not say where its keys lie.";
    LAYOUT_CHANGES = Counter None "keyfold_layout_changes" [] "How often this keyfold took up another layout.";
    LAYOUT_FOUND_LOST = Counter None "keyfold_layout_found_lost" [] "How often the layout was found gone, damaged, or changed past keyfold.";
    LAYOUT_PUT_BACK = Counter None "keyfold_layout_put_back" [] "How often this keyfold put it back.";
    LAYOUT_FENCED = Counter None "keyfold_layout_connections_closed" [] "Connections of keyfolds that didn't answer to a change, which this one had closed.";
    SERVING = Gauge None "keyfold_serving" [] "1 where the layout in use may be served: its part in changes of the layout.";

    SWEEP_FIELDS = Counter None "keyfold_sweep_fields" [] "Fields and spilled values that the sweep of this keyfold looked at.";
    SWEEP_EXPIRED = Counter None "keyfold_sweep_expired" [] "Expired fields that it found.";
    SWEEP_ORPHANS = Counter None "keyfold_sweep_orphans" [] "Spilled values that it found and nothing points to.";
    SWEEP_NOTED = Gauge None "keyfold_sweep_noted_buckets" [] "Buckets in which something is known to expire.";
    SWEEP_LAG = Gauge Seconds "keyfold_sweep_lag" [] "For how long the first of them has been due.";
    SWEEP_WALK = Gauge Seconds "keyfold_sweep_walk" [] "How long the last walk over all took; 0 before the first is over.";
    LARGE_BUCKETS = Gauge None "keyfold_large_buckets" [] "Buckets with far more fields than any should have, 16 at most.";

    CLUSTER_PRIMARIES = Gauge None "keyfold_cluster_primaries" [] "Nodes that have slots. Before a cluster only, as all of these.";
    CLUSTER_REPLICAS = Gauge None "keyfold_cluster_replicas" [] "Their replicas.";
    CLUSTER_SLOTS_SERVED = Gauge None "keyfold_cluster_slots_served" [] "Slots of which it is known who has them.";
    CLUSTER_SLOTS_HELD = Gauge None "keyfold_cluster_slots_held" [] "Slots whose commands wait for a node that may carry them out.";
    CLUSTER_MAP_CHANGES = Counter None "keyfold_cluster_map_changes" [] "How often the map of slots came to be another.";
    CLUSTER_REDIRECTS = Counter None "keyfold_cluster_redirects" ["kind"] "Steps that a node did not carry out: `moved`, `ask`, `tryagain`, `unserved` (CLUSTERDOWN, LOADING, MASTERDOWN, READONLY, or away).";
    REPLICA_READS = Counter None "keyfold_replica_reads" ["node"] "Reads that a replica was sent (--read-from).";
    REPLICA_RETURNED = Counter None "keyfold_replica_reads_returned" ["node"] "Those of them that went to the primary as well.";
    REPLICA_FIT = Gauge None "keyfold_replica_fit" ["node"] "1 where it is read from.";
    REPLICA_LAG = Gauge Seconds "keyfold_replica_lag" ["node"] "At most so long ago the primary had what it has; none where that isn't known.";
    PRIMARY_CHANGES = Counter None "keyfold_primary_changes" [] "How often Sentinels came to name another primary.";

    SERVER = Info None "keyfold_server" ["node", "server", "version"] "Which server it is. Asked every 15 seconds, as all of these; none where it is away or may not be asked.";
    SERVER_USED_MEMORY = Gauge Bytes "keyfold_server_used_memory" ["node"] "The server's used_memory.";
    SERVER_MAX_MEMORY = Gauge Bytes "keyfold_server_max_memory" ["node"] "The server's maxmemory; 0 for no limit.";
    SERVER_LISTPACK_ENTRIES = Gauge None "keyfold_server_hash_max_listpack_entries" ["node"] "The server's hash-max-listpack-entries.";
    SERVER_LISTPACK_VALUE = Gauge Bytes "keyfold_server_hash_max_listpack_value" ["node"] "The server's hash-max-listpack-value.";
}

impl Family {
    /// With its unit and what its kind adds, as text has it.
    pub(super) fn full_name(&self) -> String {
        format!("{}{}{}", self.name, self.unit.suffix(), self.kind.suffix())
    }
}

impl Unit {
    /// As OpenMetrics names it.
    pub(super) fn word(self) -> Option<&'static str> {
        match self {
            Self::Bytes => Some("bytes"),
            Self::Seconds => Some("seconds"),
            Self::None => None,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::Bytes => "_bytes",
            Self::Seconds => "_seconds",
            Self::None => "",
        }
    }
}

impl Kind {
    fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram => "",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// All metrics as a table of Markdown.
#[cfg_attr(not(test), expect(dead_code, reason = "the documents are compared with it"))]
pub(super) fn markdown() -> String {
    let mut table = "| metric | kind | meaning |\n| --- | --- | --- |\n".to_owned();
    for family @ Family { kind, labels, help, .. } in ALL {
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        // Writing to a string can't fail.
        let _ = writeln!(table, "| `{}{labels}` | {} | {help} |", family.full_name(), kind.word());
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_documents_have_every_metric() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let table = markdown();
        let start = page.find("| metric | kind |").expect("docs/metrics.md has the table");
        let end = start + page[start..].find("\n\n").map_or(page.len() - start, |end| end + 1);
        if std::env::var_os("KEYFOLD_WRITE_DOCS").is_some() {
            std::fs::write(&path, format!("{}{table}{}", &page[..start], &page[end..])).unwrap();
            return;
        }
        assert!(page[start..end] == table, "docs/metrics.md has other metrics; write it anew by KEYFOLD_WRITE_DOCS=1");
    }

    #[test]
    fn names_are_those_of_the_conventions() {
        let names: BTreeSet<_> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len(), "no name stands for two");
        for Family { name, kind, labels, help, .. } in ALL {
            assert!(name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'), "{name}");
            assert!(!name.ends_with("_total") && !name.ends_with("_info") && help.ends_with('.'), "{name}");
            assert!(*kind != Kind::Histogram || !labels.contains(&"le"), "{name}");
        }
    }
}
