//! HELLO and AUTH: who the client is, and which protocol it speaks.

use std::sync::Arc;

use crate::access::User;
use crate::exchange::{Env, Exchange, Io, Kind};
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol, write_command};
use crate::session::{Begun, Session};

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";

const NOT_AUTHENTICATED: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
    HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
    version at the same time";

/// What HELLO asks for, once it is known to be right.
struct Hello {
    protocol: Protocol,
    user: Option<Arc<User>>,
    name: Option<Vec<u8>>,
}

impl Session {
    /// AUTH [user] password
    pub(crate) fn auth(&mut self, args: &[&[u8]], env: &Env<'_>, answer: &mut Answer<'_>) {
        let (name, password) = match args {
            [_, password] => (&b"default"[..], *password),
            [_, name, password] => (*name, *password),
            _ => return answer.error("ERR syntax error"),
        };
        if args.len() == 2 && env.users.initial().is_some() {
            return answer.error(NO_PASSWORD);
        }
        match env.users.authenticate(name, password) {
            Some(user) => {
                self.set_user(Some(user));
                answer.ok();
            }
            None => {
                self.note_not_let_in(args[0], name, env);
                answer.error(WRONG_PASSWORD);
            }
        }
    }

    /// The protocol that HELLO [protocol [AUTH user password] [SETNAME name]] asks for.
    ///
    /// # Errors
    /// The error that answers it.
    pub(crate) fn check_hello(&self, args: &[&[u8]], env: &Env<'_>) -> Result<Protocol, String> {
        let hello = self.read_hello(args, env)?;
        if hello.protocol != self.protocol && self.has_own_state() {
            let why = "ERR keyfold: the protocol can't change while keys are watched or channels subscribed";
            return Err(why.to_owned());
        }
        Ok(hello.protocol)
    }

    /// HELLO that was checked: the client is who it says, and speaks the protocol from here on. The server
    /// answers with what it is.
    pub(crate) fn hello(&mut self, args: &[&[u8]], env: &Env<'_>, io: &mut Io<'_>) -> Begun {
        match self.read_hello(args, env) {
            Err(message) => {
                Answer::new(io.answer, self.protocol).error(&message);
                Begun::Answered
            }
            Ok(hello) => {
                self.protocol = hello.protocol;
                self.set_user(hello.user);
                if let Some(name) = hello.name {
                    self.entry().words().name = name;
                }
                let number: &[u8] = if self.protocol == Protocol::Resp3 { b"3" } else { b"2" };
                write_command(io.wire, &[b"HELLO", number]);
                Begun::Sent { exchange: Exchange(Kind::Hello { id: self.peer.id }), replies: 1, hold: true }
            }
        }
    }

    /// The name of AUTH in a HELLO that it doesn't let in.
    pub(crate) fn not_let_in<'a>(&self, args: &[&'a [u8]], env: &Env<'_>) -> Option<&'a [u8]> {
        let is_wrong = self.read_hello(args, env).is_err_and(|error| error == WRONG_PASSWORD);
        let at = args.iter().skip(2).position(|arg| arg.eq_ignore_ascii_case(b"auth")).filter(|_| is_wrong)?;
        args.get(at + 3).copied()
    }

    fn read_hello(&self, args: &[&[u8]], env: &Env<'_>) -> Result<Hello, String> {
        let protocol = match args.get(1) {
            None => self.protocol,
            Some(&b"2") => Protocol::Resp2,
            Some(&b"3") => Protocol::Resp3,
            Some(text) if std::str::from_utf8(text).is_ok_and(|text| text.parse::<i64>().is_ok()) => {
                return Err("NOPROTO unsupported protocol version".to_owned());
            }
            Some(_) => return Err("ERR Protocol version is not an integer or out of range".to_owned()),
        };
        let mut hello = Hello { protocol, user: self.user.clone(), name: None };
        let mut options = args.get(2..).unwrap_or_default();
        while let Some((option, rest)) = options.split_first() {
            options = match rest {
                [name, password, rest @ ..] if is_word(option, "auth") => {
                    hello.user = Some(env.users.authenticate(name, password).ok_or(WRONG_PASSWORD)?);
                    rest
                }
                [name, rest @ ..] if is_word(option, "setname") => {
                    hello.name = Some(valid_name(name)?.to_vec());
                    rest
                }
                _ => return Err(format!("ERR Syntax error in HELLO option '{}'", option.escape_ascii())),
            };
        }
        if hello.user.is_none() {
            return Err(NOT_AUTHENTICATED.to_owned());
        }
        Ok(hello)
    }
}

/// A name that shows in one word of CLIENT LIST.
pub(crate) fn valid_name(name: &[u8]) -> Result<&[u8], &'static str> {
    if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
        Ok(name)
    } else {
        Err("ERR Client names cannot contain spaces, newlines or special characters.")
    }
}
