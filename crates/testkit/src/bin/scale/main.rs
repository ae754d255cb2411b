//! `make scale`: every tool on one server of many keys, under load through a keyfold.
//!
//! Four namespaces of as many keys each: ints, uuids, JSON with a codec, and counters with a TTL. Each step is one run
//! of the program, with its time, its peak memory, what the server holds after it, and what clients felt meanwhile. A
//! step that ended is written to the directory of results at once, so that a run which is stopped keeps what it has.
//! The run fails where a client got a wrong answer, a tool failed, or one took more memory than it may.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`options`] | the command line |
//! | [`records`] | the keys, their values, and the layouts |
//! | [`clients`] | the load, and what it felt |
//! | [`beside`] | how long GETs take beside commands on ten thousand keys |
//! | [`tool`] | one run of the program, with its time and memory |
//! | [`steps`] | which runs there are, in their order |
//! | [`results`] | what is written, as it comes, and the table at the end |

mod beside;
mod clients;
mod options;
mod records;
mod results;
mod steps;
mod tool;

use clap::Parser;

use options::Options;
use results::Results;

fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let mut results = Results::begin(&options, &options.server.name())?;
    steps::run(&options, &options.server, &mut results)?;
    results.finish()
}
