//! What codecs save and cost.
//!
//! | module | what it measures or holds |
//! | --- | --- |
//! | [`memory`] | whole memory a record, for values that no dictionary has seen |
//! | [`time`] | µs to encode and to decode, by codec and level |
//! | [`throughput`] | GET and SET through the proxy, compressed against raw |
//! | [`sets`] | the sets of records, made up or from files, and how each is folded |

mod memory;
mod sets;
mod throughput;
mod time;

use keyfold_testkit::Binary;

use crate::options::Options;
use crate::report::Report;

/// Measures all three on a server. Returns the goals that were missed.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    let mut missed = memory::measure(binary, options, report)?;
    missed.extend(time::measure(options, report)?);
    missed.extend(throughput::measure(binary, options, report)?);
    Ok(missed)
}
