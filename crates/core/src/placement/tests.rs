//! One suite over all placements, and how evenly *count* spreads.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::name::{Head, Mark, Name, Stem};
use super::text_table::TextTableError;
use super::{By, Count, Field, Placement, Secret, Span, TextTable};
use crate::base62;
use crate::slot::Slot;
use crate::template::tests::{keys, template};
use crate::template::{Parts, Templates};

fn span(source: &str, of: Option<&str>, span: i64) -> (Templates, Placement) {
    let template = template(source);
    let placement = Placement::from(Span::new(&template, span, of).unwrap());
    (template.into(), placement)
}

fn count(source: &str, count: i64) -> (Templates, Placement) {
    let template = template(source);
    let placement = Placement::from(Count::new(&template, count).unwrap());
    (template.into(), placement)
}

/// Spread with the keys of other templates.
fn shared(sources: &[&str], count: i64) -> (Templates, Placement) {
    let templates = Templates::new(sources.iter().map(|source| template(source)).collect()).unwrap();
    let placement = Placement::from(Count::of_all(&templates, count).unwrap());
    (templates, placement)
}

/// Spread by a secret.
fn keyed((template, placement): (Templates, Placement), secret: &[u8]) -> (Templates, Placement) {
    let placement = placement.keyed_by(Arc::new(Secret::new(secret).unwrap())).unwrap();
    (template, placement)
}

fn by(source: &str, name: &str) -> (Templates, Placement) {
    let template = template(source);
    let placement = Placement::from(By::new(&template, name).unwrap());
    (template.into(), placement)
}

fn zipped(source: &str) -> (Templates, Placement) {
    (template(source).into(), Placement::zipped())
}

/// The same with a text table.
fn packed((template, placement): (Templates, Placement)) -> (Templates, Placement) {
    let symbols: [&[u8]; 16] = [
        b"a", b"b", b"c", b"0", b"1", b"2", b"-", b":", b"ab", b"b\0", b"\0a", b"c\x01", b"\0", b"12", b"name", b"\xff",
    ];
    let table = TextTable::new(symbols.map(<[u8]>::to_vec).into()).unwrap();
    let placement = placement.with_text_table(&template, table).unwrap();
    (template, placement)
}

/// The same in a cluster.
fn by_slot((template, placement): (Templates, Placement)) -> (Templates, Placement) {
    (template, placement.by_slot(true))
}

type Place = (Vec<u8>, Vec<u8>);

fn stem() -> Stem {
    "0007".parse().unwrap()
}

/// The parts of `key` by the first template that it matches.
fn parse_key<'k>(templates: &Templates, key: &'k [u8]) -> Option<Parts<'k>> {
    (0..templates.len()).find_map(|number| {
        let mut parts = Parts::new();
        templates.parse_key(number, key, &mut parts).then_some(parts)
    })
}

/// Keys that match one of the templates, or nearly do.
fn keys_of(templates: &Templates) -> impl Strategy<Value = Vec<u8>> + use<> {
    proptest::strategy::Union::new(templates.iter().map(|template| keys(template).boxed()))
}

fn locate((templates, placement): &(Templates, Placement), key: &[u8]) -> Option<Place> {
    let (mut name, mut field) = (Name::new(), Field::new());
    let parts = parse_key(templates, key)?;
    let origin = placement.origin(stem(), key);
    placement.locate(origin, &parts, &mut name, &mut field).then(|| (name.into_vec(), field.into_vec()))
}

fn decode((templates, placement): &(Templates, Placement), (name, field): &Place) -> Option<Vec<u8>> {
    let Head { origin, mark, rest } = Head::decode(name)?;
    assert_eq!((origin.stem, origin.slot.is_some()), (stem(), placement.is_by_slot()));
    assert_eq!(placement.names_bucket(templates, mark, rest), mark != Mark::Zipped);
    placement.decode(templates, mark, rest, field).and_then(|parts| templates.render(&parts))
}

/// For each placement: a place gives back its key, and no two keys share one.
macro_rules! one_to_one {
    ($($name:ident: $folded:expr;)*) => {
        mod one_to_one {
            use super::*;
            proptest! {$(
                #[test]
                fn $name(keys in proptest::collection::vec(keys_of(&$folded.0), 2..12)) {
                    let folded = $folded;
                    let mut places = HashMap::new();
                    for key in keys {
                        let Some(place) = locate(&folded, &key) else {
                            prop_assert!(parse_key(&folded.0, &key).is_none(), "a matching key has a place");
                            continue;
                        };
                        prop_assert!(place.0.starts_with(b"~"));
                        prop_assert!(!folded.1.is_by_slot() || Slot::of(&place.0) == Slot::of(&key));
                        let decoded = decode(&folded, &place);
                        prop_assert_eq!(decoded.as_deref(), Some(key.as_slice()));
                        let other = places.insert(place, key.clone());
                        prop_assert!(other.is_none_or(|other| other == key));
                    }
                }
            )*}
        }
    };
}

one_to_one! {
    zipped_text: zipped("page:{path}");
    zipped_texts: zipped("{a}:{b}:{c:int}");
    zipped_all: zipped("{a:hex}:{b:uuid}{c}:{d:int(3)}{e:int}");
    span_int: span("user:{id:int}:logins", None, 128);
    span_padded: span("user:{id:int(12)}", None, 3);
    span_rest: span("{a}:{b:int}:{c:hex}:{d:int}", Some("d"), 1 << 32);
    count_int: count("user:{id:int}", 16384);
    count_padded: count("user:{id:int(4)}", 3);
    count_uuid: count("session:{id:uuid}", 4096);
    count_uuid_odd: count("session:{id:uuid}", 4093);
    count_hex: count("blob:{id:hex}", 1000);
    count_hex_largest: count("blob:{id:hex}", 1 << 32);
    count_text: count("page:{path}", 2);
    count_texts: count("{a}:{b}", 2);
    count_int_text: count("{a}:{id:int}:{b}", 2);
    count_uuid_rest: count("{a}:{b:hex}:{c:uuid}{d:int(2)}", 3);
    count_hex_rest: count("{a:int}:{b:hex}:{c:hex}", 2);
    keyed_uuid: keyed(count("session:{id:uuid}", 4093), b"a secret of keyfold's");
    keyed_text: packed(keyed(count("{a}:{b}", 7), b"a secret of keyfold's"));
    slot_zipped: by_slot(zipped("{a}:{b}:{c:int}"));
    slot_int: by_slot(count("user:{id:int}", 1));
    slot_uuid: by_slot(count("session:{id:uuid}", 3));
    slot_texts: by_slot(packed(keyed(count("{a}:{b}", 2), b"a secret of keyfold's")));
    slot_span: by_slot(span("{{users}}:{id:int}", None, 128));
    slot_by: by_slot(by("user:{{{id:int}}}:{field}", "id"));
    shared_ints: by_slot(shared(&["u:{a:int}", "v:{a:int(6)}", "w:{a:int}"], 1));
    shared_all: by_slot(shared(&["u:{a:int}", "v:{a}", "{a:int}:{b}", "w{a:uuid}{b:hex}", "x:{a:hex}", "y:{a:int}"], 1));
    shared_wide: shared(&["u:{a:int}", "u:{a}", "v:{a:hex}"], 3);
    shared_packed: packed(keyed(shared(&["u:{a:int}", "v:{a}:{b:int}:{c}", "w:{a}"], 7), b"a secret of keyfold's"));
    packed_span_rest: packed(span("{a}:{b:int}:{c:hex}:{d:int}", Some("d"), 1 << 32));
    packed_span_text: packed(span("u:{id:int}:{x}", None, 128));
    packed_count_text: packed(count("page:{path}", 2));
    packed_count_texts: packed(count("{a}:{b}", 2));
    packed_count_long_literal: packed(count("{a}/;/{b}-{c:int}", 2));
    packed_count_int_text: packed(count("{a}:{id:int}:{b}", 2));
    packed_count_uuid_text: packed(count("{a}:{id:uuid}:{b}", 3));
    packed_count_hex_text: packed(count("{a}:{id:hex}:{b}:{c:hex}", 3));
    packed_by_int: packed(by("post:{id:int}:{part}", "id"));
    packed_by_text: packed(by("{tenant}:{id:int}:{b}", "tenant"));
    packed_by_hex: packed(by("{a:hex}:{b}:{c:hex}:{d}", "a"));
    by_int: by("post:{id:int}:{part}", "id");
    by_text: by("{tenant}:{id:int}", "tenant");
    by_uuid: by("{a}:{b:uuid}{c:int(5)}", "b");
    by_hex: by("{a:hex}:{b:hex}:{c:uuid}", "a");
}

fn fields_of(folded: &(Templates, Placement), key: &str) -> (String, String) {
    let (name, field) = locate(folded, key.as_bytes()).unwrap();
    (name.escape_ascii().to_string(), field.escape_ascii().to_string())
}

#[test]
fn places_by_example() {
    let place = |name: &str, field: &str| (name.to_owned(), field.to_owned());
    assert_eq!(fields_of(&span("user:{id:int}:logins", None, 128), "user:1000:logins"), place("~0007:7", "104"));
    assert_eq!(fields_of(&span("u:{id:int}:{x}", None, 128), "u:1000:name"), place("~0007:7", "hname"));
    assert_eq!(fields_of(&by("post:{id:int}:{part}", "id"), "post:9000:title"), place("~0007:2LA", "title"));
    assert_eq!(fields_of(&zipped("page:{path}"), "page:/docs/a"), place("~0007=/docs/a", ""));
    assert_eq!(fields_of(&zipped("{a}:{b:int}"), "user:62"), place("~0007=4:user10", ""));
    assert_eq!(
        fields_of(&zipped("s:{u:int}:{i:uuid}"), "s:9000:018f0000-0000-7000-8000-0000000000ff"),
        place("~0007=2LA:AY8AAAAAcACAAAAAAAAA_w", "")
    );
}

/// Places are on disk: what they are may never change.
#[test]
fn spread_places_never_change() {
    let place = |name: &str, field: &str| (name.to_owned(), field.to_owned());
    assert_eq!(fields_of(&count("u:{id:int}", 16384), "u:1000000"), place("~0007:2LI", "61"));
    let session = count("s:{id:uuid}", 4096);
    assert_eq!(
        fields_of(&session, "s:9f1c2d3e-4b5a-4678-9abc-def012345678"),
        place("~0007:wl", r"\'\xc7\x0bO\x92\xd6\x99\xe1\xab\xcd\xef\x01#E")
    );
    assert_eq!(
        fields_of(&session, "s:9f1c2d3e-4b5a-4678-dabc-def012345678"),
        place("~0007:N3", r"\x0c\'\xc7\x0bO\x92\xd6\x99\xe1\xab\xcd\xef\x01#E")
    );
    assert_eq!(
        fields_of(&keyed(count("u:{id:int}", 16384), b"correct horse battery staple"), "u:1000000"),
        place("~0007:4Ff", "61")
    );
    assert_eq!(
        fields_of(&count("b:{id:hex}", 65536), "b:00112233445566778899"),
        place("~0007:9J5", r#"\"3DUfw\x00\x11"#)
    );
    assert_eq!(fields_of(&count("p:{path}", 1024), "p:/docs/a"), place("~0007;DV", "/docs/a"));
}

#[test]
fn packed_places_never_change() {
    let place = |name: &str, field: &str| (name.to_owned(), field.to_owned());
    let texts = packed(count("{a}:{b}:{c}", 1024));
    assert_eq!(fields_of(&texts, "ab:cab:12"), place("~0007;9c", r"\x01\x00c\x01\x00\x05"));
    assert_eq!(fields_of(&packed(span("u:{id:int}:{x}", None, 128)), "u:1000:name"), place("~0007:7", r"h\x06"));
    assert_eq!(fields_of(&packed(by("post:{id:int}:{part}", "id")), "post:9000:name"), place("~0007:2LA", r"\x06"));
    let session = packed(count("s:{id:uuid}:{x}", 4096));
    assert_eq!(
        fields_of(&session, "s:9f1c2d3e-4b5a-4678-9abc-def012345678:name"),
        place("~0007:GZ", r"\x0e\'\xc7\x0bO\x92\xd6\x99\xe1\xab\xcd\xef\x01#E\x06")
    );
    let hex = packed(count("{a}:{b:hex}:{c}:{d:int}", 64));
    assert_eq!(
        fields_of(&hex, "ab:00ff00ff00ff00ff00:b:500"),
        place("~0007:7", r"\t\x03\xfc\x03\xfc\x03\xfc\x03\xfc\x00\xf4\x03\x01\x00b")
    );
    assert_eq!(fields_of(&hex, "ab:00ff:b:500"), place("~0007;a", r"\x02\x00\xff\xf4\x03\x01\x00b"));
    assert_eq!(fields_of(&packed(count("p:{x}", 64)), "p:2012"), place("~0007;P", "2012"));
}

#[test]
fn shared_places_never_change() {
    let place = |name: &str, field: &str| (name.to_owned(), field.to_owned());
    let all = ["user:{id:int}:seen", "cart:{id:uuid}", "flag:{name}", "seen:{id:int}", "{a:int}:{b}"];
    let all = by_slot(shared(&all, 1));
    assert_eq!(fields_of(&all, "user:7:seen"), place("~{4oO}0007;0", "14"));
    assert_eq!(fields_of(&all, "seen:7"), place("~{647}0007;0", "15"));
    assert_eq!(fields_of(&all, "seen:9223372036854775807").1, "18446744073709551615");
    assert_eq!(
        fields_of(&all, "cart:9f1c2d3e-4b5a-4678-9abc-def012345678").1,
        r"B\x9f\x1c->KZFx\x9a\xbc\xde\xf0\x124Vx"
    );
    assert_eq!(fields_of(&all, "flag:12").1, "C12");
    assert_eq!(fields_of(&all, "12:x").1, r"E\x0cx");
    let wide = shared(&["user:{id:int}", "flag:{name}"], 1024);
    assert_eq!(
        [fields_of(&wide, "user:7"), fields_of(&wide, "flag:a")],
        [place("~0007;8A", "7"), place("~0007;T", "Ba")]
    );
}

/// Bytes that keyfold never wrote, in such a bucket.
#[test]
fn shared_fields_of_nobody() {
    let (templates, placement) = by_slot(shared(&["u:{a:int}", "v:{a}", "w:{a:int}"], 1));
    let decode = |field: &[u8]| {
        placement.decode(&templates, Mark::WholeBucket, b"0", field).map(|parts| templates.render(&parts))
    };
    assert_eq!(decode(b"7"), Some(Some(b"w:3".to_vec())));
    for field in
        [b"".as_slice(), b"-1", b"1x", b"A1", b"Z1", b"D", b"\xff", b"99999999999999999999999999999999999999999"]
    {
        assert_eq!(decode(field), None, "{}", field.escape_ascii());
    }
    let (texts, placement) = shared(&["v:{a}", "w:{a}"], 2);
    assert_eq!(placement.decode(&texts, Mark::WholeBucket, b"0", b"7"), None, "there is none of one int alone");
}

#[test]
fn so_many_templates_share_buckets() {
    let sources: Vec<String> = (0..53).map(|number| format!("t{number}:{{x}}")).collect();
    let templates: Vec<_> = sources.iter().map(|source| template(source)).collect();
    assert!(Count::of_all(&templates, 1).unwrap_err().to_string().starts_with("53 templates can't share buckets, 52"));
    let templates = Templates::new(templates[..52].to_vec()).unwrap();
    let placement = Placement::from(Count::of_all(&templates, 2).unwrap());
    let folded = (templates, placement);
    for number in 0..52 {
        let key = format!("t{number}:x").into_bytes();
        let place = locate(&folded, &key).unwrap();
        assert_eq!(decode(&folded, &place), Some(key));
    }
}

#[test]
fn a_table_needs_text() {
    let table = packed(count("p:{x}", 64)).1.text_table().unwrap().clone();
    let by_text = by("{tenant}:{id:int}", "tenant");
    for (template, placement) in [span("u:{id:int}", None, 128), zipped("{a}:{b}"), by_text, count("{id:uuid}", 2)] {
        assert_eq!(placement.with_text_table(&template, table.clone()), Err(TextTableError::NoText), "{template}");
    }
}

#[test]
fn fields_are_small() {
    let len = |folded: &(Templates, Placement), key: &str| locate(folded, key.as_bytes()).unwrap().1.len();
    let v4 = "s:ffffffff-ffff-4fff-bfff-ffffffffffff";
    assert_eq!(len(&count("s:{id:uuid}", 4096), v4), 14);
    assert_eq!(len(&count("s:{id:uuid}", 1 << 18), v4), 13);
    assert_eq!(len(&count("b:{id:hex}", 1 << 16), &format!("b:{}", "ff".repeat(32))), 30);
}

/// The fill of each bucket that is used.
fn fills(folded: &(Templates, Placement), keys: impl Iterator<Item = String>) -> Vec<usize> {
    let mut fills = HashMap::new();
    for key in keys {
        *fills.entry(locate(folded, key.as_bytes()).unwrap().0).or_insert(0) += 1;
    }
    fills.into_values().collect()
}

/// Whether no bucket is fuller, nor emptier, than chance would make it: six standard deviations.
fn assert_even(what: &str, buckets: usize, fills: &[usize]) {
    let mean = fills.iter().sum::<usize>() as f64 / buckets as f64;
    let (least, most) = (*fills.iter().min().unwrap() as f64, *fills.iter().max().unwrap() as f64);
    let slack = 6.0 * mean.sqrt();
    assert!(fills.len() == buckets, "{what}: {} of {buckets} buckets used", fills.len());
    assert!(most <= mean + slack && least >= mean - slack, "{what}: {least} to {most}, mean {mean}");
}

#[test]
fn ints_spread_evenly() {
    let n = 64 * 1024;
    for buckets in [1024, 1000] {
        let folded = count("u:{id:int}", buckets);
        let check = |what: &str, ids: &mut dyn Iterator<Item = i64>| {
            assert_even(what, usize::try_from(buckets).unwrap(), &fills(&folded, ids.map(|id| format!("u:{id}"))));
        };
        check("dense", &mut (0..n));
        check("dense, high", &mut (1 << 60..(1 << 60) + n));
        check("1 in 100", &mut (0..n).map(|i| i * 100));
        check("stride of the count", &mut (0..n).map(|i| i * buckets));
        check("stride of the count, squared", &mut (0..n).map(|i| i * buckets * buckets));
        check("runs of 10 in 1000", &mut (0..n).map(|i| i / 10 * 1000 + i % 10));
    }
    let dense = fills(&count("u:{id:int}", 1024), (0..n).map(|id| format!("u:{id}")));
    assert!(dense.iter().all(|fill| *fill == 64), "dense ids fill every bucket alike");
}

#[test]
fn uuids_spread_evenly() {
    // A small generator (splitmix64): the same uuids in every run.
    let mut state = 0_u64;
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let mut uuids = |make: &dyn Fn(u64, u64, u64) -> (u64, u64)| {
        (0..64 * 1024).map(|i| make(i, random(), random())).collect::<Vec<_>>()
    };
    let tail = |bits: u64| 0b10 << 62 | bits >> 2;
    let kinds = [
        ("v1, one node", uuids(&|i, _, _| ((i * 10) << 32 | 0x9c4a_11f0, tail(0x1234_5678_9abc << 2)))),
        ("v4", uuids(&|_, a, b| (a & !0xf000 | 0x4000, tail(b)))),
        ("v7, same millisecond", uuids(&|_, a, b| (0x018f_0000_0000_0000 | 0x7000 | a & 0xfff, tail(b)))),
        ("v7, counted", uuids(&|i, _, _| (((0x018f << 48) + (i << 16)) | 0x7000, tail(0)))),
        ("hashes, of any variant", uuids(&|_, a, b| (a, b))),
        ("counted, of no variant in use", uuids(&|i, _, _| (0, i))),
    ];
    for buckets in [1024, 1000] {
        let folded = count("s:{id:uuid}", buckets);
        for (what, uuids) in &kinds {
            let keys = uuids.iter().map(|(high, low)| {
                let text = format!("{high:016x}{low:016x}");
                format!("s:{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..])
            });
            assert_even(what, usize::try_from(buckets).unwrap(), &fills(&folded, keys));
        }
    }
}

#[test]
fn hex_and_text_spread_evenly() {
    let n = 64 * 1024;
    let blob = count("b:{id:hex}", 1024);
    assert_even("counted", 1024, &fills(&blob, (0..n).map(|i| format!("b:{i:032x}"))));
    assert_even("counted in front", 1024, &fills(&blob, (0..n).map(|i| format!("b:{i:08x}{:024}", 0))));
    assert_even("short", 1024, &fills(&blob, (0..n).map(|i| format!("b:{i:08x}"))));
    assert_even("text", 1024, &fills(&count("p:{path}", 1024), (0..n).map(|i| format!("p:/docs/{i}"))));
    assert_even(
        "int and text",
        1024,
        &fills(&count("p:{path}:{n:int}", 1024), (0..n).map(|i| format!("p:/docs/{}:{}", i / 8, i % 8))),
    );
}

/// Ids that fall into the bucket of the first id, as whoever knows the rule can work them out: any quotient, and the
/// remainder that its hash leaves for this bucket.
fn aimed(folded: &(Templates, Placement), buckets: u64, ids: u64) -> Vec<String> {
    let bucket = |id: u64| bucket_of(folded, &format!("u:{id}"));
    let target = bucket(0);
    let aim = |quotient: u64| {
        let turned = bucket(quotient * buckets);
        format!("u:{}", quotient * buckets + (target + buckets - turned) % buckets)
    };
    (1..=ids).map(aim).collect()
}

fn bucket_of(folded: &(Templates, Placement), key: &str) -> u64 {
    let (name, _) = locate(folded, key.as_bytes()).unwrap();
    base62::decode(Head::decode(&name).unwrap().rest).unwrap()
}

#[test]
fn keys_chosen_for_one_bucket_are_spread_by_a_secret() {
    let buckets = 256;
    let open = count("u:{id:int}", 256);
    let ids = aimed(&open, buckets, 64 * buckets);
    assert!(ids.iter().all(|id| bucket_of(&open, id) == bucket_of(&open, "u:0")), "all of them hit");
    for secret in [&b"correct horse battery staple"[..], b"another secret of an operator"] {
        let keyed = keyed(count("u:{id:int}", 256), secret);
        assert_even("aimed", 256, &fills(&keyed, ids.iter().cloned()));
        let others = aimed(&keyed, buckets, 64 * buckets);
        assert_even("aimed by another secret's rule", 256, &fills(&open, others.into_iter()));
    }
}
