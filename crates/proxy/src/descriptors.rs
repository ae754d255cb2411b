//! How many files this process may open: each client is one.

/// Descriptors that are not clients: listeners, connections to the server, the runtimes' own.
const OTHER_DESCRIPTORS: u64 = 128;

/// Raises this process's soft limit of open files to the hard one: each client takes one.
pub(crate) fn raise_limit(max_clients: usize) {
    let needed = max_clients as u64 + OTHER_DESCRIPTORS;
    match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) if limit < needed => tracing::warn!(
            limit,
            needed,
            "this process may open fewer files than --max-clients takes; raise its limit (ulimit -Hn, LimitNOFILE=)"
        ),
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "can't raise the limit of open files"),
    }
}
