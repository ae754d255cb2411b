//! A client that keeps what it has read, until it is told to forget it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use keyfold_core::named;

use super::CacheFailure;
use super::history::{Event, History};
use super::line::{Came, Line};
use super::told::Told;
use super::words::{Command, PREFIXES, read, writes};
use crate::random::Random;
use crate::reply::Value;
use crate::wire::{Wire, WireError};

named! {
    /// How a client is told of changes.
    pub enum Telling {
        /// Of all that it has read.
        Plainly = "plainly",
        /// Of what it says beforehand that it keeps.
        OptIn = "optin",
        /// Of all but what it says beforehand that it doesn't keep.
        OptOut = "optout",
        /// Of all keys by prefixes.
        Broadcast = "bcast",
        /// On another connection of the same keyfold, by a message of RESP2.
        Redirected = "redirect",
        /// Not of what it writes itself.
        NoLoop = "noloop",
    }
}

/// What the answer to a command is for.
#[derive(Debug)]
enum Asked {
    /// The values of these keys, to be kept.
    Values(Vec<String>),
    /// The same as the last answer of a transaction.
    Transaction(Vec<String>),
    /// Whoever isn't told of its own writes must not keep what it had of these.
    Written(Vec<String>),
    /// Its caching is off, so it keeps nothing of before.
    Off,
    /// Nothing.
    Other,
}

/// The client.
#[derive(Debug)]
pub(super) struct Cache {
    /// How it is told.
    pub(super) telling: Telling,
    /// What it has. The first look at a key that isn't there is kept as nil.
    pub(super) values: BTreeMap<String, Value>,
    /// How many values it had at all looks together.
    pub(super) kept: u64,
    line: Line<Asked>,
    /// Has it told.
    on: Command,
    /// What is told of what it reads, where that isn't told on its own connection.
    messages: Option<Wire>,
}

impl Cache {
    /// A client of this keyfold, which has a number.
    pub(super) fn open(
        address: SocketAddr,
        keyfold: usize,
        telling: Telling,
        history: &mut History,
    ) -> Result<Self, CacheFailure> {
        let (mut wire, mut messages) = (Wire::connect(address)?, None);
        let options = match telling {
            Telling::Plainly => String::new(),
            Telling::OptIn => " OPTIN".to_owned(),
            Telling::OptOut => " OPTOUT".to_owned(),
            Telling::Broadcast => format!(" BCAST PREFIX {}", PREFIXES.join(" PREFIX ")),
            Telling::NoLoop => " NOLOOP".to_owned(),
            Telling::Redirected => {
                let mut listener = Wire::connect(address)?;
                let id = listener.ask(&[b"CLIENT", b"ID"])?.integer().unwrap_or_default();
                listener.ask(&[b"SUBSCRIBE", b"__redis__:invalidate"])?;
                messages = Some(listener);
                format!(" REDIRECT {id}")
            }
        };
        if messages.is_none() {
            wire.ask(&[b"HELLO", b"3"])?;
        }
        let on = Command::new(format!("CLIENT TRACKING ON{options}"));
        let answer = wire.ask(&on.words().map(str::as_bytes).collect::<Vec<_>>())?;
        if answer.is_error() {
            return Err(CacheFailure::Refused { telling, answer: format!("{answer:?}") });
        }
        let line = Line::new(wire, format!("cache {telling} of keyfold {keyfold}"), history);
        Ok(Self { telling, values: BTreeMap::new(), kept: 0, line, on, messages })
    }

    /// Its number in the history.
    pub(super) fn who(&self) -> usize {
        self.line.who
    }

    /// Commands that it has sent, but for [`Self::fence`].
    pub(super) fn sent(&self) -> u64 {
        self.line.sent
    }

    /// Sends something at random.
    pub(super) fn act(&mut self, random: &mut Random, history: &mut History) -> Result<(), WireError> {
        match random.below(200) {
            0 => {
                self.line.add(Command::new("CLIENT TRACKING OFF"), Asked::Off, history);
                self.line.add(self.on.clone(), Asked::Other, history);
            }
            1..20 => {
                for write in writes(random) {
                    let keys = write.keys();
                    self.line.add(write, Asked::Written(keys), history);
                }
            }
            // It takes no server, so its answer overtakes none.
            20..30 => self.line.add(Command::new("CLIENT GETREDIR"), Asked::Other, history),
            _ => self.read(random, history),
        }
        // What is sent at once is pipelined.
        if random.chance(50) { self.line.flush() } else { Ok(()) }
    }

    fn read(&mut self, random: &mut Random, history: &mut History) {
        let command = read(random);
        let keys = command.keys();
        let mut is_kept = true;
        if self.telling == Telling::OptIn {
            is_kept = random.chance(90);
            if is_kept {
                self.line.add(Command::new("CLIENT CACHING YES"), Asked::Other, history);
            }
        } else if self.telling == Telling::OptOut && random.chance(20) {
            is_kept = false;
            self.line.add(Command::new("CLIENT CACHING NO"), Asked::Other, history);
        }
        let (direct, in_transaction) = match is_kept {
            true => (Asked::Values(keys.clone()), Asked::Transaction(keys)),
            false => (Asked::Other, Asked::Other),
        };
        if !random.chance(25) {
            return self.line.add(command, direct, history);
        }
        let mut commands = Command::transaction(vec![command]);
        let exec = commands.pop();
        commands.into_iter().for_each(|command| self.line.add(command, Asked::Other, history));
        if let Some(exec) = exec {
            self.line.add(exec, in_transaction, history);
        }
    }

    /// Sends what hasn't been yet.
    pub(super) fn flush(&mut self) -> Result<(), WireError> {
        self.line.flush()
    }

    /// Sends a command whose answer comes behind what it is told until then.
    pub(super) fn fence(&mut self) -> Result<(), WireError> {
        self.line.fence(Command::new("CLIENT GETREDIR"), Asked::Other);
        self.line.flush()
    }

    /// Takes all answers that are to come, and what it is told meanwhile.
    pub(super) fn take(&mut self, history: &mut History) -> Result<(), WireError> {
        while let Some(came) = self.line.next(history)? {
            match came {
                Came::Told(told) => self.forget(&told),
                Came::Answer(asked, answer) => self.see(asked, &answer),
            }
        }
        let Some(mut messages) = self.messages.take() else { return Ok(()) };
        messages.send(&[b"PING"])?;
        loop {
            let message = Value::parse(&messages.reply()?)?;
            if message.elements().is_some_and(|parts| parts[0].bytes() == Some(b"pong")) {
                break;
            }
            let told = Told::of(&message);
            self.forget(&told);
            history.note(self.line.who, Event::Told(told));
        }
        self.messages = Some(messages);
        Ok(())
    }

    fn see(&mut self, asked: Asked, answer: &Value) {
        match asked {
            Asked::Values(keys) => self.keep(keys, answer),
            Asked::Transaction(keys) => {
                if let Some([last]) = answer.elements() {
                    self.keep(keys, last);
                }
            }
            Asked::Written(keys) if self.telling == Telling::NoLoop => {
                keys.iter().for_each(|key| drop(self.values.remove(key)));
            }
            Asked::Off => self.values.clear(),
            Asked::Written(_) | Asked::Other => {}
        }
    }

    fn keep(&mut self, keys: Vec<String>, answer: &Value) {
        let values = answer.elements().unwrap_or(std::slice::from_ref(answer));
        for (key, value) in keys.into_iter().zip(values) {
            if value.is_error() {
                self.values.remove(&key);
            } else {
                self.values.insert(key, value.clone());
            }
        }
    }

    fn forget(&mut self, told: &Told) {
        match told {
            Told::Everything => self.values.clear(),
            Told::Keys(keys) => keys.iter().for_each(|key| drop(self.values.remove(key))),
        }
    }
}
