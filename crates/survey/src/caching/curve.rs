//! What caches find by their memory, and how much memory finds as much.

use std::ops::ControlFlow;

use super::replay::{Cache, Tally, replay};
use super::requests::Requests;
use super::server_eviction::ServerPolicy;
use super::sizes::Sizes;

/// Of what all keys take as plain ones, in percent: where caches are looked at.
const PERCENTS: [f64; 13] = [0.5, 1.0, 2.0, 3.5, 5.0, 7.0, 10.0, 14.0, 20.0, 30.0, 45.0, 70.0, 100.0];

/// One cache that is to be simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Who keeps what.
    pub cache: Cache,
    /// In how much memory.
    pub memory_bytes: f64,
}

/// What one cache found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The cache.
    pub job: Job,
    /// What it found.
    pub tally: Tally,
}

/// What caches of all kinds found.
#[derive(Clone, Debug)]
pub struct Curves {
    /// What all keys take as plain ones.
    pub all_plain_bytes: f64,
    /// The same folded.
    pub all_folded_bytes: f64,
    /// Where caches are looked at.
    pub memories: Vec<f64>,
    points: Vec<Point>,
}

/// What folding and evicting by the key makes of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saving {
    /// How the server evicts now.
    pub policy: ServerPolicy,
    /// What it has to keep keys in.
    pub memory_bytes: f64,
    /// What it finds now.
    pub hit_ratio: f64,
    /// What is found in as much memory.
    pub folded_hit_ratio: f64,
    /// How much finds as much; none where not even the least that was looked at finds so little.
    pub folded_bytes: Option<f64>,
}

impl Job {
    /// Simulates it: [`replay`].
    pub fn run(
        self,
        requests: &Requests,
        sizes: &Sizes,
        warm_up: f64,
        go_on: &mut dyn FnMut(usize) -> ControlFlow<()>,
    ) -> Option<Point> {
        let tally = replay(requests, sizes, self.cache, self.memory_bytes, warm_up, go_on)?;
        Some(Point { job: self, tally })
    }
}

impl Curves {
    /// Nothing is simulated yet. `today` is the memory of a cache that there is.
    pub fn new(requests: &Requests, sizes: &Sizes, today: Option<f64>) -> Self {
        let all_plain_bytes = sizes.all_plain_bytes(requests);
        let mut memories: Vec<f64> =
            PERCENTS.iter().map(|percent| (all_plain_bytes * percent / 100.0).round()).collect();
        memories.extend(today);
        memories.sort_by(f64::total_cmp);
        memories.dedup();
        Self { all_plain_bytes, all_folded_bytes: sizes.all_folded_bytes(requests), memories, points: Vec::new() }
    }

    /// All that is to be simulated, the middle of the curves first, so that who breaks off has the most of it.
    pub fn jobs(&self) -> Vec<Job> {
        let mut memories = self.memories.clone();
        let middle = memories.len() as f64 / 2.0;
        let mut order: Vec<usize> = (0..memories.len()).collect();
        order.sort_by(|one, other| (*one as f64 - middle).abs().total_cmp(&(*other as f64 - middle).abs()));
        memories = order.into_iter().map(|at| memories[at]).collect();
        let of = |memory_bytes: f64| Cache::ALL.map(|cache| Job { cache, memory_bytes });
        memories.into_iter().flat_map(of).collect()
    }

    /// One cache was simulated.
    pub fn add(&mut self, point: Point) {
        let before = |other: &Point| other.job.memory_bytes <= point.job.memory_bytes;
        self.points.insert(self.points.partition_point(before), point);
    }

    /// Leaves out memories of which nothing was simulated.
    pub fn keep_known(&mut self) {
        let points = &self.points;
        self.memories.retain(|memory| points.iter().any(|point| point.job.memory_bytes == *memory));
    }

    /// What one kind of cache found, by memory.
    pub fn of(&self, cache: Cache) -> impl Iterator<Item = (f64, f64)> + '_ {
        let own = self.points.iter().filter(move |point| point.job.cache == cache);
        own.map(|point| (point.job.memory_bytes, point.tally.hit_ratio()))
    }

    /// What a cache of so much memory finds; between two that were looked at what lies between them, by the logarithm of
    /// memory. None below the least of them and above the most.
    pub fn hit_ratio(&self, cache: Cache, memory_bytes: f64) -> Option<f64> {
        let points: Vec<_> = self.of(cache).collect();
        if let Some((_, found)) = points.iter().find(|(bytes, _)| *bytes == memory_bytes) {
            return Some(*found);
        }
        let pair = points.windows(2).find(|pair| (pair[0].0..pair[1].0).contains(&memory_bytes))?;
        let share = (memory_bytes / pair[0].0).ln() / (pair[1].0 / pair[0].0).ln();
        Some(pair[0].1 + (pair[1].1 - pair[0].1) * share)
    }

    /// How much memory such a cache takes to find so much. None where it finds more with the least that was looked at, or
    /// less with the most.
    pub fn memory_for(&self, cache: Cache, hit_ratio: f64) -> Option<f64> {
        let points: Vec<_> = self.of(cache).collect();
        let reaches = points.iter().position(|(_, found)| *found >= hit_ratio).filter(|at| *at > 0)?;
        let (below, above) = (points[reaches - 1], points[reaches]);
        let share = (hit_ratio - below.1) / (above.1 - below.1);
        Some(below.0 * (above.0 / below.0).powf(share))
    }

    /// What folding makes of a cache that there is.
    pub fn saving(&self, policy: ServerPolicy, memory_bytes: f64) -> Option<Saving> {
        let hit_ratio = self.hit_ratio(Cache::Plain(policy), memory_bytes)?;
        let folded_hit_ratio = self.hit_ratio(Cache::Records, memory_bytes)?;
        let folded_bytes = self.memory_for(Cache::Records, hit_ratio);
        Some(Saving { policy, memory_bytes, hit_ratio, folded_hit_ratio, folded_bytes })
    }
}
