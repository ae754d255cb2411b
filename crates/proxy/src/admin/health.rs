//! Whether keyfold lives, and whether clients are to be sent to it.

use std::time::Duration;

use keyfold_core::slot::Slot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sources::Sources;
use crate::shutdown::Phase;

/// A worker that has not run for so long hangs: it looks after itself five times a second.
const HANGS_AFTER: Duration = Duration::from_secs(10);

keyfold_core::named! {
    /// Why clients are not to be sent to a keyfold.
    pub(super) enum Reason {
        /// It is asked to end.
        Stopping = "stopping",
        /// The server is away, or does not say what it has to.
        ServerAway = "server_away",
        /// The layout is being changed, is not there, or can't be served.
        Layout = "layout",
        /// Nobody is known to have some slots of the cluster.
        MapUnserved = "map_unserved",
        /// A worker hangs.
        WorkerHangs = "worker_hangs",
    }
}

/// What is answered to `/livez` and `/readyz`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// All is well.
    pub ok: bool,
    /// What is not.
    pub reasons: Vec<Trouble>,
}

/// One thing that is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trouble {
    /// Which: `stopping`, `server_away`, `layout`, `map_unserved`, `worker_hangs`.
    pub reason: String,
    /// More about it, for whoever may know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

impl Reason {
    /// What to do about it.
    pub(super) fn advice(self) -> &'static str {
        match self {
            Self::Stopping => "Clients are to go to another keyfold; start this one again once it has ended.",
            Self::ServerAway => {
                "Look whether the server runs, and whether it can be reached from keyfold's machine by its --upstream."
            }
            Self::Layout => {
                "During a change it is over within milliseconds. Where it stays, see what the reason names, and \
                 docs/operating.md, \"When keyfold's own keys are lost\"."
            }
            Self::MapUnserved => {
                "Their node is away and no replica has taken its place: start it, or see `redis-cli --cluster fix`."
            }
            Self::WorkerHangs => "Start this keyfold again: /livez says so to whoever watches over it.",
        }
    }
}

impl Health {
    /// Well where there are no reasons why not.
    pub(super) fn of(reasons: &[(Reason, String)]) -> Self {
        let trouble = |(reason, detail): &(Reason, String)| Trouble {
            reason: reason.name().to_owned(),
            detail: Some(detail.clone()),
        };
        Self { ok: reasons.is_empty(), reasons: reasons.iter().map(trouble).collect() }
    }

    /// The same for whoever has shown nothing: which, and no more.
    pub(super) fn without_details(mut self) -> Self {
        self.reasons.iter_mut().for_each(|trouble| trouble.detail = None);
        self
    }
}

/// Whether it makes sense to let this keyfold go on: all its workers run.
pub(crate) fn liveness(sources: &Sources) -> Health {
    Health::of(hanging(sources).as_slice())
}

fn hanging(sources: &Sources) -> Option<(Reason, String)> {
    let silence = sources.longest_silence();
    let detail = || format!("a worker has not run for {} s", silence.as_secs());
    (silence > HANGS_AFTER).then(|| (Reason::WorkerHangs, detail()))
}

/// Whether clients are to be sent to it: their commands would be carried out.
pub(crate) fn readiness(sources: &Sources) -> Health {
    Health::of(&troubles(sources))
}

/// All that is not well.
pub(super) fn troubles(sources: &Sources) -> Vec<(Reason, String)> {
    let mut troubles = Vec::new();
    if *sources.phase.borrow() > Phase::Running {
        troubles.push((Reason::Stopping, "it was asked to end, and answers what it has accepted".to_owned()));
    }
    let away = sources.stats.iter().find_map(|stats| stats.away());
    troubles.extend(away.map(|why| (Reason::ServerAway, why.to_string())));
    if !sources.membership.is_serving() {
        let why = sources.membership.trouble();
        let detail =
            why.map_or("it is being looked whether the layout may be served".to_owned(), |why| why.to_string());
        troubles.push((Reason::Layout, detail));
    }
    let slots = Slot::all().count() as u64;
    let served = sources.cluster().map(|cluster| cluster.served_slots).filter(|served| *served < slots);
    let unserved = |served| format!("of {slots} slots {} are of no node that is known", slots - served);
    troubles.extend(served.map(|served| (Reason::MapUnserved, unserved(served))));
    troubles.extend(hanging(sources));
    troubles
}
