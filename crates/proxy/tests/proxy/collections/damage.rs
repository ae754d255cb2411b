//! Stored values that are no collection of their namespace: told by key, left as they are, in nobody's way, and deleted.

use keyfold_core::layout::{Layout, Located};
use keyfold_testkit::Wire;

use super::LAYOUT;
use crate::stage::{Stage, eventually, proxy_before, start_server};

/// Stored values, and what is said of them where a set and where a hash is to lie.
const DAMAGED: [(&[u8], &str, &str); 9] = [
    (b"plain text", "no packed collection begins with the byte 0x70", "no packed collection begins with the byte 0x70"),
    (b"\x40\x05abc", "ends in the middle", "ends in the middle"),
    (b"\x40\x01a\x01a", "has a member twice", "has a member twice"),
    (b"\x40\xca", "a member that can", "a member that can"),
    (b"\x42\x01f", "ends in the middle", "ends in the middle"),
    (b"\x41\xd1\x00", "has a member twice", "has a member twice"),
    // What is well in the other type's namespace, and is not read as this one's.
    (b"\x42\x01f\x01v\x01g\x01w", "a packed hash lies where the namespace has a set", ""),
    (b"\x40\x01a", "", "a packed set lies where the namespace has a hash"),
    (b"\x1f", "unknown tag 0x1f", "unknown tag 0x1f"),
];

/// Commands that have to read what their key holds.
const OF_SETS: [&str; 16] = [
    "SADD k a",
    "SREM k a",
    "SCARD k",
    "SISMEMBER k a",
    "SMISMEMBER k a b",
    "SMEMBERS k",
    "SPOP k",
    "SRANDMEMBER k 2",
    "SSCAN k 0",
    "SMOVE k tags:2 a",
    "SMOVE tags:2 k fine",
    "SINTER tags:2 k",
    "SUNIONSTORE tags:3 tags:2 k",
    "SUNIONSTORE plain k",
    "RENAME k plain",
    "COPY k tags:3",
];
const OF_HASHES: [&str; 14] = [
    "HSET k f v",
    "HSETNX k f v",
    "HDEL k f",
    "HGET k f",
    "HMGET k f g",
    "HGETALL k",
    "HLEN k",
    "HINCRBY k f 1",
    "HINCRBYFLOAT k f 1",
    "HEXPIRE k 100 FIELDS 1 f",
    "HRANDFIELD k",
    "HSCAN k 0",
    "DUMP k",
    "RENAME k sess:3",
];

fn stage() -> Stage {
    let server = start_server(&[]);
    Stage { proxy: proxy_before(&server, LAYOUT), server }
}

fn ask(wire: &mut Wire, text: &str) -> String {
    wire.call(&text.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap().escape_ascii().to_string()
}

/// Puts these bytes where a key's value lies.
fn store(server: &mut Wire, key: &str, stored: &[u8]) {
    let Located::Placed(place) = Layout::parse_file(LAYOUT).unwrap().locate(key.as_bytes()) else { panic!("{key}") };
    server.call(&[b"HSET", &place.physical, &place.field, stored]).unwrap();
}

fn stored(server: &mut Wire, key: &str) -> Option<Vec<u8>> {
    let Located::Placed(place) = Layout::parse_file(LAYOUT).unwrap().locate(key.as_bytes()) else { panic!("{key}") };
    server.ask(&[b"HGET", &place.physical, &place.field]).unwrap().bytes().map(<[u8]>::to_vec)
}

#[test]
fn what_is_no_such_collection_is_told_by_its_key_and_left_as_it_is() {
    let stage = stage();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    ask(&mut client, "SADD tags:2 fine");
    ask(&mut client, "HSET sess:2 fine too");
    for (bytes, of_set, of_hash) in DAMAGED {
        for (key, why, commands) in [("tags:1", of_set, &OF_SETS[..]), ("sess:1", of_hash, &OF_HASHES)] {
            if why.is_empty() {
                continue;
            }
            store(&mut server, key, bytes);
            for command in commands {
                let command = command.replace(" k", &format!(" {key}"));
                let said = ask(&mut client, &command);
                let is_told = said.starts_with("-ERR keyfold: ") && said.contains(key) && said.contains(why);
                assert!(is_told, "{command} of {}: {said}", bytes.escape_ascii());
            }
            // In a transaction it keeps all else from being done.
            for line in
                ["MULTI", "SADD tags:9 x", &format!("{} {key} x y", if key == "tags:1" { "SADD" } else { "HSET" })]
            {
                ask(&mut client, line);
            }
            let said = ask(&mut client, "EXEC");
            assert!(said.contains(key) && said.contains(why), "EXEC: {said}");
            assert_eq!(stored(&mut server, key).as_deref(), Some(bytes), "it is left as it is");
            assert_eq!(ask(&mut client, "EXISTS tags:1 sess:1 tags:2 sess:2 tags:3 tags:9 sess:3 plain"), ":3\\r\\n");
            assert_eq!(ask(&mut client, "SMEMBERS tags:2"), "*1\\r\\n$4\\r\\nfine\\r\\n");
            assert_eq!(ask(&mut client, "HGETALL sess:2"), "*2\\r\\n$4\\r\\nfine\\r\\n$3\\r\\ntoo\\r\\n");
            assert_eq!(ask(&mut client, &format!("DEL {key}")), ":1\\r\\n");
            // A key of keyfold's own that comes between two of its steps is taken off.
            eventually("both others are counted", || ask(&mut client, "DBSIZE") == ":2\\r\\n");
        }
    }
}

#[test]
fn one_that_cannot_be_read_may_be_replaced_where_nobody_has_to_read_it() {
    let stage = stage();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    ask(&mut client, "SADD tags:2 fine");
    for (bytes, why, _) in DAMAGED.into_iter().filter(|(_, why, _)| !why.is_empty()) {
        store(&mut server, "tags:1", bytes);
        assert_eq!(ask(&mut client, "TYPE tags:1"), "+set\\r\\n", "{why}");
        assert_eq!(ask(&mut client, "SUNIONSTORE tags:1 tags:2"), ":1\\r\\n", "{why}");
        assert_eq!(ask(&mut client, "SMEMBERS tags:1"), "*1\\r\\n$4\\r\\nfine\\r\\n", "{why}");
        store(&mut server, "tags:1", bytes);
        assert_eq!(ask(&mut client, "UNLINK tags:1"), ":1\\r\\n", "{why}");
    }
}

#[test]
fn one_whose_spilled_value_was_cut_is_told_and_comes_back_with_it() {
    let stage = stage();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    let names: Vec<String> = (0..20).map(|at| format!("field{at} value{at}")).collect();
    assert_eq!(ask(&mut client, &format!("HSET sess:1 {}", names.join(" "))), ":20\\r\\n");
    let spills = server.ask(&[b"KEYS", b"~*!*"]).unwrap();
    let name = spills.elements().unwrap()[0].bytes().unwrap().to_vec();
    let whole = server.ask(&[b"GET", &name]).unwrap().bytes().unwrap().to_vec();
    server.call(&[b"SET", &name, &whole[..whole.len() - 3]]).unwrap();
    for command in OF_HASHES.iter().filter(|command| !command.starts_with("RENAME")) {
        let said = ask(&mut client, &command.replace(" k", " sess:1"));
        assert!(said.contains("sess:1") && said.contains("ends in the middle"), "{command}: {said}");
    }
    server.call(&[b"SET", &name, &whole]).unwrap();
    assert_eq!(ask(&mut client, "HLEN sess:1"), ":20\\r\\n");
    assert_eq!(ask(&mut client, "HGET sess:1 field19"), "$7\\r\\nvalue19\\r\\n");
}
