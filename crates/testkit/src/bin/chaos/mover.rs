//! A move of all namespaces while the rest happens: `keyfold fold` or `keyfold unfold` as a process, killed half-way, or left
//! to end with what it meets.
//!
//! ```text
//! round      quiet ── mishap ── mishap ── whole ──────────────────── quiet
//! mover         run, killed ─ run, killed ─ run, left to end ┘
//!                                └ runs that failed begin again ─ one that has to end well
//! ```
//! While nodes fail, a run may say that it has to be run again, or that the move isn't settled yet. On a whole cluster it
//! has to end well, except that keyfolds may change the layout in the same moment. What clients see meanwhile is judged
//! as ever.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use keyfold_testkit::random::Random;
use keyfold_testkit::subject;
use serde_json::Value;
use tempfile::TempDir;

/// One bucket in each slot, and both ways to fold in a cluster: by slot, and by tag.
const ONE_BUCKET: &str = "cluster = true\n\
     [[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n\
     [[namespace]]\nkeys = 'cart:{{{shop:int}}}:{item:int}'\nbucket = { span = 16, of = 'item' }\n\
     [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 1 }\nvalue_limit = 64\n\
     [[namespace]]\nkeys = 'tags:{{{post:int}}}:{id:int}'\ntype = 'set'\nbucket = { span = 16, of = 'id' }\nvalue_limit = 8\n";
/// The same keys in other buckets.
const TWO_BUCKETS: &str = "cluster = true\n\
     [[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 2 }\n\
     [[namespace]]\nkeys = 'cart:{{{shop:int}}}:{item:int}'\nbucket = { span = 64, of = 'item' }\n\
     [[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { count = 2 }\nvalue_limit = 60\n\
     [[namespace]]\nkeys = 'tags:{{{post:int}}}:{id:int}'\ntype = 'set'\nbucket = { span = 4, of = 'id' }\nvalue_limit = 60\n";

/// Moves begin so late in a round at the latest, so that they meet the first mishap at any of their steps.
const BEGUN_WITHIN_MS: u64 = 3000;
/// Runs that are killed live so long at the most.
const KILLED_WITHIN_MS: u64 = 2500;
/// A run has a minute's patience with a cluster that isn't whole, and as much with nodes that don't answer.
const ENDS_WITHIN: Duration = Duration::from_secs(180);
/// Runs before a whole cluster. More than one, because a keyfold may change the layout in the same moment: it puts back and
/// settles what a failover took.
const TRIES: u32 = 5;
/// Whoever reads why a run failed, and runs it again, takes longer.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// The exit codes of errors, and of moves that leave something.
const FAILED: i32 = 1;
const LEFT: i32 = 3;

/// Where a move takes the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    OneBucket,
    TwoBuckets,
    Unfold,
}

impl Course {
    const ALL: [Self; 3] = [Self::OneBucket, Self::TwoBuckets, Self::Unfold];

    /// Another than this.
    pub(crate) fn other(self, random: &mut Random) -> Self {
        let others = Self::ALL.into_iter().filter(|course| *course != self).collect::<Vec<_>>();
        *random.pick(&others)
    }

    /// The layout to fold by; none to unfold.
    pub(crate) fn layout(self) -> Option<&'static str> {
        match self {
            Self::OneBucket => Some(ONE_BUCKET),
            Self::TwoBuckets => Some(TWO_BUCKETS),
            Self::Unfold => None,
        }
    }
}

impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneBucket => "folded into one bucket a slot",
            Self::TwoBuckets => "folded into two buckets a slot",
            Self::Unfold => "unfolded",
        })
    }
}

/// How a run of the tool ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// All lies where it is to lie, and will stay there.
    Moved,
    /// It was killed.
    Killed,
    /// An error: what it said.
    Failed(String),
    /// All has moved, and a failover could bring some back: why.
    Unsettled(String),
    /// As no run may end.
    Wrong(String),
}

impl End {
    /// Takes a run for what it says: by its exit code, and the report that it wrote as JSON.
    fn read(status: ExitStatus, report: &[u8], errors: &str) -> Self {
        let said = || format!("{status}: {}{errors}", String::from_utf8_lossy(report));
        match status.code() {
            Some(0) => Self::Moved,
            Some(FAILED) => Self::Failed(errors.lines().last().unwrap_or_default().to_owned()),
            Some(LEFT) => {
                let report: Value = serde_json::from_slice(report).unwrap_or_default();
                // Nobody writes past keyfold, so nothing may stay, nor be written where nobody looks.
                let is_all_moved = [&report["left"], &report["stragglers"]].iter().all(|count| **count == 0);
                match report["unsettled_because"].as_str() {
                    Some(why) if is_all_moved => Self::Unsettled(why.to_owned()),
                    _ => Self::Wrong(said()),
                }
            }
            _ => Self::Wrong(said()),
        }
    }

    fn is_to_be_run_again(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Unsettled(_))
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Moved => "done",
            Self::Killed => "killed",
            Self::Failed(_) => "failed",
            Self::Unsettled(_) => "not settled",
            Self::Wrong(_) => "WRONG",
        })
    }
}

/// The tool with its options, before a cluster.
struct Tool {
    upstream: String,
    course: Course,
    dir: TempDir,
}

impl Tool {
    fn new(upstream: &str, course: Course) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("keyfold-chaos-").tempdir()?;
        if let Some(layout) = course.layout() {
            std::fs::write(layout_in(dir.path()), layout)?;
        }
        Ok(Self { upstream: upstream.to_owned(), course, dir })
    }

    fn run(&self, max_ops: Option<u64>) -> anyhow::Result<Run> {
        let [report, errors] = ["report", "errors"].map(|name| self.dir.path().join(name));
        let mut command = Command::new(subject::program());
        command.arg(if self.course.layout().is_some() { "fold" } else { "unfold" });
        command.args([&self.upstream, "--yes", "--json"]);
        if self.course.layout().is_some() {
            command.arg("--layout").arg(layout_in(self.dir.path()));
        }
        command.args(max_ops.iter().flat_map(|ops| ["--max-ops".to_owned(), ops.to_string()]));
        command.stdin(Stdio::null()).stdout(File::create(&report)?).stderr(File::create(&errors)?);
        let child = command.spawn().context("the tool that moves can't be started")?;
        Ok(Run { child, report, errors })
    }
}

fn layout_in(dir: &Path) -> PathBuf {
    dir.join("layout.toml")
}

/// A run of the tool. Who drops it kills it.
struct Run {
    child: Child,
    report: PathBuf,
    errors: PathBuf,
}

impl Run {
    /// Waits until it ends by itself, for so long at the most; none where it hasn't, or the round is given up.
    fn wait(&mut self, within: Duration, signals: &Signals) -> anyhow::Result<Option<End>> {
        let since = Instant::now();
        while since.elapsed() < within && !signals.is_given_up.load(Ordering::Acquire) {
            if let Some(status) = self.child.try_wait()? {
                let report = std::fs::read(&self.report)?;
                let errors = String::from_utf8_lossy(&std::fs::read(&self.errors)?).into_owned();
                return Ok(Some(End::read(status, &report, &errors)));
            }
            thread::sleep(LOOK_AGAIN_AFTER);
        }
        Ok(None)
    }

    /// Waits for its end, which has to come.
    fn end(mut self, signals: &Signals) -> anyhow::Result<End> {
        if let Some(end) = self.wait(ENDS_WITHIN, signals)? {
            return Ok(end);
        }
        let errors = String::from_utf8_lossy(&std::fs::read(&self.errors)?).into_owned();
        Ok(End::Wrong(format!("no end within {} s: {errors}", ENDS_WITHIN.as_secs())))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a move is told while it is on its way.
#[derive(Default)]
struct Signals {
    /// Nothing more befalls the cluster.
    is_whole: AtomicBool,
    is_given_up: AtomicBool,
}

/// A move on its way, by itself. Who drops it ends it.
pub(crate) struct Mover {
    tool: Arc<Tool>,
    signals: Arc<Signals>,
    /// How its runs ended.
    thread: Option<JoinHandle<anyhow::Result<Vec<End>>>>,
}

/// What a move came to.
pub(crate) struct Moved {
    course: Course,
    pub(crate) ends: Vec<End>,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends: Vec<String> = self.ends.iter().map(ToString::to_string).collect();
        let told = ends.chunk_by(|one, next| one == next).map(|same| match same {
            [end] => end.clone(),
            _ => format!("{} {} times", same[0], same.len()),
        });
        write!(f, "{} ({})", self.course, told.collect::<Vec<_>>().join(", "))
    }
}

impl Mover {
    /// Begins soon, and goes on as chance has it until a run that was left to end has moved all.
    pub(crate) fn start(upstream: &str, course: Course, mut random: Random) -> anyhow::Result<Self> {
        let tool = Arc::new(Tool::new(upstream, course)?);
        let signals = Arc::new(Signals::default());
        let (its_tool, its_signals) = (Arc::clone(&tool), Arc::clone(&signals));
        let thread = thread::spawn(move || run_some(&its_tool, &mut random, &its_signals));
        Ok(Self { tool, signals, thread: Some(thread) })
    }

    /// The cluster is whole: waits for the run that is left to end, and runs the tool again where that has not moved all.
    pub(crate) fn end(mut self) -> anyhow::Result<Moved> {
        self.signals.is_whole.store(true, Ordering::Release);
        let thread = self.thread.take().context("a move ends once")?;
        let mut ends = thread.join().map_err(|_| anyhow!("what drives a move panicked"))??;
        for last in (0..TRIES).rev() {
            if !ends.last().is_some_and(End::is_to_be_run_again) {
                break;
            }
            thread::sleep(AGAIN_AFTER);
            ends.push(match self.tool.run(None)?.end(&self.signals)? {
                End::Failed(why) if last == 0 => {
                    End::Wrong(format!("{TRIES} runs before a whole cluster failed: {why}"))
                }
                End::Unsettled(why) => End::Wrong(format!("the cluster is whole, and yet: {why}")),
                end => end,
            });
        }
        Ok(Moved { course: self.tool.course, ends })
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.signals.is_given_up.store(true, Ordering::Release);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Runs that are killed, and then those that are left to end, until one has moved all or none meets mishaps any more; how
/// each ended.
fn run_some(tool: &Tool, random: &mut Random, signals: &Signals) -> anyhow::Result<Vec<End>> {
    // So few commands a second that a run lasts for seconds, or as many as the nodes can take.
    let max_ops = *random.pick(&[None, Some(1000), Some(4000)]);
    thread::sleep(Duration::from_millis(random.below(BEGUN_WITHIN_MS)));
    let mut ends = Vec::new();
    for _ in 0..random.below(3) {
        let within = Duration::from_millis(random.below(KILLED_WITHIN_MS));
        ends.push(tool.run(max_ops)?.wait(within, signals)?.unwrap_or(End::Killed));
    }
    loop {
        let end = tool.run(max_ops)?.end(signals)?;
        let is_again = end.is_to_be_run_again();
        ends.push(end);
        if !is_again || signals.is_whole.load(Ordering::Acquire) {
            return Ok(ends);
        }
        thread::sleep(AGAIN_AFTER);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn read(code: i32, report: &str, errors: &str) -> End {
        End::read(ExitStatus::from_raw(code << 8), report.as_bytes(), errors)
    }

    #[test]
    fn a_run_may_leave_nothing_but_the_last_change_of_the_layout() {
        let why = "slots are on their way".to_owned();
        let report = |left: u64, late: u64, why: &str| {
            serde_json::json!({ "left": left, "stragglers": late, "unsettled_because": why }).to_string()
        };
        assert_eq!(read(LEFT, &report(0, 0, &why), ""), End::Unsettled(why.clone()));
        for wrong in [report(1, 0, &why), report(0, 1, &why), r#"{"left":0,"stragglers":0}"#.to_owned(), String::new()]
        {
            assert!(matches!(read(LEFT, &wrong, ""), End::Wrong(_)), "{wrong}");
        }
        assert_eq!(read(0, "", ""), End::Moved);
        assert_eq!(read(FAILED, "", "waiting\nrun it again"), End::Failed("run it again".to_owned()));
        assert!(matches!(read(101, "", "panicked"), End::Wrong(_)));
        assert!(matches!(End::read(ExitStatus::from_raw(11), b"", ""), End::Wrong(_)));
    }
}
