//! Namespaces that are on the move, and keys that lie in their old places.
//!
//! What keyfold writes lies in new places. So that scripts find keys in the old ones too, they are put there past keyfold, as
//! the mover would find them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Layout, Located};
use keyfold_core::record::SetsAs;

use crate::sides::Link;
use crate::wire::{Wire, WireError};

/// Where keys move to meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From plain keys into buckets.
    Folded,
    /// From one placement to another.
    Placed,
    /// Out of buckets, to plain keys.
    Unfolded,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Folded, Self::Placed, Self::Unfolded];

    /// What the command line calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Folded => "folded",
            Self::Placed => "placed",
            Self::Unfolded => "unfolded",
        }
    }
}

/// The server behind the subject, and by which layout keys lie in old places there.
#[derive(Clone, Debug)]
pub struct Former {
    server: SocketAddr,
    layout: Layout,
}

impl Former {
    /// The server behind a subject that goes by this layout.
    pub(super) fn new(server: SocketAddr, mut layout: Layout) -> Self {
        layout.open(&Kinds::default(), &BTreeMap::new());
        Self { server, layout }
    }

    /// A connection to the server.
    pub(super) fn connect(&self) -> Result<Wire, WireError> {
        Wire::connect(self.server)
    }

    /// Brings a string from where it lies to where it would have lain before; whether there is one.
    pub(super) fn put_back(
        &self,
        key: &[u8],
        nonce: u64,
        server: &mut Wire,
        link: &mut Link,
    ) -> Result<bool, WireError> {
        let Located::Moving(moving) = self.layout.locate(key) else { return Ok(false) };
        let subject = &mut link.subject;
        let value = subject.ask(&[b"GET", key])?;
        let Some(value) = value.bytes() else { return Ok(false) };
        let expires_at_ms = subject.ask(&[b"PEXPIRETIME", key])?.integer().filter(|at| *at >= 0);
        subject.ask(&[b"DEL", key])?;
        let writes =
            self.layout.physical_writes(SetsAs::Sets, moving.old.as_ref(), key, value, expires_at_ms, || nonce);
        for write in writes.iter() {
            write.command(|args| server.ask(args))?;
        }
        Ok(true)
    }
}
