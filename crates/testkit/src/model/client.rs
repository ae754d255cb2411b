//! A client's session, driven against the fake server as the proxy drives it against a real one.

use std::sync::Arc;

use std::cell::Cell;

use keyfold_core::drive::{Context, Conversation, Progress, Started};
use keyfold_core::exchange::{Env, ServerInfo};
use keyfold_core::frame::{Body, Frame};
use keyfold_core::layout::{Layout, Located, Physical, Place, spill_name};
use keyfold_core::mover::Mover;
use keyfold_core::resp::{Protocol, Read, RequestReader};
use keyfold_core::session::{Peer, Session};
use keyfold_core::string::{Entry, Held};

use super::fake_server::{Connection, FakeServer};

/// What no limit keeps out: the pointer to a spilled value, of up to 17 bytes, and an integer that the server
/// itself has counted up to, of up to 20 digits, which a listpack stores in 9 bytes.
const SMALL_BYTES: usize = 20;

/// The fake server, and what all sessions share.
#[derive(Debug)]
pub struct World<'l> {
    server: FakeServer,
    /// Moves keys between the clients' physical commands.
    mover: Option<(Mover, Connection)>,
    context: Context<'l>,
    now_ms: i64,
    nonce: Cell<u64>,
}

impl<'l> World<'l> {
    /// An empty server and a layout, at a time in milliseconds since 1970.
    pub fn new(layout: &'l Layout, now_ms: i64) -> Self {
        Self {
            server: FakeServer::new(now_ms),
            mover: None,
            context: without_data(layout),
            now_ms,
            nonce: Cell::new(0),
        }
    }

    /// Moves the clock of the server and of the sessions.
    pub fn advance_to(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.server.advance_to(now_ms);
    }

    fn with_env<R>(&self, run: impl FnOnce(&mut Env<'_>) -> R) -> R {
        let mut nonces = || {
            self.nonce.set(self.nonce.get() + 1);
            self.nonce.get()
        };
        run(&mut self.context.env(self.now_ms, &mut nonces))
    }

    /// What a logical key holds, read from the server's own data.
    ///
    /// # Errors
    /// A stored value that doesn't decode, or points to nothing.
    pub fn held(&self, key: &[u8]) -> Result<Held, String> {
        let spots = match self.context.layout().locate(key) {
            Located::Placed(place) => vec![Some(place)],
            Located::Plain | Located::Reserved => vec![None],
            Located::Moving(moving) => vec![moving.new, moving.old],
        };
        let held = spots.iter().map(|place| self.held_at(key, place.as_ref())).collect::<Result<Vec<_>, _>>()?;
        let mut held = held.into_iter().filter(|held| *held != Held::Nothing);
        match (held.next(), held.next()) {
            (Some(one), Some(other)) => Err(format!("{} is in two places: {one:?}, {other:?}", key.escape_ascii())),
            (one, _) => Ok(one.unwrap_or(Held::Nothing)),
        }
    }

    fn held_at(&self, key: &[u8], place: Option<&Place>) -> Result<Held, String> {
        let place = match place {
            Some(place) if place.kind.is_field() => place,
            Some(place) => return self.held_alone(key, place),
            None => return Ok(self.server.held(key).clone()),
        };
        let Some(stored) = self.server.field(&place.physical, &place.field) else { return Ok(Held::Nothing) };
        if let Some(packing) = place.kind.packing() {
            let value = packing.unpack(stored).map_err(|error| error.to_string())?.into_owned();
            return Ok(Held::String(Entry { value, expires_at_ms: None }));
        }
        let frame = Frame::decode(stored).map_err(|error| format!("{}: {error}", key.escape_ascii()))?;
        if frame.expired(self.now_ms) {
            return Ok(Held::Nothing);
        }
        let spilled = match frame.body {
            Body::Spill { nonce, .. } => match self.server.held(&spill_name(place.origin, nonce, key)) {
                Held::String(Entry { value, expires_at_ms: None }) => Some(value.as_slice()),
                other => return Err(format!("{} points to {other:?}", key.escape_ascii())),
            },
            Body::Raw(_) | Body::Integer(_) | Body::Coded { .. } => None,
            Body::Parts { .. } => {
                return Err(format!("{} lies in parts, which the model has none of", key.escape_ascii()));
            }
        };
        let value = self.decode(key, place, &frame, spilled)?;
        Ok(Held::String(Entry { value, expires_at_ms: frame.expires_at_ms }))
    }

    /// What a key of its own holds: a frame where its place says so, whose expiry is the server's.
    fn held_alone(&self, key: &[u8], place: &Place) -> Result<Held, String> {
        let held = self.server.held(&place.physical);
        let (true, Held::String(Entry { value: stored, expires_at_ms })) = (place.kind.is_framed(), held) else {
            return Ok(held.clone());
        };
        let frame = Frame::decode(stored).map_err(|error| format!("{}: {error}", key.escape_ascii()))?;
        if frame.expires_at_ms.is_some() {
            return Err(format!("{} has an expiry in its frame too", key.escape_ascii()));
        }
        let value = self.decode(key, place, &frame, None)?;
        Ok(Held::String(Entry { value, expires_at_ms: *expires_at_ms }))
    }

    fn decode(&self, key: &[u8], place: &Place, frame: &Frame<'_>, spilled: Option<&[u8]>) -> Result<Vec<u8>, String> {
        let value = self.context.layout().namespace(place.namespace).decode(key, frame, spilled);
        let value = value.map_err(|error| format!("{}: {error}", key.escape_ascii()))?;
        Ok(value.ok_or_else(|| format!("{} points to nothing", key.escape_ascii()))?.into_owned())
    }

    /// Gives a hash a field, as an application did before keyfold came.
    pub fn put_field(&mut self, hash: &[u8], field: &[u8], value: &[u8]) {
        self.server.put_field(hash, field, value);
    }

    /// Serves another layout from now on, with a mover at work where its namespaces move.
    pub fn serve(&mut self, layout: &'l Layout) {
        self.context = without_data(layout);
        self.mover = layout.moving().next().map(|_| (Mover::new(b"*"), Connection::default()));
    }

    /// Whether keys lie in two places at present.
    pub fn is_moving(&self) -> bool {
        self.context.layout().moving().next().is_some()
    }

    /// Lets the mover make one round trip; false once its walk is over.
    ///
    /// # Panics
    /// Where the server refuses it, or a key can't be moved.
    pub fn move_some(&mut self) -> bool {
        let Some((mut mover, mut connection)) = self.mover.take() else { return false };
        let mut wire = Vec::new();
        let Some(count) = self.with_env(|env| mover.next(env, &mut wire)) else {
            assert_eq!(mover.moved().left, vec![], "every key can be moved");
            return false;
        };
        let replies: Vec<Vec<u8>> =
            commands_in(&wire).iter().map(|command| self.server.run(&mut connection, command)).collect();
        assert_eq!(replies.len(), count, "the mover said how many replies there will be");
        self.with_env(|env| mover.handle_replies(&replies, env)).expect("the server refuses nothing");
        self.mover = Some((mover, connection));
        true
    }

    /// Moves what is still in old places, until there is nothing.
    pub fn finish_move(&mut self) {
        while self.move_some() {}
        loop {
            self.mover = Some((Mover::new(b"*"), Connection::default()));
            let mut found = 0;
            while self.move_some() {
                found = self.mover.as_ref().map_or(found, |(mover, _)| mover.moved().found);
            }
            if found == 0 {
                return;
            }
        }
    }

    /// That every field is some key's, and no stored value is over its namespace's limit.
    ///
    /// # Errors
    /// The first that isn't.
    pub fn check_places(&self) -> Result<(), String> {
        for (bucket, field, stored) in self.server.fields() {
            let shown = format!("{} {} {}", bucket.escape_ascii(), field.escape_ascii(), stored.escape_ascii());
            let Physical::Bucket(index) = self.context.layout().read_physical(bucket) else {
                return Err(format!("no bucket: {shown}"));
            };
            if self.context.layout().key_of(index, bucket, field).is_none() {
                return Err(format!("no key: {shown}"));
            }
            if self.context.layout().packing_in(bucket).is_none()
                && stored.len() > self.context.layout().namespace(index).value_limit.max(SMALL_BYTES)
            {
                return Err(format!("over the limit: {shown}"));
            }
        }
        Ok(())
    }
}

/// The layout before a server that holds nothing yet.
fn without_data(layout: &Layout) -> Context<'_> {
    Context::without_data(layout, ServerInfo { name: "redis".to_owned(), version: "7.0.15".to_owned() })
}

/// Another client's command that comes between two physical commands.
#[derive(Debug)]
pub struct Intruder<'i> {
    /// After so many of them.
    pub after: usize,
    /// Whose it is.
    pub client: &'i mut Client,
    /// The command.
    pub command: &'i [Vec<u8>],
    /// Its reply, once it has come.
    pub reply: Option<Vec<u8>>,
}

/// A client: its session, and its connection to the server.
#[derive(Debug)]
pub struct Client {
    conversation: Conversation,
    connection: Connection,
    /// Physical commands of the command under way.
    sent: usize,
}

impl Client {
    /// A client that has just connected.
    pub fn new(world: &World<'_>) -> Self {
        let session = world.with_env(|env| Session::new(Peer::default(), &Arc::default(), env));
        Self { conversation: Conversation::new(session), connection: Connection::default(), sent: 0 }
    }

    /// Speaks RESP3 from now on.
    pub fn hello(&mut self, world: &mut World<'_>) {
        self.run(world, &[b"HELLO".to_vec(), b"3".to_vec()], None);
        self.connection.speak(Protocol::Resp3);
    }

    /// Runs one logical command to its end and returns its reply.
    ///
    /// # Panics
    /// Where the exchange breaks a promise.
    pub fn run(
        &mut self,
        world: &mut World<'_>,
        command: &[Vec<u8>],
        mut intruder: Option<&mut Intruder<'_>>,
    ) -> Vec<u8> {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let started = world.with_env(|env| {
            let plan = self.conversation.plan(&args, env).expect("nothing is under way");
            self.conversation.begin(&plan, &args, None, env, &mut wire, &mut answer)
        });
        self.sent = 0;
        match started {
            Started::Answered => assert!(wire.is_empty(), "an answered request sends nothing"),
            Started::Sent { slot, replies } => self.drive(world, slot, replies, wire, &mut answer, &mut intruder),
            Started::Pushes | Started::Close => panic!("no step subscribes or quits"),
        }
        answer
    }

    fn drive(
        &mut self,
        world: &mut World<'_>,
        slot: u64,
        mut replies: u32,
        mut wire: Vec<u8>,
        answer: &mut Vec<u8>,
        intruder: &mut Option<&mut Intruder<'_>>,
    ) {
        loop {
            let came = self.carry_out(world, &std::mem::take(&mut wire), intruder);
            assert_eq!(came.len(), replies as usize, "the exchange said how many replies there will be");
            for (at, reply) in came.iter().enumerate() {
                let last = at + 1 == came.len();
                match world.with_env(|env| self.conversation.handle_reply(slot, reply, env, &mut wire, answer)) {
                    Progress::More(more) => {
                        assert!(last, "it goes on while replies are outstanding");
                        replies = more;
                    }
                    Progress::Unexpected => panic!("an unexpected reply: {}", reply.escape_ascii()),
                    Progress::Kept if self.conversation.in_flight() > 0 => {
                        assert!(!last, "it waits for replies that will not come");
                    }
                    Progress::Kept => {
                        assert!(last && wire.is_empty(), "it ends while replies are outstanding");
                        return;
                    }
                }
            }
        }
    }

    /// Has the server run what is on the wire, and the intruder's command between where it is due.
    fn carry_out(
        &mut self,
        world: &mut World<'_>,
        wire: &[u8],
        intruder: &mut Option<&mut Intruder<'_>>,
    ) -> Vec<Vec<u8>> {
        let mut replies = Vec::new();
        for command in commands_in(wire) {
            if !self.connection.in_transaction() {
                world.move_some();
            }
            if let Some(intruder) =
                intruder.as_mut().filter(|intruder| intruder.after <= self.sent && intruder.reply.is_none())
                && !self.connection.in_transaction()
            {
                intruder.reply = Some(intruder.client.run(world, intruder.command, None));
            }
            self.sent += 1;
            replies.push(world.server.run(&mut self.connection, &command));
        }
        replies
    }
}

/// The commands on a wire.
fn commands_in(wire: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut reader = RequestReader::default();
    let mut commands = Vec::new();
    let mut rest = wire;
    while !rest.is_empty() {
        let Ok(Read::Request(end)) = reader.read(rest) else { panic!("no command: {}", rest.escape_ascii()) };
        commands.push(reader.args(rest).iter().map(|arg| arg.to_vec()).collect());
        rest = &rest[end..];
    }
    commands
}
