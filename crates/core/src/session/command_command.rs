//! COMMAND: of commands that folded keys know and the server behind doesn't, keyfold tells where they are asked for by name.
//! Which commands there are (COMMAND, COUNT, LIST) is the server's to say: for plain keys it has no others.

use crate::command::{Command, Id};
use crate::dialect::Dialect;
use crate::exchange::later_commands::{lacked, write_access};
use crate::exchange::{Env, LaterCommands};
use crate::resp::Answer;
use crate::session::Session;
use crate::session::route::Route;

impl Session {
    /// The way of COMMAND INFO, DOCS, GETKEYS and GETKEYSANDFLAGS, where the server can't answer it.
    pub(super) fn route_about_commands(
        &self,
        command: &'static Command,
        args: &[&[u8]],
        env: &Env<'_>,
    ) -> Option<Route> {
        if env.layout.is_empty() {
            return None;
        }
        if matches!(command.id, Id::CommandInfo | Id::CommandDocs) {
            return self.asked_of_commands(args, command.id, env.dialect()).map(|_| Route::LaterCommands(command.id));
        }
        lacked(args.get(2..)?, env.dialect()).map(|_| Route::Local(command))
    }

    /// What this COMMAND INFO or COMMAND DOCS asks that the server can't answer.
    pub(super) fn asked_of_commands(&self, args: &[&[u8]], id: Id, dialect: Dialect<'_>) -> Option<LaterCommands> {
        LaterCommands::asked_by(args, id == Id::CommandDocs, self.protocol, dialect)
    }
}

/// Answers COMMAND GETKEYS or GETKEYSANDFLAGS of such a command (`getKeysSubcommandImpl`, server.c of Valkey 9.1).
pub(super) fn answer_keys(command: &Command, args: &[&[u8]], env: &Env<'_>, answer: &mut Answer<'_>) {
    let request = &args[2..];
    let Some(named) = lacked(request, env.dialect()) else {
        return answer.error("ERR Invalid command specified");
    };
    if !named.arity_ok(request.len()) {
        return answer.error("ERR Invalid number of arguments specified for command");
    }
    let keys = named.keys_in(request);
    if keys.is_empty() {
        return answer.error("ERR Invalid arguments specified for command");
    }
    answer.array(keys.len());
    for key in &keys {
        if command.id == Id::CommandGetkeysandflags {
            answer.array(2);
        }
        answer.bulk(request[key.index]);
        if command.id == Id::CommandGetkeysandflags {
            write_access(key.access, answer);
        }
    }
}
