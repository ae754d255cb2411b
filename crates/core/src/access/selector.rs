//! What a user may do: these commands, on these keys, in these channels, together. A user has one such
//! selector, and more where rules stand in parentheses; a request must fit one of them.

use super::commands::Commands;
use crate::command::{Access, Command, Flags, Key, Keys};
use crate::glob;

bitflags::bitflags! {
    /// What may be done with the keys of a pattern.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) struct KeyAccess: u8 {
        /// `%R~`
        const READ = 1;
        /// `%W~`
        const WRITE = 1 << 1;
    }
}

impl KeyAccess {
    /// What a command needs. Nothing where it neither returns nor changes content, as EXISTS: then any
    /// pattern that names the key will do.
    fn needed(access: Access) -> Self {
        let mut needed = Self::empty();
        needed.set(Self::READ, access.contains(Access::ACCESS));
        needed.set(Self::WRITE, access.intersects(Access::INSERT | Access::DELETE | Access::UPDATE));
        needed
    }
}

/// Keys that a rule allows.
#[derive(Clone, Debug)]
struct KeyPattern {
    pattern: Vec<u8>,
    access: KeyAccess,
}

/// What of a request is not allowed. Of several selectors the greatest counts, as in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Denied {
    Command,
    /// The argument that names it.
    Key(usize),
    /// The argument that names it.
    Channel(usize),
}

/// What a user may do, or a part of it.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    pub(super) commands: Commands,
    all_keys: bool,
    key_patterns: Vec<KeyPattern>,
    all_channels: bool,
    channel_patterns: Vec<Vec<u8>>,
}

impl Selector {
    /// Nothing.
    pub(super) fn none() -> Self {
        Self {
            commands: Commands::none(),
            all_keys: false,
            key_patterns: Vec::new(),
            all_channels: false,
            channel_patterns: Vec::new(),
        }
    }

    /// Everything.
    pub(super) fn all() -> Self {
        Self { commands: Commands::all(), all_keys: true, all_channels: true, ..Self::none() }
    }

    pub(super) fn is_all(&self) -> bool {
        self.commands.is_all() && self.all_keys && self.all_channels
    }

    pub(super) fn has_all_keys(&self) -> bool {
        self.all_keys
    }

    pub(super) fn has_all_channels(&self) -> bool {
        self.all_channels
    }

    /// Allows all keys or none.
    pub(super) fn set_all_keys(&mut self, all: bool) {
        self.all_keys = all;
        self.key_patterns.clear();
    }

    /// Allows all channels or none.
    pub(super) fn set_all_channels(&mut self, all: bool) {
        self.all_channels = all;
        self.channel_patterns.clear();
    }

    /// Allows more keys. What the same pattern allows already adds up.
    pub(super) fn add_keys(&mut self, pattern: &[u8], access: KeyAccess) {
        match self.key_patterns.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => known.access |= access,
            None => self.key_patterns.push(KeyPattern { pattern: pattern.to_vec(), access }),
        }
    }

    /// Allows more channels.
    pub(super) fn add_channels(&mut self, pattern: &[u8]) {
        if !self.channel_patterns.iter().any(|known| known == pattern) {
            self.channel_patterns.push(pattern.to_vec());
        }
    }

    /// Whether it allows a request, as `ACLSelectorCheckCmd` of Redis 7.0 decides.
    pub(super) fn check(&self, command: &Command, args: &[&[u8]], keys: &Keys) -> Result<(), Denied> {
        if !command.flags.contains(Flags::NO_AUTH) && !self.commands.allow(command, args) {
            return Err(Denied::Command);
        }
        let allowed = |key: &Key| args.get(key.index).is_some_and(|name| self.allows_key(name, key.access));
        if !self.all_keys
            && let Some(key) = keys.iter().find(|key| !allowed(key))
        {
            return Err(Denied::Key(key.index));
        }
        match self.refused_channel(command, args) {
            Some(index) if !self.all_channels => Err(Denied::Channel(index)),
            _ => Ok(()),
        }
    }

    /// One pattern must allow all that is needed.
    fn allows_key(&self, key: &[u8], access: Access) -> bool {
        let needed = KeyAccess::needed(access);
        let mut patterns = self.key_patterns.iter().filter(|known| known.access.contains(needed));
        patterns.any(|known| glob::matches(&known.pattern, key))
    }

    /// Whether any key may be read, those included that no argument names.
    pub(super) fn reads_any_key(&self) -> bool {
        let any = |known: &KeyPattern| known.access.contains(KeyAccess::READ) && known.pattern == b"*";
        self.all_keys || self.key_patterns.iter().any(any)
    }

    /// Channels are matched with the patterns; the patterns of PSUBSCRIBE must each be one of them.
    /// Unsubscribing is free.
    ///
    /// None where all are allowed, else the first that isn't, among the arguments.
    fn refused_channel(&self, command: &Command, args: &[&[u8]]) -> Option<usize> {
        let mut channels = args.iter().enumerate().skip(1);
        let refused = match command.name {
            "publish" | "spublish" => channels.take(1).find(|(_, channel)| !self.allows_channel(channel)),
            "subscribe" | "ssubscribe" => channels.find(|(_, channel)| !self.allows_channel(channel)),
            "psubscribe" => channels.find(|(_, pattern)| !self.allows_channel_pattern(pattern)),
            _ => None,
        };
        refused.map(|(index, _)| index)
    }

    /// Whether a channel may be listened to.
    pub(super) fn allows_channel(&self, channel: &[u8]) -> bool {
        self.all_channels || self.channel_patterns.iter().any(|pattern| glob::matches(pattern, channel))
    }

    /// Whether all channels of a pattern may be listened to.
    pub(super) fn allows_channel_pattern(&self, pattern: &[u8]) -> bool {
        self.all_channels || self.channel_patterns.iter().any(|known| known == pattern)
    }

    /// The rules of keys, as ACL GETUSER shows them.
    pub(super) fn describe_keys(&self) -> Vec<u8> {
        let shown = |known: &KeyPattern| {
            let access = match (known.access.contains(KeyAccess::READ), known.access.contains(KeyAccess::WRITE)) {
                (true, false) => &b"%R~"[..],
                (false, true) => b"%W~",
                _ => b"~",
            };
            [access, &known.pattern].concat()
        };
        match self.all_keys {
            true => b"~*".to_vec(),
            false => self.key_patterns.iter().map(shown).collect::<Vec<_>>().join(&b' '),
        }
    }

    /// The rules of channels, as ACL GETUSER shows them.
    pub(super) fn describe_channels(&self) -> Vec<u8> {
        let shown = |pattern: &Vec<u8>| [b"&", pattern.as_slice()].concat();
        match self.all_channels {
            true => b"&*".to_vec(),
            false => self.channel_patterns.iter().map(shown).collect::<Vec<_>>().join(&b' '),
        }
    }

    /// All of its rules, as ACL LIST shows them.
    pub(super) fn describe(&self) -> Vec<u8> {
        let channels = self.describe_channels();
        let reset = if self.all_channels { &b""[..] } else { b"resetchannels" };
        let parts = [self.describe_keys(), reset.to_vec(), channels, self.commands.describe()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(&b' ')
    }
}
