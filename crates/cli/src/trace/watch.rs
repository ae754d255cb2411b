//! Requests as they come: what MONITOR shows of a server, or of a keyfold.
//!
//! MONITOR costs whoever shows it some microseconds for each command, and memory for what isn't taken at once. So it is on
//! for windows of a second, and off for as long in between as keeps the lines a second within a bound, on the mean. Windows
//! stand end to end in what is recorded: keys are as popular in it as they are. What isn't seen is that a key is asked for
//! again soon, but in the pause, so that caches look a little worse than they are where requests come in bursts that are
//! longer than a window. Where fewer commands come than the bound allows, all of them are seen.
//!
//! Which keys are in the sample is decided here by their hashes, of all that is shown: no server shows the commands of some
//! keys alone.

use std::num::NonZero;
use std::time::{Duration, Instant};

use anyhow::Context;
use keyfold_report::number::{decimals, plural};
use keyfold_report::progress::Progress;
use keyfold_server::Server;
use keyfold_server::interrupt::Interrupt;
use keyfold_survey::caching::{Bounds, Recorder, Requests};

use super::subject::Subject;

/// Lines a second, on the mean, where no other bound is told.
const MOST_LINES: u32 = 20_000;
/// How long MONITOR is on at a time.
const WINDOW: Duration = Duration::from_secs(1);
/// It is off sooner once it has shown as many lines as are due in so long, so that no pause is longer.
const PAUSE: Duration = Duration::from_secs(5);
/// Or once it has shown so much: values may be large, and what isn't taken at once waits in the server.
const WINDOW_BYTES: usize = 64 << 20;
/// A moment in which nothing comes, after which it is looked whether to go on.
const MOMENT: Duration = Duration::from_millis(200);

/// Watches for so long, or until Ctrl-C.
pub(super) fn watch(
    subject: &mut Subject,
    time: Duration,
    max_lines: Option<NonZero<u32>>,
    interrupt: &Interrupt,
    notes: &mut Vec<String>,
) -> anyhow::Result<Requests> {
    subject.needs_logical_keys()?;
    let server = subject.server.as_ref().context("there is no server to watch")?;
    let most = f64::from(max_lines.map_or(MOST_LINES, NonZero::get));
    let mut watch = Watch {
        recorder: Recorder::new(Bounds::default()),
        lines: 0,
        on: Duration::ZERO,
        progress: Progress::new("seconds watched", usize::try_from(time.as_secs()).unwrap_or(usize::MAX)),
        shown: 0,
        started: Instant::now(),
    };
    while watch.started.elapsed() < time && !interrupt.wanted() {
        let left = time.saturating_sub(watch.started.elapsed());
        let due = (most * time.as_secs_f64() - watch.lines as f64).clamp(1.0, most * PAUSE.as_secs_f64());
        if let Err(error) = watch.window(server, left.min(WINDOW), due, interrupt) {
            if watch.lines == 0 {
                return Err(error);
            }
            notes.push(format!("{error:#}: what was seen until then is told"));
            break;
        }
        let due = Duration::from_secs_f64(watch.lines as f64 / most);
        while watch.started.elapsed() < due.min(time) && !interrupt.wanted() {
            std::thread::sleep(MOMENT.min(due.saturating_sub(watch.started.elapsed())));
            watch.tick();
        }
    }
    Ok(watch.finish(notes))
}

/// What was seen by now.
struct Watch {
    recorder: Recorder,
    lines: u64,
    /// How long MONITOR was on.
    on: Duration,
    progress: Progress,
    shown: u64,
    started: Instant,
}

impl Watch {
    /// MONITOR for so long, or for so many lines. What it shows is taken first and understood once it is off, so that nothing waits in the server.
    fn window(&mut self, server: &Server, time: Duration, most: f64, interrupt: &Interrupt) -> anyhow::Result<()> {
        let mut monitor = server.another()?;
        monitor.ask::<String>(&[b"MONITOR"])?;
        // Lines are no answers to anything that was asked.
        monitor.send(b"", u64::MAX / 2)?;
        let (started, mut lines, mut bytes) = (Instant::now(), Vec::new(), 0);
        let mut lost = None;
        let is_enough = |lines: &[Vec<u8>], bytes| lines.len() as f64 >= most || bytes >= WINDOW_BYTES;
        while started.elapsed() < time && !is_enough(&lines, bytes) && !interrupt.wanted() {
            let left = time.saturating_sub(started.elapsed());
            monitor.set_patience(left.max(Duration::from_millis(1)))?;
            match monitor.receive() {
                Ok(line) => {
                    bytes += line.len();
                    lines.push(line);
                }
                // Nothing came until the window was over.
                Err(_) if started.elapsed() >= time => break,
                Err(error) => {
                    lost = Some(error);
                    break;
                }
            }
        }
        self.on += started.elapsed();
        drop(monitor);
        self.lines += lines.len() as u64;
        for line in &lines {
            self.recorder.add_line(line.strip_suffix(b"\r\n").unwrap_or(line));
        }
        self.tick();
        lost.map_or(Ok(()), Err)
    }

    fn tick(&mut self) {
        let seconds = self.started.elapsed().as_secs();
        self.progress.advance(usize::try_from(seconds.saturating_sub(self.shown)).unwrap_or(0));
        self.shown = self.shown.max(seconds);
    }

    fn finish(self, notes: &mut Vec<String>) -> Requests {
        let (on, whole) = (self.on.as_secs_f64(), self.started.elapsed().as_secs_f64());
        let share = on / whole.max(0.001) * 100.0;
        let mut note = format!(
            "MONITOR was on for {} of {} s and showed {}",
            decimals(on, 0),
            decimals(whole, 0),
            plural(self.lines, "command")
        );
        if share < 95.0 {
            note += &format!(
                ", {} a second: the windows stand end to end, and what is asked for in bursts longer than a second looks \
                 as if it came less often",
                decimals(self.lines as f64 / on.max(0.001), 0)
            );
        }
        notes.push(note);
        let per_minute = self.recorder.seen() as f64 / on.max(0.001) * 60.0;
        self.recorder.finish().at_pace(Some(per_minute))
    }
}
