//! Commands on sets at random: a table of what each takes, valid and not.

/// The keys that commands name.
pub(super) const KEYS: [&[u8]; 6] = [b"k0", b"k1", b"k2", b"k3", b"k:\xff\0\r\n", b"k5"];

/// What stands at a place in a command.
#[derive(Clone, Copy)]
enum Arg {
    /// The very word, in any mixture of cases.
    Word(&'static str),
    Key,
    Member,
    /// How many members, or keys.
    Count,
    Cursor,
    Pattern,
    Milliseconds,
    AtMillisecond,
    /// What DUMP once answered, or nearly.
    Payload,
    /// Any number, from none, of one of these.
    Options(&'static [&'static [Arg]]),
    /// These, one to four times.
    Repeated(&'static [Arg]),
    /// A hundred members and more.
    Many,
}

use Arg::{AtMillisecond, Count, Cursor, Key, Many, Member, Milliseconds, Options, Pattern, Payload, Repeated, Word};

const SCAN_OPTIONS: &[&[Arg]] =
    &[&[Word("MATCH"), Pattern], &[Word("MATCH"), Pattern], &[Word("COUNT"), Count], &[Word("NOVALUES")]];
const LIMIT: &[&[Arg]] = &[&[Word("LIMIT"), Count]];
const RESTORE_OPTIONS: &[&[Arg]] = &[&[Word("REPLACE")], &[Word("REPLACE")], &[Word("ABSTTL")]];
const COPY_OPTIONS: &[&[Arg]] = &[&[Word("REPLACE")]];

/// Every command, with how often it is drawn against the others.
const COMMANDS: &[(usize, &[Arg])] = &[
    (30, &[Word("SADD"), Key, Repeated(&[Member])]),
    (1, &[Word("SADD"), Key, Many]),
    (16, &[Word("SREM"), Key, Repeated(&[Member])]),
    (6, &[Word("SISMEMBER"), Key, Member]),
    (5, &[Word("SMISMEMBER"), Key, Repeated(&[Member])]),
    (4, &[Word("SCARD"), Key]),
    (5, &[Word("SMEMBERS"), Key]),
    (12, &[Word("SSCAN"), Key, Cursor, Options(SCAN_OPTIONS)]),
    (8, &[Word("SPOP"), Key]),
    (8, &[Word("SPOP"), Key, Count]),
    (1, &[Word("SPOP"), Key, Count, Count]),
    (4, &[Word("SRANDMEMBER"), Key]),
    (10, &[Word("SRANDMEMBER"), Key, Count]),
    (1, &[Word("SRANDMEMBER"), Key, Count, Count]),
    (14, &[Word("SMOVE"), Key, Key, Member]),
    (6, &[Word("SINTER"), Repeated(&[Key])]),
    (10, &[Word("SINTERCARD"), Count, Repeated(&[Key]), Options(LIMIT)]),
    (4, &[Word("SINTERCARD"), Word("2"), Key, Key, Options(LIMIT)]),
    (6, &[Word("SUNION"), Repeated(&[Key])]),
    (6, &[Word("SDIFF"), Repeated(&[Key])]),
    (6, &[Word("SINTERSTORE"), Key, Repeated(&[Key])]),
    (5, &[Word("SUNIONSTORE"), Key, Repeated(&[Key])]),
    (6, &[Word("SDIFFSTORE"), Key, Repeated(&[Key])]),
    (3, &[Word("DEL"), Repeated(&[Key])]),
    (2, &[Word("EXISTS"), Repeated(&[Key])]),
    (2, &[Word("TYPE"), Key]),
    (5, &[Word("PEXPIRE"), Key, Milliseconds]),
    (2, &[Word("PEXPIREAT"), Key, AtMillisecond]),
    (2, &[Word("PERSIST"), Key]),
    (2, &[Word("PTTL"), Key]),
    (2, &[Word("PEXPIRETIME"), Key]),
    (3, &[Word("RENAME"), Key, Key]),
    (2, &[Word("RENAMENX"), Key, Key]),
    (3, &[Word("COPY"), Key, Key, Options(COPY_OPTIONS)]),
    (3, &[Word("DUMP"), Key]),
    (3, &[Word("RESTORE"), Key, Milliseconds, Payload, Options(RESTORE_OPTIONS)]),
    (3, &[Word("OBJECT"), Word("ENCODING"), Key]),
    (1, &[Word("OBJECT"), Word("REFCOUNT"), Key]),
    (1, &[Word("OBJECT"), Word("IDLETIME"), Key]),
    (1, &[Word("OBJECT"), Word("FREQ"), Key]),
    (1, &[Word("GET"), Key]),
];

/// Members that servers keep in one form or another, at the edges of each.
const MEMBERS: &[&str] = &[
    "",
    "007",
    "7",
    "-0",
    "+1",
    "1.0",
    " 1",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "2147483648",
    "-32769",
    "a\0b",
    "\r\n",
    "*",
    "[a-c]",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa64",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa65",
];

/// Counts at the edges of what servers read, and things that are none. None of them asks SRANDMEMBER for more than it can give.
const COUNTS: &[&str] = &[
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "2147483648",
    "99999999999999999999999",
    "",
    "-",
    "-0",
    "+1",
    "01",
    " 1",
    "1 ",
    "1.0",
    "abc",
    "1\0",
];

const CURSORS: &[&str] = &[
    "18446744073709551615",
    "18446744073709551616",
    "-18446744073709551615",
    "9223372036854775808",
    "-1",
    "-0",
    "",
    "-",
    "+1",
    "01",
    " 1",
    "\t\x0b1",
    "1 ",
    "1\0x",
    "--1",
    "x",
];

const PATTERNS: &[&str] = &["*", "**", "", "?", "[0-9]*", "-*", "*7", "\\*", "x*", "[^x]*", "x1?", "aaa*", "\\"];

/// Draws commands from a seed.
pub(super) struct Generator {
    state: u64,
    total_weight: usize,
    pub(super) payloads: Vec<Vec<u8>>,
    pub(super) now_ms: i64,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        let total_weight = COMMANDS.iter().map(|(weight, _)| weight).sum();
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self { state, total_weight, payloads: vec![b"junk".to_vec()], now_ms: 0 }
    }

    /// A number below `bound` (xorshift64*).
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let high = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % bound
    }

    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    fn pick_text(&mut self, from: &[&str]) -> Vec<u8> {
        self.pick(from).as_bytes().to_vec()
    }

    fn number(&mut self, low: i64, high: i64) -> Vec<u8> {
        let offset = self.below(usize::try_from(high - low).unwrap());
        (low + i64::try_from(offset).unwrap()).to_string().into_bytes()
    }

    /// The next command.
    pub(super) fn command(&mut self) -> Vec<Vec<u8>> {
        let mut left = self.below(self.total_weight);
        let is_drawn = |(weight, _): &&(usize, &[Arg])| {
            let found = left < *weight;
            left = left.wrapping_sub(*weight);
            found
        };
        let (_, shape) = COMMANDS.iter().find(is_drawn).unwrap();
        let mut args = Vec::new();
        for arg in *shape {
            self.push(*arg, &mut args);
        }
        args
    }

    fn push(&mut self, arg: Arg, args: &mut Vec<Vec<u8>>) {
        let drawn = match arg {
            Word(word) => self.any_case(word),
            Key => self.pick(&KEYS).to_vec(),
            Member => self.member(),
            Count if self.one_in(8) => self.pick_text(COUNTS),
            Count if self.one_in(10) => self.number(60, 300),
            Count => self.number(-4, 9),
            Cursor if self.one_in(4) => self.pick_text(CURSORS),
            Cursor => b"0".to_vec(),
            Pattern if self.one_in(4) => self.member(),
            Pattern => self.pick_text(PATTERNS),
            Milliseconds => self.number(-2, 60),
            AtMillisecond => self.number(self.now_ms - 5, self.now_ms + 50),
            Payload => self.payload(),
            Options(options) => return self.push_options(options, args),
            Repeated(shape) => {
                for _ in 0..=self.below(4) {
                    shape.iter().for_each(|arg| self.push(*arg, args));
                }
                return;
            }
            Many => return self.push_many(args),
        };
        args.push(drawn);
    }

    fn push_options(&mut self, options: &[&[Arg]], args: &mut Vec<Vec<u8>>) {
        for _ in 0..self.pick(&[0, 0, 1, 1, 1, 2, 3]) {
            match self.below(20) {
                0 => args.push(self.member()),
                // Without what belongs to it.
                1 => {
                    let word = self.pick(options)[0];
                    self.push(word, args);
                }
                _ => self.pick(options).iter().for_each(|arg| self.push(*arg, args)),
            }
        }
    }

    fn push_many(&mut self, args: &mut Vec<Vec<u8>>) {
        let (prefix, count) = self.pick(&[("x", 128), ("x", 129), ("", 512), ("", 513), ("x", 200)]);
        args.extend((0..count).map(|number| format!("{prefix}{number}").into_bytes()));
    }

    fn any_case(&mut self, word: &str) -> Vec<u8> {
        let mixed = self.one_in(4);
        word.bytes()
            .map(|byte| if mixed && byte.is_ascii_alphabetic() && self.one_in(2) { byte ^ 0x20 } else { byte })
            .collect()
    }

    /// A member: few enough that sets have some in common.
    fn member(&mut self) -> Vec<u8> {
        match self.below(8) {
            0 | 1 => self.pick_text(MEMBERS),
            2 => vec![self.pick(b"ab\0\n\xff\x80"); self.below(3)],
            3 => [b"x".to_vec(), self.number(0, 20)].concat(),
            _ => self.number(-3, 12),
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        let index = self.below(self.payloads.len());
        let mut payload = self.payloads[index].clone();
        if self.one_in(10) {
            let at = self.below(payload.len());
            payload[at] ^= 1;
        }
        payload
    }
}
