//! Namespaces of several templates, whose keys share buckets.

use super::{Layout, LayoutFile, NamespaceIndex};
use crate::codec::{Kinds, Owner};
use crate::placement::Secrets;

const ALONE: &str = "[[namespace]]\nkeys = 'user:{id:int}'\nbucket = { count = 1 }\n";
const TOGETHER: &str =
    "[[namespace]]\nkeys = ['user:{id:int}', 'cart:{id:uuid}', 'flag:{name}']\nbucket = { count = 1 }\n";
const CART: &str = "cart:9f1c2d3e-4b5a-4678-9abc-def012345678";

fn file(namespaces: &str) -> LayoutFile {
    LayoutFile::parse(&format!("cluster = true\n{namespaces}")).unwrap_or_else(|error| panic!("{error}"))
}

fn refusal(namespaces: &str) -> String {
    LayoutFile::parse(namespaces).unwrap_err().to_string()
}

fn places(layout: &Layout, key: &str) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    layout.places(key.as_bytes()).map(|place| (text(&place.physical), text(&place.field))).collect()
}

/// Moves what the file says, and settles it there.
fn brought(layout: &Layout, file: &LayoutFile) -> Layout {
    let planned = layout.plan_fold(file).unwrap_or_else(|error| panic!("{error}"));
    planned.layout.follows(layout).unwrap();
    assert_eq!(Layout::from_stored(&planned.layout.to_stored()).unwrap(), planned.layout);
    planned.layout.settled(&planned.moving)
}

#[test]
fn one_bucket_a_slot_for_all() {
    let layout = file(TOGETHER).into_layout();
    let names = layout.namespaces()[0].names().unwrap();
    assert_eq!(layout.namespaces()[0].keys.to_string(), "user:{id:int} | cart:{id:uuid} | flag:{name}");
    // Hash tags bring them into one slot.
    let tagged =
        file(&TOGETHER.replace("user:{id:int}", "user:{{{id:int}}}").replace("flag:{name}", "flag:{{{name}}}"));
    let tagged = tagged.into_layout();
    let [user, flag] = ["user:{7}", "flag:{7}"].map(|key| places(&tagged, key).remove(0));
    assert_eq!(user.0, flag.0);
    assert_eq!([user.1.as_str(), flag.1.as_str()], ["7", "C7"]);
    assert!(user.0.ends_with(";0"));
    for key in ["user:7", "flag:beta", CART] {
        let place = layout.places(key.as_bytes()).next().unwrap();
        assert!(place.physical.ends_with(format!("{};0", &names[1..]).as_bytes()));
        assert_eq!(layout.key_of(place.namespace, &place.physical, &place.field).as_deref(), Some(key.as_bytes()));
    }
    assert!(places(&layout, "user:x").is_empty() && places(&layout, "cart:7").is_empty());
}

#[test]
fn names_follow_from_all_templates_in_their_order() {
    let names = |keys: &str| file(&format!("[[namespace]]\nkeys = {keys}\nbucket = {{ count = 1 }}\n")).into_layout();
    let names = |keys: &str| names(keys).namespaces()[0].names().unwrap();
    let all =
        ["['a:{x}', 'b:{x}']", "['b:{x}', 'a:{x}']", "['a:{x}', 'b:{x}', 'c:{x}']", "['a:{x}']", "'a:{x} | b:{y}'"];
    let different: std::collections::BTreeSet<_> = all.map(names).into();
    assert_eq!(different.len(), all.len());
    assert_eq!(names("['a:{x}', 'b:{x}']"), names("['a:{y}', 'b:{z}']"), "placeholders' names count for nothing");
    assert_eq!(names("['a:{x}']"), names("'a:{x}'"), "a list of one is as the one");
    assert_eq!(names("['a:{x}', 'b:{x}']"), "~DDPA", "stored keys would be lost from sight, should it ever change");
}

#[test]
fn the_more_specific_has_a_key_wherever_it_stands() {
    let layout = file(
        "[[namespace]]\nkeys = ['a:{x}', 'a:{x:int}', 'b:{x:int}']\nbucket = { count = 1 }\n\
         [[namespace]]\nkeys = ['b:{x}', 'a:0{x:int}']\nbucket = { count = 1 }\n",
    )
    .into_layout();
    let found = |key: &str| {
        let place = layout.places(key.as_bytes()).next().unwrap();
        (place.namespace.0, place.field.escape_ascii().to_string())
    };
    assert_eq!(found("a:word"), (0, "Aword".to_owned()));
    assert_eq!(found("a:7"), (0, "14".to_owned()));
    assert_eq!(found("b:7"), (0, "15".to_owned()));
    assert_eq!(found("b:word"), (1, "Aword".to_owned()));
    assert_eq!(found("a:07"), (1, "7".to_owned()));
}

#[test]
fn both_forms_come_back() {
    let text = TOGETHER.replace("bucket", "text_table = 'AQJhYgJjZA'\ncodec = 'uuid'\nvalue_limit = 50\nbucket");
    let layout = file(&text).into_layout();
    assert_eq!(Layout::from_stored(&layout.to_stored()).unwrap(), layout);
    assert_eq!(LayoutFile::parse(&layout.to_file()).unwrap().into_layout(), layout);
    assert!(layout.to_file().contains("keys = [\"user:{id:int}\", \"cart:{id:uuid}\", \"flag:{name}\"]"));
    let moving = Layout::default().plan_fold(&file(&text)).unwrap().layout;
    assert_eq!(Layout::from_stored(&moving.to_stored()).unwrap(), moving);
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    let at = |keys: &str, rest: &str| refusal(&format!("[[namespace]]\nkeys = {keys}\n{rest}\n"));
    let count = "bucket = { count = 9 }";
    let cases = [
        (at("[]", count), "line 2, column 8: invalid length 0, expected a template"),
        (at("['a:{x}', 7]", count), "line 2, column 18: invalid type: integer `7`, expected a string"),
        (at("7", count), "line 2, column 8: invalid type: integer `7`, expected a template such as"),
        (at("['a:{x}', 'b:{x']", count), "line 2, column 21: `keys`: "),
        (
            at("['a:{x}', 'b:{x}', 'a:{y}']", count),
            "line 2, column 27: `keys`: `a:{y}` matches exactly the keys of `a:{x}` (line 2)",
        ),
        (at("['a:{x}', '{x}:b']", count), "line 2, column 18: `keys`: `{x}:b` and `a:{x}` (line 2) both match"),
        (at("['a:{x}', '~{x}']", count), "line 2, column 18: `keys`: all keys of `~{x}`"),
        (
            at("['a:{x:int}', 'b:{x:int}']", "bucket = { span = 128 }"),
            "line 3, column 10: the keys of several templates share",
        ),
        (
            at("['a:{x}:{y}', 'b:{x}:{y}']", "bucket = { by = 'x' }"),
            "line 3, column 10: the keys of several templates share",
        ),
        (at("['a:{x}', 'b:{x}']", ""), "line 2, column 9: the keys of several templates share"),
        (at("['a:{x}', 'b:{x}']", "placement = 'zipped'"), "line 2, column 9: the keys of several templates share"),
        (
            at("['a:{x:int}', 'b:{x:int}']", &format!("{count}\ntext_table = 'AQJhYgJjZA'")),
            "line 4, column 14: `text_table`",
        ),
    ];
    for (said, expected) in cases {
        assert!(said.starts_with(expected), "{said}");
    }
    let other = refusal(&format!("cluster = true\n{ALONE}{TOGETHER}"));
    assert!(other.starts_with("line 6, column 9: `keys`: `user:{id:int}` matches exactly the keys of"), "{other}");
}

#[test]
fn from_plain_and_back() {
    let folded = brought(&Layout::default(), &file(TOGETHER));
    assert_eq!(places(&folded, CART).len(), 1);
    let away = folded.plan_unfold(&[NamespaceIndex(0)]).unwrap();
    assert_eq!(Layout::from_stored(&away.layout.to_stored()).unwrap(), away.layout);
    assert!(away.layout.namespaces()[0].placement.is_plain());
    assert_eq!(places(&away.layout, CART), places(&folded, CART), "keys are still looked for there");
    let plain = away.layout.settled(&away.moving);
    assert!(plain.is_empty());
    let again = brought(&plain, &file(TOGETHER));
    assert_eq!(again.namespaces()[0].names(), folded.namespaces()[0].names().map(|names| names + "1"));
}

#[test]
fn another_count_is_a_move_like_any_other() {
    let folded = brought(&Layout::default(), &file(TOGETHER));
    let moving = folded.plan_fold(&file(&TOGETHER.replace("count = 1", "count = 2"))).unwrap();
    assert_eq!(places(&moving.layout, "flag:x").len(), 2);
    for key in ["user:7", "flag:x", CART] {
        for place in moving.layout.places(key.as_bytes()) {
            let found = moving.layout.key_of(place.namespace, &place.physical, &place.field);
            assert_eq!(found.as_deref(), Some(key.as_bytes()));
        }
    }
}

#[test]
fn templates_join_and_part_only_by_way_of_plain_keys() {
    let alone = brought(&Layout::default(), &file(ALONE));
    let together = brought(&Layout::default(), &file(TOGETHER));
    for (layout, wanted, key) in [(&alone, TOGETHER, "user:0"), (&together, ALONE, "user:0")] {
        let said = layout.plan_fold(&file(wanted)).unwrap_err().to_string();
        assert!(said.contains(&format!("`{key}` is a key of")) && said.contains("`keyfold unfold`"), "{said}");
        let said = Layout::merge(Some(layout), &file(wanted)).unwrap_err().to_string();
        assert!(said.contains(&format!("`{key}` is a key of")), "{said}");
        // Where one was lost and the other is served, nobody guesses.
        assert!(file(wanted).into_layout().united(layout).unwrap_err().contains("`user:0` is a key of"));
    }
    let more = TOGETHER.replace("'flag:{name}'", "'flag:{name}', 'new:{name}'");
    assert!(together.plan_fold(&file(&more)).is_err(), "one more is another namespace");
}

#[test]
fn no_move_brings_a_key_into_two_namespaces() {
    let folded = brought(&Layout::default(), &file(TOGETHER));
    let crossing = file("[[namespace]]\nkeys = '{x}:beta'\nbucket = { count = 1 }\n");
    let said = folded.plan_fold(&crossing).unwrap_err().to_string();
    assert!(said.contains("`flag:beta` is a key of") && said.contains("narrow one of them"), "{said}");
}

#[test]
fn codecs_see_the_parts_of_the_template_that_a_key_is_of() {
    let text = format!("cluster = true\n{}", TOGETHER.replace("bucket", "codec = 'uuid'\nbucket"));
    let file = LayoutFile::parse_with(&text, &Kinds::default(), &Secrets::default()).unwrap();
    let layout = file.into_layout();
    let keys = &layout.namespaces()[0].keys;
    assert_eq!(Owner::new(keys, b"flag:x").texts().as_slice(), [b"x".as_slice()]);
    assert_eq!(Owner::new(keys, b"user:7").texts().as_slice(), [b"7".as_slice()]);
    assert!(Owner::new(keys, b"other:7").texts().is_empty());
    let namespace = &layout.namespaces()[0];
    for key in ["user:7", "flag:x", CART] {
        let value = b"018f0000-0000-7000-8000-0000000000ff";
        let stored = namespace.encode(key.as_bytes(), value, None);
        let crate::codec::Stored::InPlace(stored) = stored else { panic!("{stored:?}") };
        assert!(stored.len() < value.len());
        let frame = crate::frame::Frame::decode(&stored).unwrap();
        assert_eq!(namespace.decode(key.as_bytes(), &frame, None).unwrap().as_deref(), Some(value.as_slice()));
    }
}
