//! The commands of one step, on their way to the node that has their slot, and once more where they were led elsewhere.
//!
//! ```text
//! GET a, MULTI, SET b 1, EXEC
//!
//!   node 1   ◀── GET a         ──▶  $1 x          handed out at once
//!            ◀── MULTI         ──▶  +OK           handed out at once
//!            ◀── SET b 1       ──▶  -MOVED …      kept: this unit is to be carried out elsewhere
//!            ◀── EXEC          ──▶  -EXECABORT …  kept
//!   node 2   ◀── MULTI … EXEC  ──▶  …             handed out, but for what was
//! ```
//! A *unit* is one command, or all from MULTI to EXEC: it is carried out whole or not at all. Whoever asked gets each
//! reply once, in order, and never learns of the way that it took. Where nothing is led elsewhere, a flight costs a look
//! at the first byte of each reply.

use std::collections::BTreeSet;
use std::ops::Range;

use super::Redirect;
use crate::command::{Command, Flags, Id, table};
use crate::resp::{Read, ReplyScanner, RequestReader, write_command};
use crate::slot::Slot;

/// A flight that was led nowhere so far: it needs its commands only if that changes, and whoever sent them keeps them.
#[derive(Debug)]
pub struct Direct {
    slot: Slot,
    /// How many replies its asker has had.
    handed_out: u32,
}

/// The commands of one step, all of one slot.
#[derive(Debug)]
pub struct Flight {
    direct: Direct,
    commands: Vec<u8>,
    detour: Option<Box<Detour>>,
}

/// What is known of a flight once one of its units was led elsewhere.
#[derive(Debug)]
struct Detour {
    units: Vec<Unit>,
    /// The units that are under way, in order.
    under_way: Vec<usize>,
    /// ASKING goes before each of them.
    asking: bool,
    /// How many replies have come to the first of these, that to ASKING included.
    had: usize,
    /// The reply that first led elsewhere, since they were last sent.
    cause: Option<Vec<u8>>,
}

#[derive(Debug)]
struct Unit {
    commands: Range<usize>,
    replies: usize,
    /// Those that have come. What was handed out before is empty here.
    answers: Vec<Vec<u8>>,
    /// One of them said that the unit was not carried out.
    is_led: bool,
}

/// What becomes of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// It is the asker's next reply.
    HandOut,
    /// It is kept until all have come.
    Kept,
}

/// How a flight goes on once all replies to what was sent last have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// These are the rest of the asker's replies, in order: those that were not handed out.
    Answered(Vec<Vec<u8>>),
    /// Some units are to be sent once more ([`Flight::send_again`]): this reply says where or when.
    /// [`Redirect::read`] reads it.
    Led(Vec<u8>),
}

impl Direct {
    /// Commands of this slot, of which nothing is answered.
    pub(super) fn new(slot: Slot) -> Self {
        Self { slot, handed_out: 0 }
    }

    /// The slot.
    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Takes the next reply, where it is the asker's. Where it is not, it leads elsewhere, and is the
    /// [flight](Self::into_flight)'s.
    #[inline]
    pub fn handle_reply(&mut self, reply: &[u8]) -> bool {
        let is_askers = Redirect::read(reply).is_none();
        self.handed_out += u32::from(is_askers);
        is_askers
    }

    /// The flight of these commands, with what was handed out of it.
    pub fn into_flight(self, commands: Vec<u8>) -> Flight {
        Flight { direct: self, commands, detour: None }
    }
}

impl Flight {
    /// Commands that are written one behind the other, all of this slot. Each has one reply.
    pub fn new(slot: Slot, commands: Vec<u8>) -> Self {
        Direct::new(slot).into_flight(commands)
    }

    /// The slot.
    pub fn slot(&self) -> Slot {
        self.direct.slot
    }

    /// Its commands are of this slot, as a node says that knows them better.
    pub fn place(&mut self, slot: Slot) {
        self.direct.slot = slot;
    }

    fn handed_out(&self) -> usize {
        self.direct.handed_out as usize
    }

    /// The commands.
    pub fn commands(&self) -> &[u8] {
        &self.commands
    }

    /// Takes the next reply to what was sent last.
    #[inline]
    pub fn handle_reply(&mut self, reply: &[u8]) -> Landed {
        if self.detour.is_none() && self.direct.handle_reply(reply) {
            return Landed::HandOut;
        }
        self.detour().handle_reply(reply)
    }

    fn detour(&mut self) -> &mut Detour {
        let handed_out = self.handed_out();
        let commands = &self.commands;
        self.detour.get_or_insert_with(|| Box::new(Detour::new(commands, handed_out)))
    }

    /// How it goes on, once all replies have come.
    pub fn outcome(&mut self) -> Outcome {
        let handed_out = self.handed_out();
        let Some(detour) = &mut self.detour else { return Outcome::Answered(Vec::new()) };
        match detour.cause.take() {
            Some(cause) => Outcome::Led(cause),
            None => Outcome::Answered(detour.take_answers(handed_out)),
        }
    }

    /// Whether a unit was led elsewhere at some time, so that replies wait for one another.
    pub fn is_led(&self) -> bool {
        self.detour.is_some()
    }

    /// Whether nothing changes by its commands, so that they may be carried out twice.
    pub fn only_reads(&self) -> bool {
        let mut only_reads = true;
        let all_read = self.each_command(|command, _| {
            let reads = |command: &Command| {
                command.flags.contains(Flags::READONLY) || matches!(command.id, Id::Multi | Id::Exec)
            };
            only_reads &= command.is_some_and(reads);
        });
        all_read && only_reads
    }

    /// Whether one of its commands is a script, which may answer what it likes.
    pub fn runs_scripts(&self) -> bool {
        let mut runs = false;
        self.each_command(|command, _| {
            let is_script = |command: &Command| {
                matches!(command.id, Id::Eval | Id::EvalRo | Id::Evalsha | Id::EvalshaRo | Id::Fcall | Id::FcallRo)
            };
            runs |= command.is_some_and(is_script);
        });
        runs
    }

    /// The keys that its commands name.
    pub fn keys(&self) -> BTreeSet<Vec<u8>> {
        let mut keys = BTreeSet::new();
        self.each_command(|command, args| {
            let Some(command) = command else { return };
            let named = command.keys_in(args);
            keys.extend(named.iter().filter_map(|key| args.get(key.index)).map(|key| key.to_vec()));
        });
        keys
    }

    /// Shows its commands, each with what the table knows of it; whether all of them could be read.
    fn each_command(&self, mut show: impl FnMut(Option<&Command>, &[&[u8]])) -> bool {
        let mut reader = RequestReader::default();
        let mut rest = self.commands.as_slice();
        while let Ok(Read::Request(len)) = reader.read(rest) {
            let args = reader.args(rest);
            show(table().resolve(&args), &args);
            rest = &rest[len..];
        }
        rest.is_empty()
    }

    /// Writes the units that were led elsewhere once more, for a node that takes them only after ASKING where `asking`;
    /// with the number of replies that will come.
    pub fn send_again(&mut self, asking: bool, wire: &mut Vec<u8>) -> u32 {
        self.detour();
        let Self { commands, detour: Some(detour), .. } = self else { return 0 };
        detour.send_again(commands, asking, wire)
    }

    /// The connection is lost, and nothing of it does harm if it is carried out twice: what had no answer is to be sent
    /// once more.
    pub fn lose(&mut self) {
        let detour = self.detour();
        for unit in detour.units.iter_mut().filter(|unit| unit.answers.len() < unit.replies) {
            unit.is_led = true;
        }
        detour.cause = None;
    }

    /// Gives up what was led elsewhere: the rest of the asker's replies, with this error for each that says so.
    pub fn give_up(&mut self, error: &[u8]) -> Vec<Vec<u8>> {
        let handed_out = self.handed_out();
        let detour = self.detour();
        for unit in detour.units.iter_mut().filter(|unit| unit.is_led) {
            unit.answers.resize(unit.replies, error.to_vec());
            for answer in unit.answers.iter_mut().filter(|answer| Redirect::read(answer).is_some()) {
                error.clone_into(answer);
            }
        }
        detour.take_answers(handed_out)
    }
}

impl Detour {
    /// Before anything is led elsewhere: so many replies have come, and were handed out.
    fn new(commands: &[u8], handed_out: usize) -> Self {
        let mut units = units(commands);
        let mut left = handed_out;
        for unit in &mut units {
            unit.answers = vec![Vec::new(); left.min(unit.replies)];
            left -= unit.answers.len();
        }
        let under_way: Vec<_> = (0..units.len()).filter(|at| units[*at].answers.len() < units[*at].replies).collect();
        let had = under_way.first().map_or(0, |first| units[*first].answers.len());
        Self { units, under_way, asking: false, had, cause: None }
    }

    fn handle_reply(&mut self, reply: &[u8]) -> Landed {
        let Some(&at) = self.under_way.first() else { return Landed::Kept };
        let unit = &mut self.units[at];
        self.had += 1;
        let asking = usize::from(self.asking);
        if self.had > asking {
            if Redirect::read(reply).is_some() {
                unit.is_led = true;
                self.cause.get_or_insert_with(|| reply.to_vec());
            }
            unit.answers.push(reply.to_vec());
        }
        if unit.answers.len() == unit.replies {
            self.under_way.remove(0);
            self.had = 0;
        }
        Landed::Kept
    }

    fn send_again(&mut self, commands: &[u8], asking: bool, wire: &mut Vec<u8>) -> u32 {
        self.under_way = (0..self.units.len()).filter(|at| self.units[*at].is_led).collect();
        (self.asking, self.had, self.cause) = (asking, 0, None);
        let mut replies = 0;
        for at in &self.under_way {
            let unit = &mut self.units[*at];
            if asking {
                write_command(wire, &[b"ASKING"]);
            }
            wire.extend_from_slice(&commands[unit.commands.clone()]);
            unit.is_led = false;
            unit.answers.clear();
            replies += unit.replies + usize::from(asking);
        }
        u32::try_from(replies).unwrap_or(u32::MAX)
    }

    fn take_answers(&mut self, handed_out: usize) -> Vec<Vec<u8>> {
        self.units.iter_mut().flat_map(|unit| std::mem::take(&mut unit.answers)).skip(handed_out).collect()
    }
}

/// The units that these commands are.
fn units(commands: &[u8]) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let (mut start, mut in_multi) = (0, false);
    while let Ok(Some(len)) = ReplyScanner::default().scan(&commands[start..]) {
        let command = start..start + len;
        let is = |name: &[u8]| commands[command.clone()] == *name;
        let (begins, ends) = (is(b"*1\r\n$5\r\nMULTI\r\n"), is(b"*1\r\n$4\r\nEXEC\r\n"));
        start = command.end;
        match units.last_mut() {
            Some(unit) if in_multi => {
                unit.commands.end = command.end;
                unit.replies += 1;
            }
            _ => units.push(Unit { commands: command, replies: 1, answers: Vec::new(), is_led: false }),
        }
        in_multi = (in_multi || begins) && !ends;
    }
    units
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn commands(texts: &[&str]) -> Vec<u8> {
        let mut wire = Vec::new();
        for text in texts {
            write_command(&mut wire, &text.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        }
        wire
    }

    fn flight(texts: &[&str]) -> Flight {
        Flight::new(Slot::of(b"a"), commands(texts))
    }

    /// Hands in replies; those that are handed out at once.
    fn land(flight: &mut Flight, replies: &[&str]) -> (Vec<String>, Outcome) {
        let is_handed_out = |reply: &&&str| flight.handle_reply(format!("{reply}\r\n").as_bytes()) == Landed::HandOut;
        let out = replies.iter().filter(is_handed_out).map(|reply| (*reply).to_owned()).collect();
        (out, flight.outcome())
    }

    fn answered(replies: &[&str]) -> Outcome {
        Outcome::Answered(replies.iter().map(|reply| format!("{reply}\r\n").into_bytes()).collect())
    }

    fn led(reply: &str) -> Outcome {
        Outcome::Led(format!("{reply}\r\n").into_bytes())
    }

    fn again(flight: &mut Flight, asking: bool) -> (Vec<u8>, u32) {
        let mut wire = Vec::new();
        let replies = flight.send_again(asking, &mut wire);
        (wire, replies)
    }

    const MOVED: &str = "-MOVED 15495 a:1";
    const ASK: &str = "-ASK 15495 a:2";

    #[test]
    fn what_is_led_nowhere_is_handed_out() {
        let mut flight = flight(&["GET a", "MULTI", "SET a 1", "EXEC"]);
        let replies = ["$-1", "+OK", "+QUEUED", "-ERR no"];
        assert_eq!(land(&mut flight, &replies), (replies.map(str::to_owned).into(), answered(&[])));
    }

    #[test]
    fn only_what_was_led_elsewhere_is_sent_again() {
        let mut flight = flight(&["GET a", "MULTI", "SET a 1", "EXEC", "GET b", "GET c"]);
        let (out, outcome) = land(&mut flight, &["$-1", "+OK", MOVED, "-EXECABORT x", ":1", MOVED]);
        assert_eq!((out, outcome), (vec!["$-1".to_owned(), "+OK".to_owned()], led(MOVED)));
        assert_eq!(again(&mut flight, false), (commands(&["MULTI", "SET a 1", "EXEC", "GET c"]), 4));
        let (out, outcome) = land(&mut flight, &["+OK", "+QUEUED", "*1", ASK]);
        assert_eq!((out, outcome), (vec![], led(ASK)));
        assert_eq!(again(&mut flight, true), (commands(&["ASKING", "GET c"]), 2));
        assert_eq!(land(&mut flight, &["+OK", ":9"]), (vec![], answered(&["+QUEUED", "*1", ":1", ":9"])));
    }

    #[test]
    fn asking_goes_before_each() {
        let mut flight = flight(&["GET a", "GET b"]);
        assert_eq!(land(&mut flight, &[ASK, ASK]).1, led(ASK));
        assert_eq!(again(&mut flight, true), (commands(&["ASKING", "GET a", "ASKING", "GET b"]), 4));
        assert_eq!(land(&mut flight, &["+OK", "$-1", "+OK", MOVED]).1, led(MOVED));
        assert_eq!(again(&mut flight, false), (commands(&["GET b"]), 1));
        assert_eq!(land(&mut flight, &[":2"]).1, answered(&["$-1", ":2"]));
    }

    #[test]
    fn what_is_given_up_is_an_error_of_ours() {
        let mut flight = flight(&["MULTI", "GET a", "EXEC", "GET b"]);
        assert_eq!(land(&mut flight, &["+OK", MOVED, "-EXECABORT x", ":1"]).1, led(MOVED));
        let given_up = flight.give_up(b"-CLUSTERDOWN x\r\n");
        assert_eq!(given_up, [&b"-CLUSTERDOWN x\r\n"[..], b"-EXECABORT x\r\n", b":1\r\n"]);
    }

    #[test]
    fn what_a_lost_connection_left_unanswered_is_sent_again() {
        let mut flight = flight(&["GET a", "GET b", "GET c"]);
        assert_eq!(land(&mut flight, &[":1"]), (vec![":1".to_owned()], answered(&[])));
        flight.lose();
        assert_eq!(again(&mut flight, false), (commands(&["GET b", "GET c"]), 2));
        assert_eq!(land(&mut flight, &[MOVED]), (vec![], led(MOVED)));
        flight.lose();
        assert_eq!(again(&mut flight, false).1, 2);
        assert_eq!(land(&mut flight, &[":2", ":3"]).1, answered(&[":2", ":3"]));
    }

    proptest! {
        /// Wherever units are led, and however often connections are lost, the asker has each reply once, in order.
        #[test]
        fn each_reply_is_had_once_and_in_order(
            sizes in prop::collection::vec(0_usize..4, 1..6),
            events in prop::collection::vec(0_u8..8, 0..60),
        ) {
            // A size of 0 is one command; others are so many within a MULTI.
            let mut texts = Vec::new();
            for (unit, size) in sizes.iter().enumerate() {
                match size {
                    0 => texts.push(format!("GET {unit}")),
                    size => {
                        texts.push("MULTI".to_owned());
                        texts.extend((0..*size).map(|at| format!("SET {unit} {at}")));
                        texts.push("EXEC".to_owned());
                    }
                }
            }
            let mut flight = flight(&texts.iter().map(String::as_str).collect::<Vec<_>>());
            let reply_to = |command: &[u8]| [b"$0;", command].concat();
            let expected: Vec<_> = texts.iter().map(|text| reply_to(&commands(&[text]))).collect();
            let (mut events, mut had) = (events.into_iter(), Vec::new());
            let mut wire = flight.commands().to_vec();
            loop {
                let mut replies = VecDeque::new();
                let (mut start, mut in_multi, mut aborts) = (0, false, false);
                while let Ok(Some(len)) = ReplyScanner::default().scan(&wire[start..]) {
                    let command = &wire[start..start + len];
                    start += len;
                    let is = |name: &str| command == commands(&[name]);
                    replies.push_back(match events.next() {
                        _ if is("ASKING") || is("MULTI") && events.len() == 0 => reply_to(command),
                        _ if is("EXEC") && aborts => b"-EXECABORT x\r\n".to_vec(),
                        Some(0) if !is("MULTI") => format!("{MOVED}\r\n").into_bytes(),
                        Some(1) if !is("MULTI") => format!("{ASK}\r\n").into_bytes(),
                        _ => reply_to(command),
                    });
                    let is_led = replies.back().is_some_and(|reply| Redirect::read(reply).is_some());
                    in_multi = (in_multi || is("MULTI")) && !is("EXEC");
                    aborts = (aborts || is_led) && in_multi;
                }
                let loses = events.next() == Some(2);
                let kept = if loses { replies.len() / 2 } else { replies.len() };
                for reply in replies.into_iter().take(kept) {
                    if flight.handle_reply(&reply) == Landed::HandOut {
                        had.push(reply);
                    }
                }
                let asking = if loses {
                    flight.lose();
                    false
                } else {
                    match flight.outcome() {
                        Outcome::Answered(rest) => {
                            had.extend(rest);
                            break;
                        }
                        Outcome::Led(reply) => matches!(Redirect::read(&reply), Some(Redirect::Ask(..))),
                    }
                };
                wire.clear();
                flight.send_again(asking, &mut wire);
            }
            prop_assert_eq!(had, expected);
        }
    }
}
