use std::collections::BTreeMap;
use std::slice;

use proptest::prelude::*;

use super::*;
use crate::collection::Collection;
use crate::frame::{Body, Frame};
use crate::layout::{Layout, Namespace, NamespaceIndex};
use crate::template::Template;

/// Records like those that applications cache: they name themselves, and are alike.
fn records(count: usize) -> Vec<(String, String)> {
    (0..count)
        .map(|i| {
            let (key, n) = (1000 + i * 7, i * 2_654_435_761 % 1_000_003);
            let value = format!(
                r#"{{"id":{key},"name":"User {n}","email":"user{n}@example.com","role":"{}","active":{}}}"#,
                ["admin", "editor", "reader"][n % 3],
                n % 2 == 0,
            );
            (format!("user:{key}"), value)
        })
        .collect()
}

fn samples<'s>(templates: &'s [Template], records: &'s [(String, String)]) -> Vec<Sample<'s>> {
    let sample = |(key, value): &'s (String, String)| Sample {
        owner: Owner::new(templates, key.as_bytes()),
        value: value.as_bytes(),
    };
    records.iter().map(sample).collect()
}

/// A namespace whose values are written by the best that training makes of this rule.
fn trained(codec: &str, bucket: &str) -> Namespace {
    let file = format!("[[namespace]]\nkeys = \"user:{{id:int}}\"\n{bucket}\ncodec = {codec:?}\nvalue_limit = 512\n");
    let mut layout = Layout::parse_file(&file).unwrap();
    let namespace = layout.namespaces()[0].clone();
    let records = records(2000);
    let samples = samples(&namespace.keys, &records);
    let (learn, judge) = samples.split_at(1500);
    let best = candidates(&Kinds::default(), &namespace.codec, learn, judge, 1_000_000).remove(0);
    layout = layout.written_by(NamespaceIndex(0), &best.rule, best.dictionary.as_deref()).unwrap();
    layout.namespaces()[0].clone()
}

fn round_trip(namespace: &Namespace, key: &[u8], value: &[u8], expires_at_ms: Option<i64>) -> usize {
    match namespace.encode(key, value, expires_at_ms) {
        Stored::InPlace(stored) => {
            let frame = Frame::decode(&stored).unwrap();
            assert_eq!(frame.expires_at_ms, expires_at_ms);
            let back = namespace.decode(key, &frame, None).unwrap().unwrap();
            assert_eq!(back.as_ref(), value, "{}", value.escape_ascii());
            stored.len()
        }
        Stored::Spilled { content, slot } => {
            let frame = Frame { expires_at_ms, body: Body::Spill { nonce: 1, slot } };
            let back = namespace.decode(key, &frame, Some(&content)).unwrap().unwrap();
            assert_eq!(back.as_ref(), value);
            content.len()
        }
    }
}

#[test]
fn a_trained_dictionary_makes_records_several_times_shorter() {
    let namespace = trained("zstd", "bucket = { span = 64 }");
    let mut sums = (0, 0);
    for (key, value) in records(300) {
        sums.0 += value.len();
        sums.1 += round_trip(&namespace, key.as_bytes(), value.as_bytes(), None);
    }
    assert!(sums.0 > 4 * sums.1, "{sums:?}");
}

#[test]
fn no_value_takes_more_than_without_a_codec() {
    let mut noise = vec![0; 300];
    noise.iter_mut().fold(1_u32, |state, byte| {
        let next = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = next.to_be_bytes()[0];
        next
    });
    let mut zipped = Vec::new();
    large::encode(b"already compressed, already compressed", Effort::Full, &mut zipped);
    let long = b"0123456789".repeat(20_000);
    let values: [&[u8]; 9] = [b"", b"x", b"\x00", b"17", b"-9223372036854775808", &noise, &zipped, &long, &[0; 70_000]];
    for codec in ["zstd", "fsst", "hex", "uuid", "auto"] {
        let namespace = trained(codec, "bucket = { span = 64 }");
        for value in values {
            for at in [None, Some(1_900_000_000_000)] {
                let len = round_trip(&namespace, b"user:1000", value, at);
                assert!(len <= crate::frame::raw_len(value, at), "{codec} {len} {}", value.len());
            }
        }
    }
}

/// By a large dictionary and at a high level zstd makes several blocks of such a value.
#[test]
fn a_value_of_several_kinds_is_compressed_at_any_level() {
    let texts = |count: u32| (0..count).map(|at| format!("{{\"at\":{at},\"by\":\"user-{}\"}}", at * 7919 % 5000));
    let mut state = 12_345_u64;
    let mut drawn = |letters: &[u8]| -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            letters[usize::from(state.to_be_bytes()[0]) % letters.len()]
        };
        (0..20_000).map(|_| next()).collect()
    };
    let text: String = texts(700).collect();
    let value = [text.as_bytes(), &drawn(b"0123456789"), &drawn(b"ACGT")].concat();
    let dictionary: Vec<u8> = [0].into_iter().chain(texts(8000).flat_map(String::into_bytes)).collect();
    for level in [3, 12, 13, 19] {
        let codec = format!("codec = {{ name = 'zstd', level = {level} }}");
        let file = format!("[[namespace]]\nkeys = 'user:{{id:int}}'\nbucket = {{ span = 64 }}\n{codec}\n");
        let mut layout = Layout::parse_file(&file).unwrap();
        let rule = layout.namespaces()[0].codec.clone();
        layout = layout.written_by(NamespaceIndex(0), &rule, Some(&dictionary)).unwrap();
        let len = round_trip(&layout.namespaces()[0], b"user:1", &value, None);
        assert!(len < value.len() / 2, "level {level}: {len} of {}", value.len());
    }
}

#[test]
fn integers_stay_integers() {
    let namespace = trained("zstd", "bucket = { span = 64 }");
    assert_eq!(namespace.encode(b"user:1", b"12345678901234567", None), Stored::InPlace(b"12345678901234567".to_vec()));
}

#[test]
fn hexadecimal_text_and_uuids_are_kept_as_bytes() {
    let hex = trained("hex", "bucket = { span = 64 }");
    assert_eq!(round_trip(&hex, b"user:1", b"0123456789abcdef", None), 9);
    assert_eq!(round_trip(&hex, b"user:1", b"0123456789ABCDEF", None), 16);
    let uuid = trained("uuid", "bucket = { span = 64 }");
    assert_eq!(round_trip(&uuid, b"user:1", b"f3d72fe1-750b-47c0-9526-4728852a4e5b", None), 17);
    assert_eq!(round_trip(&uuid, b"user:1", b"F3d72fe1-750b-47c0-9526-4728852a4e5b", None), 36);
}

#[test]
fn a_value_that_is_spilled_is_compressed_too() {
    let namespace = Namespace { value_limit: 8, ..trained("zstd", "bucket = { span = 64 }") };
    let (key, value) = records(1).remove(0);
    let Stored::Spilled { content, slot } = namespace.encode(key.as_bytes(), value.as_bytes(), None) else {
        panic!("not spilled");
    };
    assert!(content.len() * 3 < value.len() && slot.is_some());
    round_trip(&namespace, key.as_bytes(), value.as_bytes(), None);
}

#[test]
fn what_cannot_be_decoded_says_why() {
    let namespace = trained("zstd", "bucket = { span = 64 }");
    let decode = |slot, payload: &[u8]| {
        let frame = Frame { expires_at_ms: None, body: Body::Coded { slot, payload } };
        namespace.decode(b"user:1000", &frame, None).unwrap_err().to_string()
    };
    let written = namespace.codecs.written().unwrap().number;
    assert_eq!(decode(77, b"x"), "its codec, slot 77, is not in the layout");
    assert!(decode(written, b"\xff\xff\xff").contains(&format!("is damaged (codec slot {written})")));
    // A frame of a few bytes that claims to be 2 GiB.
    let bomb = [0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0];
    assert_eq!(
        decode(LARGE_SLOT, &bomb),
        "its stored value is damaged (codec slot 255): 16 bytes claim to be 2147483648"
    );
    let mut closed = namespace.codecs.clone();
    closed = Codecs::new(closed.iter().cloned().collect(), Some(written));
    closed.open(&Kinds::default(), &BTreeMap::new());
    let error = closed.decode(written, b"x", &Owner::new(&namespace.keys, b"user:1"), &mut Vec::new());
    assert!(error.unwrap_err().to_string().contains("is missing from the server's keyfold:{home}:dictionaries"));
}

#[test]
fn slots_are_given_once_until_they_are_freed() {
    let mut codecs = Codecs::default();
    let dictionary = |text: &[u8]| Some(DictionaryId::of(text));
    assert_eq!(codecs.write_by(&CodecRule::named("zstd"), dictionary(b"one")), Some(0));
    assert_eq!(codecs.write_by(&CodecRule::named("zstd"), dictionary(b"two")), Some(1));
    assert_eq!(codecs.write_by(&CodecRule::named("zstd"), dictionary(b"one")), Some(0));
    codecs.free_unwritten();
    assert_eq!(codecs.iter().map(|slot| slot.number).collect::<Vec<_>>(), [0]);
    assert_eq!(codecs.write_by(&CodecRule::named("hex"), None), Some(1));
    codecs.write_raw();
    codecs.free_unwritten();
    assert!(codecs.is_empty());
}

#[test]
fn a_dictionary_is_known_by_its_bytes() {
    let dictionary = b"the quick brown fox ".repeat(50);
    let id = DictionaryId::of(&dictionary);
    assert_eq!(unpack(id, &pack(&dictionary)).unwrap(), dictionary);
    assert!(unpack(DictionaryId::of(b"other"), &pack(&dictionary)).is_err());
    assert!(unpack(id, b"no frame").is_err());
    assert_eq!(id.to_string().parse(), Ok(id));
    assert_eq!("00".parse::<DictionaryId>(), Err(()));
}

#[test]
fn references_to_a_long_key_are_no_bomb() {
    let template = Template::parse("k:{text}").unwrap();
    let key = [b"k:".as_slice(), &[b'x'; 100_000]].concat();
    let owner = Owner::new(slice::from_ref(&template), &key);
    let mut out = Vec::new();
    assert!(references::restore(&[1; 100_000], &owner, zstd::MAX_LEN, &mut out).is_err());
    assert!(out.len() < 1 << 20, "{}", out.len());
}

/// The crate compares past the end of a value with zeros.
#[test]
fn a_value_that_ends_within_a_symbol_comes_back() {
    let template = Template::parse("user:{id:int}").unwrap();
    let owner = Owner::new(slice::from_ref(&template), b"user:1");
    let values: Vec<Vec<u8>> =
        (0..200_u32).map(|n| [&b"ab\0\0cd\0\0\0"[..], &n.to_le_bytes(), b"ab\0\0"].concat()).collect();
    let samples: Vec<Sample<'_>> = values.iter().map(|value| Sample { owner, value }).collect();
    let table = fsst::Fsst.train(&samples, &Options::default()).remove(0);
    let codec = fsst::Fsst.open(&Options::default(), Some(&table)).unwrap();
    for value in &values {
        for end in 0..=value.len() {
            let (mut payload, mut back) = (Vec::new(), Vec::new());
            if codec.encode(&value[..end], &owner, &mut payload) {
                codec.decode(&payload, &owner, &mut back).unwrap();
                assert_eq!(back, &value[..end]);
            }
        }
    }
}

#[test]
fn what_is_written_in_a_hurry_is_read_as_ever_and_little_longer() {
    let template = Template::parse("user:{id:int}").unwrap();
    let keys: Vec<Vec<u8>> = (0..600).map(|id| format!("user:{id}").into_bytes()).collect();
    let value = |id: usize| {
        format!("{{\"id\":{id},\"role\":\"editor\",\"seen\":{},\"tags\":[\"a{}\",\"b\"]}}", id * 7919, id % 7)
    };
    let values: Vec<Vec<u8>> = (0..600).map(|id| value(id).into_bytes()).collect();
    let owner = |id: usize| Owner::new(slice::from_ref(&template), &keys[id]);
    let samples: Vec<Sample<'_>> = (0..500).map(|id| Sample { owner: owner(id), value: &values[id] }).collect();
    let dictionary = zstd::Zstd.train(&samples, &Options::default()).remove(0);
    let codec = zstd::Zstd.open(&Options::default(), Some(&dictionary)).unwrap();
    let (mut full, mut quick, mut plain) = (0, 0, 0);
    for (id, value) in values.iter().enumerate().skip(500) {
        let (mut with_effort, mut hurried, mut back) = (Vec::new(), Vec::new(), Vec::new());
        assert!(codec.encode(value, &owner(id), &mut with_effort));
        assert!(codec.encode_quickly(value, &owner(id), &mut hurried));
        codec.decode(&hurried, &owner(id), &mut back).unwrap();
        assert_eq!(back, *value);
        (full, quick, plain) = (full + with_effort.len(), quick + hurried.len(), plain + back.len());
    }
    assert!(full <= quick && quick < full * 13 / 10 && quick < plain / 2, "{full}, {quick}, {plain}");
}

fn session(number: usize) -> Vec<u8> {
    let names = ["uid", "ip", "ua", "7", "a rare one"];
    let kept = names.iter().filter(|name| **name != "a rare one" || number.is_multiple_of(900));
    let texts = kept.flat_map(|name| [name.as_bytes().to_vec(), format!("{name} {number}").into_bytes()]).collect();
    Collection::of_texts(CollectionKind::Hash, texts).packed()
}

#[test]
fn hashes_are_kept_without_the_names_that_they_have_in_common() {
    let values: Vec<Vec<u8>> = (0..1000).map(session).collect();
    let template = Template::parse("sess:{id:int}").unwrap();
    let owner = Owner::new(slice::from_ref(&template), b"sess:1");
    let samples: Vec<Sample<'_>> = values.iter().map(|value| Sample { owner, value }).collect();
    let lists = fields::Fields.train(&samples, &Options::default());
    assert_eq!(lists, [b"\x03uid\x02ip\x02ua\xd7\x0aa rare one".to_vec()]);
    let file = "[[namespace]]\nkeys = 'sess:{id:int}'\ntype = 'hash'\nbucket = { span = 8 }\nvalue_limit = 256\ncodec = 'fields'\n";
    let layout = Layout::parse_file(file).unwrap();
    assert_eq!(layout.namespaces()[0].codecs.written(), None, "it waits for its training");
    let layout = layout.written_by(NamespaceIndex(0), &CodecRule::named("fields"), Some(&lists[0])).unwrap();
    let namespace = &layout.namespaces()[0];
    for value in &values {
        for at in [None, Some(1_900_000_000_000)] {
            let saved = 7 + if value.windows(4).any(|bytes| bytes == b"rare") { 10 } else { 0 };
            // The tag stands where the head stood, or is that of the expiry.
            let len = crate::frame::raw_len(value, at) - saved - usize::from(at.is_some());
            assert_eq!(round_trip(namespace, b"sess:1", value, at), len, "{}", value.escape_ascii());
        }
    }
    let strange = Collection::of_texts(CollectionKind::Hash, vec![b"5".to_vec(), b"v".to_vec()]).packed();
    for value in [&b"B\x01"[..], b"", b"text", b"@\x01a", b"C\x02ip\x01v", b"\x42\xc0\x05\x01v", &strange] {
        let Stored::InPlace(stored) = namespace.encode(b"sess:1", value, None) else { panic!("not spilled") };
        assert_eq!(stored, value, "it stays as it is");
    }
    let long = [&b"\x42\x03uid\xc9\x00\x02\x00\x00"[..], &[b'x'; 0x20000]].concat();
    round_trip(namespace, b"sess:1", &long, None);
}

#[test]
fn values_that_come_again_are_learnt_too() {
    let value = |number: usize| {
        let program = ["Mozilla/5.0 (X11; Linux)", "curl/8.4", "okhttp/4.9"][number % 3];
        let texts = ["ua", program, "uid", &number.to_string(), "state", ["on", "1"][number % 2]];
        let texts = texts.map(|text| text.as_bytes().to_vec()).to_vec();
        Collection::of_texts(CollectionKind::Hash, texts).packed()
    };
    let values: Vec<Vec<u8>> = (0..900).map(value).collect();
    let template = Template::parse("sess:{id:int}").unwrap();
    let owner = Owner::new(slice::from_ref(&template), b"sess:1");
    let samples: Vec<Sample<'_>> = values.iter().map(|value| Sample { owner, value }).collect();
    let [names, both] = fields::Fields.train(&samples, &Options::default()).try_into().unwrap();
    assert_eq!(names, b"\x05state\x03uid\x02ua");
    let programs = b"\xca\x02on\x18Mozilla/5.0 (X11; Linux)\x0aokhttp/4.9\x08curl/8.4";
    assert_eq!(both.escape_ascii().to_string(), [&names[..], programs].concat().escape_ascii().to_string());
    let vocabulary = Vocabulary::read(&both).unwrap();
    assert_eq!(
        (vocabulary.packed_value(b"curl/8.4"), vocabulary.packed_value(b"1")),
        (b"\xca\x03".into(), b"\xd1".into())
    );
}

#[test]
fn names_are_learnt_from_hashes_alone_and_at_most_48_of_them() {
    let template = Template::parse("sess:{id:int}").unwrap();
    let owner = Owner::new(slice::from_ref(&template), b"sess:1");
    let train = |values: &[Vec<u8>]| {
        let samples: Vec<Sample<'_>> = values.iter().map(|value| Sample { owner, value }).collect();
        fields::Fields.train(&samples, &Options::default())
    };
    assert!(train(&[session(1), session(2), b"text".to_vec()]).is_empty());
    assert!(train(&[session(1)]).is_empty(), "nothing is there twice");
    assert!(train(&[]).is_empty());
    let of = |names: Vec<String>| {
        let texts = names.into_iter().flat_map(|name| [name.into_bytes(), b"v".to_vec()]).collect();
        Collection::of_texts(CollectionKind::Hash, texts).packed()
    };
    let many = of((0..60).map(|i| format!("{}{i:02}", "n".repeat(1 + i / 30))).collect());
    let [list] = train(&[many.clone(), many]).try_into().unwrap();
    let names = Vocabulary::read(&list).unwrap();
    let is_short = |name: &str| names.packed_name(name.as_bytes()).len() == 1;
    assert!(is_short("nn30") && is_short("nn59") && !is_short("n29"), "the long ones save more");
}

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..400),
        "[0-9a-f]{0,40}".prop_map(String::into_bytes),
        "(user|1000|mail|\\{|\"|:){0,60}".prop_map(String::into_bytes),
        prop::collection::vec(0_u8..6, 0..60),
        (any::<u8>(), 0..100_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_value_comes_back(values in prop::collection::vec(any_value(), 1..20), at in prop::option::of(any::<i64>()), codec in prop::sample::select(vec!["zstd", "fsst", "hex", "uuid"])) {
        thread_local! {
            static NAMESPACES: std::cell::RefCell<BTreeMap<&'static str, Namespace>> = const { std::cell::RefCell::new(BTreeMap::new()) };
        }
        let namespace = NAMESPACES.with_borrow_mut(|all| all.entry(codec).or_insert_with(|| trained(codec, "bucket = { span = 64 }")).clone());
        for value in values {
            let len = round_trip(&namespace, b"user:1000", &value, at);
            prop_assert!(len <= crate::frame::raw_len(&value, at));
        }
    }

    #[test]
    fn hostile_payloads_give_values_or_errors(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        for kind in Kinds::default().iter().filter(|kind| !kind.needs_training()) {
            let codec = kind.open(&Options::default(), None).unwrap();
            let template = Template::parse("user:{id:int}").unwrap();
            let mut out = Vec::new();
            let _ = codec.decode(&payload, &Owner::new(slice::from_ref(&template), b"user:1"), &mut out);
            prop_assert!(out.len() <= 2 << 20);
            let _ = kind.open(&Options::default(), Some(&payload));
        }
        let _ = fsst::Fsst.open(&Options::default(), Some(&payload));
        let _ = fields::Fields.open(&Options::default(), Some(&payload));
    }
}
