//! FCALL and FCALL_RO of whose keys some are folded: the server runs a script that loads the function's library and calls the
//! function ([`crate::user_script`]), as it runs a user's script on such keys ([`super::UserCall`]).
//!
//! ```text
//! EVALSHA sha' 1 bucket  v1 v2  myfunc 5f3a…  state1⏎state2  … what a user's script is told …
//!                        └─┬─┘  └─┬──┘ └─┬─┘  └─────┬─────┘
//!                 the user's    the name │          in which states the server's functions are what keyfold takes them for
//!                                        by which the answer is known where they are in another
//! ```
//! Of what keyfold doesn't know, or not any more, the server is asked first; and where its functions are in another state by the
//! time the script runs, the script has done nothing and it is all done once more. By the flags on a script's first line a server
//! may refuse it before anything of it runs: then it is asked too, and the refusal counts where these flags are still the
//! function's.

use std::mem;
use std::sync::Arc;

use crate::command::Id;
use crate::exchange::key::Key;
use crate::exchange::{Env, Io, Step, UserCall, done};
use crate::layout::Located;
use crate::notify::Notices;
use crate::user_script::{Asked, Asking, Functions, Listed, UserScript};

/// How often it is asked again before it is given up: each time somebody has changed the functions.
const MAX_ATTEMPTS: u32 = 1000;
/// How errors begin by which a server refuses a script for its flags. A command in a script has other words for the same.
const REFUSED_BY_FLAGS: [&[u8]; 4] = [
    b"-ERR Can not execute a script with write flag using *_ro command",
    b"-ERR Can not run script on cluster, 'no-cluster' flag is set",
    b"-OOM allow-oom flag is not set on the script",
    b"-READONLY You can not run script with write flag on readonly replica",
];
/// The server's error.
pub(crate) const NOT_FOUND: &str = "ERR Function not found";

/// Such a call under way.
#[derive(Debug)]
pub(crate) struct FunctionCall {
    functions: Arc<Functions>,
    command: Id,
    /// The request.
    request: Vec<Vec<u8>>,
    /// Its keys, in their order.
    keys: Vec<(Vec<u8>, Located)>,
    /// Somebody is told of what it reads.
    for_cache: bool,
    /// What is published of what it does.
    notices: Option<Notices>,
    phase: Phase,
    /// The server's refusal, and in which states it is right.
    refused: Option<(Vec<u8>, Vec<u8>)>,
    attempts: u32,
}

#[derive(Debug)]
enum Phase {
    /// The server is asked for its functions.
    Asking(Asked),
    /// The function is called, taken for what it is in these states; what is answered where it may be another by now.
    Calling { call: Box<UserCall>, states: Vec<u8>, stale: Vec<u8> },
}

impl FunctionCall {
    /// Starts the call that this request is, its keys in the order of the request; with the number of replies to come. Where it
    /// is `for_cache`, somebody is told of what it reads; `notices` is what is published of what it does.
    #[expect(clippy::too_many_arguments, reason = "all of a call")]
    pub(crate) fn start<'k>(
        command: Id,
        args: &[&[u8]],
        keys: impl Iterator<Item = (&'k [u8], Located)>,
        functions: &Arc<Functions>,
        for_cache: bool,
        notices: Option<Notices>,
        env: &mut Env<'_>,
        wire: &mut Vec<u8>,
    ) -> (Self, u32) {
        let mut call = Self {
            functions: Arc::clone(functions),
            command,
            request: args.iter().map(|arg| arg.to_vec()).collect(),
            keys: keys.map(|(key, located)| (key.to_vec(), located)).collect(),
            for_cache,
            notices,
            phase: Phase::Asking(Asked::default()),
            refused: None,
            attempts: 0,
        };
        // One that isn't there, or that is refused, may have come or changed since.
        let known = call.functions.known(env.now_ms).and_then(|(listed, states)| {
            let script = listed.find(&call.request[1]).filter(|script| script.refusal().is_none())?;
            Some((Arc::clone(script), states))
        });
        let replies = match known {
            Some((script, states)) => call.call(&script, states, env, wire),
            None => call.ask(wire),
        };
        (call, replies)
    }

    fn ask(&mut self, wire: &mut Vec<u8>) -> u32 {
        let keys: Vec<Key> = self.keys.iter().map(|(key, located)| Key::at(key, located.clone())).collect();
        let physical: Vec<&[u8]> = keys.iter().flat_map(Key::physicals).collect();
        let (asked, replies) = Asked::send(&physical, wire);
        self.phase = Phase::Asking(asked);
        replies
    }

    fn call(&mut self, script: &Arc<UserScript>, states: Vec<u8>, env: &mut Env<'_>, wire: &mut Vec<u8>) -> u32 {
        let (also, stale) = behind_arguments(script, states.clone(), env);
        let args: Vec<&[u8]> = self.request.iter().map(Vec::as_slice).collect();
        let keys = self.keys.iter().map(|(key, located)| (key.as_slice(), located.clone()));
        let (call, replies) = UserCall::start(
            self.command,
            &args,
            keys,
            &script.publishing(self.notices),
            also,
            self.for_cache,
            env,
            wire,
        );
        self.phase = Phase::Calling { call: Box::new(call), states, stale };
        replies
    }

    /// Takes the reply.
    pub(crate) fn handle_reply(&mut self, reply: &[u8], env: &mut Env<'_>, io: &mut Io<'_>) -> Step {
        match &mut self.phase {
            Phase::Asking(asked) => match asked.handle_reply(reply, env.server.has_server_in_scripts()) {
                Asking::Wait => Step::Wait,
                Asking::Failed(error) => done(io, &error),
                Asking::Unexpected => Step::Unexpected,
                Asking::Answered(answer) => {
                    if let Some((refusal, states)) = self.refused.take()
                        && answer.is_in(&states)
                    {
                        return done(io, &refusal);
                    }
                    let (listed, states) = self.functions.note(answer, env.now_ms);
                    match found(&listed, &self.request[1]) {
                        Ok(script) => Step::More(self.call(&script, states, env, io.wire)),
                        Err(error) => done(io, format!("-{error}\r\n").as_bytes()),
                    }
                }
            },
            Phase::Calling { stale, .. } if reply == stale.as_slice() => self.ask_again(io),
            Phase::Calling { states, .. } if REFUSED_BY_FLAGS.iter().any(|refusal| reply.starts_with(refusal)) => {
                self.refused = Some((reply.to_vec(), mem::take(states)));
                self.ask_again(io)
            }
            Phase::Calling { call, .. } => call.handle_reply(reply, env, io),
        }
    }

    fn ask_again(&mut self, io: &mut Io<'_>) -> Step {
        self.attempts += 1;
        if self.attempts == MAX_ATTEMPTS {
            return done(
                io,
                b"-ERR keyfold: the server's functions changed each time this one was to run; it did not, try again\r\n",
            );
        }
        Step::More(self.ask(io.wire))
    }

    /// The first key that had to be read once more, where one had to be.
    pub(crate) fn contended_key(&self) -> Option<&[u8]> {
        let Phase::Calling { call, .. } = &self.phase else { return None };
        call.contended_key()
    }
}

/// The function of this name.
///
/// # Errors
/// The error of a call where there is none, or where it can't be called on folded keys.
pub(crate) fn found(listed: &Listed, name: &[u8]) -> Result<Arc<UserScript>, String> {
    let script = listed.find(name).ok_or_else(|| NOT_FOUND.to_owned())?;
    script.refusal().map_or_else(|| Ok(Arc::clone(script)), Err)
}

/// What stands behind a call's own arguments, and the reply to one that finds the server's functions in none of these states.
/// Without states that isn't looked at. Nothing stands behind those of a script that is no function.
pub(crate) fn behind_arguments(script: &UserScript, states: Vec<u8>, env: &mut Env<'_>) -> (Vec<Vec<u8>>, Vec<u8>) {
    let Some(function) = script.function() else { return (Vec::new(), Vec::new()) };
    let number = format!("{:016x}", (env.nonces)());
    let stale = format!("+stale {number}\r\n").into_bytes();
    (vec![function.name.clone(), number.into_bytes(), states], stale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Context;
    use crate::exchange::ServerInfo;
    use crate::layout::Layout;

    const LAYOUT: &str = "
        [[namespace]]
        keys = 'n:{id:int}'
        bucket = { span = 10 }
    ";

    /// What a server answers that has one function with this text.
    fn listed(body: &str) -> Vec<u8> {
        let code = format!("#!lua name=l\nredis.register_function('get', {body})");
        let function = "*1\r\n*4\r\n$4\r\nname\r\n$3\r\nget\r\n$5\r\nflags\r\n*0\r\n";
        let code = format!("$12\r\nlibrary_code\r\n${}\r\n{code}\r\n", code.len());
        format!("*1\r\n*6\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n{function}{code}").into_bytes()
    }

    struct Talk {
        layout: Layout,
        functions: Arc<Functions>,
        sent: Vec<u8>,
        answer: Vec<u8>,
    }

    impl Talk {
        fn new() -> Self {
            let layout = Layout::parse_file(LAYOUT).unwrap();
            Self { layout, functions: Arc::default(), sent: Vec::new(), answer: Vec::new() }
        }

        fn within<T>(&mut self, now_ms: i64, act: impl FnOnce(&Arc<Functions>, &mut Env<'_>, &mut Io<'_>) -> T) -> T {
            let context = Context::without_data(&self.layout, ServerInfo::default());
            let nonces = &mut || 7;
            let mut env = context.env(now_ms, nonces);
            self.sent.clear();
            act(&self.functions, &mut env, &mut Io { wire: &mut self.sent, answer: &mut self.answer })
        }

        fn call(&mut self, now_ms: i64) -> FunctionCall {
            let args: [&[u8]; 5] = [b"FCALL", b"GET", b"1", b"n:15", b"x"];
            let located = self.layout.locate(args[3]);
            self.within(now_ms, |functions, env, io| {
                let keys = [(args[3], located)].into_iter();
                FunctionCall::start(Id::Fcall, &args, keys, functions, false, None, env, io.wire).0
            })
        }

        /// How it goes on after a reply.
        fn reply(&mut self, call: &mut FunctionCall, reply: &[u8]) -> Step {
            self.within(1, |_, env, io| call.handle_reply(reply, env, io))
        }

        /// The server says in which state it is.
        fn hear_state(&mut self, call: &mut FunctionCall, state: &str) {
            for _ in 0..2 {
                let reply = format!("${}\r\n{state}\r\n", state.len());
                assert!(matches!(self.reply(call, reply.as_bytes()), Step::Wait));
            }
        }

        fn has_sent(&self, what: &str) -> bool {
            memchr::memmem::find(&self.sent, what.as_bytes()).is_some()
        }
    }

    #[test]
    fn a_function_is_asked_for_once_and_again_where_it_may_have_changed() {
        let mut talk = Talk::new();
        let mut call = talk.call(1);
        assert!(talk.has_sent("WITHCODE") && !talk.has_sent("EVALSHA"));
        talk.hear_state(&mut call, "a;1");
        assert!(matches!(talk.reply(&mut call, &listed("one")), Step::More(1)));
        assert!(talk.has_sent("EVALSHA") && talk.has_sent("$3\r\nget\r\n$16\r\n0000000000000007\r\n$3\r\na;1\r\n"));
        assert!(matches!(talk.reply(&mut call, b"-NOSCRIPT No matching script.\r\n"), Step::More(1)));
        assert!(talk.has_sent("$4\r\nEVAL\r\n") && !talk.has_sent("SCRIPT") && talk.has_sent("(function(...) redis"));
        let error = b"-ERR user_script:2: x script: on @user_script:2.\r\n";
        assert!(matches!(talk.reply(&mut call, error), Step::Done(_)));
        assert_eq!(talk.answer, b"-ERR user_function:2: x script: on @user_function:2.\r\n");
        // The next one knows it.
        let mut call = talk.call(2);
        assert!(talk.has_sent("EVALSHA") && !talk.has_sent("WITHCODE"));
        assert!(matches!(talk.reply(&mut call, b"+stale 0000000000000007\r\n"), Step::More(3)));
        assert!(talk.has_sent("WITHCODE"));
        talk.hear_state(&mut call, "a;2");
        assert!(matches!(talk.reply(&mut call, &listed("two")), Step::More(1)));
        talk.answer.clear();
        // It says what a call with another number would be answered: that is the function's own answer.
        assert!(matches!(talk.reply(&mut call, b"+stale 0000000000000008\r\n"), Step::Done(_)));
        assert_eq!(talk.answer, b"+stale 0000000000000008\r\n");
    }

    #[test]
    fn a_refusal_by_flags_counts_where_they_are_still_the_functions() {
        const REFUSAL: &[u8] = b"-ERR Can not execute a script with write flag using *_ro command.\r\n";
        for (state, is_right) in [("a;1", true), ("a;2", false)] {
            let mut talk = Talk::new();
            let mut call = talk.call(1);
            talk.hear_state(&mut call, "a;1");
            assert!(matches!(talk.reply(&mut call, &listed("one")), Step::More(1)));
            assert!(matches!(talk.reply(&mut call, REFUSAL), Step::More(3)));
            talk.hear_state(&mut call, state);
            let step = talk.reply(&mut call, &listed("one"));
            assert_eq!(matches!(step, Step::Done(_)), is_right, "{step:?}");
            assert_eq!(talk.answer, if is_right { REFUSAL } else { b"" });
            assert_eq!(talk.has_sent("EVALSHA"), !is_right);
        }
    }

    #[test]
    fn a_function_that_is_gone_or_refused_is_the_answer_of_a_server_just_asked() {
        for (reply, error) in [
            (b"*0\r\n".to_vec(), "-ERR Function not found"),
            (listed("_G.f"), "-ERR keyfold: a function on folded keys"),
        ] {
            let mut talk = Talk::new();
            for _ in 0..2 {
                let mut call = talk.call(1);
                assert!(talk.has_sent("WITHCODE"));
                talk.hear_state(&mut call, "a;1");
                assert!(matches!(talk.reply(&mut call, &reply), Step::Done(_)));
                assert!(talk.answer.starts_with(error.as_bytes()), "{}", talk.answer.escape_ascii());
                talk.answer.clear();
            }
        }
    }
}
