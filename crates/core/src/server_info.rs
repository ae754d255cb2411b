//! Which server it is, and of which release; and how what it says in INFO is read.

use crate::resp::Reply;

/// A field of what a server says of itself in INFO.
pub fn info_field<'i>(info: &'i str, name: &str) -> Option<&'i str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim_end)
}

/// The text of a reply to INFO; empty where the server gave none.
pub fn info_text(reply: &[u8]) -> String {
    let bytes = Reply::parse(reply).ok().and_then(Reply::bytes).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a server says of itself in its reply to HELLO.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    /// `redis` or `valkey`, as the server names itself.
    pub name: String,
    /// Its version, such as `7.0.15`.
    pub version: String,
}

impl ServerInfo {
    /// The first number of its version; 0 where that doesn't read.
    pub(crate) fn major(&self) -> u32 {
        self.version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0)
    }

    /// Whether it is a Valkey that says so; those before 8 call themselves Redis.
    pub(crate) fn is_valkey(&self) -> bool {
        self.name.eq_ignore_ascii_case("valkey")
    }

    /// Whether scripts have `server` beside `redis`.
    pub(crate) fn has_server_in_scripts(&self) -> bool {
        self.is_valkey_since(8, 0)
    }

    /// The command that carries out a script which only reads. Redis 6.2 has none of its own.
    pub(crate) fn read_only_eval(&self) -> &'static [u8] {
        if !self.is_valkey() && (1..7).contains(&self.major()) { b"EVAL" } else { b"EVAL_RO" }
    }

    /// Its first two numbers; zeros where they don't read.
    pub(crate) fn release(&self) -> (u32, u32) {
        let mut numbers = self.version.split('.').map(|number| number.parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// Whether it has what came with this Redis, or with this Valkey.
    pub(crate) fn is_since(&self, redis: (u32, u32), valkey: (u32, u32)) -> bool {
        self.release() >= if self.is_valkey() { valkey } else { redis }
    }

    /// Whether it is a Redis of this release or a later one.
    pub(crate) fn is_redis_since(&self, major: u32, minor: u32) -> bool {
        !self.is_valkey() && self.release() >= (major, minor)
    }

    /// Whether it is a Valkey of this release or a later one.
    pub(crate) fn is_valkey_since(&self, major: u32, minor: u32) -> bool {
        self.is_valkey() && self.release() >= (major, minor)
    }

    /// Reads the reply to HELLO, a map in RESP3 and a flat array in RESP2.
    pub fn from_hello(reply: Reply<'_>) -> Option<Self> {
        let (Reply::Array(mut pairs) | Reply::Map(mut pairs)) = reply else { return None };
        let mut info = Self::default();
        while let (Some(key), Some(value)) = (pairs.next(), pairs.next()) {
            let text = || value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            match key.bytes() {
                Some(b"server") => info.name = text()?,
                Some(b"version") => info.version = text()?,
                _ => {}
            }
        }
        (!info.version.is_empty()).then_some(info)
    }
}
