//! Why no primary was found.

use std::fmt;

use crate::cluster::Endpoint;

/// What stands against one Sentinel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It doesn't answer.
    Silent(String),
    /// It answers by an error.
    Refused(String),
    /// It doesn't know the name, but these; none where it doesn't tell.
    Unknown(Option<Vec<String>>),
    /// It names a server that says that it is a replica of another.
    Replica(Endpoint, Option<Endpoint>),
    /// It names a server that can't be asked, or doesn't let in.
    Unfit(Endpoint, String),
}

/// No server was found that a Sentinel names and that says that it is the primary.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoPrimary {
    /// The name that was asked for.
    pub name: String,
    /// What stands against each Sentinel's answer, in the order in which they were asked.
    pub troubles: Vec<(Endpoint, Trouble)>,
}

impl NoPrimary {
    /// Whether it was found out that the server at `endpoint` is no primary.
    pub fn denies(&self, endpoint: &Endpoint) -> bool {
        self.troubles.iter().any(|(_, trouble)| matches!(trouble, Trouble::Replica(server, _) if server == endpoint))
    }

    /// What came of it at best: who got furthest says most of what is wrong.
    fn headline(&self) -> String {
        let any = |is: fn(&Trouble) -> bool| self.troubles.iter().any(|(_, trouble)| is(trouble));
        if any(|trouble| matches!(trouble, Trouble::Unfit(..))) {
            "the server that Sentinels name can't be used".to_owned()
        } else if any(|trouble| matches!(trouble, Trouble::Replica(..))) {
            "the server that Sentinels name says that it is a replica".to_owned()
        } else if any(|trouble| matches!(trouble, Trouble::Unknown(_))) {
            format!("the Sentinels don't know {:?}", self.name)
        } else if any(|trouble| matches!(trouble, Trouble::Refused(_))) {
            "the Sentinels refuse to be asked".to_owned()
        } else {
            "no Sentinel answers".to_owned()
        }
    }
}

impl fmt::Display for NoPrimary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        let mut told: Vec<&Trouble> = Vec::new();
        for (_, trouble) in &self.troubles {
            if told.contains(&trouble) {
                continue;
            }
            f.write_str(if told.is_empty() { ": " } else { "; " })?;
            let alike = self.troubles.iter().filter(|(_, other)| other == trouble);
            for (index, (sentinel, _)) in alike.enumerate() {
                write!(f, "{}{sentinel}", if index == 0 { "" } else { ", " })?;
            }
            write!(f, ": {trouble}")?;
            told.push(trouble);
        }
        Ok(())
    }
}

impl fmt::Display for Trouble {
    /// Reads on after the addresses of those who say so.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent(why) => f.write_str(why),
            Self::Refused(error) => write!(f, "{error}{}", advice(error)),
            Self::Unknown(None) => f.write_str("not known there"),
            Self::Unknown(Some(names)) if names.is_empty() => f.write_str("nothing is known there"),
            Self::Unknown(Some(names)) => write!(f, "known there: {}", names.join(", ")),
            Self::Replica(server, None) => write!(f, "named {server}, a replica"),
            Self::Replica(server, Some(of)) => write!(f, "named {server}, a replica of {of}"),
            Self::Unfit(server, why) => write!(f, "named {server} ({why})"),
        }
    }
}

/// What to do about a Sentinel's error.
fn advice(error: &str) -> &'static str {
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if says(&["NOAUTH", "WRONGPASS", "invalid password", "AUTH <password>"]) {
        " (a Sentinel's own user and password are sentinel_username and sentinel_password in the URL)"
    } else if says(&["unknown command"]) {
        " (is that a Sentinel? A server without one is redis://HOST:PORT)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    fn said(troubles: Vec<(&str, Trouble)>) -> String {
        let troubles = troubles.into_iter().map(|(sentinel, trouble)| (at(sentinel), trouble)).collect();
        NoPrimary { name: "main".to_owned(), troubles }.to_string()
    }

    #[test]
    fn the_error_says_what_each_sentinel_said() {
        let silent = || Trouble::Silent("connection refused".to_owned());
        assert_eq!(
            said(vec![("a:1", silent()), ("b:2", silent())]),
            "no Sentinel answers: a:1, b:2: connection refused"
        );
        let names = vec!["cache".to_owned(), "queue".to_owned()];
        assert_eq!(
            said(vec![("a:1", Trouble::Unknown(Some(names))), ("b:2", silent()), ("c:3", Trouble::Unknown(None))]),
            "the Sentinels don't know \"main\": a:1: known there: cache, queue; b:2: connection refused; c:3: not known \
             there"
        );
        assert_eq!(
            said(vec![("a:1", Trouble::Replica(at("r:7"), Some(at("p:7")))), ("b:2", Trouble::Unknown(None))]),
            "the server that Sentinels name says that it is a replica: a:1: named r:7, a replica of p:7; b:2: not known there"
        );
        let wrong = "WRONGPASS invalid username-password pair";
        assert!(said(vec![("a:1", Trouble::Refused(wrong.to_owned()))]).contains("sentinel_password in the URL"));
        let at_server = said(vec![("a:1", Trouble::Unfit(at("p:7"), wrong.to_owned()))]);
        assert_eq!(at_server, format!("the server that Sentinels name can't be used: a:1: named p:7 ({wrong})"));
    }
}
