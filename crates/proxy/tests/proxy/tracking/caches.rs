//! Random clients with caches, behind two keyfolds, and random writers through either and past both.
//!
//! Commands go out in bursts on all connections before any answer is read, so that reads, writes and the word of changes
//! overtake one another. What holds: once nothing is written any more, soon every value in every cache is what the server
//! holds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keyfold_proxy::Handle;
use keyfold_testkit::random::Random;
use keyfold_testkit::{Server, Value, Wire, found};

use super::told::keys_of;
use crate::stage::{ALL_WAYS, address, call, eventually, proxy_before};

/// How many commands a run has, at least.
const COMMANDS: usize = 12_000;

/// So many commands are sent between two looks at all caches.
const QUIET_AFTER: usize = 300;

/// A value that is stale for longer is shown.
const SLOW: Duration = Duration::from_secs(5);

/// How a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plainly,
    OptIn,
    OptOut,
    Broadcast,
    /// On another connection of the same keyfold, by a message of RESP2.
    Redirected,
    /// It takes what it writes itself for what it has.
    NoLoop,
}

/// A command of a client that has a cache, whose answer is to come.
enum Asked {
    /// Its values are kept.
    Keys(Vec<String>),
    /// The same of the last answer of a transaction.
    Transaction(Vec<String>),
    /// It names what it wrote.
    Write(String),
    /// Its answer says nothing.
    Other,
}

struct Cache {
    way: Way,
    wire: Wire,
    /// What is told of what it reads, where that isn't told on its own connection.
    messages: Option<Wire>,
    asked: Vec<Asked>,
    values: BTreeMap<String, Value>,
}

impl Cache {
    fn new(proxy: &Handle, way: Way) -> Self {
        let connect = || Wire::connect(address(proxy)).unwrap();
        let (mut wire, mut messages) = (connect(), None);
        let options = match way {
            Way::Plainly => String::new(),
            Way::OptIn => " OPTIN".to_owned(),
            Way::OptOut => " OPTOUT".to_owned(),
            Way::Broadcast => " BCAST PREFIX user: PREFIX cart: PREFIX zip: PREFIX own: PREFIX plain".to_owned(),
            Way::NoLoop => " NOLOOP".to_owned(),
            Way::Redirected => {
                let mut listener = connect();
                let id = listener.ask(&[b"CLIENT", b"ID"]).unwrap().integer().unwrap();
                call(&mut listener, "SUBSCRIBE __redis__:invalidate");
                messages = Some(listener);
                format!(" REDIRECT {id}")
            }
        };
        if messages.is_none() {
            call(&mut wire, "HELLO 3");
        }
        assert_eq!(call(&mut wire, &format!("CLIENT TRACKING ON{options}")), "+OK\r\n");
        Self { way, wire, messages, asked: Vec::new(), values: BTreeMap::new() }
    }

    fn send(&mut self, command: &str, asked: Asked) {
        let args: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        self.wire.send(&args).unwrap();
        self.asked.push(asked);
    }

    /// Sends a command at random; how many that were.
    fn act(&mut self, random: &mut Random) -> usize {
        let (one, other) = (key(random), key(random));
        match random.below(10) {
            0 => {
                let command = write(random, &one);
                self.send(&command, Asked::Write(command.clone()));
                return 1;
            }
            1 | 2 => {
                self.send("CLIENT GETREDIR", Asked::Other);
                return 1;
            }
            _ => {}
        }
        match self.way {
            Way::OptIn => self.send("CLIENT CACHING YES", Asked::Other),
            Way::OptOut if random.below(4) == 0 => {
                self.send("CLIENT CACHING NO", Asked::Other);
                self.send(&format!("GET {one}"), Asked::Other);
                return 2;
            }
            _ => {}
        }
        match random.below(4) {
            0 => self.send(&format!("MGET {one} {other}"), Asked::Keys(vec![one, other])),
            1 => {
                self.send("MULTI", Asked::Other);
                self.send(&format!("MGET {one} {other}"), Asked::Other);
                self.send("EXEC", Asked::Transaction(vec![one, other]));
            }
            _ => self.send(&format!("GET {one}"), Asked::Keys(vec![one])),
        }
        2
    }

    /// Takes all answers that are to come, and what is told between them.
    fn take(&mut self) {
        for asked in std::mem::take(&mut self.asked) {
            let answer = loop {
                let reply = self.wire.reply().unwrap();
                match reply.starts_with(b">") {
                    true => self.forget(&reply),
                    false => break Value::parse(&reply).unwrap(),
                }
            };
            match asked {
                Asked::Keys(keys) => self.keep(keys, &answer),
                Asked::Transaction(keys) => {
                    if let Some([last]) = answer.elements() {
                        self.keep(keys, last);
                    }
                }
                // Whoever isn't told of its own writes must not keep what was there before.
                Asked::Write(command) if self.way == Way::NoLoop => {
                    command.split(' ').for_each(|word| drop(self.values.remove(word)));
                }
                Asked::Write(_) | Asked::Other => {}
            }
        }
        if let Some(mut messages) = self.messages.take() {
            messages.send(&[b"PING"]).unwrap();
            loop {
                let reply = messages.reply().unwrap();
                if Value::parse(&reply).unwrap().elements().is_some_and(|parts| parts[0].bytes() == Some(b"pong")) {
                    break;
                }
                self.forget(&reply);
            }
            self.messages = Some(messages);
        }
    }

    fn keep(&mut self, keys: Vec<String>, answer: &Value) {
        let values = answer.elements().map_or(vec![answer.clone()], <[Value]>::to_vec);
        for (key, value) in keys.into_iter().zip(values) {
            match value {
                Value::Error(_) => self.values.remove(&key),
                value => self.values.insert(key, value),
            };
        }
    }

    /// A value that it has and the server hasn't, as far as that says.
    fn stale(&mut self, plain: &mut Wire) -> Option<String> {
        self.send("CLIENT GETREDIR", Asked::Other);
        self.take();
        self.values.iter().find_map(|(key, value)| {
            let now = held(plain, key);
            let both_nothing = now.bytes().is_none() && value.bytes().is_none();
            // A keyfold whose connections were just closed answers by an error.
            let agree = matches!(now, Value::Error(_)) || now == *value || both_nothing;
            (!agree).then(|| format!("{:?} has {value:?} for {key}", self.way))
        })
    }

    fn forget(&mut self, push: &[u8]) {
        for key in keys_of(push) {
            match key.as_str() {
                "*" => self.values.clear(),
                key => drop(self.values.remove(key)),
            }
        }
    }
}

fn key(random: &mut Random) -> String {
    let family = ["user:", "cart:", "zip:", "own:", "plain"];
    format!("{}{}", random.pick(&family), random.below(12))
}

fn write(random: &mut Random, key: &str) -> String {
    let value = random.below(1000);
    match random.below(12) {
        0 => format!("DEL {key}"),
        1 => format!("APPEND {key} {value}"),
        2 => format!("SET {key} {value} PX {}", 1 + random.below(30)),
        3 => format!("PEXPIRE {key} {}", 1 + random.below(30)),
        4 => format!("SET {key} {}", "x".repeat(20 + random.index(1000))),
        5 => format!("MSET {key} {value} user:{} {value} plain{} {value}", value % 12, value % 12),
        6 => format!("RENAME {key} {}", self::key(random)),
        7 => format!("SETNX {key} {value}"),
        8 => format!("GETDEL {key}"),
        _ => format!("SET {key} {value}"),
    }
}

/// What the server holds, asked by a client without a cache.
fn held(wire: &mut Wire, key: &str) -> Value {
    wire.ask(&[b"GET", key.as_bytes()]).unwrap()
}

fn run(server: &Server, seed: u64) {
    let proxies = [proxy_before(server, ALL_WAYS), proxy_before(server, ALL_WAYS)];
    let mut random = Random::new(seed);
    let ways = [Way::Plainly, Way::OptIn, Way::OptOut, Way::Broadcast, Way::Redirected, Way::NoLoop];
    let mut caches: Vec<Cache> = proxies.iter().flat_map(|proxy| ways.map(|way| Cache::new(proxy, way))).collect();
    let mut writers: Vec<Wire> = proxies.iter().map(|proxy| Wire::connect(address(proxy)).unwrap()).collect();
    let mut direct = server.connect().unwrap();
    let (mut sent, mut quiet_at, mut kept, mut looks) = (0, QUIET_AFTER, 0, 0);
    let since = Instant::now();
    while sent < COMMANDS {
        let mut awaited = vec![0; writers.len()];
        for cache in &mut caches {
            for _ in 0..random.below(4) {
                sent += cache.act(&mut random);
            }
        }
        for (writer, awaited) in writers.iter_mut().zip(&mut awaited) {
            for _ in 0..random.below(4) {
                let key = key(&mut random);
                let command = write(&mut random, &key);
                writer.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>()).unwrap();
                *awaited += 1;
                sent += 1;
            }
        }
        match random.below(60) {
            0 => drop(call(&mut direct, "CLIENT KILL TYPE normal SKIPME yes")),
            1 => drop(call(&mut direct, &format!("SET plain{} past", random.below(12)))),
            2 if random.below(5) == 0 => drop(call(&mut writers[0], "PING")),
            _ => {}
        }
        for (writer, awaited) in writers.iter_mut().zip(awaited) {
            (0..awaited).for_each(|_| drop(writer.reply().unwrap()));
        }
        caches.iter_mut().for_each(Cache::take);
        if sent < quiet_at {
            continue;
        }
        quiet_at = sent + QUIET_AFTER;
        let looked = Instant::now();
        eventually(&format!("all caches agree with the server, after {sent} commands of seed {seed}"), || {
            let stale = caches.iter_mut().find_map(|cache| cache.stale(&mut writers[0]));
            if let (Some(stale), true) = (&stale, looked.elapsed() > SLOW) {
                eprintln!("{stale}");
                std::thread::sleep(SLOW);
            }
            stale.is_none()
        });
        kept += caches.iter().map(|cache| cache.values.len()).sum::<usize>();
        looks += 1;
    }
    assert!(kept > looks * 12, "caches that keep nothing are always right: {kept} values in {looks} looks");
    eprintln!(
        "{}, seed {seed}: {sent} commands, {kept} values compared in {looks} looks, {:?}",
        server.name(),
        since.elapsed()
    );
}

#[test]
fn caches_agree_with_the_server_in_the_end() {
    for (seed, binary) in (1..).zip(found()) {
        run(&binary.start(&[]).unwrap(), seed);
    }
}
