//! The functions that a server has, as it lists them.
//!
//! A function is called by its name, and whoever calls it may never have loaded it. So keyfold asks for all libraries with
//! their texts, and before that in which state the server's functions are (`state.lua`). A call on folded keys says in which
//! states they are what keyfold takes them for; the script looks which one it is, at the moment at which it runs, and does
//! nothing where it is another: then keyfold asks once more. So a call never runs a library that was replaced or deleted
//! before, whoever did that and whichever way. After CONFIG RESETSTAT a server might come to the same state once more; so no
//! state is gone by for longer than [`TRUSTED_MS`].
//!
//! Before a cluster each node has a state of its own. All that have the same libraries share what is known of these. While a
//! slot moves the first question may be led to the node that gets it, as the call will be, and the others are not: then nothing
//! is kept of the answers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::bodies::{Function, Sha, UserScript};
use super::text;
use crate::resp::{Reply, write_command};

/// For so long a state is gone by, though it be the same.
const TRUSTED_MS: i64 = 5000;
/// So many states are known at most: one for each node.
const MOST_STATES: usize = 256;

/// The functions of one server, by their names in small letters, as servers look for them.
#[derive(Debug, Default)]
pub(crate) struct Listed(BTreeMap<Vec<u8>, Arc<UserScript>>);

impl Listed {
    /// Asks for them alone, with one reply.
    pub(crate) fn ask(wire: &mut Vec<u8>) {
        write_command(wire, &[b"FUNCTION", b"LIST", b"WITHCODE"]);
    }

    /// Reads what FUNCTION LIST WITHCODE answers, before a server that has `server` beside `redis` or not; none where it is
    /// something else.
    pub(crate) fn read(reply: &[u8], has_server: bool) -> Option<Self> {
        let Ok(Reply::Array(libraries)) = Reply::parse(reply) else { return None };
        let mut listed = BTreeMap::new();
        for library in libraries {
            let fields = fields(library)?;
            let code: Arc<[u8]> = fields.get(&b"library_code"[..])?.bytes()?.into();
            let sha = Sha::of(&code);
            let is_lua = fields.get(&b"engine"[..])?.bytes()?.eq_ignore_ascii_case(b"lua");
            let Reply::Array(functions) = fields.get(&b"functions"[..])? else { return None };
            for function in *functions {
                let function = read_function(function, is_lua)?;
                let name = function.name.to_ascii_lowercase();
                let script = UserScript::of_library(sha, Arc::clone(&code), function, has_server);
                listed.insert(name, Arc::new(script));
            }
        }
        Some(Self(listed))
    }

    /// The function of this name, in letters of either size.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&Arc<UserScript>> {
        self.0.get(&name.to_ascii_lowercase())
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |one: &UserScript, other: &UserScript| one.sha == other.sha && one.function() == other.function();
        self.0.len() == other.0.len()
            && self.0.iter().all(|(name, one)| other.0.get(name).is_some_and(|other| is_same(one, other)))
    }
}

/// A map of RESP3, or an array of its keys and values in turn.
fn fields(reply: Reply<'_>) -> Option<BTreeMap<&[u8], Reply<'_>>> {
    let (Reply::Map(mut pairs) | Reply::Array(mut pairs)) = reply else { return None };
    let mut fields = BTreeMap::new();
    while let (Some(name), Some(value)) = (pairs.next(), pairs.next()) {
        fields.insert(name.bytes()?, value);
    }
    Some(fields)
}

fn read_function(reply: Reply<'_>, is_lua: bool) -> Option<Function> {
    let fields = fields(reply)?;
    let Reply::Array(flags) = fields.get(&b"flags"[..])? else { return None };
    let mut flags: Vec<Vec<u8>> = flags.filter_map(Reply::bytes).map(<[u8]>::to_vec).collect();
    flags.sort_unstable();
    Some(Function { name: fields.get(&b"name"[..])?.bytes()?.to_vec(), flags, is_lua })
}

/// What one keyfold knows of the functions that its servers have.
#[derive(Debug, Default)]
pub(crate) struct Functions(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    listed: Arc<Listed>,
    /// The states in which a server has these, and when it was asked, in milliseconds.
    states: Vec<(Vec<u8>, i64)>,
}

impl Functions {
    /// Notes what a server has answered; with the states, its own among them, in which servers have the same.
    pub(crate) fn note(&self, answer: Answered, now_ms: i64) -> (Arc<Listed>, Vec<u8>) {
        if !answer.is_of_one_node {
            return (Arc::new(answer.listed), answer.state);
        }
        let mut known = self.lock();
        if *known.listed != answer.listed {
            *known = Known { listed: Arc::new(answer.listed), states: Vec::new() };
        }
        known.states.retain(|(state, _)| *state != answer.state);
        known.states.push((answer.state, now_ms));
        if known.states.len() > MOST_STATES {
            known.states.remove(0);
        }
        known.trusted(now_ms)
    }

    /// What is known; none where that is too long ago.
    pub(crate) fn known(&self, now_ms: i64) -> Option<(Arc<Listed>, Vec<u8>)> {
        Some(self.lock().trusted(now_ms)).filter(|(_, states)| !states.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn trusted(&mut self, now_ms: i64) -> (Arc<Listed>, Vec<u8>) {
        self.states.retain(|(_, asked)| (0..TRUSTED_MS).contains(&(now_ms - asked)));
        let states: Vec<&[u8]> = self.states.iter().map(|(state, _)| state.as_slice()).collect();
        (Arc::clone(&self.listed), states.join(&b'\n'))
    }
}

/// What a server has answered.
#[derive(Debug)]
pub(crate) struct Answered {
    state: Vec<u8>,
    /// Nothing suggests that the state is another node's than the functions.
    is_of_one_node: bool,
    listed: Listed,
}

impl Answered {
    /// Whether it is in one of these states.
    pub(crate) fn is_in(&self, states: &[u8]) -> bool {
        states.split(|byte| *byte == b'\n').any(|state| state == self.state)
    }
}

/// A server being asked for its functions.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// The replies that have come.
    replies: Vec<Vec<u8>>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Asking {
    /// Other replies are yet to come.
    Wait,
    /// These are its functions.
    Answered(Answered),
    /// It answers with this error.
    Failed(Vec<u8>),
    /// It answers what it can't.
    Unexpected,
}

impl Asked {
    /// How many questions there are.
    const COUNT: u32 = 3;

    /// Asks the server that has these physical keys; with the number of replies to come. In which state it is comes first: what
    /// changes in between makes it an old one.
    pub(crate) fn send(keys: &[&[u8]], wire: &mut Vec<u8>) -> (Self, u32) {
        let count = keys.len().to_string();
        let of_keys: Vec<&[u8]> =
            [&b"EVAL"[..], &text::STATE, count.as_bytes()].into_iter().chain(keys.iter().copied()).collect();
        write_command(wire, &of_keys);
        write_command(wire, &[b"EVAL", &text::STATE, b"0"]);
        Listed::ask(wire);
        (Self::default(), Self::COUNT)
    }

    /// Takes the next reply, of a server that has `server` beside `redis` or not.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], has_server: bool) -> Asking {
        self.replies.push(reply.to_vec());
        let [state, again, list] = self.replies.as_slice() else { return Asking::Wait };
        // A server without functions says so of the last.
        if let Some(error) = self.replies.iter().rfind(|reply| matches!(reply[..], [b'-' | b'!', ..])) {
            return Asking::Failed(error.clone());
        }
        let is_of_one_node = state == again;
        let state = Reply::parse(state).ok().and_then(Reply::bytes).map(<[u8]>::to_vec);
        match state.zip(Listed::read(list, has_server)) {
            Some((state, listed)) => Asking::Answered(Answered { state, is_of_one_node, listed }),
            None => Asking::Unexpected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "#!lua name=mine\nredis.register_function('Get', f)";

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    /// The reply of a server with one library of one function, by RESP2 or RESP3.
    fn reply(code: &str, engine: &str, is_map: bool) -> Vec<u8> {
        let (of_three, of_four, set) = if is_map { ("%3", "%4", "~2") } else { ("*6", "*8", "*2") };
        let function = [
            format!("*1\r\n{of_three}\r\n"),
            bulk("name"),
            bulk("Get"),
            bulk("description"),
            if is_map { "_\r\n".to_owned() } else { "$-1\r\n".to_owned() },
            bulk("flags"),
            format!("{set}\r\n+no-writes\r\n+allow-oom\r\n"),
        ]
        .concat();
        let library = [
            format!("*1\r\n{of_four}\r\n"),
            bulk("library_name"),
            bulk("mine"),
            bulk("engine"),
            bulk(engine),
            bulk("functions"),
            function,
            bulk("library_code"),
            bulk(code),
        ];
        library.concat().into_bytes()
    }

    fn answered(state: &str, code: &str) -> Answered {
        answered_by([state, state], code)
    }

    fn answered_by(states: [&str; 2], code: &str) -> Answered {
        let mut asked = Asked::default();
        for state in states {
            assert!(matches!(asked.handle_reply(bulk(state).as_bytes(), false), Asking::Wait));
        }
        match asked.handle_reply(&reply(code, "LUA", false), false) {
            Asking::Answered(answered) => answered,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_server_is_asked_for_its_state_before_its_functions() {
        let mut wire = Vec::new();
        assert_eq!(Asked::send(&[b"b", b"c"], &mut wire).1, 3);
        let sent = String::from_utf8(wire).unwrap();
        let (state, list) = sent.split_once("*3\r\n$8\r\nFUNCTION\r\n").unwrap();
        assert_eq!(state.matches("commandstats").count(), 2, "{sent}");
        assert!(state.contains("$1\r\n2\r\n$1\r\nb\r\n$1\r\nc\r\n*3") && list.contains("WITHCODE"), "{sent}");
    }

    #[test]
    fn functions_are_found_by_their_names_in_letters_of_either_size() {
        for is_map in [false, true] {
            let listed = Listed::read(&reply(CODE, "LUA", is_map), false).unwrap();
            let script = listed.find(b"gET").unwrap();
            let function = script.function().unwrap();
            assert_eq!((function.name.as_slice(), function.is_lua), (&b"Get"[..], true));
            assert_eq!(function.flags, [b"allow-oom".to_vec(), b"no-writes".to_vec()]);
            assert!(script.says_no_writes() && script.refusal().is_none());
            assert!(listed.find(b"set").is_none());
        }
    }

    #[test]
    fn what_a_function_could_not_do_rightly_is_refused() {
        for (code, engine, why) in [(CODE, "HELLO", "engine"), ("#!lua name=x\nreturn _G", "LUA", "can't use _G")] {
            let listed = Listed::read(&reply(code, engine, false), false).unwrap();
            let refusal = listed.find(b"get").unwrap().refusal().unwrap();
            assert!(refusal.contains(why) && refusal.contains("a function on folded keys"), "{refusal}");
        }
    }

    #[test]
    fn no_list_is_none() {
        for reply in [&b"+OK\r\n"[..], b"*1\r\n+x\r\n", b"*1\r\n*2\r\n$12\r\nlibrary_code\r\n$1\r\nx\r\n"] {
            assert!(Listed::read(reply, false).is_none());
        }
        let mut asked = Asked::default();
        assert!(matches!(asked.handle_reply(b"-ERR compiling\r\n", false), Asking::Wait));
        assert!(matches!(asked.handle_reply(b"$1\r\na\r\n", false), Asking::Wait));
        let Asking::Failed(error) = asked.handle_reply(b"-ERR unknown\r\n", false) else { panic!() };
        assert_eq!(error, b"-ERR unknown\r\n");
    }

    #[test]
    fn nodes_with_the_same_libraries_share_them_each_by_its_own_state() {
        let functions = Functions::default();
        assert!(functions.known(0).is_none());
        let (first, states) = functions.note(answered("a;1", CODE), 0);
        assert_eq!(states, b"a;1");
        let (second, states) = functions.note(answered("b;1", CODE), 4000);
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(states, b"a;1\nb;1");
        // Each is gone by for a while.
        assert_eq!(functions.known(4999).unwrap().1, b"a;1\nb;1");
        assert_eq!(functions.known(5000).unwrap().1, b"b;1");
        assert!(functions.known(9000).is_none());
        let (third, states) = functions.note(answered("b;2", &CODE.replace("Get", "Got")), 9001);
        assert!(!Arc::ptr_eq(&first, &third));
        assert_eq!(states, b"b;2");
    }

    #[test]
    fn nothing_is_kept_of_two_nodes_while_a_slot_moves() {
        let functions = Functions::default();
        let (listed, states) = functions.note(answered_by(["a;1", "b;1"], CODE), 0);
        assert!(listed.find(b"get").is_some() && states == b"a;1");
        assert!(functions.known(0).is_none());
    }

    #[test]
    fn what_is_sent_for_functions_of_one_library_is_the_same_where_their_flags_are() {
        let of = |name: &str, flags: &[&str]| {
            let flags = flags.iter().map(|flag| flag.as_bytes().to_vec()).collect();
            let function = Function { name: name.into(), flags, is_lua: true };
            UserScript::of_library(Sha::of(CODE.as_bytes()), CODE.as_bytes().into(), function, false).wrapped_sha(false)
        };
        assert_eq!(of("a", &[]), of("b", &[]));
        assert_ne!(of("a", &[]), of("a", &["no-writes"]));
    }
}
