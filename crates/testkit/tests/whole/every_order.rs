//! Every order in which movers, a sweep and clients take their steps on one large set, before a real server.
//!
//! Movers, sweeps and clients are the core's own, and the scripts run in the server. A step is what one of them sends at once, with
//! the replies. Who takes the next one is chosen; a run is repeated from the beginning with other choices until all were made in which
//! the turn passes on so many times before its holder has ended.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::SystemTime;

use keyfold_core::drive::{Context, Conversations, Outside};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::layout::{Layout, LayoutFile, NamespaceIndex};
use keyfold_core::mover::{MOVED_AT_ONCE, Mover};
use keyfold_core::sweep::Sweep;
use keyfold_testkit::{Server, Value, Wire, found};

const FILE: &str = "[[namespace]]\nkeys = 'tags:{id:int}'\ntype = 'set'\nbucket = { span = 16 }\nvalue_limit = 64\n";
const KEY: &str = "tags:1";
/// Of these the writers' commands name the first nine.
const MEMBERS: u64 = MOVED_AT_ONCE + 88;

/// What was chosen at each place of a run, and of how many.
#[derive(Default)]
struct Choices {
    made: Vec<(usize, usize)>,
    at: usize,
}

impl Choices {
    fn next(&mut self, of: usize) -> usize {
        // The first run that calls a script has a step more: the server doesn't know it yet.
        if self.made.get(self.at).is_some_and(|(_, before)| *before != of) {
            self.made.truncate(self.at);
        }
        if self.at == self.made.len() {
            self.made.push((0, of));
        }
        self.at += 1;
        self.made[self.at - 1].0
    }

    /// Makes others; false where all were made.
    fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some((chosen, of)) = self.made.last_mut() {
            *chosen += 1;
            if chosen < of {
                return true;
            }
            self.made.pop();
        }
        false
    }
}

/// Numbers that no other of them draws.
struct Nonces(u64);

impl Nonces {
    fn draw(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

/// What the set has after each of the writer's commands, and how many of these were begun and are done.
#[derive(Default)]
struct History {
    states: Vec<BTreeSet<Vec<u8>>>,
    begun: usize,
    done: usize,
}

/// What a client asks, and what it makes of the answers.
enum Asks {
    /// One command behind the other, each with its answer.
    Writes(VecDeque<(&'static str, Vec<u8>)>),
    /// All members, so many times; and what was done when it began.
    Reads { times: usize, since: usize },
    /// Walks over all members.
    Walks { cursor: Option<Vec<u8>>, seen: BTreeSet<Vec<u8>> },
}

/// One of those who take steps.
struct Actor<'l> {
    acts: Acts<'l>,
    nonces: Nonces,
    wire: Wire,
    /// What it sends next, and how many replies that has.
    next: Option<(Vec<u8>, usize)>,
    steps: usize,
}

enum Acts<'l> {
    Moves(Box<Mover>, Context<'l>),
    Sweeps(Box<Sweep>, Context<'l>),
    Asks { asks: Asks, conversations: Box<Conversations<'l, ()>>, taken: u64, history: Rc<RefCell<History>> },
}

impl Actor<'_> {
    /// Finds what it sends next, if it hasn't ended.
    fn prepare(&mut self) {
        let (mut commands, nonces) = (Vec::new(), &mut || self.nonces.draw());
        let replies = match &mut self.acts {
            Acts::Moves(mover, context) => mover.next(&mut context.env(now_ms(), nonces), &mut commands),
            Acts::Sweeps(sweep, _) => sweep.next(&mut commands),
            Acts::Asks { asks, conversations, taken, history } => {
                if conversations.under_way() == 0
                    && let Some(words) = asks.next(&mut history.borrow_mut())
                {
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    conversations.begin(&words, (), &mut Outside { now_ms: now_ms(), nonces }).unwrap();
                }
                commands = std::mem::take(conversations.wire());
                let count = usize::try_from(conversations.commands() - *taken).unwrap();
                *taken += count as u64;
                (count > 0).then_some(count)
            }
        };
        self.next = replies.map(|replies| (commands, replies));
    }

    /// Takes all its steps, nobody else any.
    fn run_to_end(mut self) {
        while self.next.is_some() {
            self.step();
        }
    }

    /// Takes its next step.
    fn step(&mut self) {
        let (commands, count) = self.next.take().unwrap();
        self.wire.send_bytes(&commands).unwrap();
        let replies: Vec<_> = (0..count).map(|_| self.wire.reply().unwrap()).collect();
        let nonces = &mut || self.nonces.draw();
        match &mut self.acts {
            Acts::Moves(mover, context) => {
                mover.handle_replies(&replies, &mut context.env(now_ms(), nonces)).unwrap();
            }
            Acts::Sweeps(sweep, context) => {
                sweep.handle_replies(&replies, &context.env(now_ms(), nonces)).unwrap();
            }
            Acts::Asks { asks, conversations, history, .. } => {
                for reply in &replies {
                    conversations.handle_reply(reply, &mut Outside { now_ms: now_ms(), nonces }).unwrap();
                }
                while let Some(((), answer)) = conversations.poll_answer() {
                    asks.take_answer(&answer, &mut history.borrow_mut());
                }
            }
        }
        self.steps += 1;
        self.prepare();
    }
}

impl Asks {
    fn next(&mut self, history: &mut History) -> Option<Vec<Vec<u8>>> {
        match self {
            Self::Writes(commands) => {
                let (command, _) = commands.front()?;
                history.begun += 1;
                Some(words(command))
            }
            Self::Reads { times, since } => {
                *times = times.checked_sub(1)?;
                *since = history.done;
                Some(words(&format!("SMEMBERS {KEY}")))
            }
            Self::Walks { cursor, .. } => {
                let cursor = cursor.as_ref()?.clone();
                Some([words(&format!("SSCAN {KEY}")), vec![cursor, b"COUNT".to_vec(), b"200".to_vec()]].concat())
            }
        }
    }

    fn take_answer(&mut self, answer: &[u8], history: &mut History) {
        match self {
            Self::Writes(commands) => {
                let (command, expected) = commands.pop_front().unwrap();
                assert_eq!(answer.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{command}");
                history.done += 1;
            }
            Self::Reads { since, .. } => {
                let found = members_of(&Value::parse(answer).unwrap());
                let possible = &history.states[*since..=history.begun];
                let lacks: Vec<_> = possible.iter().map(|state| state.difference(&found).count()).collect();
                assert!(possible.contains(&found), "{} members, {lacks:?} lack", found.len());
            }
            Self::Walks { cursor, seen } => {
                let page = Value::parse(answer).unwrap();
                let [next, members] = page.elements().unwrap() else { panic!("{page:?}") };
                seen.extend(members_of(members));
                *cursor = Some(next.bytes().unwrap().to_vec()).filter(|next| next != b"0");
                if cursor.is_none() {
                    let stays = |member: &&Vec<u8>| history.states.iter().all(|state| state.contains(*member));
                    let missed =
                        history.states[0].iter().filter(stays).filter(|member| !seen.contains(*member)).count();
                    assert_eq!(missed, 0, "of {} that were seen", seen.len());
                }
            }
        }
    }
}

fn words(command: &str) -> Vec<Vec<u8>> {
    command.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn members_of(value: &Value) -> BTreeSet<Vec<u8>> {
    value.elements().unwrap().iter().map(|member| member.bytes().unwrap().to_vec()).collect()
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

/// Where the set lies when a run begins, and where it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// From its own name into parts.
    Fold,
    /// Back.
    Unfold,
    /// Into parts, but a mover died on the way; back again.
    Turned,
    /// Out of them, but a mover died on the way; and there again.
    TurnedBack,
    /// It stays in parts.
    Rests,
}

/// Who takes steps, beside one mover, or a sweep where the set stays where it is.
#[derive(Clone, Copy)]
struct Beside {
    writes: bool,
    reads: bool,
    walks: bool,
    another: bool,
}

const WRITES: Beside = Beside { writes: true, reads: false, walks: false, another: false };
const READS: Beside = Beside { reads: true, ..WRITES };
const WALKS: Beside = Beside { walks: true, ..WRITES };
const TWO_MOVE: Beside = Beside { another: true, ..WRITES };

struct Stage {
    server: Server,
    direct: Wire,
    settled: Layout,
    folding: Layout,
    unfolding: Layout,
    commands: &'static [&'static str],
    answers: Vec<Vec<u8>>,
    states: Vec<BTreeSet<Vec<u8>>>,
}

impl Stage {
    /// With what the writer is to be answered, as a plain set says it.
    fn new(commands: &'static [&'static str]) -> Self {
        let server = found().pop().unwrap().start(&[]).unwrap();
        let file = LayoutFile::parse(FILE).unwrap();
        let settled = Layout::parse_file(FILE).unwrap();
        let folding = Layout::default().plan_fold(&file).unwrap().layout;
        let unfolding = settled.plan_unfold(&[NamespaceIndex(0)]).unwrap().layout;
        let mut stage = Self {
            direct: server.connect().unwrap(),
            server,
            settled,
            folding,
            unfolding,
            commands,
            answers: Vec::new(),
            states: Vec::new(),
        };
        stage.begin_plain();
        for command in commands {
            let members = stage.plain_members();
            stage.states.push(members);
            let args = words(command);
            stage.answers.push(stage.direct.call(&args.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap());
        }
        let members = stage.plain_members();
        stage.states.push(members);
        stage
    }

    fn plain_members(&mut self) -> BTreeSet<Vec<u8>> {
        members_of(&self.direct.ask(&[b"SMEMBERS", KEY.as_bytes()]).unwrap())
    }

    fn begin_plain(&mut self) {
        let members: Vec<String> = (0..MEMBERS).map(|number| format!("m{number}")).collect();
        let mut args = vec![&b"SADD"[..], KEY.as_bytes()];
        args.extend(members.iter().map(String::as_bytes));
        self.direct.call(&[b"FLUSHALL"]).unwrap();
        self.direct.call(&args).unwrap();
    }

    fn context<'l>(&self, layout: &'l Layout) -> Context<'l> {
        let info =
            ServerInfo { name: self.server.flavor().name().to_owned(), version: self.server.version().to_string() };
        Context::without_data(layout, info)
    }

    fn actor<'l>(&self, number: u64, acts: Acts<'l>) -> Actor<'l> {
        let (nonces, wire) = (Nonces((number + 1) << 40), self.server.connect().unwrap());
        let mut actor = Actor { acts, nonces, wire, next: None, steps: 0 };
        actor.prepare();
        actor
    }

    fn mover<'l>(&self, number: u64, layout: &'l Layout) -> Actor<'l> {
        self.actor(number, Acts::Moves(Mover::new(b"*").into(), self.context(layout)))
    }

    fn client<'l>(&self, number: u64, layout: &'l Layout, asks: Asks, history: &Rc<RefCell<History>>) -> Actor<'l> {
        let conversations = Box::new(Conversations::new(self.context(layout)));
        self.actor(number, Acts::Asks { asks, conversations, taken: 0, history: Rc::clone(history) })
    }

    /// Has the set lie where it does at the beginning of this way; the layout that it goes on by.
    fn begin(&mut self, way: Way, deaths: &[usize], choices: &mut Choices) -> &Layout {
        self.begin_plain();
        if way != Way::Fold && way != Way::Turned {
            self.mover(100, &self.folding).run_to_end();
        }
        let (before, then) = match way {
            Way::Fold => return &self.folding,
            Way::Unfold => return &self.unfolding,
            Way::Rests => return &self.settled,
            Way::Turned => (&self.folding, &self.unfolding),
            Way::TurnedBack => (&self.unfolding, &self.folding),
        };
        let mut mover = self.mover(101, before);
        for _ in 0..deaths[choices.next(deaths.len())] {
            if mover.next.is_some() {
                mover.step();
            }
        }
        then
    }

    /// One run; how many steps it had.
    fn run(&mut self, way: Way, beside: Beside, effort: Effort, choices: &mut Choices) -> usize {
        let layout = self.begin(way, effort.deaths, choices).clone();
        let history = Rc::new(RefCell::new(History { states: self.states.clone(), ..History::default() }));
        let mut actors = match way {
            Way::Rests => vec![self.actor(0, Acts::Sweeps(Box::default(), self.context(&layout)))],
            _ => vec![self.mover(0, &layout)],
        };
        if beside.another {
            actors.push(self.mover(1, &layout));
        }
        if beside.writes {
            let commands = self.commands.iter().copied().zip(self.answers.iter().cloned()).collect();
            actors.push(self.client(2, &layout, Asks::Writes(commands), &history));
        }
        if beside.reads {
            actors.push(self.client(3, &layout, Asks::Reads { times: 2, since: 0 }, &history));
        }
        if beside.walks {
            let asks = Asks::Walks { cursor: Some(b"0".to_vec()), seen: BTreeSet::new() };
            actors.push(self.client(4, &layout, asks, &history));
        }
        let (mut turn, mut left) = (usize::MAX, effort.switches);
        loop {
            let ready: Vec<usize> = (0..actors.len()).filter(|at| actors[*at].next.is_some()).collect();
            if ready.is_empty() {
                break;
            }
            // It is no change of the turn where whoever has it has ended.
            let goes_on = ready.contains(&turn);
            turn = match (goes_on, left) {
                (true, 0) => turn,
                (true, _) => {
                    let others: Vec<usize> = ready.iter().copied().filter(|at| *at != turn).collect();
                    match choices.next(others.len() + 1) {
                        0 => turn,
                        other => {
                            left -= 1;
                            others[other - 1]
                        }
                    }
                }
                (false, _) => ready[choices.next(ready.len())],
            };
            actors[turn].step();
        }
        let steps = actors.iter().map(|actor| actor.steps).sum();
        drop(actors);
        self.check_end(way, &layout);
        steps
    }

    /// Movers that come later find what was left, and then the set is there, as a whole and in one place.
    fn check_end(&mut self, way: Way, layout: &Layout) {
        for number in 200..203 {
            self.mover(number, layout).run_to_end();
        }
        self.actor(300, Acts::Sweeps(Box::default(), self.context(layout))).run_to_end();
        let last = self.states.last().unwrap().clone();
        let history = Rc::new(RefCell::new(History { states: vec![last.clone()], ..History::default() }));
        self.client(301, layout, Asks::Reads { times: 1, since: 0 }, &history).run_to_end();
        let is_plain = matches!(way, Way::Unfold | Way::Turned);
        let kind = self.direct.call(&[b"TYPE", KEY.as_bytes()]).unwrap();
        assert_eq!(kind, if is_plain { &b"+set\r\n"[..] } else { b"+none\r\n" }, "{way:?}");
        let place = self.settled.locate(KEY.as_bytes()).place().unwrap();
        let is_there = self.direct.ask(&[b"HEXISTS", &place.physical, &place.field]).unwrap();
        assert_eq!(is_there.integer(), Some(i64::from(!is_plain)), "{way:?}");
        if is_plain {
            assert!(self.plain_members() == last, "{way:?}");
        }
    }
}

/// Tries every order.
fn try_all(beside: Beside, effort: Effort) {
    for (way, commands) in effort.ways {
        let mut stage = Stage::new(commands);
        let (mut choices, mut runs, mut steps) = (Choices::default(), 0, 0);
        loop {
            steps += stage.run(*way, beside, effort, &mut choices);
            runs += 1;
            if !choices.advance() {
                break;
            }
        }
        println!("{way:?}: {runs} runs, {} steps each", steps / runs);
    }
}

/// How much is tried.
#[derive(Clone, Copy)]
struct Effort {
    /// Where the set goes, and what is asked meanwhile.
    ways: &'static [(Way, &'static [&'static str])],
    /// How often the turn passes on before its holder has ended.
    switches: usize,
    /// After how many of its steps a mover has died; a move has nine.
    deaths: &'static [usize],
}

const QUICK: Effort = Effort {
    ways: &[
        (Way::Fold, CHANGES),
        (Way::Unfold, CHANGES),
        (Way::Turned, CHANGES),
        (Way::TurnedBack, CHANGES),
        (Way::Rests, RENAMES),
    ],
    switches: 1,
    deaths: &[5],
};

const LONG: Effort = Effort {
    ways: &[
        (Way::Fold, CHANGES),
        (Way::Fold, RENAMES),
        (Way::Unfold, CHANGES),
        (Way::Unfold, RENAMES),
        (Way::Turned, CHANGES),
        (Way::Turned, RENAMES),
        (Way::TurnedBack, CHANGES),
        (Way::TurnedBack, RENAMES),
        (Way::Rests, CHANGES),
        (Way::Rests, RENAMES),
    ],
    switches: 2,
    deaths: &[3, 5, 7],
};

/// They add, take out, count and ask, and have it expire.
const CHANGES: &[&str] = &[
    "SADD tags:1 new m1 m2",
    "SREM tags:1 m3 m4 none",
    "SMISMEMBER tags:1 m3 new m5",
    "SADD tags:1 m3",
    "EXPIRE tags:1 1000",
    "SCARD tags:1",
];

/// It goes to another key and comes back, and so does a copy in its place.
const RENAMES: &[&str] = &[
    "RENAME tags:1 tags:2",
    "SADD tags:2 new",
    "COPY tags:2 tags:3",
    "RENAME tags:2 tags:1",
    "SREM tags:1 m3",
    "RENAME tags:3 tags:1",
    "SADD tags:1 last",
];

#[test]
fn of_writes() {
    try_all(WRITES, QUICK);
}

#[test]
fn of_writes_and_reads() {
    try_all(READS, QUICK);
}

#[test]
fn of_writes_and_a_walk() {
    try_all(WALKS, QUICK);
}

#[test]
fn of_writes_and_two_movers() {
    try_all(TWO_MOVE, QUICK);
}

#[test]
#[ignore = "takes minutes: make model"]
fn of_writes_with_more_changes_of_the_turn() {
    try_all(WRITES, LONG);
}

#[test]
#[ignore = "takes minutes: make model"]
fn of_writes_and_reads_with_more_changes_of_the_turn() {
    try_all(READS, LONG);
}

#[test]
#[ignore = "takes minutes: make model"]
fn of_writes_and_a_walk_with_more_changes_of_the_turn() {
    try_all(WALKS, LONG);
}

#[test]
#[ignore = "takes minutes: make model"]
fn of_writes_and_two_movers_with_more_changes_of_the_turn() {
    try_all(TWO_MOVE, LONG);
}
