//! Text tables in layouts: read, written, refused, and moved between.

use keyfold_core::layout::{Layout, LayoutFile, Located, Physical};
use keyfold_core::placement::TextTable;
use proptest::prelude::*;

fn table(symbols: &[&str]) -> String {
    TextTable::new(symbols.iter().map(|symbol| symbol.as_bytes().to_vec()).collect()).unwrap().to_text()
}

fn namespace(keys: &str, rest: &str) -> String {
    format!("[[namespace]]\nkeys = {keys:?}\n{rest}\n")
}

fn with_table(bucket: &str, symbols: &[&str]) -> String {
    format!("bucket = {bucket}\ntext_table = \"{}\"", table(symbols))
}

fn file(text: &str) -> LayoutFile {
    LayoutFile::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn place(layout: &Layout, key: &str) -> (Vec<u8>, Vec<u8>) {
    let Located::Placed(place) = layout.locate(key.as_bytes()) else { panic!("{key} is not placed") };
    (place.physical.into_vec(), place.field.into_vec())
}

const PACKAGES: [&str; 5] = ["lib", "-dev", "python3-", "e", "s"];

fn packages() -> String {
    namespace("pkg:{name}", &with_table("{ count = 800 }", &PACKAGES))
}

#[test]
fn files_and_the_stored_form_have_them() {
    let text = packages()
        + &namespace("post:{id:int}:{part}", &with_table("{ by = \"id\" }", &["title"]))
        + &namespace("u:{id:int}:{x}", &with_table("{ span = 64 }", &["x", "yz"]));
    let layout = Layout::parse_file(&text).unwrap();
    assert_eq!(place(&layout, "pkg:libssl-dev").1, b"\x00ss\xffl\x01");
    let names = layout.namespaces()[1].names().unwrap();
    assert_eq!(place(&layout, "post:1:title"), (format!("{names}:1").into_bytes(), b"\x00".to_vec()));
    assert_eq!(Layout::from_stored(&layout.to_stored()).unwrap(), layout);
    assert_eq!(Layout::parse_file(&layout.to_file()).unwrap(), layout);
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    let refusal = |keys: &str, rest: &str| LayoutFile::parse(&namespace(keys, rest)).unwrap_err().to_string();
    let text = table(&PACKAGES);
    let nothing = "`text_table`: keys leave no text in fields here, so that there is nothing to pack; leave it out";
    assert_eq!(refusal("page:{path}", &format!("text_table = \"{text}\"")), format!("line 3, column 14: {nothing}"));
    let of_uuid = refusal("s:{id:uuid}", &with_table("{ count = 64 }", &PACKAGES));
    assert_eq!(of_uuid, format!("line 4, column 14: {nothing}"));
    for (given, said) in [
        ("", "`text_table`: it is empty; write it as `keyfold plan` made it, or leave it out"),
        ("a=", "`text_table`: it is no base64url; write it as `keyfold plan` made it"),
        ("AgFh", "`text_table`: it is of version 2, and this keyfold reads version 1; use the keyfold that made it"),
        ("AQJh", "`text_table`: it ends within symbol 1"),
        ("AQFhAWE", "`text_table`: the symbol `a` is there twice"),
        ("AQ", "`text_table`: it has 0 symbols, and a table has 1 to 254"),
    ] {
        let refusal = refusal("pkg:{name}", &format!("bucket = {{ count = 800 }}\ntext_table = \"{given}\""));
        assert!(refusal.starts_with(&format!("line 4, column 14: {said}")), "{refusal}");
    }
}

#[test]
fn another_table_is_another_placement() {
    let in_use = Layout::parse_file(&packages()).unwrap();
    assert_eq!(Layout::merge(Some(&in_use), &file(&packages())).unwrap().layout, in_use);
    let without = namespace("pkg:{name}", "bucket = { count = 800 }");
    let other = namespace("pkg:{name}", &with_table("{ count = 800 }", &["lib"]));
    for text in [&without, &other] {
        let refusal = Layout::merge(Some(&in_use), &file(text)).unwrap_err().to_string();
        assert!(refusal.contains("keyfold fold"), "{refusal}");
        // Both are named, and neither is written out.
        assert!(refusal.contains("in use:  bucket = { count = 800 }, text_table of 5 symbols ("), "{refusal}");
        assert!(!refusal.contains(&table(&PACKAGES)), "{refusal}");
    }
}

#[test]
fn a_move_knows_both_tables() {
    let other = namespace("pkg:{name}", &with_table("{ count = 800 }", &["lib", "ss"]));
    let without = namespace("pkg:{name}", "bucket = { count = 800 }");
    let texts = [packages(), without, other];
    for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        let before = Layout::parse_file(&texts[from]).unwrap();
        let moving = before.plan_fold(&file(&texts[to])).unwrap();
        let Located::Moving(both) = moving.layout.locate(b"pkg:libssl-dev") else { panic!("it is moving") };
        let old = both.old.unwrap();
        assert_eq!((old.physical.to_vec(), old.field.to_vec()), place(&before, "pkg:libssl-dev"));
        let after = moving.layout.settled(&moving.moving);
        let new = both.new.unwrap();
        assert_eq!((new.physical.to_vec(), new.field.to_vec()), place(&after, "pkg:libssl-dev"));
        assert_ne!(old, new);
        for layout in [&moving.layout, &after] {
            assert_eq!(Layout::from_stored(&layout.to_stored()).unwrap(), *layout);
        }
        let back = moving.layout.plan_fold(&file(&texts[from])).unwrap().layout;
        assert_eq!(back.namespaces()[0].placement, before.namespaces()[0].placement, "it turns round");
    }
}

/// Tables in every kind of field.
fn layout() -> Layout {
    let symbols = ["a", "b", "0", "1", "ab", "b\0a", ":", "-dev", "lib", "\u{1}"];
    let all = [
        ("a:{x}", "{ count = 16 }"),
        ("b:{x}:{y}:{z}", "{ count = 16 }"),
        ("c:{id:int}:{x}", "{ span = 100 }"),
        ("d:{x}:{id:uuid}:{y}", "{ count = 1000 }"),
        ("e:{x}:{id:hex}", "{ by = \"id\" }"),
        ("f:{t}:{x}:{y:hex}:{n:int}", "{ by = \"t\" }"),
    ];
    let namespaces = all.map(|(keys, bucket)| namespace(keys, &with_table(bucket, &symbols)));
    Layout::parse_file(&namespaces.concat()).unwrap()
}

fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let text = prop_oneof![
        "[ab01-]{0,6}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..6),
        Just(b"lib-dev\0ab\x01".to_vec()),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
    ];
    let uuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}";
    (0..6, text.clone(), text, uuid, "([0-9a-f]{2}){1,12}", 0_u64..300).prop_map(|(which, x, y, uuid, hex, n)| {
        let n = n.to_string();
        let (uuid, hex, n) = (uuid.as_bytes(), hex.as_bytes(), n.as_bytes());
        match which {
            0 => [b"a:".as_slice(), &x].concat(),
            1 => [b"b:".as_slice(), &x, b":", &y, b":", &x].concat(),
            2 => [b"c:".as_slice(), n, b":", &x].concat(),
            3 => [b"d:".as_slice(), &x, b":", uuid, b":", &y].concat(),
            4 => [b"e:".as_slice(), &x, b":", hex].concat(),
            _ => [b"f:".as_slice(), &x, b":", &y, b":", hex, b":", n].concat(),
        }
    })
}

proptest! {
    #[test]
    fn a_packed_place_gives_back_its_key(key in any_key()) {
        let layout = layout();
        if let Located::Placed(place) = layout.locate(&key) {
            prop_assert_eq!(layout.key_of(place.namespace, &place.physical, &place.field), Some(key));
            prop_assert_eq!(layout.read_physical(&place.physical), Physical::Bucket(place.namespace));
        }
    }

    #[test]
    fn two_keys_never_share_a_packed_place(keys in proptest::collection::btree_set(any_key(), 2..20)) {
        let layout = layout();
        let mut places: Vec<_> = keys.iter().filter_map(|key| layout.locate(key).place()).collect();
        let placed = places.len();
        places.sort_by(|one, other| (&one.physical, &one.field).cmp(&(&other.physical, &other.field)));
        places.dedup();
        prop_assert_eq!(places.len(), placed);
    }

    #[test]
    fn hostile_fields_are_a_key_there_or_none(
        bucket in "~[0-5][:;][0-9a-f]{1,3}", field in proptest::collection::vec(any::<u8>(), 0..24)
    ) {
        let layout = layout();
        for (namespace, _) in layout.iter() {
            if let Some(key) = layout.key_of(namespace, bucket.as_bytes(), &field) {
                let place = layout.locate(&key).place().unwrap();
                prop_assert_eq!((place.physical.as_slice(), place.field.as_slice()), (bucket.as_bytes(), field.as_slice()));
            }
        }
    }
}
