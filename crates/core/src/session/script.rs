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
