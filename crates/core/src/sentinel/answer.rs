//! What Sentinels and servers answer.

use crate::cluster::Endpoint;
use crate::resp::{Reply, write_command};

/// What a server says that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary,
    /// It follows another, at the address that it knows it by.
    Replica(Option<Endpoint>),
    /// It is no server at all.
    Sentinel,
}

impl Role {
    /// Writes the question; it has one reply.
    pub fn ask(wire: &mut Vec<u8>) {
        write_command(wire, &[b"ROLE"]);
    }

    /// Reads the answer.
    ///
    /// # Errors
    /// The server's error, or that this is no answer to ROLE.
    pub fn read(reply: &[u8]) -> Result<Self, String> {
        let mut parts = match Reply::parse(reply) {
            Ok(Reply::Array(parts)) => parts,
            Ok(Reply::Error(error)) => return Err(String::from_utf8_lossy(error).into_owned()),
            _ => return Err(no_answer()),
        };
        match parts.next().and_then(Reply::bytes) {
            Some(b"master") => Ok(Self::Primary),
            Some(b"slave") => Ok(Self::Replica(endpoint(&mut parts))),
            Some(b"sentinel") => Ok(Self::Sentinel),
            _ => Err(no_answer()),
        }
    }
}

fn no_answer() -> String {
    "it does not answer ROLE as Redis and Valkey do".to_owned()
}

/// Of so many other Sentinels at most a Sentinel is believed that there are.
const MOST_OTHERS: usize = 16;

/// What a name of the domain name system takes at most, in bytes.
const LONGEST_HOST: usize = 255;

/// A host, and a port as text or as a number.
fn endpoint<'a>(parts: &mut impl Iterator<Item = Reply<'a>>) -> Option<Endpoint> {
    let host = std::str::from_utf8(parts.next()?.bytes()?).ok()?.to_owned();
    let port = match parts.next()? {
        Reply::Integer(port) => u16::try_from(port).ok()?,
        port => std::str::from_utf8(port.bytes()?).ok()?.parse().ok()?,
    };
    // What is found here is looked up, logged, and shown in INFO.
    let is_host = (1..=LONGEST_HOST).contains(&host.len())
        && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',' && byte != b'/');
    (is_host && port > 0).then_some(Endpoint { host, port })
}

/// What a Sentinel says of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Where the primary is that it knows by that name.
    Named(Endpoint),
    /// It knows no such name.
    Unknown,
    /// It answers by an error.
    Refused(String),
}

impl Answer {
    /// The reply to SENTINEL GET-MASTER-ADDR-BY-NAME.
    pub(super) fn read(reply: &[u8]) -> Self {
        match Reply::parse(reply) {
            Ok(Reply::Nil) => Self::Unknown,
            Ok(Reply::Error(error)) => Self::Refused(String::from_utf8_lossy(error).into_owned()),
            Ok(Reply::Array(mut parts)) => match endpoint(&mut parts) {
                Some(endpoint) => Self::Named(endpoint),
                None => Self::strange(),
            },
            _ => Self::strange(),
        }
    }

    fn strange() -> Self {
        Self::Refused("it does not answer SENTINEL GET-MASTER-ADDR-BY-NAME as Sentinels do".to_owned())
    }
}

/// The version of what a Sentinel says, in its reply to SENTINEL MASTER; 0 where it doesn't tell.
pub(super) fn config_epoch(reply: &[u8]) -> u64 {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse().ok();
    Reply::parse(reply).ok().and_then(|master| number(field(master, b"config-epoch")?)).unwrap_or(0)
}

/// The other Sentinels that a Sentinel knows, in its reply to SENTINEL SENTINELS; none where it doesn't tell. Those that
/// can't be reached as they announce themselves (port 0) are left out.
pub(super) fn others(reply: &[u8]) -> Option<Vec<Endpoint>> {
    let Ok(Reply::Array(all)) = Reply::parse(reply) else { return None };
    let at = |one| {
        let (host, port) = (field(one, b"ip")?, field(one, b"port")?);
        endpoint(&mut [Reply::Bulk(host), Reply::Bulk(port)].into_iter())
    };
    Some(all.filter_map(at).take(MOST_OTHERS).collect())
}

/// The names that a Sentinel knows, in its reply to SENTINEL MASTERS; none where it doesn't tell.
pub(super) fn names(reply: &[u8]) -> Option<Vec<String>> {
    let Ok(Reply::Array(masters)) = Reply::parse(reply) else { return None };
    masters.map(|master| field(master, b"name").map(|name| String::from_utf8_lossy(name).into_owned())).collect()
}

/// What stands under a name in pairs, which are a flat array in RESP2 and a map in RESP3.
fn field<'a>(pairs: Reply<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let (Reply::Array(mut pairs) | Reply::Map(mut pairs)) = pairs else { return None };
    loop {
        let (key, value) = (pairs.next()?.bytes()?, pairs.next()?.bytes()?);
        if key == name {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Endpoint {
        text.parse().unwrap()
    }

    #[test]
    fn roles_are_read() {
        let master = b"*3\r\n$6\r\nmaster\r\n:3129659\r\n*0\r\n";
        assert_eq!(Role::read(master), Ok(Role::Primary));
        let slave = b"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:9000\r\n$9\r\nconnected\r\n:3167038\r\n";
        assert_eq!(Role::read(slave), Ok(Role::Replica(Some(at("127.0.0.1:9000")))));
        assert_eq!(Role::read(b"*2\r\n$8\r\nsentinel\r\n*1\r\n$4\r\nmain\r\n"), Ok(Role::Sentinel));
        assert_eq!(Role::read(b"-NOPERM no\r\n"), Err("NOPERM no".to_owned()));
        for strange in [&b"*0\r\n"[..], b"+OK\r\n", b"?", b"*1\r\n$1\r\nx\r\n"] {
            assert!(Role::read(strange).is_err(), "{strange:?}");
        }
    }

    #[test]
    fn addresses_are_read_or_nobody_knows_the_name() {
        assert_eq!(Answer::read(b"*2\r\n$2\r\n::\r\n$4\r\n6379\r\n"), Answer::Named(at(":::6379")));
        assert_eq!(Answer::read(b"*-1\r\n"), Answer::Unknown);
        assert_eq!(Answer::read(b"_\r\n"), Answer::Unknown);
        assert_eq!(Answer::read(b"-NOAUTH no\r\n"), Answer::Refused("NOAUTH no".to_owned()));
        for strange in
            [&b"*2\r\n$1\r\na\r\n$1\r\n0\r\n"[..], b"*2\r\n$0\r\n\r\n$1\r\n1\r\n", b"*1\r\n$1\r\na\r\n", b":1\r\n"]
        {
            assert!(matches!(Answer::read(strange), Answer::Refused(why) if why.contains("as Sentinels do")));
        }
    }

    #[test]
    fn other_sentinels_are_read_as_far_as_they_make_sense() {
        let one = |host: &str, port: &str| {
            let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
            format!("*4\r\n{}{}{}{}", bulk("ip"), bulk(host), bulk("port"), bulk(port))
        };
        let read = |all: &[String]| others(format!("*{}\r\n{}", all.len(), all.concat()).as_bytes());
        let long = "h".repeat(256);
        let strange = [("", "1"), ("a", "0"), ("a", "65536"), ("a\r\nb", "1"), ("a,b", "1"), (&long, "1"), ("a", "x")];
        let mut all: Vec<String> = strange.iter().map(|(host, port)| one(host, port)).collect();
        all.extend(["*0\r\n".to_owned(), ":1\r\n".to_owned(), one("10.0.0.1", "26379"), one("::1", "2")]);
        assert_eq!(read(&all), Some(vec![at("10.0.0.1:26379"), at("[::1]:2")]));
        let many: Vec<String> = (1..1000).map(|port: u32| one("a", &port.to_string())).collect();
        assert_eq!(read(&many).map(|all| all.len()), Some(MOST_OTHERS));
        assert_eq!(read(&[]), Some(Vec::new()));
        assert_eq!(others(b"-NOPERM no\r\n"), None);
    }

    #[test]
    fn what_else_is_known_may_be_missing() {
        let master = "*4\r\n$4\r\nname\r\n$1\r\na\r\n$12\r\nconfig-epoch\r\n$2\r\n17\r\n";
        assert_eq!(config_epoch(master.as_bytes()), 17);
        assert_eq!(config_epoch(b"-ERR No such master with that name\r\n"), 0);
        assert_eq!(names(format!("*1\r\n{master}").as_bytes()), Some(vec!["a".to_owned()]));
        assert_eq!(names(b"*0\r\n"), Some(Vec::new()));
        assert_eq!(names(b"-NOPERM no\r\n"), None);
    }
}
