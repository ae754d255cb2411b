//! Caches that keyfold keeps, and plain ones beside them: of which objects, in how much memory, and kept by what.
//!
//! There are more objects than elsewhere in the study, as what keyfold's own connections take in the server is to be little
//! beside them.

use super::job::{Job, Keepers};
use super::{LARGE, LFU, LRU, Lot, Material, SKEW, SMALL, Scope, Stream, Subject};
use crate::objects::{self, Form, Objects};
use crate::options::Options;

/// How much is measured of them.
pub(super) struct KeptScope {
    objects: u64,
    requests: u64,
    percents: &'static [u64],
    /// The first with all of `percents`, the others with the first of these.
    skews: &'static [f64],
    /// The first cache of all is kept by these too.
    keepers: &'static [Keepers],
}

pub(super) const QUICK: KeptScope = KeptScope {
    objects: 40_000,
    requests: 400_000,
    percents: &[20],
    skews: &[SKEW],
    keepers: &[Keepers::Two, Keepers::Forgetful],
};
pub(super) const WHOLE: KeptScope = KeptScope {
    objects: 200_000,
    requests: 2_000_000,
    percents: &[5, 10, 20, 40],
    skews: &[SKEW, 0.7, 1.1],
    keepers: &[Keepers::Two, Keepers::Four, Keepers::Mindful, Keepers::Forgetful],
};

/// What is asked for: a file's records, or made-up objects; nothing where a file has the requests, whose objects are kept then.
pub(super) fn material(options: &Options, scope: &KeptScope) -> anyhow::Result<Material> {
    let sizes = match (&options.records, &options.trace) {
        (_, Some(_)) => return Ok(Material::default()),
        (Some(file), None) => vec![Objects::of_records(file)?],
        (None, None) => {
            let objects = u32::try_from(options.sized(scope.objects, scope.objects, scope.objects * 4))?;
            let small = Objects::made_up(objects, SMALL, options.seed);
            vec![small.with_values(SMALL), small.with_values(LARGE)]
        }
    };
    let count = u32::try_from(sizes.iter().map(Objects::count).max().unwrap_or(0))?;
    let requests = u64::from(count) * scope.requests / scope.objects;
    let stream =
        |skew: &f64| Stream { skew: Some(*skew), requests: objects::requests(count, requests, *skew, options.seed) };
    Ok(Material { sizes, streams: scope.skews.iter().map(stream).collect() })
}

/// The caches that keyfold keeps, and those of plain keys beside them where they aren't measured anyhow: where nothing is
/// `own`, the objects are `main`'s.
pub(super) fn jobs<'a>(scope: &Scope, own: &'a Subject, main: &'a Subject) -> Vec<Job<'a>> {
    let has_own = !own.streams.is_empty();
    let (subject, percents) = if has_own { (own, scope.kept.percents) } else { (main, scope.percents) };
    let mut jobs = Vec::new();
    for (number, stream) in subject.streams.iter().enumerate() {
        for percent in if number > 0 { &percents[..1] } else { percents } {
            for objects in &subject.sizes {
                let mut add = |policy, full_speed, form| {
                    let lot = Lot { objects, stream, policy, percent: *percent, full_speed };
                    jobs.extend(subject.caches(scope, &lot, &[form]));
                };
                if has_own {
                    add(LRU, false, Form::Plain);
                    add(LFU, true, Form::Plain);
                }
                add(super::BY_KEY, true, Form::ByKey);
            }
        }
    }
    if let Some(first) = jobs.iter().find(|job| job.given.form == Form::ByKey).copied() {
        jobs.extend(scope.kept.keepers.iter().map(|keepers| first.kept_by(*keepers)));
    }
    jobs
}
