//! How long the server may take over a request, by what it asks for.

use crate::command::{Command, Flags, Id};
use crate::resp::word::is_word;

/// How long the server may take until it answers a request whose turn has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Patience {
    /// It answers at once.
    #[default]
    Prompt,
    /// It may compute for long: it runs a program that a user wrote, or looks at every key.
    Slow,
    /// It waits for something to happen, for so many milliseconds at most; none: for ever.
    Blocks(Option<u64>),
}

/// Whether a command runs a program, looks at every key, or waits for a disk or another server.
fn is_slow(command: Id) -> bool {
    matches!(
        command,
        Id::Eval
            | Id::EvalRo
            | Id::Evalsha
            | Id::EvalshaRo
            | Id::Fcall
            | Id::FcallRo
            | Id::Keys
            | Id::Flushall
            | Id::Flushdb
            | Id::Sort
            | Id::SortRo
            | Id::Save
            | Id::Migrate
            | Id::Debug
    )
}

/// A request of more arguments than these is much to compute, whatever it is.
pub(crate) const MANY_ARGS: usize = 50_000;

/// So is one of more keys that are folded, or stand beside such.
const MANY_KEYS: usize = MANY_ARGS / 2;

impl Patience {
    /// What a command with these arguments needs.
    pub(crate) fn with(command: &Command, args: &[&[u8]]) -> Self {
        // Tables of older servers don't say of WAIT that it blocks.
        if command.flags.contains(Flags::BLOCKING) || matches!(command.id, Id::Wait | Id::Waitaof) {
            return Self::with_blocking(command.id, args);
        }
        if command.id == Id::Shutdown {
            // It waits for replicas, and another client may call it off.
            return Self::Blocks(None);
        }
        if is_slow(command.id) || args.len() > MANY_ARGS { Self::Slow } else { Self::Prompt }
    }

    /// What a string command on so many keys needs, of which some are folded.
    pub(crate) fn with_keys(keys: usize) -> Self {
        if keys > MANY_KEYS { Self::Slow } else { Self::Prompt }
    }

    fn with_blocking(command: Id, args: &[&[u8]]) -> Self {
        let time_ms = match command {
            Id::Xread | Id::Xreadgroup => {
                // Of two the last counts; one that is a stream's name makes us wait longer, which harms nobody.
                let Some(at) = args.iter().rposition(|arg| is_word(arg, "block")) else {
                    return Self::Prompt;
                };
                args.get(at + 1).and_then(|text| number(text))
            }
            Id::Wait => args.get(2).and_then(|text| number(text)),
            Id::Waitaof => args.get(3).and_then(|text| number(text)),
            Id::Blmpop | Id::Bzmpop => args.get(1).and_then(|text| number(text)).map(|seconds| seconds * 1000.0),
            _ => args.last().and_then(|text| number(text)).map(|seconds| seconds * 1000.0),
        };
        match time_ms {
            // Servers read times that we don't, such as `0x3c`. What is no time to them either is answered at once.
            None => Self::Blocks(None),
            Some(ms) if ms <= 0.0 => Self::Blocks(None),
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "above zero, and bounded by the type"
            )]
            Some(ms) => Self::Blocks(Some(ms.ceil() as u64)),
        }
    }

    /// Whether it waits for something that other clients may do.
    pub fn blocks(self) -> bool {
        matches!(self, Self::Blocks(_))
    }
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Access, Command, Flags, KeySpec, table};

    fn patience(text: &str) -> Patience {
        let args: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
        Patience::with(table().resolve(&args).unwrap(), &args)
    }

    #[test]
    fn a_blocking_command_says_for_how_long() {
        for (text, ms) in [
            ("BLPOP a b 0.5", Some(500)),
            ("BRPOP a 0", None),
            ("BLMOVE a b LEFT RIGHT 2", Some(2000)),
            ("BLMPOP 3 1 a LEFT", Some(3000)),
            ("BZMPOP 0 1 a MIN", None),
            ("BZPOPMIN a 1", Some(1000)),
            ("XREAD COUNT 1 block 250 STREAMS a $", Some(250)),
            ("WAIT 1 100", Some(100)),
            ("WAIT 1 0", None),
            ("XREADGROUP GROUP g c BLOCK 0 STREAMS a >", None),
            ("XREAD BLOCK\0 60000 STREAMS a $", Some(60000)),
            ("XREAD BLOCK 1 bLock\0x 0 STREAMS a $", None),
            ("BLPOP a 0x3c", None),
            ("BLPOP a x", None),
            ("SHUTDOWN", None),
        ] {
            assert_eq!(patience(text), Patience::Blocks(ms), "{text}");
        }
        for text in ["XREAD STREAMS a 0", "GET a", "SCRIPT KILL", "FUNCTION KILL"] {
            assert_eq!(patience(text), Patience::Prompt, "{text}");
        }
    }

    #[test]
    fn programs_and_walks_are_slow() {
        for text in ["EVAL x 0", "EVALSHA x 0", "FCALL_RO f 0", "KEYS *", "FLUSHALL", "SORT a", "DEBUG SLEEP 1"] {
            assert_eq!(patience(text), Patience::Slow, "{text}");
        }
    }

    #[test]
    fn many_keys_are_slow_where_some_are_folded() {
        assert_eq!(Patience::with_keys(MANY_KEYS), Patience::Prompt);
        assert_eq!(Patience::with_keys(MANY_KEYS + 1), Patience::Slow);
    }

    #[test]
    fn of_commands_that_block_these_give_to_a_key() {
        let gives = |command: &&Command| {
            let creates = |spec: &KeySpec| spec.access.intersects(Access::CREATES);
            command.flags.contains(Flags::BLOCKING) && command.keys.iter().any(creates)
        };
        let names: Vec<&str> = table().iter().filter(gives).map(|command| command.name).collect();
        assert_eq!(names, ["blmove", "brpoplpush"]);
    }
}
