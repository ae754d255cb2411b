//! Commands at random: a table of what each takes, valid and not.
//!
//! A command is one line of [`COMMANDS`]; another family is added there.

/// The keys that commands name.
pub(crate) const KEYS: [&[u8]; 8] = [b"k0", b"k1", b"k2", b"k3", b"k4", b"k:\xff\0\r\n", b"", b"k7"];

/// What stands at a place in a command.
#[derive(Clone, Copy)]
pub(crate) enum Arg {
    /// The very word, in any mixture of cases.
    Word(&'static str),
    Key,
    Value,
    Integer,
    Float,
    /// An offset or index into a value.
    Index,
    /// A bit's offset. Not one that would make the value larger than a test likes.
    Bit,
    Seconds,
    Milliseconds,
    AtSecond,
    AtMillisecond,
    /// What DUMP once answered, or nearly.
    Payload,
    /// Any number, from none, of one of these.
    Options(&'static [&'static [Arg]]),
    /// These, one to four times.
    Repeated(&'static [Arg]),
}

use Arg::{
    AtMillisecond, AtSecond, Bit, Float, Index, Integer, Key, Milliseconds, Options, Payload, Repeated, Seconds, Value,
    Word,
};

const EXPIRES: [&[Arg]; 4] =
    [&[Word("EX"), Seconds], &[Word("PX"), Milliseconds], &[Word("EXAT"), AtSecond], &[Word("PXAT"), AtMillisecond]];
const SET_OPTIONS: &[&[Arg]] = &[
    EXPIRES[0],
    EXPIRES[1],
    EXPIRES[2],
    EXPIRES[3],
    &[Word("NX")],
    &[Word("XX")],
    &[Word("GET")],
    &[Word("GET")],
    &[Word("KEEPTTL")],
    &[Word("KEEPTTL")],
    &[Word("PERSIST")],
];
const GETEX_OPTIONS: &[&[Arg]] = &[EXPIRES[0], EXPIRES[1], EXPIRES[2], EXPIRES[3], &[Word("PERSIST")], &[Word("NX")]];
const CONDITIONS: &[&[Arg]] = &[&[Word("NX")], &[Word("XX")], &[Word("GT")], &[Word("LT")]];
const COPY_OPTIONS: &[&[Arg]] = &[&[Word("REPLACE")], &[Word("REPLACE")], &[Word("REPLACE")], &[Word("DB"), Integer]];
const RESTORE_OPTIONS: &[&[Arg]] = &[
    &[Word("REPLACE")],
    &[Word("REPLACE")],
    &[Word("REPLACE")],
    &[Word("ABSTTL")],
    &[Word("IDLETIME"), Index],
    &[Word("FREQ"), Index],
];

/// Every command, with how often it is drawn against the others.
const COMMANDS: &[(usize, &[Arg])] = &[
    (6, &[Word("GET"), Key]),
    (12, &[Word("SET"), Key, Value]),
    (12, &[Word("SET"), Key, Value, Options(SET_OPTIONS)]),
    (3, &[Word("SETNX"), Key, Value]),
    (3, &[Word("SETEX"), Key, Seconds, Value]),
    (3, &[Word("PSETEX"), Key, Milliseconds, Value]),
    (3, &[Word("GETSET"), Key, Value]),
    (2, &[Word("GETDEL"), Key]),
    (6, &[Word("GETEX"), Key, Options(GETEX_OPTIONS)]),
    (3, &[Word("MGET"), Repeated(&[Key])]),
    (3, &[Word("MSET"), Repeated(&[Key, Value])]),
    (1, &[Word("MSET"), Key, Value, Key]),
    (3, &[Word("MSETNX"), Repeated(&[Key, Value])]),
    (1, &[Word("MSETNX"), Key, Value, Key]),
    (4, &[Word("INCR"), Key]),
    (4, &[Word("DECR"), Key]),
    (5, &[Word("INCRBY"), Key, Integer]),
    (5, &[Word("DECRBY"), Key, Integer]),
    (6, &[Word("INCRBYFLOAT"), Key, Float]),
    (5, &[Word("APPEND"), Key, Value]),
    (3, &[Word("STRLEN"), Key]),
    (5, &[Word("GETRANGE"), Key, Index, Index]),
    (1, &[Word("SUBSTR"), Key, Index, Index]),
    (5, &[Word("SETRANGE"), Key, Index, Value]),
    (2, &[Word("DEL"), Repeated(&[Key])]),
    (2, &[Word("UNLINK"), Repeated(&[Key])]),
    (3, &[Word("EXISTS"), Repeated(&[Key])]),
    (2, &[Word("TOUCH"), Repeated(&[Key])]),
    (3, &[Word("TYPE"), Key]),
    (4, &[Word("EXPIRE"), Key, Seconds, Options(CONDITIONS)]),
    (6, &[Word("PEXPIRE"), Key, Milliseconds, Options(CONDITIONS)]),
    (4, &[Word("EXPIREAT"), Key, AtSecond, Options(CONDITIONS)]),
    (6, &[Word("PEXPIREAT"), Key, AtMillisecond, Options(CONDITIONS)]),
    (3, &[Word("TTL"), Key]),
    (3, &[Word("PTTL"), Key]),
    (3, &[Word("EXPIRETIME"), Key]),
    (3, &[Word("PEXPIRETIME"), Key]),
    (3, &[Word("PERSIST"), Key]),
    (3, &[Word("RENAME"), Key, Key]),
    (3, &[Word("RENAMENX"), Key, Key]),
    (5, &[Word("COPY"), Key, Key, Options(COPY_OPTIONS)]),
    (3, &[Word("DUMP"), Key]),
    (6, &[Word("RESTORE"), Key, Milliseconds, Payload, Options(RESTORE_OPTIONS)]),
    (1, &[Word("RESTORE"), Key, AtMillisecond, Payload, Word("ABSTTL"), Options(RESTORE_OPTIONS)]),
    (3, &[Word("OBJECT"), Word("ENCODING"), Key]),
    (1, &[Word("OBJECT"), Word("REFCOUNT"), Key]),
    (1, &[Word("OBJECT"), Word("IDLETIME"), Key]),
    (1, &[Word("OBJECT"), Word("FREQ"), Key]),
    (1, &[Word("SETBIT"), Key, Bit, Word("1")]),
    (1, &[Word("GETBIT"), Key, Bit]),
    (1, &[Word("BITCOUNT"), Key]),
];

/// Numbers at the edges of what the server reads, and things that are none.
const EDGES: &[&str] = &[
    "9223372036854775807",
    "9223372036854775806",
    "-9223372036854775808",
    "-9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "9223372036854775",
    "9223372036854774",
    "9223372036854776",
    "-9223372036854775",
    "-9223372036854776",
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
    "0x10",
];

pub(crate) const FLOATS: &[&str] = &[
    "0.1",
    "-0.1",
    "1e3",
    "3.0e-5",
    "1.5",
    "10.50",
    "5e400",
    "1e4932",
    "1e5000",
    "inf",
    "-inf",
    "nan",
    "0x1p3",
    "+1.5",
    " 1.5",
    "1.5 ",
    "1e",
    "",
    ".5",
    "5.",
    "1.7976931348623157e308",
    "123456789012345678901234567890",
    "0.00000000000000001",
    "-3.141592653589793238",
];

/// Draws commands from a seed.
pub(crate) struct Generator {
    state: u64,
    total_weight: usize,
    pub(crate) payloads: Vec<Vec<u8>>,
    pub(crate) now_ms: i64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        let total_weight = COMMANDS.iter().map(|(weight, _)| weight).sum();
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            total_weight,
            payloads: vec![b"junk".to_vec()],
            now_ms: 0,
        }
    }

    /// A number below `bound` (xorshift64*).
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let high = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % bound
    }

    pub(crate) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn number(&mut self, low: i64, high: i64) -> Vec<u8> {
        let offset = self.below(usize::try_from(high - low).unwrap());
        (low + i64::try_from(offset).unwrap()).to_string().into_bytes()
    }

    /// The next command.
    pub(crate) fn command(&mut self) -> Vec<Vec<u8>> {
        let mut left = self.below(self.total_weight);
        let (_, shape) = COMMANDS
            .iter()
            .find(|(weight, _)| {
                let found = left < *weight;
                left = left.wrapping_sub(*weight);
                found
            })
            .unwrap();
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
            Value => self.value(),
            Integer => self.integer(),
            Float if self.one_in(3) => self.integer(),
            Float => self.pick(FLOATS).as_bytes().to_vec(),
            Index => self.index(),
            Bit if self.one_in(12) => self.pick(EDGES).as_bytes().to_vec(),
            Bit => self.number(-2, 600),
            Seconds if self.one_in(8) => self.integer(),
            Seconds => self.number(-1, 4),
            Milliseconds if self.one_in(8) => self.integer(),
            Milliseconds => self.number(-2, 60),
            AtSecond if self.one_in(8) => self.integer(),
            AtSecond => self.number(self.now_ms / 1000 - 1, self.now_ms / 1000 + 3),
            AtMillisecond if self.one_in(8) => self.integer(),
            AtMillisecond => self.number(self.now_ms - 5, self.now_ms + 50),
            Payload => self.payload(),
            Options(options) => return self.push_options(options, args),
            Repeated(shape) => {
                for _ in 0..=self.below(4) {
                    shape.iter().for_each(|arg| self.push(*arg, args));
                }
                return;
            }
        };
        args.push(drawn);
    }

    fn push_options(&mut self, options: &[&[Arg]], args: &mut Vec<Vec<u8>>) {
        let count = self.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
        for _ in 0..count {
            match self.below(40) {
                0 => args.push(self.value()),
                // Without what belongs to it.
                1 => {
                    let word = self.pick(options)[0];
                    self.push(word, args);
                }
                _ => self.pick(options).iter().for_each(|arg| self.push(*arg, args)),
            }
        }
    }

    pub(crate) fn any_case(&mut self, word: &str) -> Vec<u8> {
        let mixed = self.one_in(4);
        word.bytes()
            .map(|byte| if mixed && byte.is_ascii_alphabetic() && self.one_in(2) { byte ^ 0x20 } else { byte })
            .collect()
    }

    pub(crate) fn integer(&mut self) -> Vec<u8> {
        match self.below(4) {
            0 => self.pick(EDGES).as_bytes().to_vec(),
            1 => self.number(-20_000, 20_000),
            _ => self.number(-3, 12),
        }
    }

    fn index(&mut self) -> Vec<u8> {
        match self.below(12) {
            0 => self.pick(EDGES).as_bytes().to_vec(),
            1 => self.pick(&["536870911000", "536870912", "4294967296", "2147483648", "-536870912"]).into(),
            2 => self.number(0, 400),
            _ => self.number(-8, 70),
        }
    }

    pub(crate) fn value(&mut self) -> Vec<u8> {
        match self.below(10) {
            0 => Vec::new(),
            1 | 2 => self.integer(),
            3 => self.pick(EDGES).as_bytes().to_vec(),
            4 => self.pick(FLOATS).as_bytes().to_vec(),
            5 => self.bytes(40, 50),
            6 => self.bytes(60, 70),
            7 => vec![self.pick(b"ab\0\n\xff"); self.below(200)],
            _ => self.bytes(0, 12),
        }
    }

    fn bytes(&mut self, low: usize, high: usize) -> Vec<u8> {
        let len = low + self.below(high - low);
        (0..len).map(|_| self.pick(b"abcXYZ019 -.\0\r\n\x01\x1f\x7f\x80\xc3\xff")).collect()
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
