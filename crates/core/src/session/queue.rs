//! The commands that a client has queued since MULTI.

use crate::exchange::transaction::Queued;
use crate::layout::Epoch;

/// A queue takes no more than this many bytes of arguments, so that no client fills the proxy's memory.
pub(crate) const MAX_QUEUE_BYTES: usize = 256 << 20;

/// What was queued since MULTI.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// The layout that the commands were routed by.
    pub(crate) epoch: Epoch,
    /// The commands, in order.
    pub(crate) commands: Vec<Queued>,
    /// One was refused: EXEC will carry out none.
    pub(crate) spoilt: bool,
    bytes: usize,
}

impl Queue {
    /// An empty queue under a layout.
    pub(crate) fn under(epoch: Epoch) -> Self {
        Self { epoch, ..Self::default() }
    }

    /// Adds a command; false where the queue is full.
    pub(crate) fn push(&mut self, queued: Queued) -> bool {
        self.bytes += queued.args.iter().map(|arg| arg.len() + size_of::<Vec<u8>>()).sum::<usize>();
        if self.bytes > MAX_QUEUE_BYTES {
            self.spoilt = true;
            return false;
        }
        self.commands.push(queued);
        true
    }

    /// Whether EXEC watches keys of its own: when something is to be worked out.
    pub(crate) fn needs_own_lane(&self) -> bool {
        self.commands.iter().any(|queued| queued.folded)
    }
}
