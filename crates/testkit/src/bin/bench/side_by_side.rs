//! Keyfolds before one server, which are asked the same at the same moment: what else the machine does meanwhile, which changes
//! a process's time a request by a fifth from one run to the next, hits all of them.
//!
//! What counts is keyfold's processor time a request, and of its ratios in each round the median. What that grows by is the
//! most that requests a second can lose: they wait for other things as well.

use std::thread;

use anyhow::Context;
use keyfold_lab::Cell;

use crate::options::Options;
use crate::redis_benchmark::{self, Load, Run, SET_AND_GET, Target, median};
use crate::report::{cell, each_round};

/// What the rounds of one command gave.
pub(crate) struct Contest {
    command: &'static str,
    pipeline: usize,
    /// Of each keyfold; the first is what the others are held against.
    sides: Vec<Vec<Run>>,
}

/// Has all of them asked, without pipelining and with 16 requests at a time. `round` does what goes on beside each round.
pub(crate) fn contests(
    targets: &[Target],
    options: &Options,
    round: impl Fn(&dyn Fn() -> anyhow::Result<Vec<Run>>) -> anyhow::Result<Vec<Run>>,
) -> anyhow::Result<Vec<Contest>> {
    let mut contests = Vec::new();
    for load in Load::both(options) {
        for command in SET_AND_GET.into_iter().filter(|command| options.wants_command(command[0])) {
            let mut sides = vec![Vec::new(); targets.len()];
            for _ in 0..options.rounds {
                let runs = round(&|| all_at_once(targets, command, load))?;
                sides.iter_mut().zip(runs).for_each(|(side, run)| side.push(run));
            }
            contests.push(Contest { command: command[0], pipeline: load.pipeline, sides });
        }
    }
    Ok(contests)
}

impl Contest {
    /// The command, how it was sent, thousand requests a second of each, and its processor time.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let median = |of: fn(&Run) -> f64, decimals| {
            self.sides.iter().map(move |side| cell(side.iter().map(of).collect(), decimals))
        };
        let mut cells: Vec<Cell> = vec![self.command.into(), Cell::Whole(self.pipeline as u64)];
        cells.extend(median(|run| run.requests_per_second / 1000.0, 1));
        cells.extend(median(|run| run.cpu_us_per_request, 2));
        cells
    }

    /// In each round the processor time of this one over the first's.
    pub(crate) fn ratios(&self, side: usize) -> Vec<f64> {
        let pairs = self.sides[side].iter().zip(&self.sides[0]);
        pairs.map(|(this, first)| this.cpu_us_per_request / first.cpu_us_per_request).collect()
    }

    /// The ratios of this one and their median, which is to be `goal` at most; with what is missed, where `what` costs more.
    pub(crate) fn verdict(&self, side: usize, goal: f64, what: &str) -> anyhow::Result<([Cell; 2], Option<String>)> {
        let ratios = self.ratios(side);
        let ratio = median(ratios.clone()).context("there are rounds")?;
        let percent = (ratio - 1.0) * 100.0;
        let missed =
            (ratio > goal).then(|| format!("{}, {} at a time: {what} {percent:.1} %", self.command, self.pipeline));
        Ok(([each_round(&ratios), Cell::Number(ratio, 3)], missed))
    }
}

fn all_at_once(targets: &[Target], command: &[&str], load: Load) -> anyhow::Result<Vec<Run>> {
    thread::scope(|scope| {
        let start = |target: &Target| {
            let target = *target;
            scope.spawn(move || redis_benchmark::run(target, command, load))
        };
        let runs: Vec<_> = targets.iter().map(start).collect();
        runs.into_iter().map(|run| run.join().map_err(|_| anyhow::anyhow!("a run came to an end"))?).collect()
    })
}
