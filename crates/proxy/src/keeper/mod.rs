//! The keeper: this proxy stands still when it is asked to, and puts back a layout that was lost.
//!
//! One task asks the server what there is to see, and does what the core's [`Member`] decides. Where it is to stop, all
//! workers stop beginning requests and say when those under way are answered; then all go on together, by the same
//! layout or the next. Clients wait for some milliseconds; none is answered by one layout and carried out by another.

mod meaning;
mod nodes;
mod witnesses;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use keyfold_core::change::{
    Act, Answer, ChangeAttempt, Connection, Coordinator, Course, Found, HOLD_MS, Member, Obstacle, Owner, Register,
};
use keyfold_core::codec::Kinds;
use keyfold_core::layout::{Attempt, Epoch, Layout};
use keyfold_core::placement::Secrets;
use keyfold_core::stats::LayoutCounts;
use tokio::sync::{mpsc, oneshot, watch};

use crate::dictionaries;
use crate::folding::Folding;
use crate::membership::Membership;
use crate::order::{Order, Task};
use crate::upstream::{Errand, LinkError};
use meaning::Meaning;
use nodes::Nodes;
use witnesses::Witnesses;

/// How long to wait after the server could not be asked.
const RETRY: Duration = Duration::from_millis(100);

/// How long to wait between two steps of a change of its own.
const STEP: Duration = Duration::from_millis(3);

/// How long to wait after a change of its own that came to nothing, and how much longer at most.
const CHANGE_AGAIN: Duration = Duration::from_millis(400);
const CHANGE_SPREAD_MS: u64 = 600;

/// How often connections that were lost are closed where there are many.
const FORGET_EVERY: Duration = Duration::from_secs(10);

/// The task that keeps the workers' layout the server's.
pub(crate) fn keep(
    membership: Arc<Membership>,
    who: String,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    current: watch::Sender<Arc<Folding>>,
    kinds: Kinds,
    secrets: Secrets,
) -> Task {
    Box::new(move |errand| {
        let knows = current.borrow().layout.revision();
        let member = Member::new(membership.id(), &who, knows);
        let keeper = Keeper {
            nodes: Nodes::new(errand.another().unchecked().in_database(0)),
            errand: errand.unchecked().in_database(0),
            witnesses: Witnesses::default(),
            doubt: None,
            kinds,
            secrets,
            membership,
            member,
            workers,
            current,
            next: None,
            held_since: Cell::new(None),
            meaning: Meaning::default(),
            looked_on: 0,
            change: None,
            change_on: 0,
            change_after: Instant::now(),
            forget_after: Instant::now(),
            reported: None,
        };
        Box::pin(keeper.keep()) as Pin<Box<dyn Future<Output = ()>>>
    })
}

/// Why a round was broken off.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("the server doesn't tell of its layout: {0}")]
    Server(String),
    #[error("a witness can't be told of the change: {0}")]
    Witness(String),
}

/// How far a step of a change has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stepped {
    /// There is more to do.
    On,
    Over,
    GivenUp,
}

struct Keeper {
    /// To the server, or to the node of a cluster that is the home.
    errand: Errand,
    nodes: Nodes,
    witnesses: Witnesses,
    /// A layout that a witness knows of and the home doesn't.
    doubt: Option<Layout>,
    kinds: Kinds,
    secrets: Secrets,
    membership: Arc<Membership>,
    member: Member,
    workers: Vec<mpsc::UnboundedSender<Order>>,
    current: watch::Sender<Arc<Folding>>,
    /// A layout that was seen and isn't served yet.
    next: Option<Layout>,
    /// Since when clients wait.
    held_since: Cell<Option<Instant>>,
    /// What the register meant when it was last looked at.
    meaning: Meaning,
    /// The connection on which it looked last.
    looked_on: u64,
    /// A change of its own, to put back what was lost.
    change: Option<Coordinator>,
    /// The connection on which it was begun: it ends with that.
    change_on: u64,
    /// Not before this the next one is begun, so that others get their turn.
    change_after: Instant,
    /// Nor are lost connections closed before this where nothing depends on it.
    forget_after: Instant,
    /// What the operator was told last.
    reported: Option<String>,
}

impl Keeper {
    async fn keep(mut self) {
        loop {
            let rest = match self.round().await {
                Ok(rest) => rest,
                Err(broken) => {
                    self.give_way(&broken);
                    RETRY
                }
            };
            let stirred = tokio::time::timeout(rest, self.membership.stirred.notified()).await.is_ok();
            if stirred {
                // Whoever stirs does so every few milliseconds, until it is as it should be.
                tokio::time::sleep(STEP.min(rest)).await;
            }
        }
    }

    /// Asks, does what is to be done, and says how long to rest.
    async fn round(&mut self) -> Result<Duration, Broken> {
        // The home is asked after the witnesses.
        if self.member.is_calm() {
            self.witnesses.ask(&mut self.nodes).await;
        }
        self.look().await?;
        self.tend_witnesses().await?;
        self.mend_half().await?;
        let act = self.member.decide();
        if act != Act::Stop && self.member.serving().is_some() && self.held_since.get().is_some() {
            // It has not got as far as to stop, and need not any more.
            self.resume(None);
        }
        match act {
            Act::Rest if self.membership.has_many_lost() && Instant::now() >= self.forget_after => {
                self.forget_after = Instant::now() + FORGET_EVERY;
                // Where a server can't be asked they stay, until a change has to know.
                if let Err(broken) = self.forget_lost().await {
                    tracing::debug!(reason = %broken, "connections that were lost can't be closed now");
                }
            }
            Act::Rest => {}
            Act::Stop => self.stop().await?,
            Act::Answer(answer) => self.answer(&answer).await?,
            Act::Serve(layout) => {
                self.member.serves(layout);
                self.serve();
            }
        }
        self.tell();
        if self.change.is_none() && self.member.must_put_back() && Instant::now() >= self.change_after {
            self.begin_change();
        }
        let was_changing = self.change.is_some();
        match self.step_change().await {
            Ok(true) => return Ok(STEP),
            Ok(false) if was_changing => self.rest_from_changes(),
            Ok(false) => {}
            Err(broken) => {
                self.change = None;
                self.rest_from_changes();
                tracing::warn!(reason = %broken, "the layout can't be put back now; trying again");
                return Err(broken);
            }
        }
        Ok(Duration::from_millis(self.member.rest_ms()))
    }

    async fn look(&mut self) -> Result<(), Broken> {
        let replies = self.errand.ask(|wire| self.member.ask(wire)).await?;
        let served = Arc::clone(&self.current.borrow());
        let unbroken = std::mem::replace(&mut self.looked_on, self.errand.connections()) == self.errand.connections();
        if !unbroken {
            self.member.looks_anew();
        }
        let must_follow = unbroken && self.member.serving().is_some();
        let (secrets, known) = (&self.secrets, &mut self.meaning);
        let meaning = |register: &Register| {
            // Most looks find what the last one did.
            if known.register != *register || known.served != Some(served.layout.revision()) {
                *known = Meaning::of(register, &served, secrets, must_follow);
            }
            known.found
        };
        self.member.see(&replies, meaning).map_err(Broken::Server)?;
        if let Some(mut layout) = self.meaning.layout.take() {
            // What it needs is read before it is served: from then on nothing may fail.
            layout.adopt_codecs(&served.layout);
            let opened = dictionaries::open(&mut self.errand, &self.kinds, &mut layout).await;
            if opened.is_err() {
                self.meaning = Meaning::default();
            }
            opened?;
            self.next = Some(layout);
        }
        Ok(())
    }

    /// Has the witnesses of a cluster say what the home does.
    async fn tend_witnesses(&mut self) -> Result<(), Broken> {
        let (register, announced) = (self.member.register().clone(), self.member.sees_change());
        let tended = self.witnesses.tend(&register, announced, &self.secrets, &mut self.nodes).await?;
        if let Some(doubt) = tended {
            self.member.doubts(doubt.as_ref().map_or(Epoch(0), Layout::epoch));
            self.doubt = doubt;
        }
        Ok(())
    }

    /// Writes the half of the register that is gone. That changes nothing, so it takes no change of the layout.
    async fn mend_half(&mut self) -> Result<(), Broken> {
        if !self.meaning.is_half || self.member.sees_change() {
            return Ok(());
        }
        let served = Arc::clone(&self.current.borrow());
        let Found::InForce(found) = self.member.found() else { return Ok(()) };
        let layout = match &self.next {
            Some(next) if next.revision() == found => next,
            _ if served.layout.revision() == found => &served.layout,
            _ => return Ok(()),
        };
        if self.errand.ask_one(|wire| self.meaning.register.replace(layout, wire)).await? == b":1\r\n" {
            tracing::warn!("one of the two keys of the layout was lost, and has been written again");
        }
        Ok(())
    }

    /// Has all workers stop; where requests under way take too long, they go on.
    async fn stop(&mut self) -> Result<(), Broken> {
        let must_stop = self.member.found() == Found::Unreadable;
        let since = Instant::now();
        self.held_since.set(self.held_since.get().or(Some(since)));
        if !pause(&self.workers, patience(self.member.asked_to_stop())).await {
            if !must_stop {
                tracing::debug!(held = ?since.elapsed(), "requests under way took too long to be held back for a change of the layout");
                self.resume(None);
                self.member.go_on();
            }
            return Ok(());
        }
        self.forget_lost().await?;
        self.member.stopped();
        if must_stop {
            self.refuse(self.meaning.trouble.as_deref());
        }
        Ok(())
    }

    /// Has servers close connections that were lost with commands under way, so that they can't come upon those commands
    /// later. Only such as still bear this process's name: their numbers are another's after a restart.
    async fn forget_lost(&mut self) -> Result<(), Broken> {
        let lost = self.membership.lost();
        let own = Owner::Member(self.member.id().to_vec());
        let places: BTreeSet<_> = lost.iter().map(|(place, _)| place.as_ref()).collect();
        for place in places {
            let connections = self.nodes.list_at(place).await?;
            let is_lost = |one: &Connection| one.owner == own && lost.contains(&(place.cloned(), one.id));
            let left: Vec<Connection> = connections.into_iter().filter(is_lost).collect();
            self.nodes.close(&left).await?;
        }
        self.membership.forget_lost(&lost);
        Ok(())
    }

    async fn answer(&mut self, answer: &Answer) -> Result<(), Broken> {
        let was_serving = self.member.serving().is_some();
        let reply = self.errand.ask_one_here(|wire| self.member.answer(answer, wire)).await?;
        // A server that takes no writes can't be told; nobody can replace the layout then either.
        let carried_out = self.member.answered(answer, &reply).unwrap_or(false);
        if carried_out && !was_serving && self.member.serving().is_some() {
            self.serve();
        }
        Ok(())
    }

    /// Serves what the member says.
    fn serve(&mut self) {
        let served = Arc::clone(&self.current.borrow());
        let next = self.next.take().filter(|next| Some(next.revision()) == self.member.serving());
        let next = next.map(|layout| Arc::new(served.followed_by(layout)));
        if let Some(next) = &next {
            let held = self.held_since.get().map_or(Duration::ZERO, |since| since.elapsed());
            tracing::info!(epoch = %next.layout.epoch(), ?held, "the server's layout has changed; serving the new one");
            self.current.send_replace(Arc::clone(next));
            self.meaning = Meaning::default();
        }
        self.membership.set_serving(true, None);
        self.resume(next.as_ref());
    }

    fn resume(&self, next: Option<&Arc<Folding>>) {
        self.held_since.set(None);
        for worker in &self.workers {
            let _ = worker.send(Order::Resume(next.cloned()));
        }
    }

    /// Requests are answered with an error until the member serves again.
    fn refuse(&self, trouble: Option<&str>) {
        self.membership.set_serving(false, trouble);
        self.resume(None);
    }

    /// Tells the operator once of what it finds.
    fn tell(&mut self) {
        let news = match self.member.found() {
            Found::InForce(_) => None,
            Found::Lost => Some("the layout on the server is gone, or is one of before; putting it back".to_owned()),
            Found::Unreadable => self.meaning.trouble.clone(),
        };
        if news != self.reported {
            if let Some(news) = &news {
                tracing::error!("{news}");
                self.count(|counts| counts.found_lost += 1);
            }
            self.reported = news;
        }
        if self.member.serving().is_none() && self.member.found() == Found::Unreadable && !self.membership.is_serving()
        {
            self.refuse(self.meaning.trouble.as_deref());
        }
    }

    /// Begins to put in force again what this process knows.
    fn begin_change(&mut self) {
        let served = Arc::clone(&self.current.borrow());
        let of_witness = self.doubt.as_ref().and_then(|doubt| doubt.united(&served.layout).ok());
        let mut layout = match (self.member.found(), &self.meaning.put_back, &self.next) {
            _ if let Some(layout) = of_witness => layout,
            (Found::Lost, Some(layout), _) => layout.clone(),
            (Found::InForce(found), _, Some(next)) if next.revision() == found => next.affirmed(),
            _ => served.layout.affirmed(),
        };
        let (change, attempt) = self.errand.with_env(|env| ((env.nonces)(), (env.nonces)()));
        layout = layout.with_attempt(Attempt(attempt));
        let text = layout.to_stored();
        let base = match self.member.found() {
            Found::InForce(found) => self.meaning.base.max(found),
            Found::Lost | Found::Unreadable => self.meaning.base,
        };
        let base = self.doubt.as_ref().map_or(base, |doubt| base.max(doubt.revision()));
        let change = Coordinator::new(change, self.member.register().clone(), text.as_bytes(), base);
        self.change_on = self.looked_on;
        self.change = Some(match self.member.found() {
            // Its witnesses know what was lost.
            _ if self.nodes.are_cluster() => change.in_cluster(),
            Found::Lost => change.hearing_all(),
            Found::InForce(_) | Found::Unreadable => change,
        });
    }

    /// Lets others have their turn, for a time that no two choose alike.
    fn rest_from_changes(&mut self) {
        let random = self.errand.with_env(|env| (env.nonces)());
        self.change_after = Instant::now() + CHANGE_AGAIN + Duration::from_millis(random % CHANGE_SPREAD_MS);
    }

    /// A step of its own change; whether there is more to do.
    async fn step_change(&mut self) -> Result<bool, Broken> {
        let Some(mut change) = self.change.take() else { return Ok(false) };
        let stepped = self.take_step(&mut change).await;
        match &stepped {
            Ok(Stepped::On) => {
                self.change = Some(change);
                return Ok(true);
            }
            Ok(Stepped::Over) => {}
            // Whether the announcement still stands decides on what members and witnesses may be told.
            Ok(Stepped::GivenUp) | Err(Broken::Witness(_)) => {
                let replies = self.errand.ask(|wire| change.ask(wire)).await?;
                change.see(&replies).map_err(Broken::Server)?;
                self.errand.ask_one_here(|wire| change.withdraw(wire)).await?;
            }
            Err(_) => {}
        }
        self.nodes.release(&change).await;
        stepped.map(|stepped| stepped == Stepped::Over)
    }

    async fn take_step(&mut self, change: &mut Coordinator) -> Result<Stepped, Broken> {
        let replies = self.errand.ask(|wire| change.ask(wire)).await?;
        if self.errand.connections() != self.change_on {
            // Another server has the home by now: what it holds may be what was there before.
            return Err(LinkError::Closed.into());
        }
        change.see(&replies).map_err(Broken::Server)?;
        match change.decide() {
            Course::Wait(_) => {}
            Course::Announce(announcement) => {
                let reply = self.errand.ask_one_here(|wire| change.announce(&announcement, wire)).await?;
                change.announced(&announcement, &reply).map_err(Broken::Server)?;
            }
            Course::Warn => self.nodes.warn(change).await?,
            Course::List => change.listed(self.nodes.list().await?),
            Course::Close(connections) => {
                tracing::warn!(count = connections.len(), "closing connections of keyfold processes that don't answer");
                self.count(|counts| counts.connections_closed += connections.len() as u64);
                self.nodes.close(&connections).await?;
                change.closed();
            }
            Course::Activate => {
                let reply = self.errand.ask_one_here(|wire| change.activate(wire)).await?;
                if change.activated(&reply).map_err(Broken::Server)? {
                    self.count(|counts| counts.put_back += 1);
                    tracing::warn!(
                        "the layout that was lost has been put back; its keys are looked for in both places"
                    );
                    return Ok(Stepped::Over);
                }
            }
            Course::Done => return Ok(Stepped::Over),
            Course::GiveUp(obstacle) => {
                match obstacle {
                    Obstacle::Unheard(_) => tracing::warn!(%obstacle, "the layout that was lost is put back later"),
                    _ => tracing::debug!(%obstacle, "the layout is put back later"),
                }
                return Ok(Stepped::GivenUp);
            }
        }
        Ok(Stepped::On)
    }

    fn count(&self, note: impl FnOnce(&mut LayoutCounts)) {
        let mut counts = LayoutCounts::default();
        note(&mut counts);
        self.current.borrow().namespaces.layouts().add(counts);
    }

    /// The server can't be asked. Whoever serves goes on, and whoever waits gets to know.
    fn give_way(&mut self, broken: &Broken) {
        if self.member.serving().is_none() {
            let trouble = match broken {
                Broken::Link(why) => format!("the server can't be asked for its layout ({why}); trying again"),
                Broken::Server(error) | Broken::Witness(error) => error.clone(),
            };
            self.refuse(Some(&trouble));
        }
    }
}

/// How long requests under way may take while others are held back for this try of a change: less than its coordinator waits.
fn patience(attempt: Option<ChangeAttempt>) -> Duration {
    let hold_ms = attempt.map_or(HOLD_MS, ChangeAttempt::hold_ms);
    Duration::from_millis(hold_ms.unsigned_abs()) * 4 / 5
}

/// Has all workers stop beginning requests; false where requests under way took longer than this.
async fn pause(workers: &[mpsc::UnboundedSender<Order>], patience: Duration) -> bool {
    let mut quiet = Vec::new();
    for worker in workers {
        let (sender, receiver) = oneshot::channel();
        if worker.send(Order::Pause(patience, sender)).is_ok() {
            quiet.push(receiver);
        }
    }
    let mut all_quiet = true;
    for receiver in quiet {
        all_quiet &= receiver.await.unwrap_or(false);
    }
    all_quiet
}
