//! What a server's process holds beyond what it uses. Folding gives memory back to the allocator, which keeps it for later:
//! whoever looks at the system's numbers sees less of it than `used_memory` says.

use keyfold_report::number::size;

/// A process holds so much beyond what it uses in any case: code, stacks, the allocator's own.
const USUAL_BYTES: u64 = 32 << 20;
/// And less than one part in so many of what it uses is usual, too.
const USUAL_SHARE: u64 = 4;

/// Why so much is held and what gives it back; none where it is about as much as is used.
pub(crate) fn advice(used_bytes: u64, rss_bytes: u64) -> Option<String> {
    let beyond = rss_bytes.saturating_sub(used_bytes);
    (beyond > USUAL_BYTES && beyond > used_bytes / USUAL_SHARE).then(|| {
        format!(
            "{} of that are not in use: the allocator keeps them for what comes. On the server MEMORY PURGE has it give \
             whole pages back, and CONFIG SET activedefrag yes closes holes, where its build can",
            size(beyond)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_process_has_is_no_matter() {
        const MIB: u64 = 1 << 20;
        assert_eq!(advice(100 * MIB, 120 * MIB), None);
        assert_eq!(advice(2 * MIB, 9 * MIB), None);
        assert_eq!(advice(100 * MIB, 90 * MIB), None, "swapped out");
        assert!(advice(20 * MIB, 100 * MIB).unwrap().starts_with("80.0 MiB of that"));
    }
}
