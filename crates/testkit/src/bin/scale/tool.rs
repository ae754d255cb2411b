//! One run of the program, with its time and its peak memory.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use keyfold_testkit::subject;

/// Between two looks at its memory. The peak is kept by the system: only what it grows by after the last look is missed.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What a run took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) time: Duration,
    pub(crate) peak_bytes: u64,
}

/// Runs the program, and writes what it says to `log`.
pub(crate) fn run(args: &[String], log: &Path) -> anyhow::Result<Took> {
    let said = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
    let started = Instant::now();
    let mut child = Command::new(subject::program())
        .args(args)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said)
        .spawn()
        .with_context(|| format!("can't start {}", subject::program().display()))?;
    let (pid, mut peak_bytes) = (child.id(), 0);
    let status = loop {
        if let Some(bytes) = peak_of(pid) {
            peak_bytes = bytes;
        }
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(LOOK_EVERY),
        }
    };
    let time = started.elapsed();
    let text = std::fs::read_to_string(log).unwrap_or_default();
    // After a fold the allocator holds pages that nothing is in, and doctor says so.
    let has_advice = args[0] == "doctor" && status.code() == Some(3);
    ensure!(status.success() || has_advice, "keyfold {} ended with {status}:\n{text}", args.join(" "));
    Ok(Took { time, peak_bytes })
}

/// The most memory that a process held; none once it has ended.
fn peak_of(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}
