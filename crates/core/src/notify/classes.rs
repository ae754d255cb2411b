//! `notify-keyspace-events`: which events a server publishes, and how.

use crate::resp::Reply;

bitflags::bitflags! {
    /// What is published, as far as it concerns what keyfold folds.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Classes: u16 {
        /// `K`: on a channel of the key, the event is the message.
        const KEYSPACE = 1;
        /// `E`: on a channel of the event, the key is the message.
        const KEYEVENT = 1 << 1;
        /// `g`: what may happen to keys of every type.
        const GENERIC = 1 << 2;
        /// `$`: commands on strings.
        const STRING = 1 << 3;
        /// `x`: keys that have expired, when they are removed.
        const EXPIRED = 1 << 4;
        /// `n`: keys that weren't there before.
        const NEW = 1 << 5;
        /// `e`: keys that were removed, as memory was short.
        const EVICTED = 1 << 6;
        /// `s`: commands on sets.
        const SET = 1 << 7;
        /// `h`: commands on hashes.
        const HASH = 1 << 8;
    }
}

/// The name of the setting.
const SETTING: &[u8] = b"notify-keyspace-events";

impl Classes {
    /// Reads the setting. What concerns other types, or nothing that keyfold publishes, is passed over.
    pub fn parse(setting: &[u8]) -> Self {
        let class = |flag: &u8| match flag {
            b'K' => Self::KEYSPACE,
            b'E' => Self::KEYEVENT,
            b'g' => Self::GENERIC,
            b'$' => Self::STRING,
            b'x' => Self::EXPIRED,
            b'n' => Self::NEW,
            b'e' => Self::EVICTED,
            b's' => Self::SET,
            b'h' => Self::HASH,
            b'A' => Self::GENERIC | Self::STRING | Self::SET | Self::HASH | Self::EXPIRED | Self::EVICTED,
            _ => Self::empty(),
        };
        setting.iter().map(class).collect()
    }

    /// The letters of the classes, as the setting has them.
    pub(crate) fn letters(self) -> String {
        let letters = [
            (Self::GENERIC, 'g'),
            (Self::STRING, '$'),
            (Self::SET, 's'),
            (Self::HASH, 'h'),
            (Self::EXPIRED, 'x'),
            (Self::NEW, 'n'),
        ];
        letters.into_iter().filter_map(|(class, letter)| self.contains(class).then_some(letter)).collect()
    }

    /// Writes the command that asks a server for the setting; it has one reply.
    pub fn ask(wire: &mut Vec<u8>) {
        crate::resp::write_command(wire, &[b"CONFIG", b"GET", SETTING]);
    }

    /// Reads the reply to [`Self::ask`], in RESP2 or RESP3; none where the server doesn't say.
    pub fn read(reply: &[u8]) -> Option<Self> {
        let Ok(Reply::Array(mut parts) | Reply::Map(mut parts)) = Reply::parse(reply) else { return None };
        let (name, setting) = (parts.next()?.bytes()?, parts.next()?.bytes()?);
        name.eq_ignore_ascii_case(SETTING).then(|| Self::parse(setting))
    }

    /// Whether anything is to be published.
    pub fn publish_anything(self) -> bool {
        let ways = Self::KEYSPACE | Self::KEYEVENT;
        self.intersects(ways) && self.intersects(ways.complement())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        assert_eq!(Classes::parse(b"KEA"), Classes::parse(b"KEg$shxe"));
        assert_eq!(Classes::parse(b"lztdm"), Classes::empty());
        for (setting, publishes) in
            [("", false), ("KE", false), ("A", false), ("KEl", false), ("Ex", true), ("Kn", true)]
        {
            assert_eq!(Classes::parse(setting.as_bytes()).publish_anything(), publishes, "{setting}");
        }
    }

    #[test]
    fn replies_of_either_protocol_are_read() {
        let resp2 = b"*2\r\n$22\r\nnotify-keyspace-events\r\n$2\r\nxE\r\n";
        let resp3 = b"%1\r\n$22\r\nnotify-keyspace-events\r\n$2\r\nxE\r\n";
        assert_eq!(Classes::read(resp2), Some(Classes::EXPIRED | Classes::KEYEVENT));
        assert_eq!(Classes::read(resp3), Some(Classes::EXPIRED | Classes::KEYEVENT));
        assert_eq!(Classes::read(b"*2\r\n$22\r\nnotify-keyspace-events\r\n$0\r\n\r\n"), Some(Classes::empty()));
        assert_eq!(Classes::read(b"*0\r\n"), None);
        assert_eq!(Classes::read(b"-NOPERM no\r\n"), None);
    }
}
