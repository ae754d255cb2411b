//! How long commands take: by the server's own clock, and by the client's.
//!
//! The server's is by INFO commandstats, which what else the machine does troubles little; the client's has its own work and the
//! way in it, and a keyfold's where one stands between.

use std::time::Instant;

use keyfold_server::Server;

use crate::bench::Bench;
use crate::folding::{Words, batch};

/// What keyfold and the lab read by, and scripts, whose time has in it that of the commands which they call.
const SCRIPTS: [&str; 4] = ["evalsha", "evalsha_ro", "eval", "eval_ro"];
const COMMANDS: [&str; 5] = ["sismember", "hexists", "hget", "hmget", "get"];

const ROUNDS: usize = 5;

/// Of one command, in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Took {
    pub(crate) server_us: f64,
    pub(crate) clock_us: f64,
}

/// Sends reads to `client`, the server or a keyfold before it, so many at a time. What else the machine does makes some of them take
/// longer, so they go in several rounds, of which the fastest counts. The first reads go once more before.
pub(crate) fn time(bench: &Bench<'_>, client: &mut Server, reads: &[Words], at_a_time: usize) -> anyhow::Result<Took> {
    let mut fastest = Took { server_us: f64::INFINITY, clock_us: f64::INFINITY };
    if let Some(first) = reads.chunks(at_a_time).next() {
        client.query_all::<()>(&batch(first))?;
    }
    for round in reads.chunks(reads.len().div_ceil(ROUNDS).max(at_a_time)) {
        let batches: Vec<_> = round.chunks(at_a_time).map(batch).collect();
        let before = Spent::of(bench)?;
        let started = Instant::now();
        for batch in &batches {
            client.query_all::<()>(batch)?;
        }
        let clock_us = started.elapsed().as_secs_f64() * 1e6;
        let server_us = Spent::of(bench)?.since(&before);
        let each = round.len() as f64;
        fastest.server_us = fastest.server_us.min(server_us / each);
        fastest.clock_us = fastest.clock_us.min(clock_us / each);
    }
    Ok(fastest)
}

/// Microseconds that the server has spent on scripts and on commands, those which scripts called among them.
struct Spent {
    scripts_us: f64,
    commands_us: f64,
}

impl Spent {
    fn of(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let info = bench.connect()?.info("commandstats")?;
        let sum = |names: &[&str]| names.iter().filter_map(|name| info.spent_us(name)).sum();
        Ok(Self { scripts_us: sum(&SCRIPTS), commands_us: sum(&COMMANDS) })
    }

    fn since(&self, before: &Self) -> f64 {
        let scripts_us = self.scripts_us - before.scripts_us;
        if scripts_us > 0.0 { scripts_us } else { self.commands_us - before.commands_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_calls_is_not_counted_twice() {
        let before = Spent { scripts_us: 100.0, commands_us: 10.0 };
        let plain = Spent { scripts_us: 100.0, commands_us: 17.0 };
        let by_script = Spent { scripts_us: 150.0, commands_us: 30.0 };
        assert!((plain.since(&before) - 7.0).abs() < 1e-9);
        assert!((by_script.since(&before) - 50.0).abs() < 1e-9);
    }
}
