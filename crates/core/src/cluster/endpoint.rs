//! Where nodes take clients, and where they are to be sought instead.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// Where a node takes clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// A name or an address. An IPv6 address has no brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// No endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no HOST:PORT")]
pub struct NoEndpoint(String);

impl FromStr for Endpoint {
    type Err = NoEndpoint;

    /// Reads `host:port`, `1.2.3.4:5`, `[::1]:5`, and as servers write it `::1:5`.
    fn from_str(text: &str) -> Result<Self, NoEndpoint> {
        let no_endpoint = || NoEndpoint(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(no_endpoint)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        match port.parse() {
            Ok(port) if port > 0 && !host.is_empty() => Ok(Self { host: host.to_owned(), port }),
            _ => Err(no_endpoint()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

/// Where nodes are that announce themselves where nobody can reach them from here: behind NAT, in containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressMap {
    endpoints: BTreeMap<Endpoint, Endpoint>,
    hosts: BTreeMap<String, String>,
}

/// What can't be read as an entry of an [`AddressMap`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither HOST:PORT=HOST:PORT nor HOST=HOST")]
pub struct NoMapping(String);

impl AddressMap {
    /// Adds `10.0.0.1:6379=127.0.0.1:7001`, or `10.0.0.1=127.0.0.1` for all ports of a host.
    ///
    /// # Errors
    /// A text that is neither.
    pub fn add(&mut self, text: &str) -> Result<(), NoMapping> {
        let (from, to) = text.split_once('=').ok_or_else(|| NoMapping(text.to_owned()))?;
        match (host(from), host(to), from.parse(), to.parse()) {
            (Some(from), Some(to), ..) => _ = self.hosts.insert(from.to_owned(), to.to_owned()),
            (None, None, Ok(from), Ok(to)) => _ = self.endpoints.insert(from, to),
            _ => return Err(NoMapping(text.to_owned())),
        }
        Ok(())
    }

    /// Where a node is that announces itself at `endpoint`.
    pub fn find(&self, endpoint: Endpoint) -> Endpoint {
        if let Some(to) = self.endpoints.get(&endpoint) {
            return to.clone();
        }
        match self.hosts.get(&endpoint.host) {
            Some(host) => Endpoint { host: host.clone(), ..endpoint },
            None => endpoint,
        }
    }
}

/// The host, where there is no port behind it. An IPv6 address may stand in brackets.
fn host(text: &str) -> Option<&str> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let is_address = bare.parse::<Ipv6Addr>().is_ok();
    let is_name = !text.is_empty() && !text.contains([':', '=', '/', '[', ']']);
    (is_address || is_name).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_people_and_servers_write_them() {
        for (text, host, port) in
            [("a.example:6379", "a.example", 6379), ("[::1]:1", "::1", 1), ("::1:65535", "::1", 65535)]
        {
            let read: Endpoint = text.parse().unwrap();
            assert_eq!(read, Endpoint { host: host.to_owned(), port });
            assert_eq!(read.to_string().parse(), Ok(read));
        }
        for text in ["", "a", ":1", "a:", "a:0", "a:65536", "[]:1", "a:-1", "a:1 "] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn nodes_are_sought_where_they_can_be_reached() {
        let mut map = AddressMap::default();
        map.add("10.0.0.1:6379=127.0.0.1:7001").unwrap();
        map.add("10.0.0.1=gateway").unwrap();
        map.add("fd00::1=fd00::5").unwrap();
        map.add("[fd00::2]=gateway").unwrap();
        map.add("[fd00::1]:1=[fd00::9]:2").unwrap();
        let find = |text: &str| map.find(text.parse().unwrap()).to_string();
        assert_eq!(find("10.0.0.1:6379"), "127.0.0.1:7001");
        assert_eq!(find("10.0.0.1:6380"), "gateway:6380");
        assert_eq!(find("10.0.0.2:6379"), "10.0.0.2:6379");
        assert_eq!(find("[fd00::1]:1"), "[fd00::9]:2");
        assert_eq!(find("[fd00::1]:6379"), "[fd00::5]:6379");
        assert_eq!(find("fd00::2:6379"), "gateway:6379");
        for text in ["", "a", "a=", "=a", "a=b:1", "a:1=b", "a=b=c", "fd00::1=[fd00::5]:1"] {
            assert!(AddressMap::default().add(text).is_err(), "{text:?}");
        }
    }
}
