//! Random commands, valid and invalid, over a few keys. The same seed gives the same commands.

/// The keys that commands use.
pub(crate) const KEYS: [&str; 6] = ["k0", "k1", "k2", "k3", "k4", "k5"];

/// Integers that are none, or not for Redis, and the edges of 64 bits.
const ODD_INTEGERS: [&[u8]; 24] = [
    b"",
    b"-",
    b"-0",
    b"+1",
    b"01",
    b" 1",
    b"1 ",
    b"1.0",
    b"1e3",
    b"abc",
    b"0x10",
    b"\0",
    b"1\x001",
    b"#1",
    b"2147483648",
    b"-2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551615",
    b"1152921504606846976",
    b"1111111111111111111111111111111111111111",
];

/// Offsets behind a `#` that overflow, or do after they are multiplied by a field's width. None leads a
/// write to a far place.
const ODD_INDEXES: [&[u8]; 8] = [
    b"#",
    b"##1",
    b"#-1",
    b"#01",
    b"#9223372036854775807",
    b"#4611686018427387904",
    b"#-4611686018427387904",
    b"#9223372036854775808",
];

/// One command: its name and arguments.
pub(crate) type Command = Vec<Vec<u8>>;

/// A source of random commands (xorshift64).
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap() % bound
    }

    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// Up to `longest` bytes of an alphabet.
    pub(crate) fn text(&mut self, alphabet: &[u8], longest: usize) -> Vec<u8> {
        (0..self.below(longest + 1)).map(|_| self.pick(alphabet)).collect()
    }

    /// Appends the next command, or the two that make a list.
    pub(crate) fn next(&mut self, commands: &mut Vec<Command>) {
        let key = self.key();
        match self.below(24) {
            0..=2 => commands.push(self.set(key)),
            3 => commands.push(vec![b"del".to_vec(), key]),
            4 if self.one_in(3) => {
                commands.push(vec![b"del".to_vec(), key.clone()]);
                commands.push(vec![b"rpush".to_vec(), key, b"element".to_vec()]);
            }
            4 | 5 => commands.push(vec![b"get".to_vec(), key]),
            6 => commands.push(vec![b"pexpiretime".to_vec(), key]),
            7..=9 => commands.push(vec![b"setbit".to_vec(), key, self.offset(), self.bit()]),
            10 => commands.push(vec![b"getbit".to_vec(), key, self.read_offset()]),
            11 | 12 => commands.push(self.bitcount(key)),
            13..=15 => commands.push(self.bitpos(key)),
            16 | 17 => commands.push(self.bitop(key)),
            18..=20 => commands.push(self.bitfield(key)),
            21 => commands.push(self.bitfield_ro(key)),
            _ => commands.push(self.lcs(key)),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.pick(&KEYS).into()
    }

    fn set(&mut self, key: Vec<u8>) -> Command {
        let value = match self.below(8) {
            0 => Vec::new(),
            1 => vec![0xff; self.below(12)],
            2 => vec![0; self.below(12)],
            3 => self.below(100_000).to_string().into_bytes(),
            4 | 5 => self.text(b"ab", 30),
            6 => {
                let longest = self.pick(&[30, 60, 200]);
                self.text(b"abcd\0", longest)
            }
            _ => (0..self.below(40)).map(|_| u8::try_from(self.below(256)).unwrap()).collect(),
        };
        let mut command = vec![b"set".to_vec(), key, value];
        if self.one_in(2) {
            let at_ms = 4_102_444_800_000_u64 + self.below(1_000_000) as u64;
            command.extend([b"pxat".to_vec(), at_ms.to_string().into_bytes()]);
        }
        command
    }

    fn bitcount(&mut self, key: Vec<u8>) -> Command {
        let mut command = vec![b"bitcount".to_vec(), key];
        for part in 0..self.pick(&[0, 0, 1, 2, 2, 2, 3, 3, 3, 3, 4]) {
            command.push(if part < 2 { self.integer() } else { self.unit() });
        }
        command
    }

    fn bitpos(&mut self, key: Vec<u8>) -> Command {
        let mut command = vec![b"bitpos".to_vec(), key, self.bit()];
        for part in 0..self.pick(&[0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 4]) {
            command.push(if part < 2 { self.integer() } else { self.unit() });
        }
        command
    }

    fn bitop(&mut self, key: Vec<u8>) -> Command {
        let words: [&[u8]; 8] = [b"and", b"OR", b"Xor", b"not", b"NOT", b"nand", b"", b"or\0x"];
        let word = if self.one_in(10) { self.pick(&words) } else { self.pick(&words[..5]) };
        let mut command = vec![b"bitop".to_vec(), word.into(), key];
        for _ in 0..self.pick(&[1, 1, 1, 2, 2, 3, 4]) {
            command.push(self.key());
        }
        command
    }

    fn bitfield(&mut self, key: Vec<u8>) -> Command {
        let mut command = vec![b"bitfield".to_vec(), key];
        for _ in 0..self.pick(&[0, 1, 1, 2, 2, 3, 5]) {
            match self.below(12) {
                0..=2 => command.extend([b"GET".to_vec(), self.kind(), self.field_offset()]),
                3..=5 => command.extend([b"set".to_vec(), self.kind(), self.field_offset(), self.operand()]),
                6..=8 => command.extend([b"incrBY".to_vec(), self.kind(), self.field_offset(), self.operand()]),
                9 | 10 => command.extend([b"overflow".to_vec(), self.pick(&["wrap", "SAT", "fail"]).into()]),
                _ if self.one_in(3) => command.extend([b"OVERFLOW".to_vec(), self.pick(&["", "no", "sat\0"]).into()]),
                _ => command.push(self.pick(&["get", "set", "x", "", "get\0", "overflow"]).into()),
            }
        }
        self.maybe_cut(&mut command);
        command
    }

    fn bitfield_ro(&mut self, key: Vec<u8>) -> Command {
        let mut command = vec![b"bitfield_ro".to_vec(), key];
        for _ in 0..self.below(4) {
            let offset = if self.one_in(2) { self.read_offset() } else { self.field_offset() };
            command.extend([b"get".to_vec(), self.kind(), offset]);
        }
        if self.one_in(10) {
            command.extend([b"set".to_vec(), self.kind(), self.field_offset(), self.operand()]);
        }
        self.maybe_cut(&mut command);
        command
    }

    fn lcs(&mut self, key: Vec<u8>) -> Command {
        let mut command = vec![b"lcs".to_vec(), key, self.key()];
        for _ in 0..self.pick(&[0, 0, 1, 1, 2, 3]) {
            match self.below(20) {
                0..=3 => command.push(b"len".to_vec()),
                4..=10 => command.push(b"IDX".to_vec()),
                11..=14 => command.push(b"WithMatchLen".to_vec()),
                15..=18 => command.extend([b"minmatchlen".to_vec(), self.integer()]),
                _ => command.push(self.pick(&["", "lens", "idx\0", "minmatchlen"]).into()),
            }
        }
        command
    }

    /// Now and then, drops the last argument.
    fn maybe_cut(&mut self, command: &mut Command) {
        if command.len() > 2 && self.one_in(20) {
            command.pop();
        }
    }

    /// An integer about the size of a value, in bytes or bits; seldom an odd one.
    fn integer(&mut self) -> Vec<u8> {
        let range = self.pick(&[3, 12, 40, 200]);
        let near = i64::try_from(self.below(2 * range + 1)).unwrap() - i64::try_from(range).unwrap();
        if self.one_in(15) { self.pick(&ODD_INTEGERS).into() } else { near.to_string().into_bytes() }
    }

    fn offset(&mut self) -> Vec<u8> {
        // Those a write could follow far out are odd for lengths only.
        let odd: Vec<&[u8]> = ODD_INTEGERS.into_iter().filter(|odd| *odd != b"2147483648").collect();
        let far = self.pick(&[8, 40, 200, 900]);
        if self.one_in(20) { self.pick(&odd).into() } else { self.below(far).to_string().into_bytes() }
    }

    fn read_offset(&mut self) -> Vec<u8> {
        let far = ["4294967295", "4294967296", "4294967288", "2147483647", "#67108863", "#67108864", "#536870911"];
        if self.one_in(10) { self.pick(&far).into() } else { self.offset() }
    }

    fn field_offset(&mut self) -> Vec<u8> {
        match self.below(30) {
            0 => self.pick(&ODD_INDEXES).into(),
            1..=10 => format!("#{}", self.below(9)).into_bytes(),
            _ => self.offset(),
        }
    }

    fn kind(&mut self) -> Vec<u8> {
        let odd: [&[u8]; 14] = [
            b"u64",
            b"i65",
            b"i0",
            b"u0",
            b"i-1",
            b"I8",
            b"8",
            b"",
            b"i",
            b"u08",
            b"i8\0x",
            b"u 8",
            b"i8 ",
            b"i99999999999",
        ];
        match self.below(30) {
            0 => self.pick(&odd).into(),
            1..=8 => self.pick(&["i64", "u63", "i1", "u1", "i63", "u62", "i8", "u8"]).into(),
            _ => format!("{}{}", self.pick(&["i", "u"]), 1 + self.below(63)).into_bytes(),
        }
    }

    /// A value or increment for a field: small, about a power of two, or odd.
    fn operand(&mut self) -> Vec<u8> {
        match self.below(12) {
            0..=4 => self.integer(),
            5 => self.pick(&ODD_INTEGERS).into(),
            6 => (i64::MIN + i64::try_from(self.below(300)).unwrap()).to_string().into_bytes(),
            7 => (i64::MAX - i64::try_from(self.below(300)).unwrap()).to_string().into_bytes(),
            _ => {
                let power = 1_i64.wrapping_shl(u32::try_from(self.below(64)).unwrap());
                let near = power.wrapping_add(i64::try_from(self.below(5)).unwrap() - 2);
                (if self.one_in(2) { near } else { near.wrapping_neg() }).to_string().into_bytes()
            }
        }
    }

    fn bit(&mut self) -> Vec<u8> {
        if self.one_in(15) { self.integer() } else { self.pick(&["0", "1"]).into() }
    }

    fn unit(&mut self) -> Vec<u8> {
        let odd = ["", "bits", "BYTE ", "bit\0x", "0"];
        if self.one_in(12) { self.pick(&odd).into() } else { self.pick(&["BIT", "bit", "BYTE", "byte"]).into() }
    }
}
