//! SLOWLOG and LATENCY HISTOGRAM: requests as clients of this keyfold sent them, and how long those took. The server's own
//! logs speak of what keyfold asks of it.

use crate::command::{Command, Flags, Id, table};
use crate::exchange::Env;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::session::Session;
use crate::slowlog::SlowLog;
use crate::stats::{CommandCounts, Durations};

/// Entries that are shown where no number is given.
const ENTRIES: usize = 10;

/// What stands for the times beyond the last bound of a histogram: the power of two behind it, in microseconds.
const BEYOND_US: u64 = 1 << 24;

impl Session {
    /// SLOWLOG GET, LEN and RESET; LATENCY HISTOGRAM.
    ///
    /// # Errors
    /// The server's, or that nothing is counted.
    pub(crate) fn slow_requests(
        &self,
        args: &[&[u8]],
        command: &'static Command,
        env: &Env<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<(), String> {
        let slow = self.slow();
        match command.id {
            Id::SlowlogLen => answer.integer(i64::try_from(slow.len()).unwrap_or(i64::MAX)),
            Id::SlowlogReset => {
                slow.clear();
                answer.ok();
            }
            Id::LatencyHistogram => show_histograms(&args[2..], env, answer)?,
            _ => show_entries(slow, args, answer)?,
        }
        Ok(())
    }
}

/// SLOWLOG GET [count] (`slowlogCommand`, slowlog.c of Redis 7.0).
fn show_entries(slow: &SlowLog, args: &[&[u8]], answer: &mut Answer<'_>) -> Result<(), String> {
    let count = match &args[2..] {
        [] => ENTRIES,
        [count] => {
            let count = parse_integer(count).filter(|count| *count >= -1);
            let count = count.ok_or("ERR count should be greater than or equal to -1")?;
            usize::try_from(count).unwrap_or(usize::MAX)
        }
        _ => {
            let shown = args[1].escape_ascii();
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for '{shown}'. Try SLOWLOG HELP."
            ));
        }
    };
    slow.write(count, answer);
    Ok(())
}

/// LATENCY HISTOGRAM [command …] (`latencyAllCommandsFillCDF` and `latencySpecificCommandsFillCDF`, latency.c of Redis 7.0):
/// of all commands that came, or of these and their subcommands.
fn show_histograms(names: &[&[u8]], env: &Env<'_>, answer: &mut Answer<'_>) -> Result<(), String> {
    let counts = env.stats.command_counts().ok_or(
        "ERR keyfold: LATENCY HISTOGRAM shows what is counted for operators; start keyfold with --admin, or ask the server \
         directly for its own",
    )?;
    // What waits for other clients says nothing of how fast anything is.
    let waits =
        |name: &str| table().iter().any(|command| command.name == name && command.flags.contains(Flags::BLOCKING));
    let timed: Vec<_> = counts.iter().filter(|counts| counts.durations.count() > 0 && !waits(counts.name)).collect();
    let is_of = |counts: &CommandCounts, name: &[u8]| {
        let container = counts.name.split_once('|').map(|(container, _)| container);
        name.eq_ignore_ascii_case(counts.name.as_bytes())
            || container.is_some_and(|container| name.eq_ignore_ascii_case(container.as_bytes()))
    };
    let shown: Vec<_> = match names {
        [] => timed,
        _ => names.iter().flat_map(|name| timed.iter().filter(|counts| is_of(counts, name)).copied()).collect(),
    };
    answer.map(shown.len());
    for counts in shown {
        answer.bulk(counts.name.as_bytes());
        show_histogram(&counts.durations, answer);
    }
    Ok(())
}

/// How many took no longer than each bound (`fillCommandCDF`); bounds that add nothing are left out.
fn show_histogram(durations: &Durations, answer: &mut Answer<'_>) {
    let integer = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    answer.map(2);
    answer.bulk(b"calls");
    answer.integer(integer(durations.count()));
    answer.bulk(b"histogram_usec");
    let filled: Vec<_> = durations.buckets().filter(|(_, count)| *count > 0).collect();
    answer.map(filled.len());
    let mut sum = 0;
    for (bound, count) in filled {
        sum += count;
        answer.integer(integer(bound.unwrap_or(BEYOND_US)));
        answer.integer(integer(sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::Protocol;

    #[test]
    fn a_histogram_counts_up_and_ends_beyond_its_bounds() {
        let durations = Durations::of_buckets([(Some(32), 2), (Some(128), 3), (None, 1)], 0);
        let mut bytes = Vec::new();
        show_histogram(&durations, &mut Answer::new(&mut bytes, Protocol::Resp2));
        let expected =
            "*4\r\n$5\r\ncalls\r\n:6\r\n$14\r\nhistogram_usec\r\n*6\r\n:32\r\n:2\r\n:128\r\n:5\r\n:16777216\r\n:6\r\n";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
