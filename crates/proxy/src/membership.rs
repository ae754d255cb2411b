//! What all workers know of this proxy's part in changes of the layout: whether they may serve.
//!
//! Every connection looks for itself before it is used ([`Membership::check`]), so the keeper's (`keeper.rs`) may break,
//! be silent, or find a server that takes no writes: whoever serves goes on.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use keyfold_core::admin::{CHANGE_KEY, COPY_KEY, LAYOUT_KEY};
use keyfold_core::change::{Announcement, member_name};
use keyfold_core::cluster::Endpoint;
use keyfold_core::resp::{Reply, write_command};
use tokio::sync::Notify;

use crate::folding::Folding;

/// Clients that leave as they wait lose one each.
const MANY_LOST: usize = 256;

/// A connection that was lost: the node of a cluster that it was to, and that server's number for it.
pub(crate) type Lost = (Option<Endpoint>, i64);

/// What all workers know of the membership.
#[derive(Debug)]
pub(crate) struct Membership {
    id: String,
    /// Whether the layout that workers have may be served.
    serving: AtomicBool,
    /// Why not, once that is known.
    trouble: Mutex<Option<Arc<str>>>,
    /// Connections, by the server's numbers, that were lost with commands under way.
    lost: Mutex<BTreeSet<Lost>>,
    /// A connection has seen something else than is served.
    pub(crate) stirred: Notify,
}

/// What a connection that is new finds by its look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// It may be used.
    Fine,
    /// Not now: the layout is being changed, or is another.
    Later,
}

impl Membership {
    /// A membership that has yet to look for the first time.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        Ok(Self {
            id: format!("{:016x}", getrandom::u64()?),
            serving: AtomicBool::new(false),
            trouble: Mutex::new(None),
            lost: Mutex::default(),
            stirred: Notify::new(),
        })
    }

    /// The name of this proxy's connections, for CLIENT LIST.
    pub(crate) fn connection_name(&self) -> String {
        member_name(&self.id)
    }

    /// Its id among the members.
    pub(crate) fn id(&self) -> &[u8] {
        self.id.as_bytes()
    }

    /// Whether requests may begin, as far as all workers are concerned.
    pub(crate) fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Acquire)
    }

    /// Why not, where that is known.
    pub(crate) fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why requests are refused, where they are and that is known.
    pub(crate) fn refuses_for(&self) -> Option<Arc<str>> {
        self.trouble().filter(|_| !self.is_serving())
    }

    /// Notes that a connection was lost while commands on it were under way: the server may yet carry them out.
    pub(crate) fn note_lost(&self, connection: Lost) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).insert(connection);
    }

    /// The server has given this number to a connection now: the one that had it before is gone, as the server began anew.
    pub(crate) fn note_opened(&self, connection: &Lost) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).remove(connection);
    }

    /// Appends the look by which a connection begins, once it is named; it has one reply, for [`Self::check`].
    pub(crate) fn question(wire: &mut Vec<u8>) {
        write_command(wire, &[b"MGET", CHANGE_KEY, LAYOUT_KEY, COPY_KEY]);
    }

    /// Whether a connection that saw this may carry requests by the layout that is served. Where it may not, the
    /// keeper looks at once.
    ///
    /// # Errors
    /// What the server said instead.
    pub(crate) fn check(&self, reply: &[u8], served: &Folding) -> Result<Checked, String> {
        let Ok(Reply::Array(mut parts)) = Reply::parse(reply) else {
            return Err(said(reply));
        };
        let mut bytes = || parts.next().and_then(Reply::bytes);
        let (announcement, layout, copy) = (bytes(), bytes(), bytes());
        let holds = Announcement::holds(announcement);
        if !holds && served.is_in_force(layout, copy) {
            return Ok(Checked::Fine);
        }
        self.stirred.notify_one();
        Ok(Checked::Later)
    }

    /// Lets requests begin, or not, and says why.
    pub(crate) fn set_serving(&self, serving: bool, trouble: Option<&str>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble.map(Arc::from);
        self.serving.store(serving, Ordering::Release);
    }

    /// The connections that were lost with commands under way.
    pub(crate) fn lost(&self) -> BTreeSet<Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether there are so many that they are to be closed though nothing depends on it yet.
    pub(crate) fn has_many_lost(&self) -> bool {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).len() > MANY_LOST
    }

    /// These are known to be closed.
    pub(crate) fn forget_lost(&self, closed: &BTreeSet<Lost>) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).retain(|lost| !closed.contains(lost));
    }
}

/// A server's error, without what marks it as one.
pub(crate) fn said(reply: &[u8]) -> String {
    let text = reply.strip_prefix(b"-").unwrap_or(reply);
    String::from_utf8_lossy(text).trim_end().to_owned()
}
