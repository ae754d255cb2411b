//! Users' scripts: which are known, and which can be carried out on folded keys.

use std::sync::Arc;

use crate::command::{Command, Id};
use crate::exchange::Env;
use crate::server_info::ServerInfo;
use crate::session::Session;
use crate::user_script::UserScript;

/// What scripts are called through.
pub(super) fn calls_script(command: Id) -> bool {
    matches!(command, Id::Eval | Id::EvalRo | Id::Evalsha | Id::EvalshaRo)
}

/// What functions are called through.
pub(super) fn calls_function(command: Id) -> bool {
    matches!(command, Id::Fcall | Id::FcallRo)
}

/// What a server answers that doesn't know a script.
pub(super) fn no_script(server: &ServerInfo) -> &'static str {
    if server.has_server_in_scripts() {
        "NOSCRIPT No matching script."
    } else {
        "NOSCRIPT No matching script. Please use EVAL."
    }
}

impl Session {
    /// The script that EVAL or one of its kin calls where one of the keys is folded; none where the server is to say what is
    /// wrong with it.
    ///
    /// # Errors
    /// The error of a call that can't be carried out.
    pub(super) fn find_script(
        &self,
        command: &Command,
        args: &[&[u8]],
        env: &Env<'_>,
    ) -> Result<Option<Arc<UserScript>>, String> {
        let scripts = self.joined.clients().scripts();
        let script = match command.id {
            Id::Eval | Id::EvalRo => scripts.note(args[1], env.server.has_server_in_scripts()),
            _ => scripts.find(args[1]).ok_or_else(|| no_script(env.server).to_owned())?,
        };
        if let Some(refusal) = script.refusal() {
            return Err(refusal);
        }
        Ok(Some(script.publishing(self.notices())).filter(|script| !script.is_first_line_alone()))
    }

    /// Notes what a request says of scripts: clients name them by their hashes later.
    pub(super) fn note_script(&self, command: Option<&Command>, args: &[&[u8]], env: &Env<'_>) {
        let Some(command) = command.filter(|_| !env.layout.is_empty()) else { return };
        let scripts = self.joined.clients().scripts();
        let body = match command.id {
            Id::Eval | Id::EvalRo => args.get(1),
            Id::ScriptLoad => args.get(2),
            Id::ScriptFlush => return scripts.forget_all(),
            _ => None,
        };
        if let Some(body) = body {
            scripts.note(body, env.server.has_server_in_scripts());
        }
    }

    /// Which of the scripts that SCRIPT EXISTS names are known here.
    pub(super) fn known_scripts(&self, args: &[&[u8]]) -> Vec<bool> {
        let scripts = self.joined.clients().scripts();
        args.iter().skip(2).map(|sha| scripts.find(sha).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::Context;
    use crate::exchange::Io;
    use crate::layout::Layout;
    use crate::session::{Begun, Peer};

    const LAYOUT: &str = "
        [[namespace]]
        keys = 'n:{id:int}'
        bucket = { span = 10 }
    ";

    /// The answers to these requests of one client, where no server is needed; of others what is sent.
    fn said(server: &str, requests: &[&[&str]]) -> Vec<String> {
        let layout = Layout::parse_file(LAYOUT).unwrap();
        let context = Context::without_data(&layout, ServerInfo { name: server.into(), version: "8.1.0".into() });
        let nonces = &mut || 1;
        let mut env = context.env(1, nonces);
        let mut session = Session::new(Peer::default(), &Arc::default(), &env);
        let mut say = |request: &&[&str]| {
            let (mut wire, mut answer) = (Vec::new(), Vec::new());
            let args: Vec<&[u8]> = request.iter().map(|arg| arg.as_bytes()).collect();
            let plan = session.plan(&args, &env);
            let io = &mut Io { wire: &mut wire, answer: &mut answer };
            let begun = session.begin(&plan, &args, None, &mut env, io);
            let said = if matches!(begun, Begun::Answered) { answer } else { wire };
            String::from_utf8_lossy(&said).into_owned()
        };
        requests.iter().map(&mut say).collect()
    }

    #[test]
    fn what_a_script_could_not_do_rightly_is_refused_before_it_is_sent() {
        for (request, error) in [
            (&["EVAL", "return _G.redis", "2", "n:1", "n:2"], "-ERR keyfold: a script on folded keys can't use _G"),
            (
                &["EVAL", "return 1", "2", "n:1", "~x"],
                "-ERR keyfold: '~x' starts with a prefix that keyfold keeps for itself",
            ),
        ] {
            let said = said("redis", &[request]);
            assert!(said[0].starts_with(error), "{}", said[0]);
        }
        let queued = said("redis", &[&["MULTI"], &["EVAL", "return _G", "1", "n:1"], &["EXEC"]]);
        assert!(queued[1].starts_with("-ERR keyfold: a script on folded keys can't use _G"), "{}", queued[1]);
        assert!(queued[2].starts_with("-EXECABORT"), "{}", queued[2]);
    }

    #[test]
    fn a_transaction_brings_the_text_of_each_script_once() {
        let call = |key| ["EVAL", "return 1", "1", key];
        let sent = said(
            "redis",
            &[&["MULTI"], &call("n:1"), &call("n:2"), &["GET", "n:1"], &["INCR", "n:1"], &["PING"], &["EXEC"]],
        );
        assert!(sent[1..6].iter().all(|answer| answer == "+QUEUED\r\n"), "{sent:?}");
        let exec = &sent[6];
        let count = |word: &str| exec.matches(&format!("\r\n{word}\r\n")).count();
        assert!(exec.starts_with("*1\r\n$5\r\nMULTI\r\n") && exec.ends_with("*1\r\n$4\r\nEXEC\r\n"), "{exec}");
        assert_eq!([count("EVAL"), count("EVALSHA"), count("PING"), count("SETRANGE")], [2, 2, 1, 1], "{exec}");
    }

    #[test]
    fn a_transaction_whose_commands_no_script_can_carry_out_is_refused() {
        let call: &[&str] = &["EVAL", "return 1", "1", "n:1"];
        let exec = |other: &[&str]| said("redis", &[&["MULTI"], call, other, &["EXEC"]]).pop().unwrap();
        for other in [
            &["OBJECT", "ENCODING", "n:1"][..],
            &["BITFIELD", "n:1", "GET", "i64", "0"],
            &["COPY", "n:2", "n:1", "DB", "1"],
            &["BLPOP", "n:1", "1"],
        ] {
            let answer = exec(other);
            assert!(answer.starts_with("-EXECABORT") || answer.contains("UNWATCH"), "{other:?}: {answer}");
        }
        for other in [&["OBJECT", "ENCODING", "n:2"][..], &["BITFIELD", "n:1", "GET", "i53", "0"]] {
            let answer = exec(other);
            assert!(answer.contains("WATCH\r\n$") || answer.contains("MULTI"), "{other:?}: {answer}");
        }
    }

    #[test]
    fn a_script_is_called_by_its_hash_once_it_was_seen() {
        let sha = "e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
        let call = ["EVALSHA", sha, "1", "n:1"];
        assert_eq!(said("valkey", &[&call]), ["-NOSCRIPT No matching script.\r\n"]);
        assert_eq!(said("redis", &[&call]), ["-NOSCRIPT No matching script. Please use EVAL.\r\n"]);
        for seen in [&["SCRIPT", "LOAD", "return 1"][..], &["EVAL", "return 1", "0"], &["EVAL", "return 1", "1", "n:2"]]
        {
            let said = said("redis", &[seen, &call, &["SCRIPT", "FLUSH"], &call]);
            assert!(said[1].starts_with("*15\r\n$7\r\nEVALSHA\r\n") && !said[1].contains(sha), "{}", said[1]);
            assert!(said[3].starts_with("-NOSCRIPT"), "{}", said[3]);
        }
        let plain = said("redis", &[&["EVALSHA", sha, "1", "other"]]);
        assert!(plain[0].contains(sha), "the server says whether it knows it: {}", plain[0]);
    }
}
