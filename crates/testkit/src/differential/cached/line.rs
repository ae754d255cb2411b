//! A connection whose commands go out before the answers to those before them are read.

use std::collections::VecDeque;

use keyfold_core::resp::write_command;

use super::history::{Event, History};
use super::told::Told;
use super::words::Command;
use crate::reply::Value;
use crate::wire::{Wire, WireError};

/// What comes.
pub(super) enum Came<A> {
    /// Word of a change, between answers.
    Told(Told),
    /// The answer to the first command that has none yet, and what was remembered of it.
    Answer(A, Value),
}

/// A connection, and what its answers are for.
#[derive(Debug)]
pub(super) struct Line<A> {
    /// Its number in the history.
    pub(super) who: usize,
    /// Commands that it has sent.
    pub(super) sent: u64,
    wire: Wire,
    output: Vec<u8>,
    asked: VecDeque<(Command, A)>,
}

impl<A> Line<A> {
    pub(super) fn new(wire: Wire, name: String, history: &mut History) -> Self {
        Self { who: history.enter(name), sent: 0, wire, output: Vec::new(), asked: VecDeque::new() }
    }

    /// Has a command sent by the next [`Self::flush`], and remembers what its answer is for.
    pub(super) fn add(&mut self, command: Command, meant: A, history: &mut History) {
        history.note(self.who, Event::Sends(command.clone()));
        self.sent += 1;
        self.fence(command, meant);
    }

    /// The same with a command that isn't one of the run's.
    pub(super) fn fence(&mut self, command: Command, meant: A) {
        let words: Vec<&[u8]> = command.words().map(str::as_bytes).collect();
        write_command(&mut self.output, &words);
        self.asked.push_back((command, meant));
    }

    /// Sends what was added.
    pub(super) fn flush(&mut self) -> Result<(), WireError> {
        let output = std::mem::take(&mut self.output);
        if output.is_empty() { Ok(()) } else { self.wire.send_bytes(&output) }
    }

    /// The next answer, or word that comes before it; nothing where no answer is to come.
    pub(super) fn next(&mut self, history: &mut History) -> Result<Option<Came<A>>, WireError> {
        if self.asked.is_empty() {
            return Ok(None);
        }
        let value = Value::parse(&self.wire.reply()?)?;
        if matches!(value, Value::Push(_)) {
            let told = Told::of(&value);
            history.note(self.who, Event::Told(told.clone()));
            return Ok(Some(Came::Told(told)));
        }
        Ok(self.asked.pop_front().map(|(command, meant)| {
            history.note(self.who, Event::Answered(command, value.clone()));
            Came::Answer(meant, value)
        }))
    }
}
