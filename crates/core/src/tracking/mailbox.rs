//! What a client is still to be told to forget, left for it by whoever learns of it, on any thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;

/// A logical key, shared by all who are told of it.
pub(crate) type Key = Arc<[u8]>;

/// More keys than this are as good as all: a client that doesn't take what it is told costs no more memory.
const MOST_KEYS: usize = 1 << 16;

/// What a client is to forget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stale {
    all: bool,
    keys: Vec<Key>,
}

impl Stale {
    /// Everything.
    pub(crate) fn all() -> Self {
        Self { all: true, keys: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.keys.is_empty()
    }

    /// Whether it is everything.
    pub(crate) fn is_all(&self) -> bool {
        self.all
    }

    /// The keys, where it isn't everything.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(crate) fn add(&mut self, key: &Key) {
        if self.all {
            return;
        }
        if self.keys.len() >= MOST_KEYS {
            return self.add_all();
        }
        self.keys.push(Arc::clone(key));
    }

    pub(crate) fn add_all(&mut self) {
        *self = Self::all();
    }

    pub(crate) fn absorb(&mut self, other: &Self) {
        if other.all {
            self.add_all();
        }
        other.keys.iter().for_each(|key| self.add(key));
    }
}

/// What has come for a client since it last looked.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    /// Of what it read itself, or asked to hear of.
    pub(crate) own: Stale,
    /// What other clients have redirected to it.
    pub(crate) redirected: Stale,
}

/// Where it waits.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    mail: Mutex<Mail>,
    any: AtomicBool,
    task: OnceLock<Waker>,
}

impl Mailbox {
    /// Says how to wake who looks into it.
    pub(crate) fn set_task(&self, task: &Waker) {
        self.task.get_or_init(|| task.clone());
    }

    /// Leaves something of the client's own.
    pub(crate) fn post(&self, add: impl FnOnce(&mut Stale)) {
        self.change(|mail| add(&mut mail.own));
    }

    /// Leaves what another client has redirected here.
    pub(crate) fn post_redirected(&self, stale: &Stale) {
        self.change(|mail| mail.redirected.absorb(stale));
    }

    /// Takes back what was left of the client's own about these keys.
    pub(crate) fn retract(&self, is_meant: impl Fn(&Key) -> bool) {
        if self.any.load(Ordering::Acquire) {
            let mut mail = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
            mail.own.keys.retain(|key| !is_meant(key));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Mail)) {
        change(&mut self.mail.lock().unwrap_or_else(PoisonError::into_inner));
        if !self.any.swap(true, Ordering::AcqRel)
            && let Some(task) = self.task.get()
        {
            task.wake_by_ref();
        }
    }

    /// Takes what has come, if anything.
    pub(crate) fn take(&self) -> Option<Mail> {
        let any = self.any.load(Ordering::Acquire) && self.any.swap(false, Ordering::AcqRel);
        any.then(|| std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_is_taken_once_and_does_not_grow_without_end() {
        let mailbox = Mailbox::default();
        assert!(mailbox.take().is_none());
        let key = Key::from(&b"k"[..]);
        mailbox.post(|own| own.add(&key));
        let mail = mailbox.take().unwrap();
        assert_eq!((mail.own.keys(), mail.redirected.is_empty()), (&[Arc::clone(&key)][..], true));
        assert!(mailbox.take().is_none());
        (0..=MOST_KEYS).for_each(|_| mailbox.post(|own| own.add(&key)));
        mailbox.post_redirected(&Stale::all());
        let mail = mailbox.take().unwrap();
        assert!(mail.own.is_all() && mail.own.keys().is_empty() && mail.redirected.is_all());
    }
}
