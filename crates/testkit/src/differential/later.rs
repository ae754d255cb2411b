//! Commands that came after Redis 7.0: which of them the plain server has, and what the others are to answer.
//!
//! A server is asked for each form once. What it has is compared with it as all else is. What it hasn't is answered on folded
//! keys by keyfold alone, so the plain side is told what to do by a model, which goes by the servers' documentation: it reads
//! the keys, says what the answer has to be, and writes what the command would have written, by commands that every server
//! has.
//!
//! The model knows digests by the values that [`DIGESTS`] has, as Redis 8.4 gave them. An option's number is tried by SET.

use crate::reply::Value;
use crate::sides::Reply;
use crate::wire::{Wire, WireError};

use super::slots::is;

/// Values that come often, and their digests.
pub(super) const DIGESTS: [(&str, &str); 4] = [
    ("", "2d06800538d394c2"),
    ("123", "404a763b3f4c8c9a"),
    ("hello", "9555e8555c62dcfd"),
    ("Hello world", "b6acb9d84a38ff74"),
];

const SYNTAX: &str = "ERR syntax error";
const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
/// A key that the model tries options on.
const SCRATCH: &[u8] = b"model:scratch";

/// A weight, a form as `grammar.rs` reads it, and a request by which a server shows whether it has it.
pub(super) const LATER: &[(u64, &str, &str)] = &[
    (
        25,
        "SET {key} {often} IFEQ {often} [GET] [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|KEEPTTL]",
        "SET model v IFEQ w",
    ),
    (
        15,
        "SET {key} {often} IFNE {often} [GET] [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|KEEPTTL]",
        "SET model v IFNE w",
    ),
    (15, "SET {key} {often} (IFDEQ|IFDNE) {digest} [GET] [EX {seconds}|KEEPTTL]", "SET model v IFDNE w"),
    (20, "DELIFEQ {key} {often}", "DELIFEQ model v"),
    (20, "DELEX {key} [(IFEQ|IFNE) {often}|(IFDEQ|IFDNE) {digest}]", "DELEX model"),
    (15, "DIGEST {key}", "DIGEST model"),
    (
        15,
        "MSETEX 1 {key} {often} [NX|XX] [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|KEEPTTL]",
        "MSETEX 0 model v",
    ),
    (
        15,
        "MSETEX 2 {key} {often} {key} {value} [NX|XX] [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|KEEPTTL]",
        "MSETEX 0 model v",
    ),
    (
        40,
        "INCREX {key} [BYINT {integer}] [LBOUND {integer}] [UBOUND {integer}] [SATURATE] [EX {seconds}|PX {milliseconds}|EXAT {unix-seconds}|PXAT {unix-milliseconds}|PERSIST] [ENX]",
        "INCREX model EX",
    ),
    (20, "BITOP (DIFF|DIFF1|ANDOR|ONE) {key} {key}+", "BITOP ONE model model"),
    // So that the others have something to be equal to.
    (40, "SET {key} {often}", "PING"),
];

/// What the plain server hasn't.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Later {
    lacks: Vec<&'static str>,
    /// Keys on which keyfold has it all the same.
    folded: Vec<Vec<u8>>,
    /// Its vendor's forms of commands are Valkey's.
    is_valkey: bool,
}

impl Later {
    /// Asks the plain server, whose `folded` keys are keyfold's on the other side.
    pub(super) fn ask(wire: &mut Wire, folded: Vec<Vec<u8>>) -> Result<Self, WireError> {
        let mut lacks = Vec::new();
        for (_, form, request) in LATER {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let reply = wire.call(&words)?;
            if reply.starts_with(b"-ERR unknown command") || reply == b"-ERR syntax error\r\n" {
                lacks.push(*form);
            }
        }
        wire.call(&[b"DEL", b"model"])?;
        let info = wire.call(&[b"INFO", b"server"])?;
        let is_valkey = info.windows(14).any(|text| text == b"valkey_version");
        Ok(Self { lacks, folded, is_valkey })
    }

    /// The forms that are tried: those that the server has, and where there is a model the others too. There is none before a
    /// cluster, where a node of Valkey 9.1 moreover carries out MSETEX whatever its slots, also in a transaction.
    pub(super) fn forms(&self, has_model: bool) -> impl Iterator<Item = (u64, &'static str)> {
        let is_tried =
            move |form: &&'static str| has_model || !self.lacks.contains(form) && !form.starts_with("MSETEX");
        LATER.iter().filter(move |(_, form, _)| is_tried(form)).map(|(weight, form, _)| (*weight, *form))
    }

    /// Whether a command is answered by the model.
    pub(super) fn models(&self, args: &[Vec<u8>]) -> bool {
        let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let is_folded = |index: usize| self.folded.iter().any(|key| key == words[index]);
        let keys = keyfold_core::command::table().resolve(&words).map(|command| command.keys_in(&words));
        self.lacks(args) && keys.is_some_and(|keys| keys.iter().any(|key| is_folded(key.index)))
    }

    fn lacks(&self, args: &[Vec<u8>]) -> bool {
        let words = |form: &str| form.split(' ').map(str::to_owned).collect::<Vec<_>>();
        self.lacks.iter().any(|form| {
            let form = words(form);
            let has_word =
                |word: &str| args.iter().skip(3).any(|arg| c_word(arg).eq_ignore_ascii_case(word.as_bytes()));
            is(args, &form[0])
                && match form[0].as_str() {
                    "SET" => form[3].trim_matches(['(', ')']).split('|').any(has_word),
                    "BITOP" => args.get(1).is_some_and(|arg| Operation::parse(arg).is_some()),
                    _ => true,
                }
        })
    }

    /// Has the plain side do what a command would do, and says what the answer has to be.
    pub(super) fn carry_out(&self, args: &[Vec<u8>], wire: &mut Wire) -> Reply {
        let mut model = Model { wire, is_valkey: self.is_valkey };
        let answer = match args[0].to_ascii_uppercase().as_slice() {
            b"SET" => model.set(args),
            b"DELIFEQ" => model.delifeq(args),
            b"DELEX" => model.delex(args),
            b"DIGEST" => model.digest(args),
            b"MSETEX" => model.msetex(args),
            b"INCREX" => model.increx(args),
            _ => model.bitop(args),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Stop::Error(message)) => format!("-{message}\r\n").into_bytes(),
            Err(Stop::Lost(error)) => return Err(error),
        };
        Ok(answer)
    }

    /// Whether the subject's answer is what it has to be. A digest that the model doesn't know has the form of one.
    pub(super) fn agree(expected: &[u8], subject: &[u8]) -> bool {
        let is_digest = |text: &[u8]| text.len() == 16 && text.iter().all(|byte| b"0123456789abcdef".contains(byte));
        match Value::parse(subject) {
            Ok(Value::Bulk(digest)) if expected == UNKNOWN_DIGEST => is_digest(&digest),
            _ => expected == subject,
        }
    }
}

const UNKNOWN_DIGEST: &[u8] = b"+a digest\r\n";

/// Why there is no answer but an error.
enum Stop {
    Error(String),
    Lost(WireError),
}

impl From<&str> for Stop {
    fn from(message: &str) -> Self {
        Self::Error(message.to_owned())
    }
}

impl From<WireError> for Stop {
    fn from(error: WireError) -> Self {
        Self::Lost(error)
    }
}

enum Held {
    Nothing,
    String(Vec<u8>),
    Other,
}

/// The model, and the server that it works by.
struct Model<'w> {
    wire: &'w mut Wire,
    is_valkey: bool,
}

type Answer = Result<Vec<u8>, Stop>;

impl Model<'_> {
    fn held(&mut self, key: &[u8]) -> Result<Held, Stop> {
        Ok(match self.wire.ask(&[b"TYPE", key])? {
            Value::Simple(kind) if kind == b"none" => Held::Nothing,
            Value::Simple(kind) if kind == b"string" => match self.wire.ask(&[b"GET", key])? {
                Value::Bulk(value) => Held::String(value),
                _ => Held::Nothing,
            },
            _ => Held::Other,
        })
    }

    /// The value of a string, none where there is nothing.
    fn value(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        match self.held(key)? {
            Held::Nothing => Ok(None),
            Held::String(value) => Ok(Some(value)),
            Held::Other => Err(WRONG_TYPE.into()),
        }
    }

    fn call(&mut self, words: &[&[u8]]) -> Answer {
        Ok(self.wire.call(words)?)
    }

    /// What SET says of options, under another command's name.
    fn try_options(&mut self, command: &str, options: &[&[u8]]) -> Result<(), Stop> {
        let reply = self.call(&[&[&b"SET"[..], SCRATCH, b"v"], options].concat())?;
        self.call(&[b"DEL", SCRATCH])?;
        match reply.strip_prefix(b"-") {
            Some(error) => {
                let error = String::from_utf8_lossy(error).trim_end().replace("'set'", &format!("'{command}'"));
                Err(Stop::Error(error))
            }
            None => Ok(()),
        }
    }

    fn nil(&mut self) -> Answer {
        self.call(&[b"GET", SCRATCH])
    }

    fn set(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() >= 3)?;
        let (mut options, mut condition, mut get, mut is_bound) = (Vec::new(), None, false, false);
        let mut rest = args[3..].iter();
        while let Some(word) = rest.next() {
            match (c_word(word).to_ascii_uppercase().as_slice(), &condition) {
                (name @ (b"IFEQ" | b"IFNE" | b"IFDEQ" | b"IFDNE"), _) => {
                    let other = rest.next().ok_or(SYNTAX)?;
                    let earlier = condition.replace((name.to_vec(), other));
                    if earlier.is_some_and(|(earlier, _)| self.is_valkey || earlier != name) {
                        return Err(SYNTAX.into());
                    }
                }
                (b"GET", _) => get = true,
                (b"NX" | b"XX", _) => is_bound = true,
                (b"EX" | b"PX" | b"EXAT" | b"PXAT", _) => {
                    options.push(word.as_slice());
                    options.extend(rest.next().map(Vec::as_slice));
                }
                _ => options.push(word),
            }
        }
        let (name, other) = condition.ok_or(SYNTAX)?;
        if is_bound {
            return Err(SYNTAX.into());
        }
        self.try_options("set", &options)?;
        let old = self.value(&args[1])?;
        let holds = match &old {
            None => name == b"IFNE" || name == b"IFDNE",
            Some(old) => holds(&name, old, other)?,
        };
        if holds {
            self.call(&[&[&b"SET"[..], &args[1], &args[2]], options.as_slice()].concat())?;
        }
        match (get, old) {
            (true, Some(old)) => Ok(bulk(&old)),
            (false, _) if holds => Ok(b"+OK\r\n".to_vec()),
            _ => self.nil(),
        }
    }

    fn delifeq(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() == 3)?;
        let is_meant = self.value(&args[1])?.is_some_and(|value| value == args[2]);
        self.delete_if(is_meant, &args[1])
    }

    fn delex(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() == 2 || args.len() == 4)?;
        let held = self.held(&args[1])?;
        let is_meant = match (held, args.len()) {
            (Held::Nothing, _) => false,
            (_, 2) => true,
            (Held::Other, _) => return Err("ERR Key should be of string type if conditions are specified".into()),
            (Held::String(value), _) => holds(&c_word(&args[2]).to_ascii_uppercase(), &value, &args[3])?,
        };
        self.delete_if(is_meant, &args[1])
    }

    fn delete_if(&mut self, is_meant: bool, key: &[u8]) -> Answer {
        if is_meant { self.call(&[b"DEL", key]) } else { Ok(b":0\r\n".to_vec()) }
    }

    fn digest(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() == 2)?;
        let Some(value) = self.value(&args[1])? else { return self.nil() };
        let known = DIGESTS.iter().find(|(text, _)| text.as_bytes() == value);
        Ok(known.map_or_else(|| UNKNOWN_DIGEST.to_vec(), |(_, digest)| bulk(digest.as_bytes())))
    }

    fn msetex(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() >= 4)?;
        // A request whose keys can't be told is the server's, so the count is right.
        let count: usize = String::from_utf8_lossy(&args[1]).parse().map_err(|_| "ERR unexpected")?;
        let too_few = if self.is_valkey { SYNTAX } else { "ERR wrong number of key-value pairs" };
        let pairs = args.get(2..2 + 2 * count).ok_or(too_few)?;
        let options: Vec<&[u8]> = args[2 + 2 * count..].iter().map(Vec::as_slice).collect();
        let mut bare = Vec::new();
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            bare.push(option);
            // What an expiry says is no option, whatever it is called.
            if ["EX", "PX", "EXAT", "PXAT"].iter().any(|unit| is_word(option, unit)) {
                rest.next();
            }
        }
        let has = |word: &str| bare.iter().any(|option| is_word(option, word));
        if has("GET") {
            return Err(SYNTAX.into());
        }
        self.try_options("msetex", &options)?;
        for key in pairs.iter().step_by(2) {
            let exists = self.call(&[b"EXISTS", key])? == b":1\r\n";
            if has("NX") && exists || has("XX") && !exists {
                return Ok(b":0\r\n".to_vec());
            }
        }
        let others: Vec<&[u8]> =
            options.iter().copied().filter(|word| !is_word(word, "NX") && !is_word(word, "XX")).collect();
        for pair in pairs.chunks_exact(2) {
            self.call(&[&[&b"SET"[..], &pair[0], &pair[1]], others.as_slice()].concat())?;
        }
        Ok(b":1\r\n".to_vec())
    }

    fn increx(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() >= 2)?;
        let mut options: Vec<(String, Vec<u8>)> = Vec::new();
        let mut rest = args[2..].iter();
        while let Some(word) = rest.next() {
            let name = String::from_utf8_lossy(c_word(word)).to_uppercase();
            let value = match name.as_str() {
                "SATURATE" | "PERSIST" | "ENX" => Vec::new(),
                "NX" | "XX" if self.is_valkey => Vec::new(),
                "BYINT" | "LBOUND" | "UBOUND" | "EX" | "PX" | "EXAT" | "PXAT" => rest.next().ok_or(SYNTAX)?.clone(),
                _ => return Err(SYNTAX.into()),
            };
            if options.iter().any(|(earlier, _)| *earlier == name) {
                return Err(SYNTAX.into());
            }
            options.push((name, value));
        }
        let option = |name: &str| options.iter().find(|(option, _)| option == name).map(|(_, value)| value.clone());
        let expiries: Vec<_> =
            options.iter().filter(|(name, _)| ["EX", "PX", "EXAT", "PXAT"].contains(&name.as_str())).collect();
        let (persist, enx) = (option("PERSIST").is_some(), option("ENX").is_some());
        if expiries.len() > 1 || persist && (enx || !expiries.is_empty()) {
            return Err(SYNTAX.into());
        }
        let [nx, xx] = ["NX", "XX"].map(|name| option(name).is_some());
        if nx && xx {
            return Err(SYNTAX.into());
        }
        if enx && expiries.is_empty() {
            return Err("ERR ENX flag requires an expiration".into());
        }
        let number = |name: &str, what: &str, otherwise: i64| match option(name) {
            None => Ok(otherwise),
            Some(text) => {
                integer(&text).ok_or_else(|| Stop::Error(format!("ERR {what} is not an integer or out of range")))
            }
        };
        let by = number("BYINT", "Increment", 1)?;
        let (lower, upper) = (number("LBOUND", "LBOUND", i64::MIN)?, number("UBOUND", "UBOUND", i64::MAX)?);
        if lower > upper {
            return Err("ERR LBOUND can't be greater than UBOUND".into());
        }
        let expiry: Vec<&[u8]> =
            expiries.first().map(|(name, value)| vec![name.as_bytes(), value.as_slice()]).unwrap_or_default();
        self.try_options("increx", &expiry)?;
        let key = args[1].as_slice();
        let value = self.value(key)?;
        let is_held_back = if value.is_some() { nx } else { xx };
        let old = match value {
            None => 0,
            Some(value) => integer(&value).ok_or("ERR value is not an integer or out of range")?,
        };
        let sum = i128::from(old) + i128::from(by);
        let is_within = i128::from(lower) <= sum && sum <= i128::from(upper);
        if is_held_back || !is_within && option("SATURATE").is_none() {
            return Ok(format!("*2\r\n:{old}\r\n:0\r\n").into_bytes());
        }
        let new = if is_within {
            sum
        } else if sum > i128::from(upper) {
            upper.into()
        } else {
            lower.into()
        };
        let applied = i64::try_from(new - i128::from(old)).map_err(|_| "ERR applied increment would overflow")?;
        let has_expiry = !matches!(self.wire.ask(&[b"PTTL", key])?, Value::Integer(..0));
        let text = new.to_string();
        let written = [&b"SET"[..], key, text.as_bytes()];
        let end: &[&[u8]] = match () {
            () if !(expiry.is_empty() || enx && has_expiry) => &expiry,
            () if persist => &[],
            () => &[b"KEEPTTL"],
        };
        self.call(&[&written[..], end].concat())?;
        Ok(format!("*2\r\n:{new}\r\n:{applied}\r\n").into_bytes())
    }

    fn bitop(&mut self, args: &[Vec<u8>]) -> Answer {
        arity(args, args.len() >= 4)?;
        let operation = Operation::parse(&args[1]).ok_or(SYNTAX)?;
        if operation != Operation::One && args.len() < 5 {
            let name = String::from_utf8_lossy(c_word(&args[1])).to_uppercase();
            return Err(Stop::Error(format!("ERR BITOP {name} must be called with at least two source keys.")));
        }
        let sources =
            args[3..].iter().map(|key| Ok(self.value(key)?.unwrap_or_default())).collect::<Result<Vec<_>, Stop>>()?;
        let len = sources.iter().map(Vec::len).max().unwrap_or(0);
        let value: Vec<u8> = (0..len).map(|at| operation.byte(&sources, at)).collect();
        if value.is_empty() {
            self.call(&[b"DEL", &args[2]])?;
        } else {
            self.call(&[b"SET", &args[2], &value])?;
        }
        Ok(format!(":{len}\r\n").into_bytes())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Diff,
    Diff1,
    Andor,
    One,
}

impl Operation {
    fn parse(arg: &[u8]) -> Option<Self> {
        match c_word(arg).to_ascii_uppercase().as_slice() {
            b"DIFF" => Some(Self::Diff),
            b"DIFF1" => Some(Self::Diff1),
            b"ANDOR" => Some(Self::Andor),
            b"ONE" => Some(Self::One),
            _ => None,
        }
    }

    /// One byte of the result, bit by bit.
    fn byte(self, sources: &[Vec<u8>], at: usize) -> u8 {
        (0..8).fold(0, |byte, bit| {
            let set = |source: &Vec<u8>| source.get(at).is_some_and(|byte| byte >> (7 - bit) & 1 == 1);
            let (first, others) = (set(&sources[0]), sources[1..].iter().filter(|source| set(source)).count());
            let is_set = match self {
                Self::Diff => first && others == 0,
                Self::Diff1 => !first && others > 0,
                Self::Andor => first && others > 0,
                Self::One => usize::from(first) + others == 1,
            };
            byte << 1 | u8::from(is_set)
        })
    }
}

/// Whether a condition of this name holds of a value.
fn holds(name: &[u8], value: &[u8], other: &[u8]) -> Result<bool, Stop> {
    let is_digest = match name {
        b"IFEQ" | b"IFNE" => false,
        b"IFDEQ" | b"IFDNE" => true,
        _ => return Err("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE".into()),
    };
    if is_digest && other.len() != 16 {
        return Err("ERR must be exactly 16 hexadecimal characters".into());
    }
    let is_digest_of =
        |(text, digest): &(&str, &str)| text.as_bytes() == value && digest.as_bytes().eq_ignore_ascii_case(other);
    let is_equal = if is_digest { DIGESTS.iter().any(is_digest_of) } else { value == other };
    Ok(is_equal == name.ends_with(b"EQ"))
}

fn arity(args: &[Vec<u8>], is_right: bool) -> Result<(), Stop> {
    let name = String::from_utf8_lossy(&args[0]).to_lowercase();
    let error = || Stop::Error(format!("ERR wrong number of arguments for '{name}' command"));
    is_right.then_some(()).ok_or_else(error)
}

fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// What a server reads of an option.
fn c_word(word: &[u8]) -> &[u8] {
    word.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn is_word(word: &[u8], name: &str) -> bool {
    c_word(word).eq_ignore_ascii_case(name.as_bytes())
}
