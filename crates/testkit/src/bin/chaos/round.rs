//! One round: mishaps under load, and then every answer and every key judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use keyfold_testkit::random::Random;
use serde::{Deserialize, Serialize};

use crate::asker::Asker;
use crate::history::Claim;
use crate::mishap::{Mishap, happen};
use crate::mover::{End, Moved, Mover};
use crate::prober::{Probers, Side, Sightings};
use crate::report::Report;
use crate::stage::Stage;
use crate::worker::Worker;

/// Slots that are looked at from both sides.
const PROBED: u16 = 9;
/// Before the first mishap and after the last, so that there is something to compare with.
const QUIET: Duration = Duration::from_millis(1500);

/// What one side met.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub(crate) report: Report,
    /// Writes that were acknowledged and that the cluster lost.
    pub(crate) lost: u64,
    /// Answers by nodes that were behind.
    pub(crate) stale: u64,
    /// How long slots were away that a mishap concerned.
    pub(crate) gaps_ms: Vec<u64>,
}

impl Tally {
    /// Adds another round's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.report.extend(other.report.clone());
        self.lost += other.lost;
        self.stale += other.stale;
        self.gaps_ms.extend(&other.gaps_ms);
    }

    /// The time within which so many of a hundred slots were back; zero where none was away.
    pub(crate) fn gap(&self, percent: usize) -> Duration {
        let mut gaps_ms = self.gaps_ms.clone();
        gaps_ms.sort_unstable();
        let at = (gaps_ms.len() * percent / 100).min(gaps_ms.len().saturating_sub(1));
        Duration::from_millis(gaps_ms.get(at).copied().unwrap_or_default())
    }

    /// Takes claims for true where a mishap bears them out, and for wrong otherwise.
    fn judge(&mut self, mishaps: &[Mishap]) {
        for claim in std::mem::take(&mut self.report.claims) {
            let Claim { slot, acked_ms, seen_ms, told } = claim;
            let is_borne_out = if acked_ms.is_empty() {
                mishaps.iter().any(|mishap| mishap.disturbs(slot, seen_ms))
            } else {
                acked_ms.iter().all(|at| mishaps.iter().any(|mishap| mishap.excuses(slot, *at)))
            };
            match is_borne_out {
                false => self.report.wrong.push(format!("lost, or back, without a reason: {told}")),
                true if acked_ms.is_empty() => self.stale += 1,
                true => self.lost += acked_ms.len() as u64,
            }
        }
    }
}

/// What a round came to.
pub(crate) struct Outcome {
    pub(crate) mishaps: Vec<Mishap>,
    pub(crate) moved: Option<Moved>,
    pub(crate) keyfold: Tally,
    pub(crate) plain: Tally,
    pub(crate) took: Duration,
}

/// Runs a round.
pub(crate) fn run(
    stage: &mut Stage,
    through: &mut Vec<Worker>,
    beside: &mut Vec<Worker>,
    random: &mut Random,
) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let asker = |side| match side {
        Side::Keyfold(at) => Asker::of_keyfold(stage.addresses[at]),
        Side::Plain => Asker::plain(stage.cluster.client()),
    };
    let probers = Probers::start(PROBED, asker, stage.keyfolds.len());
    let stop = Arc::new(AtomicBool::new(false));
    let works: Vec<_> = [std::mem::take(through), std::mem::take(beside)].map(|workers| start(workers, &stop)).into();
    thread::sleep(QUIET);
    let happened = happen_some(stage, random);
    thread::sleep(QUIET);
    stop.store(true, Ordering::Release);
    let sightings = probers.stop();
    let mut ended = works.into_iter().map(|threads| threads.into_iter().filter_map(|thread| thread.join().ok()));
    for workers in [&mut *through, &mut *beside] {
        workers.extend(ended.next().into_iter().flatten());
    }
    let (mishaps, moved) = happened?;
    let tally = |workers: &mut Vec<Worker>, is_plain: bool| {
        let mut tally = Tally::default();
        for worker in workers {
            worker.check();
            tally.report.extend(std::mem::take(&mut worker.report));
        }
        tally.gaps_ms = gaps_ms(&sightings, &mishaps, is_plain);
        tally.judge(&mishaps);
        tally
    };
    let (mut keyfold, plain) = (tally(through, false), tally(beside, true));
    let lasting = through.iter().flat_map(Worker::lasting).map(|history| history.key.as_slice());
    keyfold.report.wrong.extend(stage.misplaced(lasting)?);
    keyfold.report.wrong.extend(stage.verify()?);
    for end in moved.iter().flat_map(|moved| &moved.ends) {
        match end {
            End::Moved | End::Killed => {}
            End::Failed(why) | End::Unsettled(why) => keyfold.report.note_error(&format!("a move, {end}: {why}")),
            End::Wrong(why) => keyfold.report.wrong.push(format!("a move: {why}")),
        }
    }
    Ok(Outcome { mishaps, moved, keyfold, plain, took: started.elapsed() })
}

/// Mishaps, and perhaps a move meanwhile; in the end the cluster is whole, and all keys lie where the layout says.
fn happen_some(stage: &mut Stage, random: &mut Random) -> anyhow::Result<(Vec<Mishap>, Option<Moved>)> {
    let mover = stage.move_perhaps(random)?;
    let mishaps = (0..=random.below(2)).map(|_| happen(stage, random)).collect::<anyhow::Result<_>>()?;
    stage.cluster.wait_until_settled()?;
    stage.cluster.wait_until_still()?;
    Ok((mishaps, mover.map(Mover::end).transpose()?))
}

fn start(workers: Vec<Worker>, stop: &Arc<AtomicBool>) -> Vec<thread::JoinHandle<Worker>> {
    let start = |mut worker: Worker| {
        let stop = Arc::clone(stop);
        thread::spawn(move || {
            worker.work(&stop);
            worker
        })
    };
    workers.into_iter().map(start).collect()
}

/// How long slots were away, of those that a mishap concerned, as one side saw it. A keyfold that something befell itself
/// is left out.
fn gaps_ms(sightings: &[Sightings], mishaps: &[Mishap], is_plain: bool) -> Vec<u64> {
    let mut gaps_ms = Vec::new();
    for mishap in mishaps {
        for sightings in sightings.iter().filter(|sightings| (sightings.side == Side::Plain) == is_plain) {
            let befell = mishaps.iter().filter_map(|mishap| mishap.keyfold.map(Side::Keyfold));
            if befell.into_iter().all(|side| side != sightings.side) && mishap.slots.contains(&sightings.slot) {
                let longest = sightings.longest_gap(mishap.began, mishap.ended);
                gaps_ms.extend(longest.and_then(|longest| u64::try_from(longest.as_millis()).ok()));
            }
        }
    }
    gaps_ms
}
