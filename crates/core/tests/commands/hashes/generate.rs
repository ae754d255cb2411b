//! Commands on hashes at random: a table of what each takes, valid and not.

use crate::strings::generate::{FLOATS, Generator as Draws};

/// The keys that commands name.
pub(crate) const KEYS: [&[u8]; 5] = [b"k0", b"k1", b"k2", b"k:\xff\0\r\n", b""];

/// The fields that they name: few, so that they meet.
pub(crate) const FIELDS: [&[u8]; 13] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"7",
    b"007",
    b"-12",
    b"9223372036854775807",
    b"",
    b"\0\xff\r\n",
    b"fields",
    &[b'x'; 64],
    &[b'x'; 65],
];

/// What stands at a place in a command.
#[derive(Clone, Copy)]
pub(crate) enum Arg {
    /// The very word, in any mixture of cases.
    Word(&'static str),
    Key,
    Field,
    Value,
    Integer,
    Float,
    /// How many fields to draw.
    Draws,
    Cursor,
    Pattern,
    Seconds,
    Milliseconds,
    AtSecond,
    AtMillisecond,
    /// Any number, from none, of one of these.
    Options(&'static [&'static [Arg]]),
    /// These, one to three times.
    Repeated(&'static [Arg]),
    /// FIELDS, how many, and these so many times; nearly always.
    Counted(&'static [Arg]),
}

use Arg::{
    AtMillisecond, AtSecond, Counted, Cursor, Draws as DrawnCount, Field, Float, Integer, Key, Milliseconds, Options,
    Pattern, Repeated, Seconds, Value, Word,
};

const EXPIRES: [&[Arg]; 4] =
    [&[Word("EX"), Seconds], &[Word("PX"), Milliseconds], &[Word("EXAT"), AtSecond], &[Word("PXAT"), AtMillisecond]];
const SCAN_OPTIONS: &[&[Arg]] =
    &[&[Word("MATCH"), Pattern], &[Word("MATCH"), Pattern], &[Word("COUNT"), Integer], &[Word("NOVALUES")]];
const CONDITIONS: &[&[Arg]] = &[&[Word("NX")], &[Word("XX")], &[Word("GT")], &[Word("LT")]];
const HGETEX_OPTIONS: &[&[Arg]] = &[EXPIRES[0], EXPIRES[1], EXPIRES[2], EXPIRES[3], &[Word("PERSIST")]];
const HSETEX_OPTIONS: &[&[Arg]] = &[
    EXPIRES[0],
    EXPIRES[1],
    EXPIRES[2],
    EXPIRES[3],
    EXPIRES[1],
    EXPIRES[3],
    &[Word("KEEPTTL")],
    &[Word("KEEPTTL")],
    &[Word("FNX")],
    &[Word("FXX")],
    &[Word("NX")],
    &[Word("XX")],
];

/// Commands that every server has, with how often each is drawn against the others.
const COMMANDS: &[(usize, &[Arg])] = &[
    (14, &[Word("HSET"), Key, Repeated(&[Field, Value])]),
    (1, &[Word("HSET"), Key, Field, Value, Field]),
    (3, &[Word("HMSET"), Key, Repeated(&[Field, Value])]),
    (1, &[Word("HMSET"), Key, Field, Value, Field]),
    (4, &[Word("HSETNX"), Key, Field, Value]),
    (4, &[Word("HGET"), Key, Field]),
    (3, &[Word("HMGET"), Key, Repeated(&[Field])]),
    (3, &[Word("HGETALL"), Key]),
    (2, &[Word("HKEYS"), Key]),
    (2, &[Word("HVALS"), Key]),
    (8, &[Word("HDEL"), Key, Repeated(&[Field])]),
    (3, &[Word("HEXISTS"), Key, Field]),
    (3, &[Word("HLEN"), Key]),
    (3, &[Word("HSTRLEN"), Key, Field]),
    (6, &[Word("HINCRBY"), Key, Field, Integer]),
    (6, &[Word("HINCRBYFLOAT"), Key, Field, Float]),
    (2, &[Word("HRANDFIELD"), Key]),
    (4, &[Word("HRANDFIELD"), Key, DrawnCount]),
    (4, &[Word("HRANDFIELD"), Key, DrawnCount, Word("WITHVALUES")]),
    (1, &[Word("HRANDFIELD"), Key, DrawnCount, Value]),
    (8, &[Word("HSCAN"), Key, Cursor, Options(SCAN_OPTIONS)]),
    (2, &[Word("DEL"), Key]),
    (2, &[Word("PEXPIRE"), Key, Milliseconds]),
    (2, &[Word("PERSIST"), Key]),
    (1, &[Word("TYPE"), Key]),
    (1, &[Word("EXISTS"), Key]),
    (1, &[Word("RENAME"), Key, Key]),
    (2, &[Word("COPY"), Key, Key, Word("REPLACE")]),
];

/// Those of later servers.
const LATER_COMMANDS: &[(usize, &[Arg])] = &[
    (4, &[Word("HEXPIRE"), Key, Seconds, Options(CONDITIONS), Counted(&[Field])]),
    (8, &[Word("HPEXPIRE"), Key, Milliseconds, Options(CONDITIONS), Counted(&[Field])]),
    (4, &[Word("HEXPIREAT"), Key, AtSecond, Options(CONDITIONS), Counted(&[Field])]),
    (8, &[Word("HPEXPIREAT"), Key, AtMillisecond, Options(CONDITIONS), Counted(&[Field])]),
    (3, &[Word("HTTL"), Key, Counted(&[Field])]),
    (3, &[Word("HPTTL"), Key, Counted(&[Field])]),
    (3, &[Word("HEXPIRETIME"), Key, Counted(&[Field])]),
    (3, &[Word("HPEXPIRETIME"), Key, Counted(&[Field])]),
    (5, &[Word("HPERSIST"), Key, Counted(&[Field])]),
    (12, &[Word("HGETEX"), Key, Options(HGETEX_OPTIONS), Counted(&[Field])]),
    (14, &[Word("HSETEX"), Key, Options(HSETEX_OPTIONS), Counted(&[Field, Value])]),
    (4, &[Word("HGETDEL"), Key, Counted(&[Field])]),
];

const CURSORS: &[&str] = &["", "-1", "-0", "+3", "01", " 5", "5 ", "x", "18446744073709551615", "18446744073709551616"];
const PATTERNS: &[&str] = &["*", "a*", "?", "[a-c]", "*7", "", "x*", "nope", "\\", "**"];

/// Draws commands from a seed.
pub(crate) struct Generator {
    pub(crate) draws: Draws,
    commands: Vec<(usize, &'static [Arg])>,
}

impl Generator {
    /// With or without the commands of later servers.
    pub(crate) fn new(seed: u64, with_later: bool) -> Self {
        let later = if with_later { LATER_COMMANDS } else { &[] };
        Self { draws: Draws::new(seed), commands: [COMMANDS, later].concat() }
    }

    /// The next command.
    pub(crate) fn command(&mut self) -> Vec<Vec<u8>> {
        let mut left = self.draws.below(self.commands.iter().map(|(weight, _)| weight).sum());
        let at = self.commands.iter().position(|(weight, _)| {
            let found = left < *weight;
            left = left.wrapping_sub(*weight);
            found
        });
        let mut args = Vec::new();
        for arg in self.commands[at.unwrap()].1 {
            self.push(*arg, &mut args);
        }
        args
    }

    fn push(&mut self, arg: Arg, args: &mut Vec<Vec<u8>>) {
        let now_ms = self.draws.now_ms;
        let draws = &mut self.draws;
        let drawn = match arg {
            Word(word) => draws.any_case(word),
            Key => draws.pick(&KEYS).to_vec(),
            Field => draws.pick(&FIELDS).to_vec(),
            Value => self.value(),
            Integer => draws.integer(),
            Float if draws.one_in(3) => draws.integer(),
            Float => draws.pick(FLOATS).as_bytes().to_vec(),
            // No server is asked for more than it can send.
            DrawnCount if draws.one_in(8) => {
                draws.pick(&["9223372036854775807", "-9223372036854775808", "x", "", "4611686018427387904"]).into()
            }
            DrawnCount => draws.number(-12, 12),
            Cursor if draws.one_in(6) => draws.pick(CURSORS).into(),
            Cursor => b"0".to_vec(),
            Pattern => draws.pick(PATTERNS).into(),
            Seconds | Milliseconds | AtSecond | AtMillisecond if draws.one_in(12) => draws.integer(),
            Seconds => draws.number(0, 3),
            Milliseconds => draws.number(0, 60),
            AtSecond => draws.number(now_ms / 1000, now_ms / 1000 + 3),
            AtMillisecond => draws.number(now_ms - 5, now_ms + 50),
            Options(options) => return self.push_options(options, args),
            Repeated(shape) => {
                let times = 1 + draws.below(3);
                return self.push_times(times, shape, args);
            }
            Counted(shape) => return self.push_counted(shape, args),
        };
        args.push(drawn);
    }

    fn push_times(&mut self, times: usize, shape: &[Arg], args: &mut Vec<Vec<u8>>) {
        for _ in 0..times {
            shape.iter().for_each(|arg| self.push(*arg, args));
        }
    }

    fn push_counted(&mut self, shape: &[Arg], args: &mut Vec<Vec<u8>>) {
        let times = 1 + self.draws.below(3);
        args.push(if self.draws.one_in(60) { self.value() } else { self.draws.any_case("FIELDS") });
        let said = if self.draws.one_in(25) { self.draws.integer() } else { times.to_string().into_bytes() };
        // Twice this number is 2 to Valkey 9.1, whose HSETEX then goes on, or down.
        let is_too_low = said == b"-9223372036854775807";
        args.push(if is_too_low { b"-1".to_vec() } else { said });
        self.push_times(times, shape, args);
        if self.draws.one_in(60) {
            self.push(Field, args);
        }
    }

    fn push_options(&mut self, options: &[&[Arg]], args: &mut Vec<Vec<u8>>) {
        let count = self.draws.pick(&[0, 0, 1, 1, 1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            match self.draws.below(50) {
                0 => args.push(self.value()),
                // Without what belongs to it.
                1 => {
                    let word = self.draws.pick(options)[0];
                    self.push(word, args);
                }
                _ => self.draws.pick(options).iter().for_each(|arg| self.push(*arg, args)),
            }
        }
    }

    /// A value, mostly one with which a hash stays small.
    fn value(&mut self) -> Vec<u8> {
        let mut value = self.draws.value();
        if !self.draws.one_in(20) {
            value.truncate(64);
        }
        value
    }
}
