//! Which nodes a request concerns, and what their answers come to.
//!
//! ```text
//! GET {a}1                      one slot
//! MGET {a}1 {b}1 {a}2           two parts: MGET {a}1 {a}2, MGET {b}1; their values in the order of the keys
//! MSET {a}1 x {b}1 y            CROSSSLOT, unless writes may be split
//! DBSIZE                        every primary; the sum
//! ```

use super::Endpoint;
use crate::command::{Command, Find, Id, RequestPolicy, ResponsePolicy};
use crate::resp::{Answer, Protocol, Reply};
use crate::slot::Slot;

/// Which nodes a request concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// It has no keys, and any node will do.
    Any,
    /// All its keys are in this slot.
    Slot(Slot),
    /// Its keys are in several slots, and each slot's part stands for itself.
    Parts(Vec<Part>),
    /// This one, and no other.
    Node(Endpoint),
    /// Every primary.
    Shards,
    /// Its keys are in several slots, and it can't be carried out in parts.
    CrossSlot,
}

/// What of a request is of one slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The slot.
    pub slot: Slot,
    /// Which of the request's keys, counted from 0, with what stands behind each.
    pub keys: Vec<usize>,
    /// The positions of these arguments, keys and what stands behind them.
    args: Vec<usize>,
}

impl Target {
    /// Which nodes a request concerns. Commands that write several keys are carried out in parts only where
    /// `split_writes`: others then see some of them written and some not.
    pub fn of(command: &Command, args: &[&[u8]], split_writes: bool) -> Self {
        let keys = command.slotted_in(args);
        let slot_of = |index: usize| args.get(index).map(|key| Slot::of(key));
        let Some(first) = keys.iter().next().and_then(|key| slot_of(key.index)) else {
            // PING has the tips of a command that looks whether all are there; clients mean this connection.
            let to_all = matches!(command.cluster.request, RequestPolicy::AllShards | RequestPolicy::AllNodes);
            return if to_all && command.id != Id::Ping { Self::Shards } else { Self::Any };
        };
        if keys.iter().skip(1).all(|key| slot_of(key.index) == Some(first)) {
            return Self::Slot(first);
        }
        // What removes or looks for several keys promises nothing about them together, not even before one server.
        let stands_apart = matches!(command.id, Id::Mget | Id::Del | Id::Unlink | Id::Exists | Id::Touch);
        let may_split = stands_apart || split_writes && command.id == Id::Mset;
        let step = match command.keys.first().map(|spec| &spec.find) {
            Some(Find::Range { step, .. }) if may_split => *step,
            _ => return Self::CrossSlot,
        };
        let mut parts: Vec<Part> = Vec::new();
        for (nth, key) in keys.iter().enumerate() {
            let Some(slot) = slot_of(key.index) else { continue };
            let at = parts.iter().position(|part| part.slot == slot).unwrap_or_else(|| {
                parts.push(Part { slot, keys: Vec::new(), args: Vec::new() });
                parts.len() - 1
            });
            parts[at].keys.push(nth);
            parts[at].args.extend(key.index..(key.index + step).min(args.len()));
        }
        Self::Parts(parts)
    }
}

impl Part {
    /// The request that this part is.
    pub fn request<'a>(&self, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
        args.iter().take(1).copied().chain(self.args.iter().filter_map(|at| args.get(*at).copied())).collect()
    }
}

/// Appends what several nodes' answers come to. `keys` says of each answer, where it is to some of a request's keys, to
/// which; answers are whole replies in the client's protocol.
pub fn merge(response: ResponsePolicy, answers: &[Vec<u8>], keys: &[&[usize]], protocol: Protocol, out: &mut Vec<u8>) {
    let mut errors = answers.iter().filter(|answer| answer.starts_with(b"-") || answer.starts_with(b"!"));
    if response == ResponsePolicy::OneSucceeded {
        let succeeded = answers.iter().find(|answer| !answer.starts_with(b"-") && !answer.starts_with(b"!"));
        out.extend_from_slice(succeeded.or(errors.next()).map_or(&[][..], Vec::as_slice));
        return;
    }
    if let Some(error) = errors.next() {
        out.extend_from_slice(error);
        return;
    }
    let numbers = answers.iter().filter_map(|answer| match Reply::parse(answer) {
        Ok(Reply::Integer(number)) => Some(number),
        _ => None,
    });
    let mut answer = Answer::new(out, protocol);
    match response {
        ResponsePolicy::Sum => answer.integer(numbers.sum()),
        ResponsePolicy::Least if answers.iter().any(|answer| answer.starts_with(b"*")) => {
            let rows: Vec<Vec<i64>> = answers.iter().map(|answer| integers(answer)).collect();
            let len = rows.iter().map(Vec::len).min().unwrap_or_default();
            answer.array(len);
            (0..len).for_each(|at| answer.integer(rows.iter().map(|row| row[at]).min().unwrap_or_default()));
        }
        ResponsePolicy::Least => answer.integer(numbers.min().unwrap_or_default()),
        ResponsePolicy::And => {
            let rows: Vec<Vec<_>> = answers.iter().map(|answer| elements(answer)).collect();
            let len = rows.iter().map(Vec::len).min().unwrap_or_default();
            answer.array(len);
            for at in 0..len {
                answer.integer(i64::from(rows.iter().all(|row| row[at] == b":1\r\n")));
            }
        }
        ResponsePolicy::Joined if keys.is_empty() => {
            let all: Vec<_> = answers.iter().flat_map(|answer| elements(answer)).collect();
            answer.array(all.len());
            all.iter().for_each(|element| answer.raw(element));
        }
        ResponsePolicy::Joined => {
            let mut all: Vec<_> = answers
                .iter()
                .zip(keys)
                .flat_map(|(answer, keys)| elements(answer).into_iter().zip(keys.iter()))
                .collect();
            all.sort_by_key(|(_, key)| **key);
            answer.array(all.len());
            all.iter().for_each(|(element, _)| answer.raw(element));
        }
        ResponsePolicy::AllSucceeded | ResponsePolicy::Special | ResponsePolicy::OneSucceeded => {
            answers.first().into_iter().for_each(|first| answer.raw(first));
        }
    }
}

fn integers(answer: &[u8]) -> Vec<i64> {
    match Reply::parse(answer) {
        Ok(Reply::Array(elements)) => elements
            .map(|element| match element {
                Reply::Integer(number) => number,
                _ => 0,
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn elements(answer: &[u8]) -> Vec<&[u8]> {
    match Reply::parse(answer) {
        Ok(Reply::Array(mut elements)) => std::iter::from_fn(move || elements.next_raw()).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;

    fn target(request: &str, split_writes: bool) -> Target {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        Target::of(table().resolve(&args).unwrap(), &args, split_writes)
    }

    /// The requests that the parts are, with the keys of each.
    fn parts(request: &str, split_writes: bool) -> Vec<(String, Vec<usize>)> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let Target::Parts(parts) = target(request, split_writes) else { panic!("{request} is one") };
        let text = |part: &Part| String::from_utf8(part.request(&args).join(&b' ')).unwrap();
        parts.iter().map(|part| (text(part), part.keys.clone())).collect()
    }

    #[test]
    fn a_request_goes_where_its_keys_are() {
        let slot = Target::Slot(Slot::of(b"a"));
        for request in
            ["GET {a}1", "MSET {a}1 x {a}2 y", "EVAL x 2 {a}1 {a}2 b", "XREAD STREAMS {a}1 0", "OBJECT FREQ {a}1"]
        {
            assert_eq!(target(request, false), slot, "{request}");
        }
        assert_eq!(target("SPUBLISH {a}1 x", false), slot);
        assert_eq!(target("SSUBSCRIBE {a}1 {a}2", false), slot);
        assert_eq!(target("SSUBSCRIBE a b", false), Target::CrossSlot);
        for request in ["PING", "ECHO a", "PUBLISH a b", "EVAL x 0", "TIME", "SCAN 0"] {
            assert_eq!(target(request, false), Target::Any, "{request}");
        }
        for request in ["DBSIZE", "KEYS *", "FLUSHALL", "SCRIPT LOAD x", "WAIT 1 0", "CONFIG SET a b"] {
            assert_eq!(target(request, false), Target::Shards, "{request}");
        }
        for request in ["MSETNX a 1 b 2", "RENAME a b", "BITOP AND a b c", "EVAL x 2 a b", "SINTER a b", "MSET a 1 b 2"]
        {
            assert_eq!(target(request, false), Target::CrossSlot, "{request}");
        }
    }

    #[test]
    fn a_request_of_several_slots_is_carried_out_in_parts() {
        let mget = parts("MGET {a}1 {b}1 {a}2", false);
        assert_eq!(mget, [("MGET {a}1 {a}2".into(), vec![0, 2]), ("MGET {b}1".into(), vec![1])]);
        assert_eq!(parts("del {a}1 {b}1 {b}1", false)[1], ("del {b}1 {b}1".into(), vec![1, 2]));
        let mset = parts("MSET {a}1 x {b}1 y {a}1 z", true);
        assert_eq!(mset, [("MSET {a}1 x {a}1 z".into(), vec![0, 2]), ("MSET {b}1 y".into(), vec![1])]);
    }

    fn merged(request: &str, answers: &[&str], keys: &[&[usize]]) -> String {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let command = table().resolve(&args).unwrap();
        let answers: Vec<_> =
            answers.iter().map(|answer| (answer.replace(' ', "\r\n") + "\r\n").into_bytes()).collect();
        let mut out = Vec::new();
        merge(command.cluster.response, &answers, keys, Protocol::Resp2, &mut out);
        String::from_utf8(out).unwrap().trim_end().replace("\r\n", " ")
    }

    #[test]
    fn the_parts_answers_come_to_one() {
        assert_eq!(merged("MGET a b c", &["*2 $1 x $-1", "*1 $1 y"], &[&[0, 2], &[1]]), "*3 $1 x $1 y $-1");
        assert_eq!(merged("DEL a b c", &[":2", ":1"], &[&[0, 2], &[1]]), ":3");
        assert_eq!(merged("MSET a 1 b 2", &["+OK", "+OK"], &[&[0], &[1]]), "+OK");
        assert_eq!(merged("MSET a 1 b 2", &["+OK", "-OOM"], &[&[0], &[1]]), "-OOM");
        assert_eq!(merged("DBSIZE", &[":2", ":3"], &[]), ":5");
        assert_eq!(merged("KEYS *", &["*1 $1 x", "*0", "*1 $1 y"], &[]), "*2 $1 x $1 y");
        assert_eq!(merged("SCRIPT EXISTS a b", &["*2 :1 :1", "*2 :1 :0"], &[]), "*2 :1 :0");
        assert_eq!(merged("WAIT 1 0", &[":2", ":1"], &[]), ":1");
        assert_eq!(merged("SCRIPT KILL", &["-NOTBUSY", "+OK"], &[]), "+OK");
        assert_eq!(merged("SCRIPT KILL", &["-NOTBUSY", "-NOTBUSY"], &[]), "-NOTBUSY");
    }
}
