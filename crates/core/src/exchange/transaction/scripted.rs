//! Scripts in a transaction: users' scripts on folded keys, and the commands that share keys with them.
//!
//! What a script does can't be worked out here, so the server runs it among the other commands, behind keyfold's own lines
//! as outside of a transaction. A command on a folded key that such a script uses too has to see what the script did and to
//! be seen by it: the server carries it out by a script of its own ([`one_command`]). All else is worked out as ever,
//! because it concerns other keys.
//!
//! Within MULTI a server would say too late that it doesn't know a script. So the first call of each has its text, and the
//! calls behind it have its hash.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::queued::{Queued, Scripted};
use crate::admin::scratch_key;
use crate::command::{Categories, Command, Flags, Id};
use crate::dialect::Dialect;
use crate::exchange::Env;
use crate::exchange::batch::Commands;
use crate::exchange::function_call::{behind_arguments, found};
use crate::exchange::key::Key;
use crate::exchange::user_call::{Behind, behind, may_be_strange, naming_the_users, reads_only};
use crate::layout::Located;
use crate::notify::Notices;
use crate::resp::Protocol;
use crate::string::CopyCommand;
use crate::user_script::{Listed, Sha, UserScript, one_command, reply_of_one_command};

/// Lua takes no more arguments of a call than about 8,000.
const MOST_ARGS: usize = 7000;
/// Servers from Redis 7.4 on forget what came by EVAL once they have got to know 500 scripts since.
const MOST_KNOWN: usize = 400;

/// Marks the commands on folded keys that share keys with a script, by way of others perhaps.
///
/// # Errors
/// One that a script can't carry out.
pub(super) fn settle(queue: &mut [Queued], dialect: Dialect<'_>) -> Result<(), String> {
    // A script or function on plain keys alone goes as it came, and what it does isn't known here either.
    let is_plain_script =
        |queued: &Queued| queued.command.is_some_and(|command| command.categories.contains(Categories::SCRIPTING));
    let begins = |queued: &Queued| queued.script.is_sent() || !queued.names_folded && is_plain_script(queued);
    let mut reached: Vec<usize> = (0..queue.len()).filter(|index| begins(&queue[*index])).collect();
    if reached.is_empty() {
        return Ok(());
    }
    let mut on_key = BTreeMap::<Vec<u8>, Vec<usize>>::new();
    for (index, queued) in queue.iter().enumerate() {
        for key in all_keys(queued) {
            on_key.entry(key).or_default().push(index);
        }
    }
    while let Some(index) = reached.pop() {
        let sharing: Vec<usize> =
            all_keys(&queue[index]).iter().filter_map(|key| on_key.remove(key)).flatten().collect();
        for index in sharing {
            let next = &mut queue[index];
            if next.folded {
                if let Some(why) = why_not_by_script(next, dialect) {
                    let name = next.args[0].escape_ascii();
                    return Err(format!(
                        "EXECABORT keyfold: {name} and a script use the same key in one transaction, and {why}; split it"
                    ));
                }
                (next.folded, next.script) = (false, Scripted::Command);
            }
            reached.push(index);
        }
    }
    Ok(())
}

/// Finds the functions that are called, among those that the server has, where this is published of what they do.
pub(super) fn find_functions(queue: &mut [Queued], listed: &Listed, notices: Option<Notices>) {
    for queued in queue.iter_mut().filter(|queued| matches!(queued.script, Scripted::Function)) {
        queued.script = match found(listed, &queued.args[1]) {
            Ok(script) => Scripted::Call(script.publishing(notices)),
            Err(error) => Scripted::Failed(error),
        };
    }
}

/// Every key that a queued command names.
fn all_keys(queued: &Queued) -> Vec<Vec<u8>> {
    let Some(command) = queued.command else { return Vec::new() };
    let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
    command.keys_in(&args).iter().map(|key| queued.args[key.index].clone()).collect()
}

/// Why a script can't carry a command on folded keys out as the command is carried out elsewhere; none where it can.
fn why_not_by_script(queued: &Queued, dialect: Dialect<'_>) -> Option<&'static str> {
    let command = queued.command?;
    let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
    if !command.server_has(&args, dialect) {
        return Some("the server behind keyfold doesn't have that command, or an option of it");
    }
    if command.flags.intersects(Flags::NOSCRIPT | Flags::BLOCKING)
        || command.name.starts_with("object|")
        || command.name == "msetex"
    {
        return Some("a script can't carry it out on a folded key");
    }
    if args.len() > MOST_ARGS {
        return Some("it has more arguments than a script can take");
    }
    if command.id == Id::Copy && CopyCommand::read(&args).is_ok_and(|copy| copy.database.is_some()) {
        return Some("a script can't copy to another database");
    }
    (command.name == "increx" || names_wide_integer(command, &args))
        .then_some("its answer may be a number that a script can't give exactly")
}

/// Whether a BITFIELD is about integers that Lua doesn't have exactly.
fn names_wide_integer(command: &Command, args: &[&[u8]]) -> bool {
    let is_wide = |arg: &&[u8]| {
        let [b'u' | b'U' | b'i' | b'I', bits @ ..] = arg else { return false };
        str::from_utf8(bits).ok().and_then(|bits| bits.parse::<u32>().ok()).is_some_and(|bits| bits > 53)
    };
    command.name.starts_with("bitfield") && args[2..].iter().any(is_wide)
}

/// The scripts of a transaction as they are sent.
#[derive(Debug, Default)]
pub(super) struct Sender {
    /// Whose texts were sent.
    sent: HashSet<Sha>,
    /// The places of commands that are nobody's.
    pub(super) uncounted: BTreeSet<usize>,
    /// What is published of commands.
    notices: Option<Notices>,
}

impl Sender {
    /// One that has sent nothing, where this is published of what commands do.
    pub(super) fn new(notices: Option<Notices>) -> Self {
        Self { notices, ..Self::default() }
    }

    /// Adds what comes before all commands of a queue: by it a server that takes no writes refuses all of the transaction,
    /// as it does where such a command itself is queued.
    pub(super) fn begin(&mut self, queue: &[Queued], commands: &mut Commands) {
        let needs_memory = |queued: &&Queued| {
            let is_such = |command: &Command| command.flags.contains(Flags::DENYOOM);
            matches!(queued.script, Scripted::Command) && queued.command.is_some_and(is_such)
        };
        let first = queue.iter().find(needs_memory);
        if let Some(key) = first.and_then(|queued| all_keys(queued).into_iter().next()) {
            // It changes nothing: without any bytes to write there is no key made.
            self.push_uncounted(&[b"SETRANGE", &scratch_key(&key), b"0", b""], commands);
        }
    }

    /// Asks for the server's time.
    pub(super) fn push_time(&mut self, commands: &mut Commands) {
        self.push_uncounted(&[b"TIME"], commands);
    }

    /// Adds a command whose reply counts for nothing.
    fn push_uncounted(&mut self, args: &[&[u8]], commands: &mut Commands) {
        self.uncounted.insert(commands.count() as usize);
        commands.push_passed(args);
    }

    /// Adds a queued command, by what was read of its keys; false where it isn't sent by a script.
    pub(super) fn push(&mut self, queued: &Queued, read: &[Key], env: &mut Env<'_>, commands: &mut Commands) -> bool {
        let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
        match (&queued.script, queued.command) {
            (Scripted::Call(script), Some(command)) => {
                let keys = located(queued, env);
                let reads_only = reads_only(command.id);
                // What functions there are was asked when this EXEC began.
                let (also, _) = behind_arguments(script, Vec::new(), env);
                let behind = behind(reads_only, (&args, &also), as_slices(&keys), script, read, env);
                if script.function().is_none() && !self.sent.contains(&script.wrapped_sha(behind.has_collections)) {
                    // Elsewhere it is called by its hash where no key is folded.
                    self.push_uncounted(&[b"SCRIPT", b"LOAD", script.body()], commands);
                }
                self.call(script, reads_only, &behind, commands);
            }
            (Scripted::Command, _) => {
                let keys = located(queued, env);
                let count = keys.len().to_string();
                let call: Vec<&[u8]> = [&b"EVAL"[..], b"", count.as_bytes()]
                    .into_iter()
                    .chain(keys.iter().map(|(key, _)| key.as_slice()))
                    .chain(args.iter().copied())
                    .collect();
                let script = &one_command().publishing(self.notices);
                let behind = behind(false, (&call, &[]), as_slices(&keys), script, read, env);
                self.call(script, false, &behind, commands);
            }
            _ => return false,
        }
        true
    }

    /// Notes a command that is sent as it came: behind one by which the server forgets its scripts they are sent again.
    pub(super) fn note_passed(&mut self, queued: &Queued) {
        if queued.command.is_some_and(|command| command.id == Id::ScriptFlush) {
            self.sent.clear();
        }
    }

    fn call(&mut self, script: &UserScript, reads_only: bool, behind: &Behind, commands: &mut Commands) {
        if self.sent.len() == MOST_KNOWN {
            self.sent.clear();
        }
        let sha = script.wrapped_sha(behind.has_collections);
        let is_first = self.sent.insert(sha);
        let text = is_first.then(|| script.wrapped(behind.has_collections));
        let command: &[u8] = match (is_first, reads_only) {
            (true, false) => b"EVAL",
            (true, true) => b"EVAL_RO",
            (false, false) => b"EVALSHA",
            (false, true) => b"EVALSHA_RO",
        };
        let head = [command, text.as_deref().unwrap_or(sha.as_bytes())];
        let args: Vec<&[u8]> = head.into_iter().chain(behind.args.iter().map(Vec::as_slice)).collect();
        commands.push_passed(&args);
    }
}

fn located(queued: &Queued, env: &Env<'_>) -> Vec<(Vec<u8>, Located)> {
    let with_place = |key: Vec<u8>| {
        let located = env.layout.locate(&key);
        (key, located)
    };
    all_keys(queued).into_iter().map(with_place).collect()
}

fn as_slices(keys: &[(Vec<u8>, Located)]) -> impl Iterator<Item = (&[u8], Located)> {
    keys.iter().map(|(key, located)| (key.as_slice(), located.clone()))
}

/// The keys that are used by scripts.
pub(super) fn script_keys(queue: &[Queued]) -> impl Iterator<Item = Vec<u8>> {
    queue.iter().filter(|queued| queued.script.is_sent()).flat_map(all_keys)
}

/// Those of them that may hold what a script can't understand, so that they have to be read first.
pub(super) fn strange_keys(queue: &[Queued], env: &Env<'_>) -> Vec<Vec<u8>> {
    script_keys(queue).filter(|key| may_be_strange(&env.layout.locate(key), env)).collect()
}

/// What the server's replies to calls of scripts mean, in their order.
#[derive(Debug)]
pub(super) struct Answers {
    protocol: Protocol,
    /// The errors with which the first calls of scripts were answered.
    failed: HashMap<Sha, Vec<u8>>,
}

impl Answers {
    /// None read yet, for a client that speaks this.
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { protocol, failed: HashMap::new() }
    }

    /// The answer to a queued command, by the server's reply.
    pub(super) fn read<'r>(&mut self, queued: &Queued, reply: &'r [u8]) -> Cow<'r, [u8]> {
        match &queued.script {
            Scripted::Call(script) => {
                let answer = naming_the_users(script, reply);
                if answer.starts_with(b"-NOSCRIPT No matching script")
                    && let Some(error) = self.failed.get(&script.sha)
                {
                    // It is no script, and the server doesn't get to know it by trying.
                    return Cow::Owned(error.clone());
                }
                if answer.starts_with(b"-") {
                    self.failed.entry(script.sha).or_insert_with(|| answer.to_vec());
                }
                answer
            }
            Scripted::Command => reply_of_one_command(&queued.args, self.protocol, reply),
            Scripted::No | Scripted::Function | Scripted::Failed(_) => Cow::Borrowed(reply),
        }
    }
}
