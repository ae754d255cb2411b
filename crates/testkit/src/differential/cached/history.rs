//! What clients said and were told, as far back as may help whoever looks for why a cache is wrong.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::told::Told;
use super::words::Command;
use crate::reply::Value;

/// Lines that are kept.
const KEPT: usize = 20_000;
/// Lines about one key that are shown.
const SHOWN: usize = 40;
/// Of what is shown, at most so many characters a line.
const WIDTH: usize = 200;

/// What one line tells.
#[derive(Debug)]
pub(super) enum Event {
    /// It sends.
    Sends(Command),
    /// It is answered.
    Answered(Command, Value),
    /// It is told to forget.
    Told(Told),
}

#[derive(Debug)]
struct Line {
    at: Duration,
    who: usize,
    event: Event,
}

/// The last lines.
#[derive(Debug)]
pub(super) struct History {
    since: Instant,
    names: Vec<String>,
    lines: VecDeque<Line>,
}

impl History {
    pub(super) fn new() -> Self {
        Self { since: Instant::now(), names: Vec::new(), lines: VecDeque::new() }
    }

    /// The number of one more who has a name.
    pub(super) fn enter(&mut self, name: String) -> usize {
        self.names.push(name);
        self.names.len() - 1
    }

    pub(super) fn note(&mut self, who: usize, event: Event) {
        if self.lines.len() == KEPT {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { at: self.since.elapsed(), who, event });
    }

    /// The last lines that concern a key: what anybody says of it, and what this one is told of it.
    pub(super) fn of(&self, key: &str, who: usize) -> Vec<String> {
        let concerns = |line: &&Line| match &line.event {
            Event::Sends(command) | Event::Answered(command, _) => command.concerns(key),
            Event::Told(told) => line.who == who && told.names(key),
        };
        let mut lines: Vec<String> =
            self.lines.iter().rev().filter(concerns).take(SHOWN).map(|line| self.shown(line)).collect();
        lines.reverse();
        lines
    }

    fn shown(&self, Line { at, who, event }: &Line) -> String {
        let what = match event {
            Event::Sends(command) => format!("sends {command}"),
            Event::Answered(command, answer) => format!("is answered {answer:?}, to {command}"),
            Event::Told(Told::Everything) => "is told to forget everything".to_owned(),
            Event::Told(Told::Keys(keys)) => format!("is told to forget {}", keys.join(" ")),
        };
        let line = format!("{:.6} {}: {what}", at.as_secs_f64(), self.names[*who]);
        if line.chars().count() > WIDTH { line.chars().take(WIDTH).chain(['…']).collect() } else { line }
    }
}
