//! Carrying out what was worked out: by the script that compares what was read, or by MULTI and EXEC while it is watched.

use std::mem;

use super::queued::{Outcome, Queued, Scripted};
use super::scripted::Sender;
use super::{Guard, Phase, Transaction};
use crate::admin::guard_key;
use crate::command::Flags;
use crate::exchange::batch::{Batch, Commands};
use crate::exchange::key::Key;
use crate::exchange::load::Load;
use crate::exchange::script::{self, CompareAndSet};
use crate::exchange::time_span::TimeSpan;
use crate::exchange::watch::Watched;
use crate::exchange::work::takes_memory;
use crate::exchange::{Env, Io, Step, store};
use crate::resp::Reply;
use crate::slot::Slot;

impl Transaction {
    /// All commands were run: what they changed is written.
    pub(super) fn write(&mut self, env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        let keys = self.load.as_ref().map_or(&[][..], Load::keys);
        if store::needs_all_bytes(keys, &self.space) {
            return self.read_all(io);
        }
        match (store::plan_writes(env, keys, &self.space, self.notices), self.guard) {
            (Ok(writes), Guard::Watch) => Step::More(self.bound(writes.into_writes(), env, io.wire)),
            (Ok(mut writes), Guard::Compare) => {
                if writes.is_empty() {
                    // What was read must have been there at one moment.
                    store::check_all(&mut writes, keys, self.space.now_ms());
                } else if self.queue.iter().any(|queued| takes_memory(&queued.args[0])) {
                    writes.take_memory(&self.load.as_ref().map(Load::scratch_key).unwrap_or_default());
                }
                self.watched_until().into_iter().for_each(|at| writes.check_time(at));
                self.compare(writes, false, io.wire)
            }
            (Err(message), _) => self.give_up(format!("-{message}\r\n").into_bytes(), io),
        }
    }

    /// Sends the script, in a MULTI where the client watches keys of its own: there a server that doesn't know the
    /// script would say so too late, and gets its text.
    fn compare(&mut self, writes: CompareAndSet, with_text: bool, wire: &mut Vec<u8>) -> Step {
        let is_watching = self.watched.is_some() && self.attempts == 0;
        let (mut commands, mut script) = (Commands::default(), Vec::new());
        match is_watching || with_text {
            true => writes.send_with_text(&mut script),
            false => writes.send(&mut script),
        }
        commands.push_bytes(&script);
        let (batch, replies) = match is_watching {
            true => Batch::send_transaction(&commands, wire),
            false => Batch::send(&commands, wire),
        };
        self.phase = Phase::Comparing { batch, writes };
        Step::More(replies)
    }

    /// The script has answered.
    pub(super) fn compared(
        &mut self,
        answer: &[u8],
        mut writes: CompareAndSet,
        env: &Env<'_>,
        io: &mut Io<'_>,
    ) -> Step {
        match Reply::parse(answer) {
            Ok(Reply::Integer(1)) => self.finish(Vec::new(), env, io),
            Ok(Reply::Integer(_)) => self.begin_again(env, io),
            Ok(Reply::Error(error)) if error.starts_with(b"NOSCRIPT") => self.compare(writes, true, io.wire),
            Ok(Reply::Error(error)) if error.starts_with(b"OOM ") && self.may_be_let_through(&mut writes) => {
                self.compare(writes, true, io.wire)
            }
            Ok(Reply::Error(_)) => self.give_up(script::without_place(answer), io),
            _ => Step::Unexpected,
        }
    }

    /// Whether a server that is out of memory is to carry out the writes all the same, as it does those of plain keys: none of the commands
    /// needs more. Once a watch has ended with the EXEC that was refused, nothing is.
    fn may_be_let_through(&mut self, writes: &mut CompareAndSet) -> bool {
        let takes_memory = |queued: &Queued| queued.args.first().is_none_or(|name| takes_memory(name));
        if self.watched.is_some() || self.queue.iter().any(takes_memory) || mem::replace(&mut self.is_let_through, true)
        {
            return false;
        }
        self.load.as_ref().is_some_and(|load| writes.take_no_memory(&load.scratch_key()))
    }

    /// How long what the client watches is what it was, by expiries that no server notices.
    fn watched_until(&self) -> Option<i64> {
        self.watched.as_ref().and_then(Watched::expires_at_ms)
    }

    /// Bounds the time of EXEC, so that what was read as alive or as expired is still that when it is carried out, and what is watched too;
    /// with the number of replies to come.
    pub(super) fn bound(&mut self, writes: Vec<Vec<Vec<u8>>>, env: &mut Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let expiries = self.load.iter().flat_map(Load::keys).flat_map(Key::expiries);
        let has_effects = !writes.is_empty() || self.outcomes.iter().any(|outcome| matches!(outcome, Outcome::Passed));
        let expiries = expiries.filter(|_| has_effects).chain(self.watched_until());
        self.span = TimeSpan::of(expiries, self.space.now_ms());
        self.is_timed = self.span.is_some() && self.only_reads(&writes);
        let Some(span) = self.span.as_ref().filter(|_| !self.is_timed) else {
            return self.commit(&writes, env, wire);
        };
        let read = self.load.iter().flat_map(Load::keys).map(|key| key.logical.as_slice());
        let first = read.chain(self.watched.iter().flat_map(Watched::keys)).next().unwrap_or_default();
        let guard = self.guard_key.get_or_insert_with(|| guard_key(Slot::of(first), (env.nonces)()));
        let (batch, replies) = Batch::send(&span.commands(guard), wire);
        self.phase = Phase::Bounding { batch, writes };
        replies
    }

    /// Whether it can be carried out as often as need be: it changes nothing, and ends no watch of the client's.
    fn only_reads(&self, writes: &[Vec<Vec<u8>>]) -> bool {
        let reads = |queued: &Queued| queued.command.is_some_and(|command| command.flags.contains(Flags::READONLY));
        let mut passed =
            self.queue.iter().zip(&self.outcomes).filter(|(_, outcome)| matches!(outcome, Outcome::Passed));
        let is_passed_to_read = passed.all(|(queued, _)| reads(queued) && matches!(queued.script, Scripted::No));
        writes.is_empty() && self.hosted.is_empty() && self.watched.is_none() && is_passed_to_read
    }

    /// The time is bounded, or has run out.
    pub(super) fn bounded(
        &mut self,
        replies: &[Vec<u8>],
        writes: &[Vec<Vec<u8>>],
        env: &mut Env<'_>,
        io: &mut Io<'_>,
    ) -> Step {
        if let Some(error) = replies.iter().find(|reply| reply.starts_with(b"-")) {
            return self.give_up(error.clone(), io);
        }
        match self.span.as_ref().map(|span| span.holds(replies)) {
            Some(Some(true)) | None => Step::More(self.commit(writes, env, io.wire)),
            Some(Some(false)) => self.begin_again(env, io),
            Some(None) => Step::Unexpected,
        }
    }

    pub(super) fn commit(&mut self, writes: &[Vec<Vec<u8>>], env: &mut Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let (mut commands, mut scripts) = (Commands::default(), Sender::new(self.notices));
        if self.is_timed {
            scripts.push_time(&mut commands);
        }
        for before in self.hosted.values().flat_map(|hosting| &hosting.before) {
            scripts.uncounted.insert(commands.count() as usize);
            commands.push_bytes(before);
        }
        scripts.begin(&self.queue, &mut commands);
        let read = self.load.as_ref().map_or(&[][..], Load::keys);
        let outcomes = self.queue.iter().zip(&self.outcomes);
        for (queued, _) in outcomes.filter(|(_, outcome)| matches!(outcome, Outcome::Passed)) {
            if scripts.push(queued, read, env, &mut commands) {
                continue;
            }
            scripts.note_passed(queued);
            let mut args = queued.args.iter().map(Vec::as_slice).collect::<Vec<_>>();
            if let Some(hosting) = queued.keys().find_map(|key| self.hosted.get(key)) {
                args[1] = &hosting.name;
            }
            commands.push_passed(&args);
        }
        if self.is_timed {
            scripts.push_time(&mut commands);
        }
        self.uncounted = scripts.uncounted;
        for write in writes {
            commands.push(&write.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        for after in self.hosted.values().flat_map(|hosting| &hosting.after) {
            commands.push_bytes(after);
        }
        if let (Some(span), Some(guard)) = (&self.span, &self.guard_key)
            && span.until_ms.is_some()
            && !self.is_timed
        {
            commands.push(&[b"UNLINK", guard]);
        }
        let (batch, replies) = Batch::send_transaction(&commands, wire);
        self.phase = Phase::Committing(batch);
        replies
    }
}
