//! One round: a move under load, kills, and the move resumed to its end.

use std::fmt;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use keyfold_testkit::Subject;
use keyfold_testkit::load::Load;
use keyfold_testkit::random::Random;

use crate::stage::{Course, Stage};

/// How long one mover may take; longer than it waits for those that are silent.
const MOVED_WITHIN: Duration = Duration::from_secs(60);
/// How long movers may fail one after another once nothing is killed any more: keyfolds put back what was lost, and settle it once a walk
/// of theirs has found no key that was written past it. Where the machine is busy that takes seconds.
const RESUMED_WITHIN: Duration = Duration::from_secs(60);
/// How long until the next.
const NEXT_TRY: Duration = Duration::from_millis(500);
/// How long a keyfold may fail to start, because the layout is lost and the others have yet to put it back.
const STARTED_WITHIN: Duration = Duration::from_secs(10);
/// Until each keyfold has looked again.
const SEEN_WITHIN: Duration = Duration::from_millis(1500);

/// What a round came to.
pub(crate) struct Outcome {
    number: u64,
    course: Course,
    kills: Vec<&'static str>,
    answers: u64,
    took: Duration,
    pub(crate) wrong: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, course, kills, answers, took, wrong } = self;
        let end = if wrong.is_empty() { "all is there".to_owned() } else { format!("{} WRONG", wrong.len()) };
        let kills = kills.join(", ");
        write!(f, "{number:4} {course:?}: lost {kills}; {answers} answers in {:.1} s; {end}", took.as_secs_f64())
    }
}

/// Runs a round.
pub(crate) fn run(stage: &mut Stage, number: u64, random: &mut Random) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let course = [Course::Fold, Course::FoldOtherwise, Course::Unfold][usize::try_from((number - 1) % 3)?];
    let load = Load::start(std::mem::take(&mut stage.clients), &stage.addresses, None);
    let killed = kill_some(stage, course, random);
    let moved = killed.and_then(|kills| resume(stage, course).map(|()| kills));
    stage.clients = load.stop();
    let kills = moved?;
    let before = stage.total.answers;
    let mut wrong = stage.check()?;
    let report_of_load = stage.total.answers - before;
    wrong.extend(stage.verify()?);
    let took = started.elapsed();
    Ok(Outcome { number, course, kills, answers: report_of_load, took, wrong })
}

/// Starts the move, and kills one to three of what takes part.
fn kill_some(stage: &mut Stage, course: Course, random: &mut Random) -> anyhow::Result<Vec<&'static str>> {
    let mut kills = Vec::new();
    let at_first = stage.layout()?;
    let max_ops = *random.pick(&[None, Some(200_000), Some(50_000)]);
    let mut mover = stage.mover(course, max_ops)?;
    for _ in 0..=random.below(3) {
        thread::sleep(Duration::from_micros(random.below(500_000)));
        match random.below(12) {
            0..5 => {
                kill(&mut mover)?;
                mover = stage.mover(course, max_ops)?;
                stage.kills[0] += 1;
                kills.push("mover");
            }
            5..7 => {
                let at = random.index(stage.proxies.len());
                stage.proxies[at].kill();
                thread::sleep(Duration::from_micros(random.below(50_000)));
                stage.proxies[at] = start_again(stage, at)?;
                stage.kills[1] += 1;
                kills.push("proxy");
            }
            7..10 => {
                let lost = stage.lose(&at_first, random)?;
                // A keyfold that starts before the others have seen it would go by what it finds.
                thread::sleep(SEEN_WITHIN);
                stage.kills[3] += 1;
                kills.push(lost);
            }
            _ => {
                stage.server.kill();
                thread::sleep(Duration::from_micros(random.below(50_000)));
                stage.server.restart()?;
                stage.kills[2] += 1;
                kills.push("server");
            }
        }
    }
    if random.chance(50) {
        kill(&mut mover)?;
    } else {
        wait(&mut mover)?;
    }
    Ok(kills)
}

/// A keyfold where one was. It refuses to begin from nothing, until the others have put back what was lost.
fn start_again(stage: &Stage, at: usize) -> anyhow::Result<Subject> {
    let deadline = Instant::now() + STARTED_WITHIN;
    loop {
        match Subject::beside_at(&stage.server, stage.addresses[at]) {
            Ok(proxy) => return Ok(proxy),
            Err(error) if Instant::now() > deadline => return Err(error.into()),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Runs movers until one says that all is moved.
fn resume(stage: &Stage, course: Course) -> anyhow::Result<()> {
    let deadline = Instant::now() + RESUMED_WITHIN;
    while Instant::now() < deadline {
        if wait(&mut stage.mover(course, None)?)? {
            return Ok(());
        }
        thread::sleep(NEXT_TRY);
    }
    let said = stage.movers_last_words()?;
    bail!("all movers failed for {} s, with nothing killed; the last ones said:\n{said}", RESUMED_WITHIN.as_secs())
}

/// Waits for its end; whether it was content.
fn wait(mover: &mut Child) -> anyhow::Result<bool> {
    let deadline = Instant::now() + MOVED_WITHIN;
    loop {
        if let Some(status) = mover.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            kill(mover)?;
            bail!("the mover didn't end within {} s", MOVED_WITHIN.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(mover: &mut Child) -> anyhow::Result<()> {
    mover.kill()?;
    ensure!(mover.wait().is_ok(), "the mover can't be waited for");
    Ok(())
}
