//! What a text is packed to, byte for byte, and what comes back.

use proptest::prelude::*;

use super::*;
use crate::placement::Field;

fn table(symbols: &[&[u8]]) -> TextTable {
    TextTable::new(symbols.iter().map(|symbol| symbol.to_vec()).collect()).unwrap()
}

fn pack(table: &TextTable, text: &[u8]) -> Vec<u8> {
    let mut out = Field::new();
    table.pack(text, &mut out);
    out.into_vec()
}

fn pack_alone(table: &TextTable, text: &[u8]) -> Vec<u8> {
    let mut out = Field::new();
    table.pack_alone(text, &mut out);
    out.into_vec()
}

fn unpack(table: &TextTable, packed: &[u8]) -> Option<Vec<u8>> {
    table.unpack(packed).map(super::pack::Unpacked::into_vec)
}

/// With symbols of one byte at either end of the codes, zeros, and symbols within symbols.
fn fixed() -> TextTable {
    table(&[
        b"lib",
        b"e",
        b"-dev",
        b"languages\0",
        b"er",
        b"ere",
        b"r",
        b"l",
        b"0",
        b"1",
        b"2",
        b"-",
        b"\xff",
        b"\0\0",
        b"\x01",
        b"12",
    ])
}

/// Places are made of these bytes: what they are may never change.
#[test]
fn packed_text_never_changes() {
    let fixed = fixed();
    // Of one byte: 65 72 6c 30 31 32 2d 01. The others, in order: 00 02 03 04 05 06 07 08.
    for (text, packed) in [
        (b"".as_slice(), b"".as_slice()),
        (b"e", b"e"),
        (b"lib", b"\x00"),
        (b"liblib-dev", b"\x00\x00\x02"),
        (b"libx-dev", b"\x00\xffx\x02"),
        (b"languages\0er", b"\x03\x04"),
        // The longest first, where both take two.
        (b"erer", b"\x05\x72"),
        (b"ererx", b"\x05\x72\xffx"),
        (b"erelib", b"\x05\x00"),
        // Not the longest, where that takes more.
        (b"erere", b"\x04\x05"),
        (b"\xff", b"\x06"),
        (b"\0\0", b"\x07"),
        (b"\0\0\0", b"\x07\xff\0"),
        (b"\0", b"\xfe\0"),
        (b"e\0\0\0e\0\0", b"e\x07\xff\0e\x07"),
        (b"\x01", b"\x01"),
        (b"x", b"\xfex"),
        (b"xyz", b"\xfexyz"),
        (b"\xc3\xa9", b"\xfe\xc3\xa9"),
        (b"121", b"\x081"),
        (b"1212", b"\x08\x08"),
    ] {
        let is = pack(&fixed, text);
        assert_eq!(is, packed, "{}: {}", text.escape_ascii(), is.escape_ascii());
        assert_eq!(unpack(&fixed, packed).as_deref(), Some(text));
    }
    let long = [b"lib".repeat(42).as_slice(), b"e-dev"].concat();
    // Bytes 126 to 130: no symbol goes over the edge after 128.
    assert_eq!(pack(&fixed, &long), [b"\x00".repeat(42).as_slice(), b"e-\xffd\x65\xffv"].concat());
}

#[test]
fn numbers_stay_numbers_where_that_is_no_longer() {
    let fixed = fixed();
    for (text, packed) in [
        (b"0".as_slice(), b"0".as_slice()),
        (b"12", b"12"),
        (b"1212", b"1212"),
        (b"-1", b"-1"),
        // Four codes and a head are as long as the number's five bytes, and six codes shorter than its nine.
        (b"12121212", b"12121212"),
        (b"11111111", b"11111111"),
        (b"121212121212", b"\x08\x08\x08\x08\x08\x08"),
        (b"1111111111", b"1111111111"),
        // No numbers for a listpack.
        (b"012", b"0\x08"),
        (b"-0", b"-0"),
        (b"-", b"-"),
        (b"-12", b"-12"),
        (b"1222222222222222222222222222", b"\x0822222222222222222222222222"),
        // Not of symbols alone.
        (b"13", b"\xfe13"),
    ] {
        let is = pack_alone(&fixed, text);
        assert_eq!(is, packed, "{}: {}", text.escape_ascii(), is.escape_ascii());
        assert_eq!(unpack(&fixed, packed).as_deref(), Some(text));
    }
}

#[test]
fn bytes_that_nothing_packs_to_are_refused_or_are_some_other_text() {
    let fixed = fixed();
    for packed in [b"\x09".as_slice(), b"e\xff", b"\xff", b"e\xfee", b"x"] {
        assert_eq!(unpack(&fixed, packed), None, "{}", packed.escape_ascii());
    }
    assert_eq!(unpack(&fixed, b"\xffe"), Some(b"e".to_vec()), "to be packed again, and compared");
}

#[test]
fn a_table_is_read_back() {
    let fixed = fixed();
    assert_eq!(TextTable::from_bytes(&fixed.to_bytes()), Ok(fixed.clone()));
    assert_eq!(TextTable::from_text(&fixed.to_text()), Ok(fixed.clone()));
    assert_eq!(table(&[b"a", b"bc"]).to_text(), "AQFhAmJj");
    assert_eq!(table(&[b"a", b"bc"]).to_bytes(), b"\x01\x01a\x02bc");
    assert_ne!(fixed, table(&[b"a"]));
    assert_eq!(format!("{:?}", table(&[b"a"])), format!("TextTable({}, 1 symbols)", table(&[b"a"]).fingerprint()));
}

#[test]
fn what_is_no_table_is_refused() {
    let refusal = |bytes: &[u8]| TextTable::from_bytes(bytes).unwrap_err();
    assert_eq!(refusal(b""), TextTableError::Version { given: None });
    assert_eq!(refusal(b"\x02\x01a"), TextTableError::Version { given: Some(2) });
    assert_eq!(refusal(b"\x01"), TextTableError::Symbols { given: 0 });
    assert_eq!(refusal(b"\x01\x01a\x02b"), TextTableError::Cut { symbol: 2 });
    assert_eq!(refusal(b"\x01\x01a\x00"), TextTableError::Length { symbol: 2, given: 0 });
    assert_eq!(refusal(b"\x01\x11aaaaaaaaaaaaaaaaa"), TextTableError::Length { symbol: 1, given: 17 });
    assert_eq!(refusal(b"\x01\x01a\x01b\x01a"), TextTableError::Twice { bytes: b"a".to_vec() });
    let all: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte, byte]).collect();
    assert_eq!(TextTable::new(all.clone()), Err(TextTableError::Symbols { given: 256 }));
    assert!(TextTable::new(all[..254].to_vec()).is_ok());
    assert_eq!(TextTable::from_text("=="), Err(TextTableError::NotBase64));
}

/// The head's rule by trying everything: the fewest bytes, and then the longest symbol first.
fn spelled(symbols: &[Vec<u8>], text: &[u8]) -> (usize, Vec<usize>) {
    let Some(first) = text.first() else { return (0, Vec::new()) };
    let escaped = if symbols.contains(&vec![*first]) { None } else { Some((2, 1)) };
    let fitting = symbols.iter().filter(|symbol| text.starts_with(symbol)).map(|symbol| (1, symbol.len()));
    let ways = fitting.chain(escaped).map(|(cost, len)| {
        let (rest, lengths) = spelled(symbols, &text[len..]);
        (cost + rest, [vec![len], lengths].concat())
    });
    ways.min_by(|one, other| one.0.cmp(&other.0).then_with(|| other.1.cmp(&one.1))).unwrap_or_default()
}

fn any_table() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let symbol = prop_oneof![
        6 => "[abc01-]{1,4}".prop_map(String::into_bytes),
        1 => proptest::collection::vec(any::<u8>(), 1..=16),
        1 => Just(vec![0xff]),
        1 => Just(vec![0]),
    ];
    proptest::collection::btree_set(symbol, 1..40)
        .prop_map(|symbols| symbols.into_iter().collect::<Vec<_>>())
        .prop_shuffle()
}

fn any_text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[abcd01-]{0,9}".prop_map(String::into_bytes),
        2 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => "[abc]{100,300}".prop_map(String::into_bytes),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
    ]
}

proptest! {
    #[test]
    fn any_text_comes_back(symbols in any_table(), text in any_text()) {
        let table = TextTable::new(symbols).unwrap();
        for packed in [pack(&table, &text), pack_alone(&table, &text)] {
            prop_assert!(packed.len() <= text.len() + 1);
            let back = unpack(&table, &packed);
            prop_assert_eq!(back.as_ref(), Some(&text));
        }
    }

    #[test]
    fn it_follows_from_the_symbols_alone(symbols in any_table(), text in any_text()) {
        let table = TextTable::new(symbols).unwrap();
        let again = TextTable::from_text(&table.to_text()).unwrap();
        prop_assert_eq!(&table, &again);
        prop_assert_eq!(pack_alone(&table, &text), pack_alone(&again, &text));
    }

    #[test]
    fn it_is_the_spelling_that_the_rule_says(symbols in any_table(), text in "[abcd01-]{0,9}") {
        let table = TextTable::new(symbols.clone()).unwrap();
        let mut lengths = Vec::new();
        table.matcher.spell(text.as_bytes(), |_, bytes| lengths.push(bytes.len()));
        let (bytes, expected) = spelled(&symbols, text.as_bytes());
        prop_assert_eq!(lengths, expected);
        prop_assert_eq!(pack(&table, text.as_bytes()).len(), bytes.min(text.len() + 1));
    }

    #[test]
    fn hostile_bytes_are_text_or_nothing(symbols in any_table(), packed: Vec<u8>, bytes: Vec<u8>) {
        let table = TextTable::new(symbols).unwrap();
        if let Some(text) = unpack(&table, &packed) {
            prop_assert_eq!(unpack(&table, &pack(&table, &text)), Some(text));
        }
        if let Ok(table) = TextTable::from_bytes(&bytes) {
            prop_assert_eq!(table.to_bytes(), bytes);
        }
    }
}

const EVEN: Training = Training { weight: 1000.0 };

fn packages() -> Vec<Vec<u8>> {
    let name = |i: usize| {
        let (kind, end) = (["lib", "python3-", "golang-github-"][i % 3], ["-dev", "", "-doc", "-common"][i / 7 % 4]);
        format!("{kind}{:x}{end}", i * 7919 % 4096).into_bytes()
    };
    (0..600).map(name).collect()
}

#[test]
fn training_finds_what_repeats() {
    let samples = packages();
    let trained = train(&samples, EVEN).unwrap();
    let total = |texts: &[Vec<u8>]| texts.iter().map(Vec::len).sum::<usize>();
    let packed: Vec<_> = samples.iter().map(|text| pack_alone(&trained, text)).collect();
    assert!(total(&packed) * 3 < total(&samples), "{} of {}", total(&packed), total(&samples));
    let reversed: Vec<_> = samples.iter().rev().cloned().collect();
    assert_eq!(train(&reversed, EVEN), Some(trained), "in any order");
}

#[test]
fn symbols_that_do_not_pay_are_left_out() {
    let samples = packages();
    let few = train(&samples, Training { weight: 1.0 }).unwrap();
    let many = train(&samples, EVEN).unwrap();
    assert!(few.symbols().len() < many.symbols().len(), "{} {}", few.symbols().len(), many.symbols().len());
    assert_eq!(train(&samples[..2], Training { weight: 1.0 }), None);
    assert_eq!(train(&[] as &[Vec<u8>], EVEN), None);
}

#[test]
fn numbers_among_the_samples_stay_numbers() {
    let mut samples = packages();
    samples.extend((0..20).map(|n| (n * 48_611).to_string().into_bytes()));
    let trained = train(&samples, EVEN).unwrap();
    assert!((b'0'..=b'9').all(|digit| trained.symbols().contains(&vec![digit])));
    assert_eq!(pack_alone(&trained, b"2024"), b"2024");
}
