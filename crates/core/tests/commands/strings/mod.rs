//! String and key commands, compared with a plain server byte for byte.
//!
//! A seeded stream of commands runs on the server and on a [`Space`] filled with what the commands before
//! left. Each goes in one transaction with the server's clock before and after it, its count of changes,
//! and every key's value and expiry, so that the reply, the state and the marks of a write are all
//! compared. `KEYFOLD_COMMANDS` sets how many commands run (100,000), `KEYFOLD_SEED` which (1).

pub(crate) mod exchange;
pub(crate) mod generate;

use crate::server::{Connection, Server};
use exchange::{Model, Observed, observe, run};
use generate::{Generator, KEYS};
use keyfold_core::resp::{Protocol, Reply};
use keyfold_core::string::Held;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn show(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

/// A stream of commands under way.
struct Comparison {
    connection: Connection,
    asks: Connection,
    protocol: Protocol,
    generator: Generator,
    model: Model,
    compared: u64,
    refused: u64,
    straddled: u64,
}

impl Comparison {
    fn new(server: &Server, protocol: Protocol, seed: u64) -> Self {
        let mut connection = server.connect();
        connection.one(&["hello", if protocol == Protocol::Resp3 { "3" } else { "2" }]);
        let mut generator = Generator::new(seed);
        for setup in [
            &["set", "p", "12"][..],
            &["dump", "p"],
            &["set", "p", "abcabcabcabcabcabcabcabcabcabcabcabcabcabcabcabc"],
            &["dump", "p"],
            &["del", "p"],
            &["rpush", "p", "x"],
            &["dump", "p"],
            &["del", "p"],
        ] {
            let reply = connection.one(setup);
            if let (Ok(Reply::Bulk(payload)), "dump") = (Reply::parse(&reply), setup[0]) {
                generator.payloads.push(payload.to_vec());
            }
        }
        let (asks, model) = (server.connect(), Model::default());
        Self { connection, asks, protocol, generator, model, compared: 0, refused: 0, straddled: 0 }
    }

    /// Makes one key hold another type, on both sides.
    fn plant_another_type(&mut self) {
        let index = self.generator.below(KEYS.len());
        let plants: &[(&str, &[&str])] = &[
            ("list", &["rpush", "x"]),
            ("set", &["sadd", "x"]),
            ("hash", &["hset", "f", "x"]),
            ("zset", &["zadd", "1", "x"]),
            ("stream", &["xadd", "*", "f", "x"]),
        ];
        let (kind, args) = self.generator.pick(plants);
        let mut command: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        command.insert(1, KEYS[index]);
        self.connection.run(&[vec![b"del", KEYS[index]], command]);
        self.model.held[index] = Held::Other(kind.as_bytes().to_vec());
    }

    fn step(&mut self) {
        if self.generator.one_in(60) {
            self.plant_another_type();
        }
        let command = self.generator.command();
        let observed = observe(&mut self.connection, &command);
        self.generator.now_ms = observed.times_ms.end;
        self.learn_payload(&command, &observed);
        self.compared += 1;

        // The server reads its clock once for a transaction and again for some commands. Where both fall
        // into one millisecond, there is one time to compare at.
        let mut difference = None;
        for now_ms in observed.times_ms.start..=observed.times_ms.end {
            let (ours, after, wrote) = run(&self.model, &command, now_ms, self.protocol, &mut self.asks);
            if ours.starts_with(b"-ERR keyfold: ") {
                return self.forget_refused(&command, &ours);
            }
            match difference_between(&command, &observed, &ours, &after, wrote, now_ms) {
                None => {
                    self.model = after;
                    return;
                }
                Some(found) => difference = difference.or(Some(found)),
            }
        }
        let difference = difference.unwrap();
        let shown = command.iter().map(|arg| show(arg)).collect::<Vec<_>>().join(" ");
        assert!(
            observed.times_ms.start < observed.times_ms.end,
            "after {} commands, at {:?}: {shown}\n  model   {:?}\n{difference}",
            self.compared,
            observed.times_ms,
            self.model.of(&command)
        );
        self.straddled += 1;
        self.model.resume_from(&observed);
    }

    fn learn_payload(&mut self, command: &[Vec<u8>], observed: &Observed) {
        if let (true, Ok(Reply::Bulk(payload))) =
            (command[0].eq_ignore_ascii_case(b"dump"), Reply::parse(&observed.reply))
        {
            let index = 4 + self.generator.below(40);
            self.generator.payloads.truncate(200);
            if let Some(slot) = self.generator.payloads.get_mut(index) {
                *slot = payload.to_vec();
            } else {
                self.generator.payloads.push(payload.to_vec());
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
                self.connection.run(&[vec![&b"del"[..], key]]);
                self.model.held[index] = Held::Nothing;
            }
        }
        self.refused += 1;
    }
}

/// What of the reply, the keys and the marks differs, in words.
fn difference_between(
    command: &[Vec<u8>],
    observed: &Observed,
    ours: &[u8],
    after: &Model,
    wrote: bool,
    now_ms: i64,
) -> Option<String> {
    if observed.reply != ours && !known_difference(command, &observed.reply, ours) {
        return Some(format!("  server  {}\n  keyfold {}", show(&observed.reply), show(ours)));
    }
    if !observed.ran {
        return None;
    }
    // RESTORE REPLACE deletes without looking whether the key has expired, and counts that.
    let overlooked = observed.wrote && command[0].eq_ignore_ascii_case(b"restore");
    if observed.wrote != wrote && !overlooked {
        return Some(format!("  the server wrote: {}, keyfold: {wrote}", observed.wrote));
    }
    after.differs_from(observed, now_ms)
}

/// What OBJECT says of a value's past, which the value alone does not tell.
fn known_difference(command: &[Vec<u8>], servers: &[u8], ours: &[u8]) -> bool {
    if !command[0].eq_ignore_ascii_case(b"object") {
        return false;
    }
    match command[1].to_ascii_lowercase().as_slice() {
        // APPEND, SETRANGE and INCRBYFLOAT leave a value in another encoding than SET would.
        b"encoding" => matches!(
            (servers, ours),
            (b"$3\r\nraw\r\n", b"$3\r\nint\r\n" | b"$6\r\nembstr\r\n") | (b"$6\r\nembstr\r\n", b"$3\r\nint\r\n")
        ),
        // A copy of a shared integer is not shared.
        b"refcount" => (servers, ours) == (b":1\r\n", b":2147483647\r\n"),
        b"idletime" => servers.starts_with(b":") && ours == b":0\r\n",
        _ => false,
    }
}

fn compare_commands(protocol: Protocol) {
    let Some(server) = Server::start() else { return };
    let seed = setting("KEYFOLD_SEED", 1) * 2 + u64::from(protocol == Protocol::Resp3);
    let mut comparison = Comparison::new(&server, protocol, seed);
    while comparison.compared < setting("KEYFOLD_COMMANDS", 100_000) / 2 {
        comparison.step();
    }
    let Comparison { compared, refused, straddled, .. } = comparison;
    println!("{compared} commands, no difference; {refused} refused, {straddled} between two milliseconds");
    assert!(straddled * 100 < compared, "too few commands had a time that is known");
    assert!(refused * 5 < compared, "too many commands were refused");
}

#[test]
fn commands_in_resp2() {
    compare_commands(Protocol::Resp2);
}

#[test]
fn commands_in_resp3() {
    compare_commands(Protocol::Resp3);
}
