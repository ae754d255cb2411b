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

use std::collections::VecDeque;
use std::time::Duration;
use std::vec;

use anyhow::{Context, anyhow, bail};
use keyfold_core::codec::CodecError;
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, NamespaceIndex, Physical, spill_name};
use keyfold_core::resp::Reply;
use keyfold_core::walk::{BucketWalk, KeyWalk};

use super::ask::{Ask, Field, Fields, Own, Wants};
use super::finding::{Finding, Kind};
use super::fingerprints::Fingerprints;
use super::place::{self, Spot};
use super::{Content, Other, Record, content, digest, hashtable};
use crate::print::progress::Progress;
use crate::scan::{Database, Round};
use crate::server::pace::Pace;
use crate::server::reply::{FromReply, code};
use crate::server::time::Moment;
use crate::server::{Commands, Server, ServerTime};

/// Names that one SCAN looks at.
const NAMES_AT_ONCE: u64 = 1000;
/// Questions under way at most.
const ASKS_AT_ONCE: usize = 64;
/// Keys of their own in one question.
const STRINGS_AT_ONCE: usize = 32;
/// What the answers under way may come to, by the mean of those before.
const ANSWER_BYTES: usize = 4 << 20;

/// A client that replaces a spilled value gives the old one its TTL a round trip later. So one that seems an orphan
/// is looked at again after this.
const RETIRED_WITHIN: Duration = Duration::from_secs(2);
/// Seeming orphans that are remembered for that; there are few, or something is wrong.
const SUSPECTS: usize = 10_000;

/// What a walk shows.
pub(crate) enum Sight<'a> {
    /// A key that lives, and where it lies.
    Record(&'a Record, Home),
    Finding(Finding),
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
}

/// How a walk goes.
pub(crate) struct Manner<'a> {
    pub(crate) layout: &'a Layout,
    /// Whether the server has a layout at all: without one reserved names are anyone's.
    pub(crate) folded: bool,
    pub(crate) wants: Wants,
    /// Don't remember names: constant memory, and some records twice.
    pub(crate) forgetful: bool,
    /// hash-max-listpack-entries and -value of the server, where they are known.
    pub(crate) listpack_limits: (Option<u64>, Option<u64>),
    /// Asked between answers: true ends the walk.
    pub(crate) stopped: &'a dyn Fn() -> bool,
}

/// Takes what a walk shows.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(Sight<'_>) -> anyhow::Result<()>;

/// The walk over one database.
struct RecordWalk<'a> {
    server: &'a mut Server,
    manner: &'a Manner<'a>,
    pace: &'a mut Pace,
    visit: Visit<'a>,
    progress: &'a mut Progress,
    database: u32,
    time: ServerTime,
    has_pexpiretime: bool,
    /// None while names are asked for, and once it is over.
    names: Option<KeyWalk>,
    waiting: VecDeque<Ask>,
    sent: VecDeque<(Ask, usize)>,
    /// Spilled values that nothing pointed to, each with its key's field and its nonce.
    suspects: Vec<(Field, u64, Vec<u8>)>,
    seen: Fingerprints,
    /// Of an answer, over the last ones.
    mean_bytes: usize,
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
            has_pexpiretime: server.version().has_pexpiretime(),
            server: &mut *server,
            manner,
            pace: &mut *pace,
            visit: &mut *visit,
            progress: &mut progress,
            database,
            names: Some(KeyWalk::new(NAMES_AT_ONCE)),
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            suspects: Vec::new(),
            seen: Fingerprints::new(),
            mean_bytes: 0,
        };
        if !walk.run()? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl RecordWalk<'_> {
    fn run(mut self) -> anyhow::Result<bool> {
        loop {
            self.send()?;
            let Some((ask, replies)) = self.sent.pop_front() else {
                if self.suspects.is_empty() {
                    return Ok(true);
                }
                self.suspect_again();
                continue;
            };
            let raw: Vec<_> = (0..replies).map(|_| self.server.receive()).collect::<Result<_, _>>()?;
            let answer = self.check(&ask, &raw)?;
            self.take(ask, answer)?;
            if (self.manner.stopped)() {
                return Ok(false);
            }
        }
    }

    /// Asks for those that seemed orphans once more, some time later.
    fn suspect_again(&mut self) {
        std::thread::sleep(RETIRED_WITHIN);
        let suspects = std::mem::take(&mut self.suspects).into_iter();
        self.waiting.extend(suspects.map(|(field, nonce, name)| Ask::Owner { field, nonce, name, again: true }));
    }

    /// Sends more questions, once half of those under way are answered.
    fn send(&mut self) -> anyhow::Result<()> {
        let room = (ANSWER_BYTES / self.mean_bytes.max(1)).clamp(1, ASKS_AT_ONCE);
        if self.sent.len() > room / 2 {
            return Ok(());
        }
        let mut commands = Commands::default();
        while self.sent.len() < room
            && commands.len() < self.pace.burst() as usize
            && let Some(ask) = self.next_ask()
        {
            let replies = ask.write(self.manner.wants, self.has_pexpiretime, &mut commands);
            self.sent.push_back((ask, replies));
        }
        if !commands.is_empty() {
            self.pace.spend(commands.len() as u64);
            self.server.send(commands.wire(), commands.len() as u64)?;
        }
        Ok(())
    }

    /// The next question; more names before those that are known run out.
    fn next_ask(&mut self) -> Option<Ask> {
        if self.waiting.len() < ASKS_AT_ONCE
            && let Some(names) = self.names.take()
        {
            return Some(Ask::Names(names));
        }
        self.waiting.pop_front()
    }

    /// The replies that count; the server's refusal as an error.
    fn check<'r>(&self, ask: &Ask, raw: &'r [Vec<u8>]) -> anyhow::Result<Vec<Reply<'r>>> {
        let replies = raw.iter().map(|raw| Reply::parse(raw)).collect::<Result<_, _>>()?;
        let replies = self.unless_refused(ask, replies)?;
        match replies.last() {
            _ if !ask.is_atomic() => Ok(replies),
            Some(Reply::Array(results)) => self.unless_refused(ask, results.collect()),
            _ => bail!("the server at {} answered EXEC with nothing", self.server.address()),
        }
    }

    fn unless_refused<'r>(&self, ask: &Ask, replies: Vec<Reply<'r>>) -> anyhow::Result<Vec<Reply<'r>>> {
        let refused = replies.iter().find_map(|reply| match reply {
            Reply::Error(error) if code(error) != b"WRONGTYPE" => Some(error),
            _ => None,
        });
        match refused {
            Some(error) => Err(self.server.refused(error).context(format!("{} was refused", ask.name()))),
            None => Ok(replies),
        }
    }

    fn take(&mut self, ask: Ask, answer: Vec<Reply<'_>>) -> anyhow::Result<()> {
        let mut answer = answer.into_iter();
        let mut next = || answer.next().unwrap_or(Reply::Nil);
        match ask {
            Ask::Names(walk) => self.take_names(walk, next()),
            Ask::Strings(keys) => self.take_strings(keys, answer),
            Ask::Kind(own) => match next() {
                Reply::Simple(b"none") => Ok(()),
                Reply::Simple(b"string") => {
                    self.waiting.push_back(Ask::Strings(vec![own]));
                    Ok(())
                }
                Reply::Simple(kind) => {
                    self.waiting.push_back(Ask::Other { own, kind: String::from_utf8_lossy(kind).into_owned() });
                    Ok(())
                }
                other => Err(anyhow!("TYPE answered {other:?}")),
            },
            Ask::Other { own, kind } => self.take_other(own, kind, answer),
            Ask::Bucket { walk, before } => self.take_step(walk, before, next(), next()),
            Ask::Spill { field, stored, expires_at_ms, .. } => match next() {
                Reply::Bulk(value) => {
                    self.weigh(value.len());
                    let home = Home::Spilled(field.namespace);
                    match Frame::decode(&stored) {
                        Ok(frame) => self.show_decoded(field, &Frame { expires_at_ms, ..frame }, Some(value), home),
                        Err(error) => self.find_in(field, Kind::DamagedValue, error.to_string()),
                    }
                }
                _ => {
                    self.waiting.push_back(Ask::Again { field, stored });
                    Ok(())
                }
            },
            // The value may have been replaced, and the old one removed, since the pointer was read.
            Ask::Again { field, stored } => match next() {
                Reply::Bulk(now) if now == stored => self.find_in(field, Kind::MissingSpill, String::new()),
                Reply::Bulk(now) => self.take_field(field, now),
                _ => Ok(()),
            },
            Ask::Owner { field, nonce, name, again } => self.take_owner(field, nonce, name, again, [next(), next()]),
            Ask::Twin { key, .. } => {
                let kind = if next() == Reply::Integer(1) { Kind::Twin } else { Kind::HiddenKey };
                self.find(kind, key.clone(), None, Some(key), String::new())
            }
        }
    }

    fn take_names(&mut self, mut walk: KeyWalk, reply: Reply<'_>) -> anyhow::Result<()> {
        let names = walk.take(reply)?;
        self.names = Some(walk).filter(|walk| !walk.is_over());
        let mut strings = Vec::new();
        for name in names {
            if self.manner.forgetful || self.is_new(name)? {
                self.progress.advance(1);
                strings.extend(self.take_name(name.to_vec())?);
            }
        }
        while !strings.is_empty() {
            let rest = strings.split_off(strings.len().min(STRINGS_AT_ONCE));
            self.waiting.push_back(Ask::Strings(std::mem::replace(&mut strings, rest)));
        }
        Ok(())
    }

    fn is_new(&mut self, name: &[u8]) -> anyhow::Result<bool> {
        let is_new = self.seen.insert(digest::name(name), 0);
        is_new.context("can't keep the names that were seen in a temporary file; TMPDIR says where these lie")
    }

    /// What a name of the server is to be asked; a key of its own, where it is one.
    fn take_name(&mut self, name: Vec<u8>) -> anyhow::Result<Option<Own>> {
        let layout = self.manner.layout;
        let ask = match layout.read_physical(&name) {
            Physical::Administration => return Ok(None),
            Physical::Plain if place::is_allowed(layout, &name, Spot::Plain) => return Ok(Some(plain(name))),
            Physical::Plain => {
                let Some(place) = place::place_of(layout, &name) else { return Ok(Some(plain(name))) };
                let field = place.kind.is_field().then(|| place.field.to_vec());
                Ask::Twin { key: name, physical: place.physical.to_vec(), field }
            }
            Physical::Bucket(namespace) => {
                Ask::Bucket { walk: BucketWalk::new(namespace, &name), before: Fields::new() }
            }
            Physical::Zipped { namespace, key }
                if place::is_allowed(layout, &key, Spot::Zipped { physical: &name }) =>
            {
                return Ok(Some(Own { physical: name, key, namespace: Some(namespace) }));
            }
            Physical::Spill { namespace, nonce, key } => {
                if !self.manner.wants.owners {
                    return Ok(None);
                }
                let place = layout.place_beside(&name, key);
                let key = key.to_vec();
                let Some(place) = place else {
                    self.find(Kind::StraySpill, name, None, Some(key), String::new())?;
                    return Ok(None);
                };
                let (bucket, field) = (place.physical.to_vec(), place.field.to_vec());
                Ask::Owner { field: Field { namespace, bucket, field, key }, nonce, name, again: false }
            }
            Physical::Unknown if !self.manner.folded => return Ok(Some(plain(name))),
            Physical::Zipped { .. } | Physical::Unknown => {
                self.find(Kind::UnknownName, name, None, None, String::new())?;
                return Ok(None);
            }
        };
        self.waiting.push_back(ask);
        Ok(None)
    }

    fn take_strings(&mut self, keys: Vec<Own>, mut replies: vec::IntoIter<Reply<'_>>) -> anyhow::Result<()> {
        let now_ms = self.moment(&mut replies);
        let Some(Reply::Array(values)) = replies.next() else { bail!("MGET's answer is no list") };
        let mut bytes = 0;
        for ((own, value), expiry) in keys.into_iter().zip(values).zip(replies) {
            match (value, expiry) {
                (Reply::Bulk(value), expiry) => {
                    bytes += value.len();
                    self.take_own(own, value, expires_at(expiry, now_ms))?;
                }
                // Gone meanwhile.
                (_, Reply::Integer(-2)) => {}
                _ => self.waiting.push_back(Ask::Kind(own)),
            }
        }
        self.weigh(bytes);
        Ok(())
    }

    fn take_other(&mut self, own: Own, kind: String, mut replies: vec::IntoIter<Reply<'_>>) -> anyhow::Result<()> {
        let now_ms = self.moment(&mut replies);
        let mut next = || replies.next().unwrap_or(Reply::Nil);
        if next() != Reply::Simple(kind.as_bytes()) {
            self.waiting.push_back(Ask::Kind(own));
            return Ok(());
        }
        let expires_at_ms = expires_at(next(), now_ms);
        let Reply::Bulk(dump) = next() else { bail!("DUMP of \"{}\" gave nothing", own.key.escape_ascii()) };
        let (dump, digest) = (dump.to_vec(), content::digest(&kind, next()));
        self.weigh(dump.len());
        let home = own.namespace.map_or(Home::Plain, Home::Zipped);
        self.show(own.key, Content::Other(Other { kind, dump, digest }), expires_at_ms, home)
    }

    /// The time of a question's moment, where it was asked for.
    fn moment<'r>(&self, replies: &mut impl Iterator<Item = Reply<'r>>) -> i64 {
        if self.has_pexpiretime {
            return 0;
        }
        let time = replies.next().and_then(Moment::from_reply);
        time.map_or_else(|| self.time.now_ms(), |Moment(ms)| ms)
    }

    /// A bucket is taken once it is there as a whole, which it mostly is after one step.
    fn take_step(
        &mut self,
        mut walk: BucketWalk,
        mut before: Fields,
        step: Reply<'_>,
        encoding: Reply<'_>,
    ) -> anyhow::Result<()> {
        let (namespace, name) = (walk.namespace(), walk.name().to_vec());
        let Ok(fields) = walk.take(step) else {
            return self.find(Kind::NotABucket, name, None, None, String::new());
        };
        let fields: Vec<(&[u8], &[u8])> = fields.collect();
        if walk.is_over() && before.is_empty() {
            return self.take_bucket(namespace, &name, &fields, encoding);
        }
        before.extend(fields.into_iter().map(|(field, stored)| (field.to_vec(), stored.to_vec())));
        if !walk.is_over() {
            self.waiting.push_front(Ask::Bucket { walk, before });
            return Ok(());
        }
        let fields: Vec<_> = before.iter().map(|(field, stored)| (field.as_slice(), stored.as_slice())).collect();
        self.take_bucket(namespace, &name, &fields, encoding)
    }

    fn take_bucket(
        &mut self,
        namespace: NamespaceIndex,
        name: &[u8],
        fields: &[(&[u8], &[u8])],
        encoding: Reply<'_>,
    ) -> anyhow::Result<()> {
        if fields.is_empty() {
            return Ok(());
        }
        (self.visit)(Sight::Bucket(namespace, fields.len()))?;
        let handmade = self.manner.layout.packing_in(name).is_some();
        if !handmade && encoding == Reply::Bulk(b"hashtable") {
            let detail = hashtable::explain(fields, self.manner.listpack_limits);
            self.find(Kind::Hashtable, name.to_vec(), None, None, detail)?;
        }
        let mut bytes = 0;
        for (field, stored) in fields {
            let field = field.to_vec();
            bytes += field.len() + stored.len();
            match place::key_at(self.manner.layout, namespace, name, &field) {
                Some(key) => self.take_field(Field { namespace, bucket: name.to_vec(), field, key }, stored)?,
                None => self.find(Kind::StrangeField, name.to_vec(), Some(field), None, String::new())?,
            }
        }
        self.weigh(bytes);
        Ok(())
    }

    fn take_field(&mut self, field: Field, stored: &[u8]) -> anyhow::Result<()> {
        if let Some(packing) = self.manner.layout.packing_in(&field.bucket) {
            return match packing.unpack(stored) {
                Ok(value) => {
                    let value = value.into_owned();
                    self.show(field.key, Content::String(value), None, Home::Bucket(field.namespace))
                }
                Err(error) => self.find_in(field, Kind::DamagedValue, error.to_string()),
            };
        }
        let frame = match Frame::decode(stored) {
            Ok(frame) => frame,
            Err(error) => return self.find_in(field, Kind::DamagedValue, error.to_string()),
        };
        if frame.expired(self.time.now_ms()) {
            return (self.visit)(Sight::Expired(field.namespace));
        }
        let expires_at_ms = frame.expires_at_ms;
        let home = Home::Bucket(field.namespace);
        if let Body::Spill { nonce, .. } = frame.body
            && let Some(origin) = Layout::origin_of(&field.bucket)
        {
            let name = spill_name(origin, nonce, &field.key);
            self.waiting.push_back(Ask::Spill { field, stored: stored.to_vec(), name, expires_at_ms });
            return Ok(());
        }
        if keyfold_core::frame::is_raw(stored) {
            return self.show(field.key, Content::String(stored.to_vec()), expires_at_ms, home);
        }
        self.show_decoded(field, &frame, None, home)
    }

    /// Shows the value of a frame, or finds that it can't be decoded.
    fn show_decoded(
        &mut self,
        field: Field,
        frame: &Frame<'_>,
        spilled: Option<&[u8]>,
        home: Home,
    ) -> anyhow::Result<()> {
        match self.manner.layout.namespace(field.namespace).decode(&field.key, frame, spilled) {
            Ok(value) => {
                let value = value.unwrap_or_default().into_owned();
                self.show(field.key, Content::String(value), frame.expires_at_ms, home)
            }
            Err(error @ CodecError::Damaged { .. }) => self.find_in(field, Kind::DamagedValue, error.to_string()),
            Err(error) => self.find_in(field, Kind::UnknownCodec, error.to_string()),
        }
    }

    /// What a key of its own holds: in some namespaces a frame.
    fn take_own(&mut self, own: Own, stored: &[u8], expires_at_ms: Option<i64>) -> anyhow::Result<()> {
        let home = own.namespace.map_or(Home::Plain, Home::Zipped);
        let layout = self.manner.layout;
        let framed =
            layout.places(&own.key).find(|place| place.kind.is_framed() && place.physical.as_slice() == own.physical);
        let Some(place) = framed else {
            return self.show(own.key, Content::String(stored.to_vec()), expires_at_ms, home);
        };
        let field = Field { namespace: place.namespace, bucket: own.physical, field: Vec::new(), key: own.key };
        match Frame::decode(stored) {
            Ok(frame) => self.show_decoded(field, &Frame { expires_at_ms, ..frame }, None, home),
            Err(error) => self.find_in(field, Kind::DamagedValue, error.to_string()),
        }
    }

    fn take_owner(
        &mut self,
        field: Field,
        nonce: u64,
        name: Vec<u8>,
        again: bool,
        [stored, left]: [Reply<'_>; 2],
    ) -> anyhow::Result<()> {
        let points_here = match stored {
            Reply::Bulk(stored) => Frame::decode(stored).is_ok_and(|frame| frame.body.points_to(nonce)),
            _ => false,
        };
        // A replaced one stays for some seconds, with a TTL.
        if points_here || left != Reply::Integer(-1) {
            return Ok(());
        }
        if !again && self.suspects.len() < SUSPECTS {
            self.suspects.push((field, nonce, name));
            return Ok(());
        }
        self.find(Kind::OrphanedSpill, name, None, Some(field.key), String::new())
    }

    fn show(&mut self, key: Vec<u8>, content: Content, expires_at_ms: Option<i64>, home: Home) -> anyhow::Result<()> {
        let record = Record { database: self.database, key, content, expires_at_ms };
        (self.visit)(Sight::Record(&record, home))
    }

    fn find_in(&mut self, field: Field, kind: Kind, detail: String) -> anyhow::Result<()> {
        self.find(kind, field.bucket, Some(field.field), Some(field.key), detail)
    }

    fn find(
        &mut self,
        kind: Kind,
        physical: Vec<u8>,
        field: Option<Vec<u8>>,
        key: Option<Vec<u8>>,
        detail: String,
    ) -> anyhow::Result<()> {
        let database = self.database;
        (self.visit)(Sight::Finding(Finding { kind, database, physical, field, key, detail }))
    }

    /// Notes what an answer came to, for the number of questions that may be under way.
    fn weigh(&mut self, bytes: usize) {
        // A large one counts at once, small ones slowly.
        self.mean_bytes = bytes.max((self.mean_bytes * 15 + bytes) / 16);
    }
}

fn plain(name: Vec<u8>) -> Own {
    Own { key: name.clone(), physical: name, namespace: None }
}

/// The time that PEXPIRETIME said, or that PTTL said at `now_ms`.
fn expires_at(reply: Reply<'_>, now_ms: i64) -> Option<i64> {
    match reply {
        Reply::Integer(at) if at >= 0 => Some(now_ms + at),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use keyfold_proxy::config::ServerTls;

    use super::*;
    use crate::server::Target;

    #[test]
    fn after_a_walk_that_was_stopped_early_the_connection_answers_what_it_is_asked() {
        let running = keyfold_testkit::found()[0].start(&[]).unwrap();
        let target = Target { address: running.url().parse().unwrap(), tls: ServerTls::default() };
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
            wants: Wants::default(),
            forgetful: true,
            listpack_limits: (None, None),
            stopped: &|| seen.get() > 100,
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
