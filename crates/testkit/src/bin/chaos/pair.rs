//! Two keys of one slot, a folded and a plain one, that are only ever read and written together, by MULTI and EXEC: both
//! hold the same value, whatever fails.

use keyfold_testkit::reply::Value;

use crate::asker::{Asker, Outcome};
use crate::history::History;
use crate::report::{Report, brief, note_failure, timed};

#[derive(Debug)]
pub(crate) struct Pair {
    folded: History,
    plain: History,
}

impl Pair {
    /// Two keys that don't exist.
    pub(crate) fn of(head: &str, id: u64) -> Self {
        let (folded, plain) = (format!("{head}cart:{{{id}}}:1"), format!("{head}plain:{{{id}}}"));
        Self { folded: History::of(folded), plain: History::of(plain) }
    }

    pub(crate) fn name(&self) -> String {
        self.folded.key.escape_ascii().to_string()
    }

    pub(crate) fn histories(&self) -> [&History; 2] {
        [&self.folded, &self.plain]
    }

    fn remember(&mut self, text: &str) {
        self.folded.remember(text.to_owned());
        self.plain.remember(text.to_owned());
    }

    /// Sets both, or removes both; whether nobody knows what became of it.
    pub(crate) fn write(&mut self, asker: &mut Asker, value: Option<&[u8]>, report: &mut Report) -> bool {
        let (folded, plain) = (self.folded.key.clone(), self.plain.key.clone());
        let commands: [Vec<&[u8]>; 2] = [&folded, &plain].map(|key| match value {
            Some(value) => vec![&b"SET"[..], key, value],
            None => vec![&b"DEL"[..], key],
        });
        let (outcome, span) = timed(|| asker.transact(&folded, &[&commands[0], &commands[1]]));
        let what = value.map_or_else(|| "DEL".into(), |value| value.escape_ascii().to_string());
        self.remember(&format!("{span:?} MULTI {what}: {}", brief(&outcome)));
        let is_done = |answer: &Value| match value {
            Some(_) => matches!(answer, Value::Simple(ok) if ok == b"OK"),
            None => matches!(answer, Value::Integer(0 | 1)),
        };
        match outcome {
            Outcome::Answer(Value::Array(answers)) if answers.len() == 2 && answers.iter().all(is_done) => {
                for history in [&mut self.folded, &mut self.plain] {
                    history.wrote(value.map(<[u8]>::to_vec), None, span);
                    report.note_write();
                }
                false
            }
            outcome => {
                let is_uncertain =
                    note_failure(&mut self.folded, report, outcome, span, value.map(<[u8]>::to_vec), None);
                if is_uncertain {
                    self.plain.may_have_written(value.map(<[u8]>::to_vec), None, span.0);
                }
                is_uncertain
            }
        }
    }

    /// Reads both; whether an answer came.
    pub(crate) fn read(&mut self, asker: &mut Asker, report: &mut Report) -> bool {
        let (folded, plain) = (self.folded.key.clone(), self.plain.key.clone());
        let (outcome, span) = timed(|| asker.transact(&folded, &[&[b"GET", &folded], &[b"GET", &plain]]));
        self.remember(&format!("{span:?} MULTI GET: {}", brief(&outcome)));
        match outcome {
            Outcome::Answer(Value::Array(values)) if values.len() == 2 && !values.iter().any(Value::is_error) => {
                if values[0] != values[1] {
                    let past = self.folded.past();
                    report.wrong.push(format!("{}: half of a transaction: {values:?}\n      {past}", self.name()));
                }
                report.note(self.folded.read(values[0].bytes(), span));
                report.note(self.plain.read(values[1].bytes(), span));
                true
            }
            Outcome::Answer(other) => {
                report.wrong.push(format!("EXEC on {} {span:?} answered {other:?}", self.name()));
                false
            }
            Outcome::Unclear(error) => {
                report.wrong.push(format!("EXEC on {} {span:?}: {error}", self.name()));
                false
            }
            Outcome::NotDone(error) | Outcome::Maybe(error) => {
                report.note_error(&error);
                false
            }
        }
    }

    /// All is quiet, and both have just been read.
    pub(crate) fn forget(&mut self) {
        self.folded.forget();
        self.plain.forget();
    }
}
