//! ACL, on the users of this proxy: those of the server are nobody's but the proxy's.
//!
//! What only tells of commands (CAT, GENPASS, HELP) is the server's to answer.

use std::sync::Arc;

use crate::access::{Denied, SetUserError, User, Users};
use crate::clients::line;
use crate::command::{Command, table};
use crate::exchange::Env;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::server_info::ServerInfo;
use crate::session::refusal::{subcommand, wrong_arity};
use crate::session::{Begun, Session};

/// Entries of the log that are shown where no number is given.
const LOG_ENTRIES: usize = 10;

impl Session {
    /// Takes up the users as they are now. What another client has changed of them counts from the next request on.
    pub fn follow_users(&mut self, users: &Users) {
        let version = users.version();
        let before_version = std::mem::replace(&mut self.users_version, version);
        if before_version == version {
            return;
        }
        self.initial_user = users.initial();
        let Some(before) = self.user.take() else {
            return self.set_user(self.initial_user.clone());
        };
        let is_another = users.was_removed_since(before.name(), before_version);
        self.user = users.find(before.name().as_bytes()).filter(|_| !is_another);
        // By rules that are the same as before it keeps what it has subscribed to as another user.
        let may_stay =
            self.user.as_ref().is_some_and(|user| Arc::ptr_eq(user, &before) || self.subscriptions.are_allowed(user));
        self.shut_out |= !may_stay;
    }

    /// Whether the client is to be closed: its user is no more, or may not listen to its channels any more.
    pub fn is_shut_out(&self) -> bool {
        self.shut_out
    }

    /// ACL subcommand …
    pub(crate) fn acl(
        &mut self,
        args: &[&[u8]],
        command: &'static Command,
        env: &Env<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Begun, String> {
        let subcommand = subcommand(command, args, |_| true)?;
        let users = env.users;
        match subcommand {
            "whoami" => answer.bulk(self.user.as_ref().map_or("", |user| user.name()).as_bytes()),
            "users" | "list" => {
                let all = users.all();
                answer.array(all.len());
                for user in &all {
                    match subcommand {
                        "users" => answer.bulk(user.name().as_bytes()),
                        _ => answer.bulk(&user.describe(env.server)),
                    }
                }
            }
            "getuser" => match users.find(args[2]) {
                Some(user) => user.answer(env.server, answer),
                None => answer.nil(),
            },
            "setuser" => {
                set_user(users, args[2], &args[3..])?;
                answer.ok();
            }
            "deluser" if args[2..].contains(&&b"default"[..]) => {
                return Err("ERR The 'default' user cannot be removed".to_owned());
            }
            "deluser" => answer.integer(i64::try_from(users.delete(&args[2..])).unwrap_or(i64::MAX)),
            "load" | "save" => {
                let done =
                    if subcommand == "load" { users.load() } else { users.save(|user| user.describe(env.server)) };
                done.ok_or_else(|| no_file(env.server))?
                    .map_err(|error| format!("ERR keyfold: {error}; nothing has changed"))?;
                answer.ok();
            }
            "dryrun" => dry_run(users, args[2], &args[3..], env, answer)?,
            "log" => show_log(args, env, answer)?,
            _ => return Err(format!("ERR keyfold: ACL {} is not supported", subcommand.to_uppercase())),
        }
        if matches!(subcommand, "setuser" | "deluser" | "load") {
            // Whoever is shut out by it is closed, this client too, once it has its answer.
            self.joined.clients().wake_all();
            self.follow_users(users);
        }
        Ok(if self.shut_out { Begun::Close } else { Begun::Answered })
    }

    /// Notes that a request was denied, for ACL LOG.
    pub(crate) fn note_denied(&self, command: &Command, args: &[&[u8]], env: &Env<'_>) {
        // Of a request that isn't one the server complains before it looks who may send it.
        if !command.arity_ok(args.len()) {
            return;
        }
        let denial = self.user.as_ref().and_then(|user| user.denial(command, args, &command.keys_in(args)));
        if let Some((user, denial)) = self.user.as_ref().zip(denial) {
            self.log_denied(denial.reason, &denial.object, user.name().as_bytes(), env);
        }
    }

    /// Notes that a name and its password didn't let the client in, for ACL LOG.
    pub(crate) fn note_not_let_in(&self, command: &[u8], name: &[u8], env: &Env<'_>) {
        self.log_denied("auth", command, name, env);
    }

    fn log_denied(&self, reason: &'static str, object: &[u8], user: &[u8], env: &Env<'_>) {
        let client = line(self.entry(), env.server, env.now_ms);
        let denied = Denied { reason, queued: self.queue.is_some(), object, user, client };
        env.users.log().add(denied, env.now_ms);
    }
}

fn no_file(server: &ServerInfo) -> String {
    let redis = if server.is_valkey() { "" } else { "Redis " };
    format!(
        "ERR This {redis}instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
         command and then issue a CONFIG REWRITE (assuming you have a {redis}configuration file set) in order to store \
         users in the {redis}configuration."
    )
}

fn set_user(users: &Users, name: &[u8], rules: &[&[u8]]) -> Result<(), String> {
    if name.iter().any(|byte| matches!(byte, 0 | b'\t'..=b'\r' | b' ')) {
        return Err("ERR Usernames can't contain spaces or null characters".to_owned());
    }
    let name = str::from_utf8(name).ok().filter(|name| !name.is_empty() && !name.contains(char::is_control));
    let name = name.ok_or("ERR keyfold: the name of a user is printable UTF-8 here; choose another one")?;
    users.set_user(name, rules).map_err(|error| match error {
        SetUserError::Unmatched(rule) => {
            format!("ERR Unmatched parenthesis in acl selector starting at '{}'.", rule.escape_ascii())
        }
        SetUserError::Rule { rule, reason } => {
            format!("ERR Error in ACL SETUSER modifier '{}': {}", rule.escape_ascii(), reason.of_server())
        }
    })
}

/// ACL DRYRUN user command argument …
fn dry_run(
    users: &Users,
    name: &[u8],
    request: &[&[u8]],
    env: &Env<'_>,
    answer: &mut Answer<'_>,
) -> Result<(), String> {
    let user = users.find(name).ok_or_else(|| format!("ERR User '{}' not found", name.escape_ascii()))?;
    let found = table().resolve(request).filter(|command| !command.is_container || request.len() == 1);
    let command = found.ok_or_else(|| format!("ERR Command '{}' not found", request[0].escape_ascii()))?;
    if !command.arity_ok(request.len()) {
        return Err(wrong_arity(command));
    }
    let keys = command.keys_in(request);
    match user.denial(command, request, &keys) {
        Some(denial) => answer.bulk(said(&user, denial.reason, &denial.object, env).as_bytes()),
        // Refused for what only keyfold refuses, such as a script.
        None => match user.refuse(command, request, &keys) {
            Some(error) => answer.bulk(error.strip_prefix("NOPERM ").unwrap_or(&error).as_bytes()),
            None => answer.ok(),
        },
    }
    Ok(())
}

fn said(user: &User, reason: &str, object: &[u8], env: &Env<'_>) -> String {
    let who = match env.server.is_since((7, 2), (7, 2)) {
        true => format!("User {}", user.name()),
        false => "This user".to_owned(),
    };
    let object = String::from_utf8_lossy(object);
    match reason {
        "command" => format!("{who} has no permissions to run the '{object}' command"),
        kind => format!("{who} has no permissions to access the '{object}' {kind}"),
    }
}

/// ACL LOG [count | RESET]
fn show_log(args: &[&[u8]], env: &Env<'_>, answer: &mut Answer<'_>) -> Result<(), String> {
    let count = match &args[2..] {
        [] => LOG_ENTRIES,
        [reset] if reset.eq_ignore_ascii_case(b"reset") => {
            env.users.log().clear();
            answer.ok();
            return Ok(());
        }
        [count] => {
            let count = parse_integer(count).ok_or("ERR value is not an integer or out of range")?;
            usize::try_from(count).unwrap_or(0)
        }
        _ => {
            let shown = args[1].escape_ascii();
            return Err(format!("ERR unknown subcommand or wrong number of arguments for '{shown}'. Try ACL HELP."));
        }
    };
    env.users.log().answer(count, env.now_ms, env.server, answer);
    Ok(())
}
