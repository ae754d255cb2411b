//! Which clients CLIENT LIST shows and CLIENT KILL ends: the options of the server behind, in its words.
//!
//! Redis 7.0 has few options, and its CLIENT LIST takes one of them; Valkey 8.1 reads both commands alike, and 9.0 added
//! the most.

use super::line::letters;
use super::{ClientFlags, Entry};
use crate::access::Users;
use crate::number::parse_integer;
use crate::server_info::ServerInfo;

/// What an option asks of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Ids(Vec<u64>),
    Type(ClientType),
    Address(Vec<u8>),
    LocalAddress(Vec<u8>),
    User(Vec<u8>),
    MaxAge(i64),
    Idle(i64),
    Name(Vec<u8>),
    LibraryName(Vec<u8>),
    LibraryVersion(Vec<u8>),
    Database(i64),
    Letters(Vec<u8>),
    Redirects(bool),
    Ip(Vec<u8>),
}

/// The kinds of clients that servers tell apart. A proxy has none that replicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Pubsub,
    Replicating,
}

/// The command that filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    List,
    Kill,
}

/// A set of options, all of which a client must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Each with whether it must be so.
    tests: Vec<(bool, Test)>,
    skip_me: Option<bool>,
}

/// Letters that Valkey 9 takes in FLAGS.
const KNOWN_LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIN";

const SYNTAX: &str = "ERR syntax error";

impl Filter {
    /// The old form of CLIENT KILL: by its address.
    pub(crate) fn of_address(address: &[u8]) -> Self {
        Self { tests: vec![(true, Test::Address(address.to_vec()))], skip_me: Some(false) }
    }

    /// Reads the options of CLIENT LIST or CLIENT KILL, as the server reads them.
    ///
    /// # Errors
    /// The server's error.
    pub(crate) fn parse(asked: Asked, options: &[&[u8]], server: &ServerInfo, users: &Users) -> Result<Self, String> {
        if asked == Asked::List && !server.is_valkey_since(8, 1) {
            return Self::parse_old_list(options, server);
        }
        let mut filter = Self::default();
        let mut rest = options;
        while let Some((option, after)) = rest.split_first() {
            rest = filter.take_option(option, after, server, users)?;
        }
        Ok(filter)
    }

    /// `TYPE type`, or `ID id …`, and nothing else.
    fn parse_old_list(options: &[&[u8]], server: &ServerInfo) -> Result<Self, String> {
        let tests = match options {
            [] => Vec::new(),
            [option, name] if option.eq_ignore_ascii_case(b"type") => vec![(true, Test::Type(kind(name, server)?))],
            [option, ids @ ..] if option.eq_ignore_ascii_case(b"id") && !ids.is_empty() => {
                let id = |id: &&[u8]| parse_integer(id).map(|id| u64::try_from(id).unwrap_or(0));
                let ids: Option<Vec<u64>> = ids.iter().map(id).collect();
                vec![(true, Test::Ids(ids.ok_or("ERR Invalid client ID")?))]
            }
            _ => return Err(SYNTAX.to_owned()),
        };
        Ok(Self { tests, skip_me: None })
    }

    /// Takes one option with its value; what is left behind it.
    fn take_option<'a, 'b>(
        &mut self,
        option: &[u8],
        after: &'b [&'a [u8]],
        server: &ServerInfo,
        users: &Users,
    ) -> Result<&'b [&'a [u8]], String> {
        let (value, mut rest) = after.split_first().ok_or(SYNTAX)?;
        let option = option.to_ascii_lowercase();
        let (must, name) = match option.strip_prefix(b"not-") {
            Some(name) if server.is_valkey_since(9, 0) => (false, name),
            _ => (true, option.as_slice()),
        };
        let test = match name {
            b"skipme" if must => {
                self.skip_me = Some(yes_or_no(value)?);
                return Ok(rest);
            }
            b"id" => {
                let (ids, left) = take_ids(value, rest, server)?;
                rest = left;
                Test::Ids(ids)
            }
            b"type" => Test::Type(kind(value, server)?),
            b"addr" => Test::Address(value.to_vec()),
            b"laddr" => Test::LocalAddress(value.to_vec()),
            b"user" if users.find(value).is_some() => Test::User(value.to_vec()),
            b"user" => return Err(format!("ERR No such user '{}'", value.escape_ascii())),
            b"maxage" if must && server.is_since((7, 4), (8, 0)) => Test::MaxAge(seconds("maxage", value)?),
            _ if server.is_valkey_since(9, 0) => newer_test(name, value)?,
            _ => return Err(SYNTAX.to_owned()),
        };
        // Of the same option given twice the last counts.
        let same = |(known_must, known): &(bool, Test)| {
            *known_must == must && std::mem::discriminant(known) == std::mem::discriminant(&test)
        };
        self.tests.retain(|known| !same(known));
        self.tests.push((must, test));
        Ok(rest)
    }

    /// Whether the client that asks is among those that are meant, by SKIPME; `otherwise` where it isn't said.
    pub(crate) fn skips_me(&self, otherwise: bool) -> bool {
        self.skip_me.unwrap_or(otherwise)
    }

    /// Whether a client is meant.
    pub(crate) fn fits(&self, entry: &Entry, now_ms: i64) -> bool {
        self.tests.iter().all(|(must, test)| test.holds(entry, now_ms) == *must)
    }
}

impl Test {
    fn holds(&self, entry: &Entry, now_ms: i64) -> bool {
        let flags = || entry.state().flags;
        match self {
            Self::Ids(ids) => ids.contains(&entry.id()),
            Self::Type(kind) => *kind == ClientType::of(flags()),
            Self::Address(address) => entry.address().as_bytes() == address,
            Self::LocalAddress(address) => entry.local_address().as_bytes() == address,
            Self::User(name) => entry.words().user.as_bytes() == name,
            Self::MaxAge(seconds) => entry.age_seconds(now_ms) >= *seconds,
            Self::Idle(seconds) => entry.idle_seconds(now_ms) >= *seconds,
            Self::Name(name) => entry.words().name == *name,
            Self::LibraryName(name) => entry.words().library_name == *name,
            Self::LibraryVersion(version) => entry.words().library_version == *version,
            Self::Database(database) => i64::from(entry.state().database) == *database,
            Self::Letters(wanted) => {
                let has = letters(flags());
                wanted.iter().all(|letter| has.as_bytes().contains(letter))
            }
            Self::Redirects(redirects) => flags().contains(ClientFlags::REDIRECT) == *redirects,
            Self::Ip(ip) => {
                let host = entry.address().rsplit_once(':').map_or("", |(host, _)| host);
                host.trim_matches(['[', ']']).as_bytes() == ip
            }
        }
    }
}

impl ClientType {
    fn of(flags: ClientFlags) -> Self {
        if flags.contains(ClientFlags::MONITOR) {
            // To the server whoever monitors is a kind of replica.
            Self::Replicating
        } else if flags.contains(ClientFlags::PUBSUB) {
            Self::Pubsub
        } else {
            Self::Normal
        }
    }
}

fn kind(name: &[u8], server: &ServerInfo) -> Result<ClientType, String> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(ClientType::Normal),
        b"pubsub" => Ok(ClientType::Pubsub),
        b"master" | b"slave" | b"replica" => Ok(ClientType::Replicating),
        b"primary" if server.is_valkey_since(8, 0) => Ok(ClientType::Replicating),
        _ => Err(format!("ERR Unknown client type '{}'", name.escape_ascii())),
    }
}

/// One id; since Valkey 8.1 all numbers that follow are ids too.
fn take_ids<'a, 'b>(
    first: &[u8],
    mut rest: &'b [&'a [u8]],
    server: &ServerInfo,
) -> Result<(Vec<u64>, &'b [&'a [u8]]), String> {
    let several = server.is_valkey_since(8, 1);
    let not_positive = || "ERR client-id should be greater than 0".to_owned();
    let positive = |id: i64| u64::try_from(id).ok().filter(|id| *id > 0).ok_or_else(not_positive);
    let first = match parse_integer(first) {
        None if several => return Err(SYNTAX.to_owned()),
        first => positive(first.unwrap_or(0))?,
    };
    let mut ids = vec![first];
    while let Some((id, after)) = rest.split_first().filter(|_| several)
        && let Some(id) = parse_integer(id)
    {
        ids.push(positive(id)?);
        rest = after;
    }
    Ok((ids, rest))
}

/// The options that Valkey 9.0 added.
fn newer_test(name: &[u8], value: &[u8]) -> Result<Test, String> {
    Ok(match name {
        b"idle" => Test::Idle(seconds("idle", value)?),
        b"name" => Test::Name(value.to_vec()),
        b"lib-name" => Test::LibraryName(value.to_vec()),
        b"lib-ver" => Test::LibraryVersion(value.to_vec()),
        b"ip" => Test::Ip(value.to_vec()),
        b"db" => Test::Database(parse_integer(value).ok_or("ERR DB is not an integer or out of range")?),
        b"flags" if value.iter().all(|letter| KNOWN_LETTERS.contains(letter)) => Test::Letters(value.to_vec()),
        b"flags" => {
            return Err(format!("ERR Unknown flags found in the provided filter: {}", value.escape_ascii()));
        }
        b"capa" if value.iter().all(|letter| *letter == b'r') => Test::Redirects(true),
        b"capa" => return Err(format!("ERR Unknown capa found in the provided filter: {}", value.escape_ascii())),
        _ => return Err(SYNTAX.to_owned()),
    })
}

fn seconds(what: &str, value: &[u8]) -> Result<i64, String> {
    match parse_integer(value) {
        Some(seconds) if seconds > 0 => Ok(seconds),
        Some(_) => Err(format!("ERR {what} should be greater than 0")),
        None => Err(format!("ERR {what} is not an integer or out of range")),
    }
}

fn yes_or_no(word: &[u8]) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(SYNTAX.to_owned()),
    }
}
