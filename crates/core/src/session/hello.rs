//! HELLO and AUTH: who the client is, and which protocol it speaks.

use crate::exchange::{Env, Exchange, Hello, Io, UnderWay};
use crate::resp::word::is_word;
use crate::resp::{Answer, Protocol, write_command};
use crate::session::{Begun, Hold, Session};

pub(crate) const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the default user. \
                           Are you sure your configuration is correct?";

const NOT_AUTHENTICATED: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
    HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol \
    version at the same time";

/// What is wrong with a HELLO.
#[derive(Debug)]
pub(crate) enum HelloError {
    /// The password of the user of this name.
    Password(Vec<u8>),
    /// Something else: the error that answers it.
    Other(String),
}

impl From<&str> for HelloError {
    fn from(message: &str) -> Self {
        Self::Other(message.to_owned())
    }
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

    /// The server answers HELLO with what it is; once it has, the client is who it says.
    pub(crate) fn hello(&self, hello: Hello, io: &mut Io<'_>) -> Begun {
        let number: &[u8] = if hello.protocol == Protocol::Resp3 { b"3" } else { b"2" };
        write_command(io.wire, &[b"HELLO", number]);
        let (id, mode) = (self.peer.id, self.front.mode());
        let exchange = Exchange(UnderWay::Hello { id, mode, hello: Some(Box::new(hello)) });
        Begun::Sent { exchange, replies: 1, hold: Hold::All }
    }

    /// The client is who HELLO said, and speaks the protocol from here on.
    pub(crate) fn be(&mut self, hello: Hello) {
        self.protocol = hello.protocol;
        self.set_user(Some(hello.user));
        if let Some(name) = hello.name {
            self.entry().words().name = name;
        }
    }

    /// What HELLO [protocol [AUTH user password] [SETNAME name]] asks for.
    pub(crate) fn read_hello(&self, args: &[&[u8]], env: &Env<'_>) -> Result<Hello, HelloError> {
        let protocol = match args.get(1) {
            None => self.protocol,
            Some(&b"2") => Protocol::Resp2,
            Some(&b"3") => Protocol::Resp3,
            Some(text) if std::str::from_utf8(text).is_ok_and(|text| text.parse::<i64>().is_ok()) => {
                return Err("NOPROTO unsupported protocol version".into());
            }
            Some(_) => return Err("ERR Protocol version is not an integer or out of range".into()),
        };
        let (mut user, mut shown_name) = (self.user.clone(), None);
        let mut options = args.get(2..).unwrap_or_default();
        while let Some((option, rest)) = options.split_first() {
            options = match rest {
                [name, password, rest @ ..] if is_word(option, "auth") => {
                    let known = env.users.authenticate(name, password);
                    user = Some(known.ok_or_else(|| HelloError::Password(name.to_vec()))?);
                    rest
                }
                [name, rest @ ..] if is_word(option, "setname") => {
                    shown_name = Some(valid_name(name)?.to_vec());
                    rest
                }
                _ => {
                    let error = format!("ERR Syntax error in HELLO option '{}'", option.escape_ascii());
                    return Err(HelloError::Other(error));
                }
            };
        }
        let user = user.ok_or(NOT_AUTHENTICATED)?;
        if protocol != self.protocol && self.has_own_state() {
            return Err("ERR keyfold: the protocol can't change while keys are watched or channels subscribed".into());
        }
        Ok(Hello { protocol, user, name: shown_name })
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
