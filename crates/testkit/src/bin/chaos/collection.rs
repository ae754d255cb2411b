//! A set or a hash of one client, whose every write leaves one of few states, whatever was there before: what is read is one
//! of them, whole.
//!
//! ```text
//! set    SADD of all numbers up to the next     1   1,2   1,2,3 …      some by 25 at a time, which come to lie in parts
//! hash   HSET of two fields, HDEL of both       a=x,b=x   a=y,b=y   nothing …
//! ```

use keyfold_testkit::random::Random;
use keyfold_testkit::reply::Value;

use crate::asker::{Asker, Outcome};
use crate::history::{History, Verdict};
use crate::report::{Report, brief, note_failure, timed};

/// A set that was added to so many times is left as it is.
const MOST_STEPS: usize = 12;
/// How many members are added at once to a set that becomes large.
const MANY: usize = 25;
/// The length of a hash's values now and then, with which it is spilled.
const LONG: usize = 90;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// To which so many members are added at once.
    Set(usize),
    Hash,
}

#[derive(Debug)]
pub(crate) struct Collection {
    history: History,
    kind: Kind,
}

impl Collection {
    /// A key that doesn't exist: a set, folded by its tag, or a hash, folded by its slot; of every five the last is plain.
    pub(crate) fn of(head: &str, id: u64) -> Self {
        let kind = match id % 6 {
            0 => Kind::Set(MANY),
            2 | 4 => Kind::Set(1),
            _ => Kind::Hash,
        };
        let key = match kind {
            _ if id.is_multiple_of(5) => format!("{head}plain:{id}"),
            Kind::Set(_) => format!("{head}tags:{{{}}}:{id}", id / 7),
            Kind::Hash => format!("{head}sess:{id}"),
        };
        Self { history: History::of(key), kind }
    }

    pub(crate) fn history(&self) -> &History {
        &self.history
    }

    /// All is quiet, and it has just been read.
    pub(crate) fn forget(&mut self) {
        self.history.forget();
    }

    /// Adds something, or removes all; whether nobody knows what became of it, or there is enough in it.
    pub(crate) fn write(&mut self, asker: &mut Asker, random: &mut Random, report: &mut Report) -> bool {
        let size = self.size();
        let (args, new) = match self.kind {
            Kind::Set(step) => next_set(size + step),
            Kind::Hash => next_hash(random),
        };
        let key = self.history.key.clone();
        let words: Vec<&[u8]> = [&args[0][..], &key].into_iter().chain(args[1..].iter().map(Vec::as_slice)).collect();
        let (outcome, span) = timed(|| asker.call(&key, &words));
        self.history.remember(format!("{span:?} {}: {}", args.join(&b' ').escape_ascii(), brief(&outcome)));
        let Outcome::Answer(Value::Integer(count)) = outcome else {
            return note_failure(&mut self.history, report, outcome, span, new, None);
        };
        // How many came says what was there before; of a hash with all its fields not which.
        let verdict = match (self.kind, usize::try_from(count).unwrap_or(usize::MAX)) {
            (Kind::Set(step), count) if count <= size + step => {
                self.history.read(set_of(size + step - count).as_deref(), span)
            }
            (Kind::Hash, count @ (0 | 2)) if (count == 2) == new.is_some() => self.history.read(None, span),
            (Kind::Hash, 0 | 2) => Verdict::Right,
            _ => Verdict::Wrong(format!("{}: {count} changed\n      {}", key.escape_ascii(), self.history.past())),
        };
        report.note(verdict);
        self.history.wrote(new, None, span);
        report.acked += 1;
        matches!(self.kind, Kind::Set(step) if size + step >= MOST_STEPS * step)
    }

    /// How many members a set has, were nothing lost.
    fn size(&self) -> usize {
        self.history.last().map_or(0, |state| state.split(|byte| *byte == b',').count())
    }

    /// Reads all of it; whether an answer came.
    pub(crate) fn read(&mut self, asker: &mut Asker, report: &mut Report) -> bool {
        let key = self.history.key.clone();
        let command: &[u8] = if self.kind == Kind::Hash { b"HGETALL" } else { b"SMEMBERS" };
        let (outcome, span) = timed(|| asker.call(&key, &[command, &key]));
        self.history.remember(format!("{span:?} {}: {}", command.escape_ascii(), brief(&outcome)));
        match outcome {
            Outcome::Answer(Value::Array(values) | Value::Set(values)) => {
                report.note(self.history.read(self.state_of(&values).as_deref(), span));
                true
            }
            Outcome::NotDone(error) | Outcome::Maybe(error) => {
                report.note_error(&error);
                false
            }
            outcome => {
                report.wrong.push(format!("{} {span:?}: {}", key.escape_ascii(), brief(&outcome)));
                false
            }
        }
    }

    /// Members in their order, fields with their values in theirs; nothing where there are none.
    fn state_of(&self, values: &[Value]) -> Option<Vec<u8>> {
        let texts: Vec<&[u8]> = values.iter().filter_map(Value::bytes).collect();
        let mut parts: Vec<Vec<u8>> = match self.kind {
            Kind::Set(_) => texts.iter().map(|text| text.to_vec()).collect(),
            Kind::Hash => texts.chunks(2).map(|field| field.join(&b'=')).collect(),
        };
        parts.sort_by_key(|part| (part.len(), part.clone()));
        (!parts.is_empty()).then(|| parts.join(&b','))
    }
}

/// The command without its key, and what there is after it.
type Write = (Vec<Vec<u8>>, Option<Vec<u8>>);

fn next_set(size: usize) -> Write {
    let members = members_of(size).map(String::into_bytes);
    (std::iter::once(b"SADD".to_vec()).chain(members).collect(), set_of(size))
}

/// Of integers and of texts, so that those of a large one lie in several parts.
fn members_of(size: usize) -> impl Iterator<Item = String> {
    (1..=size).map(|number| if number % 5 == 1 { number.to_string() } else { format!("text{number}") })
}

/// The state of a set with so many members.
fn set_of(size: usize) -> Option<Vec<u8>> {
    let mut members: Vec<String> = members_of(size).collect();
    members.sort_by_key(|member| (member.len(), member.clone()));
    (size > 0).then(|| members.join(",").into_bytes())
}

fn next_hash(random: &mut Random) -> Write {
    let [a, b] = [b"a", b"b"].map(|name| name.to_vec());
    if random.chance(10) {
        return (vec![b"HDEL".to_vec(), a, b], None);
    }
    let width = if random.chance(20) { LONG } else { 1 };
    let value = format!("{:0width$}", random.bits()).into_bytes();
    let state = [&b"a="[..], &value, b",b=", &value].concat();
    (vec![b"HSET".to_vec(), a, value.clone(), b, value], Some(state))
}
