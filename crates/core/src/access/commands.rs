//! The commands that rules allow, as Redis counts them (`ACLChangeSelectorPerm`, acl.c of 7.0): one mark a
//! command and a subcommand, and for a command without subcommands perhaps the first arguments it may have.

use std::collections::BTreeMap;

use crate::command::{Categories, Command, table};
use crate::resp::word::c_text;

/// Commands allowed.
#[derive(Clone, Debug)]
pub(super) struct Commands {
    /// Every one, and none was denied since: the marks need not be looked at.
    all: bool,
    /// By [`Command::index`].
    marks: Vec<bool>,
    /// By [`Command::index`], for commands without a mark.
    first_args: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Whether the last rule of all commands allowed them.
    begins_with_all: bool,
    /// The rules since, in order and in lower case; those that a later one makes void are left out.
    rules: Vec<Vec<u8>>,
}

impl Commands {
    pub(super) fn none() -> Self {
        Self {
            all: false,
            marks: vec![false; table().len()],
            first_args: BTreeMap::new(),
            begins_with_all: false,
            rules: vec![],
        }
    }

    pub(super) fn all() -> Self {
        Self {
            all: true,
            marks: vec![true; table().len()],
            first_args: BTreeMap::new(),
            begins_with_all: true,
            rules: vec![],
        }
    }

    /// Notes a rule that has been applied, for [`describe`](Self::describe): `name` is what follows its sign. A rule of
    /// the same name, or of a subcommand of it, is void from now on (`ACLUpdateCommandRules`, acl.c of Redis 7.2).
    pub(super) fn note_rule(&mut self, name: &[u8], allowed: bool) {
        let name = name.to_ascii_lowercase();
        let is_void = |rule: &[u8]| {
            rule[1..].strip_prefix(name.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"|"))
        };
        self.rules.retain(|rule| !is_void(rule));
        self.rules.push([if allowed { b"+" } else { b"-" }, name.as_slice()].concat());
    }

    /// The rules that lead here from no rule at all, as ACL LIST shows them.
    pub(super) fn describe(&self) -> Vec<u8> {
        let begin = if self.begins_with_all { b"+@all" } else { b"-@all" };
        self.rules.iter().fold(begin.to_vec(), |text, rule| [&text, &b" "[..], rule].concat())
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
        args.get(1).is_some_and(|first| allowed.iter().any(|arg| c_text(arg).eq_ignore_ascii_case(c_text(first))))
    }
}
