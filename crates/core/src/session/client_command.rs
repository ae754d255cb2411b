//! CLIENT, for the clients of this proxy: those of the server are the proxy's own connections, and nobody's business.
//!
//! Which subcommands, options and fields there are is what the server behind has, and so are the errors.

use crate::clients::{Asked, ClientFlags, Filter, PauseMode, WaitsOn, line};
use crate::command::Command;
use crate::exchange::Env;
use crate::number::parse_integer;
use crate::resp::Answer;
use crate::server_info::ServerInfo;
use crate::session::hello::valid_name;
use crate::session::refusal::subcommand;
use crate::session::route::Route;
use crate::session::{Begun, Session};
use crate::tracking::Mode;

/// Whether the client wants answers, by CLIENT REPLY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyMode {
    On,
    Off,
    /// Not to the next request.
    SkipNext,
    /// Not to this one.
    Skip,
}

const IMPORT_SOURCE: &str = "ERR keyfold: CLIENT IMPORT-SOURCE is not supported through the proxy, whose connections \
                             other clients use too; send it to the server directly";

const SYNTAX: &str = "ERR syntax error";

impl Session {
    /// CLIENT subcommand …
    pub(crate) fn client(
        &mut self,
        args: &[&[u8]],
        command: &'static Command,
        env: &Env<'_>,
        answer: &mut Answer<'_>,
    ) -> Result<Begun, String> {
        let subcommand = subcommand(command, args, |name| is_known(name, env.server))?;
        let options = &args[2..];
        match subcommand {
            "id" => answer.integer(i64::try_from(self.peer.id).unwrap_or(i64::MAX)),
            "getname" if self.entry().words().name.is_empty() => answer.nil(),
            "getname" => answer.bulk(&self.entry().words().name),
            "setname" => {
                self.entry().words().name = valid_name(options[0])?.to_vec();
                answer.ok();
            }
            "setinfo" => {
                self.set_info(options[0], options[1])?;
                answer.ok();
            }
            "info" => answer.verbatim(line(self.entry(), env.server, env.now_ms).as_bytes()),
            "list" => answer.verbatim(self.list(options, env)?.as_bytes()),
            "reply" => self.set_reply_mode(options[0], answer)?,
            "kill" => return self.kill(options, env, answer),
            "no-evict" | "no-touch" => {
                let option = if subcommand == "no-evict" { ClientFlags::NO_EVICT } else { ClientFlags::NO_TOUCH };
                self.options.set(option, on_or_off(options[0])?);
                answer.ok();
            }
            "capa" => {
                // What isn't known is no error, so that clients may name what comes later.
                if options.iter().any(|capa| capa.eq_ignore_ascii_case(b"redirect")) {
                    self.options.insert(ClientFlags::REDIRECT);
                }
                answer.ok();
            }
            "pause" => self.pause(args, env, answer)?,
            "unpause" => {
                self.joined.clients().unpause();
                answer.ok();
            }
            "unblock" => {
                read_unblock(args)?;
                // A client with a connection of its own is the server's to unblock (`unblock_route`).
                answer.integer(0);
            }
            "tracking" => self.track(args, answer)?,
            "caching" => self.set_caching(options[0], answer)?,
            "trackinginfo" => Mode::write_info(self.tracked.as_deref(), answer),
            "getredir" => answer.integer(Mode::shown_redirect(self.tracked.as_deref())),
            _ => return Err(IMPORT_SOURCE.to_owned()),
        }
        Ok(Begun::Answered)
    }

    fn list(&self, options: &[&[u8]], env: &Env<'_>) -> Result<String, String> {
        let filter = Filter::parse(Asked::List, options, env.server, env.users)?;
        let skips_me = filter.skips_me(false);
        let all = self.joined.clients().all();
        let shown = all.iter().filter(|entry| !(skips_me && entry.id() == self.peer.id));
        let fitting = shown.filter(|entry| filter.fits(entry, env.now_ms));
        Ok(fitting.map(|entry| line(entry, env.server, env.now_ms)).collect())
    }

    /// CLIENT KILL address, or with options. Whoever ends itself gets its answer first.
    fn kill(&mut self, options: &[&[u8]], env: &Env<'_>, answer: &mut Answer<'_>) -> Result<Begun, String> {
        let filter = match options {
            [address] => Filter::of_address(address),
            _ => Filter::parse(Asked::Kill, options, env.server, env.users)?,
        };
        let (mut killed, mut myself) = (0, false);
        for entry in self.joined.clients().all().iter().filter(|entry| filter.fits(entry, env.now_ms)) {
            if entry.id() != self.peer.id {
                entry.kill();
            } else if filter.skips_me(true) {
                continue;
            } else {
                myself = true;
            }
            killed += 1;
        }
        match options {
            [_] if killed == 0 => return Err("ERR No such client".to_owned()),
            [_] => answer.ok(),
            _ => answer.integer(killed),
        }
        Ok(if myself { Begun::Close } else { Begun::Answered })
    }

    fn set_info(&mut self, attribute: &[u8], value: &[u8]) -> Result<(), String> {
        let attribute_name = attribute.to_ascii_lowercase();
        if !matches!(attribute_name.as_slice(), b"lib-name" | b"lib-ver") {
            return Err(format!("ERR Unrecognized option '{}'", attribute.escape_ascii()));
        }
        let Ok(value) = valid_name(value) else {
            let shown = attribute_name.escape_ascii();
            return Err(format!("ERR {shown} cannot contain spaces, newlines or special characters."));
        };
        let mut words = self.entry().words();
        let slot = match attribute_name.as_slice() {
            b"lib-name" => &mut words.library_name,
            _ => &mut words.library_version,
        };
        *slot = value.to_vec();
        Ok(())
    }

    fn set_reply_mode(&mut self, mode: &[u8], answer: &mut Answer<'_>) -> Result<(), String> {
        match mode.to_ascii_lowercase().as_slice() {
            b"on" => {
                self.reply_mode = ReplyMode::On;
                answer.ok();
            }
            b"off" => self.reply_mode = ReplyMode::Off,
            b"skip" if self.reply_mode == ReplyMode::On => self.reply_mode = ReplyMode::SkipNext,
            b"skip" => {}
            _ => return Err(SYNTAX.to_owned()),
        }
        Ok(())
    }

    /// CLIENT PAUSE timeout [WRITE|ALL]
    fn pause(&self, args: &[&[u8]], env: &Env<'_>, answer: &mut Answer<'_>) -> Result<(), String> {
        let mode = match &args[3..] {
            [] => PauseMode::All,
            [mode] if mode.eq_ignore_ascii_case(b"all") => PauseMode::All,
            [mode] if mode.eq_ignore_ascii_case(b"write") => PauseMode::Writes,
            [_] => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".to_owned()),
            _ => return Err(too_many(args)),
        };
        let timeout_ms = parse_integer(args[2]).ok_or("ERR timeout is not an integer or out of range")?;
        if timeout_ms < 0 {
            return Err("ERR timeout is negative".to_owned());
        }
        let until_ms = env.now_ms.checked_add(timeout_ms).ok_or("ERR timeout is out of range")?;
        self.joined.clients().pause().begin(mode, until_ms, env.now_ms);
        answer.ok();
        Ok(())
    }

    /// CLIENT UNBLOCK of a client that has a connection to the server to itself: the server knows whether a command
    /// waits there. None for all other requests.
    pub(crate) fn unblock_route(&self, command: &Command, args: &[&[u8]]) -> Option<Route> {
        if command.name != "client|unblock" || !command.arity_ok(args.len()) {
            return None;
        }
        let (id, reason) = read_unblock(args).ok()?;
        let WaitsOn { number, node } = self.joined.clients().find(id)?.waits_on()?;
        Some(Route::Unblock { connection: number, reason, node })
    }
}

/// The client that CLIENT UNBLOCK id [TIMEOUT|ERROR] names, and the reason.
fn read_unblock(args: &[&[u8]]) -> Result<(u64, &'static str), String> {
    let reason = match &args[3..] {
        [] => "TIMEOUT",
        [reason] if reason.eq_ignore_ascii_case(b"timeout") => "TIMEOUT",
        [reason] if reason.eq_ignore_ascii_case(b"error") => "ERROR",
        [_] => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".to_owned()),
        _ => return Err(too_many(args)),
    };
    let id = parse_integer(args[2]).ok_or("ERR value is not an integer or out of range")?;
    // No client has a negative id, nor 0.
    Ok((u64::try_from(id).unwrap_or(0), reason))
}

fn too_many(args: &[&[u8]]) -> String {
    let shown = args[1].escape_ascii();
    format!("ERR unknown subcommand or wrong number of arguments for '{shown}'. Try CLIENT HELP.")
}

fn on_or_off(word: &[u8]) -> Result<bool, String> {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(SYNTAX.to_owned()),
    }
}

/// Whether the server has a subcommand that the table knows of some server.
fn is_known(subcommand: &str, server: &ServerInfo) -> bool {
    match subcommand {
        "setinfo" | "no-touch" => server.is_since((7, 2), (7, 2)),
        "capa" => server.is_valkey_since(8, 0),
        "import-source" => server.is_valkey_since(8, 1),
        _ => true,
    }
}
