//! What the servers say of each command: its arity, its flags, and which of its arguments are keys.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`mod@table`] | the commands of all known servers, found by name |
//! | [`Id`] | the commands that something here is decided by |
//! | [`keys`] | the keys of one request, by the command's key specs |
//! | [`ClusterPolicy`] | which nodes of a cluster a command concerns |
//! | `special` | the few commands whose keys no spec describes |
//!
//! The data is `table.tsv`, made by `scripts/command-table` from what servers answer to COMMAND. A
//! command that is not in it (a module's, a newer server's) is unknown here, and so are its keys.

mod id;
pub mod keys;
mod policy;
mod special;
pub mod table;

pub use id::Id;
pub use keys::{Access, Find, Key, KeySpec, Keys};
pub use policy::{ClusterPolicy, RequestPolicy, ResponsePolicy};
pub use table::{CommandTable, table};

use crate::dialect::{Dialect, Since};
use crate::string::{self, Run};

bitflags::bitflags! {
    /// What a command does and where it may run, in the servers' own words.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u32 {
        /// Changes data.
        const WRITE = 1;
        /// Reads data and changes none.
        const READONLY = 1 << 1;
        /// Refused where memory is full.
        const DENYOOM = 1 << 2;
        /// For administrators.
        const ADMIN = 1 << 3;
        /// Publishes or subscribes.
        const PUBSUB = 1 << 4;
        /// Not from scripts.
        const NOSCRIPT = 1 << 5;
        /// May wait.
        const BLOCKING = 1 << 6;
        /// Allowed while the server loads its data.
        const LOADING = 1 << 7;
        /// Allowed on a replica with stale data.
        const STALE = 1 << 8;
        /// Constant or logarithmic time.
        const FAST = 1 << 9;
        /// Its keys are not all at fixed places.
        const MOVABLEKEYS = 1 << 10;
        /// Allowed before authentication.
        const NO_AUTH = 1 << 11;
        /// A module's.
        const MODULE = 1 << 12;
        /// Allowed while a script runs too long.
        const ALLOW_BUSY = 1 << 13;
        /// Allowed in a slot that is being imported.
        const ASKING = 1 << 14;
        /// Refused while the server loads in the background.
        const NO_ASYNC_LOADING = 1 << 15;
        /// May be called without keys although it has key specs.
        const NO_MANDATORY_KEYS = 1 << 16;
        /// Not in a transaction.
        const NO_MULTI = 1 << 17;
        /// Not shown by MONITOR.
        const SKIP_MONITOR = 1 << 18;
        /// Not in the slow log.
        const SKIP_SLOWLOG = 1 << 19;
        /// Not in the command log (Valkey).
        const SKIP_COMMANDLOG = 1 << 20;
        /// May touch keys that its arguments do not name.
        const TOUCHES_ARBITRARY_KEYS = 1 << 21;
        /// May be replicated although it writes nothing.
        const MAY_REPLICATE = 1 << 22;
        /// Internal to the server.
        const PROTECTED = 1 << 23;
    }
}

bitflags::bitflags! {
    /// The ACL categories of a command.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Categories: u32 {
        /// `@keyspace`
        const KEYSPACE = 1;
        /// `@read`
        const READ = 1 << 1;
        /// `@write`
        const WRITE = 1 << 2;
        /// `@set`
        const SET = 1 << 3;
        /// `@sortedset`
        const SORTEDSET = 1 << 4;
        /// `@list`
        const LIST = 1 << 5;
        /// `@hash`
        const HASH = 1 << 6;
        /// `@string`
        const STRING = 1 << 7;
        /// `@bitmap`
        const BITMAP = 1 << 8;
        /// `@hyperloglog`
        const HYPERLOGLOG = 1 << 9;
        /// `@geo`
        const GEO = 1 << 10;
        /// `@stream`
        const STREAM = 1 << 11;
        /// `@pubsub`
        const PUBSUB = 1 << 12;
        /// `@admin`
        const ADMIN = 1 << 13;
        /// `@fast`
        const FAST = 1 << 14;
        /// `@slow`
        const SLOW = 1 << 15;
        /// `@blocking`
        const BLOCKING = 1 << 16;
        /// `@dangerous`
        const DANGEROUS = 1 << 17;
        /// `@connection`
        const CONNECTION = 1 << 18;
        /// `@transaction`
        const TRANSACTION = 1 << 19;
        /// `@scripting`
        const SCRIPTING = 1 << 20;
    }
}

/// A command or a subcommand.
#[derive(Clone, Debug)]
pub struct Command {
    /// Lower case; a subcommand's after its container's and a bar: `config|get`.
    pub name: &'static str,
    /// What later decisions go by.
    pub id: Id,
    /// What it does, where it is a string or key command.
    pub run: Option<Run>,
    /// What it does to folded sets and hashes, where it is a command of theirs.
    pub members: Option<Run>,
    /// How many arguments it takes, its name and its container's counted: exactly `n`, or at least `n`
    /// where it is `-n`. Where servers differ, the widest.
    pub arity: i32,
    /// What it does and where it may run.
    pub flags: Flags,
    /// The first servers that have it, where not every server from Redis 7.0 on has it and folded keys know it all the same.
    pub since: Option<Since>,
    /// Its ACL categories.
    pub categories: Categories,
    /// Where its keys are.
    pub keys: Vec<KeySpec>,
    /// Which nodes of a cluster it concerns.
    pub cluster: ClusterPolicy,
    /// Whether it has subcommands.
    pub is_container: bool,
    index: u16,
    special: Option<special::Special>,
}

impl Command {
    /// Its place in [`CommandTable::iter`], for tables beside the table.
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    /// Whether it takes so many arguments, its name and its container's counted.
    pub fn arity_ok(&self, argc: usize) -> bool {
        let least = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argc >= least } else { argc == least }
    }

    /// Whether the server behind has what a request asks of it: the command, and the options that folded keys know.
    pub(crate) fn server_has(&self, args: &[&[u8]], dialect: Dialect<'_>) -> bool {
        let since = self.since.or_else(|| string::since_of_options(self.name, args));
        since.is_none_or(|since| dialect.server_has(since))
    }

    /// The keys of a request, in the order of the key specs; `args` starts with the command's name as the
    /// client sent it. A malformed request gives fewer keys; the server refuses it.
    ///
    /// Of a container (OBJECT, XGROUP), ask the subcommand: [`CommandTable::resolve`].
    pub fn keys_in(&self, args: &[&[u8]]) -> Keys {
        let mut keys = Keys::default();
        match self.special {
            Some(special) => special(self, args, &mut keys),
            None => keys.add_specs(&self.keys, args),
        }
        keys
    }

    /// The same with channels of sharded pub/sub: all that belongs to slots.
    pub fn slotted_in(&self, args: &[&[u8]]) -> Keys {
        match self.keys.first() {
            Some(spec) if spec.access.contains(Access::NOT_KEY) => {
                let mut channels = Keys::default();
                channels.add_slotted(spec, args);
                channels
            }
            _ => self.keys_in(args),
        }
    }

    /// Whether any of its arguments may be a key.
    pub fn has_keys(&self) -> bool {
        self.keys.iter().any(|spec| !spec.access.contains(Access::NOT_KEY))
    }
}

#[cfg(test)]
mod tests;
