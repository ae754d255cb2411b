//! Values that can't be decoded: told by key and slot, counted, overwritten by nothing that would have to read them.

use keyfold_core::codec::{CodecRule, DictionaryId};
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_testkit::Wire;

use super::stage::{Stage, stage_with};

const LAYOUT: &str = "[[namespace]]\nkeys = \"user:{id:int}\"\nbucket = { span = 64 }\ncodec = \"zstd\"\n\n\
    [[namespace]]\nkeys = \"page:{path}\"\ncodec = \"zstd\"\n";
const BUCKET: &[u8] = b"~WOgb:0";
const PAGE: &[u8] = b"~dCtf=a";

/// What a field or a key of its own may hold that no codec wrote, and what is said of it.
const DAMAGED: [(&[u8], &str); 6] = [
    (b"\x10\xff\xff\xff\xff", "its stored value is damaged (codec slot 0)"),
    (b"\x10", "its stored value is damaged (codec slot 0)"),
    (b"\x1c\x00", "its codec, slot 3, is not in the layout"),
    (b"\x0c\x4d\x00", "its codec, slot 77, is not in the layout"),
    // A header that claims 2 GiB for 16 bytes.
    (b"\x0c\xff\x28\xb5\x2f\xfd\xe0\0\0\0\x80\0\0\0\0\x01\0\0", "16 bytes claim to be 2147483648"),
    (b"\x0c\xff\x28\xb5\x2f\xfd\x04", "(codec slot 255)"),
];

fn compressed() -> Stage {
    stage_with(|config| config.layout = Layout::parse_file(LAYOUT).unwrap().into())
}

fn ask(wire: &mut Wire, args: &[&[u8]]) -> String {
    wire.call(args).unwrap().escape_ascii().to_string()
}

/// The number of values that INFO says couldn't be decoded, of a namespace.
fn undecodable(wire: &mut Wire, namespace: &str) -> u64 {
    let info = String::from_utf8(wire.call(&[b"INFO", b"keyfold"]).unwrap()).unwrap();
    let line = info.lines().find(|line| line.starts_with(&format!("keyfold_codecs_{namespace}:"))).unwrap();
    line.rsplit("undecodable=").next().unwrap().parse().unwrap()
}

/// Commands that have to read the value of their key.
fn readers(key: &[u8]) -> Vec<Vec<&[u8]>> {
    vec![
        vec![b"GET", key],
        vec![b"STRLEN", key],
        vec![b"GETRANGE", key, b"0", b"1"],
        vec![b"BITCOUNT", key],
        vec![b"APPEND", key, b"more"],
        vec![b"SETRANGE", key, b"1", b"x"],
        vec![b"SETBIT", key, b"1", b"1"],
        vec![b"INCR", key],
        vec![b"INCRBYFLOAT", key, b"1"],
        vec![b"GETSET", key, b"new"],
        vec![b"SET", key, b"new", b"GET"],
        vec![b"GETDEL", key],
        vec![b"GETEX", key, b"EX", b"100"],
        vec![b"RENAME", key, b"user:9"],
        vec![b"COPY", key, b"plain"],
        vec![b"BITOP", b"NOT", key, key],
        vec![b"DUMP", key],
    ]
}

fn is_told(reply: &str, key: &[u8], why: &str) -> bool {
    reply.starts_with("-ERR keyfold: ") && reply.contains(&key.escape_ascii().to_string()) && reply.contains(why)
}

#[test]
fn a_value_that_cannot_be_decoded_is_told_counted_and_left_as_it_is() {
    let stage = compressed();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    ask(&mut client, &[b"MSET", b"user:2", b"fine", b"page:b", b"fine too"]);
    for (stored, why) in DAMAGED {
        server.call(&[b"HSET", BUCKET, b"1", stored]).unwrap();
        server.call(&[b"SET", PAGE, stored]).unwrap();
        for (key, namespace) in [(&b"user:1"[..], "0"), (b"page:a", "1")] {
            for command in readers(key) {
                let before = undecodable(&mut client, namespace);
                let reply = ask(&mut client, &command);
                let shown = command.join(&b' ').escape_ascii().to_string();
                assert!(is_told(&reply, key, why), "{shown} of {}: {reply}", stored.escape_ascii());
                assert_eq!(undecodable(&mut client, namespace), before + 1, "{shown}");
            }
        }
        let shown = |server: &mut Wire, args: &[&[u8]]| server.ask(args).unwrap().bytes().map(<[u8]>::to_vec);
        assert_eq!(shown(&mut server, &[b"HGET", BUCKET, b"1"]).as_deref(), Some(stored));
        assert_eq!(shown(&mut server, &[b"GET", PAGE]).as_deref(), Some(stored));
    }
    assert_eq!(ask(&mut client, &[b"MGET", b"user:2", b"page:b"]), "*2\\r\\n$4\\r\\nfine\\r\\n$8\\r\\nfine too\\r\\n");
    assert_eq!(ask(&mut client, &[b"EXISTS", b"user:9", b"plain"]), ":0\\r\\n");
    assert_eq!(ask(&mut client, &[b"DBSIZE"]), ":4\\r\\n", "they are there all the same");
}

#[test]
fn what_needs_not_be_read_may_be_replaced_and_deleted() {
    let stage = compressed();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    for (stored, _) in DAMAGED {
        for set in [&[&b"SET"[..]][..], &[b"SETEX"]] {
            server.call(&[b"HSET", BUCKET, b"1", stored]).unwrap();
            server.call(&[b"SET", PAGE, stored]).unwrap();
            for key in [&b"user:1"[..], b"page:a"] {
                let args: Vec<&[u8]> =
                    if set[0] == b"SET" { vec![b"SET", key, b"new"] } else { vec![b"SETEX", key, b"100", b"new"] };
                assert_eq!(ask(&mut client, &args), "+OK\\r\\n");
                assert_eq!(ask(&mut client, &[b"GET", key]), "$3\\r\\nnew\\r\\n");
            }
        }
        server.call(&[b"HSET", BUCKET, b"1", stored]).unwrap();
        server.call(&[b"SET", PAGE, stored]).unwrap();
        assert_eq!(ask(&mut client, &[b"DEL", b"user:1", b"page:a"]), ":2\\r\\n");
        server.call(&[b"HSET", BUCKET, b"1", b"\x1f"]).unwrap();
        assert_eq!(ask(&mut client, &[b"DEL", b"user:1"]), ":1\\r\\n", "it was there, whatever it was");
        assert_eq!(ask(&mut client, &[b"DBSIZE"]), ":0\\r\\n");
    }
}

/// What doesn't look into a value goes on, and one value that can't be decoded keeps no other from its reader.
#[test]
fn what_needs_no_value_works_and_others_are_read() {
    let stage = compressed();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    ask(&mut client, &[b"MSET", b"user:2", b"fine", b"plain", b"fine too"]);
    for (stored, why) in DAMAGED.into_iter().chain([(&b"\x1f"[..], "unknown tag 0x1f")]) {
        server.call(&[b"HSET", BUCKET, b"1", stored]).unwrap();
        server.call(&[b"SET", PAGE, stored]).unwrap();
        for key in [&b"user:1"[..], b"page:a"] {
            let mut is = |args: &[&[u8]], reply: &str| {
                assert_eq!(ask(&mut client, args), reply, "{}", args.join(&b' ').escape_ascii());
            };
            is(&[b"EXISTS", key, b"user:2", key, b"none", b"plain"], ":4\\r\\n");
            is(&[b"TOUCH", key, b"plain"], ":2\\r\\n");
            is(&[b"TYPE", key], "+string\\r\\n");
            is(&[b"TTL", key], ":-1\\r\\n");
            is(&[b"SET", key, b"other", b"NX"], "$-1\\r\\n");
            is(&[b"MSETNX", b"user:5", b"a", key, b"b"], ":0\\r\\n");
            let several = ask(&mut client, &[b"MGET", b"user:2", key, b"none", b"plain"]);
            let (first, rest) = several.split_at("*4\\r\\n$4\\r\\nfine\\r\\n".len());
            assert!(first.ends_with("fine\\r\\n") && is_told(rest, key, why), "{several}");
            assert!(rest.ends_with("\\r\\n$-1\\r\\n$8\\r\\nfine too\\r\\n"), "{several}");
        }
    }
}

/// A value whose codec is missing keeps its bytes and gets another expiry.
#[test]
fn an_expiry_is_set_without_reading_the_value() {
    let stage = compressed();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    let stored = b"\x1c\x00payload";
    server.call(&[b"HSET", BUCKET, b"1", stored]).unwrap();
    server.call(&[b"SET", PAGE, stored]).unwrap();
    for key in [&b"user:1"[..], b"page:a"] {
        assert_eq!(ask(&mut client, &[b"EXPIRE", key, b"1000"]), ":1\\r\\n");
        assert_eq!(ask(&mut client, &[b"TTL", key]), ":1000\\r\\n");
        assert_eq!(ask(&mut client, &[b"PERSIST", key]), ":1\\r\\n");
        assert_eq!(ask(&mut client, &[b"TTL", key]), ":-1\\r\\n");
    }
    assert_eq!(server.ask(&[b"HGET", BUCKET, b"1"]).unwrap().bytes(), Some(&stored[..]));
    assert_eq!(server.ask(&[b"GET", PAGE]).unwrap().bytes(), Some(&stored[..]));
    assert_eq!(ask(&mut client, &[b"UNLINK", b"user:1", b"page:a"]), ":2\\r\\n");
}

#[test]
fn a_transaction_that_reads_it_writes_nothing() {
    let stage = compressed();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    for (stored, why) in DAMAGED {
        server.call(&[b"HSET", BUCKET, b"1", stored]).unwrap();
        for command in [&[&b"MULTI"[..]][..], &[b"SET", b"user:3", b"x"], &[b"APPEND", b"user:1", b"x"]] {
            ask(&mut client, command);
        }
        let reply = ask(&mut client, &[b"EXEC"]);
        assert!(reply.contains("user:1") && reply.contains(why), "{reply}");
        assert_eq!(ask(&mut client, &[b"EXISTS", b"user:3"]), ":0\\r\\n");
        assert_eq!(server.ask(&[b"HGET", BUCKET, b"1"]).unwrap().bytes(), Some(stored));
    }
}

#[test]
fn a_missing_dictionary_costs_its_values_and_no_others() {
    let layout = Layout::parse_file(LAYOUT).unwrap();
    let mut codecs = layout.namespace(NamespaceIndex(0)).codecs.clone();
    codecs.write_by(&CodecRule::named("zstd"), Some(DictionaryId::of(b"lost")));
    let layout = layout.with_codecs([(NamespaceIndex(0), codecs)].into());
    let stage = stage_with(|config| config.layout = layout.into());
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    server.call(&[b"HSET", BUCKET, b"1", b"\x14some payload"]).unwrap();
    for command in readers(b"user:1") {
        let reply = ask(&mut client, &command);
        assert!(is_told(&reply, b"user:1", "is missing from the server") && reply.contains("slot 1"), "{reply}");
    }
    // New values are stored as they are until it is there again; the older slot is still read.
    let long = b"abcabcabd".repeat(30);
    assert_eq!(ask(&mut client, &[b"SET", b"user:2", &long]), "+OK\\r\\n");
    assert_eq!(ask(&mut client, &[b"SET", b"page:b", &long]), "+OK\\r\\n");
    for key in [&b"user:2"[..], b"page:b"] {
        assert_eq!(client.ask(&[b"GET", key]).unwrap().bytes(), Some(&long[..]));
    }
}

#[test]
fn a_spilled_value_that_was_damaged_is_told_too() {
    let stage = compressed();
    let (mut client, mut server) = (stage.connect(), stage.server.connect().unwrap());
    // Too long for its bucket even so, and worth compressing.
    let long: Vec<u8> = (0..4000_u32).flat_map(|number| (number * number).to_string().into_bytes()).collect();
    assert_eq!(ask(&mut client, &[b"SET", b"user:1", &long]), "+OK\\r\\n");
    let names = server.ask(&[b"KEYS", b"~WOgb!*"]).unwrap();
    let name = names.elements().unwrap()[0].bytes().unwrap().to_vec();
    let content = server.ask(&[b"GET", &name]).unwrap().bytes().unwrap().to_vec();
    assert!(content.len() < long.len(), "it is compressed");
    server.call(&[b"SET", &name, &content[..content.len() / 2]]).unwrap();
    for command in readers(b"user:1") {
        let reply = ask(&mut client, &command);
        assert!(is_told(&reply, b"user:1", "its stored value is damaged (codec slot"), "{reply}");
    }
    server.call(&[b"SET", &name, &content]).unwrap();
    assert_eq!(client.ask(&[b"GET", b"user:1"]).unwrap().bytes(), Some(&long[..]));
}
