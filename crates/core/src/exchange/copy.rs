//! COPY to another database, of a folded key or onto one.
//!
//! The source is read in the client's database, the destination in the other, and both are checked once more
//! by the script that writes. On a shared connection the other database is selected only between two commands
//! that are sent together.

use crate::admin::scratch_key;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::key::Key;
use crate::exchange::load::{Load, Loading};
use crate::exchange::{CompareAndSet, Env, Io, Refusal, Step, done, fail, failure, script, store};
use crate::frame::Frame;
use crate::layout::Located;
use crate::notify::{Event, Notices};
use crate::resp::{Protocol, Reply, write_command};
use crate::string::{Entry, Held, Space};

/// What a cluster's node with one database says to SELECT. To COPY each version says something else.
const NO_SELECT: &[u8] = b"-ERR SELECT is not allowed in cluster mode\r\n";

/// Sends a COPY that is refused whatever its keys hold, for the server to say why; it has one reply. The keys of the request
/// stay out of it.
pub(crate) fn ask_why_refused(args: &[&[u8]], wire: &mut Vec<u8>) {
    let scratch = scratch_key(args[1]);
    let (other, mut harmless) = ([&scratch, &b":copy"[..]].concat(), args.to_vec());
    (harmless[1], harmless[2]) = (&scratch, &other);
    write_command(wire, &harmless);
}

/// Such a COPY under way.
#[derive(Debug)]
pub(crate) struct Copy {
    protocol: Protocol,
    /// The request, which the server answers itself if the database doesn't exist.
    args: Vec<Vec<u8>>,
    here: u32,
    there: u32,
    replace: bool,
    destination: Key,
    source: Load,
    entry: Entry,
    /// Whether the source holds anything that can be read.
    is_there: bool,
    phase: Phase,
    /// What is published of keys in the client's database.
    notices: Option<Notices>,
}

#[derive(Debug)]
enum Phase {
    Source,
    Destination(Batch),
    Writing(CompareAndSet),
    /// The server is asked why it can't be.
    Refused,
}

impl Copy {
    /// Reads the source, from the client's database to another one; with the number of replies to come.
    pub(crate) fn start(
        args: &[&[u8]],
        [source, destination]: [(&[u8], Located); 2],
        (here, there): (u32, u32),
        replace: bool,
        protocol: Protocol,
        env: &Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut source = Load::located(env, std::iter::once(source));
        let replies = source.send(wire);
        let destination = Key::at(destination.0, destination.1);
        debug_assert!(!destination.is_moving(), "refused where it is planned");
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let copy = Self {
            protocol,
            args,
            here,
            there,
            replace,
            destination,
            source,
            entry: Entry::default(),
            is_there: false,
            phase: Phase::Source,
            notices: None,
        };
        (copy, replies)
    }

    /// The same, where what it does is published.
    pub(crate) fn publishing(self, notices: Option<Notices>) -> Self {
        Self { notices, ..self }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.phase {
            Phase::Source => match self.source.handle_reply(reply, env, io.wire) {
                Loading::Wait => Step::Wait,
                Loading::More(replies) => Step::More(replies),
                Loading::Failed(refusal) => refusal.end(io),
                Loading::Ready => self.take_source(env, io),
            },
            Phase::Destination(batch) => match batch.handle_reply(reply) {
                None => Step::Wait,
                Some(Ok(replies)) => self.take_destination(&replies, env, io),
                Some(Err(refusal)) => refusal.end(io),
            },
            Phase::Writing(writes) => match Reply::parse(reply) {
                Ok(Reply::Integer(1)) => done(io, b":1\r\n"),
                Ok(Reply::Integer(_)) => {
                    self.phase = Phase::Source;
                    Step::More(self.source.send(io.wire))
                }
                Ok(Reply::Error(error)) if error.starts_with(b"NOSCRIPT") => {
                    writes.send_with_text(io.wire);
                    Step::More(1)
                }
                Ok(Reply::Error(_)) => done(io, &script::without_place(reply)),
                _ => Step::Unexpected,
            },
            Phase::Refused => Refusal::of(reply).end(io),
        }
    }

    fn take_source(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let mut space = Space::new(env.now_ms);
        self.source.fill(&mut space);
        match space.held(&self.args[1]) {
            // The server is asked all the same: it checks first whether the other database exists.
            Held::Nothing => self.is_there = false,
            Held::String(entry) => (self.entry, self.is_there) = (entry.clone(), true),
            Held::Unread(_) => {
                let why = self.source.keys()[0].held().err().unwrap_or_default();
                return fail(io, self.protocol, &why);
            }
            Held::Collection(held) => {
                let why = format!("a {} can't be copied to another database", held.collection.kind());
                return fail(io, self.protocol, &failure(&self.args[1], &why));
            }
            Held::Other(kind) => {
                let why = format!("a {} can't be copied onto a folded key", kind.escape_ascii());
                return fail(io, self.protocol, &failure(&self.args[2], &why));
            }
        }
        let mut commands = Commands::default();
        let (here, there) = (self.here.to_string(), self.there.to_string());
        commands.push(&[b"SELECT", there.as_bytes()]);
        match self.destination.bucket() {
            Some(place) => commands.push(&[b"HGET", &place.physical, &place.field]),
            None => commands.push(&[b"DUMP", self.destination.physical()]),
        }
        commands.push(&[b"SELECT", here.as_bytes()]);
        let (batch, replies) = Batch::send(&commands, io.wire);
        self.phase = Phase::Destination(batch);
        Step::More(replies)
    }

    fn take_destination(&mut self, replies: &[Vec<u8>], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        // Back to where the others are that share the connection: an error leaves them elsewhere.
        if replies.last().is_none_or(|back| back != b"+OK\r\n") {
            return Step::Unexpected;
        }
        // SELECT says of a database that isn't there what COPY would.
        if let Some(error) = replies.first().filter(|selected| selected.starts_with(b"-")) {
            if *error != *NO_SELECT {
                return done(io, error);
            }
            ask_why_refused(&self.args.iter().map(Vec::as_slice).collect::<Vec<_>>(), io.wire);
            self.phase = Phase::Refused;
            return Step::More(1);
        }
        let found = match replies.get(1).map(|raw| Reply::parse(raw)) {
            Some(Ok(Reply::Nil)) => None,
            Some(Ok(Reply::Bulk(stored))) => Some(stored),
            _ => return done(io, replies.get(1).map_or(&[], Vec::as_slice)),
        };
        let in_bucket = self.destination.bucket().is_some();
        let live = found
            .is_some_and(|stored| !(in_bucket && Frame::decode(stored).is_ok_and(|frame| frame.expired(env.now_ms))));
        let source_exists = self.is_there && !self.source_expired(env);
        if !source_exists || (live && !self.replace) {
            return done(io, b":0\r\n");
        }
        let writes = self.plan_writes(found, env);
        writes.send(io.wire);
        self.phase = Phase::Writing(writes);
        Step::More(1)
    }

    fn source_expired(&self, env: &Env<'_>) -> bool {
        self.source.keys().iter().filter_map(Key::field_expires_at_ms).any(|at| at < env.now_ms)
    }

    /// The checks in both databases, and the writes in the other.
    fn plan_writes(&self, found: Option<&[u8]>, env: &mut Env<'_>) -> CompareAndSet {
        let mut writes = CompareAndSet::default();
        for key in self.source.keys() {
            key.check(&mut writes);
            if let Some(at) = key.field_expires_at_ms() {
                writes.check_time(at);
            }
        }
        writes.check_select(self.there);
        let physical = self.destination.physical();
        match self.destination.bucket() {
            Some(place) => {
                writes.check(&[b"HGET", &place.physical, &place.field], found);
                let expiry = found.and_then(|stored| Frame::decode(stored).ok()?.expires_at_ms);
                if let Some(at) = expiry.filter(|at| *at < env.now_ms) {
                    writes.check_time_past(at);
                }
            }
            None => writes.check(&[b"DUMP", physical], found),
        }
        let Entry { value, expires_at_ms } = &self.entry;
        let record = store::encode(env, self.destination.place(), &self.args[2], value, *expires_at_ms);
        store::add_writes(&mut writes, &record);
        self.publish(&mut writes, found, env);
        writes
    }

    fn publish(&self, writes: &mut CompareAndSet, found: Option<&[u8]>, env: &Env<'_>) {
        let Some(notices) = self.notices.filter(|_| self.destination.is_told_by_keyfold()) else { return };
        let notices = notices.in_database(self.there);
        let in_bucket = self.destination.bucket().is_some();
        let has_expired =
            found.is_some_and(|stored| Frame::decode(stored).is_ok_and(|frame| frame.expired(env.now_ms)));
        let events = (in_bucket && has_expired).then_some(Event::Expired);
        for event in events.into_iter().chain([Event::New, Event::CopyTo]) {
            writes.publish(notices, &self.args[2], event);
        }
    }
}
