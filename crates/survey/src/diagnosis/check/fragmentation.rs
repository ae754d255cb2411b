//! Memory that the process has, and the data doesn't.

use super::super::finding::{Finding, Trouble};
use super::super::mend::Mend;
use super::super::{MemoryFacts, Observation};

/// Less beyond what is used is what every server has: code, stacks, the allocator's own.
const BEYOND_BYTES: u64 = 32 << 20;
/// And less than this share of what is used, in percent, is usual.
const BEYOND_PERCENT: u64 = 40;
/// Where the process has less than this share of what is used, in percent, the rest is swapped out.
const RESIDENT_PERCENT: u64 = 85;

pub(in super::super) fn check(seen: &Observation, findings: &mut Vec<Finding>) {
    let memory = &seen.memory;
    let beyond = memory.beyond_bytes();
    if beyond > BEYOND_BYTES && beyond.saturating_mul(100) > memory.used_bytes.saturating_mul(BEYOND_PERCENT) {
        findings.push(fragmented(seen, memory, beyond));
    }
    let missing = memory.used_bytes.saturating_sub(memory.rss_bytes);
    if memory.rss_bytes > 0
        && missing > BEYOND_BYTES
        && memory.rss_bytes.saturating_mul(100) < memory.used_bytes.saturating_mul(RESIDENT_PERCENT)
    {
        findings.push(swapped(memory, missing));
    }
}

/// What all that is told of here is counted in: it is never less.
fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn fragmented(seen: &Observation, memory: &MemoryFacts, beyond: u64) -> Finding {
    let what =
        format!("the process holds {}, and {} of it is not in use", mebibytes(memory.rss_bytes), mebibytes(beyond));
    let mut finding = Finding::problem(Trouble::Fragmentation, "INFO memory, used_memory_rss", what);
    finding.cost_bytes = Some(beyond);
    let (holes, kept) = (mebibytes(memory.holes_bytes), mebibytes(memory.kept_pages_bytes));
    finding.why.push(format!("{holes} are holes between data, {kept} are pages kept for later ({})", memory.allocator));
    if memory.defrag_running {
        finding.why.push("the server is defragmenting by itself at the moment".to_owned());
    }
    if memory.kept_pages_bytes > memory.holes_bytes {
        let purge = format!("{} MEMORY PURGE", seen.names.redis_cli);
        finding.mends.push(Mend::command("let the allocator give back what it keeps", purge));
    }
    finding.mends.push(Mend::settings("let the server close the holes", seen, &[("activedefrag", "yes".to_owned())]));
    finding.mends.push(Mend::advice(
        "where its build refuses that (\"requires a Redis server compiled with a modified Jemalloc\"): restart it, or fail \
         over to a replica that was started anew",
    ));
    finding
}

fn swapped(memory: &MemoryFacts, missing: u64) -> Finding {
    let what = format!(
        "of {} in use, {} is not in memory: the system has swapped or compressed it",
        mebibytes(memory.used_bytes),
        mebibytes(missing)
    );
    let mut finding = Finding::problem(Trouble::Swapped, "INFO memory, used_memory_rss", what);
    finding.why.push("each access to them waits for a disk".to_owned());
    finding
        .mends
        .push(Mend::advice("give the machine more memory, or the server less: set maxmemory below what is free"));
    finding
}
