//! What of the events that a server publishes its subscribers hear through keyfold.
//!
//! Events of plain keys pass, and so do those that keyfolds publish of folded ones. What the server itself says of buckets, of
//! spilled values and of keyfold's own keys doesn't. Keys of their own under short names expire and are evicted by the server
//! alone, and nobody else knows when: those two events are told by the logical name.

use crate::glob;
use crate::layout::{Layout, Physical};
use crate::resp::Reply;

/// What becomes of a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It goes to the client as it came.
    AsItCame,
    /// The client doesn't hear it.
    Nothing,
    /// It goes to the client as this.
    Instead(Vec<u8>),
}

/// Of which key an event tells, and where its name stands.
enum Told<'m> {
    /// `__keyspace@0__:key`: behind this much of the channel.
    OnChannel(&'m [u8]),
    /// `__keyevent@0__:event`: it is the message.
    AsMessage,
}

/// Says what a client is to hear of a message, by the layout in use.
pub(crate) fn hear(raw: &[u8], layout: &Layout) -> Heard {
    read(raw, layout).unwrap_or(Heard::AsItCame)
}

/// None where it is no event of a key.
fn read(raw: &[u8], layout: &Layout) -> Option<Heard> {
    let Ok(Reply::Array(mut parts)) = Reply::parse(raw) else { return None };
    let mut next = || parts.next().and_then(Reply::bytes);
    let pattern = match next()? {
        b"message" => None,
        b"pmessage" => Some(next()?),
        _ => return None,
    };
    let (channel, message) = (next()?, next()?);
    let (told, event, name) = match channel.strip_prefix(b"__keyspace@") {
        Some(rest) => {
            let key = behind_database(rest)?;
            (Told::OnChannel(&channel[..channel.len() - key.len()]), message, key)
        }
        None => (Told::AsMessage, behind_database(channel.strip_prefix(b"__keyevent@")?)?, message),
    };
    let key = match layout.read_physical(name) {
        Physical::Plain => return Some(Heard::AsItCame),
        Physical::Zipped { key, .. } if matches!(event, b"expired" | b"evicted") => key,
        _ => return Some(Heard::Nothing),
    };
    let (channel, message) = match told {
        Told::OnChannel(before) => ([before, &key].concat(), message.to_vec()),
        Told::AsMessage => (channel.to_vec(), key),
    };
    match pattern {
        Some(pattern) if glob::matches(pattern, &channel) => {
            Some(Heard::Instead(push(raw, &[b"pmessage", pattern, &channel, &message])))
        }
        None if matches!(told, Told::AsMessage) => Some(Heard::Instead(push(raw, &[b"message", &channel, &message]))),
        _ => Some(Heard::Nothing),
    }
}

/// What stands behind `0__:`.
fn behind_database(text: &[u8]) -> Option<&[u8]> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text[digits..].strip_prefix(b"__:").filter(|_| digits > 0)
}

/// A message of the same kind as the one that came.
fn push(like: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let mut whole = Vec::new();
    crate::resp::write_command(&mut whole, parts);
    // Commands are arrays of strings, as messages are in RESP2.
    whole[0] = like[0];
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: &str = r#"
[[namespace]]
keys = "user:{id:int}"
bucket = { span = 128 }

[[namespace]]
keys = "session:{id:uuid}"
"#;

    fn message(kind: char, parts: &[&[u8]]) -> Vec<u8> {
        let mut whole = Vec::new();
        crate::resp::write_command(&mut whole, parts);
        whole[0] = u8::try_from(kind).unwrap();
        whole
    }

    fn heard(parts: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let [resp2, resp3] = ['*', '>'].map(|kind| {
            let raw = message(kind, parts);
            match hear(&raw, &layout) {
                Heard::AsItCame => Some(raw[1..].to_vec()),
                Heard::Nothing => None,
                Heard::Instead(other) => {
                    assert_eq!(other[0], raw[0]);
                    Some(other[1..].to_vec())
                }
            }
        });
        assert_eq!(resp2, resp3);
        let whole = [b"*", &resp2?[..]].concat();
        let Ok(Reply::Array(parts)) = Reply::parse(&whole) else { panic!("no array") };
        Some(parts.map(|part| part.bytes().unwrap().to_vec()).collect())
    }

    fn passes(parts: &[&[u8]]) -> bool {
        let heard = heard(parts);
        assert!(heard.as_ref().is_none_or(|heard| *heard == parts), "{heard:?}");
        heard.is_some()
    }

    fn physical(key: &[u8]) -> Vec<u8> {
        Layout::parse_file(LAYOUT).unwrap().locate(key).place().unwrap().physical.to_vec()
    }

    #[test]
    fn events_of_buckets_are_not_heard() {
        let bucket = physical(b"user:7");
        let on_channel = [b"__keyspace@0__:", &bucket[..]].concat();
        assert!(!passes(&[b"message", &on_channel, b"hset"]));
        assert!(!passes(&[b"pmessage", b"__key*", &on_channel, b"hset"]));
        assert!(!passes(&[b"message", b"__keyevent@12__:hset", &bucket]));
        assert!(!passes(&[b"pmessage", b"*", b"__keyevent@0__:evicted", &bucket]));
        assert!(!passes(&[b"message", b"__keyevent@0__:set", b"keyfold:layout"]));
        assert!(!passes(&[b"message", b"__keyspace@0__:~nobody's", b"set"]));
    }

    #[test]
    fn all_else_is() {
        assert!(passes(&[b"message", b"__keyspace@0__:user:7", b"set"]));
        assert!(passes(&[b"pmessage", b"__keyevent@*", b"__keyevent@0__:set", b"user:7"]));
        assert!(passes(&[b"message", b"__keyspace@0__:plain", b"lpush"]));
        assert!(passes(&[b"message", b"news", b"~text"]));
        assert!(passes(&[b"message", b"__keyspace@x__:~a", b"set"]));
        assert!(passes(&[b"message", b"__keyspace@__:~a", b"set"]));
        assert!(passes(&[b"smessage", b"__keyspace@0__:~a", b"set"]));
        assert!(passes(&[b"subscribe", b"__keyspace@0__:~a", b"1"]));
    }

    #[test]
    fn what_a_server_does_to_keys_of_their_own_is_told_by_their_names() {
        let key = b"session:0b8a3e0e-6b0f-4d3c-9e52-1f8f3c3a7b11";
        let short = physical(key);
        assert_ne!(short, key);
        let on_channel = [b"__keyspace@0__:", &short[..]].concat();
        let logical = [b"__keyspace@0__:", &key[..]].concat();
        let told = |parts: &[&[u8]]| heard(parts).map(|heard| heard.concat());
        assert_eq!(
            told(&[b"message", b"__keyevent@0__:expired", &short]),
            Some([&b"message__keyevent@0__:expired"[..], key].concat())
        );
        assert_eq!(
            told(&[b"pmessage", b"*", &on_channel, b"evicted"]),
            Some([&b"pmessage*"[..], &logical, b"evicted"].concat())
        );
        // What keyfold does there it tells itself.
        assert_eq!(told(&[b"message", b"__keyevent@0__:set", &short]), None);
        assert_eq!(told(&[b"pmessage", b"__keyspace@0__:~*", &on_channel, b"expired"]), None);
        assert_eq!(told(&[b"message", &on_channel, b"expired"]), None);
    }

    #[test]
    fn names_of_keyfolds_own_are_nobodys_without_a_layout_too() {
        for name in [&b"~wYPm|42d3t3"[..], b"~tnrO:0", b"keyfold:{home}:change"] {
            for parts in [
                [&b"message"[..], b"__keyevent@0__:del", name],
                [b"message", &[b"__keyspace@0__:", name].concat(), b"del"],
            ] {
                assert_eq!(hear(&message('*', &parts), &Layout::default()), Heard::Nothing, "{}", name.escape_ascii());
            }
        }
        let plain = message('*', &[b"message", b"__keyevent@0__:del", b"user:1"]);
        assert_eq!(hear(&plain, &Layout::default()), Heard::AsItCame);
    }
}
