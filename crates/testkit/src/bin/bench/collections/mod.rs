//! Sets and hashes, plain and folded: what they take, and requests a second.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `small.rs` | many of five members, in buckets |
//! | `large.rs` | one of 200,000, in parts |

mod large;
mod small;

use keyfold_lab::{Cell, Table};
use keyfold_server::{Commands, Server as Connection};
use keyfold_testkit::random::Random;
use keyfold_testkit::{Binary, Server};

use crate::options::Options;
use crate::proxy::Proxy;
use crate::redis_benchmark::{self, Load, Target};
use crate::report::{Report, cell, each_round};

/// Written in one go.
const AT_ONCE: usize = 1000;

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
struct Pair {
    plain: Target,
    proxy: Proxy,
}

impl Pair {
    fn new(plain: &Server, behind: &Server, layout: &str) -> anyhow::Result<Self> {
        Ok(Self { plain: Target { port: plain.port(), pid: plain.pid() }, proxy: Proxy::start(behind, layout)? })
    }

    /// Both by turns.
    fn row(&self, command: &[&str], load: Load, rounds: usize) -> anyhow::Result<Vec<Cell>> {
        let (mut of_plain, mut of_keyfold, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            let a_second =
                |target| Ok::<_, anyhow::Error>(redis_benchmark::run(target, command, load)?.requests_per_second);
            let (one, other) = (a_second(self.plain)?, a_second(self.proxy.target())?);
            ratios.push(other / one);
            of_plain.push(one / 1000.0);
            of_keyfold.push(other / 1000.0);
        }
        Ok(vec![
            format!("{} of {} words", command[0], command.len()).into(),
            Cell::Whole(load.pipeline as u64),
            cell(of_plain, 2),
            cell(of_keyfold, 2),
            each_round(&ratios),
            cell(ratios, 2),
        ])
    }
}

/// A table of such rows.
fn speeds(title: String) -> Table {
    Table::titled(title, &["command", "pipeline", "plain", "keyfold", "keyfold/plain", "median"])
}
