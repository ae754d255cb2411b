//! How many files this process may open: each client is one, and another where it has a connection to the server of its own.

/// Descriptors that are not clients: listeners, connections to the server, the runtimes' own.
const OTHER_DESCRIPTORS: u64 = 128;

/// What a client takes that waits, watches or subscribes.
const OF_A_CLIENT: u64 = 2;

/// So many clients are let in at least, however low the limit is.
const FEWEST: u64 = 1;

/// Raises this process's soft limit of open files to the hard one. How many clients it has room for then, at most as many as are wanted:
/// who comes beyond that is told so, and doesn't take the descriptors that keyfold needs for those who are there.
pub(crate) fn clients_within_limit(wanted: usize) -> usize {
    let limit = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => limit,
        Err(error) => {
            tracing::warn!(%error, "can't raise the limit of open files");
            return wanted;
        }
    };
    let clients = wanted.min(clients_of(limit));
    if clients < wanted {
        tracing::warn!(
            limit,
            needed = (wanted as u64).saturating_mul(OF_A_CLIENT).saturating_add(OTHER_DESCRIPTORS),
            clients,
            "this process may open fewer files than --max-clients takes, so fewer clients are let in; raise its limit (ulimit -Hn, \
             LimitNOFILE=)"
        );
    }
    clients
}

fn clients_of(limit: u64) -> usize {
    let clients = limit.saturating_sub(OTHER_DESCRIPTORS) / OF_A_CLIENT;
    usize::try_from(clients.max(FEWEST)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keyfold_needs_itself_is_left_to_it() {
        assert_eq!(clients_of(1024), 448);
        assert_eq!(clients_of(64), 1);
        assert_eq!(clients_of(u64::MAX), usize::try_from((u64::MAX - OTHER_DESCRIPTORS) / 2).unwrap());
    }
}
