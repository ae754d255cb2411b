//! CLIENT TRACKING of one client: what it has chosen, which keys its requests read and write, and what it is told.

use smallvec::SmallVec;

use crate::clients::ClientFlags;
use crate::command::{Access, Categories, Command, Flags, Id};
use crate::exchange::Env;
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol};
use crate::session::route::Route;
use crate::session::{Plan, Session};
use crate::tracking::{Key, Mail, Mode, Notes, Options, Reader, Readiness, Stale, Traced, publish, push, push_broken};

impl Session {
    /// CLIENT TRACKING ON|OFF [options]
    pub(crate) fn track(&mut self, args: &[&[u8]], answer: &mut Answer<'_>) -> Result<(), String> {
        let clients = self.joined.clients();
        let options = Options::parse(&args[3..], |id| clients.find(id).is_some())?;
        if is_word(args[2], "on") {
            let mode = options.switch_on(self.tracked.as_deref())?;
            let begun = clients.tracking().begin(self.peer.id, self.entry().mailbox(), &mode);
            begun.map_err(|why| format!("ERR keyfold: CLIENT TRACKING is not possible: {why}"))?;
            self.tracked = Some(Box::new(mode));
        } else if is_word(args[2], "off") {
            self.end_tracking();
        } else {
            return Err("ERR syntax error".to_owned());
        }
        answer.ok();
        Ok(())
    }

    /// CLIENT CACHING YES|NO
    pub(crate) fn set_caching(&mut self, word: &[u8], answer: &mut Answer<'_>) -> Result<(), String> {
        Mode::set_caching(self.tracked.as_deref_mut(), word)?;
        answer.ok();
        Ok(())
    }

    /// The client is told of nothing any more.
    pub(crate) fn end_tracking(&mut self) {
        if self.tracked.take().is_some() {
            self.joined.clients().tracking().end(self.peer.id);
        }
    }

    /// What others see of it.
    pub(crate) fn tracking_flags(&self) -> ClientFlags {
        let mut flags = ClientFlags::empty();
        if let Some(mode) = &self.tracked {
            flags.insert(ClientFlags::TRACKING);
            flags.set(ClientFlags::BROKEN_REDIRECT, mode.broken);
            flags.set(ClientFlags::BROADCAST, mode.broadcast.is_some());
        }
        flags
    }

    /// Whether a planned request is CLIENT TRACKING ON, and servers have yet to say that they will tell what changes. All
    /// clients are woken then.
    pub fn awaits_tracking(&self, plan: &Plan, args: &[&[u8]]) -> bool {
        let wants = matches!(plan.route, Route::Local(command) if command.name == "client|tracking")
            && args.get(2).is_some_and(|word| is_word(word, "on"));
        wants && self.joined.clients().tracking().prepare() == Readiness::Later
    }

    /// Whether somebody is told of what the client reads now: then it must be the newest.
    pub(super) fn reads_for_cache(&self) -> bool {
        let tracking = self.joined.clients().tracking();
        tracking.any() && (self.tracked.is_some() || tracking.any_broadcast())
    }

    /// Remembers what a request reads, before it is sent, and what it writes.
    pub(crate) fn trace(&mut self, plan: &Plan, args: &[&[u8]], env: &Env<'_>) -> Option<Box<Traced>> {
        let tracking = self.joined.clients().tracking();
        if !tracking.any() || plan.route.is_local() {
            return None;
        }
        let mut traced = Box::<Traced>::default();
        let id = self.tracked.as_ref().is_some_and(|mode| mode.remembers()).then_some(self.peer.id);
        let reader = Reader { id, is_told: self.tracked.is_some() };
        let is_exec = matches!(plan.route, Route::Exec { .. });
        traced.overwrites = !is_exec && plan.command.is_some_and(|command| overwrites(command, args));
        let mut tracer = Tracer { notes: tracking.notes(), reader, env, traced: &mut traced };
        if is_exec {
            for queued in self.queue.iter().filter(|queue| !queue.spoilt).flat_map(|queue| &queue.commands) {
                let args: SmallVec<[&[u8]; 8]> = queued.args.iter().map(Vec::as_slice).collect();
                tracer.add(queued.command, &args);
            }
        } else {
            tracer.add(plan.command, args);
        }
        drop(tracer);
        (!traced.is_empty()).then_some(traced)
    }

    /// CLIENT CACHING concerned the request that has begun, be it a whole transaction.
    pub(crate) fn end_caching(&mut self, command: Option<&Command>) {
        if let Some(mode) = self.tracked.as_mut().filter(|mode| mode.caching)
            && self.queue.is_none()
            && command.is_none_or(|command| command.id != Id::Client && command.id != Id::ClientHelp)
        {
            mode.caching = false;
        }
    }

    /// Takes what there is to tell the client.
    pub(crate) fn take_mail(&self) -> Option<Mail> {
        self.entry().mailbox().take()
    }

    /// Whether the client wants not to be told what it has written itself, where it is told of what it reads.
    pub(crate) fn skips_own_writes(&self) -> bool {
        self.tracked.as_ref().is_some_and(|mode| mode.noloop && mode.broadcast.is_none())
    }

    /// A request is answered, and the answer is in `out`: whoever has read what it wrote is told, and the client what was
    /// told it while the request was under way. `is_read` says which keys it reads by other requests that are under way.
    pub(crate) fn settle(&mut self, traced: Traced, is_read: impl Fn(&Key) -> bool, out: &mut Vec<u8>) {
        let Traced { writes, overwrites, succeeded, is_idle, mut again, broadcast_again, held, .. } = traced;
        let skips = self.skips_own_writes();
        let is_own = skips && overwrites && succeeded;
        let tracking = self.joined.clients().tracking();
        if !is_idle && !writes.is_empty() {
            tracking.settle(&writes, skips.then_some(self.peer.id), |key| is_own && !is_read(key));
        }
        tracking.broadcast(&broadcast_again);
        match is_own {
            true => self.entry().mailbox().retract(|key| !is_read(key) && writes.iter().any(|(_, known)| known == key)),
            false => again.absorb(&held),
        }
        self.tell(&again, out);
    }

    /// Tells the client what to forget, or whom it redirects that to.
    pub(crate) fn tell(&mut self, stale: &Stale, out: &mut Vec<u8>) {
        let Some(mode) = self.tracked.as_deref_mut().filter(|_| !stale.is_empty()) else { return };
        match (mode.redirect, self.protocol) {
            (0, Protocol::Resp3) => push(stale, out),
            (0, Protocol::Resp2) => {}
            (redirect, protocol) => match self.joined.clients().find(redirect) {
                Some(entry) => entry.mailbox().post_redirected(stale),
                None => {
                    mode.broken = true;
                    if protocol == Protocol::Resp3 {
                        push_broken(redirect, out);
                    }
                    self.entry().note_state(&self.state(false));
                }
            },
        }
    }

    /// Tells the client what others redirect to it.
    pub(crate) fn tell_redirected(&self, stale: &Stale, out: &mut Vec<u8>) {
        match self.protocol {
            _ if stale.is_empty() => {}
            Protocol::Resp3 => push(stale, out),
            Protocol::Resp2 if self.subscriptions.subscribed() => publish(stale, out),
            Protocol::Resp2 => {}
        }
    }
}

/// Notes what commands read and write.
struct Tracer<'t, 'e> {
    notes: Notes<'t>,
    reader: Reader,
    env: &'t Env<'e>,
    traced: &'t mut Traced,
}

impl Tracer<'_, '_> {
    /// Notes the keys of a command as the server does (`trackingRememberKeys` in `call`): of one that only reads. A script
    /// may read all that it names.
    fn add(&mut self, command: Option<&Command>, args: &[&[u8]]) {
        let Some(command) = command else { return };
        let is_script = command.categories.contains(Categories::SCRIPTING);
        let reads = is_script || command.flags.contains(Flags::READONLY);
        let writes = command.flags.contains(Flags::WRITE) || is_script && !command.flags.contains(Flags::READONLY);
        if !reads && !writes || command.flags.contains(Flags::PUBSUB) {
            return;
        }
        for key in command.keys_in(args).iter() {
            let name = args[key.index];
            if reads {
                self.notes.note_read(name, self.reader, self.env.layout, self.traced);
            }
            if writes && !key.access.contains(Access::RO) {
                self.notes.note_write(name, self.env.layout, self.traced);
            }
        }
    }
}

/// Whether a command that answers OK has stored what it was given, whatever was there.
fn overwrites(command: &Command, args: &[&[u8]]) -> bool {
    match command.id {
        Id::Set => args.len() == 3,
        Id::Setex | Id::Psetex | Id::Mset => true,
        _ => false,
    }
}
