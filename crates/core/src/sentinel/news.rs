//! What Sentinels tell whoever listens. It is never gone by, only a reason to ask at once.

use super::Sentinels;
use crate::resp::{Reply, write_command};

/// What a Sentinel publishes as soon as it knows another primary: the one that replaces it by itself first, the others
/// by the second.
const CHANNELS: [&[u8]; 2] = [b"+promoted-slave", b"+switch-master"];

/// What a listener was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It listens now on this many channels.
    Listening,
    /// There may be another primary.
    Moved,
    /// Nothing that concerns this primary.
    Other,
}

impl News {
    /// Writes what makes a connection one that listens. Each word of it has a reply, and then come messages.
    pub fn listen(sentinels: &Sentinels, wire: &mut Vec<u8>) {
        sentinels.authenticate(wire);
        let [promoted, switched] = CHANNELS;
        write_command(wire, &[b"SUBSCRIBE", promoted, switched]);
    }

    /// Reads a reply or a message.
    ///
    /// # Errors
    /// The Sentinel's error.
    pub fn read(raw: &[u8], sentinels: &Sentinels) -> Result<Self, String> {
        let mut parts = match Reply::parse(raw) {
            Ok(Reply::Error(error)) => return Err(String::from_utf8_lossy(error).into_owned()),
            Ok(Reply::Array(parts)) => parts,
            _ => return Ok(Self::Other),
        };
        let mut part = || parts.next().and_then(Reply::bytes);
        Ok(match (part(), part(), part()) {
            (Some(b"subscribe"), ..) => Self::Listening,
            (Some(b"message"), Some(_), Some(text)) if concerns(text, &sentinels.name) => Self::Moved,
            _ => Self::Other,
        })
    }
}

/// `NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT`, or `slave SERVER HOST PORT @ NAME HOST PORT`.
fn concerns(message: &[u8], name: &str) -> bool {
    let mut words = message.split(|byte| *byte == b' ');
    words.clone().next() == Some(name.as_bytes())
        || words.by_ref().any(|word| word == b"@") && words.next() == Some(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_concerns_the_name_is_news() {
        let sentinels = Sentinels { endpoints: Vec::new(), name: "main".to_owned(), user: None, password: None };
        let read = |parts: [&str; 3]| {
            let bulk: String = parts.iter().map(|part| format!("${}\r\n{part}\r\n", part.len())).collect();
            News::read(format!("*3\r\n{bulk}").as_bytes(), &sentinels)
        };
        let switched = |text| read(["message", "+switch-master", text]);
        assert_eq!(switched("main 10.0.0.1 6379 10.0.0.2 6379"), Ok(News::Moved));
        assert_eq!(switched("other 10.0.0.1 6379 10.0.0.2 6379"), Ok(News::Other));
        let promoted = |text| read(["message", "+promoted-slave", text]);
        assert_eq!(promoted("slave 10.0.0.2:6379 10.0.0.2 6379 @ main 10.0.0.1 6379"), Ok(News::Moved));
        assert_eq!(promoted("slave main 10.0.0.2 6379 @ other 10.0.0.1 6379"), Ok(News::Other));
        assert_eq!(News::read(b"*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", &sentinels), Ok(News::Listening));
        assert_eq!(News::read(b"+OK\r\n", &sentinels), Ok(News::Other));
        assert_eq!(News::read(b"-NOAUTH no\r\n", &sentinels), Err("NOAUTH no".to_owned()));
    }
}
