//! Where clients come in, and where the server is.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use keyfold_core::cluster::Endpoint;
use keyfold_core::sentinel::Sentinels;
use percent_encoding::percent_decode_str;
use url::Url;

/// A place to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// `127.0.0.1:6379`: plain TCP. Port 0 takes a free one.
    Tcp(SocketAddr),
    /// `tls://127.0.0.1:6380`: TLS over TCP, with the certificate of [`ClientTls`](crate::config::ClientTls).
    Tls(SocketAddr),
    /// `unix:///run/keyfold.sock`, `unix:/run/keyfold.sock`, or an absolute path: a unix socket.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether another machine can reach it.
    pub fn is_open(&self) -> bool {
        match self {
            Self::Tcp(address) | Self::Tls(address) => !address.ip().is_loopback(),
            Self::Unix(_) => false,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let socket = |text: &str| text.parse().map_err(|_| AddressError::Listen(text.to_owned()));
        if let Some(path) = text.strip_prefix("unix://").or_else(|| text.strip_prefix("unix:")) {
            Ok(Self::Unix(path.into()))
        } else if text.starts_with('/') {
            Ok(Self::Unix(text.into()))
        } else if let Some(address) = text.strip_prefix("tls://") {
            socket(address).map(Self::Tls)
        } else {
            socket(text.strip_prefix("tcp://").unwrap_or(text)).map(Self::Tcp)
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Tls(address) => write!(f, "tls://{address}"),
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

/// How to reach the server. [`Display`](fmt::Display) leaves the password out, so it may go to logs.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    /// The way there.
    pub route: Route,
    /// The user to authenticate as; `default` where a password comes without one.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
    /// The database that clients start in.
    pub database: u32,
}

/// The way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Over TCP, in the clear or by TLS.
    Tcp {
        /// A name or an address.
        host: String,
        /// The port.
        port: u16,
        /// Whether TLS is spoken.
        tls: bool,
    },
    /// Over a unix socket.
    Unix(PathBuf),
    /// Over TCP, to the nodes of a cluster.
    Cluster {
        /// Some of them, which are asked for the others.
        seeds: Vec<Endpoint>,
        /// Whether TLS is spoken.
        tls: bool,
    },
    /// Over TCP, to the primary that Sentinels name.
    Sentinel {
        /// Who is asked.
        sentinels: Arc<Sentinels>,
        /// Whether TLS is spoken with the servers.
        tls: bool,
        /// Whether TLS is spoken with the Sentinels.
        sentinel_tls: bool,
    },
}

/// The port of servers that are named without one.
const SERVER_PORT: u16 = 6379;

/// The port of Sentinels that are named without one.
const SENTINEL_PORT: u16 = 26379;

/// An address that can't be understood.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// A place to listen.
    #[error("can't listen on {0:?}: write an address and port (127.0.0.1:6379, tls://[::1]:6380) or unix:///path")]
    Listen(String),
    /// Not a URL.
    #[error(
        "the server's address is no URL ({0}): write redis://[user:password@]host:port[/db], rediss://…, unix:///path, \
         cluster://host:port,host:port or sentinel://host:port,host:port/NAME"
    )]
    Url(#[from] url::ParseError),
    /// A URL of another scheme.
    #[error(
        "the server's address starts with {0}://; keyfold knows redis://, rediss://, unix://, cluster://, \
         clusters://, sentinel:// and sentinels://"
    )]
    Scheme(String),
    /// No host or path.
    #[error("the server's address names no {0}")]
    Missing(&'static str),
    /// The database is no number.
    #[error("{0:?} in the server's address is no database number")]
    Database(String),
    /// A user or password whose escapes aren't UTF-8.
    #[error("the user or password in the server's address is not UTF-8 once its %-escapes are decoded")]
    Credentials,
    /// A user or password with characters that end what they stand in.
    #[error("the user or password in the server's address has a /, ? or #: write it %2F, %3F or %23")]
    Unescaped,
    /// The part of the URL that names a cluster's nodes.
    #[error(
        "{0} in the cluster's address: write cluster://[user:password@]host:port,host:port with some of its nodes, or \
         clusters:// for TLS"
    )]
    Cluster(String),
    /// The Sentinels' part of the URL.
    #[error(
        "{0} in the Sentinels' address: write sentinel://[user:password@]host:port,host:port/NAME[/db] with the server's \
         user and password; the Sentinels' own are ?sentinel_username=…&sentinel_password=…"
    )]
    Sentinels(String),
}

impl ServerAddress {
    /// Whether TLS is spoken on the way there, with the server or with who says where it is.
    pub fn speaks_tls(&self) -> bool {
        match &self.route {
            Route::Tcp { tls, .. } | Route::Cluster { tls, .. } => *tls,
            Route::Sentinel { tls, sentinel_tls, .. } => *tls || *sentinel_tls,
            Route::Unix(_) => false,
        }
    }

    /// The Sentinels that say where the server is, where it is they who do.
    pub fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match &self.route {
            Route::Sentinel { sentinels, .. } => Some(sentinels),
            Route::Tcp { .. } | Route::Cluster { .. } | Route::Unix(_) => None,
        }
    }
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if has_unescaped_login(text) {
            return Err(AddressError::Unescaped);
        }
        if let Some((scheme @ ("sentinel" | "sentinels" | "redis+sentinel" | "rediss+sentinel"), rest)) =
            text.split_once("://")
        {
            return parse_sentinels(rest, matches!(scheme, "sentinels" | "rediss+sentinel"));
        }
        if let Some((scheme @ ("cluster" | "clusters" | "redis+cluster" | "rediss+cluster"), rest)) =
            text.split_once("://")
        {
            return parse_cluster(rest, matches!(scheme, "clusters" | "rediss+cluster"));
        }
        let url = Url::parse(text)?;
        let (route, database) = match url.scheme() {
            "redis" | "rediss" => (parse_tcp(&url)?, url.path().trim_start_matches('/').to_owned()),
            "unix" | "redis+unix" => {
                let named = url.query_pairs().find(|(name, _)| name == "db").map(|(_, value)| value.into_owned());
                (parse_unix(&url)?, named.unwrap_or_default())
            }
            other => return Err(AddressError::Scheme(other.to_owned())),
        };
        let (user, password) = credentials(&url)?;
        Ok(Self { route, user, password, database: parse_database(&database)? })
    }
}

/// Whether an `@` stands behind what should be the login and the host, though neither databases nor names have one.
fn has_unescaped_login(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let tail = &rest[rest.find(['/', '?', '#']).unwrap_or(rest.len())..];
    match scheme.contains("sentinel") {
        // Sentinels' passwords stand in the query.
        true => tail.split('?').next().is_some_and(|path| path.contains('@')),
        false => !scheme.contains("unix") && tail.contains('@'),
    }
}

fn parse_database(text: &str) -> Result<u32, AddressError> {
    match text {
        "" => Ok(0),
        number => number.parse().map_err(|_| AddressError::Database(text.to_owned())),
    }
}

fn credentials(url: &Url) -> Result<(Option<String>, Option<String>), AddressError> {
    let user = Some(url.username()).filter(|user| !user.is_empty()).map(decode).transpose()?;
    Ok((user, url.password().map(decode).transpose()?))
}

/// What stands behind the scheme. A URL has one host, so the others are taken out before it is read as one.
fn parse_sentinels(rest: &str, tls: bool) -> Result<ServerAddress, AddressError> {
    let wrong = |what: String| AddressError::Sentinels(what);
    let (endpoints, url) = parse_many(rest, SENTINEL_PORT).map_err(wrong)?;
    let url = Url::parse(&url)?;
    let (user, password) = credentials(&url)?;
    let (name, database) = match url.path().trim_matches('/').split_once('/') {
        Some((name, database)) => (name, database),
        None => (url.path().trim_matches('/'), ""),
    };
    if name.is_empty() {
        return Err(wrong("no NAME of a primary".to_owned()));
    }
    let mut sentinels = Sentinels { endpoints, name: decode(name)?, user: None, password: None };
    let mut sentinel_tls = tls;
    for (option, value) in url.query_pairs() {
        match (option.as_ref(), value.as_ref()) {
            ("sentinel_username", user) => sentinels.user = Some(user.to_owned()),
            ("sentinel_password", password) => sentinels.password = Some(password.to_owned()),
            ("sentinel_tls", "yes" | "true" | "1") => sentinel_tls = true,
            ("sentinel_tls", "no" | "false" | "0") => sentinel_tls = false,
            ("sentinel_tls", _) => return Err(wrong("sentinel_tls is neither yes nor no".to_owned())),
            (other, _) => return Err(wrong(format!("unknown option {other:?}"))),
        }
    }
    let route = Route::Sentinel { sentinels: Arc::new(sentinels), tls, sentinel_tls };
    Ok(ServerAddress { route, user, password, database: parse_database(database)? })
}

/// What stands behind the scheme of a cluster.
fn parse_cluster(rest: &str, tls: bool) -> Result<ServerAddress, AddressError> {
    let (seeds, url) = parse_many(rest, SERVER_PORT).map_err(AddressError::Cluster)?;
    let url = Url::parse(&url)?;
    let (user, password) = credentials(&url)?;
    if let Some((option, _)) = url.query_pairs().next() {
        return Err(AddressError::Cluster(format!("unknown option {option:?}")));
    }
    let database = parse_database(url.path().trim_matches('/'))?;
    Ok(ServerAddress { route: Route::Cluster { seeds, tls }, user, password, database })
}

/// The hosts in what stands behind a scheme, and a URL with the rest: a URL has one host.
fn parse_many(rest: &str, default_port: u16) -> Result<(Vec<Endpoint>, String), String> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (login, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
    let endpoint = |text: &str| {
        let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let with_port = if has_port { text.to_owned() } else { format!("{text}:{default_port}") };
        with_port.parse().map_err(|_| format!("{text:?} is no host and port"))
    };
    let endpoints = hosts.split(',').map(endpoint).collect::<Result<_, _>>()?;
    Ok((endpoints, format!("many://{login}@hosts{tail}")))
}

fn parse_tcp(url: &Url) -> Result<Route, AddressError> {
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(AddressError::Missing("host"))?;
    // The brackets of an IPv6 address belong to the URL, not to the address.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Route::Tcp { host, port: url.port().unwrap_or(SERVER_PORT), tls: url.scheme() == "rediss" })
}

fn parse_unix(url: &Url) -> Result<Route, AddressError> {
    match url.path() {
        "" | "/" => Err(AddressError::Missing("path")),
        path => Ok(Route::Unix(decode(path)?.into())),
    }
}

fn decode(text: &str) -> Result<String, AddressError> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| AddressError::Credentials)
}

impl ServerAddress {
    /// Where it is, without how it is spoken to: `host:port`, as the nodes of a cluster are named.
    pub(crate) fn place(&self) -> String {
        match &self.route {
            Route::Tcp { host, port, .. } => Endpoint { host: host.clone(), port: *port }.to_string(),
            Route::Unix(path) => path.display().to_string(),
            Route::Cluster { .. } | Route::Sentinel { .. } => self.to_string(),
        }
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.route {
            Route::Tcp { host, port, tls } => {
                let scheme = if *tls { "rediss" } else { "redis" };
                if host.contains(':') {
                    write!(f, "{scheme}://[{host}]:{port}")
                } else {
                    write!(f, "{scheme}://{host}:{port}")
                }
            }
            Route::Unix(path) => write!(f, "unix://{}", path.display()),
            Route::Cluster { seeds, tls } => {
                let seeds: Vec<String> = seeds.iter().map(ToString::to_string).collect();
                write!(f, "{}://{}", if *tls { "clusters" } else { "cluster" }, seeds.join(","))
            }
            Route::Sentinel { sentinels, tls, sentinel_tls } => {
                write!(f, "{}://{sentinels}", if *tls { "sentinels" } else { "sentinel" })?;
                match (tls, sentinel_tls) {
                    (true, false) => f.write_str("?sentinel_tls=no"),
                    (false, true) => f.write_str("?sentinel_tls=yes"),
                    _ => Ok(()),
                }
            }
        }
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerAddress({self}, user {:?}, database {})", self.user, self.database)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_addresses() {
        let parse = |text: &str| text.parse::<ServerAddress>().unwrap();
        let tcp = |host: &str, port, tls| Route::Tcp { host: host.to_owned(), port, tls };
        assert_eq!(parse("redis://cache").route, tcp("cache", 6379, false));
        assert_eq!(parse("rediss://[::1]:7000/3").route, tcp("::1", 7000, true));
        assert_eq!(parse("rediss://[::1]:7000/3").database, 3);
        assert_eq!(parse("unix:///run/redis.sock?db=2").route, Route::Unix("/run/redis.sock".into()));
        assert_eq!(parse("redis+unix:///run/redis.sock").database, 0);
        let full = parse("redis://app:p%40ss@h:1");
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("app"), Some("p@ss")));
        assert_eq!(parse("redis://:secret@h").user, None);
        for url in ["redis://a:b/c@h", "rediss://:1#2@h:3", "cluster://a:b?@h:1,i:2", "sentinel://a:b/c@h:1/main"] {
            assert_eq!(
                url.parse::<ServerAddress>().unwrap_err().to_string(),
                AddressError::Unescaped.to_string(),
                "{url}"
            );
        }
    }

    #[test]
    fn sentinels_and_the_server_have_users_of_their_own() {
        let parse = |text: &str| text.parse::<ServerAddress>().unwrap();
        let sentinels = |address: &ServerAddress| Sentinels::clone(address.sentinels().unwrap());
        let plain = parse("sentinel://a:1,b,[::1]:3,[::2]/main");
        let endpoints: Vec<String> = sentinels(&plain).endpoints.iter().map(ToString::to_string).collect();
        assert_eq!(endpoints, ["a:1", "b:26379", "[::1]:3", "[::2]:26379"]);
        assert_eq!(plain.to_string(), "sentinel://a:1,b:26379,[::1]:3,[::2]:26379/main");
        assert_eq!((sentinels(&plain).name.as_str(), plain.database, plain.speaks_tls()), ("main", 0, false));

        let full = parse("sentinel://app:p%40,s@a:1,b:2/my%20main/3?sentinel_username=w&sentinel_password=h%26sh");
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("app"), Some("p@,s")));
        assert_eq!((sentinels(&full).user.as_deref(), sentinels(&full).password.as_deref()), (Some("w"), Some("h&sh")));
        assert_eq!((sentinels(&full).name.as_str(), full.database), ("my main", 3));
        assert!(!format!("{full:?}").contains("h&sh"), "{full:?}");

        let tls = |text: &str| match parse(text).route {
            Route::Sentinel { tls, sentinel_tls, .. } => (tls, sentinel_tls),
            other => panic!("{other:?}"),
        };
        assert_eq!(tls("sentinels://a/main"), (true, true));
        assert_eq!(tls("rediss+sentinel://a/main?sentinel_tls=no"), (true, false));
        assert_eq!(tls("redis+sentinel://a/main?sentinel_tls=yes"), (false, true));
        for url in
            ["sentinel://a:1/main?sentinel_tls=yes", "sentinels://a:1/main?sentinel_tls=no", "sentinels://a:1/main"]
        {
            assert_eq!(parse(url).to_string(), url);
        }
    }

    #[test]
    fn a_cluster_is_named_by_some_of_its_nodes() {
        let parse = |text: &str| text.parse::<ServerAddress>().unwrap();
        let full = parse("clusters://app:p%40,s@a:1,b,[::1]:3");
        assert_eq!(full.to_string(), "clusters://a:1,b:6379,[::1]:3");
        assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("app"), Some("p@,s")));
        assert!(full.speaks_tls() && !parse("cluster://a").speaks_tls());
        for wrong in ["cluster://", "cluster://a,,b", "cluster://a:x", "cluster://a/x", "cluster://a?b=c"] {
            assert!(wrong.parse::<ServerAddress>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_password_is_never_shown() {
        let address: ServerAddress = "redis://app:hush@h:1".parse().unwrap();
        assert_eq!(address.to_string(), "redis://h:1");
        assert!(!format!("{address:?}").contains("hush"));
    }

    #[test]
    fn wrong_addresses_say_what_is_wrong() {
        let error = |text: &str| text.parse::<ServerAddress>().unwrap_err().to_string();
        assert!(error("localhost:6379").contains("localhost://"));
        assert!(error("redis://h/x").contains("no database number"));
        assert!(error("unix://").contains("names no path"));
        assert!(error("sentinel://a:1,b:2").contains("no NAME"));
        assert!(error("sentinel://a:1,/main").contains("\"\" is no host"));
        assert!(error("sentinel://a:x/main").contains("\"a:x\" is no host"));
        assert!(error("sentinel://a/main/x").contains("no database number"));
        assert!(error("sentinel://a/main?sentinel_pasword=x").contains("sentinel_pasword"));
        assert!("6379".parse::<ListenAddress>().is_err());
    }

    #[test]
    fn listen_addresses() {
        let parse = |text: &str| text.parse::<ListenAddress>().unwrap();
        assert!(parse("0.0.0.0:6379").is_open());
        assert!(!parse("tls://[::1]:6379").is_open());
        for text in ["127.0.0.1:6379", "tls://[::1]:6380", "unix:///run/keyfold.sock"] {
            assert_eq!(parse(text).to_string(), text);
        }
    }
}
