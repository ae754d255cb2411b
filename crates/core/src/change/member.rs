//! A member: a proxy, in the eyes of a layout's change.
//!
//! | it | and sees | then it |
//! | --- | --- | --- |
//! | serves | another epoch in force, or what it can't read | stops |
//! | serves | *hold* | stops, and gives up where what is under way takes too long |
//! | serves | *prepare* | answers *ready* |
//! | serves | nothing, or the register gone | goes on |
//! | has stopped | *hold*, and has patience | answers *ready*, then *held* |
//! | has stopped | *hold*, and has none any more | answers *serving*, and serves what is in force |
//! | has stopped | no *hold* | serves what is in force |
//! | has said *held* | neither the announcement nor another layout | has what it served put in force once more |
//!
//! The last is for a register that was set back: perhaps the layout was replaced when all had stopped, others serve the
//! new one, and this member would go on by the one before. A change of its own finds out, because every member's answer
//! says what it knows.
//!
//! It writes nothing but answers. Each is atomic with a check that its last answer and the announcement are still what
//! it has seen, and *held* is only said after *ready*: so a word that comes late, when the member has gone on since,
//! comes to nothing.

use super::Register;
use super::sight::{self, Sight};
use super::words::{Announcement, Answer, ChangeAttempt, Phase, Stance, parse};
use crate::admin::{ANSWERS_KEY, CHANGE_KEY};
use crate::exchange::CompareAndSet;
use crate::layout::{Epoch, Revision};
use crate::resp::Reply;

/// How often the server is asked while nothing happens, in milliseconds.
const CALM_MS: u64 = 1_000;
/// How often while a change is announced: this is most of the pause that clients see.
const BUSY_MS: u64 = 3;

/// What the register means to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Found {
    /// A layout that it can serve is in force.
    InForce(Revision),
    /// The layout is gone, damaged, or was set back to one of before: this process knows better, and puts back what it
    /// served. Until then only connections that lived all the time may go on.
    Lost,
    /// What is there can't be served, and is left as it is.
    #[default]
    Unreadable,
}

/// What a member is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing, until it asks again.
    Rest,
    /// Begin no request any more, and say by [`Member::stopped`] when none is under way, or by
    /// [`Member::go_on`] that they take too long.
    Stop,
    /// Send [`Member::answer`], and say by [`Member::answered`] what came of it.
    Answer(Answer),
    /// Serve this layout from now on, and say so by [`Member::serves`].
    Serve(Revision),
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    id: Vec<u8>,
    who: String,
    /// The layout it serves; none while it has stopped.
    serving: Option<Revision>,
    /// The one that it serves, or served last.
    knows: Revision,
    /// The change that it may have said *held* to, and doesn't know the end of.
    held: Option<Announcement>,
    /// The epoch that earlier ones, whose end it will never know, were to bring.
    held_before: Epoch,
    /// The newest epoch that a witness knows of, where that is ahead of the home's.
    doubt: Epoch,
    /// Since when it has stopped, by the server's clock.
    stopped_ms: i64,
    /// The try that it doesn't hold its clients back for any more.
    withdrawn: Option<ChangeAttempt>,
    /// What it saw last.
    seen: Seen,
}

/// What a member sees in the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Seen {
    now_ms: i64,
    answer: Option<Vec<u8>>,
    announcement: Option<Vec<u8>>,
    register: Register,
    found: Found,
}

impl Member {
    /// A member that serves nothing yet. `id` is its own for ever; `who` says to people who it is. `knows` is the layout
    /// that it was started with.
    pub fn new(id: &[u8], who: &str, knows: Revision) -> Self {
        let who = who.split_whitespace().collect();
        let (id, seen) = (id.to_vec(), Seen::default());
        let (none, doubt) = (Epoch(0), Epoch(0));
        Self {
            id,
            who,
            serving: None,
            knows,
            held: None,
            held_before: none,
            doubt,
            stopped_ms: 0,
            withdrawn: None,
            seen,
        }
    }

    /// Its id.
    pub fn id(&self) -> &[u8] {
        &self.id
    }

    /// The layout it serves; none while it has stopped.
    pub fn serving(&self) -> Option<Revision> {
        self.serving
    }

    /// The register when it looked last.
    pub fn register(&self) -> &Register {
        &self.seen.register
    }

    /// What that means to it.
    pub fn found(&self) -> Found {
        self.seen.found
    }

    /// Whether a change was announced when it looked last.
    pub fn sees_change(&self) -> bool {
        self.seen.announcement.is_some()
    }

    /// Whether it should have what it knows put in force again, as no one else is at it.
    pub fn must_put_back(&self) -> bool {
        !self.sees_change() && (self.seen.found == Found::Lost || self.is_unsure())
    }

    /// Whether it may be that the layout was replaced by a newer one than is seen.
    fn is_unsure(&self) -> bool {
        let Found::InForce(found) = self.seen.found else { return false };
        let stands = self.announced().map(|announced| announced.attempt.change);
        let last = self.held.filter(|held| Some(held.attempt.change) != stands).map_or(Epoch(0), |held| held.to);
        found.epoch < last.max(self.held_before).max(self.doubt)
    }

    /// Whether nothing is under way that it has to look at often.
    pub fn is_calm(&self) -> bool {
        self.rest_ms() == CALM_MS
    }

    /// In how many milliseconds it should ask again.
    pub fn rest_ms(&self) -> u64 {
        let waits = self.serving.is_none() && self.seen.found != Found::Unreadable;
        if waits || self.sees_change() { BUSY_MS } else { CALM_MS }
    }

    /// Asks the server what there is to see; how many replies that has.
    pub fn ask(&self, wire: &mut Vec<u8>) -> usize {
        sight::ask(Some(&self.id), wire)
    }

    /// Takes the replies to [`Self::ask`], in RESP2. `meaning` says what a register means to this process.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn see(&mut self, replies: &[Vec<u8>], meaning: impl FnOnce(&Register) -> Found) -> Result<(), String> {
        let Sight { now_ms, answers, announcement, register } = sight::read(replies)?;
        let answer = answers.and_then(Reply::bytes).map(<[u8]>::to_vec);
        let found = meaning(&register);
        self.seen = Seen { now_ms, answer, announcement, register, found };
        Ok(())
    }

    /// It asks on another connection than before: the server may have been set back meanwhile, to what it said before
    /// this member held. What is seen of that change is no proof then that nothing was replaced. Said before
    /// [`Self::see`]; and an answer must go out on the connection of the look that it answers.
    pub fn looks_anew(&mut self) {
        if let Some(held) = self.held.take() {
            self.held_before = self.held_before.max(held.to);
        }
    }

    /// In a cluster: a witness knows of a change to this epoch, which may have been in force and which the home, asked
    /// after it, doesn't know ([`Tending::Doubt`](super::witness::Tending::Doubt)); 0 where none does. It holds until this
    /// is called again: what the home says is not served anew, and is to be put forward with what the witness knows.
    pub fn doubts(&mut self, epoch: Epoch) {
        self.doubt = epoch;
    }

    /// What is to be done about what it saw.
    pub fn decide(&self) -> Act {
        let answer: Option<Answer> = self.seen.answer.as_deref().and_then(parse);
        let announced = self.announced().filter(|announced| self.withdrawn != Some(announced.attempt));
        let hold = announced.filter(|announced| announced.phase == Phase::Hold).map(|announced| announced.attempt);
        match (self.serving, self.seen.found) {
            (Some(serving), Found::InForce(found)) if found != serving => Act::Stop,
            (Some(_), Found::Unreadable) => Act::Stop,
            (Some(_), _) if hold.is_some() => Act::Stop,
            (Some(_), _) => self.say_ready(answer.as_ref(), announced),
            (None, _) if hold.is_some() => self.decide_held(answer.as_ref(), hold),
            (None, Found::InForce(found)) if !self.is_unsure() => Act::Serve(found),
            (None, _) => self.say_ready(answer.as_ref(), announced),
        }
    }

    fn decide_held(&self, answer: Option<&Answer>, hold: Option<ChangeAttempt>) -> Act {
        let Some(hold) = hold else { return Act::Rest };
        let could_serve = matches!(self.seen.found, Found::InForce(_)) && !self.is_unsure();
        if could_serve && !self.has_patience(hold) {
            // What it has said of this try is taken back first.
            return self.say(Stance::Serving(hold));
        }
        match answer.map(|answer| answer.stance) {
            Some(Stance::Held(held)) if held == hold => Act::Rest,
            Some(Stance::Ready(ready)) if ready.change == hold.change => self.say(Stance::Held(hold)),
            _ => self.say(Stance::Ready(hold)),
        }
    }

    fn say_ready(&self, answer: Option<&Answer>, announced: Option<Announcement>) -> Act {
        let Some(Announcement { attempt, .. }) = announced else { return Act::Rest };
        self.say_once(answer, Stance::Ready(attempt))
    }

    fn say_once(&self, answer: Option<&Answer>, stance: Stance) -> Act {
        if answer.is_some_and(|answer| answer.stance == stance) { Act::Rest } else { self.say(stance) }
    }

    fn say(&self, stance: Stance) -> Act {
        Act::Answer(Answer { stance, knows: self.knows, who: self.who.clone() })
    }

    fn announced(&self) -> Option<Announcement> {
        self.seen.announcement.as_deref().and_then(parse)
    }

    /// The try that it is asked to stop for.
    pub fn asked_to_stop(&self) -> Option<ChangeAttempt> {
        self.announced().filter(|announced| announced.phase == Phase::Hold).map(|announced| announced.attempt)
    }

    fn has_patience(&self, hold: ChangeAttempt) -> bool {
        (0..hold.patience_ms()).contains(&(self.seen.now_ms - self.stopped_ms))
    }

    /// It begins no request any more, and none is under way.
    pub fn stopped(&mut self) {
        self.serving = None;
        self.stopped_ms = self.seen.now_ms;
    }

    /// It goes on: what was under way when it was to stop takes too long. It has not said that it had stopped.
    pub fn go_on(&mut self) {
        self.withdrawn = self.asked_to_stop();
    }

    /// It serves this layout, as [`Act::Serve`] said.
    pub fn serves(&mut self, layout: Revision) {
        (self.serving, self.knows) = (Some(layout), layout);
        (self.held, self.held_before) = (None, Epoch(0));
    }

    /// Appends the atomic step that writes an answer; it has one reply, see [`Self::answered`].
    pub fn answer(&mut self, answer: &Answer, wire: &mut Vec<u8>) {
        if let (Stance::Held(attempt), Some(announced)) = (answer.stance, self.announced())
            && let Some(earlier) = self.held.replace(announced).filter(|held| held.attempt.change != attempt.change)
        {
            self.held_before = self.held_before.max(earlier.to);
        }
        let mut step = CompareAndSet::default();
        step.check(&[b"HGET", ANSWERS_KEY, &self.id], self.seen.answer.as_deref());
        step.check(&[b"GET", CHANGE_KEY], self.seen.announcement.as_deref());
        self.seen.register.check(&mut step);
        step.write(&[b"HSET", ANSWERS_KEY, &self.id, answer.to_string().as_bytes()]);
        step.send_with_text(wire);
    }

    /// The step came back: whether it was carried out.
    ///
    /// # Errors
    /// What the server said instead.
    pub fn answered(&mut self, answer: &Answer, reply: &[u8]) -> Result<bool, String> {
        let carried_out = sight::carried_out(reply)?;
        if carried_out {
            self.seen.answer = Some(answer.to_string().into_bytes());
            if let (Stance::Serving(attempt), Found::InForce(found)) = (answer.stance, self.seen.found) {
                self.serves(found);
                self.withdrawn = Some(attempt);
            }
        }
        Ok(carried_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::PATIENCE_MS;

    const EPOCH: Revision = Revision { epoch: Epoch(4), attempt: crate::layout::Attempt(9) };
    const NEXT: Revision = Revision { epoch: Epoch(5), attempt: crate::layout::Attempt(8) };
    const TRY: ChangeAttempt = ChangeAttempt { change: 7, number: 2 };

    fn announce(phase: Phase) -> Option<Vec<u8>> {
        Some(Announcement { attempt: TRY, phase, to: Epoch(5) }.to_string().into_bytes())
    }

    fn look(member: &mut Member, now_ms: i64, announcement: Option<Vec<u8>>, found: Found) -> Act {
        let answer = member.seen.answer.take();
        member.seen = Seen { now_ms, answer, announcement, register: Register::default(), found };
        member.decide()
    }

    fn serving() -> Member {
        let mut member = Member::new(b"m", "who ever", Revision::default());
        assert_eq!(look(&mut member, 0, None, Found::InForce(EPOCH)), Act::Serve(EPOCH));
        member.serves(EPOCH);
        assert_eq!(look(&mut member, 0, None, Found::InForce(EPOCH)), Act::Rest);
        member
    }

    fn stance(act: &Act) -> Option<Stance> {
        if let Act::Answer(answer) = act { Some(answer.stance) } else { None }
    }

    #[test]
    fn it_stops_for_another_layout_and_goes_on_where_there_is_none() {
        let mut member = serving();
        assert_eq!(look(&mut member, 1, None, Found::Lost), Act::Rest);
        assert_eq!(look(&mut member, 1, None, Found::InForce(NEXT)), Act::Stop);
        assert_eq!(look(&mut member, 1, None, Found::Unreadable), Act::Stop);
        member.stopped();
        assert_eq!(look(&mut member, 1, None, Found::Unreadable), Act::Rest);
        assert_eq!(look(&mut member, 1, None, Found::Lost), Act::Rest, "it is put back first");
        assert_eq!(look(&mut member, 1, None, Found::InForce(NEXT)), Act::Serve(NEXT));
    }

    #[test]
    fn it_says_ready_before_it_says_held() {
        for found in [Found::InForce(EPOCH), Found::Lost] {
            let mut member = serving();
            assert_eq!(look(&mut member, 0, announce(Phase::Hold), found), Act::Stop);
            member.stopped();
            for expected in [Stance::Ready(TRY), Stance::Held(TRY)] {
                let act = look(&mut member, 1, announce(Phase::Hold), found);
                assert_eq!(stance(&act), Some(expected));
                let Act::Answer(answer) = act else { unreachable!() };
                member.answer(&answer, &mut Vec::new());
                assert_eq!(member.answered(&answer, b":1\r\n"), Ok(true));
            }
            assert_eq!(look(&mut member, 2, announce(Phase::Hold), found), Act::Rest);
        }
        // One that has never served is in nobody's way.
        let mut member = Member::new(b"m", "", EPOCH);
        let act = look(&mut member, 10 * PATIENCE_MS, announce(Phase::Hold), Found::Lost);
        assert_eq!(stance(&act), Some(Stance::Ready(TRY)));
    }

    #[test]
    fn it_goes_on_by_the_same_layout_only_where_it_was_not_replaced() {
        let mut member = serving();
        look(&mut member, 0, announce(Phase::Hold), Found::InForce(EPOCH));
        member.stopped();
        let held = Answer { stance: Stance::Held(TRY), knows: EPOCH, who: String::new() };
        member.answer(&held, &mut Vec::new());
        // The coordinator has given it up for now.
        let act = look(&mut member.clone(), 1, announce(Phase::Prepare), Found::InForce(EPOCH));
        assert_eq!(act, Act::Serve(EPOCH));
        // Whatever became of it, somebody else has set it back.
        assert_eq!(look(&mut member, 1, None, Found::InForce(EPOCH)), Act::Rest);
        assert!(member.must_put_back());
        assert_eq!(look(&mut member, 1, None, Found::InForce(NEXT)), Act::Serve(NEXT));
        assert!(!member.must_put_back());
    }

    #[test]
    fn what_another_server_says_of_the_change_is_no_proof() {
        let mut member = serving();
        look(&mut member, 0, announce(Phase::Hold), Found::InForce(EPOCH));
        member.stopped();
        member.answer(&Answer { stance: Stance::Held(TRY), knows: EPOCH, who: String::new() }, &mut Vec::new());
        member.looks_anew();
        let act = look(&mut member, 1, announce(Phase::Prepare), Found::InForce(EPOCH));
        assert_eq!(stance(&act), Some(Stance::Ready(TRY)), "it doesn't serve");
        let act = look(&mut member, 2 * PATIENCE_MS, announce(Phase::Hold), Found::InForce(EPOCH));
        assert_eq!(stance(&act), Some(Stance::Ready(TRY)), "nor when its patience is over");
        assert_eq!(look(&mut member, 2, None, Found::InForce(EPOCH)), Act::Rest);
        assert!(member.must_put_back());
        assert_eq!(look(&mut member, 3, None, Found::InForce(NEXT)), Act::Serve(NEXT));
    }

    #[test]
    fn clients_are_held_back_for_no_longer_than_its_patience() {
        for (now_ms, goes_on) in [(0, false), (PATIENCE_MS - 1, false), (PATIENCE_MS, true), (-3_600_000, true)] {
            let mut member = serving();
            assert_eq!(look(&mut member, 0, announce(Phase::Hold), Found::InForce(EPOCH)), Act::Stop);
            member.stopped();
            let act = look(&mut member, now_ms, announce(Phase::Hold), Found::InForce(EPOCH));
            assert_eq!(stance(&act) == Some(Stance::Serving(TRY)), goes_on, "at {now_ms}");
            if let Act::Answer(answer) = act
                && goes_on
            {
                member.answered(&answer, b":1\r\n").unwrap();
                assert_eq!(member.serving(), Some(EPOCH));
                let act = look(&mut member, now_ms, announce(Phase::Hold), Found::InForce(EPOCH));
                assert_eq!(act, Act::Rest, "it doesn't stop twice for one try");
            }
        }
    }
}
