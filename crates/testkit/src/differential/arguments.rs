//! Keys and arguments that random commands are made of.

use super::collections::MEMBERS;
use super::keys::Group;
use super::later::DIGESTS;
use crate::random::Random;

/// Values where something changes: the frame's tag, the server's encodings, listpack's limit, the
/// layout's, LZF's.
const LENGTHS: [usize; 14] = [0, 1, 2, 11, 12, 20, 21, 43, 44, 45, 63, 64, 65, 300];
const INTEGERS: [&str; 22] = [
    "0",
    "1",
    "-1",
    "7",
    "10",
    "12",
    "13",
    "99",
    "127",
    "-128",
    "255",
    "32768",
    "-32769",
    "8388608",
    "2147483647",
    "-2147483649",
    "9223372036854775806",
    "9223372036854775807",
    "-9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "12345678901234567890123",
];
const FLOATS: [&str; 16] = [
    "0.1", "-0.5", "1.5", "3.0e3", "1e-5", "5.", ".5", "1e17", "1e300", "0x10", "-0.0", "inf", "nan", "10.50", "abc",
    "",
];
/// No number that the server takes.
const NO_NUMBERS: [&str; 8] = ["abc", "", " 1", "1 ", "1.0", "+1", "01", "9223372036854775808"];

/// A kind of argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Any key.
    Key,
    /// A key that only ever holds a string.
    StringKey,
    /// A plain key that only ever holds a string.
    PlainKey,
    /// A plain key that may hold another type.
    OtherKey,
    /// A key that only ever holds a set.
    SetKey,
    /// A key that only ever holds a hash.
    HashKey,
    /// A key of any type, folded or not.
    AnyKey,
    /// A member of a set, or the name of a field.
    Member,
    /// What DUMP answers for some set.
    SetPayload,
    /// What DUMP answers for some hash.
    HashPayload,
    Value,
    /// One of few values.
    Often,
    /// A digest of one of these, or nearly.
    Digest,
    Integer,
    Float,
    /// A place in a value, from either end.
    Index,
    /// A place to write to.
    Offset,
    Bit,
    BitOffset,
    FieldType,
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
    /// Milliseconds, relative or not, whose sum with the time does not overflow: RESTORE does not check
    /// (Redis 7.0 to 8.0), and then the key is gone or not as the server's sweep happens to run.
    RestoreMilliseconds,
    Pattern,
    Payload,
    Type,
}

impl Slot {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "key" => Self::Key,
            "string-key" => Self::StringKey,
            "plain-key" => Self::PlainKey,
            "other-key" => Self::OtherKey,
            "set" => Self::SetKey,
            "hash" => Self::HashKey,
            "any" => Self::AnyKey,
            "string" => Self::StringKey,
            "member" => Self::Member,
            "set-payload" => Self::SetPayload,
            "hash-payload" => Self::HashPayload,
            "value" => Self::Value,
            "often" => Self::Often,
            "digest" => Self::Digest,
            "integer" => Self::Integer,
            "float" => Self::Float,
            "index" => Self::Index,
            "offset" => Self::Offset,
            "bit" => Self::Bit,
            "bit-offset" => Self::BitOffset,
            "field-type" => Self::FieldType,
            "seconds" => Self::Seconds,
            "milliseconds" => Self::Milliseconds,
            "unix-seconds" => Self::UnixSeconds,
            "unix-milliseconds" => Self::UnixMilliseconds,
            "restore-milliseconds" => Self::RestoreMilliseconds,
            "pattern" => Self::Pattern,
            "payload" => Self::Payload,
            "type" => Self::Type,
            _ => return None,
        })
    }

    pub(super) fn is_key(self) -> bool {
        matches!(self, Self::Key | Self::StringKey | Self::SetKey | Self::HashKey | Self::AnyKey) || self.wants_plain()
    }

    fn wants_plain(self) -> bool {
        matches!(self, Self::PlainKey | Self::OtherKey)
    }
}

/// How often in 100 a key of a command is one of any group.
const STRAY_PERCENT: u64 = 4;
/// How often in 100 a command's group is one of the small ones, where there are.
const SMALL_PERCENT: u64 = 10;

/// What slots are filled from.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    groups: Vec<Group>,
    payloads: Payloads,
}

/// What DUMP answers for some values.
#[derive(Clone, Debug, Default)]
pub(super) struct Payloads {
    pub(super) strings: Vec<Vec<u8>>,
    pub(super) sets: Vec<Vec<u8>>,
    pub(super) hashes: Vec<Vec<u8>>,
}

impl Arguments {
    pub(super) fn new(groups: Vec<Group>, payloads: Payloads) -> Self {
        Self { groups, payloads }
    }

    /// Every key.
    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        self.groups.iter().flat_map(Group::keys).cloned().collect()
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group that a command takes its keys from.
    pub(super) fn group(&self, random: &mut Random) -> usize {
        if self.groups.len() == 1 {
            return 0;
        }
        let large = self.groups.iter().filter(|group| !group.other.is_empty()).count();
        if random.chance(SMALL_PERCENT) { large + random.index(self.groups.len() - large) } else { random.index(large) }
    }

    /// An argument, with keys of this group or, where there are several, now and then of another.
    pub(super) fn fill(&self, slot: Slot, group: usize, random: &mut Random) -> Vec<u8> {
        match slot {
            Slot::Key | Slot::StringKey | Slot::PlainKey | Slot::OtherKey => {
                let is_stray = self.groups.len() > 1 && random.chance(STRAY_PERCENT);
                self.key(slot, if is_stray { self.group(random) } else { group }, random)
            }
            Slot::SetKey => random.pick(&self.groups[group].sets).clone(),
            Slot::HashKey => random.pick(&self.groups[group].hashes).clone(),
            Slot::AnyKey => {
                let Group { folded, plain, sets, hashes, .. } = &self.groups[group];
                let [one, other] = if random.chance(10) { [folded, plain] } else { [sets, hashes] };
                let keys = if random.chance(50) { one } else { other };
                random.pick(keys).clone()
            }
            Slot::Member => random.pick(&MEMBERS).to_vec(),
            Slot::Value => value(random),
            Slot::Often => random.pick(&DIGESTS).0.as_bytes().to_vec(),
            Slot::Digest => digest(random),
            Slot::Payload => payload(&self.payloads.strings, random),
            Slot::SetPayload => payload(&self.payloads.sets, random),
            Slot::HashPayload => payload(&self.payloads.hashes, random),
            Slot::Pattern => self.pattern(random),
            _ => text(slot, random).into_bytes(),
        }
    }

    fn key(&self, slot: Slot, group: usize, random: &mut Random) -> Vec<u8> {
        let group = &self.groups[group];
        // A small group has folded keys alone.
        let group = if group.plain.is_empty() && slot.wants_plain() { &self.groups[0] } else { group };
        match slot {
            Slot::Key if random.chance(5) && !group.other.is_empty() => random.pick(&group.other).clone(),
            Slot::Key | Slot::StringKey if random.chance(80) || group.plain.is_empty() => {
                random.pick(&group.folded).clone()
            }
            Slot::OtherKey => random.pick(&group.other).clone(),
            _ => random.pick(&group.plain).clone(),
        }
    }

    fn pattern(&self, random: &mut Random) -> Vec<u8> {
        const PATTERNS: [&str; 11] = [
            "*",
            "user:*",
            "*:logins",
            "sess:*",
            "h:??????",
            "post:*0*:*",
            "*[0-4]",
            "plain:*",
            "nothing",
            "*\\?*",
            "*:a",
        ];
        if random.chance(10) {
            random.pick(&self.groups[0].folded).clone()
        } else {
            random.pick(&PATTERNS).as_bytes().to_vec()
        }
    }
}

fn payload(payloads: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    if payloads.is_empty() || random.chance(10) {
        return value(random);
    }
    random.pick(payloads).clone()
}

fn value(random: &mut Random) -> Vec<u8> {
    match random.below(10) {
        0..4 => random.pick(&INTEGERS).as_bytes().to_vec(),
        4 => random.pick(&FLOATS).as_bytes().to_vec(),
        5 => (random.below(2000).cast_signed() - 1000).to_string().into_bytes(),
        6 => bytes(random, |random| u8::try_from(random.below(0x20)).unwrap_or(0)),
        7 => bytes(random, |random| u8::try_from(random.below(256)).unwrap_or(0)),
        8 => {
            // LZF packs what repeats.
            let len = *random.pick(&LENGTHS);
            b"abcabcabd".iter().copied().cycle().take(len).collect()
        }
        _ => bytes(random, |random| b'a' + u8::try_from(random.below(26)).unwrap_or(0)),
    }
}

fn digest(random: &mut Random) -> Vec<u8> {
    let mut digest = random.pick(&DIGESTS).1.as_bytes().to_vec();
    match random.below(10) {
        0 => digest.truncate(15),
        1 => digest.fill(b'0'),
        2..4 => digest.make_ascii_uppercase(),
        _ => {}
    }
    digest
}

fn bytes(random: &mut Random, byte: fn(&mut Random) -> u8) -> Vec<u8> {
    let len = *random.pick(&LENGTHS);
    (0..len).map(|_| byte(random)).collect()
}

fn text(slot: Slot, random: &mut Random) -> String {
    if random.chance(3) {
        return (*random.pick(&NO_NUMBERS)).to_owned();
    }
    let far = 100_000 + random.below(10_000_000);
    let far_ms = far * 1000 + random.below(1000);
    // Now and then beyond the 34 years that a frame's expiry spans.
    let centuries = if random.chance(3) { 6_000_000_000 } else { 0 };
    match slot {
        Slot::Integer => (*random.pick(&INTEGERS)).to_owned(),
        Slot::Float => (*random.pick(&FLOATS)).to_owned(),
        Slot::Index => (random.below(160).cast_signed() - 80).to_string(),
        Slot::Offset => near_or(random, 90, &["-1", "536870912", "9223372036854775807"]),
        Slot::Bit => near_or(random, 2, &["2", "-1"]),
        Slot::BitOffset if random.chance(10) => format!("#{}", random.below(20)),
        Slot::BitOffset => near_or(random, 700, &["-1", "4294967296", "#-1"]),
        Slot::FieldType if random.chance(5) => (*random.pick(&["u64", "i65", "u0", "x8", "8"])).to_owned(),
        Slot::FieldType => format!("{}{}", random.pick(&["u", "i"]), 1 + random.below(63)),
        Slot::Seconds => time(random, far),
        // A key is never so near its end that one side still has it and the other has not.
        Slot::Milliseconds => time(random, far_ms),
        Slot::UnixSeconds => time(random, 2_000_000_000 + centuries + far),
        Slot::UnixMilliseconds => time(random, 2_000_000_000_000 + centuries * 1000 + far_ms),
        Slot::RestoreMilliseconds if random.chance(5) => "-1".to_owned(),
        Slot::RestoreMilliseconds => (2_000_000_000_000 + far_ms).to_string(),
        Slot::Type => (*random.pick(&["string", "STRING", "hash", "list", "nope"])).to_owned(),
        _ => unreachable!("{slot:?} is no text"),
    }
}

fn near_or(random: &mut Random, below: u64, others: &[&str]) -> String {
    if random.chance(5) { (*random.pick(others)).to_owned() } else { random.below(below).to_string() }
}

fn time(random: &mut Random, far: u64) -> String {
    if random.chance(8) {
        return (*random.pick(&["0", "-1", "-100000", "9223372036854775807", "9223372036854776"])).to_owned();
    }
    far.to_string()
}
