//! How a server is reached, for every subcommand that talks to one.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, Error, FromArgMatches};
use keyfold_core::cluster::AddressMap;
use keyfold_proxy::address::{AddressError, ServerAddress};

/// A server that is named nowhere is this one; `keyfold serve` starts one of its own instead.
pub(crate) const LOCAL_PORT: u16 = 6379;

const TLS: &str = "Server's TLS";
const SENTINELS: &str = "Server behind Sentinels";
const SETTINGS: &str = "Server's settings";

/// The way to it, beside its URL.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct WayFlags {
    /// Where a server is sought that Sentinels name by an address that can't be reached from here (NAT, containers):
    /// HOST:PORT=HOST:PORT, or HOST=HOST for all its ports; may be repeated
    #[arg(long, value_name = "FROM=TO", value_parser = parse_mapping, help_heading = SENTINELS)]
    pub(crate) map_address: Vec<String>,

    /// The authority that signed the server's certificate, PEM [default: those of the system]
    #[arg(long, value_name = "FILE", help_heading = TLS)]
    pub(crate) upstream_ca: Option<PathBuf>,

    /// A certificate to show to the server, PEM
    #[arg(long, value_name = "FILE", requires = "upstream_key", help_heading = TLS)]
    pub(crate) upstream_cert: Option<PathBuf>,

    /// The key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "upstream_cert", help_heading = TLS)]
    pub(crate) upstream_key: Option<PathBuf>,

    /// Take any certificate: encrypted, but no proof of whom one talks to
    #[arg(long, conflicts_with = "upstream_ca", help_heading = TLS)]
    pub(crate) upstream_insecure: bool,
}

/// The server, named by an argument or an option.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamFlags {
    /// None where neither the command line nor the environment names one.
    pub(crate) address: Option<ServerAddress>,
    pub(crate) way: WayFlags,
}

const URL_HELP: &str = "The server: redis://[user:password@]host:port[/db], or host:port alone; rediss://… for TLS, \
                        unix:///path[?db=n], or sentinel://[user:password@]host:port,host:port/NAME[/db] for the primary \
                        that Sentinels name [default: redis://127.0.0.1:6379]";

/// How that is typed.
#[derive(Args)]
struct Typed {
    #[arg(value_name = "URL", help = URL_HELP, value_parser = parse_server)]
    url: Option<ServerAddress>,

    /// The same as the argument URL
    #[arg(long, value_name = "URL", env = "KEYFOLD_UPSTREAM", hide_env_values = true, value_parser = parse_server)]
    upstream: Option<ServerAddress>,

    #[command(flatten)]
    way: WayFlags,
}

impl Args for UpstreamFlags {
    fn augment_args(command: Command) -> Command {
        Typed::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Typed::augment_args_for_update(command)
    }
}

impl FromArgMatches for UpstreamFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Typed { url, upstream, way } = Typed::from_arg_matches(matches)?;
        // The environment's gives way, which a conflict of clap's own would not let it.
        if url.is_some() && matches.value_source("upstream") == Some(ValueSource::CommandLine) {
            let said = "the server is named twice: write its URL as an argument or as --upstream";
            return Err(Error::raw(ErrorKind::ArgumentConflict, said));
        }
        Ok(Self { address: url.or(upstream), way })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// What the server's settings are, where it doesn't say.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SettingsFlags {
    /// What a setting of the server is, where CONFIG is blocked as on managed services: hash-max-listpack-value
    /// and hash-max-listpack-entries are asked for; jemalloc-quantum is the allocator's, where that isn't told
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting, help_heading = SETTINGS)]
    pub(crate) assume: Vec<(String, u64)>,
}

/// A server by its URL, or, as people name one in a hurry, by what stands in a URL behind `redis://`, or by the path of its
/// socket.
pub(crate) fn parse_server(text: &str) -> Result<ServerAddress, String> {
    let url = match text {
        _ if text.contains("://") => text.to_owned(),
        _ if text.starts_with('/') => format!("unix://{text}"),
        // `redis://6379` would be a host of that name.
        _ if text.parse::<u16>().is_ok() => return Err(format!("{text} is a port alone: write 127.0.0.1:{text}")),
        _ => format!("redis://{text}"),
    };
    url.parse().map_err(|error: AddressError| error.to_string())
}

fn parse_mapping(text: &str) -> Result<String, String> {
    AddressMap::default().add(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn parse_setting(text: &str) -> Result<(String, u64), String> {
    const ADVICE: &str = "write hash-max-listpack-value=64, hash-max-listpack-entries=512 or jemalloc-quantum=16";
    let (name, value) = text.split_once('=').ok_or(ADVICE)?;
    let name = name.to_ascii_lowercase().replace("ziplist", "listpack");
    let value: u64 = value.parse().map_err(|_| ADVICE)?;
    match name.as_str() {
        "hash-max-listpack-value" | "hash-max-listpack-entries" => Ok((name, value)),
        "jemalloc-quantum" if [8, 16].contains(&value) => Ok((name, value)),
        _ => Err(ADVICE.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use keyfold_proxy::address::Route;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        server: UpstreamFlags,
    }

    fn port(line: &[&str]) -> Result<Option<u16>, ErrorKind> {
        let line = Line::try_parse_from([&["keyfold"], line].concat()).map_err(|error| error.kind())?;
        Ok(line.server.address.map(|address| match address.route {
            Route::Tcp { port, .. } => port,
            Route::Unix(_) | Route::Sentinel { .. } | Route::Cluster { .. } => 0,
        }))
    }

    #[test]
    fn a_scheme_may_be_left_out() {
        for (short, url) in [
            ("127.0.0.1:6380", "redis://127.0.0.1:6380"),
            ("localhost", "redis://localhost:6379"),
            ("[::1]:7000/3", "redis://[::1]:7000"),
            ("app:secret@cache.internal", "redis://cache.internal:6379"),
            ("/run/redis.sock", "unix:///run/redis.sock"),
            ("rediss://cache:6380", "rediss://cache:6380"),
        ] {
            assert_eq!(parse_server(short).unwrap().to_string(), url, "{short}");
        }
        assert_eq!(parse_server("[::1]:7000/3").unwrap().database, 3);
        assert_eq!(parse_server("app:secret@cache").unwrap().user.as_deref(), Some("app"));
        assert!(parse_server("6379").unwrap_err().contains("127.0.0.1:6379"));
        for wrong in ["", "http://localhost", "localhost:port", "localhost:99999", "localhost/x", "my server"] {
            assert!(parse_server(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_server_is_named_by_an_argument_or_an_option() {
        assert_eq!(port(&["redis://a:1"]), Ok(Some(1)));
        assert_eq!(port(&["--upstream", "redis://a:2"]), Ok(Some(2)));
        assert_eq!(port(&["redis://a:1", "--upstream", "redis://a:2"]), Err(ErrorKind::ArgumentConflict));
    }
}
