//! Random scripts run on a plain server and a subject, on keys of which the subject folds some.
//!
//! Each script is called some times, by EVAL, EVALSHA and where it fits their reading kin, with keys of one group, alone or
//! among commands in a transaction. After each call both sides are asked what the keys hold, by commands and by another
//! script. Where namespaces are on the move, keys are put into their old places now and then.
//!
//! A script may also be the function of a library, which takes the place of the library before: then it is called by FCALL and
//! FCALL_RO.

use std::fmt;

use sha1::{Digest as _, Sha1};

use super::TIMEOUT;
use super::behind::Behind;
use super::heard::Ears;
use super::keys::{Group, groups};
use super::moving::Former;
use super::script_queue::command;
use super::script_text::{ARGS, FUNCTION, STRING_KEYS, library, script};
use crate::random::Random;
use crate::sides::{Link, Sides, shown};
use crate::wire::WireError;

/// Calls between one emptying of the servers and the next.
const EPOCH: u64 = 500;
/// Calls of one script.
const CALLS: u64 = 5;

/// What the keys of a call hold, and about how long they live.
const STATE: &str = "\
local r = {}
for i = 1, #KEYS do
  r[#r + 1] = redis.call('TYPE', KEYS[i]).ok
  if r[#r] == 'string' then r[#r + 1] = redis.call('GET', KEYS[i]) end
  local left = redis.call('PTTL', KEYS[i])
  r[#r + 1] = left < 1000000000 and math.floor((left + 500000) / 1000000) or 'far ' .. math.floor(left / 100000000)
end
return r";

/// What random scripts are called as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalledAs {
    /// Scripts: EVAL and its kin.
    Scripts,
    /// Functions: FCALL and its kin.
    Functions,
}

/// The first call whose answers differ, or after which the keys hold something else.
#[derive(Clone, Debug, thiserror::Error)]
pub struct ScriptDifference {
    /// The run's seed.
    pub seed: u64,
    /// How many calls had agreed.
    pub agreed: u64,
    /// The script.
    pub script: String,
    /// What was asked: the call, or about the keys after it.
    pub asked: String,
    /// What the keys held before the call, on the plain server.
    pub before: String,
    /// The plain server's reply, escaped.
    pub plain: String,
    /// The subject's.
    pub subject: String,
}

impl fmt::Display for ScriptDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, agreed, script, asked, before, plain, subject } = self;
        write!(
            f,
            "seed {seed}, after {agreed} calls that agreed:\n{script}\n  keys before: {before}\n  {asked}\n  plain:   {plain}\n  subject: {subject}"
        )
    }
}

/// Why a run ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScriptFailure {
    /// The two sides answered differently.
    #[error(transparent)]
    Difference(Box<ScriptDifference>),
    /// One of them can't be reached.
    #[error("cannot connect: {0}")]
    Connection(#[from] WireError),
}

/// What is called, and what is compared.
#[derive(Clone, Copy, Debug)]
pub struct ScriptOptions<'f> {
    /// What the subject stands before.
    pub behind: Behind,
    /// Where keys lay before, while they are being moved.
    pub former: Option<&'f Former>,
    /// How what is made up is called.
    pub called_as: CalledAs,
    /// Compares what subscribers hear of folded keys too.
    pub notifications: bool,
    /// Makes the same calls again.
    pub seed: u64,
    /// How many calls.
    pub calls: u64,
}

impl ScriptOptions<'_> {
    /// So many scripts by this seed.
    pub fn new(behind: Behind, seed: u64, calls: u64) -> Self {
        Self { behind, former: None, called_as: CalledAs::Scripts, notifications: false, seed, calls }
    }
}

/// Calls random scripts on both sides until there were enough calls or one differs; says how many there were. Both are
/// emptied.
///
/// # Errors
/// The first difference, or a side that can't be reached.
pub fn run_scripts(
    sides: Sides,
    options: &ScriptOptions<'_>,
    mut progress: impl FnMut(u64),
) -> Result<u64, ScriptFailure> {
    let ScriptOptions { behind, former, called_as, notifications, seed, calls } = *options;
    let mut random = Random::new(seed);
    let groups: Vec<Group> = groups(behind).into_iter().filter(|group| !group.other.is_empty()).collect();
    let mut agreed = 0;
    while agreed < calls {
        let mut link = sides.connect(TIMEOUT)?;
        for command in
            [&["FLUSHALL"][..], &["SCRIPT", "FLUSH"], &["FUNCTION", "FLUSH"], &["HELLO", *random.pick(&["2", "3"])]]
        {
            let args: Vec<Vec<u8>> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
            let _ = link.call(&args);
        }
        let folded = || groups.iter().flat_map(|group| group.folded.iter().cloned()).collect();
        let mut ears = notifications.then(|| Ears::open(sides, b"3", folded())).transpose()?;
        let mut old = former.map(|former| Ok::<_, WireError>((former, former.connect()?))).transpose()?;
        for _ in 0..EPOCH / CALLS {
            let group = random.pick(&groups);
            if let Some((former, server)) = &mut old {
                for key in &group.folded {
                    if random.chance(30) {
                        former.put_back(key, random.bits(), server, &mut link)?;
                    }
                }
            }
            call_some(&mut link, group, called_as, ears.as_mut(), &mut random, &mut agreed)
                .map_err(|difference| ScriptFailure::Difference(Box::new(ScriptDifference { seed, ..*difference })))?;
        }
        progress(agreed);
    }
    Ok(agreed)
}

/// Calls one new script.
fn call_some(
    link: &mut Link,
    group: &Group,
    called_as: CalledAs,
    mut ears: Option<&mut Ears>,
    random: &mut Random,
    agreed: &mut u64,
) -> Result<(), Box<ScriptDifference>> {
    let reads_only = random.chance(10);
    let text = match called_as {
        CalledAs::Scripts => script(random, reads_only),
        CalledAs::Functions => library(random, reads_only),
    };
    let sha: String = Sha1::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    let function = if random.chance(50) { FUNCTION.to_owned() } else { FUNCTION.to_uppercase() };
    for nth in 0..CALLS {
        let strings: Vec<&Vec<u8>> = group.folded.iter().chain(&group.plain).collect();
        let mut keys: Vec<Vec<u8>> = (0..STRING_KEYS).map(|_| (*random.pick(&strings)).clone()).collect();
        keys.push(random.pick(&group.other).clone());
        let values: [&[u8]; 6] = [b"5", b"abc", b"", b"-1", &[b'v'; 70], b"\x00\xff"];
        let (name, called) = match (called_as, nth, reads_only) {
            (CalledAs::Scripts, 0, false) => ("EVAL", &text),
            (CalledAs::Scripts, 0, true) => ("EVAL_RO", &text),
            (CalledAs::Scripts, _, false) => ("EVALSHA", &sha),
            (CalledAs::Scripts, _, true) => ("EVALSHA_RO", &sha),
            (CalledAs::Functions, _, false) => ("FCALL", &function),
            (CalledAs::Functions, _, true) => ("FCALL_RO", &function),
        };
        let mut args = vec![name.into(), called.clone().into()];
        args.push(keys.len().to_string().into_bytes());
        args.extend(keys.iter().cloned());
        args.extend((0..ARGS).map(|_| random.pick(&values).to_vec()));
        let state = |name: &str| {
            let mut args = vec![name.as_bytes().to_vec(), STATE.into(), keys.len().to_string().into_bytes()];
            args.extend(keys.iter().cloned());
            args
        };
        let read = [vec![b"MGET".to_vec()], keys.clone()].concat();
        let before = shown(&link.call(&state("EVAL_RO"))[0]);
        let mut all = vec![args];
        if random.chance(30) {
            surround(&mut all, random, &keys[..STRING_KEYS], &group.other, &values);
        }
        all.extend([state("EVAL"), read]);
        if called_as == CalledAs::Functions && nth == 0 {
            let load = ["FUNCTION", "LOAD", "REPLACE", &text].map(|word| word.as_bytes().to_vec());
            all.insert(0, load.to_vec());
        }
        for asked in all {
            let [mut plain, mut subject] = link.call(&asked);
            let heard = ears.as_mut().map_or(Ok(None), |ears| ears.compare());
            if let Some(heard) = heard.transpose() {
                // What can't be heard is no agreement.
                [plain, subject] = heard.map_or_else(
                    |error| [Ok(error.to_string().into_bytes()), Ok(Vec::new())],
                    |heard| heard.map(|heard| Ok(heard.into_bytes())),
                );
            }
            if !same(&plain, &subject) {
                let words = asked.iter().map(|arg| arg.escape_ascii().to_string());
                let asked = words.map(|word| if word.len() > 200 { "…".to_owned() } else { word }).collect::<Vec<_>>();
                return Err(Box::new(ScriptDifference {
                    seed: 0,
                    agreed: *agreed,
                    script: text,
                    asked: asked.join(" "),
                    before,
                    plain: shown(&plain),
                    subject: shown(&subject),
                }));
            }
        }
        *agreed += 1;
    }
    Ok(())
}

/// Puts a call into a transaction, among commands and beside another call of the same script.
fn surround(all: &mut Vec<Vec<Vec<u8>>>, random: &mut Random, keys: &[Vec<u8>], others: &[Vec<u8>], values: &[&[u8]]) {
    let call = all[0].clone();
    let commands = |random: &mut Random| -> Vec<Vec<Vec<u8>>> {
        (0..random.below(4)).map(|_| command(random, keys, others, values)).collect()
    };
    let (before, between) = (commands(random), commands(random));
    let again = random.chance(30).then_some(call);
    let multi = vec![vec![b"MULTI".to_vec()]];
    let exec = vec![vec![b"EXEC".to_vec()]];
    *all = [multi, before, all.clone(), between, again.into_iter().collect(), commands(random), exec].concat();
}

fn same(plain: &Result<Vec<u8>, WireError>, subject: &Result<Vec<u8>, WireError>) -> bool {
    matches!((plain, subject), (Ok(plain), Ok(subject)) if plain == subject)
}
