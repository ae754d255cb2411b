//! What is asked about the keys of one page, in three stages, and what their answers amount to.

use keyfold_core::admin::PROBE_KEY;
use keyfold_core::cluster::Redirect;
use keyfold_core::collection::Collection;
use keyfold_core::memory::ValueShape;
use keyfold_core::resp::Reply;
use keyfold_server::Commands;
use keyfold_server::reply::read_if;
use keyfold_survey::observation::{Content, Encoding, Kind, Observation, READ_WHOLE_BYTES, Sampled};

use super::denied::{Denied, KEYS};

/// How much of a long value is looked at.
const VALUE_PART: &[u8] = b"255";
/// How many fields or members of a large hash or set are looked at; small ones answer with all.
const ELEMENTS: &[u8] = b"32";
/// Elements kept of a sampled hash or set.
const ELEMENTS_KEPT: usize = 64;
/// Small hashes answer HSCAN with everything they hold: above this they are not asked.
const SAMPLED_UP_TO_BYTES: u64 = 256 * 1024;
/// The same of those that aren't sampled.
const QUICK_BYTES: u64 = 16 * 1024;

/// Each command that is asked of keys, on one that isn't there.
const PROBES: [(&str, &[&str]); 16] = [
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
    ("HGETALL", &[PROBE_KEY]),
    ("SMEMBERS", &[PROBE_KEY]),
];

/// What may be asked, and which keys' values are looked at.
pub(super) struct Facts {
    /// Of one in so many keys also the beginning of the value, or some fields or members; 0 for none.
    sample_every: u64,
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

/// What one round trip asks, and what becomes of each answer.
#[derive(Default)]
pub(super) struct Stage {
    pub(super) commands: Commands,
    /// Whose answer comes, to which command, and who notes it.
    asked: Vec<(usize, &'static str, Note)>,
}

/// Notes an answer, which is no error.
type Note = fn(&mut Question, &[u8]);

impl Facts {
    pub(super) fn new(sample_every: u64) -> Self {
        Self { sample_every, denied: Denied::default(), seen: 0 }
    }

    pub(super) fn into_denied(self) -> Denied {
        self.denied
    }

    pub(super) fn begin(&mut self, names: Vec<Box<[u8]>>) -> Questions {
        let question = |key: Box<[u8]>| {
            self.seen += 1;
            let sampled = self.sample_every > 0 && self.seen.is_multiple_of(self.sample_every);
            let observation = Observation {
                key,
                kind: Kind::Other,
                encoding: Encoding::Other,
                content: Content::Unknown,
                usage_bytes: None,
                has_expiry: false,
                sample: None,
                members: None,
            };
            Question { observation, sampled, gone: false }
        };
        Questions(names.into_iter().map(question).collect())
    }

    /// Whether this is an answer: not where the server refused the command, or the key has become another type since.
    fn is_answer(&mut self, command: &'static str, answer: &[u8]) -> bool {
        let Ok(Reply::Error(error)) = Reply::parse(answer) else { return true };
        if Redirect::read(answer).is_some() {
            return false;
        }
        let text = String::from_utf8_lossy(error);
        if is_about_keys(&text) {
            self.denied.note(KEYS, &text);
        } else if !text.contains("WRONGTYPE") && !text.contains("no such key") {
            self.denied.note(command, &text);
        }
        false
    }

    /// Asks about a key, where that may be asked; whether it may.
    fn ask(&self, stage: &mut Stage, at: usize, command: &'static str, args: &[&[u8]], note: Note) -> bool {
        let may = !self.denied.contains(command);
        if may {
            stage.commands.push(&[&[command.as_bytes()], args].concat());
            stage.asked.push((at, command, note));
        }
        may
    }

    /// Takes the answers to a stage.
    pub(super) fn take(&mut self, stage: &Stage, answers: &[Vec<u8>], questions: &mut Questions) {
        for ((at, command, note), answer) in stage.asked.iter().zip(answers) {
            let question = &mut questions.0[*at];
            if self.is_answer(command, answer) {
                note(question, answer);
            }
            // Its slot went to another node, where it is seen as well.
            question.gone |= Redirect::read(answer).is_some();
        }
    }

    /// What is asked before the first page, so that none is lost to what may not be asked.
    pub(super) fn probes() -> Commands {
        let mut commands = Commands::default();
        for (command, args) in PROBES {
            let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
            commands.push(&[&[command.as_bytes()], args.as_slice()].concat());
        }
        commands
    }

    pub(super) fn take_probes(&mut self, answers: &[Vec<u8>]) {
        for ((command, _), answer) in PROBES.iter().zip(answers) {
            self.is_answer(command, answer);
        }
        // The key that was tried is none of the user's.
        self.denied.forget(KEYS);
    }

    /// Stage 1: encoding or type, and expiry.
    pub(super) fn first(&self, questions: &Questions) -> Stage {
        let mut stage = Stage::default();
        for (at, Question { observation: Observation { key, .. }, .. }) in questions.0.iter().enumerate() {
            if !self.ask(&mut stage, at, "OBJECT", &[b"ENCODING", key], note_encoding) {
                self.ask(&mut stage, at, "TYPE", &[key], note_type);
            }
            self.ask(&mut stage, at, "PTTL", &[key], note_expiry);
        }
        stage
    }

    /// Stage 2: the values of strings; of all others the type, and what they take.
    pub(super) fn second(&self, questions: &mut Questions) -> Stage {
        questions.0.retain(|question| !question.gone);
        let mut stage = Stage::default();
        for (at, Question { observation: Observation { key, kind, encoding, .. }, sampled, .. }) in
            questions.0.iter().enumerate()
        {
            let is_string = *kind == Kind::String;
            let is_short = matches!(encoding, Encoding::Int | Encoding::Embstr);
            if !is_string {
                self.ask(&mut stage, at, "TYPE", &[key], note_type);
            } else if !is_short || !self.ask(&mut stage, at, "GET", &[key], note_value) {
                self.ask(&mut stage, at, "STRLEN", &[key], note_length);
                if *sampled {
                    self.ask(&mut stage, at, "GETRANGE", &[key, b"0", VALUE_PART], note_part);
                }
            }
            if *sampled || !is_string {
                self.ask(&mut stage, at, "MEMORY", &[b"USAGE", key], note_usage);
            }
        }
        stage
    }

    /// Stage 3: of small sets and hashes all elements, of others how many there are, and some of them.
    pub(super) fn third(&self, questions: &mut Questions) -> Stage {
        questions.0.retain(|question| !question.gone);
        let mut stage = Stage::default();
        for (at, question) in questions.0.iter_mut().enumerate() {
            let observation = &question.observation;
            // Such keys are few or large; every one in eight is worth a look even where few strings are.
            question.sampled |= observation.kind != Kind::String
                && self.sample_every > 0
                && observation.key.last().is_some_and(|byte| byte % 8 == 0);
            if let Some(command) = whole_command(observation)
                && self.ask(&mut stage, at, command, &[&observation.key], note_members)
            {
                continue;
            }
            if let Some(command) = length_command(observation.kind) {
                self.ask(&mut stage, at, command, &[&observation.key], note_count);
            }
            // What a large one would take in parts is told by some of its elements.
            let looks_into = question.sampled || self.sample_every > 0 && is_large(&question.observation);
            if looks_into && let Some(command) = elements_command(&question.observation) {
                let args = [&question.observation.key, &b"0"[..], b"COUNT", ELEMENTS];
                self.ask(&mut stage, at, command, &args, note_elements);
            }
        }
        stage
    }
}

/// What the user may do on some keys only, he may do.
fn is_about_keys(error: &str) -> bool {
    let error = error.to_ascii_lowercase();
    error.contains("noperm") && error.contains("access") && error.contains("key")
}

fn note_encoding(question: &mut Question, answer: &[u8]) {
    match read_if::<Option<Vec<u8>>>(answer) {
        Some(None) => question.gone = true,
        Some(Some(encoding)) => {
            let encoding = Encoding::parse(&encoding);
            question.observation.encoding = encoding;
            question.observation.kind = encoding.kind().unwrap_or(Kind::Other);
        }
        None => {}
    }
}

fn note_type(question: &mut Question, answer: &[u8]) {
    if let Some(kind) = read_if::<Vec<u8>>(answer) {
        question.gone = kind == b"none";
        question.observation.kind = Kind::parse(&kind);
    }
}

fn note_expiry(question: &mut Question, answer: &[u8]) {
    let ms = read_if::<i64>(answer);
    question.observation.has_expiry = ms.is_some_and(|ms| ms >= 0);
    question.gone |= ms == Some(-2);
}

fn note_value(question: &mut Question, answer: &[u8]) {
    match read_if::<Option<Vec<u8>>>(answer) {
        Some(None) => question.gone = true,
        Some(Some(value)) => {
            question.observation.content = Content::String(ValueShape::of(&value));
            question.observation.sample = question.sampled.then(|| Sampled::Value(value.into()));
        }
        None => {}
    }
}

fn note_length(question: &mut Question, answer: &[u8]) {
    if let Some(len) = read_if(answer) {
        let is_integer = question.observation.encoding == Encoding::Int;
        let shape = if is_integer { integer_of_len(len) } else { ValueShape::Bytes(len) };
        question.observation.content = Content::String(shape);
    }
}

fn note_part(question: &mut Question, answer: &[u8]) {
    question.observation.sample = read_if(answer).map(|part: Vec<u8>| Sampled::Value(part.into()));
}

fn note_usage(question: &mut Question, answer: &[u8]) {
    question.observation.usage_bytes = read_if(answer);
}

fn note_count(question: &mut Question, answer: &[u8]) {
    if let Some(elements) = read_if(answer) {
        question.observation.content = Content::Elements(elements);
    }
}

fn note_members(question: &mut Question, answer: &[u8]) {
    let observation = &mut question.observation;
    let texts: Option<Vec<Vec<u8>>> = read_if(answer);
    let (Some(texts), Some(kind)) = (texts, observation.kind.collection()) else { return };
    let members = Collection::of_texts(kind, texts);
    // An empty one is gone.
    question.gone |= members.is_empty();
    observation.content = Content::Elements(members.len() as u64);
    observation.sample = question.sampled.then(|| Sampled::of(&members, ELEMENTS_KEPT));
    observation.members = Some(members);
}

fn note_elements(question: &mut Question, answer: &[u8]) {
    question.observation.sample = read_if(answer).map(|answer| elements(question.observation.kind, answer));
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

/// How all of a small set or hash is asked for.
fn whole_command(observation: &Observation) -> Option<&'static str> {
    let is_small = observation.usage_bytes.is_some_and(|bytes| bytes <= READ_WHOLE_BYTES);
    match observation.kind {
        Kind::Hash if is_small => Some("HGETALL"),
        Kind::Set if is_small => Some("SMEMBERS"),
        _ => None,
    }
}

/// Whether the server answers with all elements when it is asked for some.
fn is_packed(observation: &Observation) -> bool {
    matches!(observation.encoding, Encoding::Listpack | Encoding::Ziplist | Encoding::Intset)
}

/// Whether it is a set or hash of which some elements are asked for, whichever it is: one of which these aren't far too many.
fn is_large(observation: &Observation) -> bool {
    let is_quick = !is_packed(observation) || observation.usage_bytes.is_some_and(|bytes| bytes <= QUICK_BYTES);
    observation.kind.collection().is_some() && is_quick
}

/// How elements are asked for.
fn elements_command(observation: &Observation) -> Option<&'static str> {
    if is_packed(observation) && observation.usage_bytes.is_none_or(|bytes| bytes > SAMPLED_UP_TO_BYTES) {
        return None;
    }
    match observation.kind {
        Kind::Hash => Some("HSCAN"),
        Kind::Set => Some("SSCAN"),
        _ => None,
    }
}

impl Questions {
    pub(super) fn into_observations(self) -> Vec<Observation> {
        self.0.into_iter().map(|question| question.observation).collect()
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
