//! A large collection in parts: sets and hashes of the server's own, each small enough that the server packs it.
//!
//! ```text
//! bucket's field: a frame that points to parts (crates/core/src/frame.rs), with the header behind the nonce
//!
//! ~{stem}|{nonce}                the logical key
//! ~{stem}|{nonce}{class}         the class's directory: for each end of a hash how many bits of it tell parts apart
//! ~{stem}|{nonce}{class}{part}   a part: members whose hashes end in the same bits
//! ~{stem}|{nonce}r               the remainder: members that are in no part, while the collection is moved
//! ```
//!
//! A member's *class* says with which others it lies, so that none unpacks a part: integers, which a set packs as such; other
//! texts up to the server's limit; and *outliers*, which are longer. A *part* is named by the bits in which the hashes of its members
//! end, and by how many these are. Where a part is full it is halved by one bit more, so that the fullest is bounded; its
//! neighbours stay as they are, and the directory says how deep each lies. The hash is SHA-1 of a seed and the member, which
//! servers' scripts have, and nobody who chooses members can choose where they come to lie.
//!
//! One of very many members is moved in steps (crates/core/src/mover/large.rs): as it is, it becomes the *remainder* of a collection in
//! parts by one RENAME, and its members go over some at a time; or those in parts become the remainder, and that the key.
//!
//! No name of a part has its key in it: a key is renamed, expires or goes by one step on its header, however many parts it has.
//! What no header points to any more the sweep collects.

mod directory;
mod header;

use super::{Collection, Field};
pub use directory::Directory;
pub use header::{ClassSize, Form, HEADER_BYTES, Header, Remainder};

/// With which others a member lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Integers in their one spelling, up to 18 digits, of a set.
    Integers,
    /// Texts that are short enough to be packed.
    Texts,
    /// Longer ones.
    Outliers,
}

impl Class {
    /// All of them, in the order in which headers count them.
    pub const ALL: [Self; 3] = [Self::Integers, Self::Texts, Self::Outliers];

    /// Its letter in names.
    pub fn letter(self) -> u8 {
        match self {
            Self::Integers => b'i',
            Self::Texts => b't',
            Self::Outliers => b'o',
        }
    }

    /// The class that has this letter.
    pub fn with_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.letter() == letter)
    }
}

/// How large parts become, and what is kept in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a text that isn't an outlier.
    pub longest: usize,
    /// Members of a part of integers.
    pub integers: usize,
    /// Members of any other.
    pub texts: usize,
}

impl Limits {
    /// By the limits that servers have by default.
    pub const DEFAULT: Self = Self { longest: 64, integers: 320, texts: 120 };
}

/// What is said of parts that aren't as their header says.
pub(crate) const WHY_DAMAGED: &str =
    "the directory of its parts is not what its header says; was it removed past keyfold, or evicted?";

/// One part of a collection that is to be written: which it is, and what it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'c> {
    /// The class of all that it has.
    pub class: Class,
    /// Its number in names: a bit before those in which hashes end.
    pub number: u64,
    /// Members, each with its value where they are fields.
    pub members: Vec<(&'c [u8], Option<&'c [u8]>)>,
}

/// A collection as parts that are to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InParts<'c> {
    /// What points to them.
    pub header: Header,
    /// Each class's directory, where it has members.
    pub directories: Vec<(Class, Directory)>,
    /// All parts that have members.
    pub parts: Vec<Part<'c>>,
}

/// A collection in parts, behind this header of nothing; none where a field expires, which parts don't know.
pub fn in_parts<'c>(collection: &'c Collection, header: Header, limits: Limits) -> Option<InParts<'c>> {
    let mut classes: [Vec<Hashed<'c>>; 3] = Default::default();
    let mut add = |text: &'c [u8], value: Option<&'c [u8]>| {
        let class = class_of(text, value, limits.longest);
        classes[class as usize].push(Hashed { hash: hash_of(header.seed, text), text, value });
    };
    match collection {
        Collection::Set(set) => set.iter().for_each(|member| add(member, None)),
        Collection::Hash(hash) => {
            for (name, Field { value, expires_at_ms }) in hash.iter() {
                if expires_at_ms.is_some() {
                    return None;
                }
                add(name, Some(value));
            }
        }
    }
    let mut whole = InParts { header, directories: Vec::new(), parts: Vec::new() };
    for (class, members) in Class::ALL.into_iter().zip(classes) {
        if members.is_empty() {
            continue;
        }
        let most = if class == Class::Integers { limits.integers } else { limits.texts };
        let count = members.len() as u64;
        let mut parts = Vec::new();
        distribute(members, 0, 0, most, &mut parts);
        let directory = Directory::of(parts.iter().map(|(depth, number, _)| (*depth, *number)));
        whole.header.classes[class as usize] = ClassSize { depth: directory.depth(), count };
        whole.directories.push((class, directory));
        whole.parts.extend(parts.into_iter().filter(|(.., members)| !members.is_empty()).map(
            |(depth, number, members)| Part {
                class,
                number: (1 << depth) + u64::from(number),
                members: members.into_iter().map(|hashed| (hashed.text, hashed.value)).collect(),
            },
        ));
    }
    Some(whole)
}

struct Hashed<'c> {
    hash: u32,
    text: &'c [u8],
    value: Option<&'c [u8]>,
}

/// Halves what is too much by one bit more of its hashes.
fn distribute<'c>(
    members: Vec<Hashed<'c>>,
    depth: u8,
    number: u32,
    most: usize,
    parts: &mut Vec<(u8, u32, Vec<Hashed<'c>>)>,
) {
    if members.len() <= most || depth == directory::MOST_DEPTH {
        parts.push((depth, number, members));
        return;
    }
    let (high, low) = members.into_iter().partition(|member: &Hashed<'_>| member.hash >> depth & 1 == 1);
    distribute(low, depth + 1, number, most, parts);
    distribute(high, depth + 1, number | 1 << depth, most, parts);
}

/// The class of a member, or of a field with its value.
pub fn class_of(text: &[u8], value: Option<&[u8]>, longest: usize) -> Class {
    if value.is_none() && is_short_integer(text) {
        Class::Integers
    } else if text.len().max(value.map_or(0, <[u8]>::len)) > longest {
        Class::Outliers
    } else {
        Class::Texts
    }
}

/// Whether it is an integer in its one spelling, of so few digits that a script sees it without counting them.
fn is_short_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => text.len() < 19 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The hash that says in which part a text lies.
pub fn hash_of(seed: u64, text: &[u8]) -> u32 {
    use sha1::{Digest, Sha1};
    let digest = Sha1::new().chain_update(format!("{seed:016x}")).chain_update(text).finalize();
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::collection::{Hash, Set};

    #[test]
    fn classes() {
        for integer in ["0", "7", "-7", "123456789012345678", "-12345678901234567"] {
            assert_eq!(class_of(integer.as_bytes(), None, 64), Class::Integers, "{integer}");
            assert_eq!(class_of(integer.as_bytes(), Some(b""), 64), Class::Texts, "{integer}");
        }
        for text in ["", "-", "-0", "00", "007", "1234567890123456789", "-123456789012345678", "1x", "1\0", "+1"] {
            assert_eq!(class_of(text.as_bytes(), None, 64), Class::Texts, "{text}");
        }
        assert_eq!(class_of(&[b'x'; 65], None, 64), Class::Outliers);
        assert_eq!(class_of(b"x", Some(&[b'x'; 65]), 64), Class::Outliers);
        assert_eq!(class_of(&[b'x'; 64], Some(&[b'x'; 64]), 64), Class::Texts);
    }

    #[test]
    fn each_member_lies_in_the_part_that_its_hash_and_the_directory_say_and_none_is_too_full() {
        let texts = (0..5000).map(|i| format!("member-{i}").into_bytes());
        let all: Set =
            texts.chain((0..3000).map(|i: u32| i.to_string().into_bytes())).chain([vec![b'x'; 99]]).collect();
        let all = Collection::Set(all);
        let whole = in_parts(&all, Header::new(Form::Sets, 77), Limits::DEFAULT).unwrap();
        let mut found = BTreeSet::new();
        for part in &whole.parts {
            let (_, directory) = whole.directories.iter().find(|(class, _)| *class == part.class).unwrap();
            assert!(part.members.len() <= if part.class == Class::Integers { 320 } else { 120 });
            for (text, _) in &part.members {
                assert_eq!(class_of(text, None, 64), part.class);
                assert_eq!(directory.part_of(hash_of(77, text)), part.number);
                assert!(found.insert(text.to_vec()));
            }
        }
        assert_eq!(found.len(), 8001);
        assert_eq!(whole.header.len(), 8001);
        assert!(in_parts(&all, Header::new(Form::Sets, 78), Limits::DEFAULT).unwrap().parts != whole.parts);
    }

    #[test]
    fn fields_that_expire_are_in_no_parts() {
        let field = |expires_at_ms| Field { value: b"v".to_vec(), expires_at_ms };
        let hash = |at| Collection::Hash([(b"f".to_vec(), field(at))].into_iter().collect::<Hash>());
        assert!(in_parts(&hash(None), Header::new(Form::Fields, 1), Limits::DEFAULT).is_some());
        assert!(in_parts(&hash(Some(9)), Header::new(Form::Fields, 1), Limits::DEFAULT).is_none());
    }
}
