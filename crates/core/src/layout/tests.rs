use proptest::prelude::*;

use super::*;
use crate::placement::name::Origin;
use crate::slot::Slot;
use crate::template::tests::keys;

const FILE: &str = r#"
[[namespace]]
keys   = "user:{id:int}:logins"
bucket = { span = 128 }

[[namespace]]
keys   = "session:{id:uuid}"
bucket = { count = 16384 }

[[namespace]]
keys   = "post:{id:int}:{part}"
bucket = { by = "id" }

[[namespace]]
keys   = "page:{path}"
codec  = "none"

[[namespace]]
keys      = "page:admin:{rest}"
placement = "plain"

[[namespace]]
keys   = "shop:{tenant}:cart:{id:int}:{item:int}"
bucket = { span = 16, of = "item" }
field_limit = 12

[[namespace]]
keys   = "blob:{id:hex}"
bucket = { count = 1000 }
value_limit = 40

[[namespace]]
keys   = "seen:{user:int}:{item:uuid}"

[[namespace]]
keys   = ["flag:{name}", "page:beta:{id:int}", "flag:{id:int}", "day:{day:int(8)}"]
bucket = { count = 3 }
"#;

fn layout() -> Layout {
    Layout::parse_file(FILE).unwrap()
}

/// The same in a cluster, where buckets are of each slot.
fn clustered() -> Layout {
    let text = FILE
        .replace("post:{id:int}:{part}", "post:{{{id:int}}}:{part}")
        .replace("user:{id:int}:logins", "{{user}}:{id:int}:logins")
        .replace("bucket = { span = 16, of = \"item\" }", "bucket = { count = 1 }");
    Layout::parse_file(&format!("cluster = true\n{text}")).unwrap()
}

fn file(text: &str) -> LayoutFile {
    LayoutFile::parse(text).unwrap_or_else(|error| panic!("{error}"))
}

fn namespace(keys: &str, rest: &str) -> String {
    format!("[[namespace]]\nkeys = {keys:?}\n{rest}\n")
}

fn refusal(text: &str) -> String {
    LayoutFile::parse(text).unwrap_err().to_string()
}

/// A physical name of the namespace at `index`.
fn name(layout: &Layout, index: usize, rest: &str) -> String {
    layout.namespaces()[index].names().unwrap_or_else(|| "~none".to_owned()) + rest
}

fn placed(layout: &Layout, key: &str) -> (String, String, String) {
    let Located::Placed(place) = layout.locate(key.as_bytes()) else { panic!("{key} is not placed") };
    let keys = layout.namespace(place.namespace).keys.to_string();
    (keys, place.physical.escape_ascii().to_string(), place.field.escape_ascii().to_string())
}

#[test]
fn the_designs_file_is_read() {
    let layout = layout();
    assert_eq!(layout.epoch(), Epoch(1));
    assert_eq!(placed(&layout, "user:1000:logins").1, name(&layout, 0, ":7"));
    let title = ("post:{id:int}:{part}".into(), name(&layout, 2, ":2LA"), "title".into());
    assert_eq!(placed(&layout, "post:9000:title"), title);
    assert_eq!(placed(&layout, "page:/a").1, name(&layout, 3, "=/a"));
    assert_eq!(layout.namespaces()[6].value_limit, 40);
    assert_eq!(layout.warnings(), []);
}

#[test]
fn what_does_not_match_stays_plain() {
    let layout = layout();
    for key in ["user:007:logins", "user:1:visits", "session:x", "page:admin:x", ""] {
        assert_eq!(layout.locate(key.as_bytes()), Located::Plain, "{key}");
    }
    for key in ["~", "~0000:7", "keyfold:", "keyfold:{home}:layout"] {
        assert_eq!(layout.locate(key.as_bytes()), Located::Reserved, "{key}");
    }
}

#[test]
fn a_field_over_the_limit_stays_plain() {
    let layout = layout();
    assert_eq!(placed(&layout, "shop:01234567:cart:1:2").2, r"\x02\x0801234567\x01");
    assert_eq!(layout.locate(b"shop:0123456789:cart:1:2"), Located::Plain);
}

#[test]
fn reserved_keys_stay_reserved_under_a_template_that_matches_them() {
    let layout = Layout::parse_file(&namespace("{tenant}:cart", "")).unwrap();
    assert_eq!(layout.locate(b"~0000:cart"), Located::Reserved);
    assert_eq!(layout.locate(b"keyfold:cart"), Located::Reserved);
    assert_eq!(placed(&layout, "a:cart").1, name(&layout, 0, "=a"));
}

#[test]
fn the_more_specific_has_the_key_whatever_the_order() {
    let parts = [
        namespace("a:{x}", ""),
        namespace("a:{x:int}", "bucket = { span = 10 }"),
        namespace("a:1b{x}", "bucket = { count = 10 }"),
        namespace("a:00{x}", "placement = \"plain\""),
        namespace("a:007{x:int(3)}", ""),
    ];
    for rotation in 0..parts.len() {
        let text = parts[rotation..].concat() + &parts[..rotation].concat();
        let layout = Layout::parse_file(&text).unwrap();
        assert_eq!(placed(&layout, "a:x").0, "a:{x}");
        assert_eq!(placed(&layout, "a:12").0, "a:{x:int}");
        assert_eq!(placed(&layout, "a:1bc").0, "a:1b{x}");
        assert_eq!(placed(&layout, "a:007123").0, "a:007{x:int(3)}");
        assert_eq!(layout.locate(b"a:00712"), Located::Plain);
    }
}

#[test]
fn in_a_cluster_every_place_is_in_the_slot_of_its_key() {
    let layout = clustered();
    let uuid = "session:01234567-89ab-cdef-0123-456789abcdef";
    for key in [
        "{user}:1000:logins",
        uuid,
        "post:{9000}:title",
        "page:/a",
        "page:{x}",
        "seen:1:01234567-89ab-cdef-0123-456789abcdef",
    ] {
        let Located::Placed(place) = layout.locate(key.as_bytes()) else { panic!("{key} is not placed") };
        let spill = spill_name(place.origin, 7, key.as_bytes());
        for name in [place.physical.as_slice(), &spill] {
            assert_eq!(Slot::of(name), Slot::of(key.as_bytes()), "{}", name.escape_ascii());
        }
    }
    let [first, second] = ["post:{9000}:title", "post:{9000}:text"].map(|key| placed(&layout, key).1);
    assert_eq!(first, second);
    assert_eq!(Layout::from_stored(&layout.to_stored()).unwrap(), layout);
    assert_eq!(Layout::parse_file(&layout.to_file()).unwrap().namespaces(), layout.namespaces());
    // A name with a tag is of a cluster, and one without is not.
    let name = name(&super::tests::layout(), 0, ":7");
    assert_eq!(layout.read_physical(name.as_bytes()), Physical::Unknown);
    let tagged = placed(&layout, "{user}:1000:logins").1;
    assert_eq!(super::tests::layout().read_physical(tagged.as_bytes()), Physical::Unknown);
}

#[test]
fn what_brings_keys_of_several_slots_together_is_refused_in_a_cluster() {
    let read = |keys: &str, rest: &str| LayoutFile::parse(&format!("cluster = true\n{}", namespace(keys, rest)));
    for (keys, rest) in [
        ("user:{id:int}", "bucket = { span = 128 }"),
        ("post:{id:int}:{part}", "bucket = { by = \"id\" }"),
        ("post:{{{id:int}}}:{part}", "bucket = { by = \"part\" }"),
        ("{name}:{{{id:int}}}", "bucket = { by = \"id\" }"),
    ] {
        let refused = read(keys, rest).unwrap_err().to_string();
        assert!(refused.starts_with("line 4, column 10: `bucket`: in a cluster"), "{keys}: {refused}");
        assert!(refused.contains("{ count = 1 }") && refused.contains("`user:{{{id:int}}}:{field}`"), "{refused}");
        assert!(read(keys, &format!("{rest}\ncluster = false")).is_ok());
    }
    assert!(read("user:{{{shop:int}}}:{id:int}", "bucket = { span = 128, of = \"id\" }").is_ok());
    assert!(read("user:{id:int}", "bucket = { count = 1 }").is_ok());
    assert!(refusal(&namespace("user:{id:int}", "bucket = { count = 1 }")).contains("`cluster = true`"));
}

#[test]
fn into_a_cluster_and_back_is_a_move() {
    let [one, slots] =
        ["", "cluster = true\n"].map(|top| file(&format!("{top}{}", namespace("a:{x:int}", "bucket = { count = 8 }"))));
    let layout = one.clone().into_layout();
    assert!(Layout::merge(Some(&layout), &slots).is_err(), "keys would be looked for elsewhere");
    let moving = layout.plan_fold(&slots).unwrap();
    let places: Vec<_> = moving.layout.places(b"a:1").map(|place| place.origin.slot).collect();
    assert_eq!(places, [Some(Slot::of(b"a:1")), None]);
    assert_eq!(Layout::from_stored(&moving.layout.to_stored()).unwrap(), moving.layout);
    let back = moving.layout.plan_fold(&one).unwrap();
    assert_eq!(back.layout.settled(&back.moving).namespaces(), layout.namespaces());
}

#[test]
fn mistakes_are_named_with_their_line() {
    let at = |keys: &str, rest: &str| refusal(&format!("\n{}", namespace(keys, rest)));
    assert_eq!(
        at("user:{id:uint}", ""),
        "line 3, column 14: `keys`: `{id:uint}`: unknown type \"uint\"; there are `int`, `int(12)` (zero-padded), \
         `uuid` and `hex`, and text is written without a type, `{id}`"
    );
    assert_eq!(
        at("user:{id:int}", "bucket = { span = 1 }"),
        "line 4, column 10: `bucket`: `span = 1` is out of range: 2 to 4294967296; to fold nothing, write \
         `placement = \"plain\"`"
    );
    assert_eq!(
        at("user:{id:int}", "bucket = { count = 4294967297 }"),
        "line 4, column 10: `bucket`: `count = 4294967297` is out of range: 2 to 4294967296"
    );
    assert_eq!(
        at("page:{path}", "codec = \"zsdt\""),
        "line 4, column 9: `codec = \"zsdt\"`: there are \"zstd\", \"fsst\", \"fields\", \"hex\", \"uuid\", and \"auto\" to have the best of them chosen by measurement"
    );
    assert_eq!(
        at("tags:{id:int}", "type = \"set\"\nbucket = { span = 8 }\ncodec = \"fields\""),
        "line 6, column 9: `codec = \"fields\"` is for another `type` than \"set\"; \"auto\" has the best of those that fit \
         chosen by measurement"
    );
    assert_eq!(
        at("page:{path}", "codec = { name = \"zstd\", level = 30 }"),
        "line 4, column 9: `codec`: zstd can't have `level = 30`; it has level (1 to 19), dictionary (0 to 1048576)"
    );
    assert_eq!(
        at("page:{path}", "codec = 7"),
        "line 4, column 9: `codec` is a name, \"zstd\", or a table of a name and whole numbers, { name = \"zstd\", level = 12 }"
    );
    assert_eq!(
        at("page:{path}", "placement = \"plain\"\ncodec = \"zstd\""),
        "line 5, column 9: `codec`: a key that stays plain can't be compressed; leave `placement` out, or give it a bucket"
    );
    assert_eq!(
        at("{a:int}:{b:int}", "bucket = { span = 8 }"),
        "line 4, column 10: `bucket`: the template has several ints; say which one the span divides, as in \
         `{ span = 128, of = \"a\" }`"
    );
    assert_eq!(
        at("{a}:{b:int}", "bucket = { by = \"c\" }"),
        "line 4, column 10: `bucket`: `by = \"c\"`: the template has no such placeholder; it has a, b"
    );
}

#[test]
fn other_mistakes_are_refused() {
    for (rest, expected) in [
        ("bucket = { span = 8, count = 9 }", "takes one rule"),
        ("bucket = { count = 9, of = \"id\" }", "takes one rule"),
        ("bucket = {}", "takes one rule"),
        ("bucket = \"none\"", "line 3, column 10: invalid type: string \"none\", expected a table: { span = 128 }"),
        ("bucket = { by = \"id\" }", "leaves nothing for the field"),
        ("bucket = { spam = 8 }", "unknown field `spam`"),
        ("bucket = { span = 8 }\nplacement = \"plain\"", "leave one of them out"),
        ("placement = \"span\"", "there are \"plain\" and \"zipped\""),
        ("value_limit = 0", "`value_limit = 0`: a limit is"),
        ("field_limit = -1", "`field_limit = -1`: a limit is"),
        ("id = 1", "line 3, column 1: unknown field `id`"),
        ("names = '~0000'", "line 3, column 9: `names`: what physical names begin with follows"),
        ("ttl = 5", "line 3, column 1: unknown field `ttl`"),
    ] {
        let message = refusal(&namespace("user:{id:int}", rest));
        assert!(message.contains(expected), "{rest}: {message}");
    }
    assert!(refusal("[[namespace]]\nbucket = { span = 8 }").contains("line 1, column 1: missing field `keys`"));
    assert!(refusal("epoch = 1").contains("unknown field `epoch`"));
    assert!(refusal(&namespace("t:{x}", "bucket = { span = 8 }")).contains("the template has none"));
    assert!(refusal(&namespace("~:{x}", "")).contains("keyfold's own"));
    assert!(refusal(&namespace("keyfold:{x}", "")).contains("keyfold's own"));
}

#[test]
fn templates_that_cannot_be_told_apart_are_refused() {
    assert_eq!(
        refusal(&(namespace("u:{a:int}:{b}", "") + &namespace("u:{a}:name", ""))),
        "line 5, column 8: `keys`: `u:{a}:name` and `u:{a:int}:{b}` (line 2) both match `u:0:name`, and neither is the \
         more specific; narrow one of them"
    );
    assert_eq!(
        refusal(&(namespace("u:{a:int(2)}{b:int(2)}", "") + &namespace("u:{c:int(4)}", ""))),
        "line 5, column 8: `keys`: `u:{c:int(4)}` matches exactly the keys of `u:{a:int(2)}{b:int(2)}` (line 2); leave \
         one of them out"
    );
}

#[test]
fn warnings_say_what_the_server_would_do() {
    let text =
        namespace("u:{a:int}", "bucket = { span = 1000 }\nvalue_limit = 100") + &namespace("{x}", "value_limit = 100");
    let warnings: Vec<_> =
        Layout::parse_file(&text).unwrap().warnings().iter().map(|warning| warning.to_string()).collect();
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].starts_with("`u:{a:int}`: `span = 1000`: a bucket of more than 512 entries"), "{warnings:?}");
    assert!(warnings[1].starts_with("`u:{a:int}`: `value_limit = 100`: one value over 64 bytes"), "{warnings:?}");
}

#[test]
fn the_stored_form_is_read_back() {
    let layout = layout();
    let stored = layout.to_stored();
    let names = name(&layout, 0, "");
    let head = "version = 2\nepoch = 1\nattempt = \"0000000000000000\"\nused = [\"";
    assert!(stored.starts_with(head), "{stored}");
    let first = format!(
        "\nunused_from = 0\n\n[[namespace]]\nnames = \"{names}\"\nkeys = \"user:{{id:int}}:logins\"\n\
         bucket = {{ span = 128 }}\nvalue_limit = 64\nfield_limit = 64\ncodec = \"none\"\n"
    );
    assert!(stored.contains(&first), "{stored}");
    assert_eq!(Layout::from_stored(&stored), Ok(layout));
    let quoted = Layout::parse_file("[[namespace]]\nkeys = 'a\"\\:{x}'\n").unwrap();
    assert_eq!(Layout::from_stored(&quoted.to_stored()), Ok(quoted));
}

#[test]
fn a_stored_form_is_not_trusted() {
    let stored = layout().to_stored();
    let error = |from: &str, to: &str| Layout::from_stored(&stored.replacen(from, to, 1)).unwrap_err().to_string();
    let names = name(&layout(), 0, "");
    assert!(
        error("version = 2", "version = 3\nshape = 3").starts_with("line 1, column 11: `version = 3`: this keyfold")
    );
    assert!(error("version = 2\n", "").contains("missing field `version`"));
    assert!(error(&format!("names = \"{names}\"\n"), "").contains("`names` is missing"));
    for other in ["~0000", "~", "0000", &format!("{names}01"), &names[1..], "~{06S}0000"] {
        let said = error(&format!("\"{names}\""), &format!("{other:?}"));
        assert!(said.contains(&format!("names begin with `{names}`")), "{said}");
    }
    assert!(error("span = 128", "span = 127").contains("by the rules beside it"));
    assert!(error("attempt = \"0", "attempt = \"x").contains("`attempt`: \"x000"));
    assert!(error("used = [", "used = [\"000\", ").contains("`used`: \"000\""));
}

#[test]
fn what_another_version_wrote_is_told_from_damage() {
    let stored = layout().to_stored();
    let error = |from: &str, to: &str| Layout::from_stored(&stored.replacen(from, to, 1)).unwrap_err();
    for (from, to) in [
        ("version = 2", "version = 3"),
        ("version = 2", "version = 1"),
        ("epoch = 1\n", "epoch = 1\nshards = 4\n"),
        ("value_limit = 64", "value_limit = 64\nttl = 5"),
        ("{ span = 128 }", "{ span = 128, of_slot = 3 }"),
    ] {
        assert!(!error(from, to).is_damage(), "{to}");
    }
    for (from, to) in [("version = 2", "version = two"), ("epoch = 1", "epoch = -1"), ("[[namespace]]", "[[namespace")]
    {
        assert!(error(from, to).is_damage(), "{to}");
    }
    assert!(Layout::from_stored("\u{0}garbage").unwrap_err().is_damage());
    assert!(Layout::from_stored(&stored[..stored.len() / 2]).unwrap_err().is_damage());
}

#[test]
fn layouts_of_one_epoch_are_told_apart() {
    let layout = layout().with_attempt(Attempt(0x00ab_cdef_0123_4567));
    let read = Layout::from_stored(&layout.to_stored()).unwrap();
    assert_eq!(read.revision(), Revision { epoch: Epoch(1), attempt: Attempt(0x00ab_cdef_0123_4567) });
    assert_ne!(read, self::layout());
    assert_eq!(read.plan_fold(&file(FILE)).unwrap().layout.revision(), read.revision(), "nothing changes");
    let next = read.plan_unfold(&[NamespaceIndex(0)]).unwrap().layout;
    assert_eq!(next.revision(), Revision { epoch: Epoch(2), attempt: Attempt(0) });
}

#[test]
fn merging_keeps_names() {
    let first = namespace("a:{x:int}", "bucket = { span = 8 }");
    let second = namespace("b:{x}", "");
    let [at_0, at_1] = [0, 1].map(NamespaceIndex);
    let start = Layout::merge(None, &file(&first)).unwrap().layout;
    assert_eq!(start.epoch(), Epoch(1));

    let same = Layout::merge(Some(&start), &file(&first)).unwrap();
    assert_eq!((same.layout, same.unchanged), (start.clone(), vec![at_0]));

    let more = Layout::merge(Some(&start), &file(&(second.clone() + &first))).unwrap();
    assert_eq!((more.added, more.unchanged), (vec![at_1], vec![at_0]));
    assert_eq!(more.layout.epoch(), Epoch(2));

    let wider = first.replace("{x:int}", "{y:int}") + "value_limit = 100\n" + &second + "field_limit = 5\n";
    let changed = Layout::merge(Some(&more.layout), &file(&wider)).unwrap();
    assert_eq!((changed.changed, changed.layout.epoch()), (vec![at_0, at_1], Epoch(3)));
    assert_eq!(changed.layout.namespaces()[0].value_limit, 100);
    let stems = |layout: &Layout| layout.namespaces().iter().map(|namespace| namespace.stem).collect::<Vec<_>>();
    assert_eq!(stems(&changed.layout), stems(&more.layout));
}

#[test]
fn merging_refuses_what_would_lose_keys() {
    let text = namespace("a:{x:int}", "bucket = { span = 8 }") + &namespace("b:{x}", "");
    let layout = Layout::parse_file(&text).unwrap();
    let conflict = Layout::merge(
        Some(&layout),
        &file(&(namespace("a:{x:int}", "bucket = { span = 9 }") + &namespace("c:{x}", ""))),
    )
    .unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "the file does not fit the layout in use (epoch 1):

  a:{x:int}
    in use:  bucket = { span = 8 }
    in file: bucket = { span = 9 }
    folded keys would be looked for in other places; write it as in use, or move them with `keyfold fold`

  b:{x}
    in use:  placement = \"zipped\"
    in file: (nothing)
    its folded keys would be lost from sight; keep the namespace, or `keyfold unfold` it first"
    );
    let narrower = text.clone() + &namespace("b:{x:int}", "bucket = { span = 8 }");
    assert!(
        Layout::merge(Some(&layout), &file(&narrower)).unwrap_err().to_string().contains("`b:0` is a key of `b:{x}`")
    );
    let field_limit = text.replacen("bucket", "field_limit = 5\nbucket", 1);
    assert!(Layout::merge(Some(&layout), &file(&field_limit)).is_err());
}

#[test]
fn physical_names_are_read() {
    let layout = layout();
    let uuid = "018f0000-0000-7000-8000-0000000000ff";
    for name in ["user:1", "page:x", "", "keyfol"] {
        assert_eq!(layout.read_physical(name.as_bytes()), Physical::Plain, "{name}");
    }
    assert_eq!(layout.read_physical(b"keyfold:{home}:layout"), Physical::Administration);
    for (rest, index) in [(":7", 0), (":4GF", 1), (":2LA", 2), (";9", 6)] {
        let name = name(&layout, index, rest);
        assert_eq!(layout.read_physical(name.as_bytes()), Physical::Bucket(NamespaceIndex(index)), "{name}");
    }
    let seen = Physical::Zipped { namespace: NamespaceIndex(7), key: format!("seen:9000:{uuid}").into_bytes() };
    assert_eq!(layout.read_physical(name(&layout, 7, "=2LA:AY8AAAAAcACAAAAAAAAA_w").as_bytes()), seen);
    for (index, rest) in [
        (0, ""),
        (0, ";7"),
        (0, ":07"),
        (0, ":"),
        (0, "1:7"),
        (1, ":4GG"),
        (1, ";0"),
        (0, "=1"),
        (3, ":1"),
        (3, "=admin:x"),
        (4, ":1"),
        (5, ";1"),
        (6, ";zzz"),
        (7, "=2LA:AY8"),
    ] {
        let name = name(&layout, index, rest);
        assert_eq!(layout.read_physical(name.as_bytes()), Physical::Unknown, "{name}");
    }
    let tagged = name(&layout, 0, ":7").replace('~', "~{06S}");
    for name in ["~", "~0", "~0:7", "~00000:1", tagged.as_str()] {
        assert_eq!(layout.read_physical(name.as_bytes()), Physical::Unknown, "{name}");
    }
}

#[test]
fn fields_that_were_never_written_are_no_keys() {
    let layout = layout();
    let key_of = |index, name: &str, field: &[u8]| layout.key_of(NamespaceIndex(index), name.as_bytes(), field);
    let [own, other] = [0, 1].map(|index| name(&layout, index, ":7"));
    assert_eq!(key_of(0, &own, b"104"), Some(b"user:1000:logins".to_vec()));
    for field in [b"128".as_slice(), b"0104", b"+1", b"", b"x", b"18446744073709551615"] {
        assert_eq!(key_of(0, &own, field), None, "{}", field.escape_ascii());
    }
    assert_eq!(key_of(1, &own, b"104"), None);
    assert_eq!(key_of(0, &other, b"104"), None);
    assert_eq!(key_of(0, &name(&layout, 0, ":AzL8n0Y58m7"), b"127"), None);
    assert_eq!(key_of(99, &own, b"104"), None);
}

/// Keys of all the namespaces, and bytes of nobody.
fn any_key() -> impl Strategy<Value = Vec<u8>> {
    let layouts = [layout(), clustered()];
    let namespaces = layouts.iter().flat_map(Layout::namespaces);
    let of_each = namespaces
        .flat_map(|namespace| namespace.keys.iter())
        .map(|template| keys(template).boxed())
        .collect::<Vec<_>>();
    prop_oneof![8 => (any::<prop::sample::Index>(), of_each).prop_map(|(which, keys)| which.get(&keys).clone()),
        1 => proptest::collection::vec(any::<u8>(), 0..20)]
}

proptest! {
    #[test]
    fn a_place_gives_back_its_key(key in any_key(), cluster: bool) {
        let layout = if cluster { clustered() } else { layout() };
        match layout.locate(&key) {
            Located::Plain => prop_assert_eq!(layout.read_physical(&key), Physical::Plain),
            Located::Reserved => prop_assert_ne!(layout.read_physical(&key), Physical::Plain),
            Located::Placed(Place { namespace, kind, physical, field, .. }) => {
                prop_assert_eq!(layout.key_of(namespace, &physical, &field), Some(key.clone()));
                prop_assert!(!cluster || Slot::of(&physical) == Slot::of(&key));
                let expected = if kind.is_field() {
                    Physical::Bucket(namespace)
                } else {
                    Physical::Zipped { namespace, key }
                };
                prop_assert_eq!(layout.read_physical(&physical), expected);
            }
            Located::Moving(_) => prop_assert!(false, "nothing moves in this layout"),
        }
    }

    #[test]
    fn outside_bytes_are_a_place_or_nothing(
        index in 0_usize..9, of in 0_usize..8, rest in "[:;=!][0-9A-Za-z_:-]{0,4}",
        field in proptest::collection::vec(any::<u8>(), 0..20), slot in proptest::option::of(0_u16..16_384)
    ) {
        let layout = if slot.is_some() { clustered() } else { layout() };
        let tag = slot.and_then(Slot::new).map(|slot| format!("~{{{}}}", String::from_utf8_lossy(slot.tag())));
        let name = name(&layout, of, &rest).replace('~', &tag.unwrap_or_else(|| "~".to_owned()));
        if let Some(key) = layout.key_of(NamespaceIndex(index), name.as_bytes(), &field) {
            let Located::Placed(place) = layout.locate(&key) else { panic!("{key:?} is not placed") };
            prop_assert_eq!((place.physical.as_slice(), place.field.as_slice()), (name.as_bytes(), field.as_slice()));
        }
        layout.read_physical(&field);
        if let Physical::Spill { namespace, nonce, key } = layout.read_physical(name.as_bytes()) {
            let origin = Origin { slot: slot.and_then(Slot::new), stem: layout.namespace(namespace).stem };
            prop_assert_eq!(spill_name(origin, nonce, key), name.as_bytes());
        }
    }

    #[test]
    fn a_spill_is_read_back(
        index in prop::sample::select(vec![0_usize, 1, 2, 3, 5, 6, 7]), nonce: u64, key: Vec<u8>, cluster: bool
    ) {
        let (layout, namespace) = (if cluster { clustered() } else { layout() }, NamespaceIndex(index));
        let Namespace { stem, placement, .. } = layout.namespace(namespace);
        let name = spill_name(placement.origin(*stem, &key), nonce, &key);
        prop_assert_eq!(layout.read_physical(&name), Physical::Spill { namespace, nonce, key: &key });
    }

    #[test]
    fn no_text_makes_a_layout_panic(text in "(\\[\\[namespace\\]\\]\nkeys = \"[a:{}int()0-9]{0,12}\"\n){1,2}") {
        let _ = LayoutFile::parse(&text);
    }
}

#[test]
fn a_compressed_namespace_on_its_way_to_being_plain_is_read_back() {
    let file = "[[namespace]]\nkeys = \"page:{path}\"\ncodec = \"zstd\"\n";
    let folded = Layout::parse_file(file).unwrap();
    let moving = folded.plan_unfold(&[NamespaceIndex(0)]).unwrap().layout;
    assert_eq!(Layout::from_stored(&moving.to_stored()).unwrap(), moving);
    let plain = format!("{file}placement = \"plain\"\n");
    assert!(Layout::parse_file(&plain).is_err(), "nobody means that in a file");
}

/// Some of its keys may still be in the wider one's buckets, where a new namespace would not look.
#[test]
fn keys_of_a_namespace_that_is_being_unfolded_are_not_taken_from_it() {
    let wider = "[[namespace]]\nkeys = \"page:{path}\"\nbucket = { count = 8 }\n";
    let narrower = format!("{wider}[[namespace]]\nkeys = \"page:admin:{{path}}\"\nbucket = {{ count = 8 }}\n");
    let folded = Layout::parse_file(wider).unwrap();
    let only = "[[namespace]]\nkeys = \"page:admin:{path}\"\nbucket = { count = 8 }\n";
    let unfolding = folded.plan_unfold(&[NamespaceIndex(0)]).unwrap();
    for layout in [&folded, &unfolding.layout] {
        for text in [only, &narrower] {
            let refused = layout.plan_fold(&file(text)).unwrap_err().to_string();
            assert!(refused.contains("unfold the wider namespace first"), "{refused}");
            assert!(Layout::merge(Some(layout), &file(only)).is_err());
        }
    }
    let plain = unfolding.layout.settled(&unfolding.moving);
    assert!(plain.plan_fold(&file(only)).is_ok());
}

/// A plain namespace is there for the sake of a wider one that has places of its own, and goes with it.
#[test]
fn of_namespaces_that_are_unfolded_together_none_stays_for_another() {
    let narrow = "[[namespace]]\nkeys = \"profile:{id:int}\"\nbucket = { span = 8 }\n";
    let wide = "[[namespace]]\nkeys = \"{name}:{id:int}\"\nbucket = { count = 8 }\n";
    let folded = Layout::merge(None, &file(&format!("{narrow}{wide}"))).unwrap().layout;
    let both = [NamespaceIndex(0), NamespaceIndex(1)];
    let unfolding = folded.plan_unfold(&both).unwrap().layout;
    assert!(unfolding.settled(&both).is_empty());
    // As long as the wider one is still on its way, the other keeps its keys from it.
    assert_eq!(unfolding.settled(&both[..1]).namespaces().len(), 2);
    assert_eq!(unfolding.settled(&both[1..]).namespaces().len(), 1);
    let narrow_alone = folded.plan_unfold(&both[..1]).unwrap();
    assert_eq!(narrow_alone.layout.settled(&narrow_alone.moving).namespaces().len(), 2);
}

/// Whoever goes by the one before has to learn of it.
#[test]
fn a_fold_that_changes_only_how_a_cache_is_kept_is_a_layout_of_its_own() {
    let namespace = "[[namespace]]\nkeys = \"page:{path}\"\nbucket = { count = 8 }\n";
    let with = |bytes: &str| file(&format!("[cache]\nmax_memory = \"{bytes}\"\n{namespace}"));
    let before = Layout::merge(None, &with("1gb")).unwrap().layout;
    assert_eq!(before.plan_fold(&with("1gb")).unwrap().layout.revision(), before.revision());
    let planned = before.plan_fold(&with("2gb")).unwrap();
    assert_eq!((planned.layout.epoch(), planned.moving.len()), (Epoch(before.epoch().0 + 1), 0));
    let reopened = planned.reopen(&before, &[NamespaceIndex(0)]);
    assert_eq!(reopened.layout.epoch(), Epoch(before.epoch().0 + 1));
    assert_ne!(reopened.layout.cache(), before.cache());
}
