//! Users' scripts: which are known, and which can be carried out on folded keys.

use std::sync::Arc;

use crate::command::{Command, Id};
use crate::exchange::Env;
use crate::layout::Located;
use crate::server_info::ServerInfo;
use crate::session::Session;
use crate::session::places::Places;
use crate::session::refusal::printable;
use crate::user_script::UserScript;

/// What scripts are called through.
pub(super) fn calls_script(command: Id) -> bool {
    matches!(command, Id::Eval | Id::EvalRo | Id::Evalsha | Id::EvalshaRo)
}

/// Whether scripts have `server` beside `redis`.
fn has_server(server: &ServerInfo) -> bool {
    server.is_valkey() && server.major() >= 8
}

fn no_script(server: &ServerInfo) -> &'static str {
    if has_server(server) { "NOSCRIPT No matching script." } else { "NOSCRIPT No matching script. Please use EVAL." }
}

/// Why a script on the server can't use a folded key; none where it can.
fn why_unreachable(located: &Located, env: &Env<'_>) -> Option<String> {
    match located {
        Located::Plain | Located::Reserved => None,
        Located::Moving(_) => Some("is being moved; try again once that is over".to_owned()),
        Located::Placed(place) => {
            let namespace = env.layout.namespace(place.namespace);
            let is_coded = namespace.codecs.written().is_some() || place.kind.is_framed();
            is_coded.then(|| {
                format!(
                    "belongs to the namespace {}, whose values are written by a codec, which a script on the server can't read; use commands instead",
                    namespace.keys
                )
            })
        }
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
        places: &Places,
        env: &Env<'_>,
    ) -> Result<Option<Arc<UserScript>>, String> {
        for (key, located) in places.folded_of(args) {
            if let Some(why) = why_unreachable(&located, env) {
                let name = command.name.to_ascii_uppercase();
                return Err(format!("ERR keyfold: {name} is not supported on '{}', which {why}", printable(key)));
            }
        }
        let scripts = self.joined.clients().scripts();
        let script = match command.id {
            Id::Eval | Id::EvalRo => scripts.note(args[1], has_server(env.server)),
            _ => scripts.find(args[1]).ok_or_else(|| no_script(env.server).to_owned())?,
        };
        if let Some(name) = script.obstacle() {
            return Err(format!(
                "ERR keyfold: a script on folded keys can't use {name}, which may reach past them; call redis by its name"
            ));
        }
        Ok(Some(script).filter(|script| !script.is_first_line_alone()))
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
            scripts.note(body, has_server(env.server));
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
        [[namespace]]
        keys = 'c:{id:int}'
        bucket = { span = 10 }
        codec = 'hex'
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
            (
                &["EVAL", "return 1", "2", "n:1", "c:1"],
                "-ERR keyfold: EVAL is not supported on 'c:1', which belongs to the namespace c:{id:int}, whose values are written by a codec",
            ),
            (&["EVAL", "return _G.redis", "2", "n:1", "n:2"], "-ERR keyfold: a script on folded keys can't use _G"),
            (&["EVALSHA_RO", "return 1", "2", "n:1", "c:1"], "-ERR keyfold: EVALSHA_RO is not supported on 'c:1'"),
            (
                &["EVAL", "return 1", "2", "n:1", "~x"],
                "-ERR keyfold: '~x' starts with a prefix that keyfold keeps for itself",
            ),
        ] {
            let said = said("redis", &[request]);
            assert!(said[0].starts_with(error), "{}", said[0]);
        }
        let queued = said("redis", &[&["MULTI"], &["EVAL", "return 1", "1", "n:1"], &["EXEC"]]);
        assert!(
            queued[1].starts_with("-ERR keyfold: EVAL on folded keys is not supported inside MULTI"),
            "{}",
            queued[1]
        );
        assert!(queued[2].starts_with("-EXECABORT"), "{}", queued[2]);
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
            assert!(said[1].starts_with("*10\r\n$7\r\nEVALSHA\r\n") && !said[1].contains(sha), "{}", said[1]);
            assert!(said[3].starts_with("-NOSCRIPT"), "{}", said[3]);
        }
        let plain = said("redis", &[&["EVALSHA", sha, "1", "other"]]);
        assert!(plain[0].contains(sha), "the server says whether it knows it: {}", plain[0]);
    }
}
