//! `keyfold lab`: flags to a server, sizes and a place for results.

use std::path::PathBuf;

use keyfold_server::Target;

use super::target;
use crate::flags::lab::{GroundFlags, LabCommand, LabScale, LabServer};

/// Before the names of the lab's keys on a server with others, unless one is given.
const PREFIX: &str = "keyfold-lab:";

/// What the lab is to do.
pub(crate) enum Lab {
    List,
    Run(Box<LabRun>),
}

/// Studies on a server.
pub(crate) struct LabRun {
    /// This one; all where there is none.
    pub(crate) study: Option<String>,
    pub(crate) ground: GroundConfig,
    pub(crate) options: Options,
    pub(crate) out: PathBuf,
}

/// Which server, and what may be done there.
pub(crate) struct GroundConfig {
    pub(crate) place: GroundPlace,
    /// Before every key's name, on a server that isn't empty; none where such a one is refused.
    pub(crate) prefix: Option<Vec<u8>>,
    /// Whether the user has said so.
    pub(crate) i_know: bool,
}

pub(crate) enum GroundPlace {
    /// A server of keyfold's own; this program where one is named.
    Embedded(Option<PathBuf>),
    At(Target),
}

/// What a study may be told.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) scale: Scale,
    pub(crate) seed: u64,
    /// What a GiB costs a month.
    pub(crate) price_usd: f64,
    /// Requests for caches, instead of made-up ones.
    pub(crate) trace: Option<PathBuf>,
}

/// How large a study is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scale {
    Quick,
    Times(f64),
    /// As large as the original, whatever it takes.
    Full,
}

impl Options {
    /// A number of things by the scale: so many in a quick run, so many usually, so many in the original.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts of keys: positive, below 2^53")]
    pub(crate) fn sized(&self, quick: u64, usual: u64, original: u64) -> u64 {
        match self.scale {
            Scale::Quick => quick,
            Scale::Times(times) => ((usual as f64 * times).round() as u64).max(1),
            Scale::Full => original,
        }
    }

    /// Whether it is to be over soon.
    pub(crate) fn is_quick(&self) -> bool {
        self.scale == Scale::Quick
    }
}

pub(crate) fn resolve(command: LabCommand) -> Lab {
    match command {
        LabCommand::List => Lab::List,
        LabCommand::Run(flags) => Lab::Run(Box::new(resolve_run(Some(flags.name), flags.ground))),
        LabCommand::All(flags) => Lab::Run(Box::new(resolve_run(None, flags))),
    }
}

fn resolve_run(study: Option<String>, flags: GroundFlags) -> LabRun {
    let scale = match flags.scale {
        _ if flags.quick => Scale::Quick,
        LabScale::Times(times) => Scale::Times(times),
        LabScale::Full => Scale::Full,
    };
    let place = match flags.server {
        LabServer::Embedded => GroundPlace::Embedded(flags.program),
        LabServer::At(address) => GroundPlace::At(target::at(address, flags.tls)),
    };
    let prefix = flags.namespace_prefix.or_else(|| flags.i_know.then(|| PREFIX.to_owned())).map(String::into_bytes);
    LabRun {
        study,
        ground: GroundConfig { place, prefix, i_know: flags.i_know },
        options: Options { scale, seed: flags.seed, price_usd: flags.price, trace: flags.trace },
        out: flags.out,
    }
}
