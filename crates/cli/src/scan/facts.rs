//! What is asked about the keys of one page, in three stages, and what their answers amount to.

use keyfold_core::admin::PROBE_KEY;
use keyfold_core::memory::ValueShape;
use keyfold_core::resp::Reply;
use keyfold_survey::observation::{Content, Encoding, Kind, Observation, Sampled};

use super::denied::{Ask, Denied, KEYS};
use crate::server::Commands;
use crate::server::reply::{FromReply, read_if};

/// How much of a long value is looked at.
const VALUE_PART: &[u8] = b"255";
/// How many fields or members of a large hash or set are looked at; small ones answer with all.
const ELEMENTS: &[u8] = b"32";
/// Elements kept of a sampled hash or set.
const ELEMENTS_KEPT: usize = 64;
/// Small hashes answer HSCAN with everything they hold: above this they are not asked.
const SAMPLED_UP_TO_BYTES: u64 = 256 * 1024;

/// Each command that is asked of keys, on one that isn't there.
const PROBES: [(&str, &[&str]); 14] = [
    ("OBJECT", &["ENCODING", PROBE_KEY]),
    ("TYPE", &[PROBE_KEY]),
    ("PTTL", &[PROBE_KEY]),
    ("GET", &[PROBE_KEY]),
    ("STRLEN", &[PROBE_KEY]),
    ("GETRANGE", &[PROBE_KEY, "0", "0"]),
    ("MEMORY", &["USAGE", PROBE_KEY]),
    ("HLEN", &[PROBE_KEY]),
    ("SCARD", &[PROBE_KEY]),
    ("LLEN", &[PROBE_KEY]),
    ("ZCARD", &[PROBE_KEY]),
    ("XLEN", &[PROBE_KEY]),
    ("HSCAN", &[PROBE_KEY, "0"]),
    ("SSCAN", &[PROBE_KEY, "0"]),
];

/// Replies as they came.
pub(super) type Answers = std::vec::IntoIter<Vec<u8>>;

/// What may be asked, and which keys' values are looked at.
pub(super) struct Facts {
    ask: Ask,
    denied: Denied,
    /// Counts keys, so that one in so many is sampled.
    seen: u64,
}

/// One key under way.
struct Question {
    observation: Observation,
    sampled: bool,
    /// Gone since SCAN saw it.
    gone: bool,
}

/// The keys of one page.
pub(super) struct Questions(Vec<Question>);

impl Facts {
    pub(super) fn new(ask: Ask) -> Self {
        Self { ask, denied: Denied::default(), seen: 0 }
    }

    pub(super) fn into_denied(self) -> Denied {
        self.denied
    }

    fn may(&self, command: &'static str) -> bool {
        !self.denied.contains(command)
    }

    pub(super) fn begin(&mut self, names: Vec<Box<[u8]>>) -> Questions {
        let question = |key: Box<[u8]>| {
            self.seen += 1;
            let sampled = self.ask.sample_every > 0 && self.seen.is_multiple_of(self.ask.sample_every);
            let observation = Observation {
                key,
                kind: Kind::Other,
                encoding: Encoding::Other,
                content: Content::Unknown,
                usage_bytes: None,
                has_expiry: false,
                sample: None,
            };
            Question { observation, sampled, gone: false }
        };
        Questions(names.into_iter().map(question).collect())
    }

    /// An answer, or none where the server refused the command or the key has become another type since.
    fn answer<T: FromReply>(&mut self, command: &'static str, answers: &mut Answers) -> anyhow::Result<Option<T>> {
        let Some(answer) = answers.next() else { anyhow::bail!("the server gave fewer answers than commands") };
        let Ok(Reply::Error(error)) = Reply::parse(&answer) else { return Ok(read_if(&answer)) };
        let text = String::from_utf8_lossy(error);
        if is_about_keys(&text) {
            self.denied.note(KEYS, &text);
        } else if !text.contains("WRONGTYPE") && !text.contains("no such key") {
            self.denied.note(command, &text);
        }
        Ok(None)
    }
}

/// What the user may do on some keys only, he may do.
fn is_about_keys(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    error.contains("noperm") && error.contains("access") && error.contains("key")
}

// Before the first page, so that none is lost to what may not be asked.
impl Facts {
    pub(super) fn push_probes(commands: &mut Commands) {
        for (command, args) in PROBES {
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            commands.push(&[&[command.as_bytes()], args.as_slice()].concat());
        }
    }

    pub(super) fn take_probes(&mut self, answers: &mut Answers) -> anyhow::Result<()> {
        for (command, _) in PROBES {
            self.answer::<()>(command, answers)?;
        }
        // The key that was tried is none of the user's.
        self.denied.forget(KEYS);
        Ok(())
    }
}

// Stage 1: encoding or type, and expiry.
impl Questions {
    pub(super) fn push_first(&self, facts: &Facts, commands: &mut Commands) {
        for Question { observation: Observation { key, .. }, .. } in &self.0 {
            if facts.may("OBJECT") {
                commands.push(&[b"OBJECT", b"ENCODING", key]);
            } else if facts.may("TYPE") {
                commands.push(&[b"TYPE", key]);
            }
            if facts.may("PTTL") {
                commands.push(&[b"PTTL", key]);
            }
        }
    }
}

impl Facts {
    pub(super) fn take_first(&mut self, questions: &mut Questions, answers: &mut Answers) -> anyhow::Result<()> {
        // What was sent, even where the first answer says that it may not be.
        let (object, kind, pttl) = (self.may("OBJECT"), self.may("TYPE"), self.may("PTTL"));
        for question in &mut questions.0 {
            let observation = &mut question.observation;
            if object {
                match self.answer::<Option<Vec<u8>>>("OBJECT", answers)? {
                    Some(None) => question.gone = true,
                    Some(Some(encoding)) => {
                        observation.encoding = Encoding::parse(&encoding);
                        observation.kind = observation.encoding.kind().unwrap_or(Kind::Other);
                    }
                    None => {}
                }
            } else if kind && let Some(kind) = self.answer::<Vec<u8>>("TYPE", answers)? {
                question.gone = kind == b"none";
                observation.kind = Kind::parse(&kind);
            }
            if pttl && let Some(ms) = self.answer::<i64>("PTTL", answers)? {
                observation.has_expiry = ms >= 0;
                question.gone |= ms == -2;
            }
        }
        Ok(())
    }
}

/// What stage 2 asks of a string.
fn reads_whole(observation: &Observation, facts: &Facts) -> bool {
    matches!(observation.encoding, Encoding::Int | Encoding::Embstr) && facts.may("GET")
}

// Stage 2: the values of strings; of all others the type, and what they take.
impl Questions {
    pub(super) fn push_second(&mut self, facts: &Facts, commands: &mut Commands) {
        self.0.retain(|question| !question.gone);
        for Question { observation, sampled, .. } in &self.0 {
            let key = &observation.key;
            if observation.kind == Kind::String {
                if reads_whole(observation, facts) {
                    commands.push(&[b"GET", key]);
                } else if facts.may("STRLEN") {
                    commands.push(&[b"STRLEN", key]);
                }
                if *sampled && !reads_whole(observation, facts) && facts.may("GETRANGE") {
                    commands.push(&[b"GETRANGE", key, b"0", VALUE_PART]);
                }
            } else if facts.may("TYPE") {
                commands.push(&[b"TYPE", key]);
            }
            if (*sampled || observation.kind != Kind::String) && facts.may("MEMORY") {
                commands.push(&[b"MEMORY", b"USAGE", key]);
            }
        }
    }
}

impl Facts {
    pub(super) fn take_second(&mut self, questions: &mut Questions, answers: &mut Answers) -> anyhow::Result<()> {
        let sent = Self { ask: self.ask, denied: self.denied.clone(), seen: 0 };
        for Question { observation, sampled, gone } in &mut questions.0 {
            let is_string = observation.kind == Kind::String;
            if is_string {
                self.take_string(observation, *sampled, gone, &sent, answers)?;
            } else if sent.may("TYPE")
                && let Some(kind) = self.answer::<Vec<u8>>("TYPE", answers)?
            {
                *gone = kind == b"none";
                observation.kind = Kind::parse(&kind);
            }
            if (*sampled || !is_string)
                && sent.may("MEMORY")
                && let Some(usage) = self.answer("MEMORY", answers)?
            {
                observation.usage_bytes = Some(usage);
            }
        }
        Ok(())
    }

    fn take_string(
        &mut self,
        observation: &mut Observation,
        sampled: bool,
        gone: &mut bool,
        sent: &Self,
        answers: &mut Answers,
    ) -> anyhow::Result<()> {
        if reads_whole(observation, sent) {
            match self.answer::<Option<Vec<u8>>>("GET", answers)? {
                Some(Some(value)) => {
                    observation.content = Content::String(ValueShape::of(&value));
                    observation.sample = sampled.then(|| Sampled::Value(value.into()));
                }
                Some(None) => *gone = true,
                None => {}
            }
            return Ok(());
        }
        if sent.may("STRLEN")
            && let Some(len) = self.answer("STRLEN", answers)?
        {
            let is_integer = observation.encoding == Encoding::Int;
            let shape = if is_integer { integer_of_len(len) } else { ValueShape::Bytes(len) };
            observation.content = Content::String(shape);
        }
        if sampled
            && sent.may("GETRANGE")
            && let Some(part) = self.answer::<Vec<u8>>("GETRANGE", answers)?
        {
            observation.sample = Some(Sampled::Value(part.into()));
        }
        Ok(())
    }
}

/// An integer that is so long: where values can't be read, its encoded size is near that of the real one.
fn integer_of_len(len: u64) -> ValueShape {
    let digits = u32::try_from(len.saturating_sub(1)).unwrap_or(0).min(18);
    ValueShape::Integer(10_i64.pow(digits))
}

/// How the number of elements is asked for.
fn length_command(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Hash => Some("HLEN"),
        Kind::Set => Some("SCARD"),
        Kind::List => Some("LLEN"),
        Kind::SortedSet => Some("ZCARD"),
        Kind::Stream => Some("XLEN"),
        Kind::String | Kind::Other => None,
    }
}

/// How elements are asked for.
fn elements_command(question: &Question) -> Option<&'static str> {
    let observation = &question.observation;
    let packed = matches!(observation.encoding, Encoding::Listpack | Encoding::Ziplist | Encoding::Intset);
    if !question.sampled || packed && observation.usage_bytes.is_none_or(|bytes| bytes > SAMPLED_UP_TO_BYTES) {
        return None;
    }
    match observation.kind {
        Kind::Hash => Some("HSCAN"),
        Kind::Set => Some("SSCAN"),
        _ => None,
    }
}

// Stage 3: how many elements there are, and some of them.
impl Questions {
    pub(super) fn push_third(&mut self, facts: &Facts, commands: &mut Commands) {
        self.0.retain(|question| !question.gone);
        for question in &mut self.0 {
            let observation = &question.observation;
            // Such keys are few or large; every one in eight is worth a look even where few strings are.
            question.sampled |= observation.kind != Kind::String
                && facts.ask.sample_every > 0
                && observation.key.last().is_some_and(|byte| byte % 8 == 0);
            if let Some(command) = length_command(observation.kind)
                && facts.may(command)
            {
                commands.push(&[command.as_bytes(), &observation.key]);
            }
            if let Some(command) = elements_command(question)
                && facts.may(command)
            {
                commands.push(&[command.as_bytes(), &question.observation.key, b"0", b"COUNT", ELEMENTS]);
            }
        }
    }

    pub(super) fn into_observations(self) -> Vec<Observation> {
        self.0.into_iter().map(|question| question.observation).collect()
    }
}

impl Facts {
    pub(super) fn take_third(&mut self, questions: &mut Questions, answers: &mut Answers) -> anyhow::Result<()> {
        let sent = Self { ask: self.ask, denied: self.denied.clone(), seen: 0 };
        for question in &mut questions.0 {
            if let Some(command) = length_command(question.observation.kind)
                && sent.may(command)
                && let Some(len) = self.answer(command, answers)?
            {
                question.observation.content = Content::Elements(len);
            }
            if let Some(command) = elements_command(question)
                && sent.may(command)
                && let Some(answer) = self.answer(command, answers)?
            {
                question.observation.sample = Some(elements(question.observation.kind, answer));
            }
        }
        Ok(())
    }
}

/// The elements of an answer to HSCAN or SSCAN.
fn elements(kind: Kind, (_cursor, elements): (Vec<u8>, Vec<Vec<u8>>)) -> Sampled {
    let mut elements = elements.into_iter().map(Vec::into_boxed_slice);
    if kind == Kind::Set {
        return Sampled::Members(elements.take(ELEMENTS_KEPT).collect());
    }
    let mut fields = Vec::new();
    while let (Some(field), Some(value)) = (elements.next(), elements.next()) {
        fields.push((field, value));
    }
    fields.truncate(ELEMENTS_KEPT);
    Sampled::Fields(fields)
}
