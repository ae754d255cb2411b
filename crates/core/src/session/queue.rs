//! The commands that a client has queued since MULTI.

use crate::command::Command;
use crate::exchange::transaction::Queued;
use crate::layout::Epoch;
use crate::session::LARGE_BYTES;
use crate::session::patience::MANY_ARGS;

/// A queue takes no more than this many bytes, so that no client fills the proxy's memory.
pub(crate) const MAX_QUEUE_BYTES: usize = 256 << 20;

/// What was queued since MULTI.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The layout that the commands were routed by.
    pub(crate) epoch: Epoch,
    /// The version of the users by which they were allowed.
    pub(crate) users_version: u64,
    /// The commands, in order.
    pub(crate) commands: Vec<Queued>,
    /// One was refused: EXEC will carry out none.
    pub(crate) spoilt: bool,
    bytes: usize,
    args: usize,
}

impl Queue {
    /// An empty queue under a layout, of what is allowed by this version of the users.
    pub(crate) fn under(epoch: Epoch, users_version: u64) -> Self {
        Self { epoch, users_version, ..Self::default() }
    }

    /// Adds a command; false where the queue is full.
    pub(crate) fn push(&mut self, queued: Queued) -> bool {
        // What is made for each beside its bytes, and what it takes to make it.
        const EACH: usize = size_of::<Queued>() + 2 * size_of::<Vec<u8>>();
        self.bytes += EACH + queued.args.iter().map(|arg| arg.len() + size_of::<Vec<u8>>() + 8).sum::<usize>();
        self.args += queued.args.len();
        if self.bytes > MAX_QUEUE_BYTES {
            self.spoilt = true;
            return false;
        }
        self.commands.push(queued);
        true
    }

    /// Whether the server may compute for long over it.
    pub(crate) fn is_slow(&self) -> bool {
        self.args > MANY_ARGS || self.commands.iter().any(|queued| queued.is_slow)
    }

    /// The bytes of its arguments.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The keys of the commands that name folded ones.
    pub(crate) fn folded_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.commands.iter().filter(|queued| queued.names_folded).flat_map(Queued::keys)
    }

    /// Whether it holds such a command.
    pub(crate) fn holds(&self, such: impl Fn(&Command) -> bool) -> bool {
        self.commands.iter().any(|queued| queued.command.is_some_and(&such))
    }

    /// Whether EXEC watches keys of its own, as something is to be worked out, or is so large that others shouldn't
    /// wait for it to pass.
    pub(crate) fn needs_own_lane(&self) -> bool {
        self.bytes >= LARGE_BYTES || self.commands.iter().any(|queued| queued.names_folded)
    }
}
