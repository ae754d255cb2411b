//! Places: whatever bytes decode to a key, that key lies just there; and every key comes back from its place.
#![no_main]

use std::sync::LazyLock;

use keyfold_core::layout::{Layout, Located, Physical, spill_name};
use keyfold_core::placement::TextTable;
use libfuzzer_sys::fuzz_target;

/// Every placement, over every type of part, alone and among others.
const LAYOUT: &str = r#"
[[namespace]]
keys = "a:{id:int}"
bucket = { span = 128 }

[[namespace]]
keys = "b:{id:int(12)}:{rest}"
bucket = { span = 100 }

[[namespace]]
keys = "c:{id:int}"
bucket = { count = 1000 }

[[namespace]]
keys = "d:{id:uuid}"
bucket = { count = 4096 }

[[namespace]]
keys = "e:{id:hex}:{n:int}"
bucket = { count = 4096 }

[[namespace]]
keys = "f:{name}"
bucket = { count = 16 }

[[namespace]]
keys = "g:{id:int}:{part}"
bucket = { by = "id" }

[[namespace]]
keys = "h:{id:hex}:{part}:{n:int}"
bucket = { by = "part" }

[[namespace]]
keys = "i:{id:uuid}:{path}"
placement = "zipped"

[[namespace]]
keys = "j:{n:int}:{m:int(5)}:{x:hex}"
placement = "zipped"
cluster = true

[[namespace]]
keys = "k:{name}"
bucket = { count = 16 }
TABLE

[[namespace]]
keys = "l:{x}:{id:uuid}:{y}:{h:hex}"
bucket = { count = 3 }
cluster = true
TABLE

[[namespace]]
keys = "m:{id:int}:{x}:{n:int}"
bucket = { by = "id" }
TABLE
"#;

/// Symbols that are digits, escapes, zeros and parts of each other.
const SYMBOLS: [&[u8]; 14] = [
    b"a",
    b"ab",
    b"abc",
    b"0",
    b"1",
    b"12",
    b"-",
    b":",
    b"\0",
    b"\0a",
    b"\x01",
    b"\xff",
    b"\xfe\xfe",
    b"lib-dev-lib-dev-",
];

static PARSED: LazyLock<Layout> = LazyLock::new(|| {
    let table = TextTable::new(SYMBOLS.map(<[u8]>::to_vec).into()).expect("the table is right");
    let text = LAYOUT.replace("TABLE", &format!("text_table = {:?}", table.to_text()));
    Layout::parse_file(&text).expect("the layout is right")
});
const NAMESPACES: u8 = 13;

fuzz_target!(|data: &[u8]| {
    if let Ok(table) = TextTable::from_bytes(data) {
        assert_eq!(table.to_bytes(), data);
    }
    let Some((&mode, data)) = data.split_first() else { return };
    // Half of the tries begin as a key or a name of some namespace does.
    let namespace = mode % NAMESPACES;
    key_comes_back(data);
    key_comes_back(&[&[b'a' + namespace, b':'], data].concat());
    let len = data.first().map_or(0, |first| usize::from(*first) % data.len());
    let (name, field) = data.split_at(len);
    let mark = b":;=!"[usize::from(mode / NAMESPACES) % 4];
    decodes_to_what_lies_there(name, field);
    let names = PARSED.namespaces()[usize::from(namespace)].names().unwrap_or_default();
    decodes_to_what_lies_there(&[names.as_bytes(), &[mark], name.get(1..).unwrap_or_default()].concat(), field);
});

fn key_comes_back(key: &[u8]) {
    let Located::Placed(place) = PARSED.locate(key) else { return };
    let back = PARSED.key_of(place.namespace, &place.physical, &place.field);
    assert_eq!(back.as_deref(), Some(key));
    match PARSED.read_physical(&place.physical) {
        Physical::Bucket(namespace) => assert_eq!(namespace, place.namespace),
        Physical::Zipped { namespace, key: read } => assert_eq!((namespace, read.as_slice()), (place.namespace, key)),
        other => panic!("{} reads as {other:?}", place.physical.escape_ascii()),
    }
    let spill = spill_name(place.origin, key.len() as u64, key);
    let expected = Physical::Spill { namespace: place.namespace, nonce: key.len() as u64, key };
    assert_eq!(PARSED.read_physical(&spill), expected);
}

fn decodes_to_what_lies_there(physical: &[u8], field: &[u8]) {
    let read = PARSED.read_physical(physical);
    for (namespace, _) in PARSED.iter() {
        let Some(key) = PARSED.key_of(namespace, physical, field) else { continue };
        let Located::Placed(place) = PARSED.locate(&key) else { panic!("{} has no place", key.escape_ascii()) };
        assert_eq!((place.physical.as_slice(), place.field.as_slice()), (physical, field));
        assert!(
            matches!(&read, Physical::Bucket(index) | Physical::Zipped { namespace: index, .. } if *index == namespace),
            "{} holds a key and reads as {read:?}",
            physical.escape_ascii()
        );
    }
}
