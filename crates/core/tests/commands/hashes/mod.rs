//! Commands on hashes, compared with every server at hand.
//!
//! A seeded stream of commands runs on the server and on a [`Space`](keyfold_core::string::Space) filled with what the commands
//! before left. Each goes in one transaction with the server's clock before and after it, its count of changes, what it tells
//! of keys, and every key's fields and expiries, so that the reply, the state, the marks of a write and the events are all
//! compared. `KEYFOLD_COMMANDS` sets how many commands run, on all servers together (60,000), `KEYFOLD_SEED` which (1), and
//! `KEYFOLD_SERVER` on which server alone, as in `redis 8`.

mod exchange;
mod generate;

use std::collections::BTreeSet;

use crate::server::Server;
use exchange::{Model, Observed, Ran, Sides, run};
use generate::{Generator, KEYS};
use keyfold_core::dialect::Dialect;
use keyfold_core::exchange::ServerInfo;
use keyfold_core::resp::{Protocol, Reply};
use keyfold_testkit::servers::{self, Binary};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn show_command(command: &[Vec<u8>]) -> String {
    command.iter().map(|arg| show(arg)).collect::<Vec<_>>().join(" ")
}

/// A stream of commands under way.
struct Comparison {
    sides: Sides,
    protocol: Protocol,
    info: ServerInfo,
    generator: Generator,
    model: Model,
    compared: u64,
    straddled: u64,
    /// What had expired the server had not removed, or what was to expire in that millisecond it had.
    unsettled: u64,
}

impl Comparison {
    fn new(server: &Server, protocol: Protocol, info: ServerInfo, seed: u64) -> Self {
        let mut connection = server.connect();
        connection.one(&["hello", if protocol == Protocol::Resp3 { "3" } else { "2" }]);
        connection.one(&["config", "set", "notify-keyspace-events", "KEAn"]);
        let mut events = server.connect();
        events.one(&["psubscribe", "__keyevent*"]);
        events.one(&["subscribe", "mark"]);
        let with_expiry = connection.one(&["hpexpiretime", "k", "fields", "1", "f"]).starts_with(b"*");
        let sides = Sides { connection, asks: server.connect(), events, with_expiry };
        let generator = Generator::new(seed, with_expiry);
        Self { sides, protocol, info, generator, model: Model::default(), compared: 0, straddled: 0, unsettled: 0 }
    }

    /// Makes one key hold another type, on both sides.
    fn plant_another_type(&mut self) {
        let index = self.generator.draws.below(KEYS.len());
        let (kind, args): (&str, &[&str]) =
            self.generator.draws.pick(&[("list", &["rpush", "x"]), ("zset", &["zadd", "1", "x"])]);
        let mut command: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        command.insert(1, KEYS[index]);
        self.sides.connection.run(&[vec![b"del", KEYS[index]], command]);
        self.model.held[index] = keyfold_core::string::Held::Other(kind.as_bytes().to_vec());
    }

    /// Has Valkey remove what had expired before the last command was over; it does so itself at some later time. Redis has done
    /// it when its fields were looked at.
    fn settle(&mut self, before: &Model, last_ms: i64) {
        let names: BTreeSet<Vec<u8>> = before.lost_fields(last_ms).chain(self.model.lost_fields(last_ms)).collect();
        if self.info.name != "valkey" || names.is_empty() {
            return;
        }
        self.model.drop_lost(last_ms);
        for key in KEYS {
            let gone: Vec<&[u8]> = names
                .iter()
                .filter(|name| self.model.fields(key).all(|(held, _)| held != name.as_slice()))
                .map(Vec::as_slice)
                .collect();
            if !gone.is_empty() {
                let count = gone.len().to_string();
                let mut command: Vec<&[u8]> = vec![b"hsetex", key, b"pxat", b"1", b"fields", count.as_bytes()];
                command.extend(gone.iter().flat_map(|name| [*name, b"x"]));
                self.sides.connection.run(&[command]);
            }
        }
    }

    fn step(&mut self) {
        let before = self.model.clone();
        self.compare_one();
        self.settle(&before, self.generator.draws.now_ms);
    }

    fn compare_one(&mut self) {
        if self.generator.draws.one_in(80) {
            self.plant_another_type();
        }
        let command = self.generator.command();
        let info = self.info.clone();
        let form = (self.protocol, Dialect::new(&info, false));
        self.compared += 1;
        let observed = match self.sides.observe(&command, &self.model) {
            Ok(observed) => observed,
            Err(reply) => panic!("{} was refused: {}", show_command(&command), show(&reply)),
        };
        self.generator.draws.now_ms = *observed.times_ms.end();
        // The server reads its clock once for a transaction and again for some commands. Where both fall
        // into one millisecond, there is one time to compare at.
        let mut difference = None;
        for now_ms in observed.times_ms.clone() {
            let ran = run(&self.model, &command, now_ms, form, &mut self.sides.asks);
            if ran.reply.starts_with(b"-ERR keyfold: ") {
                return self.forget(&command);
            }
            match self.difference(&command, &observed, &ran, now_ms) {
                None => {
                    self.model = ran.after;
                    return;
                }
                Some(found) => difference = difference.or(Some(found)),
            }
        }
        let (first, last) = (*observed.times_ms.start(), *observed.times_ms.end());
        // In the millisecond of its expiry a field is there to commands that read, and has expired to those of Valkey that write;
        // and a later server than Redis 7.0 may remove it by then, if it comes to it.
        let at_its_end = info.version != "7.0.15" && self.model.expires_at(last);
        let is_unsettled = at_its_end || info.name == "valkey" && self.model.lost_fields(last).next().is_some();
        assert!(
            first < last || is_unsettled,
            "after {} commands, at {first}: {}\n  model   {:?}\n{}",
            self.compared,
            show_command(&command),
            self.model,
            difference.unwrap()
        );
        self.straddled += u64::from(first < last);
        self.unsettled += u64::from(first == last);
        self.model.resume_from(&observed);
    }

    /// Removes what a command names on both sides. It was refused here, being none of this room on a key of another type, and
    /// the server has gone on.
    fn forget(&mut self, command: &[Vec<u8>]) {
        for (key, held) in KEYS.iter().zip(&mut self.model.held) {
            if command[1..].iter().any(|arg| arg == key) {
                self.sides.connection.run(&[vec![&b"del"[..], key]]);
                *held = keyfold_core::string::Held::Nothing;
            }
        }
    }

    /// What of the reply, the keys, the marks and the events differs, in words.
    fn difference(&self, command: &[Vec<u8>], observed: &Observed, ran: &Ran, now_ms: i64) -> Option<String> {
        let is_ttl = ["httl", "hpttl", "hexpiretime", "hpexpiretime"]
            .map(str::as_bytes)
            .contains(&&*command[0].to_ascii_lowercase());
        // In the millisecond of its expiry Redis shows when a field expires or not, by how the hash is encoded.
        let is_either = is_ttl && self.info.name == "redis" && self.model.expires_at(now_ms);
        if !is_either && !is_same_answer(command, &observed.reply, &ran.reply, &self.model) {
            return Some(format!("  server  {}\n  keyfold {}", show(&observed.reply), show(&ran.reply)));
        }
        // Valkey counts no change where HSETEX had nothing to remove.
        let is_harmless = ran.wrote && command[0].eq_ignore_ascii_case(b"hsetex");
        if observed.wrote != ran.wrote && !is_harmless {
            return Some(format!("  the server wrote: {}, keyfold: {}", observed.wrote, ran.wrote));
        }
        // What had expired before is told by others than the commands.
        let is_commands =
            |(key, event): &&(Vec<u8>, String)| event != "expired" || !self.model.has_expired(key, now_ms);
        let told: Vec<_> = observed.events.iter().filter(is_commands).collect();
        if self.model.lost_fields(now_ms).next().is_none() && told != ran.events.iter().collect::<Vec<_>>() {
            return Some(format!("  the server told {told:?}\n  keyfold         {:?}", ran.events));
        }
        ran.after.differs_from(observed, now_ms)
    }
}

/// Whether two replies are the same answer: that of a hash in any order, and of what is drawn one that is possible.
fn is_same_answer(command: &[Vec<u8>], servers: &[u8], ours: &[u8], model: &Model) -> bool {
    if servers == ours {
        return true;
    }
    let parts = |reply: &[u8]| match Reply::parse(reply) {
        Ok(Reply::Array(mut parts) | Reply::Map(mut parts)) => {
            let mut all = Vec::new();
            while let Some(part) = parts.next_raw() {
                all.push(part.to_vec());
            }
            Some(all)
        }
        _ => None,
    };
    let in_pairs = |parts: Vec<Vec<u8>>| parts.chunks(2).map(<[Vec<u8>]>::concat).collect::<BTreeSet<_>>();
    let name = command[0].to_ascii_lowercase();
    if name == b"hrandfield" && command.len() == 2 {
        return servers.starts_with(b"$") && ours.starts_with(b"$") && names_field(ours, &command[1], model);
    }
    let (Some(servers), Some(ours)) = (parts(servers), parts(ours)) else { return false };
    match name.as_slice() {
        b"hkeys" | b"hvals" => sorted(servers) == sorted(ours),
        b"hgetall" => servers.len() == ours.len() && in_pairs(servers) == in_pairs(ours),
        b"hscan" => {
            let whole = servers[0] == b"$1\r\n0\r\n" && command[2] == b"0";
            let [servers, ours] = [&servers[1], &ours[1]].map(|found| parts(found).unwrap());
            let without_values = command[3..].iter().any(|word| word.eq_ignore_ascii_case(b"novalues"));
            let set = |found: Vec<Vec<u8>>| if without_values { found.into_iter().collect() } else { in_pairs(found) };
            let (servers, ours): (BTreeSet<_>, BTreeSet<_>) = (set(servers), set(ours));
            servers == ours || !whole && servers.is_subset(&ours)
        }
        b"hrandfield" => {
            let has_flat_pairs = command.len() == 4 && ours.first().is_some_and(|part| part.starts_with(b"$"));
            let drawn: Vec<Vec<u8>> =
                if has_flat_pairs { ours.chunks(2).map(<[Vec<u8>]>::concat).collect() } else { ours.clone() };
            let may_repeat = command[2].starts_with(b"-");
            let are_different = drawn.iter().collect::<BTreeSet<_>>().len() == drawn.len();
            servers.len() == ours.len()
                && (may_repeat || are_different)
                && ours.iter().zip(&servers).all(|(ours, servers)| ours[0] == servers[0])
                && drawn.iter().all(|drawn| names_field(drawn, &command[1], model))
        }
        _ => false,
    }
}

fn sorted(mut parts: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    parts.sort();
    parts
}

/// Whether a bulk string, or the first of a pair, is a field of the hash, with its value where that follows.
fn names_field(drawn: &[u8], key: &[u8], model: &Model) -> bool {
    let bulk = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let drawn = drawn.strip_prefix(b"*2\r\n").unwrap_or(drawn);
    model.fields(key).any(|(name, value)| drawn == bulk(name) || drawn == [bulk(name), bulk(value)].concat())
}

fn compare_commands(binary: &Binary, protocol: Protocol, commands: u64) {
    let Some(server) = Server::start_program(binary.path()) else { return };
    let name = binary.name();
    let (flavor, version) = name.split_once(' ').unwrap();
    let info = ServerInfo { name: flavor.to_owned(), version: version.to_owned() };
    let seed = setting("KEYFOLD_SEED", 1) * 2 + u64::from(protocol == Protocol::Resp3);
    let mut comparison = Comparison::new(&server, protocol, info, seed);
    while comparison.compared < commands {
        comparison.step();
    }
    let Comparison { compared, straddled, unsettled, .. } = comparison;
    println!(
        "{name}: {compared} commands, no difference; {straddled} between two milliseconds, {unsettled} on expired fields"
    );
    assert!(straddled * 20 < compared, "too few commands had a time that is known");
    assert!(unsettled * 200 < compared, "too many commands met expired fields that were not removed");
}

fn compare_on_all(protocol: Protocol) {
    let wanted = std::env::var("KEYFOLD_SERVER").unwrap_or_default();
    // Before Redis 7.0 neither the time of an expiry nor two sections of INFO can be asked for.
    let mut binaries = servers::found_with_redis_7();
    binaries.retain(|binary| binary.name().starts_with(&wanted));
    let commands = setting("KEYFOLD_COMMANDS", 60_000) / 2 / u64::try_from(binaries.len().max(1)).unwrap();
    servers::each(&binaries, |binary| compare_commands(binary, protocol, commands));
}

#[test]
fn commands_in_resp2() {
    compare_on_all(Protocol::Resp2);
}

#[test]
fn commands_in_resp3() {
    compare_on_all(Protocol::Resp3);
}
