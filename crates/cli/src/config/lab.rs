//! `keyfold lab`: flags to a server, sizes and a place for results.

use keyfold_lab::{GroundConfig, GroundPlace, Options, Run, Scale};

use super::target;
use crate::flags::lab::{GroundFlags, LabCommand, LabScale, LabServer};

/// Before the names of the lab's keys on a server with others, unless one is given.
const PREFIX: &str = "keyfold-lab:";

/// What the lab is to do.
pub(crate) enum Lab {
    List,
    Run(Box<Run>),
}

pub(crate) fn resolve(command: LabCommand) -> Lab {
    match command {
        LabCommand::List(_) => Lab::List,
        LabCommand::Run(flags) => Lab::Run(Box::new(resolve_run(Some(flags.name), flags.ground))),
        LabCommand::All(flags) => Lab::Run(Box::new(resolve_run(None, flags))),
    }
}

fn resolve_run(study: Option<String>, flags: GroundFlags) -> Run {
    let scale = match flags.scale {
        _ if flags.quick => Scale::Quick,
        LabScale::Times(times) => Scale::Times(times),
        LabScale::Full => Scale::Full,
    };
    let place = match flags.server {
        LabServer::Embedded => GroundPlace::Embedded(flags.program),
        LabServer::At(address) => GroundPlace::At(target::at(address, flags.way)),
    };
    let prefix = flags.namespace_prefix.or_else(|| flags.i_know.then(|| PREFIX.to_owned())).map(String::into_bytes);
    Run {
        study,
        ground: GroundConfig { place, prefix, i_know: flags.i_know },
        options: Options {
            scale,
            seed: flags.seed,
            price_usd: flags.price,
            trace: flags.trace,
            records: flags.records,
        },
        out: flags.out,
    }
}
