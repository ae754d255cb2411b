//! Who uses a server, and how, as far as that matters to folding: judged by what the server counts and shows.
//!
//! Nothing here asks a server: INFO's `commandstats`, CLIENT LIST, a setting and the listened channels come in as text,
//! each of them absent where the server's user may not ask, as on managed services. What is found is said with what to
//! do; what couldn't be seen is said too, because nothing found is no answer then.

use std::collections::BTreeMap;

use crate::eviction::Eviction;
use crate::number::{grouped, plural};

/// Commands that run a script or a function.
const SCRIPTS: [&str; 6] = ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"];
/// Commands that answer otherwise of folded keys, with what is otherwise (docs/differences.md). Those that keyfold's own
/// tools send, such as OBJECT ENCODING, would be found wherever one of them has run, and aren't named.
const OTHERWISE: [(&str, &str); 11] = [
    ("object|idletime", "OBJECT IDLETIME is 0"),
    ("object|freq", "OBJECT FREQ is an error"),
    ("keys", "KEYS is no single moment"),
    ("randomkey", "RANDOMKEY is no single moment"),
    ("dbsize", "DBSIZE is counted anew every ten seconds"),
    ("pfadd", "PFADD is refused"),
    ("move", "MOVE is refused"),
    ("migrate", "MIGRATE is refused"),
    ("sort", "SORT's BY and GET are refused"),
    ("swapdb", "SWAPDB of database 0 is refused"),
    ("monitor", "MONITOR shows one keyfold's clients"),
];
/// Sources of connections that are named; the others are counted.
const NAMED_SOURCES: usize = 4;

/// What a server says, all nodes of a cluster one after the other.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// INFO commandstats of each node.
    pub commandstats: Option<String>,
    /// CLIENT LIST of each node.
    pub clients: Option<String>,
    /// The setting `notify-keyspace-events`.
    pub notifications: Option<String>,
    /// Channels of keyspace events that somebody listens to.
    pub listened: Option<Vec<String>>,
    /// `maxmemory` in bytes and `maxmemory-policy`.
    pub maxmemory: (u64, String),
    /// Keys evicted since the server's start.
    pub evicted_keys: u64,
}

keyfold_core::named! {
    /// What a finding is about.
    pub enum Subject {
        /// Scripts and functions.
        Scripts = "scripts",
        /// Transactions that watch keys.
        Watch = "watch",
        /// Clients that cache what they read.
        Tracking = "tracking",
        /// Keyspace events.
        Events = "events",
        /// A limit of memory, and what goes when it is reached.
        Eviction = "eviction",
        /// Who is connected.
        Clients = "clients",
        /// Commands that answer otherwise of folded keys.
        Commands = "commands",
    }
}

/// Something that matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// What it is about.
    pub subject: Subject,
    /// What was seen.
    pub what: String,
    /// What to do about it.
    pub advice: String,
}

/// All that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// What was found.
    pub found: Vec<Use>,
    /// What couldn't be seen, with the command that was refused.
    pub unseen: Vec<&'static str>,
}

impl Uses {
    /// Judges what a server said.
    pub fn of(told: &Told) -> Self {
        let calls = told.commandstats.as_deref().map(calls).unwrap_or_default();
        let clients: Vec<Client<'_>> =
            told.clients.as_deref().unwrap_or_default().lines().filter_map(Client::read).collect();
        let found = [
            scripts(&calls),
            watches(&calls),
            tracking(&calls, &clients),
            events(told),
            eviction(told),
            past_keyfold(&clients),
            otherwise(&calls),
        ];
        let unseen = [
            (told.commandstats.is_none(), "which commands are used (INFO commandstats)"),
            (told.clients.is_none(), "who is connected (CLIENT LIST)"),
            (told.notifications.is_none(), "whether keyspace events are told (CONFIG GET)"),
            (told.listened.is_none(), "who listens to keyspace events (PUBSUB CHANNELS)"),
        ];
        let unseen = unseen.into_iter().filter_map(|(is_unseen, what)| is_unseen.then_some(what)).collect();
        Self { found: found.into_iter().flatten().collect(), unseen }
    }

    /// Whether nothing is to be said.
    pub fn are_nothing(&self) -> bool {
        self.found.is_empty() && self.unseen.is_empty()
    }
}

fn a_use(subject: Subject, what: String, advice: &str) -> Option<Use> {
    Some(Use { subject, what, advice: advice.to_owned() })
}

/// How often each command was called, by its name in small letters: `client|tracking`.
fn calls(commandstats: &str) -> BTreeMap<String, u64> {
    let mut calls = BTreeMap::new();
    for line in commandstats.lines() {
        let Some((name, fields)) = line.strip_prefix("cmdstat_").and_then(|rest| rest.split_once(':')) else {
            continue;
        };
        let number = fields.split(',').find_map(|field| field.strip_prefix("calls=")?.trim().parse::<u64>().ok());
        *calls.entry(name.to_ascii_lowercase()).or_default() += number.unwrap_or(0);
    }
    calls
}

/// `EVALSHA 12 times, FCALL once`, of those that were called.
fn counted<'n>(calls: &BTreeMap<String, u64>, names: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let said: Vec<String> = names
        .into_iter()
        .filter_map(|name| Some((name, *calls.get(name).filter(|number| **number > 0)?)))
        .map(|(name, number)| {
            let times = if number == 1 { "once".to_owned() } else { format!("{} times", grouped(number)) };
            format!("{} {times}", name.replace('|', " ").to_uppercase())
        })
        .collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What keyfold sends itself is counted with the rest, also long after it has gone.
const OWN: &str = "; what keyfold has sent counts too (CONFIG RESETSTAT begins anew)";

fn scripts(calls: &BTreeMap<String, u64>) -> Option<Use> {
    let said = counted(calls, SCRIPTS)?;
    a_use(
        Subject::Scripts,
        format!("scripts and functions run here: {said}{OWN}"),
        "try them through keyfold before you fold what they use: they work on folded keys that they are given as KEYS, and are \
         refused folded keys whose names they build themselves. Leave such keys out of the layout (docs/differences.md)",
    )
}

fn watches(calls: &BTreeMap<String, u64>) -> Option<Use> {
    let said = counted(calls, ["watch"])?;
    a_use(
        Subject::Watch,
        format!("transactions watch keys: {said}{OWN}"),
        "nothing, unless a write of the same value is to fail them: of a folded key WATCH compares what it holds",
    )
}

fn tracking(calls: &BTreeMap<String, u64>, clients: &[Client<'_>]) -> Option<Use> {
    let tracking = clients.iter().filter(|client| client.tracks && !client.is_keyfold).count();
    let said = counted(calls, ["client|tracking"]);
    let what = match (tracking, said) {
        (0, None) => return None,
        (0, Some(said)) => format!("clients cache what they read: {said}"),
        (now, _) => format!("{} now that caches what it reads (CLIENT TRACKING)", plural(now as u64, "connection")),
    };
    a_use(
        Subject::Tracking,
        what,
        "have those that read and those that listen go through one keyfold: a change tells all who have read a key of the \
         same bucket",
    )
}

fn events(told: &Told) -> Option<Use> {
    let on = told.notifications.as_deref().filter(|events| !events.is_empty());
    let listened = told.listened.as_deref().unwrap_or_default();
    let what = match (on, listened) {
        (None, []) => return None,
        (Some(on), []) => format!("keyspace events are told (notify-keyspace-events {on})"),
        (_, channels) => {
            format!("somebody listens to keyspace events: {} of them, such as {}", channels.len(), escape(&channels[0]))
        }
    };
    a_use(
        Subject::Events,
        what,
        "have listeners connect to keyfold, which tells the events of folded keys; past it they hear of buckets",
    )
}

fn eviction(told: &Told) -> Option<Use> {
    let (bytes, policy) = &told.maxmemory;
    let eviction = Eviction::of(*bytes, policy)?;
    let so_far = match told.evicted_keys {
        0 => "none so far".to_owned(),
        keys => format!("{} so far", plural(keys, "key")),
    };
    let advice = match eviction {
        Eviction::Expiring => {
            "don't fold what is to be evicted, or take an allkeys policy: a bucket has no expiry of its own, and is never \
             evicted under this one"
        }
        _ => {
            "a whole bucket is evicted at once. plan says what that was measured to cost; `keyfold lab run hit-ratio` \
             measures it here"
        }
    };
    a_use(Subject::Eviction, format!("keys are evicted ({policy}), {so_far}"), advice)
}

/// Connections that aren't keyfold's, by where they come from and what they call themselves.
fn past_keyfold(clients: &[Client<'_>]) -> Option<Use> {
    let mut sources: BTreeMap<String, usize> = BTreeMap::new();
    for client in clients.iter().filter(|client| !client.is_keyfold && !client.is_servers_own && !client.asks) {
        *sources.entry(client.source()).or_default() += 1;
    }
    if sources.is_empty() {
        return None;
    }
    let all: usize = sources.values().sum();
    let mut sources: Vec<_> = sources.into_iter().collect();
    sources.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    let more = sources.len().saturating_sub(NAMED_SOURCES);
    let mut said: Vec<String> =
        sources.iter().take(NAMED_SOURCES).map(|(source, number)| format!("{number} of {source}")).collect();
    said.extend((more > 0).then(|| format!("and {more} other kinds")));
    a_use(
        Subject::Clients,
        format!("{} past keyfold: {}", plural(all as u64, "connection"), said.join(", ")),
        "point them to keyfold before anything is folded: to whoever connects past it folded keys are not there",
    )
}

fn otherwise(calls: &BTreeMap<String, u64>) -> Option<Use> {
    let is_called = |name: &str| calls.get(name).is_some_and(|number| *number > 0);
    let said: Vec<&str> = OTHERWISE.iter().filter(|(name, _)| is_called(name)).map(|(_, what)| *what).collect();
    if said.is_empty() {
        return None;
    }
    a_use(
        Subject::Commands,
        format!("some commands that are used answer otherwise of folded keys: {}", said.join("; ")),
        "see that nothing relies on it: docs/differences.md",
    )
}

/// A line of CLIENT LIST.
struct Client<'l> {
    host: &'l str,
    name: &'l str,
    library: &'l str,
    is_keyfold: bool,
    /// A replica, or the primary of one.
    is_servers_own: bool,
    tracks: bool,
    /// It is the one that asks.
    asks: bool,
}

impl<'l> Client<'l> {
    fn read(line: &'l str) -> Option<Self> {
        let word = |name: &str| line.split(' ').find_map(|word| word.strip_prefix(name)).unwrap_or_default();
        let address = line.split(' ').find_map(|word| word.strip_prefix("addr="))?;
        let (name, flags) = (word("name="), word("flags="));
        Some(Self {
            host: address.rsplit_once(':').map_or(address, |(host, _)| host),
            name,
            library: word("lib-name="),
            is_keyfold: name.starts_with("keyfold:") || ["keyfold-writer", "keyfold-tool"].contains(&name),
            is_servers_own: flags.contains(['S', 'M']) || name.starts_with("sentinel-"),
            tracks: flags.contains('t'),
            asks: matches!(word("cmd="), "client" | "client|list"),
        })
    }

    /// `web (redis-py) from 10.0.0.7`.
    fn source(&self) -> String {
        let library = if self.library.is_empty() { String::new() } else { format!(" ({})", escape(self.library)) };
        let name = if self.name.is_empty() { "clients without a name".to_owned() } else { escape(self.name) };
        let host = if self.host.is_empty() { "a socket".to_owned() } else { escape(self.host) };
        format!("{name}{library} from {host}")
    }
}

/// A client's own words, which may be anything.
fn escape(text: &str) -> String {
    text.as_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATS: &str = "# Commandstats\r\ncmdstat_evalsha:calls=1234,usec=5,usec_per_call=1.00\r\n\
                         cmdstat_get:calls=9,usec=1\r\ncmdstat_client|tracking:calls=2,usec=1\r\n\
                         cmdstat_watch:calls=1,usec=1\r\ncmdstat_keys:calls=3,usec=1\r\ncmdstat_fcall:calls=0,usec=0\r\n";

    fn said(uses: &Uses, subject: Subject) -> &str {
        uses.found.iter().find(|one| one.subject == subject).map_or("", |one| &one.what)
    }

    #[test]
    fn what_matters_is_said_with_its_numbers() {
        let clients = "id=1 addr=10.0.0.7:5000 name=web flags=N cmd=get lib-name=redis-py\n\
                       id=2 addr=10.0.0.7:5001 name=web flags=Nt cmd=get lib-name=redis-py\n\
                       id=3 addr=10.0.0.8:5001 name=\x1b[2J\u{202e} flags=N cmd=set\n\
                       id=4 addr=10.0.0.9:1 name=keyfold:00ff flags=N cmd=get\n\
                       id=5 addr=10.0.0.3:1 name= flags=S cmd=replconf\n\
                       id=7 addr=10.0.0.9:2 name=keyfold-tool flags=N cmd=info\n\
                       id=6 addr=127.0.0.1:1 name= flags=N cmd=client|list\n";
        let told = Told {
            commandstats: Some(STATS.repeat(2)),
            clients: Some(clients.to_owned()),
            notifications: Some("KEA".to_owned()),
            listened: Some(vec!["__keyevent@0__:expired".to_owned()]),
            maxmemory: (1 << 30, "volatile-lru".to_owned()),
            evicted_keys: 1,
        };
        let uses = Uses::of(&told);
        assert!(said(&uses, Subject::Scripts).contains("EVALSHA 2,468 times; what keyfold"));
        assert!(said(&uses, Subject::Watch).contains("WATCH 2 times"));
        assert!(said(&uses, Subject::Tracking).starts_with("1 connection now"));
        assert!(said(&uses, Subject::Events).contains("__keyevent@0__:expired"));
        assert_eq!(said(&uses, Subject::Eviction), "keys are evicted (volatile-lru), 1 key so far");
        assert_eq!(
            said(&uses, Subject::Clients),
            "3 connections past keyfold: 2 of web (redis-py) from 10.0.0.7, 1 of \\x1b[2J\\xe2\\x80\\xae from 10.0.0.8"
        );
        assert!(said(&uses, Subject::Commands).ends_with("KEYS is no single moment"));
        assert!(uses.unseen.is_empty() && uses.found.iter().all(|one| !one.advice.is_empty()));
    }

    #[test]
    fn what_could_not_be_seen_is_said_and_an_unused_server_has_nothing() {
        assert_eq!(Uses::of(&Told::default()).unseen.len(), 4);
        let empty = Told {
            commandstats: Some("cmdstat_get:calls=1".to_owned()),
            clients: Some(String::new()),
            notifications: Some(String::new()),
            listened: Some(Vec::new()),
            ..Told::default()
        };
        assert!(Uses::of(&empty).are_nothing());
    }
}
