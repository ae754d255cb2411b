//! CONFIG: what the server answers, as far as keyfold has no part in it.
//!
//! CONFIG SET is the server's to carry out and to complain of. Behind it keyfold goes by what is set: by what is to be published
//! of keys, and by what is slow and how much of that is kept, of which it has its own log. CONFIG GET shows of the latter what
//! keyfold goes by.

use std::sync::Arc;

use crate::clients::Clients;
use crate::exchange::{Effect, Io, Step, done};
use crate::glob;
use crate::notify::Classes;
use crate::number::parse_integer;
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol, Reply};
use crate::slowlog::SlowLog;

/// From how many microseconds on a request is kept.
const SLOWER_THAN: &str = "slowlog-log-slower-than";
/// How many are kept.
const MOST_ENTRIES: &str = "slowlog-max-len";

/// Whether a request sets anything.
pub(crate) fn sets(args: &[&[u8]]) -> bool {
    matches!(args, [config, set, ..] if is_word(config, "CONFIG") && is_word(set, "SET"))
}

/// Whether a request asks what is set, and keyfold may have a word in the answer.
pub(crate) fn asks_own(args: &[&[u8]]) -> bool {
    let matches_own = |pattern: &&[u8]| {
        let pattern = pattern.to_ascii_lowercase();
        [SLOWER_THAN, MOST_ENTRIES].iter().any(|name| glob::matches(&pattern, name.as_bytes()))
    };
    matches!(args, [config, get, patterns @ ..]
        if is_word(config, "CONFIG") && is_word(get, "GET") && patterns.iter().any(matches_own))
}

/// CONFIG SET under way, and behind it the question what is set.
#[derive(Debug)]
pub(crate) struct Configure {
    clients: Arc<Clients>,
    /// What is slow from now on, where the server takes it.
    slower_than: Option<i64>,
    most_entries: Option<usize>,
    answer: Option<Vec<u8>>,
}

impl Configure {
    /// Asks, behind the request; there are two replies to come.
    pub(crate) fn start(clients: Arc<Clients>, args: &[&[u8]], wire: &mut Vec<u8>) -> Self {
        Classes::ask(wire);
        let set = |name: &str| {
            let pair = args[2..].chunks_exact(2).find(|pair| is_word(pair[0], name))?;
            parse_integer(pair[1])
        };
        let most_entries = set(MOST_ENTRIES).and_then(|entries| usize::try_from(entries).ok());
        Self { clients, slower_than: set(SLOWER_THAN), most_entries, answer: None }
    }

    pub(crate) fn handle_reply(&mut self, reply: &[u8], io: &mut Io<'_>) -> Step {
        let Some(answer) = &self.answer else {
            if !reply.starts_with(b"-") {
                self.set_own();
            }
            self.answer = Some(reply.to_vec());
            return Step::Wait;
        };
        // A server that doesn't say goes on as before.
        if let Some(classes) = Classes::read(reply) {
            self.clients.notifications().follow(classes);
        }
        done(io, answer)
    }

    fn set_own(&self) {
        let slow = self.clients.slow();
        self.slower_than.into_iter().for_each(|us| slow.set_slower_than(us));
        self.most_entries.into_iter().for_each(|entries| slow.keep_most(entries));
    }
}

/// CONFIG GET under way, of whose settings some are keyfold's.
#[derive(Debug)]
pub(crate) struct ShowSettings {
    pub(crate) slow: Arc<SlowLog>,
    pub(crate) protocol: Protocol,
}

impl ShowSettings {
    pub(crate) fn handle_reply(&self, reply: &[u8], io: &mut Io<'_>) -> Step {
        let Ok(Reply::Array(words) | Reply::Map(words)) = Reply::parse(reply) else { return done(io, reply) };
        let words: Option<Vec<_>> =
            words.map(|word| if let Reply::Bulk(word) = word { Some(word) } else { None }).collect();
        let Some(words) = words.filter(|words| words.len().is_multiple_of(2)) else { return done(io, reply) };
        let mut answer = Answer::new(io.answer, self.protocol);
        answer.map(words.len() / 2);
        for pair in words.chunks_exact(2) {
            answer.bulk(pair[0]);
            match str::from_utf8(pair[0]) {
                Ok(SLOWER_THAN) => answer.bulk(self.slow.slower_than().to_string().as_bytes()),
                Ok(MOST_ENTRIES) => answer.bulk(self.slow.most_entries().to_string().as_bytes()),
                _ => answer.bulk(pair[1]),
            }
        }
        Step::Done(Effect::None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<&[u8]> {
        text.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn only_questions_that_may_show_what_is_slow_are_keyfolds() {
        for own in
            ["CONFIG GET *", "config get SlowLog-*", "CONFIG GET maxmemory *max-len", "CONFIG GET slowlog-max-len"]
        {
            assert!(asks_own(&args(own)), "{own}");
        }
        for other in
            ["CONFIG GET maxmemory", "CONFIG GET commandlog-*", "CONFIG SET slowlog-max-len", "CONFIG GET", "GET *"]
        {
            assert!(!asks_own(&args(other)), "{other}");
        }
    }

    #[test]
    fn what_the_server_refuses_is_not_gone_by() {
        let clients: Arc<Clients> = Arc::default();
        let (mut wire, mut answer) = (Vec::new(), Vec::new());
        let mut set = |text: &str, reply: &[u8]| {
            let mut configure = Configure::start(Arc::clone(&clients), &args(text), &mut wire);
            configure.handle_reply(reply, &mut Io { wire: &mut Vec::new(), answer: &mut answer });
            (clients.slow().slower_than(), clients.slow().most_entries())
        };
        assert_eq!(set("CONFIG SET slowlog-log-slower-than 5", b"-ERR no\r\n"), (10_000, 128));
        assert_eq!(set("CONFIG SET SLOWLOG-LOG-SLOWER-THAN 5 maxmemory 0 slowlog-max-len 7", b"+OK\r\n"), (5, 7));
        assert_eq!(set("CONFIG SET maxmemory 0", b"+OK\r\n"), (5, 7));
        assert_eq!(set("CONFIG SET slowlog-log-slower-than -1", b"+OK\r\n"), (-1, 7));
    }
}
