//! Requests made to a cache, and what other caches would find of them.
//!
//! ```text
//! file, standard input ──▶ read ──┐
//! server, keyfold: MONITOR ▶ watch ┴─▶ requests ──▶ forecast: each cache simulated, on all processors ──▶ show
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `read.rs` | a file of requests |
//! | `watch.rs` | requests as they come, in windows |
//! | `subject.rs` | the cache that there is: its server, memory and policy |
//! | `forecast.rs` | what caches find of the requests |
//! | `show.rs` | the same as text, JSON and plots |

mod forecast;
mod read;
mod show;
mod subject;
mod watch;

use keyfold_server::interrupt::Interrupt;

use crate::config::trace::{Trace, TraceSource};
pub(crate) use forecast::Forecast;
pub(crate) use show::{json, notes, plots, text};
use subject::Subject;

/// Reads or watches, and says what caches would find. A first Ctrl-C ends the reading, or the simulation if that has begun;
/// what is there by then is told.
pub(crate) fn forecast(trace: &Trace, interrupt: &Interrupt) -> anyhow::Result<Forecast> {
    let mut notes = Vec::new();
    let mut subject = Subject::of(trace, &mut notes)?;
    let mut requests = match &trace.source {
        TraceSource::File(place) => read::read(place, interrupt, &mut notes)?,
        TraceSource::Watched(time) => watch::watch(&mut subject, *time, trace.max_ops, interrupt, &mut notes)?,
    };
    subject.fill_values(&mut requests, trace.value_bytes, &mut notes);
    // Who ended the reading wants to see what came of it.
    let ended = interrupt.wanted();
    let never = Interrupt::never();
    forecast::forecast(&requests, &subject, notes, if ended { &never } else { interrupt })
}
