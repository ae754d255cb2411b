//! Work divided among threads: each takes the next piece that nobody has taken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::anyhow;

/// Does the work of all `jobs` on at most so many threads; what came of each, in their order.
///
/// # Errors
/// The first of a job's: then no other is begun.
pub fn at_once<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { return Ok(done) };
            let result = work(job);
            if result.is_err() {
                next.store(jobs.len(), Ordering::Relaxed);
            }
            done.push((number, result?));
        }
    };
    let mut all: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.min(jobs.len())).map(|_| scope.spawn(take)).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<Vec<(usize, R)>>>| {
            thread.join().map_err(|_| anyhow!("a thread died"))?
        };
        let joined: Vec<_> = threads.into_iter().map(join).collect();
        joined.into_iter().collect::<anyhow::Result<Vec<_>>>().map(|each| each.into_iter().flatten().collect())
    })?;
    all.sort_unstable_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u32> = (0..100).collect();
        assert_eq!(at_once(&jobs, 4, |job| Ok(job * 2)).unwrap(), jobs.iter().map(|job| job * 2).collect::<Vec<_>>());
        assert_eq!(at_once(&jobs[..0], 4, |_| Ok(())).unwrap(), []);
    }

    #[test]
    fn after_a_failure_nothing_more_is_begun() {
        let begun = AtomicUsize::new(0);
        let failed = at_once(&[0; 100], 1, |_| {
            begun.fetch_add(1, Ordering::Relaxed);
            anyhow::bail!("no room") as anyhow::Result<()>
        });
        assert_eq!((failed.unwrap_err().to_string(), begun.into_inner()), ("no room".to_owned(), 1));
    }
}
