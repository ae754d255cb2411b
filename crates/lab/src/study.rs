//! What a study is. One is added by a file in `studies` and a line in [`all`](super::studies::all).

use super::bench::Bench;
use super::outcome::Outcome;
use crate::options::Options;

/// A published write-up, done again.
pub(crate) trait Study {
    fn about(&self) -> About;

    /// Does it. The server is empty of the lab's keys at the start, and settings that it changes are put back after.
    ///
    /// # Errors
    /// The server failed, or the user wants the lab to end. A part that this server doesn't allow is no error: it is
    /// named in [`Outcome::left_out`], and the rest is done.
    fn run(&self, bench: &mut Bench<'_>, options: &Options) -> anyhow::Result<Outcome>;
}

/// What is known of a study before it runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// As `keyfold lab run` takes it.
    pub(crate) name: &'static str,
    /// Who wrote it up, and when.
    pub(crate) by: &'static str,
    pub(crate) year: u16,
    /// What it is about, in a line.
    pub(crate) asks: &'static str,
    /// The figure that the write-up is known for.
    pub(crate) figure: &'static str,
}
