//! The naive model: every command at once, on one space, as a plain server would.

use keyfold_core::command::table;
use keyfold_core::dialect::Dialect;
use keyfold_core::resp::{Answer, Protocol, Reply as Resp};
use keyfold_core::string::{Call, Held, HelpRequest, Reply, Space, finish};

use super::fake_server::{Connection, FakeServer};
use super::steps::{KEYS, Step};

/// What a plain server would hold, and its clients' queues.
#[derive(Clone, Debug)]
pub struct Naive {
    space: Space,
    protocol: Protocol,
    clients: [NaiveClient; 2],
}

/// What it remembers of a client.
#[derive(Clone, Debug, Default)]
pub struct NaiveClient {
    queue: Option<Vec<Vec<Vec<u8>>>>,
}

impl Naive {
    /// An empty server at a time, in milliseconds since 1970.
    pub fn new(now_ms: i64) -> Self {
        Self { space: Space::new(now_ms), protocol: Protocol::Resp2, clients: Default::default() }
    }

    /// All clients speak RESP3 from now on.
    pub fn speak_resp3(&mut self) {
        self.protocol = Protocol::Resp3;
    }

    /// What each of [`KEYS`] holds.
    pub fn held(&self) -> Vec<Held> {
        KEYS.iter().map(|key| self.space.held(key).clone()).collect()
    }

    /// Itself where the keys hold what it says, none where they don't.
    ///
    /// A key that expires in this very millisecond may be gone: where a plain server would copy it for the
    /// rest of the millisecond, PEXPIREAT, which folding writes the copy with, removes it at once.
    pub fn settle(mut self, held: &[Held]) -> Option<Self> {
        for (key, held) in KEYS.iter().zip(held) {
            match (self.space.held(key), held) {
                (Held::String(entry), Held::Nothing) if entry.expires_at_ms == Some(self.space.now_ms()) => {
                    self.space.remove(key);
                }
                (expected, held) if expected == held => {}
                _ => return None,
            }
        }
        Some(self)
    }

    /// What it may be after a step that was answered so: none where it wouldn't answer so, two where the
    /// replies leave open which command came first. While keys are moved, one that expires in this very
    /// millisecond may be gone `early`.
    pub fn outcomes(&self, step: &Step, (reply, intruded): &(Vec<u8>, Option<Vec<u8>>), early: bool) -> Vec<Self> {
        let own = (step.client, &step.command, reply);
        let other = step.intruder.as_ref().zip(intruded.as_ref());
        let other = other.map(|((_, command), reply)| (1 - step.client, command, reply));
        let orders = match other {
            None => vec![vec![own]],
            Some(other) => vec![vec![own, other], vec![other, own]],
        };
        let mut outcomes = Vec::new();
        for order in orders {
            let mut after = self.clone();
            after.space.set_now_ms(step.now_ms);
            let mut answers_so = |client, command: &[Vec<u8>], reply: &[u8]| {
                if early {
                    after.end_the_moment();
                }
                after.run(client, command) == reply
            };
            if order.into_iter().all(|(client, command, reply)| answers_so(client, command, reply)) {
                outcomes.push(after);
            }
        }
        outcomes
    }

    /// Removes the keys that expire in this very millisecond.
    fn end_the_moment(&mut self) {
        for key in KEYS {
            if matches!(self.space.held(key), Held::String(entry) if entry.expires_at_ms == Some(self.space.now_ms())) {
                self.space.remove(key);
            }
        }
    }

    /// The reply to a step's command alone.
    pub fn answer(mut self, step: &Step) -> Vec<u8> {
        self.space.set_now_ms(step.now_ms);
        self.run(step.client, &step.command)
    }

    /// Runs a client's command and returns its reply.
    pub fn run(&mut self, client: usize, command: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut answer = Answer::new(&mut out, self.protocol);
        let queue = &mut self.clients[client].queue;
        match (command[0].as_slice(), queue) {
            (b"MULTI", Some(_)) => answer.error("ERR MULTI calls can not be nested"),
            (b"MULTI", queue) => {
                *queue = Some(Vec::new());
                answer.ok();
            }
            (b"DISCARD", queue @ Some(_)) => {
                *queue = None;
                answer.ok();
            }
            (b"EXEC", queue) if queue.is_some() => {
                let queue = queue.take().unwrap_or_default();
                answer.array(queue.len());
                for command in queue {
                    let reply = self.execute(&command);
                    Answer::new(&mut out, self.protocol).raw(&reply);
                }
            }
            (b"EXEC", _) => answer.error("ERR EXEC without MULTI"),
            (b"DISCARD", _) => answer.error("ERR DISCARD without MULTI"),
            (_, Some(queue)) => {
                queue.push(command.to_vec());
                answer.simple("QUEUED");
            }
            (_, None) => return self.execute(command),
        }
        out
    }

    fn execute(&mut self, command: &[Vec<u8>]) -> Vec<u8> {
        let args: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
        let run = table().resolve(&args).and_then(|command| command.run).expect("steps are string commands");
        let mut out = Vec::new();
        loop {
            let mut answer = Answer::new(&mut out, self.protocol);
            let flow = run(&Call { args: &args, dialect: Dialect::default() }, &mut self.space, &mut answer);
            let Err(ask) = finish(flow, &mut answer) else { return out };
            self.space.answer_ask(help(&ask));
        }
    }
}

/// Answers an ask by a server that holds nothing else.
fn help(ask: &HelpRequest) -> Vec<Reply> {
    let mut server = FakeServer::new(0);
    let mut connection = Connection::default();
    let read = |raw: Vec<u8>| match Resp::parse(&raw) {
        Ok(Resp::Bulk(bytes) | Resp::Simple(bytes)) => Reply::Bytes(bytes.to_vec()),
        Ok(Resp::Integer(number)) => Reply::Integer(number),
        Ok(Resp::Error(error)) => Reply::Error(String::from_utf8_lossy(error).into_owned()),
        _ => Reply::Nil,
    };
    ask.commands.iter().map(|command| read(server.run(&mut connection, command))).collect()
}
