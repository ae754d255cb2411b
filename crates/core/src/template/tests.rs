use proptest::prelude::*;

use super::{Automaton, Part, Parts, Piece, Relation, Template, TemplateError, Type};

pub(crate) fn template(source: &str) -> Template {
    Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error}"))
}

/// The parts of `key`, where it matches.
pub(crate) fn parse_key<'k>(template: &Template, key: &'k [u8]) -> Option<Parts<'k>> {
    let mut parts = Parts::new();
    template.parse_key(key, &mut parts).then_some(parts)
}

/// Text that a placeholder of this type matches, with the edges of its type often.
fn matching(kind: Type) -> BoxedStrategy<Vec<u8>> {
    let bytes = |text: BoxedStrategy<String>| text.prop_map(String::into_bytes).boxed();
    match kind {
        Type::Int => bytes(
            prop_oneof![
                (0_u64..300).prop_map(|n| n.to_string()),
                any::<i64>().prop_map(|n| n.unsigned_abs().to_string()),
                Just("9223372036854775807".to_owned()),
                Just("9223372036854775808".to_owned()),
            ]
            .boxed(),
        ),
        Type::Padded(width) => {
            let width = usize::from(width);
            prop_oneof![
                proptest::collection::vec(b'0'..=b'9', width),
                (0_u32..10).prop_map(move |n| format!("{n:0width$}").into_bytes()),
            ]
            .boxed()
        }
        Type::Uuid => bytes("[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}".boxed()),
        Type::Hex => bytes("([0-9a-f]{2}){1,3}|([0-9a-f]{2}){7,20}|0{16}0[0-3]".boxed()),
        Type::Text => prop_oneof![
            bytes("[a-c:{}!~=;0-9]{0,4}".boxed()),
            proptest::collection::vec(any::<u8>(), 0..6),
            proptest::collection::vec(any::<u8>(), 60..70),
        ]
        .boxed(),
    }
}

/// Keys that match `template`, nearly match it, or might be taken for another that does.
pub(crate) fn keys(template: &Template) -> impl Strategy<Value = Vec<u8>> + use<> {
    let pieces: Vec<_> = template
        .pieces
        .iter()
        .map(|piece| match piece {
            Piece::Literal(literal) => Just(literal.clone()).boxed(),
            Piece::Placeholder(kind) => matching(*kind),
        })
        .collect();
    let matching = pieces.prop_map(|pieces| pieces.concat());
    let edits = proptest::option::weighted(0.3, (any::<prop::sample::Index>(), "[0-9a-fA:~ -]", 0..3));
    (matching, edits).prop_map(|(mut key, edit)| {
        if let Some((at, byte, kind)) = edit {
            let at = at.index(key.len() + 1);
            match kind {
                0 => key.insert(at, byte.as_bytes()[0]),
                1 if at < key.len() => key[at] = byte.as_bytes()[0],
                _ if at < key.len() => drop(key.remove(at)),
                _ => {}
            }
        }
        key
    })
}

/// Templates of up to five pieces, from few letters, so that they often meet.
fn templates() -> impl Strategy<Value = Template> {
    let piece = prop_oneof![
        3 => "[a1:]{1,2}",
        1 => prop_oneof!["aab", "abab", "::", "\\{\\{", "keyfold:", "~"],
        2 => prop_oneof![Just("{#:int}"), Just("{#:int(2)}"), Just("{#:hex}"), Just("{#}"), Just("{#:uuid}")]
            .prop_map(str::to_owned),
    ];
    proptest::collection::vec(piece, 1..6).prop_filter_map("ambiguous", |pieces| {
        let source: String = pieces.iter().enumerate().map(|(i, piece)| piece.replace('#', &format!("p{i}"))).collect();
        Template::parse(&source).ok()
    })
}

fn refusal(source: &str) -> TemplateError {
    Template::parse(source).unwrap_err()
}

#[test]
fn parts_are_typed() {
    let parts = template("a:{n:int}:{w:int(4)}:{u:uuid}:{h:hex}:{t}");
    let key = b"a:12:0034:018f0000-0000-7000-8000-0000000000ff:beef:x:y";
    assert_eq!(
        parse_key(&parts, key).unwrap().as_slice(),
        [
            Part::Int(12),
            Part::Int(34),
            Part::Uuid(0x018f_0000_0000_7000_8000_0000_0000_00ff),
            Part::Hex(b"beef".as_slice().into()),
            Part::Text(b"x:y".as_slice().into()),
        ]
    );
}

#[test]
fn only_canonical_keys_match() {
    let user = template("user:{id:int}");
    for key in ["user:0", "user:7", "user:9223372036854775807"] {
        assert!(parse_key(&user, key.as_bytes()).is_some(), "{key}");
    }
    for key in ["user:", "user:007", "user:00", "user:-1", "user:+1", "user:9223372036854775808", "user:7 ", "User:7"] {
        assert!(parse_key(&user, key.as_bytes()).is_none(), "{key}");
    }
    let session = template("s:{id:uuid}");
    assert!(parse_key(&session, b"s:018f0000-0000-7000-8000-0000000000fF").is_none());
    assert!(parse_key(&session, b"s:018f00000000700080000000000000ff").is_none());
    let file = template("f:{id:hex}");
    assert!(parse_key(&file, b"f:").is_none());
    assert!(parse_key(&file, b"f:abc").is_none());
    assert!(parse_key(&file, b"f:AB").is_none());
}

#[test]
fn text_ends_at_the_first_occurrence() {
    let parts = template("{a}::{b}");
    assert_eq!(
        parse_key(&parts, b"x:::y").unwrap().as_slice(),
        [Part::Text(b"x".as_slice().into()), Part::Text(b":y".as_slice().into())]
    );
    assert!(parse_key(&template("{a}:{b:int}"), b"x:y:1").is_none());
    assert!(parse_key(&template("{a}:{b:int}"), b":1").is_some());
    assert!(parse_key(&template("{a}aab{b}"), b"aaab").is_some());
}

#[test]
fn braces_are_escaped() {
    let tagged = template("{{user:{id:int}}}:x");
    assert_eq!(parse_key(&tagged, b"{user:5}:x").unwrap().as_slice(), [Part::Int(5)]);
}

#[test]
fn ambiguity_is_refused() {
    for source in ["{a}{b}", "{a}{b:int}", "{a:int}{b}", "{a:int}{b:int(2)}", "{a:hex}{b:uuid}", "{a:hex}{b:int(3)}"] {
        assert!(
            matches!(refusal(source), TemplateError::Unbounded { .. } | TemplateError::SwallowsPlaceholder { .. }),
            "{source}"
        );
    }
    for source in ["{a:int}0", "{a:hex}0", "{a:hex}f"] {
        assert!(matches!(refusal(source), TemplateError::SwallowsLiteral { .. }), "{source}");
    }
    for source in ["{a:int}x", "{a:hex}g", "{a:int(3)}{b:int}", "{a:uuid}{b}", "{a:int(3)}7"] {
        template(source);
    }
}

#[test]
fn refusals_say_what_to_write() {
    assert_eq!(refusal(""), TemplateError::Empty);
    assert_eq!(refusal("user"), TemplateError::NoPlaceholder);
    assert_eq!(refusal("u:{id"), TemplateError::Unclosed { at: 2 });
    assert_eq!(refusal("u:}"), TemplateError::Stray { at: 2 });
    assert_eq!(refusal("u:{}"), TemplateError::Unnamed { at: 2 });
    assert_eq!(refusal("{a}:{a:int}"), TemplateError::Duplicate { name: "a".into() });
    assert_eq!(
        refusal("u:{id:uint}").to_string(),
        "`{id:uint}`: unknown type \"uint\"; there are `int`, `int(12)` (zero-padded), `uuid` and `hex`, and text is \
         written without a type, `{id}`"
    );
    for width in ["int(0)", "int(19)", "int(+3)", "int(03)", "int()"] {
        assert!(Template::parse(&format!("{{a:{width}}}")).is_err(), "{width}");
    }
}

#[test]
fn relations() {
    let relation = |a: &str, b: &str| Automaton::of(&template(a)).relation(&Automaton::of(&template(b)));
    assert_eq!(relation("u:{a:int}", "s:{a:int}"), Relation::Disjoint);
    assert_eq!(relation("u:{a:int}", "u:{b}"), Relation::Within);
    assert_eq!(relation("u:{b}", "u:{a:int(3)}"), Relation::Around);
    assert_eq!(relation("u:{a:int(2)}{b:int(2)}", "u:{c:int(4)}"), Relation::Same);
    assert_eq!(relation("{a}:x", "u:{b}"), Relation::Crossing(b"u:x".to_vec()));
    assert_eq!(relation("{a:int}", "{b:int(2)}"), Relation::Crossing(b"10".to_vec()));
    assert_eq!(relation("{a:uuid}", "{b:hex}"), Relation::Disjoint);
}

proptest! {
    #[test]
    fn a_match_renders_to_its_key((template, key) in templates().prop_flat_map(|t| (Just(t.clone()), keys(&t)))) {
        if let Some(parts) = parse_key(&template, &key) {
            prop_assert_eq!(parts.len(), template.placeholders().len());
            prop_assert_eq!(&template.render(&parts), &key);
        }
    }

    #[test]
    fn the_automaton_is_the_matcher((template, key) in templates().prop_flat_map(|t| (Just(t.clone()), keys(&t)))) {
        prop_assert_eq!(Automaton::of(&template).matches(&key), parse_key(&template, &key).is_some());
    }

    #[test]
    fn examples_are_examples(a in templates(), b in templates(), key in "[a1:]{0,6}") {
        let (left, right) = (Automaton::of(&a), Automaton::of(&b));
        let matches = |key: &[u8]| (parse_key(&a, key).is_some(), parse_key(&b, key).is_some());
        let (shared, beyond) = (left.shared(&right), left.beyond(&right));
        if let Some(example) = &shared {
            prop_assert_eq!(matches(example), (true, true));
        }
        if let Some(example) = &beyond {
            prop_assert_eq!(matches(example), (true, false));
        }
        match matches(key.as_bytes()) {
            (true, true) => prop_assert!(shared.is_some_and(|example| example.len() <= key.len())),
            (true, false) => prop_assert!(beyond.is_some_and(|example| example.len() <= key.len())),
            _ => {}
        }
    }
}
