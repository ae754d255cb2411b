//! Commands on sets, compared with a plain server.
//!
//! A seeded stream of commands runs on the server and on a [`Space`](keyfold_core::string::Space) filled with what the commands
//! before left. Each goes in one transaction with the server's clock before and after it, its count of changes, and type,
//! members and expiry of every key that it names; what the server publishes of keys is read beside it. So the reply, the state,
//! the marks of a write and the events are all compared. The order of members is not, and what is drawn by chance is compared by
//! what must be so of it. `KEYFOLD_COMMANDS` sets how many commands run (50,000), `KEYFOLD_SEED` which (1).

mod drawn;
mod dumped;
mod exchange;
mod generate;

use crate::server::{Connection, Server};
use exchange::{Model, Observed, Outcome, Watched, run};
use generate::{Generator, KEYS};
use keyfold_core::collection::{Collection, Field, Set};
use keyfold_core::exchange::ServerInfo;
use keyfold_core::resp::{Protocol, Reply};
use keyfold_core::string::{Collected, Entry, Held};

/// So many commands apart, all keys are compared.
const ALL_KEYS_EACH: u64 = 50;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// Which server it is, as it answers to HELLO.
fn hello(connection: &mut Connection, protocol: Protocol) -> ServerInfo {
    let reply = connection.one(&["hello", if protocol == Protocol::Resp3 { "3" } else { "2" }]);
    let (Reply::Array(parts) | Reply::Map(parts)) = Reply::parse(&reply).unwrap() else { panic!("{}", show(&reply)) };
    let parts: Vec<Reply<'_>> = parts.collect();
    let field = |name: &[u8]| {
        let at = parts.iter().position(|part| *part == Reply::Bulk(name)).unwrap();
        String::from_utf8(parts[at + 1].bytes().unwrap().to_vec()).unwrap()
    };
    ServerInfo { name: field(b"server"), version: field(b"version") }
}

/// A stream of commands under way.
struct Comparison {
    watched: Watched,
    asks: Connection,
    protocol: Protocol,
    server: ServerInfo,
    generator: Generator,
    model: Model,
    compared: u64,
    refused: u64,
    straddled: u64,
}

impl Comparison {
    fn new(server: &Server, protocol: Protocol, seed: u64) -> Self {
        let mut connection = server.connect();
        let info = hello(&mut connection, protocol);
        let (watched, mut asks) = (Watched::new(connection, server.connect()), server.connect());
        // Of what is done there nothing is heard.
        asks.one(&["select", "9"]);
        let (generator, model) = (Generator::new(seed), Model::default());
        Self { watched, asks, protocol, server: info, generator, model, compared: 0, refused: 0, straddled: 0 }
    }

    /// Makes one key hold another type, on both sides.
    fn plant_another_type(&mut self) {
        let index = self.generator.below(KEYS.len());
        let hash = [(b"f".to_vec(), Field { value: b"x".to_vec(), expires_at_ms: None })].into_iter().collect();
        let hash = Collected { collection: Collection::Hash(hash), expires_at_ms: None };
        let (args, held) = match self.generator.below(4) {
            0 => (["rpush", "x", ""], Held::Other(b"list".to_vec())),
            1 => (["zadd", "1", "x"], Held::Other(b"zset".to_vec())),
            2 => (["hset", "f", "x"], Held::Collection(hash)),
            _ => (["set", "x", ""], Held::String(Entry { value: b"x".to_vec(), expires_at_ms: None })),
        };
        let mut command: Vec<&[u8]> = args.iter().filter(|arg| !arg.is_empty()).map(|arg| arg.as_bytes()).collect();
        command.insert(1, KEYS[index]);
        self.watched.connection.run(&[vec![b"del", KEYS[index]], command]);
        self.watched.forget_events();
        self.model.held[index] = held;
    }

    fn step(&mut self) {
        if self.generator.one_in(60) {
            self.plant_another_type();
        }
        let command = self.generator.command();
        let all_keys = self.compared.is_multiple_of(ALL_KEYS_EACH);
        let observed = self.watched.observe(&command, all_keys);
        self.generator.now_ms = observed.times_ms.end;
        self.learn_payload(&command, &observed);
        self.compared += 1;

        // The server reads its clock once for a transaction and again for some commands. Where both fall
        // into one millisecond, there is one time to compare at. Where a key expires in that very millisecond, Redis 8 may have
        // removed it already by its own search for such keys, or still show it.
        let last_ms = observed.times_ms.end;
        let times_ms = observed.times_ms.start..=last_ms + i64::from(self.model.expires_at(last_ms));
        let mut difference = None;
        for now_ms in times_ms.clone() {
            let seed = self.compared;
            let ours = run(&self.model, &command, now_ms, self.protocol, &self.server, seed, &mut self.asks);
            if ours.reply.starts_with(b"-ERR keyfold: ") {
                return self.forget_refused(&command, &ours.reply);
            }
            match self.difference_between(&command, &observed, &ours, now_ms) {
                Ok(after) => {
                    self.model = after;
                    return;
                }
                Err(found) => difference = difference.or(Some(found)),
            }
        }
        let difference = difference.unwrap();
        let shown = command.iter().map(|arg| show(arg)).collect::<Vec<_>>().join(" ");
        assert!(
            times_ms.start() < times_ms.end(),
            "after {} commands, at {:?}: {shown}\n  model   {:?}\n{difference}",
            self.compared,
            observed.times_ms,
            self.model.of(&command)
        );
        self.straddled += 1;
        self.model.resume_from(&observed);
    }

    /// What the keys hold after a command that both sides agree about; else what of the reply, the keys, the events and the marks
    /// differs, in words.
    fn difference_between(
        &mut self,
        command: &[Vec<u8>],
        observed: &Observed,
        ours: &Outcome,
        now_ms: i64,
    ) -> Result<Model, String> {
        let said = || format!("  server  {}\n  keyfold {}", show(&observed.reply), show(&ours.reply));
        let same = drawn::compare(command, &observed.reply, &ours.reply, &self.model, now_ms, &mut self.asks);
        same.map_err(|why| format!("  {why}\n{}", said()))?;
        if !observed.ran {
            return Ok(self.model.clone());
        }
        // What stores or restores deletes without looking whether the key has expired, and counts and tells that.
        let name = command[0].to_ascii_lowercase();
        let deletes = name == b"restore" || name.ends_with(b"store");
        let overlooked = deletes && observed.wrote && self.model.has_expired(&command[1], now_ms);
        if observed.wrote != ours.wrote && !overlooked {
            return Err(format!("  the server wrote: {}, keyfold: {}", observed.wrote, ours.wrote));
        }
        if observed.events != ours.events && !overlooked {
            return Err(format!("  events: server {:?}, keyfold {:?}", observed.events, ours.events));
        }
        let after = drawn::after(command, &observed.reply, ours, &self.model, now_ms)?;
        after.differs_from(observed, now_ms).map_or(Ok(after), Err)
    }

    fn learn_payload(&mut self, command: &[Vec<u8>], observed: &Observed) {
        if let (true, Ok(Reply::Bulk(payload))) =
            (command[0].eq_ignore_ascii_case(b"dump"), Reply::parse(&observed.reply))
        {
            let index = self.generator.below(40);
            match self.generator.payloads.get_mut(index) {
                Some(slot) => *slot = payload.to_vec(),
                None => self.generator.payloads.push(payload.to_vec()),
            }
        }
    }

    /// After a refusal the server has gone on without us: its keys are dropped on both sides.
    fn forget_refused(&mut self, command: &[Vec<u8>], ours: &[u8]) {
        let others = self.model.of(command).any(|held| matches!(held, Held::Other(_)));
        let may_refuse = others || [&b"restore"[..], b"copy"].iter().any(|name| command[0].eq_ignore_ascii_case(name));
        assert!(may_refuse, "refused without a reason: {}", show(ours));
        for (index, key) in KEYS.iter().enumerate() {
            if command[1..].iter().any(|arg| arg == key) {
                self.watched.connection.run(&[vec![&b"del"[..], key]]);
                self.model.held[index] = Held::Nothing;
            }
        }
        self.watched.forget_events();
        self.refused += 1;
    }
}

fn compare_commands(protocol: Protocol) {
    let Some(server) = Server::start() else { return };
    let seed = setting("KEYFOLD_SEED", 1) * 2 + u64::from(protocol == Protocol::Resp3);
    let mut comparison = Comparison::new(&server, protocol, seed);
    while comparison.compared < setting("KEYFOLD_COMMANDS", 50_000) / 2 {
        comparison.step();
    }
    let Comparison { compared, refused, straddled, server, .. } = comparison;
    println!(
        "{} {}: {compared} commands, no difference; {refused} refused, {straddled} between two milliseconds",
        server.name, server.version
    );
    assert!(straddled * 50 < compared, "too few commands had a time that is known");
    assert!(refused * 20 < compared, "too many commands were refused");
}

#[test]
fn commands_in_resp2() {
    compare_commands(Protocol::Resp2);
}

#[test]
fn commands_in_resp3() {
    compare_commands(Protocol::Resp3);
}

/// What OBJECT ENCODING says of sets that were just made, at the edges of what servers keep small.
#[test]
fn encodings_of_new_sets() {
    let Some(server) = Server::start() else { return };
    let mut connection = server.connect();
    let info = hello(&mut connection, Protocol::Resp2);
    let words = |prefix: &str, count: usize| (0..count).map(|word| format!("{prefix}{word}").into_bytes()).collect();
    let sets: [Vec<Vec<u8>>; 10] = [
        words("", 512),
        words("", 513),
        words("x", 128),
        words("x", 129),
        [words("", 128), vec![b"x".to_vec()]].concat(),
        [words("", 127), vec![b"x".to_vec()]].concat(),
        vec![vec![b'x'; 64]],
        vec![vec![b'x'; 65]],
        vec![b"007".to_vec()],
        vec![b"-9223372036854775808".to_vec(), b"9223372036854775807".to_vec()],
    ];
    let command = [b"OBJECT".to_vec(), b"ENCODING".to_vec(), KEYS[0].to_vec()];
    for members in sets {
        let added = [&[b"SADD".to_vec(), KEYS[0].to_vec()], &members[..]].concat();
        connection.run(&[vec![b"DEL".to_vec(), KEYS[0].to_vec()], added]);
        let mut model = Model::default();
        let set: Set = members.iter().cloned().collect();
        model.held[0] = Held::Collection(Collected { collection: Collection::Set(set), expires_at_ms: None });
        let servers = connection.run(&[command.to_vec()]).remove(0);
        let ours = run(&model, &command, 0, Protocol::Resp2, &info, 0, &mut connection);
        assert_eq!(ours.reply, servers, "{} members, the last {}", members.len(), show(&members[members.len() - 1]));
    }
}
