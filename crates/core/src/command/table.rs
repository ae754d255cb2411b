//! The commands of all known servers, found by name.
//!
//! Every request passes here, so a look-up hashes the lower-cased name on the stack and compares once or
//! twice; it allocates nothing, and takes no longer for a name that is in no server.

use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use super::keys::{Access, Begin, Find, KeySpec};
use super::policy::ClusterPolicy;
use super::{Categories, Command, Flags, Id, special};
use crate::{members, string};

/// Longer than any name, a subcommand's with its container's included.
const NAME_BYTES: usize = 64;

/// An empty slot.
const NONE: u16 = u16::MAX;

static TABLE: LazyLock<CommandTable> = LazyLock::new(|| {
    CommandTable::parse(include_str!("table.tsv")).expect("table.tsv is what scripts/command-table wrote")
});

/// The commands of the servers that `table.tsv` was made from.
pub fn table() -> &'static CommandTable {
    &TABLE
}

/// Commands by name.
#[derive(Debug)]
pub struct CommandTable {
    commands: Vec<Command>,
    /// Open addressing, a power of two long and at most a quarter full.
    slots: Vec<u16>,
}

/// A line of the table that does not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("command table: bad {what} in line {line:?}")]
pub struct BadLine {
    what: &'static str,
    line: &'static str,
}

impl CommandTable {
    /// The command of this name in any case. Subcommands are not found here: see [`Self::lookup_sub`].
    pub fn lookup(&self, name: &[u8]) -> Option<&Command> {
        if name.contains(&b'|') {
            return None;
        }
        let mut buffer = [0; NAME_BYTES];
        self.find(lower(name, &mut buffer, 0)?)
    }

    /// The subcommand of a container in any case, such as `get` of `config`.
    pub fn lookup_sub(&self, command: &Command, sub: &[u8]) -> Option<&Command> {
        if sub.contains(&b'|') {
            return None;
        }
        let mut buffer = [0; NAME_BYTES];
        let len = command.name.len();
        lower(command.name.as_bytes(), &mut buffer, 0)?;
        *buffer.get_mut(len)? = b'|';
        self.find(lower(sub, &mut buffer, len + 1)?)
    }

    /// The command of a request: the subcommand where its second argument names one.
    pub fn resolve(&self, args: &[&[u8]]) -> Option<&Command> {
        let command = self.lookup(args.first()?)?;
        match args.get(1) {
            Some(sub) if command.is_container => self.lookup_sub(command, sub).or(Some(command)),
            _ => Some(command),
        }
    }

    /// How many commands and subcommands there are.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether there is none; there always are.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// All commands and subcommands, in the order of their names.
    pub fn iter(&self) -> std::slice::Iter<'_, Command> {
        self.commands.iter()
    }

    fn find(&self, name: &[u8]) -> Option<&Command> {
        let mask = self.slots.len() - 1;
        let mut at = slot_of(name, mask);
        loop {
            let command = self.commands.get(usize::from(self.slots[at]))?;
            if command.name.as_bytes() == name {
                return Some(command);
            }
            at = (at + 1) & mask;
        }
    }

    fn parse(text: &'static str) -> Result<Self, BadLine> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let mut commands = lines.map(parse_line).collect::<Result<Vec<_>, _>>()?;
        for at in 0..commands.len() {
            if let Some((container, _)) = commands[at].name.split_once('|') {
                let container = commands.iter_mut().find(|command| command.name == container);
                container.into_iter().for_each(|command| command.is_container = true);
            }
        }
        let mut slots = vec![NONE; (commands.len() * 4).next_power_of_two()];
        let mask = slots.len() - 1;
        for (index, command) in (0..NONE).zip(&mut commands) {
            command.index = index;
            let mut at = slot_of(command.name.as_bytes(), mask);
            while slots[at] != NONE {
                at = (at + 1) & mask;
            }
            slots[at] = index;
        }
        Ok(Self { commands, slots })
    }
}

impl<'a> IntoIterator for &'a CommandTable {
    type Item = &'a Command;
    type IntoIter = std::slice::Iter<'a, Command>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Writes a name in lower case into a buffer from `at` on; what the buffer then holds, or none where it
/// does not fit.
fn lower<'a>(name: &[u8], buffer: &'a mut [u8; NAME_BYTES], at: usize) -> Option<&'a [u8]> {
    let end = at + name.len();
    for (to, from) in buffer.get_mut(at..end)?.iter_mut().zip(name) {
        *to = from.to_ascii_lowercase();
    }
    Some(&buffer[..end])
}

#[expect(clippy::cast_possible_truncation, reason = "only the low bits count")]
fn slot_of(name: &[u8], mask: usize) -> usize {
    xxh3_64(name) as usize & mask
}

/// `name arity flags categories keys cluster`, tabs between; see the head of the file.
fn parse_line(line: &'static str) -> Result<Command, BadLine> {
    let bad = |what| move || BadLine { what, line };
    let mut cells = line.split('\t');
    let mut cell = |what| cells.next().ok_or_else(bad(what));
    let name = cell("name")?;
    let arity = cell("arity")?.parse().map_err(|_| bad("arity")())?;
    let flags = list(cell("flags")?, ',').map(|word| flag(word, Flags::from_name));
    let flags = flags.collect::<Option<Flags>>().ok_or_else(bad("flags"))?;
    let categories = list(cell("categories")?, ',').map(|word| flag(word, Categories::from_name));
    let categories = categories.collect::<Option<Categories>>().ok_or_else(bad("categories"))?;
    let keys = list(cell("keys")?, ' ').map(parse_spec).collect::<Option<Vec<_>>>().ok_or_else(bad("keys"))?;
    let cluster = ClusterPolicy::parse(cell("cluster")?).ok_or_else(bad("cluster"))?;
    Ok(Command {
        name,
        id: Id::of(name),
        run: string::lookup(name.as_bytes()),
        members: members::lookup(name.as_bytes()),
        arity,
        flags,
        since: string::since(name),
        categories,
        keys,
        cluster,
        is_container: false,
        index: 0,
        special: special::lookup(name),
    })
}

fn list(cell: &'static str, separator: char) -> impl Iterator<Item = &'static str> {
    cell.split(separator).filter(|word| *word != "-")
}

fn flag<T>(word: &str, from_name: fn(&str) -> Option<T>) -> Option<T> {
    from_name(&word.to_ascii_uppercase())
}

/// `flags@begin:find`
fn parse_spec(spec: &'static str) -> Option<KeySpec> {
    let (access, places) = spec.split_once('@')?;
    let (begin, find) = places.split_once(':')?;
    let access = access.split('+').map(|word| flag(word, Access::from_name)).collect::<Option<Access>>()?;
    Some(KeySpec { access, begin: parse_begin(begin)?, find: parse_find(find)? })
}

fn parse_begin(text: &'static str) -> Option<Begin> {
    if let Some(index) = text.strip_prefix('i') {
        return Some(Begin::Index(index.parse().ok()?));
    }
    if let Some(keyword) = text.strip_prefix('k') {
        let (word, from) = keyword.split_once(',')?;
        return Some(Begin::Keyword { word, from: from.parse().ok()? });
    }
    (text == "?").then_some(Begin::Unknown)
}

fn parse_find(text: &str) -> Option<Find> {
    if text == "?" {
        return Some(Find::Unknown);
    }
    let mut numbers = text.get(1..)?.split(',');
    let (one, two, three) = (numbers.next()?, numbers.next()?, numbers.next()?);
    match text.as_bytes()[0] {
        b'r' => {
            let step = two.parse().ok().filter(|step| *step > 0)?;
            Some(Find::Range { last: one.parse().ok()?, step, limit: three.parse().ok()? })
        }
        b'n' => {
            let step = three.parse().ok().filter(|step| *step > 0)?;
            Some(Find::Number { number_at: one.parse().ok()?, first_at: two.parse().ok()?, step })
        }
        _ => None,
    }
}
