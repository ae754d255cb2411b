//! Random clients with caches, behind two keyfolds, and random writers through either and past both.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `client` | a client that keeps what it has read, until it is told to forget it |
//! | `told` | what a client is told to forget |
//! | `line` | a connection whose commands go out before the answers to those before them are read |
//! | `words` | reads and writes, the keys that they name, and layouts that fold these |
//! | `history` | what clients said and were told, for whoever looks for why a cache is wrong |
//!
//! Commands go out in bursts on all connections before any answer is read, so that reads, writes and the word of changes
//! overtake one another. Now and then the server closes all connections of the keyfolds, and all keys are removed. What holds:
//! once nothing is written any more, soon every value in every cache is what the server holds.

mod client;
mod history;
mod line;
mod told;
mod words;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use keyfold_core::admin::LAYOUT_KEY;
use keyfold_core::layout::Layout;

use client::Cache;
use history::{Event, History};
use line::Line;
use words::{Command, all_keys, past, writes};

use crate::random::Random;
use crate::reply::Value;
use crate::wire::{Wire, WireError};

pub use client::Telling;
pub use words::{CACHED_LAYOUT, CODED_CACHED_LAYOUT};

/// So many commands are sent between two looks at all caches.
const QUIET_AFTER: u64 = 300;
/// Between two looks at stale values.
const PAUSE: Duration = Duration::from_millis(2);
/// Of so many rounds of all clients, the server closes a connection of a keyfold, or all, in one.
const ROUNDS_PER_LOSS: u64 = 40;
/// Of 100 such, all.
const LOSSES_OF_ALL: u64 = 20;
/// And all keys are removed in one.
const ROUNDS_PER_FLUSH: u64 = 150;
/// Of so many rounds in one something is written past the keyfolds.
const ROUNDS_PER_WRITE_PAST: u64 = 10;
/// After so many looks a client that has kept less than a value a look is one that keeps nothing.
const LOOKS_TO_JUDGE: u64 = 20;

/// Who is run against.
#[derive(Clone, Copy, Debug)]
pub struct CacheSides {
    /// Two keyfolds before the server, or the server itself twice, which is to judge the run.
    pub keyfolds: [SocketAddr; 2],
    /// The server.
    pub server: SocketAddr,
}

impl CacheSides {
    /// Whether the server stands for the keyfolds.
    fn is_server_alone(&self) -> bool {
        self.keyfolds.contains(&self.server)
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct CacheOptions {
    /// Makes about the same commands again. How they overtake one another is another matter.
    pub seed: u64,
    /// How many commands, at least.
    pub commands: u64,
    /// How long it may take until no value is stale.
    pub patience: Duration,
}

impl Default for CacheOptions {
    fn default() -> Self {
        // A loaded machine is slow.
        Self { seed: 1, commands: 100_000, patience: Duration::from_secs(60) }
    }
}

/// How a run ended in which all caches agreed with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachesAgreed {
    /// Commands that were sent, those of looks aside.
    pub commands: u64,
    /// Looks at all caches.
    pub looks: u64,
    /// Values in caches that were compared, at all looks together.
    pub values: u64,
    /// How long it took at most until a look found none that was stale.
    pub slowest: Duration,
}

/// A value that is in a cache, and is not what the server holds, for too long.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Stale {
    /// The run's seed.
    pub seed: u64,
    /// How many commands had been sent until the last look that found no such value.
    pub agreed: u64,
    /// How the client is told of changes.
    pub telling: Telling,
    /// Which of the two keyfolds it is a client of.
    pub keyfold: usize,
    /// The key.
    pub key: String,
    /// What the cache has.
    pub kept: String,
    /// What the server holds, as keyfold says.
    pub held: String,
    /// What was said of the key before, and what the client was told.
    pub last: Vec<String>,
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, agreed, telling, keyfold, key, kept, held, last } = self;
        writeln!(f, "seed {seed}, after {agreed} commands behind which all caches agreed; of {key}:")?;
        for line in last {
            writeln!(f, "    {line}")?;
        }
        write!(
            f,
            "  the server holds {held}\n  the client of keyfold {keyfold} that is told by {telling} still has {kept}"
        )
    }
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum CacheFailure {
    /// A cache is wrong.
    #[error(transparent)]
    Stale(Box<Stale>),
    /// A cache that keeps nothing is always right.
    #[error("clients that are told by {telling} kept {values} values in {looks} looks: that proves nothing")]
    Empty {
        /// How they are told.
        telling: Telling,
        /// How many values were compared.
        values: u64,
        /// In how many looks.
        looks: u64,
    },
    /// No client is told of changes.
    #[error("a client can't be told by {telling}: {answer}")]
    Refused {
        /// How it is to be told.
        telling: Telling,
        /// What it was answered.
        answer: String,
    },
    /// Keyfold doesn't say what the server holds.
    #[error("seed {seed}: all keys can't be read: {answer}")]
    Unreadable {
        /// The run's seed.
        seed: u64,
        /// What it answers in place.
        answer: String,
    },
    /// One of them can't be reached.
    #[error("connection lost: {0}")]
    Connection(#[from] WireError),
}

/// Runs random clients with caches and random writers until there were enough commands or a value stays stale. All keys are
/// removed now and then. `progress` is told now and then how many commands were sent.
///
/// # Errors
/// The first value that stays stale, caches that keep nothing, or a side that can't be reached.
pub fn run_caches(
    sides: &CacheSides,
    options: &CacheOptions,
    mut progress: impl FnMut(u64),
) -> Result<CachesAgreed, CacheFailure> {
    let mut run = Run::open(sides, options.seed)?;
    while run.agreed.commands < options.commands {
        while run.sent() < run.agreed.commands + QUIET_AFTER {
            run.round()?;
        }
        run.look(options.patience)?;
        progress(run.agreed.commands);
    }
    run.judge()?;
    Ok(run.agreed)
}

/// Why a look doesn't find that all caches agree.
enum Wrong {
    /// Keyfold answers so in place of all values: its connections may just have been closed.
    Unreadable(Value),
    /// This cache has another value of a key than the server.
    Stale { cache: usize, key: String, held: Value },
}

/// Everybody, while it runs.
struct Run {
    seed: u64,
    random: Random,
    history: History,
    /// The layout in force, by which keys are found without keyfold.
    layout: Layout,
    /// Those of the first keyfold, then those of the second.
    caches: Vec<Cache>,
    writers: Vec<Line<()>>,
    /// Clients without caches that read what the server holds, one of each keyfold.
    readers: Vec<Wire>,
    /// Past both.
    direct: Wire,
    /// Its number in the history.
    whoever: usize,
    /// Whether the server closes connections now and then.
    is_lossy: bool,
    keys: Vec<String>,
    agreed: CachesAgreed,
}

impl Run {
    fn open(sides: &CacheSides, seed: u64) -> Result<Self, CacheFailure> {
        let mut history = History::new();
        let (mut caches, mut writers, mut readers) = (Vec::new(), Vec::new(), Vec::new());
        for (keyfold, address) in sides.keyfolds.into_iter().enumerate() {
            for telling in Telling::ALL {
                caches.push(Cache::open(address, keyfold, telling, &mut history)?);
            }
            writers.push(Line::new(Wire::connect(address)?, format!("writer of keyfold {keyfold}"), &mut history));
            readers.push(Wire::connect(address)?);
        }
        let mut direct = Wire::connect(sides.server)?;
        let stored = direct.ask(&[b"GET", LAYOUT_KEY])?;
        // Without one nothing is folded, and nothing is to be found elsewhere.
        let layout = Layout::from_stored(&String::from_utf8_lossy(stored.bytes().unwrap_or_default()));
        Ok(Self {
            seed,
            random: Random::new(seed),
            whoever: history.enter("whoever".to_owned()),
            history,
            layout: layout.unwrap_or_default(),
            caches,
            writers,
            readers,
            direct,
            is_lossy: !sides.is_server_alone(),
            keys: all_keys(),
            agreed: CachesAgreed { commands: 0, looks: 0, values: 0, slowest: Duration::ZERO },
        })
    }

    /// Commands that were sent so far.
    fn sent(&self) -> u64 {
        let caches = self.caches.iter().map(Cache::sent);
        caches.chain(self.writers.iter().map(|writer| writer.sent)).sum()
    }

    /// Everybody sends some commands, and takes what comes.
    fn round(&mut self) -> Result<(), WireError> {
        for cache in &mut self.caches {
            for _ in 0..self.random.below(4) {
                cache.act(&mut self.random, &mut self.history)?;
            }
            cache.flush()?;
        }
        for writer in &mut self.writers {
            for _ in 0..self.random.below(4) {
                for write in writes(&mut self.random) {
                    writer.add(write, (), &mut self.history);
                }
            }
            if self.random.below(ROUNDS_PER_FLUSH * 2) == 0 {
                writer.add(Command::new("FLUSHALL"), (), &mut self.history);
            }
            writer.flush()?;
        }
        if self.random.below(ROUNDS_PER_WRITE_PAST) == 0 {
            let (args, shown) = past(&self.layout, &mut self.random);
            self.past(&args, shown)?;
        }
        if self.random.below(ROUNDS_PER_LOSS) == 0 && self.is_lossy {
            self.lose()?;
        }
        for writer in &mut self.writers {
            while writer.next(&mut self.history)?.is_some() {}
        }
        self.caches.iter_mut().try_for_each(|cache| cache.take(&mut self.history))
    }

    /// Has the server close a connection of a keyfold, or all of them.
    fn lose(&mut self) -> Result<(), WireError> {
        let which = if self.random.chance(LOSSES_OF_ALL) {
            "TYPE normal SKIPME yes".to_owned()
        } else {
            // A client whose subscription is lost is closed by its keyfold, so subscriptions are left alone.
            let list = self.direct.ask(&[b"CLIENT", b"LIST", b"TYPE", b"normal"])?;
            let list = String::from_utf8_lossy(list.bytes().unwrap_or_default()).into_owned();
            let own: Vec<&str> = list.lines().filter(|line| line.contains(" name=keyfold:")).collect();
            let line = if own.is_empty() { "" } else { *self.random.pick(&own) };
            let Some(id) = line.split(' ').find_map(|part| part.strip_prefix("id=")) else { return Ok(()) };
            format!("ID {id}")
        };
        let command = Command::new(format!("CLIENT KILL {which}"));
        let args: Vec<Vec<u8>> = command.words().map(|word| word.as_bytes().to_vec()).collect();
        self.past(&args, command)
    }

    /// Asks the server itself.
    fn past(&mut self, args: &[Vec<u8>], shown: Command) -> Result<(), WireError> {
        self.history.note(self.whoever, Event::Sends(shown.clone()));
        let answer = self.direct.ask(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())?;
        self.history.note(self.whoever, Event::Answered(shown, answer));
        Ok(())
    }

    /// Waits until every value in every cache is what the server holds.
    fn look(&mut self, patience: Duration) -> Result<(), CacheFailure> {
        // A read rearms what a broadcast tells of its bucket: clients of the other keyfold don't gain by it.
        let reader = self.random.index(self.readers.len());
        let since = Instant::now();
        while let Some(wrong) = self.find_wrong(reader)? {
            if since.elapsed() > patience {
                return Err(self.failure(wrong));
            }
            thread::sleep(PAUSE);
        }
        let mut values = 0;
        for cache in &mut self.caches {
            let count = cache.values.len() as u64;
            cache.kept += count;
            values += count;
        }
        self.agreed = CachesAgreed {
            commands: self.sent(),
            looks: self.agreed.looks + 1,
            values: self.agreed.values + values,
            slowest: self.agreed.slowest.max(since.elapsed()),
        };
        Ok(())
    }

    /// Compares all caches with what one keyfold says that the server holds.
    fn find_wrong(&mut self, reader: usize) -> Result<Option<Wrong>, WireError> {
        let words: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(self.keys.iter().map(String::as_bytes)).collect();
        let answer = self.readers[reader].ask(&words)?;
        let Some(values) = answer.elements() else {
            return Ok(Some(Wrong::Unreadable(answer)));
        };
        let held: BTreeMap<&String, &Value> = self.keys.iter().zip(values).collect();
        self.caches.iter_mut().try_for_each(Cache::fence)?;
        self.caches.iter_mut().try_for_each(|cache| cache.take(&mut self.history))?;
        let stale = self.caches.iter().enumerate().find_map(|(cache, client)| {
            let (key, _) = client.values.iter().find(|(key, value)| held.get(key) != Some(value))?;
            let held = held.get(key).map_or(Value::Nil, |value| (*value).clone());
            Some(Wrong::Stale { cache, key: key.clone(), held })
        });
        Ok(stale)
    }

    /// What was found wrong, with all that is known of it.
    fn failure(&self, wrong: Wrong) -> CacheFailure {
        match wrong {
            Wrong::Unreadable(answer) => CacheFailure::Unreadable { seed: self.seed, answer: format!("{answer:?}") },
            Wrong::Stale { cache, key, held } => {
                let client = &self.caches[cache];
                CacheFailure::Stale(Box::new(Stale {
                    seed: self.seed,
                    agreed: self.agreed.commands,
                    telling: client.telling,
                    keyfold: cache / Telling::ALL.len(),
                    kept: client.values.get(&key).map_or_else(String::new, |value| format!("{value:?}")),
                    held: format!("{held:?}"),
                    last: self.history.of(&key, client.who()),
                    key,
                }))
            }
        }
    }

    /// Whether clients of each kind kept enough for their agreement to say something.
    fn judge(&self) -> Result<(), CacheFailure> {
        let looks = self.agreed.looks;
        for telling in Telling::ALL {
            let values = self.caches.iter().filter(|cache| cache.telling == telling).map(|cache| cache.kept).sum();
            if looks >= LOOKS_TO_JUDGE && values < looks * 2 {
                return Err(CacheFailure::Empty { telling, values, looks });
            }
        }
        Ok(())
    }
}
