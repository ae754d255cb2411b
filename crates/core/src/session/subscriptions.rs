//! What a client is subscribed to, told from the confirmations that pass by.

use std::collections::BTreeSet;

use crate::access::User;
use crate::command::Id;
use crate::resp::{Protocol, Reply};

/// A client's subscriptions.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    channels: BTreeSet<Vec<u8>>,
    patterns: BTreeSet<Vec<u8>>,
    shards: BTreeSet<Vec<u8>>,
    awaited: usize,
    /// What was asked for since no confirmation was awaited; some of it may have been confirmed.
    asked_channels: Vec<Vec<u8>>,
    asked_patterns: Vec<Vec<u8>>,
    /// A sharded channel has left the node, with its slot.
    cut: bool,
}

impl Subscriptions {
    /// Whether the connection has state of this kind.
    pub(crate) fn active(&self) -> bool {
        self.awaited > 0 || self.subscribed()
    }

    /// Whether the client is subscribed to anything.
    pub(crate) fn subscribed(&self) -> bool {
        !(self.channels.is_empty() && self.patterns.is_empty() && self.shards.is_empty())
    }

    /// Whether a user may be subscribed to all of it, and to what is under way.
    pub(crate) fn are_allowed(&self, user: &User) -> bool {
        let channels = self.channels.iter().chain(&self.shards).chain(&self.asked_channels);
        let patterns = self.patterns.iter().chain(&self.asked_patterns);
        user.may_listen(channels.map(Vec::as_slice), patterns.map(Vec::as_slice))
    }

    /// Whether the server has ended a subscription by itself.
    pub(crate) fn are_cut(&self) -> bool {
        self.cut
    }

    /// How many channels, patterns and sharded channels.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.channels.len(), self.patterns.len(), self.shards.len())
    }

    /// Whether confirmations are still to come.
    pub(crate) fn awaited(&self) -> bool {
        self.awaited > 0
    }

    /// SUBSCRIBE, UNSUBSCRIBE or one of their kin was sent, with these names.
    pub(crate) fn begin(&mut self, command: Id, names: &[&[u8]]) {
        let asked = match command {
            Id::Subscribe | Id::Ssubscribe => Some(&mut self.asked_channels),
            Id::Psubscribe => Some(&mut self.asked_patterns),
            _ => None,
        };
        asked.into_iter().for_each(|asked| asked.extend(names.iter().map(|name| name.to_vec())));
        let all = match command {
            Id::Unsubscribe => self.channels.len(),
            Id::Punsubscribe => self.patterns.len(),
            Id::Sunsubscribe => self.shards.len(),
            _ => 0,
        };
        // UNSUBSCRIBE without a channel is confirmed once for each, and once where there is none.
        self.awaited += if names.is_empty() { all.max(1) } else { names.len() };
    }

    /// Looks at a reply; true when it is a push or a confirmation.
    pub(crate) fn handle_push(&mut self, raw: &[u8], protocol: Protocol) -> bool {
        match (raw.first(), protocol) {
            // SUBSCRIBE was refused; nothing else can be answered while confirmations are awaited.
            (Some(b'-'), _) if self.awaited > 0 => {
                self.awaited = 0;
                self.forget_asked();
                true
            }
            (Some(b'>'), _) => {
                self.note(raw);
                true
            }
            (Some(b'*'), Protocol::Resp2) if self.active() => self.note(raw),
            _ => false,
        }
    }

    /// Keeps up with a confirmation; false where this is no message of pub/sub.
    fn note(&mut self, raw: &[u8]) -> bool {
        let Ok(Reply::Array(mut parts)) = Reply::parse(raw) else { return false };
        let (Some(Reply::Bulk(kind)), Some(name)) = (parts.next(), parts.next()) else { return false };
        let (set, added) = match kind {
            b"subscribe" => (&mut self.channels, true),
            b"psubscribe" => (&mut self.patterns, true),
            b"ssubscribe" => (&mut self.shards, true),
            b"unsubscribe" => (&mut self.channels, false),
            b"punsubscribe" => (&mut self.patterns, false),
            b"sunsubscribe" => {
                self.cut |= self.awaited == 0;
                (&mut self.shards, false)
            }
            b"message" | b"pmessage" | b"smessage" => return true,
            _ => return false,
        };
        if let Some(name) = name.bytes() {
            if added {
                set.insert(name.to_vec())
            } else {
                set.remove(name)
            };
        }
        self.awaited = self.awaited.saturating_sub(1);
        if self.awaited == 0 {
            self.forget_asked();
        }
        true
    }

    fn forget_asked(&mut self) {
        (self.asked_channels, self.asked_patterns) = (Vec::new(), Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Users;

    #[test]
    fn confirmations_are_counted_and_messages_pass() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.begin(Id::Subscribe, &[b"a", b"b"]);
        assert!(subscriptions.handle_push(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", Protocol::Resp2));
        assert!(subscriptions.awaited());
        assert!(subscriptions.handle_push(b"*3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n", Protocol::Resp2));
        assert!(!subscriptions.awaited());
        assert!(subscriptions.handle_push(b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nx\r\n", Protocol::Resp2));
        assert!(!subscriptions.handle_push(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n", Protocol::Resp2));
        subscriptions.begin(Id::Unsubscribe, &[]);
        assert!(subscriptions.handle_push(b"*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n", Protocol::Resp2));
        assert!(subscriptions.active());
        assert!(subscriptions.handle_push(b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n", Protocol::Resp2));
        assert!(!subscriptions.active());
    }

    #[test]
    fn what_is_under_way_is_judged_as_what_was_confirmed() {
        let user = |rules: &str| {
            let users = Users::parse(format!("user s on nopass resetchannels {rules} +@all").as_bytes()).unwrap();
            users.find(b"s").unwrap()
        };
        let (other, both, pattern) = (user("&other"), user("&other &secret"), user("&p*"));
        let mut subscriptions = Subscriptions::default();
        assert!(subscriptions.are_allowed(&other));
        subscriptions.begin(Id::Subscribe, &[b"other", b"secret"]);
        assert!(!subscriptions.are_allowed(&other) && subscriptions.are_allowed(&both));
        assert!(subscriptions.handle_push(b"*3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:1\r\n", Protocol::Resp2));
        assert!(!subscriptions.are_allowed(&other), "one is still to be confirmed");
        assert!(subscriptions.handle_push(b"*3\r\n$9\r\nsubscribe\r\n$6\r\nsecret\r\n:2\r\n", Protocol::Resp2));
        assert!(!subscriptions.are_allowed(&other) && subscriptions.are_allowed(&both));
        // Refused by the server it is nothing.
        let mut subscriptions = Subscriptions::default();
        subscriptions.begin(Id::Ssubscribe, &[b"secret"]);
        assert!(!subscriptions.are_allowed(&other));
        assert!(subscriptions.handle_push(b"-MOVED 7 127.0.0.1:7001\r\n", Protocol::Resp2));
        assert!(subscriptions.are_allowed(&other));
        subscriptions.begin(Id::Psubscribe, &[b"p*"]);
        assert!(!subscriptions.are_allowed(&other) && subscriptions.are_allowed(&pattern));
    }

    #[test]
    fn unsubscribing_from_nothing_is_confirmed_once() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.begin(Id::Unsubscribe, &[]);
        assert!(subscriptions.handle_push(b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n", Protocol::Resp2));
        assert!(!subscriptions.active());
    }

    #[test]
    fn a_refusal_ends_the_wait() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.begin(Id::Subscribe, &[b"a"]);
        assert!(subscriptions.handle_push(b"-NOPERM no\r\n", Protocol::Resp3));
        assert!(!subscriptions.active());
    }
}
