//! Client-side caching: which clients are to be told that a key has changed, and of which keys.
//!
//! A server that clients ask for CLIENT TRACKING remembers who has read which keys. keyfold stands between: what a client
//! reads lies under another name, often in a bucket with others, and travels on a connection that clients share. So
//! keyfold remembers itself, and has the server tell of every physical key that changes, whoever changes it, on a
//! connection of its own (`CLIENT TRACKING ON BCAST`).
//!
//! ```text
//! client reads user:896 ──▶ table: ~hY3p:7 → user:896 → client 3 ──▶ HGET ~hY3p:7 …  (noted before it is sent)
//!
//! server: ~hY3p:7 has changed ──▶ table: all that was read there ──▶ mailboxes ──▶ >2 invalidate [user:896]
//! ```
//! What holds: a client that was given a value, and hasn't been told since to forget its key, has the newest one, or one
//! that was replaced so shortly before that the server's word is under way. One message too many is no harm.
//!
//! - A change that is told while a read is under way is told again behind its answer (`traced`).
//! - Where the server's word can't be relied on (the connection broke, another layout is in force, slots have moved) all
//!   clients are told to forget everything, and once more when it stands again; meanwhile each answer is followed by the
//!   word to forget it.
//! - Values in buckets say themselves when they expire, and keyfold tells at that time (`deadlines`).
//!
//! | module | what it holds |
//! | --- | --- |
//! | `mode` | CLIENT TRACKING's options, CACHING and TRACKINGINFO |
//! | `table` | who has read which keys, by where they lie |
//! | `deadlines` | when values that were read expire |
//! | `traced` | what one request under way reads and writes |
//! | `mailbox` | what a client is still to be told |
//! | `message` | how it is told |

mod deadlines;
mod mailbox;
mod message;
mod mode;
mod table;
mod traced;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use smallvec::{SmallVec, smallvec};

use crate::layout::{Layout, Located as Placed, Physical, Revision};
use deadlines::Deadlines;
pub(crate) use mailbox::{Key, Mail, Mailbox, Stale};
pub(crate) use message::{publish, push, push_broken};
pub(crate) use mode::{Mode, Options};
use table::{Remembered, Table};
pub(crate) use traced::{Located, Traced};

/// Whom the clients of one proxy want to be told of what; shared by everything that serves them.
#[derive(Debug)]
pub struct Tracking {
    /// How many clients are told of anything: what every request asks first.
    trackers: AtomicUsize,
    /// How many of them are told of what others read.
    broadcasters: AtomicUsize,
    /// Something drives it.
    is_driven: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    trackers: BTreeMap<u64, Tracker>,
    table: Table,
    most_keys: usize,
    deadlines: Deadlines,
    source: Source,
    /// The layout by which keys were found where the table has them.
    layout: Option<Revision>,
    /// Who keeps the connections to the servers.
    driver: Option<Waker>,
    /// How often what servers say came to be in doubt.
    doubts: u64,
}

/// A client that is told.
#[derive(Debug)]
struct Tracker {
    mailbox: Arc<Mailbox>,
    /// In BCAST mode: the beginnings of the keys that it is told of.
    prefixes: Option<BTreeSet<Vec<u8>>>,
}

impl Tracker {
    fn hears(&self, key: &[u8]) -> bool {
        self.prefixes.iter().flatten().any(|prefix| key.starts_with(prefix))
    }
}

/// Whether servers tell what changes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    /// Nobody has asked them to.
    Asleep,
    /// Somebody wants it, and they are being asked.
    Wanted,
    /// They do.
    Standing,
    /// They did, and are being asked again.
    Broken,
    /// They don't: why.
    Failed(String),
}

/// Whether CLIENT TRACKING ON can be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// Not before the servers have been asked. All clients are woken then.
    Later,
    Refused(String),
}

impl Default for Tracking {
    fn default() -> Self {
        Self {
            trackers: AtomicUsize::new(0),
            broadcasters: AtomicUsize::new(0),
            is_driven: AtomicBool::new(false),
            state: Mutex::new(State {
                trackers: BTreeMap::new(),
                table: Table::default(),
                most_keys: usize::MAX,
                deadlines: Deadlines::default(),
                source: Source::Asleep,
                layout: None,
                driver: None,
                doubts: 0,
            }),
        }
    }
}

/// What keeps the connections on which servers tell, calls these.
impl Tracking {
    /// Whether the caller is the first, and is to keep those connections.
    pub fn take_over(&self) -> bool {
        !self.is_driven.swap(true, Ordering::AcqRel)
    }

    /// Bounds the keys that are remembered; one more puts others out, whose readers are told that they have changed.
    pub fn set_most_keys(&self, most_keys: usize) {
        self.state().most_keys = most_keys.max(1);
    }

    /// Waits until somebody wants to be told, or while that is so until there is something to look at: an expiry that
    /// comes before all others, a doubt, nobody any more.
    pub fn poll_stirred(&self, context: &mut Context<'_>, seen: &mut Seen) -> Poll<()> {
        let mut state = self.state();
        let now = Seen {
            wanted: state.source == Source::Wanted || !state.trackers.is_empty(),
            doubts: state.doubts,
            next_ms: state.deadlines.next_ms(),
        };
        if now == *seen {
            state.driver = Some(context.waker().clone());
            return Poll::Pending;
        }
        *seen = now;
        Poll::Ready(())
    }

    /// Servers tell of whatever changes from now on.
    pub fn stand(&self) {
        let mut state = self.state();
        state.source = Source::Standing;
        state.tell_all();
    }

    /// Whether all servers tell.
    pub fn is_standing(&self) -> bool {
        self.state().source == Source::Standing
    }

    /// Some server doesn't tell any more.
    pub fn break_off(&self) {
        self.state().break_off();
    }

    /// Servers can't be asked, or refuse it. Who is told already waits for them; whoever asks now is told why not. Whether
    /// there is anybody.
    pub fn fail(&self, why: &str) -> bool {
        let mut state = self.state();
        let is_wanted = state.source == Source::Wanted;
        if is_wanted {
            state.source = Source::Failed(why.to_owned());
        }
        is_wanted
    }

    /// Whether nobody is told of anything or wants to be; then no server need tell.
    pub fn rest(&self) -> bool {
        let mut state = self.state();
        let may_rest = state.trackers.is_empty() && state.source != Source::Wanted;
        if may_rest && !matches!(state.source, Source::Failed(_)) {
            state.source = Source::Asleep;
            state.forget_all();
        }
        may_rest
    }

    /// What the server says may have missed something: another server may be there by now.
    pub fn doubt(&self) {
        if self.any() {
            let mut state = self.state();
            state.break_off();
            state.doubts += 1;
            state.stir();
        }
    }

    /// These physical keys have changed.
    pub fn invalidate<'k>(&self, physicals: impl IntoIterator<Item = &'k [u8]>, layout: &Layout) {
        let mut state = self.state();
        for physical in physicals {
            state.invalidate(physical, layout);
        }
    }

    /// All keys have changed.
    pub fn flush(&self) {
        self.state().forget_all();
    }

    /// Tells of values that have expired by now.
    pub fn expire(&self, now_ms: i64, layout: &Layout) {
        let mut state = self.state();
        while let Some(key) = state.deadlines.take_due(now_ms) {
            state.invalidate_key(&key, layout);
        }
    }

    /// Another layout is in force: keys may lie elsewhere.
    pub fn follow_layout(&self, layout: &Layout) {
        let mut state = self.state();
        if state.layout != Some(layout.revision()) {
            state.layout = Some(layout.revision());
            state.forget_all();
        }
    }

    /// How many clients are told of anything.
    pub fn count(&self) -> usize {
        self.trackers.load(Ordering::Relaxed)
    }

    /// How many keys are remembered.
    pub fn keys(&self) -> usize {
        self.state().table.len()
    }
}

/// What a driver has seen of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Somebody is told, or wants to be.
    pub wanted: bool,
    /// How often it came to be in doubt whether servers tell of all that changes.
    pub doubts: u64,
    /// When the next value expires, by the server's clock.
    pub next_ms: Option<i64>,
}

/// What sessions call.
impl Tracking {
    /// Whether anybody is told of anything.
    pub(crate) fn any(&self) -> bool {
        self.trackers.load(Ordering::Relaxed) > 0
    }

    /// Whether anybody is told of what others read.
    pub(crate) fn any_broadcast(&self) -> bool {
        self.broadcasters.load(Ordering::Relaxed) > 0
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a client may ask to be told; has servers asked where that wasn't so yet.
    pub(crate) fn prepare(&self) -> Readiness {
        let mut state = self.state();
        match &state.source {
            Source::Standing | Source::Broken => Readiness::Ready,
            Source::Failed(why) => Readiness::Refused(why.clone()),
            Source::Wanted => Readiness::Later,
            Source::Asleep => {
                state.source = Source::Wanted;
                state.stir();
                Readiness::Later
            }
        }
    }

    /// The client is told from now on, or is told of something else.
    ///
    /// # Errors
    /// Servers don't tell: why. They are asked anew when the next client wants it.
    pub(crate) fn begin(&self, id: u64, mailbox: &Arc<Mailbox>, mode: &Mode) -> Result<(), String> {
        let mut state = self.state();
        match &state.source {
            Source::Standing | Source::Broken => {}
            Source::Failed(why) => {
                let why = why.clone();
                state.source = Source::Asleep;
                return Err(why);
            }
            Source::Asleep | Source::Wanted => return Err("nothing here listens to the server for it".to_owned()),
        }
        let tracker = Tracker { mailbox: Arc::clone(mailbox), prefixes: mode.broadcast.clone() };
        state.trackers.insert(id, tracker);
        self.count_trackers(&mut state);
        Ok(())
    }

    /// The client isn't told any more.
    pub(crate) fn end(&self, id: u64) {
        if self.any() {
            let mut state = self.state();
            state.trackers.remove(&id);
            self.count_trackers(&mut state);
        }
    }

    fn count_trackers(&self, state: &mut State) {
        let broadcasters = state.trackers.values().filter(|tracker| tracker.prefixes.is_some()).count();
        self.trackers.store(state.trackers.len(), Ordering::Relaxed);
        self.broadcasters.store(broadcasters, Ordering::Relaxed);
        state.stir();
    }

    /// Takes notes of one request.
    pub(crate) fn notes(&self) -> Notes<'_> {
        Notes { state: self.state() }
    }

    /// Notes when a value that was read expires, where the server won't tell.
    pub(crate) fn note_expiry(&self, key: &[u8], expires_at_ms: i64, layout: &Layout) {
        if !self.any() {
            return;
        }
        let mut state = self.state();
        if state.deadlines.len() >= state.most_keys {
            return state.invalidate_key(key, layout);
        }
        if state.deadlines.note(key, expires_at_ms) {
            state.stir();
        }
    }

    /// These were written by a client and the writes are answered: whoever has read them is told, before the server's own
    /// word comes. Where the writer wants not to be told of its own, it isn't, and `is_forgotten` says whether it is to be
    /// told later.
    pub(crate) fn settle(&self, writes: &[Located], writer: Option<u64>, is_forgotten: impl Fn(&Key) -> bool) {
        let mut state = self.state();
        for (places, key) in writes {
            for place in places {
                let Some(mut known) = state.table.take_key(place, key) else { continue };
                if let Some(writer) = writer
                    && let Ok(at) = known.readers.binary_search(&writer)
                {
                    known.readers.remove(at);
                    if !is_forgotten(key) {
                        state.table.note(place, key, Some(writer), false);
                    }
                }
                state.tell(&known);
            }
        }
    }

    /// Tells the clients in BCAST mode that want to be told of them.
    pub(crate) fn broadcast(&self, keys: &[Key]) {
        if !keys.is_empty() {
            let state = self.state();
            keys.iter().for_each(|key| state.broadcast(key));
        }
    }
}

/// Who reads.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reader {
    /// The client, where it is told of what it reads.
    pub(crate) id: Option<u64>,
    /// It is told of something, be it of what anybody reads.
    pub(crate) is_told: bool,
}

/// Takes notes of one request, before it is sent.
#[derive(Debug)]
pub(crate) struct Notes<'t> {
    state: MutexGuard<'t, State>,
}

impl Notes<'_> {
    /// The request reads this key, for a reader who is to be told, or for whoever is told of what others read. Who asked
    /// `is_told` of something itself, and gets it again behind the answer.
    pub(crate) fn note_read(
        &mut self,
        key: &[u8],
        Reader { id, is_told }: Reader,
        layout: &Layout,
        traced: &mut Traced,
    ) {
        let State { trackers, table, source, .. } = &mut *self.state;
        let broadcast = trackers.values().any(|tracker| tracker.hears(key));
        if id.is_none() && !broadcast {
            return;
        }
        if *source != Source::Standing {
            let key = Key::from(key);
            if is_told {
                traced.again.add(&key);
                traced.reads.push(Arc::clone(&key));
            }
            traced.broadcast_again.extend(broadcast.then_some(key));
            return;
        }
        let mut noted = None;
        for place in places(key, layout) {
            noted = Some(table.note(&place, key, id, broadcast));
        }
        traced.reads.extend(noted.filter(|_| is_told));
        while self.state.table.len() > self.state.most_keys {
            let put_out = self.state.table.take_any();
            put_out.iter().for_each(|known| self.state.tell(known));
        }
    }

    /// The request writes this key.
    pub(crate) fn note_write(&mut self, key: &[u8], layout: &Layout, traced: &mut Traced) {
        let places = places(key, layout);
        if places.iter().any(|place| self.state.table.find(place, key).is_some()) {
            traced.writes.push((places, key.into()));
        }
    }
}

/// Where a key may lie; nowhere where clients may not use it.
fn places(key: &[u8], layout: &Layout) -> SmallVec<[Box<[u8]>; 1]> {
    match layout.locate(key) {
        Placed::Plain => smallvec![key.into()],
        Placed::Reserved => SmallVec::new(),
        Placed::Placed(place) => smallvec![place.physical.as_slice().into()],
        Placed::Moving(moving) => {
            let name = |place: &Option<crate::layout::Place>| -> Box<[u8]> {
                place.as_ref().map_or(key, |place| place.physical.as_slice()).into()
            };
            smallvec![name(&moving.new), name(&moving.old)]
        }
    }
}

impl State {
    /// Has the driver look.
    fn stir(&mut self) {
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }

    /// Tells whoever has read a key.
    fn tell(&self, known: &Remembered) {
        for reader in &known.readers {
            if let Some(tracker) = self.trackers.get(reader) {
                tracker.mailbox.post(|own| own.add(&known.key));
            }
        }
        if known.broadcast {
            self.broadcast(&known.key);
        }
    }

    /// Tells the clients in BCAST mode that want to be told of it.
    fn broadcast(&self, key: &Key) {
        for tracker in self.trackers.values().filter(|tracker| tracker.hears(key)) {
            tracker.mailbox.post(|own| own.add(key));
        }
    }

    fn invalidate(&mut self, physical: &[u8], layout: &Layout) {
        match layout.read_physical(physical) {
            // Whoever changes a part changes the header that points to it, too.
            Physical::Administration | Physical::Part { .. } | Physical::Unknown => {}
            Physical::Spill { key, .. } => return self.invalidate_key(key, layout),
            Physical::Bucket(_) => {}
            Physical::Plain => return self.invalidate_own(physical, physical),
            Physical::Zipped { key, .. } => return self.invalidate_own(physical, &key),
        }
        self.table.take(physical).iter().for_each(|known| self.tell(known));
    }

    /// A key of its own has changed: clients in BCAST mode are told, whether it was read or not.
    fn invalidate_own(&mut self, physical: &[u8], key: &[u8]) {
        for mut known in self.table.take(physical) {
            known.broadcast = false;
            self.tell(&known);
        }
        if self.trackers.values().any(|tracker| tracker.hears(key)) {
            self.broadcast(&key.into());
        }
    }

    /// One key has changed, wherever it lies.
    fn invalidate_key(&mut self, key: &[u8], layout: &Layout) {
        for place in places(key, layout) {
            if let Some(known) = self.table.take_key(&place, key) {
                self.tell(&known);
            }
        }
    }

    fn break_off(&mut self) {
        if self.source == Source::Standing {
            self.source = Source::Broken;
            self.forget_all();
        }
    }

    /// All clients are to forget everything, and nothing is remembered for them any more.
    fn forget_all(&mut self) {
        self.table.clear();
        self.deadlines.clear();
        self.tell_all();
    }

    fn tell_all(&self) {
        self.trackers.values().for_each(|tracker| tracker.mailbox.post(Stale::add_all));
    }
}

#[cfg(test)]
mod tests;
