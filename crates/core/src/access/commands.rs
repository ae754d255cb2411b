//! The commands that rules allow, as Redis counts them (`ACLChangeSelectorPerm`, acl.c of 7.0): one mark a
//! command and a subcommand, and for a command without subcommands perhaps the first arguments it may have.

use std::collections::BTreeMap;

use crate::command::{Categories, Command, table};

/// Commands allowed.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    /// Every one, and none was denied since: the marks need not be looked at.
    all: bool,
    /// By [`Command::index`].
    marks: Vec<bool>,
    /// By [`Command::index`], for commands without a mark.
    first_args: BTreeMap<usize, Vec<Vec<u8>>>,
}

impl Commands {
    pub(super) fn none() -> Self {
        Self { all: false, marks: vec![false; table().len()], first_args: BTreeMap::new() }
    }

    pub(super) fn all() -> Self {
        Self { all: true, marks: vec![true; table().len()], first_args: BTreeMap::new() }
    }

    /// Whether it is every command, those that no table knows included.
    pub(super) fn is_all(&self) -> bool {
        self.all
    }

    /// Allows or denies a command with all its subcommands, or one subcommand. First arguments of it are
    /// forgotten either way.
    pub(super) fn set(&mut self, command: &Command, allowed: bool) {
        self.all &= allowed;
        self.marks[command.index()] = allowed;
        self.first_args.remove(&command.index());
        if command.is_container {
            let is_sub = |name: &str| name.strip_prefix(command.name).is_some_and(|rest| rest.starts_with('|'));
            for sub in table().iter().filter(|sub| is_sub(sub.name)) {
                self.marks[sub.index()] = allowed;
            }
        }
    }

    /// Allows or denies all commands of a category. A container brings its subcommands along, whatever
    /// category these are in.
    pub(super) fn set_category(&mut self, category: Categories, allowed: bool) {
        for command in table().iter().filter(|command| command.categories.intersects(category)) {
            self.set(command, allowed);
        }
    }

    /// Allows a command where its first argument is this one, in any case.
    pub(super) fn allow_first_arg(&mut self, command: &Command, arg: &[u8]) {
        let args = self.first_args.entry(command.index()).or_default();
        if !args.iter().any(|known| known.eq_ignore_ascii_case(arg)) {
            args.push(arg.to_vec());
        }
    }

    /// Whether a request of this command is allowed; `args` starts with its name.
    pub(super) fn allow(&self, command: &Command, args: &[&[u8]]) -> bool {
        self.all || self.marks[command.index()] || self.allow_by_first_arg(command, args)
    }

    fn allow_by_first_arg(&self, command: &Command, args: &[&[u8]]) -> bool {
        let Some(allowed) = self.first_args.get(&command.index()) else { return false };
        args.get(1).is_some_and(|first| allowed.iter().any(|arg| arg.eq_ignore_ascii_case(first)))
    }
}
