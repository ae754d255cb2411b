//! HELLO and AUTH: who the client is, and which protocol it speaks.

use std::sync::Arc;

use crate::access::User;
use crate::exchange::Env;
use crate::resp::{Answer, Protocol};
use crate::session::Session;

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
                self.user = Some(user);
                answer.ok();
            }
            None => answer.error(WRONG_PASSWORD),
        }
    }

    /// HELLO [protocol [AUTH user password] [SETNAME name]]
    pub(crate) fn hello(&mut self, args: &[&[u8]], env: &Env<'_>, out: &mut Vec<u8>) {
        match self.read_hello(args, env) {
            Err(message) => Answer::new(out, self.protocol).error(&message),
            Ok(hello) if hello.protocol != self.protocol && self.has_own_state() => {
                let why = "ERR keyfold: the protocol can't change while keys are watched or channels subscribed";
                Answer::new(out, self.protocol).error(why);
            }
            Ok(hello) => {
                self.protocol = hello.protocol;
                self.user = hello.user;
                if let Some(name) = hello.name {
                    self.name = name;
                }
                self.write_hello(env, &mut Answer::new(out, self.protocol));
            }
        }
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
                [name, password, rest @ ..] if option.eq_ignore_ascii_case(b"auth") => {
                    hello.user = Some(env.users.authenticate(name, password).ok_or(WRONG_PASSWORD)?);
                    rest
                }
                [name, rest @ ..] if option.eq_ignore_ascii_case(b"setname") => {
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

    fn write_hello(&self, env: &Env<'_>, answer: &mut Answer<'_>) {
        answer.map(7);
        answer.bulk(b"server");
        answer.bulk(env.server.name.as_bytes());
        answer.bulk(b"version");
        answer.bulk(env.server.version.as_bytes());
        answer.bulk(b"proto");
        answer.integer(if self.protocol == Protocol::Resp3 { 3 } else { 2 });
        answer.bulk(b"id");
        answer.integer(i64::try_from(self.peer.id).unwrap_or(i64::MAX));
        answer.bulk(b"mode");
        answer.bulk(b"standalone");
        answer.bulk(b"role");
        answer.bulk(b"master");
        answer.bulk(b"modules");
        answer.array(0);
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
