//! Working the queue out: its commands run one after another on what was read, until one needs the server's help.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use super::queued::{Outcome, Queued, Worked, initial_outcomes, run_queued};
use super::scripted::strange_keys;
use super::{Guard, MOST_WATCHED, Phase, Transaction, places_of, too_many};
use crate::admin::scratch_key;
use crate::exchange::batch::Batch;
use crate::exchange::key::Key;
use crate::exchange::load::Load;
use crate::exchange::work::{GROWTH_LIMIT_BYTES, ask_commands};
use crate::exchange::{Env, Io, Step, in_place};
use crate::string::{Held, Space, Unread, WhyUnread};

/// How far the commands of a queue were run.
enum Ran {
    All,
    /// The server was asked something, or the transaction given up.
    Asked(Step),
    /// The one at this index works on more bytes than are read here.
    Large(usize),
}

impl Transaction {
    pub(super) fn loaded(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        if self.watch_is_broken(env) {
            return self.give_up_with_nil(io);
        }
        let is_other = |key: &Key| matches!(key.held(), Ok(Held::Other(_)));
        if !self.drawn_in.is_empty() && self.load.iter().flat_map(Load::keys).any(is_other) {
            return self.let_go(env, io);
        }
        if let Some(step) = self.look_at_script_keys(env, io) {
            return step;
        }
        self.hosted.clear();
        self.start_over(Space::new(env.now_ms).bounded(GROWTH_LIMIT_BYTES).seeded((env.nonces)()));
        self.work_out(env, io)
    }

    /// What scripts use has to be known whole; none where it is.
    fn look_at_script_keys(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Option<Step> {
        let strange = strange_keys(&self.queue, env);
        let used = || self.load.iter().flat_map(Load::keys).filter(|key| strange.contains(&key.logical));
        if let Some(error) = used().find_map(Key::undecodable).map(str::to_owned) {
            return Some(self.give_up(format!("-{error}\r\n").into_bytes(), io));
        }
        let is_coded = |(_, slot): (u64, Option<u8>)| slot.is_some();
        let lacks_bytes = used().flat_map(|key| key.spots()).any(|spot| spot.large_spill().is_some_and(is_coded));
        lacks_bytes.then(|| self.read_all(io))
    }

    /// A plain key holds another type than a string: the commands in `drawn_in` go to the server after all.
    fn let_go(&mut self, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        let drawn_in = mem::take(&mut self.drawn_in);
        let first = drawn_in[0];
        drawn_in.into_iter().for_each(|index| self.queue[index].folded = false);
        self.watch_after_all(first, "on another type", env, io)
    }

    /// Begins to work the queue out on what was read.
    fn start_over(&mut self, space: Space) {
        self.space = space.noting_events(self.notices.is_some());
        self.next = 0;
        self.outcomes = initial_outcomes(&self.queue);
        if let Some(load) = &self.load {
            load.fill(&mut self.space);
        }
    }

    /// Works the queue out until it needs the server's help.
    pub(super) fn work_out(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        loop {
            let step = match self.run_commands(env, io) {
                Ran::All => return self.write(env, io),
                Ran::Asked(step) => return step,
                Ran::Large(index) => self.work_elsewhere(index, env, io),
            };
            if let Some(step) = step {
                return step;
            }
        }
    }

    /// Runs the commands that have no answer yet, in order, until one can't go on.
    fn run_commands(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Ran {
        while let Some(queued) = self.queue.get(self.next) {
            let index = self.next;
            if !matches!(self.outcomes[index], Outcome::Open) {
                self.next += 1;
                continue;
            }
            // EXEC would end the watch, so what the server is asked goes without MULTI, on a scratch key of its own.
            let beside = scratch_key(queued.keys().next().unwrap_or_default());
            let scratch = [&beside, format!(":{:x}:", (env.nonces)()).as_bytes()].concat();
            if queued.keys().any(|key| self.hosted.contains_key(key)) {
                self.outcomes[index] = Outcome::Passed;
                continue;
            }
            let load = &self.load;
            let is_moving = |name: &[u8]| {
                load.iter().flat_map(Load::keys).any(|key| key.is_moving() && key.logical.as_slice() == name)
            };
            let (commands, answer_at) =
                match run_queued(queued, &mut self.space, self.protocol, env.dialect(), &scratch, is_moving) {
                    Worked::Large => return Ran::Large(index),
                    Worked::Undecodable(error) => {
                        return Ran::Asked(self.give_up(format!("-{error}\r\n").into_bytes(), io));
                    }
                    Worked::Out(known) => {
                        self.outcomes[index] = known;
                        continue;
                    }
                    Worked::Asks(ask) => (ask_commands(&ask, &scratch), None),
                    Worked::Shows(commands, answer_at) => (commands, Some(answer_at)),
                };
            let (batch, replies) = Batch::send(&commands, io.wire);
            self.phase = match answer_at {
                Some(answer_at) => Phase::Judging { batch, index, answer_at },
                None => Phase::Asking(batch),
            };
            return Ran::Asked(Step::More(replies));
        }
        Ran::All
    }

    /// The command at `index` works on more bytes than are read here: the server carries out all commands on its key,
    /// and on all others whose values are large, or they are read after all. None where the queue is to be worked out
    /// once more.
    fn work_elsewhere(&mut self, index: usize, env: &mut Env<'_>, io: &mut Io<'_>) -> Option<Step> {
        if self.guard == Guard::Compare {
            return Some(self.watch_after_all(index, "on a large value", env, io));
        }
        let Some(load) = &self.load else { return Some(Step::Wait) };
        let mut before = Space::new(env.now_ms);
        load.fill(&mut before);
        let mut on_key = BTreeMap::<&[u8], Vec<&Queued>>::new();
        for queued in &self.queue {
            queued.keys().for_each(|key| on_key.entry(key).or_default().push(queued));
        }
        let named: BTreeSet<&[u8]> = self.queue[index].keys().collect();
        // Each value that grows large has the whole queue begin again: after a first one all others are hosted.
        let many_grow = !self.hosted.is_empty();
        let mut hosted = Vec::new();
        for key in load.keys().iter().filter(|key| !self.hosted.contains_key(&key.logical)) {
            let logical = key.logical.as_slice();
            // Keys that the client watches are read too.
            let Some(commands) = on_key.get(logical) else { continue };
            let names = || commands.iter().map(|queued| queued.args[0].as_slice());
            let held = before.held(logical);
            let is_large = matches!(held, Held::Unread(Unread { why: WhyUnread::Large, .. }));
            let is_meant = named.contains(logical) || is_large || many_grow && names().any(in_place::writes);
            let is_alone = commands.iter().all(|queued| queued.foreign.is_none() && queued.keys == [1]);
            // Of what the server writes where it lies it isn't known beforehand what is to be published.
            let is_told = self.notices.is_some() && names().any(in_place::writes);
            if is_meant && is_alone && !is_told {
                hosted.extend(in_place::host(names(), key, held, env).map(|hosting| (logical.to_vec(), hosting)));
            }
        }
        let space = Space::new(env.now_ms);
        if hosted.iter().any(|(key, _)| named.contains(key.as_slice())) {
            self.hosted.extend(hosted);
            self.start_over(space.bounded(GROWTH_LIMIT_BYTES));
        } else if load.left_any_unread() {
            return Some(self.read_all(io));
        } else {
            // What the client asks for is made here.
            self.start_over(space);
        }
        None
    }

    /// Has the keys watched, so that the server can carry out the command at `index`.
    fn watch_after_all(&mut self, index: usize, what: &str, env: &Env<'_>, io: &mut Io<'_>) -> Step {
        self.guard = Guard::Watch;
        self.load_anew(env);
        if places_of(&self.load) > MOST_WATCHED {
            let error = too_many(&self.queue[index], what);
            return self.give_up(format!("-{error}\r\n").into_bytes(), io);
        }
        Step::More(self.watch(io.wire))
    }

    pub(super) fn read_all(&mut self, io: &mut Io<'_>) -> Step {
        let Some(load) = &mut self.load else { return Step::Wait };
        self.phase = Phase::Loading;
        Step::More(load.send_rest(io.wire))
    }
}
