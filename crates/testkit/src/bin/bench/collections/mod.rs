//! Sets and hashes, plain and folded: what they take, and requests a second.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `small.rs` | many of five members, in buckets |
//! | `large.rs` | one of 200,000, in parts |

mod large;
mod small;

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use anyhow::Context as _;
use keyfold_core::layout::Layout;
use keyfold_lab::{Cell, Table};
use keyfold_server::{Commands, Server as Connection};
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, Server, Wire};

use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, Load, Run, Target};
use crate::report::{Report, cell, each_round};
use crate::sent::{Sender, Words};

/// Written in one go.
const AT_ONCE: usize = 1000;

/// What redis-benchmark writes a number in place of, as long as that, and the one whose request is taken for the cheapest form.
const RANDOM_NUMBER: &str = "__rand_int__";
const ONE_NUMBER: &str = "000000000064";

/// Measures small ones and large ones.
pub(crate) fn measure(binary: &Binary, options: &Options, report: &mut Report) -> anyhow::Result<()> {
    small::measure(binary, options, report)?;
    large::measure(binary, options, report)
}

fn letters(count: usize, random: &mut Random) -> String {
    (0..count).map(|_| char::from(b'a' + u8::try_from(random.below(26)).unwrap_or(0))).collect()
}

/// Writes so many commands, each of which is answered with an integer.
fn write(client: &mut Connection, count: u64, command: fn(u64, &mut Random) -> Vec<String>) -> anyhow::Result<()> {
    let (mut random, mut commands) = (Random::new(1), Commands::default());
    for number in 0..count {
        let words = command(number, &mut random);
        commands.push(&words.iter().map(String::as_bytes).collect::<Vec<_>>());
        if commands.len() == AT_ONCE || number + 1 == count {
            client.query_all::<i64>(&commands)?;
            commands.clear();
        }
    }
    Ok(())
}

/// A row of what members take, plain and folded.
fn weights(name: &str, [plain, folded]: [f64; 2]) -> Vec<Cell> {
    vec![name.into(), Cell::Number(plain, 1), Cell::Number(folded, 1), Cell::Number(plain / folded, 2)]
}

/// A plain server, and another behind a keyfold.
struct Pair<'l> {
    plain: Target,
    behind: Target,
    proxy: Proxy,
    sender: Sender<'l>,
}

/// Each in its turn.
struct Round {
    plain: Run,
    /// What keyfold sends for the command, by the benchmark itself; none where that is several requests.
    cheapest: Option<Run>,
    keyfold: Run,
    /// The server's processor time for a request through keyfold.
    server_us: f64,
}

const COLUMNS: [&str; 12] = [
    "command",
    "pipeline",
    "plain",
    "cheapest",
    "keyfold",
    "keyfold/cheapest",
    "keyfold/plain, each round",
    "median",
    "server CPU, plain",
    "server CPU, cheapest",
    "server CPU, keyfold",
    "keyfold CPU",
];

impl<'l> Pair<'l> {
    /// Of two servers, the second of which is put behind a keyfold by a layout, once as text and once as what it says.
    fn new(plain: &Server, behind: &Server, (text, layout): (&str, &'l Layout)) -> anyhow::Result<Self> {
        let target = |server: &Server| Target { port: server.port(), pid: server.pid() };
        let proxy = Proxy::start(behind, text)?;
        Ok(Self { plain: target(plain), behind: target(behind), proxy, sender: Sender::new(layout, behind)? })
    }

    /// All by turns, after the command was carried out as often on both sides. The cheapest form goes to so many buckets, as keyfold's do, or
    /// to the same one.
    fn row(
        &mut self,
        command: &[&str],
        load: Load,
        buckets: Option<usize>,
        rounds: usize,
    ) -> anyhow::Result<Vec<Cell>> {
        let one = command.iter().map(|word| word.replace(RANDOM_NUMBER, ONE_NUMBER)).collect::<Vec<_>>();
        let one = one.iter().map(String::as_bytes).collect::<Vec<_>>();
        let cheapest = self.sender.sent_again(&one)?;
        let rounds = (0..rounds)
            .map(|_| {
                let plain = redis_benchmark::run(self.plain, command, load)?;
                let (keyfold, beside) =
                    redis_benchmark::run_beside(self.proxy.target(), &[self.behind.pid], command, load)?;
                let cheapest = cheapest.as_ref().map(|words| self.run_cheapest(words, load, buckets)).transpose()?;
                Ok(Round { plain, cheapest, keyfold, server_us: beside[0] })
            })
            .collect::<anyhow::Result<Vec<_>>>()?;
        let of = |figure: fn(&Round) -> f64| rounds.iter().map(figure).collect::<Vec<_>>();
        let known = |figure: fn(&Round) -> Option<f64>| rounds.iter().filter_map(figure).collect::<Vec<_>>();
        let ratios = of(|round| round.keyfold.requests_per_second / round.plain.requests_per_second);
        Ok(vec![
            format!("{} of {} words", command[0], command.len()).into(),
            Cell::Whole(load.pipeline as u64),
            cell(of(|round| round.plain.requests_per_second / 1000.0), 2),
            cell(known(|round| Some(round.cheapest?.requests_per_second / 1000.0)), 2),
            cell(of(|round| round.keyfold.requests_per_second / 1000.0), 2),
            cell(known(|round| Some(round.keyfold.requests_per_second / round.cheapest?.requests_per_second)), 2),
            each_round(&ratios),
            cell(ratios, 2),
            cell(of(|round| round.plain.cpu_us_per_request), 2),
            cell(known(|round| Some(round.cheapest?.cpu_us_per_request)), 2),
            cell(of(|round| round.server_us), 2),
            cell(of(|round| round.keyfold.cpu_us_per_request), 2),
        ])
    }

    /// What keyfold sends, by the benchmark itself.
    fn run_cheapest(&self, words: &Words, load: Load, buckets: Option<usize>) -> anyhow::Result<Run> {
        let mut words: Vec<OsString> = words.iter().cloned().map(OsString::from_vec).collect();
        let Some(buckets) = buckets else { return redis_benchmark::run(self.behind, &words, load) };
        // Behind how many keys a script has.
        let at = if words[0] == "EVALSHA" { 3 } else { 1 };
        let bucket = std::mem::replace(&mut words[at], format!("cheapest:{RANDOM_NUMBER}").into()).into_vec();
        self.copy_bucket(&bucket, buckets)?;
        redis_benchmark::run(self.behind, &words, Load { numbers: buckets, ..load })
    }

    /// Makes so many copies of a bucket, under the names that the benchmark will ask for.
    fn copy_bucket(&self, bucket: &[u8], copies: usize) -> anyhow::Result<()> {
        let mut wire = Wire::connect(("127.0.0.1", self.behind.port))?;
        let dumped = wire.ask(&[b"DUMP", bucket])?;
        let payload = dumped.bytes().context("the bucket is there")?;
        for number in 0..copies {
            let name = format!("cheapest:{number:012}");
            let restored = wire.call(&[b"RESTORE", name.as_bytes(), b"0", payload, b"REPLACE"])?;
            anyhow::ensure!(restored == b"+OK\r\n", "{}", restored.escape_ascii());
        }
        Ok(())
    }
}

/// A table of such rows.
fn speeds(title: String) -> Table {
    Table::titled(title, &COLUMNS)
}
