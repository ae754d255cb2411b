//! Requests a second by command: on plain keys at the server, the cheapest form on a folded key at the server, and on
//! folded keys through keyfold.
//!
//! The cheapest form is what keyfold itself sends, taken from the core, or the server's own command on a field where that
//! is cheaper or where keyfold sends several. It goes to copies of the buckets, full ones, to the field in their midst, so
//! that it reads and writes what keyfold does. All take turns in each round; ratios are of one round, their median counts.

mod list;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::Context;
use keyfold_core::layout::Layout;
use keyfold_lab::{Cell, Table};
use keyfold_testkit::{Binary, Server, Wire};

use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, Load, RANDOM_KEY, Run, Target, median};
use crate::report::Report;
use crate::sent::{Sender, Words};
use list::{BUCKET, FIELD, Floor, HOT, ROWS, Row};

const LAYOUT: &str = "[[namespace]]\nkeys = \"key:{id:int(12)}\"\nbucket = { span = 128 }\n";

/// How many of a bucket's keys there are, all of them.
const SPAN: usize = 128;

const KEYS: usize = 100_000;

/// Copies of full buckets.
const COPIES: usize = KEYS / SPAN;

/// A copy of a bucket, as redis-benchmark names it.
const COPY: &str = "floor:__rand_int__";

/// How much of the cheapest form's speed keyfold is to have.
const GOAL: f64 = 0.8;

/// Commands that are written without waiting for their replies.
const AT_ONCE: usize = 1000;

/// Measures all rows, and a counter that all clients count on; what is below the goal.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<Vec<String>> {
    if !redis_benchmark::is_there() {
        eprintln!("bench: redis-benchmark is not on PATH; commands are not measured");
        return Ok(Vec::new());
    }
    let layout = Layout::parse_file(LAYOUT)?;
    let server = binary.start(&[])?;
    let keyfold = Proxy::start(&server, LAYOUT)?;
    let mut stage = Stage { sender: Sender::new(&layout, &server)?, server: &server, keyfold: &keyfold };
    let mut missed = Vec::new();
    let title =
        format!("commands, thousand requests a second and CPU µs a request, 50 clients, {} rounds", options.rounds);
    let mut table = Table::titled(title, &COLUMNS);
    for row in ROWS.iter().filter(|row| options.wants_command(row.name)) {
        let cheapest = stage.prepare(row)?;
        for (pipeline, requests) in [(1, 100_000), (16, 400_000)] {
            let requests = if options.quick { requests / 20 } else { requests };
            let load = Load { clients: 50, pipeline, requests, numbers: KEYS };
            let rounds = stage.rounds(row, &cheapest, load, options.rounds)?;
            let (cells, of_floor) = cells(row.name, pipeline, &rounds);
            table.row(cells);
            missed.extend(of_floor.filter(|ratio| *ratio < GOAL).map(|ratio| {
                format!("{} with {pipeline} at a time: {ratio:.2} of the cheapest form, not {GOAL}", row.name)
            }));
        }
    }
    report.add(&binary.name(), &table);
    if options.wants_command(HOT_NAME) {
        let mut table = Table::titled("one counter with a TTL, INCR by all clients", &HOT_COLUMNS);
        let cheapest = stage.prepare(&HOT)?;
        for clients in [50, 200] {
            let requests = if options.quick { 5_000 } else { 100_000 };
            let load = Load { clients, pipeline: 1, requests, numbers: 1 };
            let rounds = stage.rounds(&HOT, &cheapest, load, options.rounds)?;
            table.row(hot_cells(clients, &rounds));
        }
        report.add(&binary.name(), &table);
    }
    Ok(missed)
}

const HOT_NAME: &str = "hot";

const COLUMNS: [&str; 11] = [
    "command",
    "pipeline",
    "plain",
    "cheapest",
    "keyfold",
    "keyfold/cheapest",
    "keyfold/plain",
    "server CPU, plain",
    "server CPU, cheapest",
    "server CPU, keyfold",
    "keyfold CPU",
];

const HOT_COLUMNS: [&str; 8] = [
    "clients",
    "plain",
    "cheapest",
    "keyfold",
    "keyfold/cheapest",
    "plain p99, ms",
    "cheapest p99, ms",
    "keyfold p99, ms",
];

/// One round: each in its turn.
struct Round {
    plain: Run,
    /// None where the form can't be handed to redis-benchmark.
    cheapest: Option<Run>,
    keyfold: Run,
    /// The server's processor time for a request through keyfold.
    server_us: f64,
}

/// The server with all keys, plain and folded, and copies of the buckets.
struct Stage<'s> {
    sender: Sender<'s>,
    server: &'s Server,
    keyfold: &'s Proxy,
}

/// The cheapest form, on a copy of a bucket; as many of it as one command of the row.
struct Cheapest {
    times: usize,
    command: Vec<OsString>,
}

impl Stage<'_> {
    /// Gives all keys the values of a row, and finds its cheapest form.
    fn prepare(&mut self, row: &Row) -> anyhow::Result<Option<Cheapest>> {
        let mut direct = self.server.connect()?;
        let set = |id: usize| {
            [&[b"SET".to_vec(), key(id)][..], &row.values.words().iter().map(|word| word.to_vec()).collect::<Vec<_>>()]
                .concat()
        };
        send_all(&mut direct, (0..KEYS).map(set))?;
        send_all(&mut self.keyfold.connect()?, (0..KEYS).map(set))?;
        let middle = SPAN / 2;
        let mut copies = Vec::new();
        for copy in 0..COPIES {
            let read = self.sender.sent(&[b"GET", &key(copy * SPAN + middle)])?.context("GET is one request")?;
            let [_, bucket, field] = &read[..] else { anyhow::bail!("GET is HGET of a field") };
            anyhow::ensure!(field == FIELD.as_bytes(), "its field is {}", field.escape_ascii());
            copies.push(vec![
                b"COPY".to_vec(),
                bucket.clone(),
                format!("floor:{copy:012}").into_bytes(),
                b"REPLACE".to_vec(),
            ]);
        }
        send_all(&mut direct, copies.into_iter())?;
        self.cheapest(row)
    }

    /// Of what was sent for a key in the midst of the first bucket.
    fn cheapest(&mut self, row: &Row) -> anyhow::Result<Option<Cheapest>> {
        if let Floor::Of(times, command) = row.floor {
            let word = |word: &&str| OsString::from(if *word == BUCKET { COPY } else { word });
            return Ok(Some(Cheapest { times, command: command.iter().map(word).collect() }));
        }
        let key = key(SPAN / 2);
        let command: Vec<&[u8]> =
            row.command.iter().map(|word| if *word == RANDOM_KEY { &key } else { word.as_bytes() }).collect();
        let bucket = self.sender.sent(&[b"GET", &key])?.context("GET is one request")?.swap_remove(1);
        Ok(self.sender.sent_again(&command)?.map(|words| in_copies(&words, &bucket)))
    }

    fn rounds(&self, row: &Row, cheapest: &Option<Cheapest>, load: Load, rounds: usize) -> anyhow::Result<Vec<Round>> {
        let server = Target { port: self.server.port(), pid: self.server.pid() };
        let keyfold = self.keyfold.target();
        let mut all = Vec::new();
        for _ in 0..rounds {
            let plain = redis_benchmark::run(server, row.command, load)?;
            let cheapest = cheapest.as_ref().map(|cheapest| cheapest.run(server, load)).transpose()?;
            let (keyfold, beside) = redis_benchmark::run_beside(keyfold, &[server.pid], row.command, load)?;
            all.push(Round { plain, cheapest, keyfold, server_us: beside[0] });
        }
        Ok(all)
    }
}

impl Cheapest {
    #[expect(clippy::cast_precision_loss, reason = "a few")]
    fn run(&self, server: Target, load: Load) -> anyhow::Result<Run> {
        let Self { times, command } = self;
        let load = Load {
            requests: load.requests * times,
            pipeline: load.pipeline * times,
            numbers: load.numbers.min(COPIES),
            ..load
        };
        let run = redis_benchmark::run(server, command, load)?;
        let times = *times as f64;
        Ok(Run {
            requests_per_second: run.requests_per_second / times,
            cpu_us_per_request: run.cpu_us_per_request * times,
            ..run
        })
    }
}

fn in_copies(words: &Words, bucket: &[u8]) -> Cheapest {
    let word = |word: &Vec<u8>| if word == bucket { COPY.into() } else { OsString::from_vec(word.clone()) };
    Cheapest { times: 1, command: words.iter().map(word).collect() }
}

fn key(id: usize) -> Vec<u8> {
    format!("key:{id:012}").into_bytes()
}

/// Carries out all of these; none may fail.
fn send_all(wire: &mut Wire, commands: impl Iterator<Item = Words>) -> anyhow::Result<()> {
    let mut commands = commands.peekable();
    while commands.peek().is_some() {
        let mut sent = 0;
        for command in commands.by_ref().take(AT_ONCE) {
            wire.send(&command.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
            sent += 1;
        }
        for _ in 0..sent {
            let reply = wire.reply()?;
            anyhow::ensure!(!reply.starts_with(b"-"), "{}", reply.escape_ascii());
        }
    }
    Ok(())
}

/// Of each round, and their median where there is one.
fn of(rounds: &[Round], figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
    median(rounds.iter().filter_map(figure).collect())
}

fn number(number: Option<f64>, decimals: usize) -> Cell {
    number.map_or(Cell::Nothing, |number| Cell::Number(number, decimals))
}

fn of_cheapest(round: &Round) -> Option<f64> {
    Some(round.keyfold.requests_per_second / round.cheapest?.requests_per_second)
}

/// A row, and keyfold's part of the cheapest form's speed.
fn cells(name: &str, pipeline: usize, rounds: &[Round]) -> (Vec<Cell>, Option<f64>) {
    let thousands = |run: Run| run.requests_per_second / 1000.0;
    let ratio = of(rounds, of_cheapest);
    let cells = vec![
        name.into(),
        Cell::Whole(pipeline as u64),
        number(of(rounds, |round| Some(thousands(round.plain))), 1),
        number(of(rounds, |round| round.cheapest.map(thousands)), 1),
        number(of(rounds, |round| Some(thousands(round.keyfold))), 1),
        number(ratio, 2),
        number(of(rounds, |round| Some(round.keyfold.requests_per_second / round.plain.requests_per_second)), 2),
        number(of(rounds, |round| Some(round.plain.cpu_us_per_request)), 2),
        number(of(rounds, |round| round.cheapest.map(|run| run.cpu_us_per_request)), 2),
        number(of(rounds, |round| Some(round.server_us)), 2),
        number(of(rounds, |round| Some(round.keyfold.cpu_us_per_request)), 2),
    ];
    (cells, ratio)
}

fn hot_cells(clients: usize, rounds: &[Round]) -> Vec<Cell> {
    let thousands = |run: Run| run.requests_per_second / 1000.0;
    vec![
        Cell::Whole(clients as u64),
        number(of(rounds, |round| Some(thousands(round.plain))), 1),
        number(of(rounds, |round| round.cheapest.map(thousands)), 1),
        number(of(rounds, |round| Some(thousands(round.keyfold))), 1),
        number(of(rounds, of_cheapest), 2),
        number(of(rounds, |round| Some(round.plain.p99_ms)), 2),
        number(of(rounds, |round| round.cheapest.map(|run| run.p99_ms)), 2),
        number(of(rounds, |round| Some(round.keyfold.p99_ms)), 2),
    ]
}
