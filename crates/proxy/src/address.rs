//! Where clients come in, and where the server is.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

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
}

/// An address that can't be understood.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// A place to listen.
    #[error("can't listen on {0:?}: write an address and port (127.0.0.1:6379, tls://[::1]:6380) or unix:///path")]
    Listen(String),
    /// Not a URL.
    #[error(
        "the server's address is no URL ({0}): write redis://[user:password@]host:port[/db], rediss://… or unix:///path"
    )]
    Url(#[from] url::ParseError),
    /// A URL of another scheme.
    #[error("the server's address starts with {0}://; keyfold knows redis://, rediss:// and unix://")]
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
}

impl FromStr for ServerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let url = Url::parse(text)?;
        let (route, database) = match url.scheme() {
            "redis" | "rediss" => (parse_tcp(&url)?, url.path().trim_start_matches('/').to_owned()),
            "unix" | "redis+unix" => {
                let named = url.query_pairs().find(|(name, _)| name == "db").map(|(_, value)| value.into_owned());
                (parse_unix(&url)?, named.unwrap_or_default())
            }
            other => return Err(AddressError::Scheme(other.to_owned())),
        };
        let database = match database.as_str() {
            "" => 0,
            number => number.parse().map_err(|_| AddressError::Database(database))?,
        };
        let user = Some(url.username()).filter(|user| !user.is_empty()).map(decode).transpose()?;
        let password = url.password().map(decode).transpose()?;
        Ok(Self { route, user, password, database })
    }
}

fn parse_tcp(url: &Url) -> Result<Route, AddressError> {
    let host = url.host_str().filter(|host| !host.is_empty()).ok_or(AddressError::Missing("host"))?;
    // The brackets of an IPv6 address belong to the URL, not to the address.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok(Route::Tcp { host, port: url.port().unwrap_or(6379), tls: url.scheme() == "rediss" })
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
