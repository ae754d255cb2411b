//! Commands that a client has queued, and working them out one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::command::{Command, Flags};
use crate::dialect::Dialect;
use crate::exchange::Env;
use crate::exchange::batch::Commands;
use crate::exchange::foreign::{Moment, OnOtherType, Verdict};
use crate::exchange::load::Load;
use crate::resp::{Answer, Protocol};
use crate::string::{Call, Halt, HelpRequest, Run, Space, finish};
use crate::user_script::UserScript;

/// A command in the queue.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    /// The command and its arguments.
    pub(crate) args: Vec<Vec<u8>>,
    /// What the table knows of it.
    pub(crate) command: Option<&'static Command>,
    /// Where its keys are among its arguments.
    pub(crate) keys: Vec<usize>,
    /// Whether it is worked out: one of its keys is folded, or shared with a command that has a folded one.
    pub(crate) folded: bool,
    /// Whether one of its keys is folded itself.
    pub(crate) names_folded: bool,
    /// Whether one of its keys holds a set or hash.
    pub(crate) on_collections: bool,
    /// Set for a command of another type on folded keys.
    pub(crate) foreign: Option<OnOtherType>,
    /// Whether the server may compute for long over it.
    pub(crate) is_slow: bool,
    /// Whether the server carries it out by a script.
    pub(crate) script: Scripted,
}

/// Whether the server carries a queued command out by a script.
#[derive(Clone, Debug, Default)]
pub(crate) enum Scripted {
    /// It does not.
    #[default]
    No,
    /// It is a call of this user's script, on folded keys.
    Call(Arc<UserScript>),
    /// It is a call of a function that the server has, which is to be found.
    Function,
    /// It is a call of a script or a function that can't be carried out: this is the error that answers it.
    Failed(String),
    /// It is a command on keys that a user's script uses too.
    Command,
}

impl Scripted {
    /// Whether a script is sent for it.
    pub(super) fn is_sent(&self) -> bool {
        matches!(self, Self::Call(_) | Self::Function | Self::Command)
    }
}

impl Queued {
    /// A command that the server answers.
    pub(crate) fn passed(args: &[&[u8]], command: Option<&'static Command>, keys: Vec<usize>) -> Self {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        Self {
            args,
            command,
            keys,
            folded: false,
            names_folded: false,
            on_collections: false,
            foreign: None,
            is_slow: false,
            script: Scripted::No,
        }
    }

    /// What it is worked out by, where that is needed or possible.
    fn run(&self) -> Option<Run> {
        let command = self.command?;
        command.run.or(command.members.filter(|_| self.on_collections))
    }

    /// Lets a command on sets or hashes that the server was to be asked for be worked out, with all of its keys; false for others.
    fn work_out_on_collections(&mut self) -> bool {
        let Some(command) = self.command.filter(|command| command.members.is_some()) else { return false };
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        self.keys = command.keys_in(&args).iter().map(|key| key.index).collect();
        (self.foreign, self.on_collections, self.folded) = (None, true, true);
        true
    }

    /// Whether it needs nothing of the server but strings and their expiry.
    pub(super) fn may_be_worked_out(&self) -> bool {
        self.run().is_some() && self.foreign.is_none() && matches!(self.script, Scripted::No)
    }

    /// Whether the server may be asked for it before EXEC with names of nothing: it makes no key, waits for none, and takes nothing away
    /// from others.
    fn may_be_shown_nothing(&self, foreign: &OnOtherType) -> bool {
        let args: Vec<&[u8]> = self.args.iter().map(Vec::as_slice).collect();
        self.command.is_some_and(|command| {
            let is_of_folded = command.keys_in(&args).len() == foreign.folded.len();
            is_of_folded && foreign.refusal.is_none() && !command.flags.contains(Flags::BLOCKING)
        })
    }

    /// The keys that concern it.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().filter_map(|index| self.args.get(*index)).map(Vec::as_slice)
    }
}

/// What is known of a command's answer.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// It is yet to be worked out.
    Open,
    /// It was worked out.
    Answer(Vec<u8>),
    /// The server gives it.
    Passed,
}

/// A load of the keys that are worked out here, and of those that a script can't understand; none where there are none.
pub(super) fn load_of(queue: &[Queued], strange: &[Vec<u8>], env: &Env<'_>) -> Option<Load> {
    let load = load_for(queue, folded_keys(queue).chain(strange.iter().map(Vec::as_slice)), env);
    Some(load).filter(|load| !load.keys().is_empty())
}

/// A load of these keys for the commands of a queue.
pub(super) fn load_for<'k>(queue: &[Queued], keys: impl Iterator<Item = &'k [u8]>, env: &Env<'_>) -> Load {
    let load = Load::new(env, keys);
    if queue.iter().any(|queued| queued.on_collections) { load.with_members() } else { load }
}

/// The folded keys of a queue.
pub(super) fn folded_keys(queue: &[Queued]) -> impl Iterator<Item = &[u8]> {
    queue.iter().filter(|queued| queued.folded).flat_map(Queued::keys)
}

pub(super) fn bytes_of(queue: &[Queued]) -> usize {
    queue.iter().flat_map(|queued| &queued.args).map(Vec::len).sum()
}

/// Marks what must be worked out: commands on folded keys, and those that share a plain key with one.
///
/// # Errors
/// A command that shares a key with one that is worked out, but can't be itself: its name and the key.
pub(super) fn settle(queue: &mut [Queued]) -> Result<(), String> {
    for index in written_beside(queue) {
        if !queue[index].work_out_on_collections() {
            return Err(shares(&queue[index]));
        }
    }
    let folded = queue.iter().filter(|queued| queued.folded).count();
    if folded == 0 || folded == queue.len() {
        return Ok(());
    }
    let mut on_key = BTreeMap::<Vec<u8>, Vec<usize>>::new();
    for (index, queued) in queue.iter().enumerate() {
        for key in queued.keys() {
            on_key.entry(key.to_vec()).or_default().push(index);
        }
    }
    let mut folded: Vec<usize> = (0..queue.len()).filter(|index| queue[*index].folded).collect();
    while let Some(index) = folded.pop() {
        let sharing: Vec<usize> = queue[index].keys().filter_map(|key| on_key.remove(key)).flatten().collect();
        for index in sharing {
            let next = &mut queue[index];
            if next.folded {
                continue;
            }
            // Where it is a command on sets or hashes, all keys are read with their members then.
            let is_on_strings = next.command.is_some_and(|command| command.run.is_some());
            next.on_collections |= next.foreign.is_none() && !is_on_strings;
            if next.run().is_none() {
                return Err(shares(next));
            }
            next.folded = true;
            folded.push(index);
        }
    }
    Ok(())
}

fn shares(queued: &Queued) -> String {
    let name = queued.args[0].escape_ascii();
    format!("EXECABORT keyfold: {name} and a command on a folded key use the same key in one transaction; split it")
}

/// Where commands of another type stand that read a folded key and one that another command of the queue writes: the server is asked
/// for their answers before that is written.
fn written_beside(queue: &[Queued]) -> Vec<usize> {
    if queue.iter().all(|queued| queued.foreign.is_none()) {
        return Vec::new();
    }
    let writes = |queued: &&Queued| queued.command.is_none_or(|command| command.flags.contains(Flags::WRITE));
    let written: BTreeSet<&[u8]> = queue.iter().filter(writes).flat_map(Queued::keys).collect();
    let reads_one = |queued: &Queued| {
        let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
        let all = queued.command.map(|command| command.keys_in(&args));
        let beside = |index: &usize| !queued.keys.contains(index);
        let mut beside = all.iter().flat_map(|keys| keys.iter()).map(|key| key.index).filter(beside);
        beside.any(|index| args.get(index).is_some_and(|key| written.contains(key)))
    };
    let foreign = queue.iter().enumerate().filter(|(_, queued)| queued.foreign.is_some());
    foreign.filter(|(_, queued)| reads_one(queued)).map(|(index, _)| index).collect()
}

pub(super) fn initial_outcomes(queue: &[Queued]) -> Vec<Outcome> {
    let initial = |queued: &Queued| match &queued.script {
        Scripted::Failed(error) => Outcome::Answer(format!("-{error}\r\n").into_bytes()),
        _ if queued.folded => Outcome::Open,
        _ => Outcome::Passed,
    };
    queue.iter().map(initial).collect()
}

/// What came of working one command out.
pub(super) enum Worked {
    Out(Outcome),
    /// The server's help is needed.
    Asks(HelpRequest),
    /// The server answers these, at this index.
    Shows(Commands, usize),
    /// It works on more bytes than are read here.
    Large,
    /// It needs a value that can't be decoded.
    Undecodable(String),
}

/// Works one command out.
pub(super) fn run_queued(
    queued: &Queued,
    space: &mut Space,
    protocol: Protocol,
    dialect: Dialect<'_>,
    scratch: &[u8],
    is_moving: impl Fn(&[u8]) -> bool,
) -> Worked {
    let mut out = Vec::new();
    let mut answer = Answer::new(&mut out, protocol);
    if let Some(foreign) = &queued.foreign {
        let moment = match queued.may_be_shown_nothing(foreign) && queued.keys().any(is_moving) {
            true => Moment::BeforeRemoval,
            false => Moment::AsRead,
        };
        match foreign.judge(&queued.args, space, scratch, moment) {
            Verdict::Refused(error) => answer.error(error),
            Verdict::PassedOn | Verdict::PassedOnIf => return Worked::Out(Outcome::Passed),
            Verdict::OnScratch(commands, answer_at) => return Worked::Shows(commands, answer_at),
            Verdict::NeedsBytes => return Worked::Large,
            Verdict::Undecodable(error) => return Worked::Undecodable(error),
        }
    } else if let Some(run) = queued.run() {
        // What is known of plain keys is the server's own.
        let dialect = if queued.names_folded { dialect } else { dialect.of_the_server() };
        let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
        match run(&Call { args: &args, dialect }, space, &mut answer) {
            Err(Halt::Large) => return Worked::Large,
            Err(Halt::Undecodable(error)) => return Worked::Undecodable(error),
            flow => {
                if let Err(ask) = finish(flow, &mut answer) {
                    return Worked::Asks(ask);
                }
            }
        }
    }
    Worked::Out(Outcome::Answer(out))
}
