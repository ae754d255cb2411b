//! What commands look like, and random ones that do, or nearly.
//!
//! ```text
//! SET {key} {value} [NX|XX] [GET]     words; {slots} are filled in; [groups] come or not
//! (AND|OR|XOR)                        one of them
//! {key}+                              one to four times
//! ```
//! Groups hold groups and several words: `[(EX {seconds}|PX {milliseconds})]`.

use super::arguments::{Arguments, Slot};
use crate::random::Random;

/// Percent of the commands that are spoilt: a word too few, too many or another.
const SPOILT_PERCENT: u64 = 4;

/// Percent of the options that are in mixed case, or go on behind a zero byte, where the server stops to read.
const MANGLED_PERCENT: u64 = 4;

/// How a command looks.
#[derive(Clone, Debug)]
pub(super) struct Form {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Word(Vec<u8>),
    Slot(Slot),
    Optional(Vec<Vec<Part>>),
    OneOf(Vec<Vec<Part>>),
    Repeated(Slot),
}

impl Form {
    /// Reads a form.
    ///
    /// # Panics
    /// Where the table is wrong.
    pub(super) fn parse(text: &str) -> Self {
        let mut words: Vec<String> = Vec::new();
        // Brackets and bars stand for themselves; quotes keep a word with spaces together.
        for (index, piece) in text.split('"').enumerate() {
            if index % 2 == 1 {
                words.push(format!("\"{piece}"));
                continue;
            }
            let mut spaced = piece.to_owned();
            for mark in ["[", "]", "(", ")", "|"] {
                spaced = spaced.replace(mark, &format!(" {mark} "));
            }
            words.extend(spaced.split_whitespace().map(str::to_owned));
        }
        let mut words = words.into_iter();
        let mut alternatives = read_parts(&mut words, "");
        assert_eq!(alternatives.len(), 1, "a bar outside of brackets: {text}");
        Self { parts: alternatives.remove(0) }
    }

    /// A command of this form, with keys of this group.
    pub(super) fn fill(&self, arguments: &Arguments, group: usize, random: &mut Random) -> Vec<Vec<u8>> {
        let mut words = Vec::new();
        fill_parts(&self.parts, arguments, group, random, &mut words);
        mangle(&mut words, random);
        if random.chance(SPOILT_PERCENT) {
            spoil(&mut words, random);
        }
        words.into_iter().map(|word| word.bytes).collect()
    }
}

fn read_parts(words: &mut impl Iterator<Item = String>, end: &str) -> Vec<Vec<Part>> {
    let mut alternatives = vec![Vec::new()];
    while let Some(word) = words.next() {
        let part = match word.as_str() {
            "|" => {
                alternatives.push(Vec::new());
                continue;
            }
            "[" => Part::Optional(read_parts(words, "]")),
            "(" => Part::OneOf(read_parts(words, ")")),
            word if word == end => return alternatives,
            word => read_word(word),
        };
        if let Some(parts) = alternatives.last_mut() {
            parts.push(part);
        }
    }
    assert_eq!(end, "", "a bracket without its end");
    alternatives
}

fn read_word(word: &str) -> Part {
    let slot = |name: &str| Slot::parse(name).unwrap_or_else(|| panic!("no slot {{{name}}}"));
    let inner = |word: &str| word.strip_prefix('{').and_then(|word| word.strip_suffix('}')).map(slot);
    if let Some(text) = word.strip_prefix('"') {
        return Part::Word(text.as_bytes().to_vec());
    }
    if let Some(slot) = word.strip_suffix('+').and_then(inner) {
        return Part::Repeated(slot);
    }
    inner(word).map_or_else(|| Part::Word(word.as_bytes().to_vec()), Part::Slot)
}

struct Filled {
    bytes: Vec<u8>,
    is_key: bool,
    /// A word of the form's own, which is an option unless it is the command's name or its subcommand's.
    is_word: bool,
}

impl Filled {
    fn word(bytes: Vec<u8>) -> Self {
        Self { bytes, is_key: false, is_word: true }
    }
}

/// Writes some options otherwise, so that the server still takes them for what they are.
fn mangle(words: &mut [Filled], random: &mut Random) {
    let is_container = words.first().is_some_and(|name| name.bytes == b"OBJECT");
    for word in words.iter_mut().skip(1 + usize::from(is_container)).filter(|word| word.is_word) {
        if !random.chance(MANGLED_PERCENT) {
            continue;
        }
        word.bytes.iter_mut().step_by(2).for_each(u8::make_ascii_lowercase);
        if random.chance(50) {
            word.bytes.extend_from_slice(random.pick::<&[u8]>(&[b"\0", b"\0NX", b"\0\xff"]));
        }
    }
}

fn fill_parts(parts: &[Part], arguments: &Arguments, group: usize, random: &mut Random, words: &mut Vec<Filled>) {
    let slot = |slot: Slot, random: &mut Random| Filled {
        bytes: arguments.fill(slot, group, random),
        is_key: slot.is_key(),
        is_word: false,
    };
    for part in parts {
        match part {
            Part::Word(word) => words.push(Filled::word(word.clone())),
            Part::Slot(kind) => words.push(slot(*kind, random)),
            Part::Repeated(kind) => {
                for _ in 0..=random.below(4) {
                    words.push(slot(*kind, random));
                }
            }
            Part::Optional(alternatives) => {
                if random.chance(40) {
                    fill_parts(random.pick::<Vec<Part>>(alternatives), arguments, group, random, words);
                }
            }
            Part::OneOf(alternatives) => {
                fill_parts(random.pick::<Vec<Part>>(alternatives), arguments, group, random, words);
            }
        }
    }
}

/// Whatever the unit, what expires before that may do so while it is compared.
const SOON: u64 = 100_000;

/// Takes a word away, puts one in, or changes one. A key stays a key, so that what other types' keys are
/// called stays known; and no number is small and positive, so that nothing expires while it is compared.
fn spoil(words: &mut Vec<Filled>, random: &mut Random) {
    const WORDS: [&str; 18] = [
        "NX", "XX", "GT", "LT", "EX", "PX", "GET", "KEEPTTL", "COUNT", "BIT", "x", "", "0", "-1", "1.5", "\x00",
        "nX\x00x", "gET\x00",
    ];
    let word = random.pick(&WORDS).as_bytes().to_vec();
    let at = random.index(words.len());
    match random.below(4) {
        0 if words.len() > 1 => drop(words.pop()),
        1 => words.push(Filled::word(word)),
        2 => words.insert(at.max(1), Filled::word(word)),
        _ if at > 0 && !words[at].is_key => words[at].bytes = word,
        _ => words[0].bytes.make_ascii_lowercase(),
    }
    // EX or PX may have come to stand before a number that was none of an expiry.
    for at in 1..words.len() {
        let says_expiry = ["EX", "PX"].iter().any(|word| words[at - 1].bytes.eq_ignore_ascii_case(word.as_bytes()));
        let number = str::from_utf8(&words[at].bytes).ok().and_then(|text| text.parse::<u64>().ok());
        if says_expiry && number.is_some_and(|number| (1..SOON).contains(&number)) {
            words[at - 1].bytes = b"x".to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arguments::Payloads;
    use super::super::behind::Behind;
    use super::super::keys::groups;
    use super::*;

    #[test]
    fn forms_fill_in_what_they_say() {
        let form = Form::parse("SET {key} \"two words\" [NX|XX] (EX 5|PX 7 y)");
        let arguments = Arguments::new(groups(Behind::Server), Payloads::default());
        let mut random = Random::new(3);
        for _ in 0..100 {
            let words = form.fill(&arguments, 0, &mut random);
            assert!(words[0].eq_ignore_ascii_case(b"SET") && words.len() <= 8, "{words:?}");
        }
    }
}
