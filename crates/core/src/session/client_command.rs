//! CLIENT: what connections need of it. A proxy's client is no client of the server, so the rest is refused.

use crate::resp::{Answer, Protocol};
use crate::session::Session;
use crate::session::hello::valid_name;

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

const TRACKING: &str = "ERR keyfold: CLIENT TRACKING is not supported: the server would name buckets, not keys; \
                        switch the client's cache off, or connect it to the server directly";

impl Session {
    /// CLIENT subcommand …
    pub(crate) fn client(&mut self, args: &[&[u8]], answer: &mut Answer<'_>) {
        let Some(subcommand) = args.get(1) else {
            return answer.error("ERR wrong number of arguments for 'client' command");
        };
        let subcommand = subcommand.to_ascii_lowercase();
        match (subcommand.as_slice(), &args[2..]) {
            (b"id", []) => answer.integer(i64::try_from(self.peer.id).unwrap_or(i64::MAX)),
            (b"getname", []) if self.name.is_empty() => answer.nil(),
            (b"getname", []) => answer.bulk(&self.name),
            (b"setname", [name]) => match valid_name(name) {
                Ok(name) => {
                    self.name = name.to_vec();
                    answer.ok();
                }
                Err(message) => answer.error(message),
            },
            (b"setinfo", [attribute, value]) => self.set_info(attribute, value, answer),
            (b"info", []) | (b"list", [..]) => answer.verbatim(self.describe().as_bytes()),
            (b"reply", [mode]) => self.set_reply_mode(mode, answer),
            (b"no-evict" | b"no-touch", [mode]) if [&b"on"[..], b"off"].contains(&mode.to_ascii_lowercase().as_slice()) => {
                answer.ok();
            }
            (b"trackinginfo", []) => {
                answer.map(3);
                answer.bulk(b"flags");
                answer.array(1);
                answer.bulk(b"off");
                answer.bulk(b"redirect");
                answer.integer(-1);
                answer.bulk(b"prefixes");
                answer.array(0);
            }
            (b"getredir", []) => answer.integer(-1),
            (b"tracking", [mode]) if mode.eq_ignore_ascii_case(b"off") => answer.ok(),
            (b"tracking" | b"caching", _) => answer.error(TRACKING),
            (name, _) if KNOWN.contains(&name) => answer.error(&format!(
                "ERR keyfold: CLIENT {} with these arguments is not supported through the proxy; send it to the server directly",
                name.to_ascii_uppercase().escape_ascii()
            )),
            _ => answer.error(&format!("ERR unknown subcommand '{}'. Try CLIENT HELP.", args[1][..args[1].len().min(128)].escape_ascii())),
        }
    }

    fn set_info(&mut self, attribute: &[u8], value: &[u8], answer: &mut Answer<'_>) {
        let slot = match attribute.to_ascii_lowercase().as_slice() {
            b"lib-name" => &mut self.library.0,
            b"lib-ver" => &mut self.library.1,
            _ => return answer.error(&format!("ERR Unrecognized option '{}'", attribute.escape_ascii())),
        };
        match valid_name(value) {
            Ok(value) => {
                *slot = value.to_vec();
                answer.ok();
            }
            Err(_) => answer.error(&format!(
                "ERR {} cannot contain spaces, newlines or special characters.",
                attribute.to_ascii_lowercase().escape_ascii()
            )),
        }
    }

    fn set_reply_mode(&mut self, mode: &[u8], answer: &mut Answer<'_>) {
        match mode.to_ascii_lowercase().as_slice() {
            b"on" => {
                self.reply_mode = ReplyMode::On;
                answer.ok();
            }
            b"off" => self.reply_mode = ReplyMode::Off,
            b"skip" if self.reply_mode == ReplyMode::On => self.reply_mode = ReplyMode::SkipNext,
            b"skip" => {}
            _ => answer.error("ERR syntax error"),
        }
    }

    /// One line as CLIENT INFO shows it, with what the proxy knows of the client.
    fn describe(&self) -> String {
        format!(
            "id={} addr={} laddr={} name={} db={} sub={} multi={} user={} lib-name={} lib-ver={} resp={}\n",
            self.peer.id,
            self.peer.address,
            self.peer.local_address,
            self.name.escape_ascii(),
            self.database,
            u8::from(self.subscriptions.active()),
            self.queue.as_ref().map_or(-1, |queue| i64::try_from(queue.commands.len()).unwrap_or(i64::MAX)),
            self.user.as_ref().map_or("", |user| user.name()),
            self.library.0.escape_ascii(),
            self.library.1.escape_ascii(),
            if self.protocol == Protocol::Resp3 { 3 } else { 2 },
        )
    }
}

const KNOWN: &[&[u8]] = &[
    b"id",
    b"getname",
    b"setname",
    b"setinfo",
    b"info",
    b"list",
    b"reply",
    b"no-evict",
    b"no-touch",
    b"kill",
    b"pause",
    b"unpause",
    b"unblock",
    b"help",
    b"trackinginfo",
    b"getredir",
    b"capa",
    b"import-source",
];
