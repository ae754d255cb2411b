//! How long it takes to look for a member, by the number of members.

use keyfold_server::Server;
use keyfold_survey::random::Random;

use super::curve::{self, index};
use super::folded;
use super::form::{Collection, KEY};
use crate::bench::Bench;
use crate::folding::Words;
use crate::options::Options;
use crate::timing::{self, Took};

/// Below the limits, at the original's, and above.
const SIZES: [u64; 7] = [10, 100, 512, 1000, 10_000, 30_000, 50_000];
/// Look-ups that go at a time.
pub(super) const AT_A_TIME: [usize; 2] = [1, 100];

/// Look-ups in one form.
pub(super) struct Speed {
    pub(super) kind: Collection,
    pub(super) members: u64,
    pub(super) at_a_time: u64,
    pub(super) took: Took,
}

/// Times look-ups of members that are there, in what is filled from nothing.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    kind: Collection,
    members: &[Vec<u8>],
    options: &Options,
) -> anyhow::Result<Vec<Speed>> {
    let sizes = SIZES.into_iter().filter(|size| *size <= members.len() as u64);
    let count = options.sized(200, 5000, 5000);
    let (mut speeds, mut done) = (Vec::new(), 0);
    let folding = match kind {
        Collection::Folded => Some(folded::begin(bench, members)?),
        Collection::Set | Collection::Hash(_) => {
            bench.clear()?;
            None
        }
    };
    for size in sizes {
        let (new, there) = (&members[done..index(size)], &members[..index(size)]);
        let asked = |key: &[u8]| -> Vec<Words> {
            let mut random = Random::new(options.seed);
            (0..count).map(|_| kind.look_up(key, random.pick::<Vec<u8>>(there))).collect()
        };
        match &folding {
            Some(folding) => {
                let added: Vec<Words> = new.iter().map(|member| kind.add(folded::KEY, member)).collect();
                folding.write(bench, &added)?;
                let reads = asked(folded::KEY);
                folding.serve(bench, |bench, client| time(bench, client, kind, size, &reads, &mut speeds))?;
            }
            None => {
                curve::add(bench, kind, new, 0)?;
                let reads = asked(&bench.key(KEY));
                time(bench, &mut bench.connect()?, kind, size, &reads, &mut speeds)?;
            }
        }
        done = index(size);
    }
    match folding {
        Some(folding) => folding.end(bench)?,
        None => bench.clear()?,
    }
    Ok(speeds)
}

fn time(
    bench: &Bench<'_>,
    client: &mut Server,
    kind: Collection,
    members: u64,
    reads: &[Words],
    speeds: &mut Vec<Speed>,
) -> anyhow::Result<()> {
    for at_a_time in AT_A_TIME {
        let took = timing::time(bench, client, reads, at_a_time)?;
        speeds.push(Speed { kind, members, at_a_time: at_a_time as u64, took });
    }
    Ok(())
}
