//! Keyspace notifications of folded keys: what a plain server publishes when keys change, by logical names.
//!
//! A server whose `notify-keyspace-events` asks for it publishes each change of a key. Of folded keys it publishes what
//! happens to buckets, which means nothing to clients. So keyfold publishes the events of folded keys itself, by PUBLISH in
//! the same step that writes: whoever is subscribed at the server hears them, through this keyfold, another one or none. What
//! the server says of buckets never reaches clients of a keyfold.
//!
//! ```text
//! SET user:896 v EX 9 ──▶ EVALSHA compare-and-set: HSET ~hY3p:7 …        ──▶ the server's own: hset ~hY3p:7  (not shown)
//!                                                  PUBLISH __keyspace@0__:user:896 set     ──▶ every subscriber
//!                                                  PUBLISH __keyevent@0__:set user:896
//!                                                  … expire
//! ```
//!
//! What holds: an event is published if and only if its change is carried out, at the same moment. So while there is
//! anything to publish, every write of a folded key is worked out and compared ([`crate::exchange`]); while there is nothing,
//! no request goes another way for it.
//!
//! | module | what it holds |
//! | --- | --- |
//! | `classes` | `notify-keyspace-events` |
//! | `event` | the events, and which class each is of |
//! | `hearing` | what of the server's own events clients hear |

mod classes;
mod event;
mod hearing;

use std::sync::atomic::{AtomicU64, Ordering};

pub use classes::Classes;
pub use event::Event;
pub(crate) use hearing::{Heard, hear};

/// What is to be published, as the server behind has it set; shared by everything that serves clients.
#[derive(Debug, Default)]
pub struct Notifications {
    /// How often something was learned, and below that what.
    learned: AtomicU64,
}

/// What was known at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known(u64);

/// So many bits are the classes.
const CLASS_BITS: u32 = 16;

impl Known {
    fn classes(self) -> Classes {
        Classes::from_bits_truncate(u16::try_from(self.0 & u64::from(u16::MAX)).unwrap_or(0))
    }

    fn next(self, classes: Classes) -> Self {
        Self((self.0 >> CLASS_BITS).wrapping_add(1) << CLASS_BITS | u64::from(classes.bits()))
    }
}

impl Notifications {
    /// What is known, to be given to [`Self::follow_since`] with what a server said later.
    pub fn known(&self) -> Known {
        Known(self.learned.load(Ordering::Acquire))
    }

    /// Goes by what the server has set.
    pub fn follow(&self, classes: Classes) {
        let next = |learned| Some(Known(learned).next(classes).0);
        let _ = self.learned.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
    }

    /// Goes by what a server has said that was asked after `known`. What was learned meanwhile may be newer, and stays.
    pub fn follow_since(&self, known: Known, classes: Classes) {
        let next = known.next(classes);
        let _ = self.learned.compare_exchange(known.0, next.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// What is to be published of keys in this database; none where that is nothing.
    pub fn in_database(&self, database: u32) -> Option<Notices> {
        let classes = self.known().classes();
        classes.publish_anything().then_some(Notices { classes, database })
    }
}

/// What is to be published of the keys in one database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notices {
    classes: Classes,
    database: u32,
}

impl Notices {
    /// The same of the keys in another database.
    pub(crate) fn in_database(self, database: u32) -> Self {
        Self { database, ..self }
    }

    /// The same as a table of Lua: the beginnings of the channels of keys and of events, each or false, and the letters of the
    /// classes that folded keys have.
    pub(crate) fn in_lua(self) -> String {
        let Self { classes, database } = self;
        let channel = |way, name| match classes.contains(way) {
            true => format!("'__{name}@{database}__:'"),
            false => "false".to_owned(),
        };
        let [of_key, of_event] = [channel(Classes::KEYSPACE, "keyspace"), channel(Classes::KEYEVENT, "keyevent")];
        format!("{{{of_key},{of_event},'{}'}}", classes.letters())
    }

    /// The channels and messages of one event, in the server's order.
    pub(crate) fn messages(self, key: &[u8], event: Event) -> impl Iterator<Item = [Vec<u8>; 2]> {
        let Self { classes, database } = self;
        let (name, is_told) = (event.name().as_bytes(), classes.contains(event.class()));
        let of_key = (is_told && classes.contains(Classes::KEYSPACE))
            .then(|| [[format!("__keyspace@{database}__:").as_bytes(), key].concat(), name.to_vec()]);
        let of_event = (is_told && classes.contains(Classes::KEYEVENT))
            .then(|| [[format!("__keyevent@{database}__:").as_bytes(), name].concat(), key.to_vec()]);
        of_key.into_iter().chain(of_event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(setting: &str, event: Event) -> Vec<String> {
        let notifications = Notifications::default();
        notifications.follow(Classes::parse(setting.as_bytes()));
        let notices = notifications.in_database(3).unwrap();
        let text = |[channel, message]: [Vec<u8>; 2]| [channel, message].map(|part| String::from_utf8(part).unwrap());
        notices.messages(b"k", event).map(|message| text(message).join(" ")).collect()
    }

    #[test]
    fn each_event_is_told_of_its_key_and_by_its_name_as_is_asked() {
        assert_eq!(messages("KEA", Event::Set), ["__keyspace@3__:k set", "__keyevent@3__:set k"]);
        assert_eq!(messages("Kg$", Event::Del), ["__keyspace@3__:k del"]);
        assert_eq!(messages("Ex", Event::Expired), ["__keyevent@3__:expired k"]);
        assert_eq!(messages("Ex", Event::Set), Vec::<String>::new());
        assert_eq!(messages("KEA", Event::New), Vec::<String>::new());
        assert_eq!(messages("En", Event::New), ["__keyevent@3__:new k"]);
    }

    #[test]
    fn what_was_learned_last_counts_and_not_what_was_said_before() {
        let notifications = Notifications::default();
        assert_eq!(notifications.in_database(0), None);
        let before = notifications.known();
        notifications.follow(Classes::parse(b"KEA"));
        assert!(notifications.in_database(0).is_some());
        notifications.follow_since(before, Classes::parse(b""));
        assert!(notifications.in_database(0).is_some());
        notifications.follow_since(notifications.known(), Classes::parse(b""));
        assert_eq!(notifications.in_database(0), None);
    }
}
