//! What came of a command that the server may decline.

use crate::exchange::{Env, Step, UnderWay, Work};
use crate::layout::{Located, Place};
use crate::resp::Protocol;
use crate::string::Run;

/// What came of an attempt.
pub(crate) enum Outcome {
    /// It ends so.
    Ended(Step),
    /// The server did nothing. The command goes on like this instead, with so many replies to come.
    Refused(UnderWay, u32),
}

impl Outcome {
    /// The command, on the one key in this place, is worked out instead.
    pub(crate) fn work_out(
        run: Run,
        args: &[Vec<u8>],
        place: &Place,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> Self {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let key = (args[1], Located::Placed(place.clone()));
        let (work, replies) = Work::start(run, &args, std::iter::once(key), protocol, env, wire);
        Self::Refused(UnderWay::Work(Box::new(work)), replies)
    }
}
