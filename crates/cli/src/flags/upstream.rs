//! How a server is reached, for every subcommand that talks to one.

use std::path::PathBuf;

use clap::Args;
use keyfold_proxy::address::ServerAddress;

/// The server's address.
pub(crate) const UPSTREAM_HELP: &str =
    "The server: redis://[user:password@]host:port[/db], rediss://… for TLS, or unix:///path[?db=n]";

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server's TLS")]
pub(crate) struct UpstreamTlsFlags {
    /// The authority that signed the server's certificate, PEM [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub(crate) upstream_ca: Option<PathBuf>,

    /// A certificate to show to the server, PEM
    #[arg(long, value_name = "FILE", requires = "upstream_key")]
    pub(crate) upstream_cert: Option<PathBuf>,

    /// The key of that certificate, PEM
    #[arg(long, value_name = "FILE", requires = "upstream_cert")]
    pub(crate) upstream_key: Option<PathBuf>,

    /// Take any certificate: encrypted, but no proof of whom one talks to
    #[arg(long, conflicts_with = "upstream_ca")]
    pub(crate) upstream_insecure: bool,
}

/// A server that has to be named.
#[derive(Args, Clone, Debug)]
pub(crate) struct UpstreamFlags {
    #[arg(long, value_name = "URL", env = "KEYFOLD_UPSTREAM", hide_env_values = true, help = UPSTREAM_HELP)]
    pub(crate) upstream: ServerAddress,

    #[command(flatten)]
    pub(crate) tls: UpstreamTlsFlags,
}

/// What the server's settings are, where it doesn't say.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Server's settings")]
pub(crate) struct SettingsFlags {
    /// What a setting of the server is, where CONFIG is blocked as on managed services: hash-max-listpack-value
    /// and hash-max-listpack-entries are asked for
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) assume: Vec<(String, u64)>,
}

fn parse_setting(text: &str) -> Result<(String, u64), String> {
    const ADVICE: &str = "write hash-max-listpack-value=64 or hash-max-listpack-entries=512";
    let (name, value) = text.split_once('=').ok_or(ADVICE)?;
    let name = name.to_ascii_lowercase().replace("ziplist", "listpack");
    if !["hash-max-listpack-value", "hash-max-listpack-entries"].contains(&name.as_str()) {
        return Err(ADVICE.to_owned());
    }
    Ok((name, value.parse().map_err(|_| ADVICE)?))
}
