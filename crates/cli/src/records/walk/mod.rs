//! From all that a server holds to logical records and findings.
//!
//! A walk goes over one database after the other by SCAN, asks for what each name holds, and shows what comes to a visitor. It
//! changes nothing, and runs beside clients: each bucket, and each group of keys of their own, is seen at one
//! moment; the whole is no snapshot. Many questions are under way at once on one connection, few enough that
//! their answers stay within [`ANSWER_BYTES`], whatever the sizes of values are.
//!
//! SCAN shows a key that is there all the time at least once, and some twice while the server's table grows or
//! shrinks. The walk remembers a fingerprint of each physical name, in a temporary file where there are many, and passes
//! over what it has seen, unless told to be forgetful.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `names.rs` | what a name of the server is asked |
//! | `own.rs` | keys of their own: what came of asking for them |
//! | `buckets.rs` | buckets and their fields, with the spilled values that fields point to |
//! | `way.rs` | how questions reach one server, or a cluster's nodes |
//! | `nodes.rs` | the passes over the nodes of a cluster |

mod buckets;
mod names;
mod nodes;
mod own;
mod way;

pub(crate) use nodes::{check_layout, walk_all};

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{anyhow, bail};
use keyfold_core::collection::Collection;
use keyfold_core::exchange::goes_at_once;
use keyfold_core::frame::Frame;
use keyfold_core::layout::{Layout, NamespaceIndex};
use keyfold_core::resp::Reply;
use keyfold_core::server_info::ServerInfo;
use keyfold_core::walk::KeyWalk;
use keyfold_report::progress::Progress;
use keyfold_server::pace::Pace;
use keyfold_server::reply::code;
use keyfold_server::{Server, ServerTime};

use self::nodes::Sights;
use self::way::Way;

use super::finding::{Finding, FindingKind};
use super::fingerprints::Fingerprints;
use super::in_parts::InParts;
use super::inquiry::{Field, How, Inquiry, Own, Seen, Wants};
use super::place::Stored;
use super::{Content, Record};
use crate::scan::{Database, Round};

/// Names that one SCAN looks at.
const NAMES_AT_ONCE: u64 = 1000;
/// Questions under way at most.
const ASKS_AT_ONCE: usize = 64;
/// What the answers under way may come to, by the mean of those before.
const ANSWER_BYTES: usize = 4 << 20;

/// A client that replaces a spilled value gives the old one its TTL a round trip later. So one that seems an orphan
/// is looked at again after this.
const RETIRED_WITHIN: Duration = Duration::from_secs(2);

/// What a walk shows.
pub(crate) enum Sight<'a> {
    /// A key that lives, and where it lies.
    Record(&'a Record, Home),
    Finding(Finding),
    /// A set or hash in parts that lives, of which some members were drawn.
    Drawn {
        namespace: NamespaceIndex,
        key: &'a [u8],
        parts: InParts,
        known: Collection,
    },
    /// A bucket with so many fields.
    Bucket(NamespaceIndex, usize),
    /// A field whose value has expired, and that the sweep has not removed yet.
    Expired(NamespaceIndex),
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    Plain,
    Zipped(NamespaceIndex),
    Bucket(NamespaceIndex),
    Spilled(NamespaceIndex),
    InParts(NamespaceIndex),
}

/// How a walk goes.
pub(crate) struct Manner<'a> {
    pub(crate) layout: &'a Layout,
    /// Whether the server has a layout at all: without one reserved names are anyone's.
    pub(crate) folded: bool,
    pub(crate) wants: Wants,
    /// Asked of each set or hash in parts that lives: whether some of its members are to be drawn. None where they are read whole.
    pub(crate) draws: Option<&'a dyn Fn(NamespaceIndex, InParts) -> bool>,
    /// Don't remember names: constant memory, and some records twice.
    pub(crate) forgetful: bool,
    /// hash-max-listpack-entries and -value of the server, where they are known.
    pub(crate) listpack_limits: (Option<u64>, Option<u64>),
    /// Asked of each name that the server shows, with the namespace that keeps something there: whether what lies there is of
    /// interest.
    pub(crate) reads: &'a dyn Fn(&[u8], Option<NamespaceIndex>) -> bool,
    /// Asked between answers: true ends the walk.
    pub(crate) stopped: &'a dyn Fn() -> bool,
    /// The same of a sample: no more names are looked at, and all of those that were, as what takes longer to read is not what
    /// is read at once.
    pub(crate) has_enough: &'a dyn Fn() -> bool,
}

/// Takes what a walk shows.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(Sight<'_>) -> anyhow::Result<()>;

/// The walk over one database.
struct RecordWalk<'a> {
    way: Way<'a>,
    manner: &'a Manner<'a>,
    pace: &'a mut Pace,
    visit: Visit<'a>,
    progress: &'a mut Progress,
    database: u32,
    time: ServerTime,
    how: How,
    /// Which server answers.
    server_info: ServerInfo,
    /// None while names are asked for, and once it is over.
    names: Option<KeyWalk>,
    waiting: VecDeque<Inquiry>,
    /// No more names are looked at.
    has_enough: bool,
    /// Spilled values that nothing pointed to, each with its key's field and its nonce.
    suspects: Vec<(Field, u64, Vec<u8>)>,
    seen: Fingerprints,
    /// Of an answer, over the last ones.
    mean_bytes: usize,
    /// None of one server.
    sights: Option<Sights>,
}

/// Walks over one database after the other, and shows what it finds. True where it came around, false where it was
/// stopped. `done` says what has been done with the names that it has seen.
pub(crate) fn walk(
    server: &mut Server,
    mut round: Round,
    done: &str,
    manner: &Manner<'_>,
    pace: &mut Pace,
    visit: Visit<'_>,
) -> anyhow::Result<bool> {
    let total = usize::try_from(round.keys()).unwrap_or(usize::MAX);
    let mut progress = Progress::new(format!("{done}, keys of the server"), total);
    while let Some(Database { number: database, .. }) = round.enter_next(server)? {
        let walk = RecordWalk {
            time: ServerTime::ask(server)?,
            how: How { has_pexpiretime: server.version().has_pexpiretime(), by_script: false },
            server_info: server.version().info(),
            way: Way::to(&mut *server),
            manner,
            pace: &mut *pace,
            visit: &mut *visit,
            progress: &mut progress,
            database,
            names: Some(KeyWalk::new(NAMES_AT_ONCE)),
            waiting: VecDeque::new(),
            has_enough: false,
            suspects: Vec::new(),
            seen: Fingerprints::new(),
            mean_bytes: 0,
            sights: None,
        };
        if !walk.run()? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl RecordWalk<'_> {
    fn run(mut self) -> anyhow::Result<bool> {
        if !self.answer_all(false)? {
            return Ok(false);
        }
        self.end()
    }

    /// Asks what is to be asked, and takes the answers; with `leave` until there is room for more names. False where it was
    /// stopped.
    fn answer_all(&mut self, leave: bool) -> anyhow::Result<bool> {
        loop {
            self.send()?;
            if leave && !self.has_enough && self.waiting.len() < ASKS_AT_ONCE {
                return Ok(!(self.manner.stopped)());
            }
            let Some((ask, raw)) = self.way.next()? else { return Ok(!self.has_enough) };
            match self.check(&ask, &raw) {
                Ok(answer) => self.take(ask, answer)?,
                Err(error) => self.ask_otherwise(ask, &raw, error)?,
            }
            if (self.manner.stopped)() {
                return Ok(false);
            }
            if !self.has_enough && (self.manner.has_enough)() {
                self.has_enough = true;
                self.names = None;
                self.waiting.retain(Inquiry::follows_another);
            }
        }
    }

    /// Asks once more in another way, where a server refuses it in this one but not in that.
    fn ask_otherwise(&mut self, ask: Inquiry, raw: &[Vec<u8>], error: anyhow::Error) -> anyhow::Result<()> {
        let is_answered = |code: &[u8]| raw.iter().any(|raw| raw.starts_with(code));
        // A full server may refuse to queue what it doesn't refuse by itself; so it does with all that is under way.
        if ask.is_atomic() && raw.len() > 1 && is_answered(b"-OOM") {
            self.how.by_script = true;
            self.waiting.push_back(ask);
            return Ok(());
        }
        // Some keys of a question may be at one node and some at another, and stay so: each is asked about by itself.
        let is_split = self.sights.is_some() && is_answered(b"-TRYAGAIN");
        match ask {
            Inquiry::Strings(keys) if is_split && keys.len() > 1 => {
                self.waiting.extend(keys.into_iter().map(|own| Inquiry::Strings(vec![own])));
                Ok(())
            }
            _ => Err(error),
        }
    }

    /// The last questions, where it came around.
    fn end(mut self) -> anyhow::Result<bool> {
        if !self.suspects.is_empty() {
            self.suspect_again();
            return self.answer_all(false);
        }
        Ok(true)
    }

    /// Asks for those that seemed orphans once more, some time later.
    fn suspect_again(&mut self) {
        std::thread::sleep(RETIRED_WITHIN);
        let suspects = std::mem::take(&mut self.suspects).into_iter();
        self.waiting.extend(suspects.map(|(field, nonce, name)| Inquiry::Owner { field, nonce, name, again: true }));
    }

    /// Sends more questions, once half of those under way are answered.
    fn send(&mut self) -> anyhow::Result<()> {
        let room = (ANSWER_BYTES / self.mean_bytes.max(1)).clamp(1, ASKS_AT_ONCE);
        if self.way.under_way() > room / 2 {
            return Ok(());
        }
        let mut commands = 0;
        while self.way.under_way() < room
            && commands < self.pace.burst() as usize
            && let Some(ask) = self.next_ask()
        {
            commands += self.way.begin(ask, self.manner.wants, self.how);
        }
        self.pace.spend(commands as u64);
        self.way.flush()
    }

    /// The next question; more names before those that are known run out.
    fn next_ask(&mut self) -> Option<Inquiry> {
        if self.waiting.len() < ASKS_AT_ONCE
            && let Some(names) = self.names.take()
        {
            return Some(Inquiry::Names(names));
        }
        self.waiting.pop_front()
    }

    /// The replies that count; the server's refusal as an error.
    fn check<'r>(&self, ask: &Inquiry, raw: &'r [Vec<u8>]) -> anyhow::Result<Vec<Reply<'r>>> {
        let replies = raw.iter().map(|raw| Reply::parse(raw)).collect::<Result<_, _>>()?;
        let replies = self.unless_refused(ask, replies)?;
        match replies.last() {
            _ if !ask.is_atomic() => Ok(replies),
            Some(Reply::Array(results)) => self.unless_refused(ask, results.collect()),
            _ => bail!("EXEC was answered with nothing"),
        }
    }

    fn unless_refused<'r>(&self, ask: &Inquiry, replies: Vec<Reply<'r>>) -> anyhow::Result<Vec<Reply<'r>>> {
        let refused = replies.iter().find_map(|reply| match reply {
            Reply::Error(error) if code(error) != b"WRONGTYPE" => Some(error),
            _ => None,
        });
        match refused {
            Some(error) => Err(self.way.refused(ask, error).context(format!("{} was refused", ask.name()))),
            None => Ok(replies),
        }
    }

    fn take(&mut self, ask: Inquiry, answer: Vec<Reply<'_>>) -> anyhow::Result<()> {
        let mut answer = answer.into_iter();
        let mut next = || answer.next().unwrap_or(Reply::Nil);
        match ask {
            Inquiry::Names(walk) => self.take_names(walk, next()),
            Inquiry::Strings(keys) => self.take_strings(keys, answer),
            Inquiry::Kind(own) => match next() {
                Reply::Simple(b"none") => Ok(()),
                Reply::Simple(b"string") => {
                    self.waiting.push_back(Inquiry::Strings(vec![own]));
                    Ok(())
                }
                Reply::Simple(kind) => {
                    self.waiting.push_back(Inquiry::Other { own, kind: String::from_utf8_lossy(kind).into_owned() });
                    Ok(())
                }
                other => Err(anyhow!("TYPE answered {other:?}")),
            },
            Inquiry::Other { own, kind } => self.take_other(own, kind, answer),
            Inquiry::Bucket { walk, before } => self.take_step(walk, before, next(), next()),
            Inquiry::Spill { field, stored, expires_at_ms, .. } => {
                self.take_spill(field, stored, expires_at_ms, next())
            }
            Inquiry::Parts { field, stored, expires_at_ms } => self.take_parts(field, stored, expires_at_ms, next()),
            Inquiry::Draw { field, parts } => {
                // The script is there.
                next();
                self.take_drawn(&field, parts, next())
            }
            Inquiry::Again { field, stored } => self.take_again(field, &stored, next()),
            Inquiry::Owner { field, nonce, name, again } => {
                self.take_owner(field, nonce, name, again, [next(), next()])
            }
            Inquiry::Unknown { name } => match next() {
                Reply::Integer(left_ms) if goes_at_once(left_ms) => Ok(()),
                _ => self.find(FindingKind::UnknownName, name, None, None, String::new()),
            },
            Inquiry::Both { new, old, seen } => {
                let is_there = |stored: &Stored, reply| match reply {
                    Reply::Integer(count) => count > 0,
                    Reply::Bulk(bytes) => {
                        let now_ms = self.time.now_ms();
                        self.manner.layout.packing_in(&stored.physical).is_some()
                            || !Frame::decode(bytes).is_ok_and(|frame| frame.expired(now_ms))
                    }
                    _ => false,
                };
                if [next(), next()].into_iter().zip([&new, &old]).all(|(reply, stored)| is_there(stored, reply)) {
                    // Clients see the one in the new place, which the walk comes by too.
                    let detail = format!("`{}` removes the other one", old.removal());
                    let (Seen::Name(Own { key, .. }) | Seen::Field(Field { key, .. }, _)) = seen;
                    return self.find(FindingKind::InBothPlaces, old.physical, old.field, Some(key), detail);
                }
                match seen {
                    Seen::Name(own) => self.waiting.push_back(Inquiry::Strings(vec![own])),
                    Seen::Field(field, stored) => self.take_field(field, &stored)?,
                }
                Ok(())
            }
            Inquiry::Twin { key, .. } => {
                let kind = if next() == Reply::Integer(1) { FindingKind::Twin } else { FindingKind::HiddenKey };
                self.find(kind, key.clone(), None, Some(key), String::new())
            }
        }
    }

    fn show(&mut self, key: Vec<u8>, content: Content, expires_at_ms: Option<i64>, home: Home) -> anyhow::Result<()> {
        let record = Record { database: self.database, key, content, expires_at_ms };
        (self.visit)(Sight::Record(&record, home))
    }

    fn find_in(&mut self, field: Field, kind: FindingKind, detail: String) -> anyhow::Result<()> {
        self.find(kind, field.bucket, Some(field.field), Some(field.key), detail)
    }

    fn find(
        &mut self,
        kind: FindingKind,
        physical: Vec<u8>,
        field: Option<Vec<u8>>,
        key: Option<Vec<u8>>,
        detail: String,
    ) -> anyhow::Result<()> {
        let database = self.database;
        let node = self.sights.as_ref().and_then(|sights| sights.node_of(&physical));
        (self.visit)(Sight::Finding(Finding { kind, database, physical, field, key, detail, node }))
    }

    /// Notes what an answer came to, for the number of questions that may be under way.
    fn weigh(&mut self, bytes: usize) {
        // A large one counts at once, small ones slowly.
        self.mean_bytes = bytes.max((self.mean_bytes * 15 + bytes) / 16);
    }
}

#[cfg(test)]
mod tests {
    use keyfold_proxy::address::ServerAddress;

    use super::*;
    use keyfold_server::{Commands, Target};

    #[test]
    fn after_a_walk_that_was_stopped_early_the_connection_answers_what_it_is_asked() {
        let running = keyfold_testkit::found()[0].start(&[]).unwrap();
        let target = Target::from(running.url().parse::<ServerAddress>().unwrap());
        let mut server = Server::connect(&target).unwrap();
        let mut keys = Commands::default();
        for number in 0..5000 {
            keys.push(&[b"SET", format!("key:{number}").as_bytes(), b"1"]);
        }
        server.query_all::<()>(&keys).unwrap();
        let (seen, layout) = (std::cell::Cell::new(0), Layout::default());
        let manner = Manner {
            layout: &layout,
            folded: false,
            draws: None,
            wants: Wants::default(),
            forgetful: true,
            listpack_limits: (None, None),
            reads: &|_, _| true,
            stopped: &|| seen.get() > 100,
            has_enough: &|| false,
        };
        let round = || Round::new(vec![Database { number: 0, keys: 5000 }]);
        let mut pace = Pace::new(None);
        let mut visit = |sight: Sight<'_>| {
            seen.set(seen.get() + u64::from(matches!(sight, Sight::Record(..))));
            Ok(())
        };
        assert!(!walk(&mut server, round(), "seen", &manner, &mut pace, &mut visit).unwrap());
        assert!(server.used_memory().unwrap() > 0);
        seen.set(0);
        let error = walk(&mut server, round(), "seen", &manner, &mut pace, &mut |_| bail!("enough")).unwrap_err();
        assert_eq!(error.to_string(), "enough");
        assert_eq!(server.ask::<u64>(&[b"DBSIZE"]).unwrap(), 5000);
    }
}
