//! What caches find of the requests: each kind in each memory simulated, on all processors.

use std::num::NonZero;
use std::ops::ControlFlow;
use std::sync::Mutex;

use anyhow::{anyhow, bail};
use keyfold_lab::at_once::at_once;
use keyfold_report::number::{count, decimals, plural};
use keyfold_report::progress::Progress;
use keyfold_server::interrupt::Interrupt;
use keyfold_survey::caching::{Cache, Curves, Requests, Saving, ServerPolicy, Sizes, layout_for};

use super::subject::Subject;

/// The share of the requests that fill caches and don't count.
pub(crate) const WARM_UP: f64 = 0.5;
/// Fewer keys say little.
const FEW_KEYS: u64 = 1000;
/// Where nothing is known of the cache that there is: the share of all keys that it has room for.
const SUPPOSED_SHARE: f64 = 0.2;

/// What caches would find.
pub(crate) struct Forecast {
    /// Whose bytes they are.
    pub(super) server: String,
    pub(super) requests: u64,
    pub(super) reads: u64,
    pub(super) keys: f64,
    /// The share of keys that was simulated, and how many these are.
    pub(super) rate: f64,
    pub(super) sampled_keys: u64,
    pub(super) value_bytes: f64,
    /// What would fold the keys, and the share of them that it folds.
    pub(super) namespaces: Vec<String>,
    pub(super) folded_share: f64,
    pub(super) curves: Curves,
    pub(super) saving: Option<Saving>,
    /// Whether the cache that there is isn't known, and one for a share of the keys stands for it.
    pub(super) is_supposed: bool,
    pub(super) notes: Vec<String>,
}

/// Simulates all of them, or as many as there are until Ctrl-C.
pub(super) fn forecast(
    requests: &Requests,
    subject: &Subject,
    mut notes: Vec<String>,
    interrupt: &Interrupt,
) -> anyhow::Result<Forecast> {
    if requests.reads() == 0 {
        bail!("there are no reads among {}, and nothing to be found", plural(requests.seen(), "request"));
    }
    if requests.sampled_keys() < FEW_KEYS {
        notes.push(format!("{} are few: caches of so few say little", plural(requests.sampled_keys(), "key")));
    }
    let layout = layout_for(requests, &subject.aims())
        .map_err(|error| anyhow!("the layout that was planned is refused: {error}"))?;
    let namespaces = layout.namespaces().iter().map(|namespace| format!("{}: {}", namespace.keys, namespace.line()));
    let sizes = Sizes::new(requests, &subject.facts.model, &layout);
    let is_supposed = subject.memory_bytes.is_none();
    let memory_bytes =
        subject.memory_bytes.unwrap_or_else(|| (sizes.all_plain_bytes(requests) * SUPPOSED_SHARE).round());
    let mut curves = simulate(requests, &sizes, Curves::new(requests, &sizes, Some(memory_bytes)), interrupt)?;
    let policy = subject.policy.unwrap_or(ServerPolicy::Recency);
    let saving = curves.saving(policy, memory_bytes);
    if interrupt.wanted() {
        notes.push("stopped: not all caches were simulated".to_owned());
    }
    if requests.rate() < 1.0 {
        notes.push(format!(
            "simulated with one key in {}, {} of them; of those all requests",
            decimals(1.0 / requests.rate(), 0),
            count(requests.sampled_keys())
        ));
    }
    curves.keep_known();
    Ok(Forecast {
        server: subject.name.clone(),
        requests: requests.seen(),
        reads: requests.reads(),
        keys: requests.keys(),
        rate: requests.rate(),
        sampled_keys: requests.sampled_keys(),
        value_bytes: requests.mean_value_bytes().unwrap_or(0.0),
        namespaces: namespaces.collect(),
        folded_share: sizes.folded_share(),
        curves,
        saving,
        is_supposed,
        notes,
    })
}

/// Each processor takes the next cache; those of which it was stopped are left out.
fn simulate(requests: &Requests, sizes: &Sizes, mut curves: Curves, interrupt: &Interrupt) -> anyhow::Result<Curves> {
    let jobs = curves.jobs();
    let steps = usize::try_from(requests.sampled()).unwrap_or(usize::MAX).saturating_mul(jobs.len());
    let progress = Mutex::new(Progress::new("requests simulated", steps));
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let points = at_once(&jobs, threads, |job| {
        let mut go_on = |steps| {
            if let Ok(mut progress) = progress.lock() {
                progress.advance(steps);
            }
            if interrupt.wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        Ok(job.run(requests, sizes, WARM_UP, &mut go_on))
    })?;
    points.into_iter().flatten().for_each(|point| curves.add(point));
    Ok(curves)
}

impl Forecast {
    /// What a cache of some memory finds, if that was simulated.
    pub(super) fn found(&self, cache: Cache, memory_bytes: f64) -> Option<f64> {
        self.curves.of(cache).find(|(bytes, _)| *bytes == memory_bytes).map(|(_, found)| found)
    }
}
