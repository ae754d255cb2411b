//! Codecs: hostile payloads and dictionaries give values or errors, within bounds; every value of every key comes back
//! from what it is stored as, which is never longer than without a codec.
#![no_main]

use std::panic;
use std::sync::{LazyLock, Once};

use keyfold_core::codec::{CodecRule, Kinds, LARGE_SLOT, Options, Owner, Stored};
use keyfold_core::collection::{Collection, CollectionKind};
use keyfold_core::frame::{self, Body, Frame};
use keyfold_core::layout::{Layout, Namespace};
use keyfold_core::template::Template;
use keyfold_testkit::coded::{Pair, train};
use libfuzzer_sys::fuzz_target;

/// Each codec in a bucket, which spills, and in a key of its own.
const LAYOUT: &str = r#"
[[namespace]]
keys = "a:{one}:{two}"
bucket = { count = 4 }
value_limit = 40
codec = "zstd"

[[namespace]]
keys = "b:{one}"
codec = "zstd"

[[namespace]]
keys = "c:{one}"
bucket = { count = 4 }
codec = "fsst"

[[namespace]]
keys = "d:{one}"
bucket = { count = 4 }
codec = "hex"

[[namespace]]
keys = "e:{one}"
codec = "uuid"

[[namespace]]
keys = "f:{one}"
type = "hash"
bucket = { count = 4 }
codec = "fields"
"#;

/// No value of a payload of this length may be longer, in bytes.
const MAX_VALUE: usize = 1 << 20;

static TRAINED: LazyLock<Layout> = LazyLock::new(|| {
    let records: Vec<(Vec<u8>, Vec<u8>)> = (0..2000_usize).map(record).collect();
    let pairs: Vec<Pair<'_>> = records.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect();
    let (learn, judge) = pairs.split_at(1800);
    train(&Layout::parse_file(LAYOUT).expect("the layout is right"), learn, judge, 1_000_000)
});

fn record(number: usize) -> (Vec<u8>, Vec<u8>) {
    if number.is_multiple_of(7) {
        let texts = ["id", &number.to_string(), "role", ["admin", "editor"][number % 2], "", "7", "5", "10.0.0.1"];
        let texts = texts.map(|text| text.as_bytes().to_vec()).to_vec();
        return (format!("f:{number}").into_bytes(), Collection::of_texts(CollectionKind::Hash, texts).packed());
    }
    let head = ["a:x:", "b:", "c:"][number % 3];
    let value = format!(
        "{{\"id\":{number},\"name\":\"User {}\",\"role\":\"{}\",\"x\":\"\0\u{1}\"}}",
        number * 2_654_435_761 % 1_000_003,
        ["admin", "editor", "reader"][number % 3 * number % 3]
    );
    (format!("{head}{number}").into_bytes(), value.into_bytes())
}

/// A panic that the core catches, of a crate that takes no foreign tables, is not the end; any other still is.
static CAUGHT: Once = Once::new();

fuzz_target!(|data: &[u8]| {
    CAUGHT.call_once(|| panic::set_hook(Box::new(|info| eprintln!("{info}"))));
    let Some((&mode, rest)) = data.split_first() else { return };
    let Some((&len, rest)) = rest.split_first() else { return };
    let (text, bytes) = rest.split_at(usize::from(len).min(rest.len()));
    hostile_dictionary(bytes, text);
    for (namespace, head) in TRAINED.namespaces().iter().zip(["a:x:", "b:", "c:", "d:", "e:", "f:"]) {
        let key = [head.as_bytes(), text].concat();
        if namespace.keys.iter().all(|template| template.texts(&key).is_none()) {
            continue;
        }
        hostile_payload(namespace, &key, bytes);
        comes_back(namespace, &key, bytes);
        comes_back(namespace, &key, &[&b"B"[..], bytes].concat());
        comes_back(namespace, &key, &[&b"C"[..], bytes].concat());
        // Values that name their key, and repeat themselves.
        comes_back(namespace, &key, &[text, bytes, text, bytes].concat());
        if mode & 1 == 1 {
            comes_back(namespace, &key, &bytes.repeat(1 + usize::from(mode)));
        }
    }
});

fn hostile_payload(namespace: &Namespace, key: &[u8], payload: &[u8]) {
    let slots = namespace.codecs.iter().map(|slot| slot.number).chain([LARGE_SLOT, 200]);
    for slot in slots {
        let frame = Frame { expires_at_ms: None, body: Body::Coded { slot, payload } };
        let spill = Frame { expires_at_ms: None, body: Body::Spill { nonce: 1, slot: Some(slot) } };
        let value = namespace.decode(key, &frame, None);
        assert_eq!(namespace.decode(key, &spill, Some(payload)), value, "wherever it lies");
        match value {
            Ok(value) => assert!(value.is_some_and(|value| value.len() <= MAX_VALUE)),
            Err(error) => assert!(error.to_string().contains(&format!("slot {slot}")), "{error}"),
        }
    }
}

fn hostile_dictionary(dictionary: &[u8], payload: &[u8]) {
    let templates = [Template::parse("k:{text}").expect("a template")];
    let owner = Owner::new(&templates, b"k:payload");
    for kind in Kinds::default().iter() {
        let Ok(codec) = kind.open(&Options::default(), Some(dictionary)) else { continue };
        let mut out = Vec::new();
        let _ = codec.decode(payload, &owner, &mut out);
        assert!(out.len() <= MAX_VALUE, "{}", CodecRule::named(kind.name()));
        out.clear();
        codec.encode(payload, &owner, &mut out);
    }
}

fn comes_back(namespace: &Namespace, key: &[u8], value: &[u8]) {
    for at in [None, Some(1_900_000_000_000)] {
        let (len, back) = match namespace.encode(key, value, at) {
            Stored::InPlace(stored) => {
                let frame = Frame::decode(&stored).expect("what was encoded decodes");
                assert_eq!(frame.expires_at_ms, at);
                let back = namespace.decode(key, &frame, None).expect("what was encoded decodes");
                (stored.len(), back.map(|back| back.into_owned()))
            }
            Stored::Spilled { content, slot } => {
                let frame = Frame { expires_at_ms: at, body: Body::Spill { nonce: 1, slot } };
                let back = namespace.decode(key, &frame, Some(&content)).expect("what was spilled decodes");
                (content.len(), back.map(|back| back.into_owned()))
            }
        };
        assert_eq!(back.as_deref(), Some(value), "{} of {}", value.escape_ascii(), key.escape_ascii());
        assert!(len <= frame::raw_len(value, at), "{} takes {len}", value.escape_ascii());
    }
    let own = namespace.encode_own(key, value);
    let frame = Frame::decode(&own).expect("what was encoded decodes");
    assert_eq!(namespace.decode(key, &frame, None).expect("decodes").as_deref(), Some(value));
}
